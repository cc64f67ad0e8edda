"""What `difftest schedule` does, as functions. No printing, no argument parsing."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import Any

from difftest import toolchains
from difftest.commands_triage import Request, completed
from difftest.errors import ReadError, UsageError
from difftest.ir.reader import read_module
from difftest.model import OutcomeKind, Pipeline
from difftest.oracle.compare import compare
from difftest.oracle.judge import Reference
from difftest.oracle.load import load_program, prepare_sized
from difftest.report.plain import fault_line
from difftest.session import open_ready
from difftest.targets.base import Target
from difftest.targets.pipelines import format_pipeline, join, leaves, resolve
from difftest.triage.concurrent import concurrent_form, hoist_allocations
from difftest.triage.launches import Watched, watch_launches
from difftest.triage.schedule import LaunchSchedule, schedule_of
from difftest.triage.schedule_text import schedule_lines, schedule_svg


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """A schedule of a changed program, and whether it still computes the same."""

    name: str
    schedule: LaunchSchedule
    agrees: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleReport:
    """The schedule of a compiled program and of what could be made of it. `note` says what was cut off."""

    entry: str
    target: str
    pipeline: str
    schedule: LaunchSchedule
    agrees: bool | None
    variants: tuple[Variant, ...] = ()
    note: str = ""

    @property
    def exit_code(self) -> int:
        """1 when a dependency is missing; lost parallelism is no finding."""
        return 1 if self.schedule.races else 0

    def as_json(self) -> dict[str, Any]:
        """One JSON object."""
        return {
            "entry": self.entry,
            "target": self.target,
            "pipeline": self.pipeline,
            "verdict": "race" if self.schedule.races else "ok",
            "agrees": self.agrees,
            "note": self.note,
            **self.schedule.as_json(),
            "variants": [{"name": v.name, "agrees": v.agrees, **v.schedule.as_json()} for v in self.variants],
        }

    def as_text(self) -> str:
        """Some lines for people."""
        lines = [f"@{self.entry} on {self.target} [{self.pipeline}]: {_agreement(agrees=self.agrees)}"]
        lines += schedule_lines(self.schedule)
        fault = self.schedule.outcome.fault
        if fault is not None:
            lines.append(f"  the run ended early: {fault_line(fault)}")
        for variant in self.variants:
            lines += ["", f"{variant.name}: {_agreement(agrees=variant.agrees)}", *schedule_lines(variant.schedule)]
        if self.note:
            lines.append(f"  ({self.note})")
        return "\n".join(lines)

    def as_svg(self) -> str:
        """The schedule as a picture."""
        return schedule_svg(self.schedule, title=f"@{self.entry} on {self.target}")


def _agreement(*, agrees: bool | None) -> str:
    return {True: "agrees with the reference", False: "DIFFERS from the reference", None: "not compared"}[agrees]


def schedule_file(request: Request, *, progress: toolchains.Progress | None = None) -> ScheduleReport:
    """The launch schedule of the compiled program: what orders its launches, what has to, and what could be.

    A pipeline that ends below what the interpreter runs is cut after its last step that can be watched.
    """
    label, text = completed(request)
    with closing(open_ready(label, progress=progress)) as target:
        program = load_program(request.path, entry=request.entry, inputs=request.inputs, prefer=(target.label,))
        reference, note = prepare_sized(program)
        pipeline = resolve(text, target.label)
        watched, used = _watch_last(reference, target, pipeline, request.timeout)
        if used != leaves(pipeline.text):
            note = "; ".join([*([note] if note else []), f"watched after {used[-1] if used else 'no pass'}"])
        schedule = schedule_of(watched)
        variants: list[Variant] = []
        if schedule.needless:
            passes = Pipeline(text=join(used), env=pipeline.env)
            variants = _variants(reference, target, passes, watched, request.timeout)
        return ScheduleReport(
            entry=program.entry,
            target=target.label,
            pipeline=pipeline.name or format_pipeline(pipeline),
            schedule=schedule,
            agrees=_agrees(reference, watched),
            variants=tuple(variants),
            note=note,
        )


def _watch(reference: Reference, text: str) -> Watched | None:
    try:
        module = read_module(text)
    except ReadError:
        return None
    return watch_launches(module, entry=reference.program.entry, arguments=reference.arguments)


def _watch_last(
    reference: Reference, target: Target, pipeline: Pipeline, timeout: float
) -> tuple[Watched, tuple[str, ...]]:
    """The run of the last step that has device operations and can be run, and the passes that led to it."""
    elements = leaves(pipeline.text)
    single = Pipeline(text=join(elements), env=pipeline.env)
    result = target.lower(reference.program.text, single, stages=True, timeout=timeout)
    stages = result.artifact.stages if result.artifact is not None else result.stages
    texts = [reference.program.text, *(stage.text for stage in stages)]
    last: Watched | None = None
    for count in range(len(texts) - 1, -1, -1):
        watched = _watch(reference, texts[count])
        if watched is not None and watched.operations and watched.outcome.kind is OutcomeKind.OK:
            return watched, elements[:count]
        last = last or watched
    failure = result.failure
    if failure is not None:
        raise UsageError(f"{target.label} does not compile it: {failure.diagnostic or failure.kind}")
    fault = None if last is None else last.outcome.fault
    raise UsageError(
        f"no launch is found after any pass of {format_pipeline(pipeline)}"
        + ("" if fault is None else f"; the last step does not run: {fault_line(fault)}")
    )


def _agrees(reference: Reference, watched: Watched) -> bool | None:
    if not reference.usable or watched.outcome.kind is not OutcomeKind.OK:
        return None
    return compare(reference.outcome, watched.outcome).difference is None


def _variants(
    reference: Reference, target: Target, pipeline: Pipeline, watched: Watched, timeout: float
) -> list[Variant]:
    texts: list[tuple[str, str | None]] = []
    hoisted = hoist_allocations(reference.program.text, reference.program.entry)
    if hoisted is not None:
        result = target.lower(hoisted, pipeline, timeout=timeout)
        texts.append(("allocations hoisted in the source, same passes", result.artifact and result.artifact.text))
    form = concurrent_form(watched)
    if form is not None and target.verify(form) is None:
        texts.append(("allocations hoisted after the passes, and tokens only where needed", form))
    found: list[Variant] = []
    for name, text in texts:
        again = None if text is None else _watch(reference, text)
        if again is not None:
            found.append(Variant(name=name, schedule=schedule_of(again), agrees=_agrees(reference, again)))
    return found

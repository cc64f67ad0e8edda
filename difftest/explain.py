"""What `difftest interpret` can tell beyond results: traces, outcomes after each pass, and repairs of bad programs."""

from __future__ import annotations

import time
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from corpus.header import parameter_names
from difftest import toolchains
from difftest.errors import ReadError, UsageError
from difftest.inputs import make_arguments
from difftest.interpreter import interpret
from difftest.interpreter.tracing import Traced, Tracer
from difftest.ir.reader import read_module
from difftest.ir.types import IndexType, IntegerType, MemRefType, PointerType, Type
from difftest.model import InputSpec, Outcome, OutcomeKind, Pipeline, Program, Schedule, Verdict, VerdictKind
from difftest.oracle.judge import Reference, entry_types, execute, outcome_verdict
from difftest.oracle.load import load_program, prepare_sized
from difftest.repair import Suggestion, suggest
from difftest.report.plain import difference_json, fault_json, fault_line
from difftest.session import InterpretReport, open_ready
from difftest.targets.pipelines import join, leaves, resolve


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What to execute: `inputs` is a header's text or the path of an .npz file, `shapes` are NAME=SIZE texts."""

    file: Path
    entry: str | None = None
    inputs: str | None = None
    shapes: tuple[str, ...] = ()
    seed: int | None = None
    schedule: Schedule = Schedule.LOCK_STEP


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """An execution with what was asked for about it."""

    report: InterpretReport
    trace: tuple[Traced, ...] = ()
    dropped: int = 0
    suggestions: tuple[Suggestion, ...] = ()

    @property
    def exit_code(self) -> int:
        """That of the execution."""
        return self.report.exit_code

    def as_json(self) -> dict[str, Any]:
        """One JSON object."""
        return self.report.as_json() | {
            "trace": [t.as_text() for t in self.trace],
            "trace_dropped": self.dropped,
            "suggestions": [s.as_json() for s in self.suggestions],
        }

    def as_text(self) -> str:
        """The trace, the execution, then the suggestions."""
        lines = [t.as_text() for t in self.trace]
        if self.dropped:
            lines.append(f"… {self.dropped} more")
        lines.append(self.report.as_text())
        lines += [f"  repair: {s.change}" + ("" if s.verified else " (not tried)") for s in self.suggestions]
        return "\n".join(lines)


def explain(request: Request, *, trace: Iterable[str] = (), repair: bool = False) -> Explanation:
    """Execute a file in source mode; `trace` names ops to record, `repair` looks for a change that makes it valid."""
    reference, note = prepare_request(request)
    tracer = Tracer(trace)
    start = time.monotonic()
    outcome = reference.outcome
    if tracer.names:
        outcome = _run(reference, request.schedule, tracer)
    report = InterpretReport(program=reference.program, outcome=outcome, seconds=time.monotonic() - start, note=note)
    found = suggest(reference) if repair and outcome.kind in {OutcomeKind.UB, OutcomeKind.RACE} else ()
    return Explanation(report=report, trace=tuple(tracer.records), dropped=tracer.dropped, suggestions=tuple(found))


def _run(reference: Reference, schedule: Schedule, tracer: Tracer) -> Outcome:
    return interpret(
        reference.module,
        entry=reference.program.entry,
        arguments=reference.arguments,
        schedule=schedule,
        tracer=tracer,
    )


# --- inputs ---------------------------------------------------------------------------------------------------


def prepare_request(request: Request, *, prefer: Sequence[str] = ()) -> tuple[Reference, str]:
    """The reference execution of a request, and a note about sizes that were chosen.

    Raises UsageError in one line for inputs that do not fit.
    """
    arrays = request.inputs if request.inputs is not None and request.inputs.endswith(".npz") else None
    text = None if arrays is not None else request.inputs
    program = load_program(request.file, entry=request.entry, inputs=text, prefer=prefer)
    types = entry_types(read_module(program.text), program.entry).inputs
    source = request.file.read_text(encoding="utf-8")
    names = parameter_names(source, program.entry)
    spec = _with_shapes(program.inputs, request.shapes, types, names)
    if request.seed is not None:
        spec = replace(spec, seed=request.seed)
    program = replace(program, inputs=spec)
    if arrays is None:
        return prepare_sized(program, schedule=request.schedule)
    return _with_arrays(program, Path(arrays), types, names, request.schedule), f"arguments from {arrays}"


def _position(name: str, names: Sequence[str], count: int) -> int:
    bare = name.removeprefix("%").removeprefix("arg") if name.removeprefix("%") not in names else name.removeprefix("%")
    if bare in names:
        return names.index(bare)
    if bare.isdigit() and int(bare) < count:
        return int(bare)
    known = ", ".join(names) or ", ".join(f"arg{i}" for i in range(count)) or "none"
    raise UsageError(f"the entry has no argument {name}; it has: {known}")


def _with_shapes(spec: InputSpec, shapes: Sequence[str], types: Sequence[Type], names: Sequence[str]) -> InputSpec:
    """`NAME=4x5` or `NAME=7` for a memref (one number: all open dimensions), `NAME=7` for a scalar."""
    for text in shapes:
        name, equals, value = text.partition("=")
        sizes = value.split("x")
        if not equals or not all(s.lstrip("-").isdigit() for s in sizes):
            raise UsageError(f"--shape {text}: write NAME=7 or NAME=4x5")
        position = _position(name, names, len(types))
        numbers = tuple(int(s) for s in sizes)
        kind = types[position]
        if isinstance(kind, MemRefType) and len(numbers) == 1:
            numbers = tuple(numbers[0] if d is None else d for d in kind.shape)
        if isinstance(kind, MemRefType | PointerType):
            spec = replace(spec, shapes={**spec.shapes, position: numbers})
        elif isinstance(kind, IndexType | IntegerType) and len(numbers) == 1:
            spec = replace(spec, scalars={**spec.scalars, position: numbers[0]})
        else:
            raise UsageError(f"--shape {text}: argument {name} of type {kind} has no size")
    return spec


def _with_arrays(
    program: Program, path: Path, types: Sequence[Type], names: Sequence[str], schedule: Schedule
) -> Reference:
    given = _read_arrays(path)
    found: dict[int, Any] = {_position(n, names, len(types)): a for n, a in given.items()}
    shapes = {p: a.shape for p, a in found.items() if a.ndim}
    spec = replace(program.inputs, shapes={**program.inputs.shapes, **shapes})
    arguments = make_arguments(types, spec)
    for position, array in found.items():
        arguments[position] = array if array.ndim else array.item() if array.dtype.kind in "biu" else array[()]
    program = replace(program, inputs=spec)
    module = read_module(program.text)
    outcome = interpret(module, entry=program.entry, arguments=arguments, schedule=schedule)
    return Reference(program=program, module=module, arguments=tuple(arguments), outcome=outcome)


def _read_arrays(path: Path) -> dict[str, Any]:
    try:
        with np.load(path, allow_pickle=False) as data:
            return {name: data[name] for name in data.files}
    except FileNotFoundError:
        raise UsageError(f"{path}: no such file") from None
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise UsageError(f"{path} is not an .npz file of plain arrays: {error}") from None


# --- after each pass ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class StageLine:
    """The program after one pass: `verdict` compares it with the source, `changed` tells whether the text changed."""

    after: str
    verdict: Verdict
    changed: bool

    def as_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "after": self.after,
            "verdict": str(self.verdict.kind),
            "changed": self.changed,
            "message": self.verdict.message,
            "difference": difference_json(self.verdict.difference),
            "fault": fault_json(self.verdict.fault),
        }

    def as_text(self) -> str:
        """One line."""
        mark = " " if self.changed else "="
        text = f"{self.verdict.kind!s:12} {mark} {self.after}"
        if self.verdict.fault is not None:
            return f"{text}: {fault_line(self.verdict.fault)}"
        return f"{text}: {self.verdict.message}" if self.verdict.message else text


@dataclass(frozen=True, slots=True, kw_only=True)
class StagesReport:
    """A program and what it does after each pass of a pipeline; `stopped` is the compiler's failure, if any."""

    source: InterpretReport
    target: str
    lines: tuple[StageLine, ...]
    stopped: str = ""

    @property
    def exit_code(self) -> int:
        """1 when a stage is wrong, 2 when the source cannot be judged, else 0."""
        if self.source.exit_code:
            return self.source.exit_code
        return 1 if any(line.verdict.kind.is_finding for line in self.lines) else 0

    def as_json(self) -> dict[str, Any]:
        """One JSON object."""
        return {
            "source": self.source.as_json(),
            "target": self.target,
            "stages": [line.as_json() for line in self.lines],
            "stopped": self.stopped,
        }

    def as_text(self) -> str:
        """A line per pass."""
        found = [self.source.as_text().splitlines()[0], *(line.as_text() for line in self.lines)]
        return "\n".join([*found, f"the compiler stops: {self.stopped}"] if self.stopped else found)


def explain_stages(
    request: Request, *, target: str, pipeline: str, timeout: float = 20.0, progress: toolchains.Progress | None = None
) -> StagesReport:
    """Execute the IR after each pass of `pipeline` and compare it with the source program."""
    compiler = open_ready(target, progress=progress)
    start = time.monotonic()
    try:
        reference, note = prepare_request(request, prefer=(compiler.label,))
        passes = resolve(pipeline, compiler.label)
        elements = leaves(passes.text)
        apart = Pipeline(text=join(elements), env=passes.env)
        result = compiler.lower(reference.program.text, apart, stages=True, timeout=timeout)
    finally:
        compiler.close()
    outcome = reference.outcome
    source = InterpretReport(program=reference.program, outcome=outcome, seconds=time.monotonic() - start, note=note)
    stages = result.artifact.stages if result.artifact is not None else result.stages
    texts = [stage.text for stage in stages]
    lines = tuple(_lines(reference, compiler.label, elements, texts)) if reference.usable else ()
    failure = result.failure
    stopped = "" if failure is None else f"{failure.kind} in {failure.pass_name}: {failure.diagnostic[:200]}"
    return StagesReport(source=source, target=compiler.label, lines=lines, stopped=stopped)


def _lines(reference: Reference, label: str, elements: Sequence[str], texts: Sequence[str]) -> Iterator[StageLine]:
    before, verdict = reference.program.text, Verdict(kind=VerdictKind.AGREE, target=label, pipeline="")
    for element, text in zip(elements, texts, strict=False):
        changed = text != before
        if changed:
            verdict = _stage_verdict(reference, label, element, text)
        before = text
        yield StageLine(after=element, verdict=verdict, changed=changed)


def _stage_verdict(reference: Reference, label: str, element: str, text: str) -> Verdict:
    blank = Verdict(kind=VerdictKind.AGREE, target=label, pipeline=element)
    try:
        return outcome_verdict(blank, reference, execute(text, reference))
    except ReadError as error:
        return replace(blank, kind=VerdictKind.UNSUPPORTED, message=str(error))

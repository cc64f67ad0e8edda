"""What the commands do, as functions: judge a file, interpret a file. No printing, no argument parsing."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from difftest import toolchains
from difftest.errors import UsageError
from difftest.model import FailureKind, Mode, Outcome, OutcomeKind, Pipeline, Program, Schedule, Verdict, VerdictKind
from difftest.oracle.compare import show
from difftest.oracle.judge import Reference, failure_verdict, judge
from difftest.oracle.load import load_program, prepare_sized
from difftest.report.plain import difference_json, fault_json, fault_line
from difftest.targets import open_target
from difftest.targets.base import Target
from difftest.targets.pipelines import resolve
from difftest.triage.confirm import confirm
from difftest.triage.culprit import WRONG, blame, find_culprit

SHOWN_ELEMENTS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReport:
    """A verdict on one program, ready to be shown."""

    program: Program
    verdict: Verdict
    seconds: float
    note: str = ""
    reference: Reference | None = None

    @property
    def exit_code(self) -> int:
        """1 for a compiler bug, 2 for a program that is itself bad, else 0."""
        if self.verdict.kind.is_finding:
            return 1
        return 2 if self.verdict.kind is VerdictKind.BAD_PROGRAM else 0

    def as_json(self) -> dict[str, Any]:
        """One JSON object."""
        verdict = self.verdict
        signature = verdict.signature
        return {
            "verdict": str(verdict.kind),
            "pass": signature.pass_name if signature else None,
            "identity": signature.key if signature else None,
            "target": verdict.target,
            "pipeline": verdict.pipeline,
            "entry": self.program.entry,
            "message": verdict.message,
            "difference": difference_json(verdict.difference),
            "fault": fault_json(verdict.fault),
            "frames": [f.symbol for f in verdict.failure.frames] if verdict.failure else [],
            "device": "emulator" if verdict.notes.get("kernels") else "interpreter",
            "kernels": verdict.notes.get("kernels", 0),
            "notes": dict(verdict.notes) | dict(self.reference.outcome.notes if self.reference else {}),
            "note": self.note,
            "seconds": round(self.seconds, 3),
        }

    def as_text(self) -> str:
        """A few lines for people."""
        verdict = self.verdict
        passes = f" in {verdict.signature.pass_name}" if verdict.signature and verdict.signature.pass_name else ""
        lines = [f"{verdict.kind}{passes}: @{self.program.entry} on {verdict.target} [{verdict.pipeline}]"]
        if verdict.message:
            lines.append(f"  {verdict.message}")
        if verdict.fault is not None:
            lines.append(f"  {fault_line(verdict.fault)}")
        if verdict.failure is not None:
            lines += [f"    {frame.symbol}" for frame in verdict.failure.frames[:8]]
        if self.note:
            lines.append(f"  ({self.note})")
        return "\n".join(lines)


@dataclass(frozen=True, slots=True, kw_only=True)
class InterpretReport:
    """An execution of one program by the reference interpreter, ready to be shown."""

    program: Program
    outcome: Outcome
    seconds: float
    note: str = ""
    extra: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def exit_code(self) -> int:
        """0 when the program ran, 2 when it cannot be judged (undefined, racy, unsupported, out of fuel)."""
        return 0 if self.outcome.kind is OutcomeKind.OK else 2

    def as_json(self) -> dict[str, Any]:
        """One JSON object; elements as text, because NaN and infinity have no JSON."""
        return {
            "outcome": str(self.outcome.kind),
            "entry": self.program.entry,
            "observed": [
                {
                    "label": o.label,
                    "shape": list(o.data.shape),
                    "dtype": str(o.data.dtype),
                    "elements": [show(e) for e in o.data.reshape(-1)],
                    "undefined": 0 if o.skip is None else int(o.skip.sum()),
                    "inexact": o.bound is not None,
                }
                for o in self.outcome.observed
            ],
            "fault": fault_json(self.outcome.fault),
            "notes": dict(self.outcome.notes),
            "note": self.note,
            "schedule": str(self.outcome.schedule),
            "seconds": round(self.seconds, 3),
        }

    def as_text(self) -> str:
        """A few lines for people."""
        lines = [f"{self.outcome.kind}: @{self.program.entry} ({self.outcome.schedule}, {self.seconds * 1e3:.1f} ms)"]
        if self.outcome.fault is not None:
            lines.append(f"  {fault_line(self.outcome.fault)}")
        for observed in self.outcome.observed:
            flat = observed.data.reshape(-1)
            shown = ", ".join(show(e) for e in flat[:SHOWN_ELEMENTS]) + (", …" if flat.size > SHOWN_ELEMENTS else "")
            lines.append(f"  {observed.label} {observed.data.dtype}{list(observed.data.shape)}: {shown}")
        lines += [f"  {count} x {note}" for note, count in self.outcome.notes.items()]
        if self.note:
            lines.append(f"  ({self.note})")
        return "\n".join(lines)


def open_ready(label: str, *, progress: toolchains.Progress | None = None) -> Target:
    """The target called `label`, usable now: its toolchain is fetched when it is missing.

    Raises UsageError in one sentence when it cannot be had.
    """
    target = open_target(label)
    if label.startswith(toolchains.ENZYME):
        toolchains.ensure(target.label, progress=progress)
    availability = target.availability()
    if availability.usable:
        return target
    target.close()
    raise UsageError(f"{label} cannot be used: {availability.reason}")


def check_pipeline(target: Target, pipeline: Pipeline) -> None:
    """Raises UsageError when `target` does not know the pipeline, before any program is tried."""
    result = target.lower('"builtin.module"() ({\n^bb0:\n}) : () -> ()\n', pipeline)
    if result.failure is not None and result.failure.kind is FailureKind.BAD_PIPELINE:
        failure_verdict(result.failure, target.label, pipeline)


def run_file(
    file: Path,
    *,
    target: str,
    pipeline: str,
    entry: str | None = None,
    inputs: str | None = None,
    timeout: float = 20.0,
    progress: toolchains.Progress | None = None,
) -> RunReport:
    """Judge the program in `file`. A finding is confirmed, and a wrong result is attributed to a pass."""
    compiler = open_ready(target, progress=progress)
    start = time.monotonic()
    try:
        program = load_program(file, entry=entry, inputs=inputs, prefer=(compiler.label,))
        reference, note = prepare_sized(program)
        verdict = judge_fully(reference, compiler, pipeline, timeout=timeout)
    finally:
        compiler.close()
    return RunReport(
        program=reference.program,
        verdict=verdict,
        seconds=time.monotonic() - start,
        note=note,
        reference=reference,
    )


def judge_fully(reference: Reference, target: Target, pipeline: str, *, timeout: float = 20.0) -> Verdict:
    """The confirmed verdict, with the culprit's name when the result is wrong."""
    passes = resolve(pipeline, target.label)
    first = judge(reference, target, passes, timeout=timeout)
    if not first.verdict.kind.is_finding:
        return first.verdict
    verdict = confirm(reference, target, passes, first, timeout=timeout)
    if verdict.kind in WRONG:
        return blame(verdict, find_culprit(reference, target, passes, timeout=timeout))
    return verdict


def interpret_file(
    file: Path, *, entry: str | None = None, inputs: str | None = None, schedule: str = "lock-step"
) -> InterpretReport:
    """Execute the program in `file` in source mode."""
    program = load_program(file, entry=entry, inputs=inputs)
    start = time.monotonic()
    reference, note = prepare_sized(program, schedule=Schedule(schedule), mode=Mode.SOURCE)
    return InterpretReport(
        program=reference.program, outcome=reference.outcome, seconds=time.monotonic() - start, note=note
    )

"""What `difftest triage` does, as functions, and how its siblings find their program. No printing, no parsing."""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from corpus.header import parse_header, run_options
from difftest import toolchains
from difftest.errors import ReadError, UsageError
from difftest.ir.reader import read_module
from difftest.model import Fault, Outcome, OutcomeKind, Pipeline, Program, Verdict, VerdictKind
from difftest.oracle.judge import Reference, judge
from difftest.oracle.load import default_entry, load_program, prepare_sized, read_text, to_generic
from difftest.report.plain import difference_json, fault_json, fault_line
from difftest.session import open_ready
from difftest.targets.base import Target
from difftest.targets.pipelines import format_pipeline, leaves, resolve
from difftest.triage.changes import change
from difftest.triage.confirm import compiler_failure, confirm
from difftest.triage.evidence import evidence
from difftest.triage.locate import Located, locate
from difftest.triage.nearest import Near, nearest
from difftest.triage.places import Place, source_place
from difftest.triage.reproducer import Reproducer, reproducer_for

DEFAULT_TARGET = "enzyme-ad@0.0.16"


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What to look at: a file or the folder of a finding; None takes what the file's RUN line says."""

    file: Path
    target: str | None = None
    pipeline: str | None = None
    entry: str | None = None
    inputs: str | None = None
    timeout: float = 20.0

    @property
    def path(self) -> Path:
        """The program: of a finding folder its reduced one."""
        return self.file / "reduced.mlir" if (self.file / "reduced.mlir").is_file() else self.file


def completed(request: Request) -> tuple[str, str]:
    """The target and the pipeline of a request. Raises UsageError when neither it nor the file names a pipeline.

    A RUN line is a call of `difftest run`, or a bare pass list.
    """
    if request.target is not None and request.pipeline is not None:
        return request.target, request.pipeline
    header = parse_header(read_text(request.path), path=str(request.path))
    try:
        options = run_options(header)
    except UsageError:
        bare = next((line for line in header.runs if "%s" not in line), None)
        options = {} if bare is None else {"--pipeline": bare}
    pipeline = request.pipeline if request.pipeline is not None else options.get("--pipeline")
    if pipeline is None:
        raise UsageError(f"{request.path} has no RUN line with a pipeline; name one with --pipeline")
    return request.target or options.get("--target", DEFAULT_TARGET), pipeline


def called(program: Program) -> str:
    """What is run, for the first line of a report."""
    return f"@{program.entry}" if program.entry else "a module without an entry"


def load_reference(request: Request, *, prefer: tuple[str, ...]) -> tuple[Reference, str]:
    """The program of a request with its reference execution, and a note about sizes.

    A module without a function to call can still break a compiler: its outcome is `unsupported`, rule `no-entry`.
    """
    text = read_text(request.path)
    header = parse_header(text, path=str(request.path))
    if request.entry is None and header.entry is None:
        generic = to_generic(text, path=str(request.path), prefer=prefer)
        try:
            module = read_module(generic)
        except ReadError as error:
            raise UsageError(f"{request.path}:{error}") from None
        try:
            default_entry(module, str(request.path))
        except UsageError:
            fault = Fault(rule="no-entry", message="no public function to call", op="builtin.module")
            outcome = Outcome(kind=OutcomeKind.UNSUPPORTED, fault=fault)
            program = Program(text=generic, entry="", name=request.path.stem)
            return Reference(program=program, module=module, arguments=(), outcome=outcome), ""
    return prepare_sized(load_program(request.path, entry=request.entry, inputs=request.inputs, prefer=prefer))


# --- triage ---------------------------------------------------------------------------------------------------

SHOWN_DIFF_LINES = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class TriageReport:
    """A finding with the step that is to blame; `located` is None when no step is, or when there is no finding."""

    program: Program
    verdict: Verdict
    pipeline: str
    steps: int
    located: Located | None = None
    diff: str = ""
    place: Place | None = None
    reproducer: Reproducer | None = None
    near: tuple[Near, ...] = ()
    evidence: tuple[str, ...] = ()
    note: str = ""
    seconds: float = 0.0

    @property
    def exit_code(self) -> int:
        """1 for a compiler bug, 2 for a program that is itself bad, else 0."""
        if self.verdict.kind.is_finding:
            return 1
        return 2 if self.verdict.kind is VerdictKind.BAD_PROGRAM else 0

    def as_json(self) -> dict[str, Any]:
        """One JSON object."""
        located, place = self.located, self.place
        first = self.verdict if located is None else located.verdict
        return {
            "verdict": str(self.verdict.kind),
            "target": self.verdict.target,
            "pipeline": self.pipeline,
            "entry": self.program.entry,
            "message": self.verdict.message,
            "culprit": None
            if located is None
            else {
                "pass": located.name,
                "options": located.options,
                "element": located.element,
                "position": len(located.prefix),
                "steps": self.steps,
                "fault_of": "back end" if located.is_back_end else "pass",
                "not_judged": list(located.skipped),
                "verdict": str(located.verdict.kind),
                "message": located.verdict.message,
            },
            "difference": difference_json(first.difference),
            "fault": fault_json(first.fault),
            "frames": [f.symbol for f in first.failure.frames] if first.failure else [],
            "source": None if place is None else {"op": place.op, "line": place.line, "why": place.why},
            "diff": self.diff,
            "reproducer": None if self.reproducer is None else self.reproducer.as_json(),
            "nearest_known": [near.as_json() for near in self.near],
            "evidence": list(self.evidence),
            "note": self.note,
            "seconds": round(self.seconds, 3),
        }

    def as_text(self) -> str:
        """What a report needs, for people."""
        lines = [f"{self.verdict.kind}: {called(self.program)} on {self.verdict.target} [{self.pipeline}]"]
        if self.verdict.message:
            lines.append(f"  {self.verdict.message}")
        located = self.located
        if located is None:
            reason = "no step is to blame" if self.verdict.kind.is_finding else "nothing to triage"
            lines.append(f"  {reason}")
        else:
            lines += self._culprit_lines(located)
        if self.place is not None:
            lines.append(f"  source: {self.place.as_text()}")
        if self.reproducer is not None:
            seen = "" if self.reproducer.confirmed else "   # does not show it again"
            lines.append(f"  reproduce: {self.reproducer.command()}{seen}")
        shown = self.diff.splitlines()
        lines += [f"    {line}" for line in shown[:SHOWN_DIFF_LINES]]
        if len(shown) > SHOWN_DIFF_LINES:
            lines.append(f"    … {len(shown) - SHOWN_DIFF_LINES} more lines")
        lines += [f"  evidence: {line}" for line in self.evidence]
        lines += [f"  known: {near.as_text()}" for near in self.near]
        if self.note:
            lines.append(f"  ({self.note})")
        return "\n".join(lines)

    def _culprit_lines(self, located: Located) -> list[str]:
        options = f" {{{located.options}}}" if located.options else ""
        kind = "back end" if located.is_back_end else "culprit"
        inside = f", inside {located.element}" if located.inner else ""
        lines = [f"  {kind}: {located.name}{options} (step {len(located.prefix) + 1} of {self.steps}{inside})"]
        if located.skipped:
            lines.append(f"    or one of {', '.join(located.skipped)}, whose result could not be judged")
        if located.verdict.message and located.verdict.message != self.verdict.message:
            lines.append(f"    right after it: {located.verdict.message}")
        if located.verdict.fault is not None:
            lines.append(f"    {fault_line(located.verdict.fault)}")
        if located.verdict.failure is not None:
            lines += [f"    {frame.symbol}" for frame in located.verdict.failure.frames[:6]]
        return lines

    def write(self, folder: Path) -> tuple[Path, ...]:
        """Save what stands alone: `before.mlir`, `reproducer.mlir` for `--run-reproducer`, and `pass.diff`."""
        if self.reproducer is None:
            return ()
        folder.mkdir(parents=True, exist_ok=True)
        texts = {
            "before.mlir": f"// RUN: {self.reproducer.command('%s')}\n{self.reproducer.program.rstrip()}\n",
            "reproducer.mlir": self.reproducer.crash_file(),
            **({"pass.diff": f"{self.diff}\n"} if self.diff else {}),
        }
        for name, text in texts.items():
            (folder / name).write_text(text, encoding="utf-8")
        return tuple(folder / name for name in texts)


def triage_file(request: Request, *, progress: toolchains.Progress | None = None) -> TriageReport:
    """Judge a program and, when something is wrong, find the step to blame and a way to show it without this tool."""
    label, text = completed(request)
    with closing(open_ready(label, progress=progress)) as target:
        start = time.monotonic()
        reference, note = load_reference(request, prefer=(target.label,))
        source = read_text(request.path)
        report = triage(reference, target, text, source=source, timeout=request.timeout)
        notes = "; ".join(filter(None, (note, report.note)))
        return replace(report, note=notes, seconds=time.monotonic() - start)


def triage(
    reference: Reference, target: Target, pipeline: str, *, source: str = "", timeout: float = 20.0
) -> TriageReport:
    """See `triage_file`; `source` is the text in which places are looked up."""
    passes = resolve(pipeline, target.label)
    verdict, note = _verdict(reference, target, passes, timeout)
    blank = TriageReport(
        program=reference.program,
        verdict=verdict,
        pipeline=passes.name or format_pipeline(passes),
        steps=len(leaves(passes.text)),
        note=note,
    )
    if not verdict.kind.is_finding:
        return blank
    located = locate(reference, target, passes, verdict, timeout=timeout)
    if located is None:
        return replace(blank, place=source_place(reference, verdict, source or reference.program.text))
    reproducer = reproducer_for(located, reference, target, passes, timeout=timeout)
    return replace(
        blank,
        located=located,
        diff="" if located.after is None else change(located.before, located.after, target),
        place=source_place(reference, located.verdict, source or reference.program.text),
        near=nearest(reference.program.text, passes=(located.name,), kind=str(located.verdict.kind)),
        evidence=evidence(reference, target, passes, verdict, located=located, reproducer=reproducer),
        reproducer=reproducer,
    )


def _verdict(reference: Reference, target: Target, passes: Pipeline, timeout: float) -> tuple[Verdict, str]:
    """The confirmed verdict, and a note. A compiler has to survive a program whose results cannot be judged, too."""
    first = judge(reference, target, passes, timeout=timeout)
    if first.verdict.kind.is_finding:
        return confirm(reference, target, passes, first, timeout=timeout), ""
    if reference.usable:
        return first.verdict, ""
    verdicts = [compiler_failure(reference, target, passes, timeout=timeout) for _ in range(2)]
    if verdicts[0] is None or verdicts[1] is None:
        return first.verdict, ""
    fault = reference.outcome.fault
    why = fault_line(fault) if fault is not None else str(reference.outcome.kind)
    return verdicts[0], f"the program's results cannot be judged: {why}"

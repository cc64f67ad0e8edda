"""A corpus file as test cases, and what came of each: shared by pytest and lit.

One case per target and pipeline: those of the RUN and DIFFTEST lines, and every known version that an EXPECT line
covers. A file that names no pipeline is one case on the `null` target: the program must be valid and deterministic.
"""

from __future__ import annotations

import hashlib
import importlib.util
import re
import shlex
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache
from pathlib import Path

import difftest
from corpus.expect import Expectation, find_expectation
from corpus.header import Header, parse_header
from difftest import api
from difftest.errors import UsageError
from difftest.model import Program, Verdict, VerdictKind
from difftest.oracle.load import prepare_sized, read_text
from difftest.session import judge_fully
from difftest.targets import known_labels
from difftest.targets.pipelines import all_pass_names, resolve

DEFAULT_TARGET = "enzyme-ad@0.0.16"  # that of `difftest run`
DEVICES = ("interpreter",)
_OPTIONS = ("--target", "--pipeline", "--entry", "--inputs", "--timeout")
_FLAGS = ("--json",)
_LONGEST_NAME = 60


class Status(StrEnum):
    """How a case ended, before a known failure (`Case.xfail`) is taken into account."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """What to run instead of what the files say (empty: what they say). `seeds` replace the header's."""

    targets: tuple[str, ...] = ()
    pipelines: tuple[str, ...] = ()
    seeds: tuple[int, ...] = ()


EVERYTHING = Selection()


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One program on one target and pipeline.

    `expectation` is None where the file says nothing: then the verdict must be `agree` when the file asked for this
    case (`chosen` false), or must not be a finding when an option did.
    """

    path: Path
    target: str
    pipeline: str
    line: int = 1
    entry: str | None = None
    inputs: str | None = None
    seed: int | None = None
    timeout: float = api.TIMEOUT
    expectation: Expectation | None = None
    chosen: bool = False
    requires: tuple[str, ...] = ()
    xfail: str = ""
    suffix: str = ""

    @property
    def name(self) -> str:
        """`enzyme-ad@0.0.16-enzyme-cuda`, with the seed behind when one was chosen."""
        seed = "" if self.seed is None else f"-seed{self.seed}"
        return f"{self.target}-{short_pipeline(self.pipeline)}{self.suffix}{seed}"

    @property
    def arguments(self) -> str:
        """What `difftest run` and `reducer` need to know, the file first."""
        inputs = self.inputs
        if self.seed is not None:
            inputs = f"{inputs},seed={self.seed}" if inputs else f"seed={self.seed}"
        return api.run_command(
            str(self.path), target=self.target, pipeline=self.pipeline, entry=self.entry, inputs=inputs
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseReport:
    """What came of a case. `text` is the short report of a failure or the reason of a skip."""

    case: Case
    status: Status
    text: str = ""
    verdict: Verdict | None = None
    program: Program | None = None

    @property
    def properties(self) -> Mapping[str, str]:
        """For JUnit XML: versions, pipeline, verdict and the failure's signature."""
        found = {"difftest": difftest.__version__, "target": self.case.target, "pipeline": self.case.pipeline}
        if self.verdict is not None:
            found["verdict"] = str(self.verdict.kind)
            if self.verdict.signature is not None:
                found["signature"] = self.verdict.signature.key
        return found


def short_pipeline(text: str) -> str:
    """A pipeline for a test's name: itself when it is a plain list, else its pass names; never longer than 60."""
    plain = text if re.fullmatch(r"[\w.,-]*", text) else ",".join(all_pass_names(re.sub(r"^(\w+=\S+\s+)+", "", text)))
    return (plain if len(plain) <= _LONGEST_NAME else f"{plain[: _LONGEST_NAME - 2]}..") or "empty"


def read_cases(path: Path, selection: Selection = EVERYTHING) -> tuple[Case, ...]:
    """All cases of a file, in the order of its lines. Raises UsageError with file and line for a bad header."""
    header = parse_header(read_text(path), path=str(path))
    asked = list(_asked(header, path)) or [Case(path=path, target="null", pipeline="")]
    chosen = selection.targets or selection.pipelines
    wanted = (
        replace(_complete(case, header), seed=seed)
        for case in (_selected(asked, selection) if chosen else _expected(asked, header))
        for seed in selection.seeds or (None,)
    )
    return _named(wanted)


def _named(cases: Iterable[Case]) -> tuple[Case, ...]:
    """Without repetitions; cases whose readable names are equal get a suffix that tells them apart."""
    distinct = {(c.target, c.pipeline, c.entry, c.inputs, c.seed): c for c in reversed(list(cases))}
    counts = Counter(case.name for case in distinct.values())
    return tuple(
        case
        if counts[case.name] == 1
        else replace(case, suffix=f"~{hashlib.sha256(repr(key).encode()).hexdigest()[:6]}")
        for key, case in reversed(distinct.items())
    )


def _asked(header: Header, path: Path) -> Iterator[Case]:
    """The cases that the file names itself."""
    seen: dict[tuple[str, ...], int] = {}
    for line, run in zip(header.run_lines, header.runs, strict=True):
        options = _run_options(run, f"{path}:{line}")
        if options is None:
            continue
        key = tuple(sorted(f"{k}={v}" for k, v in options.items()))
        if key in seen:
            raise UsageError(f"{path}:{line}: the RUN line repeats that of line {seen[key]}")
        seen[key] = line
        yield Case(
            path=path,
            line=line,
            target=options.get("--target", DEFAULT_TARGET),
            pipeline=options.get("--pipeline", ""),
            entry=options.get("--entry"),
            inputs=options.get("--inputs"),
            timeout=float(options.get("--timeout", api.TIMEOUT)),
        )
    for target in header.targets or ((DEFAULT_TARGET,) if header.pipelines else ()):
        for pipeline in header.pipelines:
            yield Case(path=path, target=target, pipeline=pipeline)


def _run_options(run: str, where: str) -> dict[str, str] | None:
    """The options of a RUN line that calls `difftest run`, None for another command. Raises UsageError at `where`."""
    try:
        words = shlex.split(run)
    except ValueError as error:
        raise UsageError(f"{where}: {str(error).lower()} in the RUN line") from None
    if words[:2] != ["difftest", "run"]:
        return None
    options: dict[str, str] = {}
    rest = iter(words[2:])
    for word in rest:
        name, equals, value = word.partition("=")
        if word == "%s" or word in _FLAGS:
            continue
        if name not in _OPTIONS:
            raise UsageError(f"{where}: the RUN line has {word!r}; known here: %s, {', '.join((*_OPTIONS, *_FLAGS))}")
        given = value if equals else next(rest, None)
        if given is None:
            raise UsageError(f"{where}: {name} needs a value")
        options[name] = given
    if "--timeout" in options and not re.fullmatch(r"\d+(\.\d+)?", options["--timeout"]):
        raise UsageError(f"{where}: --timeout needs seconds, not {options['--timeout']!r}")
    return options


def _expected(asked: Sequence[Case], header: Header) -> Iterator[Case]:
    """What the file asks for, and the same on every other target that it expects something of."""
    yield from asked
    if not header.expectations:
        return
    labels = dict.fromkeys((*(case.target for case in asked), *_labels(), *header.expected))
    for case in asked:
        for clause in header.expectations:
            for label in labels:
                if clause.covers(label, case.pipeline) and label != case.target:
                    yield replace(case, target=label, line=clause.line)


@cache
def _labels() -> tuple[str, ...]:
    return known_labels()  # looks at the toolchains on disk: once, not once a file


def _selected(asked: Sequence[Case], selection: Selection) -> Iterator[Case]:
    for case in asked:
        for target in selection.targets or (case.target,):
            for pipeline in selection.pipelines or (case.pipeline,):
                own = target == case.target and pipeline == case.pipeline
                yield replace(case, target=target, pipeline=pipeline, chosen=not own)


def _complete(case: Case, header: Header) -> Case:
    """With what the header says about this target and pipeline."""
    foreign = case.chosen and case.pipeline not in _pipelines_of(header)
    try:
        clause = None if foreign else find_expectation(header.expectations, case.target, case.pipeline)
    except UsageError as error:
        raise UsageError(f"{case.path}: {error}") from None
    known = header.xfail and (header.xfail_on is None or header.xfail_on.covers(case.target))
    return replace(
        case,
        expectation=clause,
        requires=header.requires,
        xfail=header.xfail if known else "",
        line=clause.line if clause else case.line,
    )


def _pipelines_of(header: Header) -> set[str]:
    """Those that an expectation without a pipeline is about, or that one names."""
    options = [_run_options(run, "RUN") for run in header.runs]
    named = {e.pipeline for e in header.expectations if e.pipeline is not None}
    return {*named, *(o.get("--pipeline", "") for o in options if o is not None), *header.pipelines}


def missing_requirement(case: Case) -> str:
    """Why the case cannot run here, empty when it can (as far as its `requires` goes)."""
    for requirement in case.requires:
        if requirement == "gpu" and importlib.util.find_spec("cupy") is None:
            return "needs a GPU and cupy (extra `cuda`)"
        tool = requirement.removeprefix("tool:")
        if requirement.startswith("tool:") and shutil.which(tool) is None:
            return f"needs {tool} on PATH"
    return ""


def run_case(case: Case) -> CaseReport:
    """Judge one case. Raises UsageError when the file or the pipeline makes no sense.

    A target or tool that cannot be had is a skip; whoever runs the cases may turn that into an error.
    """
    missing = missing_requirement(case)
    if missing:
        return CaseReport(case=case, status=Status.SKIPPED, text=missing)
    try:
        target = api.open_shared(case.target)
        program = api.make_program(case.path, entry=case.entry, inputs=case.inputs, target=case.target)
    except api.UnavailableError as error:
        return CaseReport(case=case, status=Status.SKIPPED, text=str(error))
    if case.seed is not None:
        program = replace(program, inputs=replace(program.inputs, seed=case.seed))
    resolve(case.pipeline, target.label)
    reference, _ = prepare_sized(program)
    verdict = judge_fully(reference, target, case.pipeline, timeout=case.timeout)
    status, complaint = _status(case, verdict)
    text = "" if status is Status.PASSED else "\n".join([complaint, *_details(case, verdict, status)])
    return CaseReport(case=case, status=status, text=text, verdict=verdict, program=reference.program)


def _status(case: Case, verdict: Verdict) -> tuple[Status, str]:
    culprit = verdict.signature.pass_name if verdict.signature else None
    wanted = case.expectation
    if wanted is None and case.chosen:
        if verdict.kind is VerdictKind.AGREE:
            return Status.PASSED, ""
        if verdict.kind.is_finding or verdict.kind is VerdictKind.HARNESS_CRASH:
            return Status.FAILED, f"a finding: {verdict.kind}"
        return Status.SKIPPED, f"not judged: {verdict.kind}: {verdict.message}"
    if wanted is None:
        good = verdict.kind is VerdictKind.AGREE
        return (Status.PASSED, "") if good else (Status.FAILED, f"expected agree, got {verdict.kind}")
    if verdict.kind is wanted.verdict and wanted.pass_name in {None, culprit}:
        return Status.PASSED, ""
    got = f"{verdict.kind}({culprit})" if culprit else str(verdict.kind)
    return Status.FAILED, f"expected {wanted.wanted} (line {wanted.line}), got {got}"


def _details(case: Case, verdict: Verdict, status: Status) -> list[str]:
    if status is not Status.FAILED:
        return []
    lines = [f"  {line}" for line in api.describe(verdict)]
    lines.append(f"  reproduce: difftest run {case.arguments}")
    if verdict.kind.is_finding:
        lines.append(f"  reduce:    reducer {case.arguments} -o reduced.mlir")
    return lines


def save_finding(report: CaseReport, folder: Path) -> Path | None:
    """Write an unexpected finding as a corpus file that shows it; None when there is nothing to save."""
    verdict, program, case = report.verdict, report.program, report.case
    if verdict is None or program is None or not verdict.kind.is_finding:
        return None
    folder.mkdir(parents=True, exist_ok=True)
    command = f"// RUN: difftest run %s --target {case.target} --pipeline {shlex.quote(case.pipeline)}"
    kind = verdict.signature.key if verdict.signature else str(verdict.kind)
    name = re.sub(r"[^\w.@-]+", "-", f"{case.path.stem}-{case.name}").strip("-")
    file = folder / f"{name}.mlir"
    file.write_text(f"{command}\n// {kind}\n{api.corpus_text(program)}", encoding="utf-8")
    return file

"""What a corpus file is expected to do, per target and version: the clauses of an `EXPECT` line.

    // EXPECT: enzyme-ad@0.0.15 pass-failure
    // EXPECT: pass-failure(convert-parallel-to-gpu1) on enzyme-ad<=0.0.15; agree on >=0.0.16
    // EXPECT: mismatch on mlir with int-range-optimizations

A clause names a verdict, optionally the pass to blame, and for whom it holds: a target with optional versions (a later
clause of the line may leave the target's name out), and optionally one of the file's pipelines.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

from difftest.errors import UsageError
from difftest.model import VerdictKind

_CLAUSE = re.compile(r"([a-z-]+)(?:\(([^)\s]+)\))?\s+on\s+(.+)")
_RANGE = re.compile(r"([A-Za-z][\w./:+-]*)?\s*(@[\w.+]+|(?:[<>=!~]=?.*))?")
_VERDICTS = {str(kind): kind for kind in VerdictKind}


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetRange:
    """A compiler, and which of its versions: all without `versions`, else those of a PEP 440 specifier."""

    name: str
    versions: str = ""

    def covers(self, label: str) -> bool:
        """Whether the target called `label` (`enzyme-ad@0.0.15`, `mlir`) is meant."""
        name, _, version = label.partition("@")
        if name != self.name or not self.versions:
            return name == self.name
        try:
            return SpecifierSet(self.versions).contains(Version(version), prereleases=True)
        except InvalidVersion:
            return False

    def __str__(self) -> str:
        if self.versions.startswith("==") and "," not in self.versions:
            return f"{self.name}@{self.versions[2:]}"
        return f"{self.name}{self.versions}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """One clause. `pass_name` and `pipeline` are None when the clause says nothing about them."""

    verdict: VerdictKind
    target: TargetRange
    pass_name: str | None = None
    pipeline: str | None = None
    line: int = 0

    def covers(self, label: str, pipeline: str) -> bool:
        """Whether the clause speaks about this target and pipeline."""
        return self.target.covers(label) and self.pipeline in {None, pipeline}

    @property
    def wanted(self) -> str:
        """The verdict and the pass, for messages."""
        return f"{self.verdict}({self.pass_name})" if self.pass_name else str(self.verdict)

    def __str__(self) -> str:
        if self.pass_name is None and self.pipeline is None:
            return f"{self.target} {self.verdict}"
        return f"{self.wanted} on {self.target}{f' with {self.pipeline}' if self.pipeline else ''}"


def parse_range(text: str, where: str, *, default: str = "") -> TargetRange:
    """`enzyme-ad`, `enzyme-ad@0.0.15`, `enzyme-ad>=0.0.14,<0.0.16`, or only versions of the target called `default`.

    Raises UsageError at `where` for anything else.
    """
    found = _RANGE.fullmatch(text.strip())
    name = (found.group(1) or default) if found else ""
    if found is None or not name:
        raise UsageError(f"{where}: {text.strip()!r} is not a target, as in enzyme-ad, enzyme-ad@0.0.15, mlir")
    versions = (found.group(2) or "").replace("@", "==").replace(" ", "")
    try:
        SpecifierSet(versions)
    except InvalidSpecifier:
        raise UsageError(f"{where}: {versions!r} is not a version range, as in >=0.0.14,<0.0.16") from None
    return TargetRange(name=name, versions=versions)


def parse_expectations(text: str, where: str, *, line: int) -> tuple[Expectation, ...]:
    """All clauses of one EXPECT line. Raises UsageError at `where` for what is not understood."""
    words = text.split()
    if len(words) == 2 and words[1] in _VERDICTS:
        return (Expectation(verdict=_VERDICTS[words[1]], target=parse_range(words[0], where), line=line),)
    found: list[Expectation] = []
    for clause in re.split(r";(?=\s|$)", text.strip()):
        if not clause.strip():
            continue
        name = found[-1].target.name if found else ""
        found.append(_clause(clause.strip(), where, line=line, name=name))
    if not found:
        raise UsageError(f"{where}: EXPECT needs a target and a verdict, not {text.strip()!r}")
    return tuple(found)


def _clause(clause: str, where: str, *, line: int, name: str) -> Expectation:
    match = _CLAUSE.fullmatch(clause)
    if match is None:
        raise UsageError(f"{where}: EXPECT needs a target and a verdict or `VERDICT on TARGET`, not {clause!r}")
    verdict = _VERDICTS.get(match.group(1))
    if verdict is None:
        raise UsageError(f"{where}: unknown verdict {match.group(1)!r}; known: {', '.join(_VERDICTS)}")
    target, _, pipeline = match.group(3).partition(" with ")
    return Expectation(
        verdict=verdict,
        target=parse_range(target, where, default=name),
        pass_name=match.group(2),
        pipeline=pipeline.strip() or None,
        line=line,
    )


def find_expectation(found: Sequence[Expectation], label: str, pipeline: str) -> Expectation | None:
    """The clause for a target and pipeline: one that names the pipeline goes before one that does not.

    Raises UsageError when two clauses of equal rank contradict each other.
    """
    covering = [e for e in found if e.covers(label, pipeline)]
    covering = [e for e in covering if e.pipeline is not None] or covering
    for other in covering[1:]:
        if (other.verdict, other.pass_name) != (covering[0].verdict, covering[0].pass_name):
            raise UsageError(f"lines {covering[0].line} and {other.line} expect different verdicts of {label}")
    return covering[0] if covering else None

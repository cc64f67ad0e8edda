"""Which toolchains have a bug: the same program and passes on each, told apart by the identity of what is seen."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from packaging.version import InvalidVersion, Version

import difftest
from corpus.header import format_inputs
from difftest.errors import UsageError
from difftest.model import FailureKind, Pipeline, Program, Signature, Verdict, VerdictKind
from difftest.oracle.judge import Reference, judge
from difftest.signature import same_failure
from difftest.targets.base import Target
from difftest.targets.pipelines import format_pipeline
from difftest.triage.confirm import compiler_failure
from difftest.triage.culprit import WRONG, blame, find_culprit

ORDERING = frozenset({"race", "barrier-divergence", "benign-in-derivative"})
_INEXPRESSIBLE = frozenset({FailureKind.REFUSED_INPUT, FailureKind.SPELLING, FailureKind.BAD_PIPELINE})


class Status(StrEnum):
    """How a toolchain compares with the one that shows the failure."""

    SAME = "same failure"
    OTHER = "fails otherwise"
    PASSES = "passes"
    INEXPRESSIBLE = "cannot express"
    UNJUDGED = "cannot judge"


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What one toolchain made of the program: plain enough to be kept in a file.

    `verdict` is None when the toolchain does not take the program or the passes; then `message` says which.
    """

    verdict: VerdictKind | None
    signature: Signature | None = None
    message: str = ""

    def as_json(self) -> dict[str, Any]:
        """Plain data."""
        signature = self.signature
        return {
            "verdict": None if self.verdict is None else str(self.verdict),
            "signature": None if signature is None else [signature.kind, signature.pass_name, list(signature.detail)],
            "message": self.message,
        }


def _from_json(data: dict[str, Any]) -> Seen:
    signature = data["signature"]
    return Seen(
        verdict=None if data["verdict"] is None else VerdictKind(data["verdict"]),
        signature=None
        if signature is None
        else Signature(kind=signature[0], pass_name=signature[1], detail=tuple(signature[2])),
        message=data["message"],
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of the table."""

    label: str
    status: Status
    seen: Seen
    cached: bool = False


def look(reference: Reference, target: Target, pipeline: Pipeline, *, timeout: float = 20.0) -> Seen:
    """Judge on one toolchain; a wrong result is attributed to a pass.

    Where results cannot be judged, compiling counts: no failure is `agree`.
    """
    try:
        if not reference.usable:
            failed = compiler_failure(reference, target, pipeline, timeout=timeout)
            return Seen(verdict=VerdictKind.AGREE, message="it compiles") if failed is None else seen_of(failed)
        verdict = judge(reference, target, pipeline, timeout=timeout).verdict
    except UsageError as error:
        return Seen(verdict=None, message=str(error))
    if verdict.failure is not None and verdict.failure.kind in _INEXPRESSIBLE:
        return Seen(verdict=None, message=verdict.message or str(verdict.failure.kind))
    if verdict.kind in WRONG:
        verdict = blame(verdict, find_culprit(reference, target, pipeline, timeout=timeout))
    return seen_of(verdict)


def seen_of(verdict: Verdict) -> Seen:
    """A verdict as it is kept."""
    return Seen(verdict=verdict.kind, signature=verdict.signature, message=verdict.message)


def status_of(wanted: Signature, seen: Seen) -> Status:
    """`seen` compared with the failure called `wanted`."""
    if seen.verdict is None:
        return Status.INEXPRESSIBLE
    if seen.verdict is VerdictKind.AGREE:
        return Status.PASSES
    if not seen.verdict.is_finding:
        return Status.UNJUDGED
    same = seen.signature is not None and _same(wanted, seen.signature)
    return Status.SAME if same else Status.OTHER


def _same(wanted: Signature, found: Signature) -> bool:
    """One bug computes a wrong index here and a wrong value there: wrong results of one pass are the same failure."""
    if wanted.kind in WRONG and found.kind in WRONG:
        lost = [bool(ORDERING.intersection(s.detail)) for s in (wanted, found)]
        return wanted.pass_name == found.pass_name and lost[0] == lost[1]
    return same_failure(wanted, found) or same_failure(found, wanted)


def version_table(
    reference: Reference, targets: Iterable[Target], pipeline: Pipeline, wanted: Signature, *, timeout: float = 20.0
) -> tuple[tuple[str, str], ...]:
    """(toolchain, status) for a finding's report, compared with the failure called `wanted`."""
    found: list[tuple[str, str]] = []
    for target in targets:
        seen = look(reference, target, pipeline, timeout=timeout)
        status = status_of(wanted, seen)
        detail = "" if seen.verdict is None or status in {Status.SAME, Status.PASSES} else f" ({seen.verdict})"
        found.append((target.label, f"{status}{detail}"))
    return tuple(found)


# --- a range of versions ----------------------------------------------------------------------------------------


def version_labels(text: str, known: Sequence[str]) -> tuple[str, ...]:
    """`0.0.14..0.0.16` (those of `known` in the range, ends included) or `0.0.14,0.0.16`, as targets, oldest first.

    Raises UsageError for what is no version, and for an empty range.
    """
    found: set[Version] = set()
    for part in filter(None, (p.strip() for p in text.split(","))):
        first, dots, last = part.partition("..")
        low, high = _version(first), _version(last if dots else first)
        if low > high:
            raise UsageError(f"--versions {part}: {low} is newer than {high}")
        found |= {low, high} | {v for v in map(_version, known) if low <= v <= high}
    if not found:
        raise UsageError("--versions names no version: write 0.0.14..0.0.16")
    return tuple(f"enzyme-ad@{v}" for v in sorted(found))


def _version(text: str) -> Version:
    try:
        return Version(text.strip())
    except InvalidVersion:
        raise UsageError(f"--versions: {text.strip()!r} is not a version, write 0.0.14..0.0.16") from None


def introduced_in(rows: Sequence[Row]) -> str | None:
    """The first version that fails so after one that passes; None when the oldest one fails already, or none does."""
    return _turn(rows, Status.PASSES, Status.SAME)


def fixed_in(rows: Sequence[Row]) -> str | None:
    """The first version that passes, and all later ones with it, after one that fails so; None when none does."""
    return _turn(rows, Status.SAME, Status.PASSES)


def _turn(rows: Sequence[Row], old: Status, new: Status) -> str | None:
    """The last change from `old` to `new` along the versions, what cannot be judged left out; it has to last."""
    ordered = [r for r in rows if r.label.startswith("enzyme-ad@") and r.status in {Status.SAME, Status.PASSES}]
    for earlier, later in zip(reversed(ordered[:-1]), reversed(ordered[1:]), strict=True):
        if later.status is not new:
            if new is Status.PASSES:
                return None
            continue
        if earlier.status is old:
            return later.label.partition("@")[2]
    return None


# --- what is kept -----------------------------------------------------------------------------------------------


class Cache:
    """Answers by (program, toolchain, pipeline) in one folder; those of other versions of these sources are ignored."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._sources = _fingerprint()

    def key(self, program: Program, target: Target, pipeline: Pipeline) -> str:
        """A name for one question. A binary named by its path is told apart by its size and time, too."""
        path = Path(target.label.removeprefix("opt:"))
        stat = path.stat() if target.label.startswith("opt:") and path.is_file() else None
        parts = (
            self._sources,
            program.text,
            program.entry,
            format_inputs(program.inputs),
            target.label,
            target.availability().version,
            "" if stat is None else f"{stat.st_size} {stat.st_mtime_ns}",
            format_pipeline(pipeline),
        )
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]

    def get(self, key: str) -> Seen | None:
        """A kept answer, None when there is none that can be read."""
        with suppress(OSError, ValueError, KeyError, TypeError, IndexError):
            return _from_json(json.loads((self._folder / f"{key}.json").read_text(encoding="utf-8")))
        return None

    def put(self, key: str, seen: Seen) -> None:
        """Keep an answer; a folder that cannot be written costs only time."""
        with suppress(OSError):
            self._folder.mkdir(parents=True, exist_ok=True)
            temporary = self._folder / f"{key}.tmp"
            temporary.write_text(json.dumps(seen.as_json()), encoding="utf-8")
            temporary.replace(self._folder / f"{key}.json")


def _fingerprint() -> str:
    """Changes with every edit of the oracle, whose answers are kept."""
    root = Path(__file__).parents[1]
    stamps = sorted(f"{p.relative_to(root)} {p.stat().st_mtime_ns}" for p in root.rglob("*.py"))
    return hashlib.sha256("\n".join([difftest.__version__, *stamps]).encode()).hexdigest()[:16]

"""What `difftest bisect` does, as functions. No printing, no argument parsing."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from packaging.version import Version

from difftest import toolchains
from difftest.commands_triage import Request, called, completed, load_reference
from difftest.errors import UsageError
from difftest.model import Program, VerdictKind
from difftest.oracle.judge import Reference
from difftest.session import open_ready
from difftest.targets import open_target
from difftest.targets.base import Target
from difftest.targets.enzyme import KNOWN_VERSIONS
from difftest.targets.pipelines import resolve
from difftest.triage.versions import (
    Cache,
    Row,
    Seen,
    Status,
    fixed_in,
    introduced_in,
    look,
    status_of,
    version_labels,
)

ENZYME = "enzyme-ad@"


@dataclass(frozen=True, slots=True, kw_only=True)
class BisectReport:
    """The table. `base` is the toolchain whose failure the others are compared with, "" when none fails."""

    program: Program
    pipeline: str
    base: str
    rows: tuple[Row, ...]
    note: str = ""

    @property
    def exit_code(self) -> int:
        """1 when some toolchain fails."""
        return 1 if self.base else 0

    @property
    def upstream(self) -> bool | None:
        """Whether a toolchain other than enzyme-ad has the same failure; None when none could say."""
        others = [r.status for r in self.rows if not r.label.startswith(ENZYME)]
        known = [s for s in others if s not in {Status.INEXPRESSIBLE, Status.UNJUDGED}]
        return Status.SAME in known if known else None

    def as_json(self) -> dict[str, Any]:
        """One JSON object."""
        return {
            "entry": self.program.entry,
            "pipeline": self.pipeline,
            "base": self.base or None,
            "versions": [
                {"toolchain": r.label, "status": str(r.status), "cached": r.cached, **r.seen.as_json()}
                for r in self.rows
            ],
            "introduced_in": introduced_in(self.rows),
            "fixed_in": fixed_in(self.rows),
            "also_upstream": self.upstream,
            "note": self.note,
        }

    def as_text(self) -> str:
        """The table and what follows from it."""
        width = max(len(r.label) for r in self.rows)
        lines = [f"{called(self.program)} [{self.pipeline}]"]
        for row in self.rows:
            detail = row.seen.message or (row.seen.signature.key if row.seen.signature else "")
            what = f"{row.seen.verdict}: {detail}" if row.seen.verdict and detail else row.seen.verdict or detail
            lines.append(f"  {row.label:{width}}  {row.status:15}  {what}"[:160])
        introduced, fixed = introduced_in(self.rows), fixed_in(self.rows)
        lines += [f"  introduced in {introduced}"] if introduced else []
        lines += [f"  fixed in {fixed}"] if fixed else []
        lines += ["  also upstream"] if self.upstream else []
        if not self.base:
            lines.append("  no toolchain fails")
        if self.note:
            lines.append(f"  ({self.note})")
        return "\n".join(lines)


def bisect_file(
    request: Request,
    *,
    versions: str = "",
    targets: str = "",
    cached: bool = True,
    progress: toolchains.Progress | None = None,
) -> BisectReport:
    """Judge the program on every enzyme-ad version in `versions` (default: the installed ones) and on `targets`.

    The failure to compare with is that of the file's own target when it fails, else that of the newest that does.
    """
    own, text = completed(request)
    labels = _labels(own, versions, targets)
    reference, note = load_reference(request, prefer=(own, *labels))
    if not reference.usable:
        note = "its results cannot be judged: passes means that it compiles"
    cache = Cache(toolchains.cache_folder() / "verdicts") if cached else None
    found: list[Found] = []
    for label in labels:
        with closing(open_ready(label, progress=progress)) as target:
            found.append((target.label, *_answer(reference, target, text, cache, request.timeout)))
    base = _base(own, found)
    signature = base[1].signature if base is not None else None
    return BisectReport(
        program=reference.program,
        pipeline=text,
        base="" if base is None else base[0],
        note=note,
        rows=tuple(
            Row(
                label=label,
                seen=seen,
                cached=kept,
                status=_plain(seen) if signature is None else status_of(signature, seen),
            )
            for label, seen, kept in found
        ),
    )


def _labels(own: str, versions: str, targets: str) -> tuple[str, ...]:
    """Versions oldest first, then the other targets; by default all that are installed, and the file's own."""
    installed = [t.version for t in toolchains.list_installed()]
    wanted = (
        version_labels(versions, (*installed, *KNOWN_VERSIONS))
        if versions
        else tuple(f"{ENZYME}{v}" for v in installed)
    )
    others = tuple(filter(None, (t.strip() for t in targets.split(","))))
    if own.startswith(ENZYME) and not versions:
        wanted = tuple(sorted({*wanted, open_target(own).label}, key=lambda label: Version(label.partition("@")[2])))
    elif not own.startswith(ENZYME):
        others = (own, *others)
    labels = tuple(dict.fromkeys([*wanted, *others]))
    if not labels:
        raise UsageError("no toolchain to try: name some with --versions or --target")
    return labels


Found = tuple[str, Seen, bool]


def _answer(
    reference: Reference, target: Target, pipeline: str, cache: Cache | None, timeout: float
) -> tuple[Seen, bool]:
    try:
        passes = resolve(pipeline, target.label)
    except UsageError as error:
        return Seen(verdict=None, message=str(error)), False
    if cache is None:
        return look(reference, target, passes, timeout=timeout), False
    key = cache.key(reference.program, target, passes)
    kept = cache.get(key)
    if kept is not None:
        return kept, True
    seen = look(reference, target, passes, timeout=timeout)
    cache.put(key, seen)
    return seen, False


def _base(own: str, found: Sequence[Found]) -> Found | None:
    failing = [f for f in found if f[1].verdict is not None and f[1].verdict.is_finding and f[1].signature is not None]
    mine = [f for f in failing if f[0] == own]
    return (mine or failing[::-1] or [None])[0]


def _plain(seen: Seen) -> Status:
    """The status where no toolchain fails."""
    if seen.verdict is None:
        return Status.INEXPRESSIBLE
    return Status.PASSES if seen.verdict is VerdictKind.AGREE else Status.UNJUDGED

"""What a reduction did, per pass: counted by the driver, shown by whoever drives it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True, kw_only=True)
class PassStats:
    """The work of one pass. `runs` counts calls of `propose`, `tests` predicate calls that were waited for."""

    name: str
    runs: int = 0
    edits: int = 0
    tests: int = 0
    accepted: int = 0
    ops_removed: int = 0
    bytes_removed: int = 0
    seconds: float = 0.0

    def as_json(self) -> dict[str, Any]:
        """The fields as plain data."""
        return {
            "name": self.name,
            "runs": self.runs,
            "edits": self.edits,
            "tests": self.tests,
            "accepted": self.accepted,
            "ops_removed": self.ops_removed,
            "bytes_removed": self.bytes_removed,
            "seconds": round(self.seconds, 4),
        }


@dataclass(slots=True, kw_only=True)
class Stats:
    """The whole reduction so far.

    `tests` counts predicate calls whose answer was used; `cached` questions answered before; `larger` candidates
    not asked because they are not smaller than the best; `lost` evaluators that hung or died (their candidate
    counts as not interesting).
    """

    tests: int = 0
    cached: int = 0
    larger: int = 0
    lost: int = 0
    current_pass: str = ""
    seconds: float = 0.0
    passes: dict[str, PassStats] = field(default_factory=dict[str, PassStats])

    def of(self, name: str) -> PassStats:
        """The entry of the pass called `name`, made on first use."""
        return self.passes.setdefault(name, PassStats(name=name))

    def as_json(self) -> dict[str, Any]:
        """The fields as plain data, passes in the order they first ran."""
        return {
            "tests": self.tests,
            "cached": self.cached,
            "larger": self.larger,
            "lost": self.lost,
            "seconds": round(self.seconds, 3),
            "passes": [one.as_json() for one in self.passes.values()],
        }

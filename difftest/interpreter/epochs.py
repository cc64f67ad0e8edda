"""The tables of the race checker: which lanes touched which granules of an allocation in one epoch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from difftest.ir.tree import Operation

NOBODY = np.int32(2**31 - 1)
DEFERRED_LIMIT = 1 << 20
ENTRY_WEIGHT = 64  # what one deferred entry costs besides its lanes
ndarray: Any = np.ndarray
Entry = tuple[Any, Any, Any, int]  # lowest lanes, highest lanes (the same object when they agree), where, width


class Lanes:
    """Per granule, the lowest (`low`) and highest (`high`) lane of one kind of access; (NOBODY, -1) when untouched."""

    __slots__ = ("high", "low")

    def __init__(self, count: int) -> None:
        self.low: Any = np.full(count, NOBODY, np.int32)
        self.high: Any = np.full(count, -1, np.int32)

    def refine(self, times: int) -> None:
        """Split each granule in `times`."""
        self.low = np.repeat(self.low, times)
        self.high = np.repeat(self.high, times)

    def touch(self, where: Any, first: Any, last: Any) -> None:
        """Add accesses; where granules repeat, later entries of `first` and `last` must not be lower."""
        low, high = self.low, self.high
        if where.__class__ is not ndarray:
            low[where] = min(int(low[where]), int(first))
            high[where] = max(int(high[where]), int(last))
            return
        high[where] = np.maximum(high[where], last)
        # Of repeated granules the last assignment stands, so minima are assigned in reverse.
        low[where[::-1]] = np.minimum(low[where], first)[::-1]

    def split(self, present: Any) -> Lanes:
        """Take out the entries whose lanes are all marked in `present`."""
        touched = self.high >= 0
        out = touched & present[np.where(touched, self.low, 0)] & present[self.high]
        part = Lanes(len(self.high))
        part.low[out], part.high[out] = self.low[out], self.high[out]
        self.low[out], self.high[out] = NOBODY, -1
        return part

    def others(self, where: Any, first: Any, last: Any) -> Any:
        """Where a lane that is not the single lane `first` == `last` has touched the granule."""
        high = self.high[where]
        return (high >= 0) & ((high != first) | (self.low[where] != last) | np.not_equal(first, last))


class Log:
    """What the lanes of one level did to one allocation in the current epoch."""

    __slots__ = (
        "atomics",
        "changed",
        "deferred",
        "granule",
        "pending",
        "read_op",
        "reads",
        "size",
        "strict",
        "write_op",
        "writes",
    )

    def __init__(self, size: int, granule: int) -> None:
        self.size = size
        self.strict = False
        self.granule = granule
        self.reads: Lanes | None = None
        self.writes: Lanes | None = None
        self.atomics: Lanes | None = None
        self.changed: Any = None
        self.deferred: list[Entry] = []
        self.pending = 0
        self.read_op: Operation | None = None
        self.write_op: Operation | None = None

    def table(self) -> Lanes:
        """A fresh table of this log's granules."""
        return Lanes(-(-self.size // self.granule))

    def refine(self, granule: int) -> None:
        """Make granules no larger than `granule` bytes."""
        times = self.granule // granule
        for table in (self.reads, self.writes, self.atomics):
            if table is not None:
                table.refine(times)
        if self.changed is not None:
            self.changed = np.repeat(self.changed, times)
        self.granule = granule

    def locate(self, where: Any, width: int) -> tuple[Any, int]:
        """Granules of accesses of `width` bytes, `where` in units of `width`: (first of each access, how many)."""
        if width < self.granule:
            self.refine(width)
        times = width // self.granule
        return (where if times == 1 else where * times), times

    def settle(self) -> None:
        """Turn deferred reads into the table of reads."""
        entries, self.deferred, self.pending = self.deferred, [], 0
        for first, last, start, width in entries:
            where, times = self.locate(start, width)
            if self.reads is None:
                self.reads = self.table()
            flat, low = spread(where, times, first)
            self.reads.touch(flat, low, low if first is last else spread(where, times, last)[1])


def spread(where: Any, times: int, lane: Any) -> tuple[Any, Any]:
    """Accesses of several granules as accesses of one granule each."""
    if times == 1:
        return where, lane
    steps = np.arange(times)
    if where.__class__ is not ndarray:
        return where + steps, lane
    flat = (where[:, None] + steps).reshape(-1)
    return flat, (np.repeat(lane, times) if lane.__class__ is ndarray else lane)


def ends(lanes: Any, where: Any) -> tuple[Any, Any]:
    """The lowest and highest lane per entry of `where`: all lanes access one place when it is not an array."""
    if lanes.__class__ is ndarray and where.__class__ is not ndarray:
        return int(lanes[0]), int(lanes[-1])
    return lanes, lanes


def raise_entry(ancestors: Any, everyone: Any, entry: Entry) -> Entry:
    """A deferred access of a level as one of the level around it; `everyone` is the level's array of all lanes."""
    first, last, where, width = entry
    low = ancestors if first is everyone else raise_lanes(ancestors, first)
    return low, (low if first is last else raise_lanes(ancestors, last)), where, width


def raise_lanes(ancestors: Any, lanes: Any) -> Any:
    """Lanes of a level as lanes of the level around it."""
    return ancestors[lanes] if ancestors.__class__ is ndarray else ancestors


def each(mask: Any, times: int) -> Any:
    return mask if times == 1 else np.repeat(mask, times)


def mark(log: Log, where: Any, mask: Any) -> None:
    """Mark granules as written with more than one value in this epoch."""
    if log.changed is None:
        log.changed = np.zeros(-(-log.size // log.granule), np.bool_)
    log.changed[where] |= mask

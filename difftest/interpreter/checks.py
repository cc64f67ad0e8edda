"""Races (SEMANTICS §9): exact over epochs, independent of the schedule that was run.

A `Level` is one dynamic instance of a parallel construct. Per allocation it keeps, for every granule of bytes, the
lowest and highest logical lane that read it, wrote it plainly and accessed it atomically since the level began or its
last barrier. Two sets of lanes hold two different lanes exactly when they are not the same single lane, so minimum and
maximum decide every conflict exactly. A level that ends, or meets a barrier, hands its summary to the level around
it, each lane replaced by the lane it descends from (a monotone map: minima stay minima).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from difftest.interpreter.epochs import (
    DEFERRED_LIMIT,
    ENTRY_WEIGHT,
    Entry,
    Lanes,
    Log,
    each,
    ends,
    mark,
    ndarray,
    raise_entry,
    raise_lanes,
    spread,
)
from difftest.interpreter.faults import stop
from difftest.model import OutcomeKind

if TYPE_CHECKING:
    from difftest.interpreter.frames import Frame
    from difftest.interpreter.memory import Allocation, Memory
    from difftest.ir.tree import Operation


class Level:
    """One dynamic instance of a parallel construct.

    `ancestors[lane]` is the lane of `parent` that logical lane `lane` descends from (an int when it is one for all).
    `size` is the number of lanes, `op` the construct; `everyone` the array of all its lanes, when they run together.
    """

    __slots__ = ("ancestors", "everyone", "logs", "memory", "op", "parent", "size")

    def __init__(self, *, parent: Level | None, ancestors: Any, size: int, op: Operation, memory: Memory) -> None:
        self.parent = parent
        self.ancestors = ancestors
        self.size = size
        self.everyone: Any = None
        self.op = op
        self.memory = memory
        self.logs: dict[int, Log] = {}

    def log(self, allocation: Allocation, width: int) -> Log:
        """The log of `allocation`, made on first use."""
        found = self.logs.get(allocation.number)
        if found is None:
            found = self.logs[allocation.number] = Log(allocation.size, width)
            found.strict = allocation.strict
        return found

    def read(self, frame: Frame, op: Operation, allocation: Allocation, *, lanes: Any, where: Any, width: int) -> None:
        """Note plain reads of `width` bytes; `where` (int or array) counts units of `width` in the allocation.

        `lanes` are the logical lanes, one per entry of `where`, ascending.
        """
        log = self.log(allocation, width)
        log.read_op = op
        first, last = ends(lanes, where)
        if log.writes is None and log.atomics is None and log.reads is None:
            log.deferred.append((first, last, where, width))
            log.pending += ENTRY_WEIGHT + (where.size if where.__class__ is ndarray else 1)
            if log.pending > DEFERRED_LIMIT:
                log.settle()
            return
        self._note_read(frame, op, log, (first, last, where, width))

    def _note_read(self, frame: Frame, op: Operation, log: Log, entry: Entry) -> None:
        where, low, high, _ = self._flat(log, entry)
        for other in (log.writes, log.atomics):
            if other is not None:
                _refuse(frame, op, log, other.others(where, low, high), lanes=low, verbs=("read", "written"))
        if log.reads is None:
            log.reads = log.table()
        log.reads.touch(where, low, high)

    def _flat(self, log: Log, entry: Entry) -> tuple[Any, Any, Any, int]:
        """An access as granules: (granules, lowest lanes, highest lanes, granules per access)."""
        first, last, start, width = entry
        if log.deferred and log.reads is None:
            log.settle()
        where, times = log.locate(start, width)
        flat, low = spread(where, times, first)
        return flat, low, (low if first is last else spread(where, times, last)[1]), times

    def write(
        self,
        frame: Frame,
        op: Operation,
        allocation: Allocation,
        *,
        lanes: Any,
        where: Any,
        width: int,
        same: Callable[[], Any],
    ) -> bool:
        """Note plain writes, before they happen; `same()` tells per access whether the cell holds the value already.

        True when some cell has now been written by several lanes: the caller must then check, after the store, that
        all of them wrote one value (`benign`), and report a race otherwise.
        """
        log = self.log(allocation, width)
        log.write_op = op
        first, last = ends(lanes, where)
        flat, low, high, times = self._flat(log, (first, last, where, width))
        for other in (log.reads, log.atomics):
            if other is not None:
                _refuse(frame, op, log, other.others(flat, low, high), lanes=low, verbs=("written", "accessed"))
        self._mark_changed(log, flat, times, same)
        if self.parent is not None:
            self._mark_outer(allocation, log, (where, width, flat, times), same)
        if log.writes is None:
            log.writes = log.table()
        log.writes.touch(flat, low, high)
        shared = np.not_equal(log.writes.low[flat], log.writes.high[flat])
        if not shared.any():
            return False
        if log.changed is not None:
            wrong = shared & log.changed[flat]
            _refuse(frame, op, log, wrong, lanes=low, verbs=("written", "written with another value"))
        return True

    def conflict(self, frame: Frame, op: Operation) -> Exception:
        """The fault of several lanes that write different values to one cell."""
        message = "several iterations write different values to one cell, with nothing that orders them"
        return stop(frame, op, "race", message, kind=OutcomeKind.RACE)

    def _mark_changed(self, log: Log, flat: Any, times: int, same: Callable[[], Any]) -> None:
        """Remember granules written twice in this epoch with different values."""
        if log.writes is None:
            return
        again = log.writes.high[flat] >= 0
        if again.any():
            mark(log, flat, again & each(np.logical_not(same()), times))

    def _mark_outer(
        self, allocation: Allocation, log: Log, entry: tuple[Any, int, Any, int], same: Callable[[], Any]
    ) -> None:
        """The same for cells that a level around has written in its epoch: values are compared here or never."""
        where, width, flat, times = entry
        outer = self.parent
        while outer is not None:
            theirs = outer.logs.get(allocation.number)
            if theirs is not None and theirs.writes is not None:
                there, _ = theirs.locate(where, width)
                again = (theirs.writes.high[there] >= 0) & np.logical_not(same())
                if again.any():
                    mark(log, flat, each(again, times))
            outer = outer.parent

    def atomic(self, frame: Frame, op: Operation, allocation: Allocation, *, lanes: Any, where: Any, width: int) -> Any:
        """Note atomic accesses; returns, per access, whether another lane has atomically touched the same cell."""
        log = self.log(allocation, width)
        log.write_op = op
        first, last = ends(lanes, where)
        flat, low, high, times = self._flat(log, (first, last, where, width))
        for other in (log.reads, log.writes):
            if other is not None:
                mask = other.others(flat, low, high)
                _refuse(frame, op, log, mask, lanes=low, verbs=("atomically updated", "accessed"))
        if log.atomics is None:
            log.atomics = log.table()
        log.atomics.touch(flat, low, high)
        contended = np.not_equal(log.atomics.low[flat], log.atomics.high[flat])
        return contended if times == 1 else contended.reshape(-1, times).any(axis=1)

    def promote(self, frame: Frame) -> None:
        """End an epoch: hand everything to the level around and forget it here. `frame` is the parent's or a lane's."""
        logs, self.logs = self.logs, {}
        parent = self.parent
        if parent is None:
            return
        for number, log in logs.items():
            allocation: Allocation = self.memory.table[number]
            if allocation.alive and allocation.level is not parent:
                parent.absorb(frame, allocation, log, self)

    def promote_some(self, frame: Frame, present: Any) -> None:
        """End an epoch for the lanes marked in `present` (whole groups of one parent lane) only.

        An entry that other groups share stays: a later access that meets it is a race with those groups anyway.
        """
        leaving: dict[int, Log] = {}
        for number, log in self.logs.items():
            log.settle()
            part = leaving[number] = Log(log.size, log.granule)
            part.read_op, part.write_op = log.read_op, log.write_op
            for name in ("reads", "writes", "atomics"):
                table: Lanes | None = getattr(log, name)
                if table is not None:
                    setattr(part, name, table.split(present))
            if log.changed is not None and part.writes is not None:
                part.changed = log.changed & (part.writes.high >= 0)
                log.changed &= ~part.changed
        staying, self.logs = self.logs, leaving
        self.promote(frame)
        self.logs = staying

    def absorb(self, frame: Frame, allocation: Allocation, log: Log, child: Level) -> None:
        """Add the summary `log` of a level inside this one."""
        mine = self.log(allocation, log.granule)
        mine.read_op = log.read_op or mine.read_op
        mine.write_op = log.write_op or mine.write_op
        if mine.granule != log.granule:
            smallest = min(mine.granule, log.granule)
            mine.refine(smallest)
            log.refine(smallest)
        up = child.ancestors
        self._absorb_reads(frame, mine, log, child)
        for name in ("writes", "atomics"):
            table: Lanes | None = getattr(log, name)
            if table is None:
                continue
            where = np.flatnonzero(table.high >= 0)
            first, last = raise_lanes(up, table.low[where]), raise_lanes(up, table.high[where])
            self._absorb_table(frame, child.op, mine, name, (where, first, last))
        if log.changed is not None:
            where = np.flatnonzero(log.changed)
            mark(mine, where, np.ones(len(where), np.bool_))

    def _absorb_reads(self, frame: Frame, mine: Log, log: Log, child: Level) -> None:
        up, everyone = child.ancestors, child.everyone
        entries = [raise_entry(up, everyone, entry) for entry in log.deferred]
        if log.reads is not None:
            where = np.flatnonzero(log.reads.high >= 0)
            first, last = raise_lanes(up, log.reads.low[where]), raise_lanes(up, log.reads.high[where])
            entries.append((first, last, where, log.granule))
        lazy = mine.writes is None and mine.atomics is None and mine.reads is None
        for entry in entries:
            if lazy:
                mine.deferred.append(entry)
                mine.pending += ENTRY_WEIGHT + (entry[2].size if entry[2].__class__ is ndarray else 1)
            else:
                self._note_read(frame, log.read_op or child.op, mine, entry)
        if mine.pending > DEFERRED_LIMIT:
            mine.settle()

    def _absorb_table(self, frame: Frame, op: Operation, mine: Log, name: str, entry: tuple[Any, Any, Any]) -> None:
        where, first, last = entry
        if mine.deferred:
            mine.settle()
        against = {"writes": ("reads", "atomics"), "atomics": ("reads", "writes")}[name]
        for kind in against:
            other: Lanes | None = getattr(mine, kind)
            if other is not None:
                _refuse(frame, op, mine, other.others(where, first, last), lanes=first, verbs=("written", "accessed"))
        table: Lanes | None = getattr(mine, name)
        if table is None:
            table = mine.table()
            setattr(mine, name, table)
        table.touch(where, first, last)
        if name == "writes":
            self._meet(frame, op, mine, table.low[where] != table.high[where], where)

    def _meet(self, frame: Frame, op: Operation, mine: Log, shared: Any, where: Any) -> None:
        """Plain writes of several lanes that meet when a level ends: benign when all wrote one value."""
        if not shared.any():
            return
        if mine.strict:
            raise self.conflict(frame, op)
        if mine.changed is not None:
            wrong = shared & mine.changed[where]
            _refuse(
                frame,
                op,
                mine,
                wrong,
                lanes=mine.writes.low[where] if mine.writes is not None else 0,
                verbs=("written", "written with another value"),
            )
        notes = self.memory.notes
        notes["benign"] = notes.get("benign", 0) + 1


def _refuse(frame: Frame, op: Operation, log: Log, mask: Any, *, lanes: Any, verbs: tuple[str, str]) -> None:
    """End the run with a race where `mask` holds: what this access did, and what the other one had done.

    `lanes` are the logical lanes of the access, one for all or one per entry of `mask`.
    """
    if not mask.any():
        return
    did, had = verbs
    other = log.write_op if had != "accessed" or log.read_op is None else log.read_op
    by = "" if other is None else f" by {other.name} (line {other.line})"
    logical = lanes if lanes.__class__ is not ndarray else lanes[int(np.argmax(mask))]
    message = f"a cell is {did} here and {had} in another iteration{by}, with nothing that orders the two"
    raise stop(frame, op, "race", message, lane=_position(frame, int(logical)), kind=OutcomeKind.RACE)


def _position(frame: Frame, logical: int) -> int:
    """The lane of `frame` that is logical lane `logical`, or 0 when it is none of them."""
    if frame.lanes.__class__ is not ndarray:
        return 0
    found = int(np.searchsorted(frame.lanes, logical))
    return found if found < frame.n and frame.lanes[found] == logical else 0

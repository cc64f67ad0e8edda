"""Enzyme's caches and gradient variables (`!enzyme.Cache<T>`, `!enzyme.Gradient<T>`), one per parallel iteration.

An iteration is named by a *path*: for each parallel construct around it, the position of its lane among the lanes of
the same iteration of the construct outside. Paths do not depend on the schedule, so that what an iteration of the
forward sweep left is found by the same iteration of the reverse sweep. A path is an int (0 on the host) or
one per lane.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from difftest.interpreter.derivative_arithmetic import bound_of, grouped_sum, stripped
from difftest.interpreter.faults import inconclusive, stop, unsupported
from difftest.interpreter.tape import arithmetic, is_float
from difftest.interpreter.values import as_lanes, dtype_of_text, gather, merge, plain, tagged

if TYPE_CHECKING:
    from difftest.interpreter.frames import Frame
    from difftest.ir.tree import Operation

ndarray = np.ndarray
_RADIX = 1 << 20
_NATIVE_DEPTH = 3  # paths that fit int64; deeper ones are Python ints
_DEPTH = 8


def path_of(frame: Frame, op: Operation) -> Any:
    """The paths of the frame's lanes: an int, or an int64 array."""
    ranks: list[Any] = []
    lanes, level = frame.lanes, frame.level
    while level is not None:
        up = level.ancestors
        if level.size > 1:
            ranks.append(lanes - np.searchsorted(up, up[lanes]) if up.__class__ is ndarray else lanes)
        lanes = up[lanes] if up.__class__ is ndarray else up
        level = level.parent
    if len(ranks) > _DEPTH or any(np.max(r) >= _RADIX - 1 for r in ranks):
        raise inconclusive(op, "lanes", f"caches inside more than {_DEPTH} parallel loops, or in very large ones")
    kind: Any = np.int64 if len(ranks) <= _NATIVE_DEPTH else object
    path: Any = 0
    for rank in reversed(ranks):
        number = rank.astype(kind) if rank.__class__ is ndarray else int(rank)
        path = path * _RADIX + number + 1
    return path


def _array(path: Any) -> Any:
    return path if path.__class__ is ndarray else np.array([path], np.int64 if path < _RADIX**_NATIVE_DEPTH else object)


class _Record:
    """A value left by the lanes of `paths`; `alive` tells which have not taken it yet."""

    __slots__ = ("alive", "paths", "value")

    def __init__(self, paths: Any, value: Any) -> None:
        self.paths = paths
        self.value = value
        self.alive = np.ones(len(paths), np.bool_)


class Cache:
    """A stack per path."""

    def __init__(self, type_text: str) -> None:
        self.dtype = dtype_of_text(type_text)
        self.records: list[_Record] = []

    def push(self, frame: Frame, op: Operation, value: Any) -> None:
        """Every lane of the frame pushes its value."""
        self.records.append(_Record(_array(path_of(frame, op)), value))

    def pop(self, frame: Frame, op: Operation) -> Any:
        """What every lane pushed last and has not popped. Undefined when there is none."""
        wanted = _array(path_of(frame, op))
        records = self.records
        if records and records[-1].alive.all() and np.array_equal(records[-1].paths, wanted):
            return records.pop().value
        parts: list[tuple[Any, Any]] = []
        missing = np.arange(len(wanted))
        for record in reversed(records):
            order, found = _match(record, wanted[missing])
            if found.any():
                taken = order[found]
                parts.append((gather(record.value, taken, len(taken)), missing[found]))
                record.alive[taken] = False
                missing = missing[~found]
                if not len(missing):
                    break
        self.records = [r for r in records if r.alive.any()]
        if len(missing):
            raise stop(frame, op, "empty-cache", "a cache is popped more often than pushed", lane=int(missing[0]))
        return merge(parts, frame.n, self.dtype) if len(parts) > 1 else parts[0][0]


def _match(record: _Record, wanted: Any) -> tuple[Any, Any]:
    """For each wanted path: its index among the record's paths, and whether it is there and alive."""
    order = np.argsort(record.paths, kind="stable")
    known: Any = record.paths[order]
    at: Any = known.searchsorted(wanted)
    place = np.minimum(at, len(order) - 1)
    index = order[place]
    return index, np.equal(record.paths[index], wanted).astype(np.bool_) & record.alive[index]


class Gradient:
    """A variable per path; one that was not set there has the value of the nearest path around.

    What iterations inside have added to it since it was set there is added up when it is read: Enzyme's next pass
    makes a reduction of it. Only floats can be added up.
    """

    def __init__(self, type_text: str) -> None:
        self.type = type_text
        self.dtype = dtype_of_text(type_text)
        self.records: list[_Record] = []

    def set(self, frame: Frame, op: Operation, value: Any) -> None:
        """Every lane of the frame sets its variable; what iterations inside it left there is forgotten."""
        paths = _array(path_of(frame, op))
        for record in self.records:
            record.alive &= ~_inside(record.paths, paths)
        self._put(paths, value)

    def get(self, frame: Frame, op: Operation) -> Any:
        """The variable of every lane."""
        paths = _array(path_of(frame, op))
        self._join(op, paths)
        return self._look_up(frame, op, paths)

    def _put(self, paths: Any, value: Any) -> None:
        for record in self.records:
            index, found = _match(record, paths)
            record.alive[index[found]] = False
        self.records = [r for r in self.records if r.alive.any()]
        self.records.append(_Record(paths, value))

    def _look_up(self, frame: Frame | None, op: Operation, paths: Any) -> Any:
        parts: list[tuple[Any, Any]] = []
        missing, wanted = np.arange(len(paths)), paths
        while len(missing):
            for record in self.records:
                index, found = _match(record, wanted[missing])
                if found.any():
                    taken = index[found]
                    parts.append((gather(record.value, taken, len(taken)), missing[found]))
                    missing = missing[~found]
            if len(missing) and not wanted[missing].any():
                raise stop(frame, op, "uninitialised-read", "a gradient is read that was never set")
            wanted = wanted // _RADIX
        return merge(parts, len(paths), self.dtype) if len(parts) > 1 else parts[0][0]

    def _join(self, op: Operation, paths: Any) -> None:
        """Hand what iterations inside `paths` have added to the iterations around them, innermost first."""
        while True:
            inner = [(r, r.alive & _inside(r.paths, paths)) for r in self.records]
            depth = max((int(_depth(r.paths[m]).max()) for r, m in inner if m.any()), default=0)
            if not depth:
                return
            if not is_float(self.type):
                raise unsupported(op, f"a gradient of type {self.type} that parallel iterations change")
            self._join_level(op, [(r, m & (_depth(r.paths) == depth)) for r, m in inner])

    def _join_level(self, op: Operation, inner: Sequence[tuple[_Record, Any]]) -> None:
        a = arithmetic(self.type)
        found: list[Any] = []
        parts: list[tuple[Any, Any]] = []
        total = 0
        for record, mask in inner:
            taken = np.flatnonzero(mask)
            if len(taken):
                parts.append((gather(record.value, taken, len(taken)), np.arange(total, total + len(taken))))
                found.append(record.paths[taken])
                record.alive[taken] = False
                total += len(taken)
        around, groups = np.unique(np.concatenate(found) // _RADIX, return_inverse=True)
        base = self._look_up(None, op, around)
        added = a.sub(stripped(merge(parts, total, self.dtype)), gather(base, groups, total))
        spread = tagged(as_lanes(plain(added), total, self.dtype), bound=bound_of(added))
        self._put(around, a.add(base, grouped_sum(spread, groups, len(around), a)))


def _depth(paths: Any) -> Any:
    """How many parallel constructs a path lies in."""
    steps = [np.greater_equal(paths, _RADIX**k).astype(np.int64) for k in range(1, _DEPTH) if paths.max() >= _RADIX**k]
    return sum(steps, np.greater(paths, 0).astype(np.int64))


def _inside(inner: Any, paths: Any) -> Any:
    """Which of the paths `inner` lie properly inside one of `paths`."""
    found = np.zeros(len(inner), np.bool_)
    if inner.max() <= paths.min():
        return found
    outer = inner
    for _ in range(_DEPTH):
        here = np.greater(outer, 0).astype(np.bool_)
        outer = outer // _RADIX
        found |= here & np.isin(outer, paths)
    return found

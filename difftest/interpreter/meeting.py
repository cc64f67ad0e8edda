"""Barriers that span several parallel constructs, or only some induction variables of one (SEMANTICS §10, `barrier`).

The iterations that meet are those that differ in nothing but the listed induction variables. For part of a
construct's variables a level is put between it and the one around, whose lanes are the groups that meet; that is
exact because the groups are contiguous runs of lanes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from difftest.interpreter.checks import Level
from difftest.interpreter.faults import first_lane, stop, unsupported
from difftest.interpreter.values import plain

if TYPE_CHECKING:
    from difftest.interpreter.core import Machine
    from difftest.interpreter.frames import Frame
    from difftest.ir.tree import Operation

ndarray: Any = np.ndarray


class GroupLevel(Level):
    """The groups of lanes of one construct that meet at its barriers; `key` is the group of each lane."""

    __slots__ = ("key",)

    def __init__(self, inner: Level, key: Any, ancestors: Any, machine: Machine) -> None:
        super().__init__(
            parent=inner.parent, ancestors=ancestors, size=len(ancestors), op=inner.op, memory=machine.memory
        )
        self.key = key


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """A construct whose induction variables a barrier lists: the slots of those it does not list."""

    op: Operation
    others: tuple[int, ...]


def meet(frame: Frame, op: Operation, listed: Sequence[Listed], machine: Machine) -> None:
    """The iterations of the `listed` constructs (innermost first, each directly around the one before) meet."""
    chain: list[Level] = []
    at = frame.level
    inner: Frame | None = frame
    for number, construct in enumerate(listed):
        if at is None or inner is None or at.op is not construct.op:
            raise unsupported(op, "it lists induction variables across a parallel loop that it does not list")
        top = _top(inner, at)
        chain.append(at)
        key = _grouping(op, top, at, construct)
        if key is not None:
            if number + 1 < len(listed):
                raise unsupported(op, "it lists some induction variables of an inner loop and some of an outer one")
            _split(op, at, key, machine)
        elif isinstance(at.parent, GroupLevel) and at.parent.op is at.op:
            chain.append(at.parent)
        at = chain[-1].parent
        inner = top.parent
    _end_epochs(frame, op, chain)


def _top(frame: Frame, level: Level) -> Frame:
    """The frame that holds all lanes of `level`."""
    while frame.parent is not None and frame.parent.level is level:
        frame = frame.parent
    return frame


def _lanes(data: Any, n: int) -> Any:
    return np.broadcast_to(np.asarray(data, np.int64).reshape(-1), (n,))


def _forks(level: Level) -> Any:
    """The lane that each lane of a construct's level was forked from."""
    up = _lanes(level.ancestors, level.size)
    around = level.parent
    return around.ancestors[up] if isinstance(around, GroupLevel) and around.op is level.op else up


def _grouping(op: Operation, top: Frame, level: Level, construct: Listed) -> Any:
    """The group of each lane when the barrier leaves out variables that vary; None when all lanes of a fork meet."""
    if top.n != level.size:
        raise unsupported(op, "its construct does not run in lock-step")
    columns = [_lanes(plain(top.v[slot]), top.n) for slot in construct.others]
    columns = [c for c in columns if (c != c[0]).any()]
    if not columns:
        return None
    rows = np.stack([_forks(level), *columns], axis=1)
    changes = (rows[1:] != rows[:-1]).any(axis=1)
    key: Any = np.concatenate([[0], np.cumsum(changes)])
    if len(np.unique(rows, axis=0)) != key[-1] + 1:
        raise unsupported(op, "it lists induction variables outside of others that it does not list")
    forks = len(np.unique(rows[:, 0]))
    return None if forks == key[-1] + 1 else key


def _split(op: Operation, level: Level, key: Any, machine: Machine) -> None:
    """Put the level of groups around `level`, once."""
    around = level.parent
    if isinstance(around, GroupLevel) and around.op is level.op:
        if not np.array_equal(around.key, key):
            raise unsupported(op, "barriers of one loop list different induction variables")
        return
    first = np.flatnonzero(np.concatenate([[True], key[1:] != key[:-1]]))
    level.parent = GroupLevel(level, key, _lanes(level.ancestors, len(key))[first], machine)
    level.ancestors = key


def _end_epochs(frame: Frame, op: Operation, chain: Sequence[Level]) -> None:
    """All lanes that descend from one lane of the level around `chain` meet: none or all of them must be here."""
    present: list[Any] = [np.atleast_1d(np.asarray(frame.lanes, np.int64))]
    every: list[Any] = []
    for level in chain:
        present.append(_raise(level, present[-1]))
    groups = np.unique(present[-1])
    for number, level in enumerate(chain):
        lanes: Any = np.arange(level.size)
        for outer in chain[number:]:
            lanes = _raise(outer, lanes)
        every.append(np.isin(lanes, groups))
        here = np.unique(present[number])
        if len(here) != int(every[-1].sum()):
            missing = "a barrier is reached by some of the iterations that must meet there, not by all"
            raise stop(frame, op, "barrier-divergence", missing, lane=first_lane(np.zeros(1, np.bool_)))
    for level, mask in zip(chain, every, strict=True):
        if mask.all():
            level.promote(frame)
        else:
            level.promote_some(frame, mask)


def _raise(level: Level, lanes: Any) -> Any:
    up = level.ancestors
    return up[lanes].astype(np.int64) if up.__class__ is ndarray else np.full(len(lanes), int(up))

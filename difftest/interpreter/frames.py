"""Frames: the values of n lanes that execute one function, or one region of it, in lock-step.

A region that runs with the same lanes as its parent runs in the parent's frame; one that runs with other lanes gets a
child frame, whose lane i descends from lane `index[i]` of the parent (never decreasing), and whose captured values are
gathered on entry.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from difftest.interpreter import values
from difftest.interpreter.faults import first_lane, inconclusive, stop
from difftest.interpreter.values import Tagged, gather

if TYPE_CHECKING:
    from difftest.interpreter.checks import Level
    from difftest.ir.tree import Operation

Step = Callable[["Frame"], None]
LANES_PER_FUEL = 64


class Scope:
    """The allocations that end together (SEMANTICS §6, automatic allocation scopes)."""

    __slots__ = ("bases",)

    def __init__(self) -> None:
        self.bases: list[int] = []


class Frame:
    """Values `v` (by slot) of `n` lanes, and where they stand.

    `level` is the innermost parallel construct around (None on the host) and `lanes` the logical iteration numbers in
    it (an int when n is 1, or when one iteration spans the frame). `template` is the function's slots with constants
    filled in, `ivs` its table of induction variables per operation.
    """

    __slots__ = ("index", "ivs", "lanes", "level", "n", "parent", "scope", "template", "v", "weight")

    def __init__(
        self,
        *,
        n: int,
        template: list[Any],
        ivs: dict[Operation, list[int]],
        level: Level | None = None,
        lanes: Any = 0,
        scope: Scope | None = None,
        parent: Frame | None = None,
        index: Any = None,
    ) -> None:
        self.n = n
        self.v: list[Any] = template.copy()
        self.template = template
        self.ivs = ivs
        self.level = level
        self.lanes = lanes
        self.scope = Scope() if scope is None else scope
        self.parent = parent
        self.index = index
        self.weight = 1 + n // LANES_PER_FUEL

    def child(self, index: Any, n: int, captures: Sequence[int]) -> Frame:
        """A frame of `n` lanes inside this one, in the same level; lane i descends from lane `index[i]`."""
        lanes = self.lanes
        if lanes.__class__ is np.ndarray:
            lanes = lanes[index] if n != 1 else int(lanes[index if index.__class__ is int else index[0]])
        frame = Frame(
            n=n,
            template=self.template,
            ivs=self.ivs,
            level=self.level,
            lanes=lanes,
            scope=self.scope,
            parent=self,
            index=index,
        )
        source, target = self.v, frame.v
        for slot in captures:
            target[slot] = gather(source[slot], index, n)
        return frame

    def subset(self, index: Any, captures: Sequence[int]) -> Frame:
        """The child frame of the lanes listed in `index` (ascending)."""
        return self.child(index, len(index), captures)

    def iteration(self, op: Operation, lane: int) -> tuple[int, ...]:
        """The induction variables around `op` in `lane`, outermost first."""
        found: list[int] = []
        at: Operation | None = op.parent_op
        while at is not None:
            here = [_look_up(self, slot, lane) for slot in self.ivs.get(at, ())]
            found[:0] = [v for v in here if v is not None]
            at = at.parent_op
        return tuple(found)


def _parent_lane(frame: Frame, lane: int) -> int:
    if frame.index is None or frame.index.__class__ is int:
        return lane if frame.index is None else frame.index
    return int(frame.index[lane])


def _look_up(frame: Frame | None, slot: int, lane: int) -> int | None:
    while frame is not None:
        value = frame.v[slot] if slot < len(frame.v) else None
        if value is not values.UNDEFINED:
            data = values.plain(values.lane_of(value, lane))
            return int(data)
        lane = _parent_lane(frame, lane)
        frame = frame.parent
    return None


def sink(frame: Frame, op: Operation, value: Any, what: str) -> Any:
    """Plain data where poison may not arrive (SEMANTICS §1, sinks): a condition, bound, index, size, divisor.

    Poison is undefined behaviour; a value that lies inside its error bound makes the run inconclusive.
    """
    if value.__class__ is not Tagged:
        return value
    if value.poison is not None:
        raise stop(frame, op, "poison-sink", f"{what} is poison", lane=first_lane(value.poison))
    if value.bound is not None:
        raise inconclusive(op, "discontinuous", f"{what} depends on a value inside its error bound")
    return value.data

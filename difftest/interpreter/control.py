"""Structured control flow shared by scf and affine: choices between regions and counted loops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from difftest.interpreter.faults import first_lane, stop
from difftest.interpreter.frames import Frame
from difftest.interpreter.values import as_lanes, gather, merge

if TYPE_CHECKING:
    from difftest.interpreter.core import Body, Context
    from difftest.ir.tree import Operation

ndarray: Any = np.ndarray
SAFE = 1 << 62


class Choice:
    """Runs, in each lane, the body whose number the lane chose; results come from its terminator's operands.

    A body may be None: it does nothing (and there are no results then).
    """

    def __init__(self, op: Operation, bodies: Sequence[Body | None], context: Context) -> None:
        self.bodies = bodies
        self.results = tuple(context.slot(v) for v in op.results)
        self.dtypes = context.dtypes

    def run(self, frame: Frame, choice: Any) -> None:
        """`choice` is an int or an integer array of `frame.n` lanes."""
        if choice.__class__ is ndarray:
            first = int(choice[0])
            if (choice != first).any():
                self._part(frame, choice)
                return
            choice = first
        number: int = choice
        body = self.bodies[number]
        if body is None:
            return
        body.run(frame)
        v = frame.v
        for slot, source in zip(self.results, body.results, strict=True):
            v[slot] = v[source]

    def _part(self, frame: Frame, choice: Any) -> None:
        parts: list[list[tuple[Any, Any]]] = [[] for _ in self.results]
        for number in (int(c) for c in np.unique(choice)):
            body = self.bodies[number]
            if body is None:
                continue
            index = np.flatnonzero(choice == number)
            child = frame.subset(index, body.captures)
            body.run(child)
            for column, source in zip(parts, body.results, strict=False):
                column.append((child.v[source], index))
        for slot, column in zip(self.results, parts, strict=True):
            frame.v[slot] = merge(column, frame.n, self.dtypes[slot])


class CountedLoop:
    """Runs a body `trips` times per lane: first argument the induction variable, the others carried."""

    def __init__(self, op: Operation, body: Body, context: Context) -> None:
        self.op = op
        self.body = body
        self.machine = context.machine
        self.dtypes = context.dtypes
        self.iv = body.arguments[0]
        self.carried = body.arguments[1:]
        self.results = tuple(context.slot(v) for v in op.results)
        self.captures = tuple(sorted({*body.captures, *self.carried}))
        context.induction(op, body.arguments[:1])
        self.step = self._make_step()

    def _make_step(self) -> Callable[[Frame], None]:
        """Run the body once and pass what it yields on to the next iteration."""
        body, machine, carried, yielded = self.body, self.machine, self.carried, self.body.results

        def scoped(frame: Frame) -> None:
            machine.scoped(body, frame)

        run = scoped if body.allocates else body.run
        if not carried:
            return run
        if len(carried) == 1:
            (target,), (source,) = carried, yielded

            def one(frame: Frame) -> None:
                run(frame)
                v = frame.v
                v[target] = v[source]

            return one

        def many(frame: Frame) -> None:
            run(frame)
            v = frame.v
            for slot, value in zip(carried, [v[s] for s in yielded], strict=True):
                v[slot] = value

        return many

    def start(self, frame: Frame, inits: Sequence[int]) -> None:
        """Give the carried arguments their initial values."""
        v = frame.v
        for slot, value in zip(self.carried, [v[s] for s in inits], strict=True):
            v[slot] = value

    def finish(self, frame: Frame) -> None:
        """The results are the carried values after the last iteration."""
        v = frame.v
        for slot, source in zip(self.results, self.carried, strict=True):
            v[slot] = v[source]

    def run_uniform(self, frame: Frame, values: range) -> None:
        """All lanes together, for the same induction values."""
        v, iv, step = frame.v, self.iv, self.step
        for value in values:
            v[iv] = value
            step(frame)

    def run_lanes(self, frame: Frame, lower: Any, step: Any, trips: Any) -> None:
        """Lanes with their own bounds; a lane drops out after its last iteration. All arguments are lane arrays."""
        done = 0
        for limit in np.unique(trips):
            if limit <= 0:
                continue
            index = np.flatnonzero(trips >= limit)
            whole = len(index) == frame.n
            child = frame if whole else frame.subset(index, self.captures)
            first, stride = (lower, step) if whole else (lower[index], step[index])
            for k in range(done, int(limit)):
                value = (first + k * stride).astype(lower.dtype, copy=False)
                child.v[self.iv] = value if len(value) > 1 else value[0].item()
                self.step(child)
            if not whole:
                everyone = np.arange(frame.n)
                for slot in self.carried:
                    parts = [(frame.v[slot], everyone), (child.v[slot], index)]
                    frame.v[slot] = merge(parts, frame.n, self.dtypes[slot])
            done = int(limit)


def count_trips(frame: Frame, op: Operation, lower: Any, upper: Any, step: Any, *, width: int, unsigned: bool) -> Any:
    """How often `for (i = lower; i < upper; i += step)` runs: an int or an int64 lane array.

    A step that is not positive, or an end that cannot be represented, is undefined behaviour (SEMANTICS §5).
    """
    if not any(x.__class__ is ndarray for x in (lower, upper, step)):
        low, high, stride = int(lower), int(upper), int(step)
        if unsigned:
            low, high, stride = (x & ((1 << width) - 1) for x in (low, high, stride))
        trips = 0 if low >= high or stride <= 0 else -(-(high - low) // stride)
        wrong = stride <= 0, low + trips * stride >= 1 << (width - (not unsigned))
        _refuse(frame, op, wrong)
        return trips
    low, high, stride = (as_lanes(x, frame.n, np.int64).astype(object) for x in (lower, upper, step))
    if not unsigned and all(_is_small(x) for x in (lower, upper, step)):
        low, high, stride = (x.astype(np.int64) for x in (low, high, stride))
    if unsigned:
        low, high, stride = (x & ((1 << width) - 1) for x in (low, high, stride))
    _refuse(frame, op, (stride <= 0, np.zeros(frame.n, np.bool_)))
    found = np.maximum(-((low - high) // stride), 0)
    limit = 1 << (width - (not unsigned))
    _refuse(frame, op, (np.zeros(frame.n, np.bool_), low + found * stride > limit - 1))
    return found.astype(np.int64)


def _is_small(x: Any) -> bool:
    return bool(np.all(np.abs(np.asarray(x, np.float64)) < 2.0**30))


def _refuse(frame: Frame, op: Operation, wrong: tuple[Any, Any]) -> None:
    step, end = wrong
    if np.any(step):
        raise stop(frame, op, "loop-step", "the step of a loop is not positive", lane=first_lane(step))
    if np.any(end):
        message = "the value after the last induction value cannot be represented"
        raise stop(frame, op, "loop-end", message, lane=first_lane(end))


def lanes_of(value: Any, frame: Frame) -> Any:
    """An int or lane array as an int64 lane array."""
    return as_lanes(value, frame.n, np.int64)


def take(value: Any, index: Any) -> Any:
    """`gather` for an index array."""
    return gather(value, index, len(index))

"""scf: structured control flow (dialect documentation "scf"; SEMANTICS §5)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from difftest.interpreter.control import Choice, CountedLoop, count_trips, lanes_of
from difftest.interpreter.faults import unsupported
from difftest.interpreter.frames import Frame, Step, sink
from difftest.interpreter.parallel import Dimension, needs_lock_step, run_parallel
from difftest.interpreter.reductions import Combiner, gathered_terms
from difftest.interpreter.rules import NoRuleError
from difftest.interpreter.values import gather, merge
from difftest.ir.attributes import parse_int_array
from difftest.ir.types import IntegerType, parse_type

if TYPE_CHECKING:
    from difftest.interpreter.core import Body, Context
    from difftest.ir.tree import Operation

ndarray: Any = np.ndarray
DYNAMIC = -(1 << 63)


def _terminator(op: Operation, context: Context) -> None:
    """Its operands are read by the op around it."""
    del op, context


def _for(op: Operation, context: Context) -> Step:
    lower, upper, step, *inits = (context.slot(v) for v in op.operands)
    kind = parse_type(op.operands[0].type)
    width = kind.width if isinstance(kind, IntegerType) else 64
    unsigned = op.get("unsignedCmp") is not None
    loop = CountedLoop(op, context.body(op.regions[0]), context)

    def run(frame: Frame) -> None:
        v = frame.v
        low = sink(frame, op, v[lower], "the lower bound")
        high = sink(frame, op, v[upper], "the upper bound")
        stride = sink(frame, op, v[step], "the step")
        trips = count_trips(frame, op, low, high, stride, width=width, unsigned=unsigned)
        loop.start(frame, inits)
        if trips.__class__ is not ndarray and not unsigned:
            loop.run_uniform(frame, range(low, low + trips * stride, stride))
        elif trips.__class__ is not ndarray:
            half = 1 << (width - 1)
            for k in range(trips):
                v[loop.iv] = ((int(low) + k * int(stride) + half) & (2 * half - 1)) - half
                loop.step(frame)
        else:
            dtype = low.dtype if low.__class__ is ndarray else context.dtypes[lower]
            first = lanes_of(low, frame).astype(dtype)
            loop.run_lanes(frame, first, lanes_of(stride, frame).astype(dtype), trips)
        loop.finish(frame)

    return run


def _if(op: Operation, context: Context) -> Step:
    condition = context.slot(op.operands[0])
    bodies = [context.body(r) if r.blocks else None for r in op.regions]
    choice = Choice(op, [*bodies, None][:2], context)

    def run(frame: Frame) -> None:
        found = frame.v[condition]
        if found is True:
            choice.run(frame, 0)
        elif found is False:
            choice.run(frame, 1)
        else:
            found = sink(frame, op, found, "the condition")
            choice.run(frame, np.where(found, 0, 1) if found.__class__ is ndarray else 0 if found else 1)

    return run


def _index_switch(op: Operation, context: Context) -> Step:
    """The region of the equal case, else the default (region 0)."""
    flag = context.slot(op.operands[0])
    cases = parse_int_array(op.get("cases") or "array<i64>")
    choice = Choice(op, [context.body(r) for r in op.regions], context)
    table = {case: i + 1 for i, case in reversed(list(enumerate(cases)))}

    def run(frame: Frame) -> None:
        found = sink(frame, op, frame.v[flag], "the flag")
        if found.__class__ is not ndarray:
            choice.run(frame, table.get(int(found), 0))
            return
        numbers = np.zeros(len(found), np.int64)
        for case, number in table.items():
            numbers[found == case] = number
        choice.run(frame, numbers)

    return run


def _execute_region(op: Operation, context: Context) -> Step:
    choice = Choice(op, [context.body(op.regions[0])], context)

    def run(frame: Frame) -> None:
        choice.run(frame, 0)

    return run


class _While:
    """scf.while: the results are what the last evaluation of the before region forwards."""

    def __init__(self, op: Operation, context: Context) -> None:
        self.op = op
        self.inits = [context.slot(v) for v in op.operands]
        self.results = [context.slot(v) for v in op.results]
        self.before, self.after = context.body(op.regions[0]), context.body(op.regions[1])
        self.dtypes = context.dtypes
        self.captures = tuple(sorted({*self.before.captures, *self.after.captures}))

    def run(self, frame: Frame) -> None:
        """All lanes together as long as they agree."""
        v = frame.v
        passed = [v[s] for s in self.inits]
        while True:
            condition, forwarded = self._evaluate(frame, passed)
            if condition.__class__ is ndarray:
                if not (condition == condition[0]).all():
                    self._part(frame, condition, forwarded)
                    return
                condition = bool(condition[0])
            if not condition:
                for slot, value in zip(self.results, forwarded, strict=True):
                    v[slot] = value
                return
            passed = self._iterate(frame, forwarded)

    def _evaluate(self, frame: Frame, passed: Sequence[Any]) -> tuple[Any, list[Any]]:
        v = frame.v
        for slot, value in zip(self.before.arguments, passed, strict=True):
            v[slot] = value
        self.before.run(frame)
        condition, *forwarded = (v[s] for s in self.before.results)
        return sink(frame, self.op, condition, "the condition"), forwarded

    def _iterate(self, frame: Frame, forwarded: Sequence[Any]) -> list[Any]:
        v = frame.v
        for slot, value in zip(self.after.arguments, forwarded, strict=True):
            v[slot] = value
        self.after.run(frame)
        return [v[s] for s in self.after.results]

    def _part(self, frame: Frame, condition: Any, forwarded: list[Any]) -> None:
        """Lanes leave one after the other; `index` are those still inside."""
        parts: list[list[tuple[Any, Any]]] = [[] for _ in self.results]
        index = np.arange(frame.n)
        child = frame
        while True:
            if condition.__class__ is not ndarray:
                condition = np.full(len(index), condition, np.bool_)
            out, stay = np.flatnonzero(~condition), np.flatnonzero(condition)
            if len(out):
                for column, value in zip(parts, forwarded, strict=True):
                    column.append((gather(value, out, len(out)), index[out]))
            if not len(stay):
                break
            if len(out):
                forwarded = [gather(value, stay, len(stay)) for value in forwarded]
                index = index[stay]
                child = frame.subset(index, self.captures)
            condition, forwarded = self._evaluate(child, self._iterate(child, forwarded))
        for slot, column in zip(self.results, parts, strict=True):
            frame.v[slot] = merge(column, frame.n, self.dtypes[slot])


def _while(op: Operation, context: Context) -> Step:
    return _While(op, context).run


def _parallel(op: Operation, context: Context) -> Step:
    segments = parse_int_array(op.get("operandSegmentSizes") or "array<i32>")
    if len(segments) != 4:
        raise NoRuleError("parallel without operandSegmentSizes")
    rank = segments[0]
    slots = [context.slot(v) for v in op.operands]
    bounds = list(zip(slots[:rank], slots[rank : 2 * rank], slots[2 * rank : 3 * rank], strict=True))
    body = context.body(op.regions[0])
    reduction = _Reduction(op, slots[3 * rank :], body, context) if op.results else None
    loop = _Parallel(op, bounds, body, context)

    if reduction is None:
        return loop.run

    def run(frame: Frame) -> None:
        terms: list[list[tuple[Any, Any, int]]] = [[] for _ in reduction.terms]

        def after(child: Frame) -> None:
            for column, slot in zip(terms, reduction.terms, strict=True):
                column.append((child.v[slot], child.index, child.n))

        loop.run(frame, after)
        reduction.finish(frame, terms)

    return run


class _Parallel:
    """An iteration space from (lower, upper, step) slots."""

    def __init__(self, op: Operation, bounds: Sequence[tuple[int, int, int]], body: Body, context: Context) -> None:
        self.op = op
        self.bounds = bounds
        self.body = body
        self.machine = context.machine
        self.ivs = body.arguments[: len(bounds)]
        context.induction(op, self.ivs)
        self.lock_step = needs_lock_step(op, context.rules.lock_step)

    def run(self, frame: Frame, after: Any = None) -> None:
        """Evaluate the bounds once and run the iterations."""
        v = frame.v
        dimensions: list[Dimension] = []
        for lower, upper, step in self.bounds:
            low = sink(frame, self.op, v[lower], "a lower bound")
            high = sink(frame, self.op, v[upper], "an upper bound")
            stride = sink(frame, self.op, v[step], "a step")
            trips = count_trips(frame, self.op, low, high, stride, width=64, unsigned=False)
            dimensions.append(Dimension(lower=low, step=stride, trips=trips))
        run_parallel(
            frame,
            self.op,
            self.body,
            self.machine,
            dimensions,
            slots=self.ivs,
            lock_step=self.lock_step,
            after=after,
        )


class _Reduction:
    """The scf.reduce at the end of a parallel loop with results."""

    def __init__(self, op: Operation, inits: Sequence[int], body: Body, context: Context) -> None:
        ops = op.regions[0].blocks[-1].ops
        reduce = ops[-1] if ops else op
        if reduce.name != "scf.reduce" or len(reduce.regions) != len(op.results):
            raise unsupported(op, "results without a matching scf.reduce")
        self.inits = inits
        self.terms = body.results
        self.results = [context.slot(v) for v in op.results]
        self.combiners = [
            Combiner(context.body(region), context.dtypes[slot], context)
            for region, slot in zip(reduce.regions, self.results, strict=True)
        ]

    def finish(self, frame: Frame, terms: list[list[tuple[Any, Any, int]]]) -> None:
        """Each result is its init combined once with every iteration's value; the init when there were none."""
        v = frame.v
        for init, slot, column, combiner in zip(self.inits, self.results, terms, self.combiners, strict=True):
            if not column:
                v[slot] = v[init]
                continue
            values, parents, total = gathered_terms(column, combiner.dtype, frame.n)
            v[slot] = combiner.reduce(frame, v[init], values, parents, total)


def _forall(op: Operation, context: Context) -> Step:
    """Memref form only: no shared outputs."""
    if op.results:
        raise unsupported(op, "with tensor results")
    slots = [context.slot(v) for v in op.operands]
    bounds: list[tuple[int, ...]] = []
    for name in ("staticLowerBound", "staticUpperBound", "staticStep"):
        column: list[int] = []
        for number in parse_int_array(op.get(name) or "array<i64>"):
            column.append(slots.pop(0) if number == DYNAMIC else _constant_slot(context, number))
        bounds.append(tuple(column))
    body = context.body(op.regions[0])
    return _Parallel(op, list(zip(*bounds, strict=True)), body, context).run


def _constant_slot(context: Context, number: int) -> int:
    slot = context.fresh(np.dtype(np.int64))
    context.code.template[slot] = number
    return slot


def _in_parallel(op: Operation, context: Context) -> None:
    del context
    if any(block.ops for region in op.regions for block in region.blocks):
        raise unsupported(op, "with tensor insertions")


RULES = {
    "scf.for": _for,
    "scf.if": _if,
    "scf.index_switch": _index_switch,
    "scf.execute_region": _execute_region,
    "scf.while": _while,
    "scf.parallel": _parallel,
    "scf.forall": _forall,
    "scf.yield": _terminator,
    "scf.condition": _terminator,
    "scf.reduce": _terminator,
    "scf.reduce.return": _terminator,
    "scf.forall.in_parallel": _in_parallel,
    "scf.in_parallel": _in_parallel,
}

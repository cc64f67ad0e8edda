"""affine: loops, memory and index arithmetic through maps (dialect documentation "affine"; SEMANTICS §4).

Lower bounds are the greatest, upper bounds the least of their map's results, signed. `affine.vector_load`,
`affine.vector_store` and the DMA ops have no rule.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from difftest.interpreter.access import locate
from difftest.interpreter.affine_code import compile_expressions, greatest, least
from difftest.interpreter.affine_index import INDEX_RULES, Map, attribute, map_of
from difftest.interpreter.atomics import KINDS
from difftest.interpreter.control import Choice, CountedLoop, count_trips, lanes_of
from difftest.interpreter.frames import Frame, Step
from difftest.interpreter.numerics import FloatKind, kind_of
from difftest.interpreter.parallel import Dimension, needs_lock_step, run_parallel
from difftest.interpreter.reductions import Combiner, gathered_terms
from difftest.interpreter.rules import NoRuleError, is_array
from difftest.ir.attributes import parse_affine_map, parse_affine_set, parse_array, parse_int_array, parse_integer
from difftest.ir.tree import Operation, Region

if TYPE_CHECKING:
    from difftest.interpreter.core import Body, Context

ndarray: Any = np.ndarray


def _terminator(op: Operation, context: Context) -> None:
    """Its operands are read by the op around it; a prefetch does nothing that can be observed."""
    del op, context


# --- memory -------------------------------------------------------------------------------------------------


def _load(op: Operation, context: Context) -> Step:
    memref, *operands = (context.slot(v) for v in op.operands)
    indices = map_of(op, "map", operands, "an index")
    result, memory = context.slot(op.results[0]), context.machine.memory
    cell = context.cell(op.results[0].type)
    load = memory.load

    def run(frame: Frame) -> None:
        source = frame.v[memref]
        where = locate(frame, op, source, indices(frame), memory)
        frame.v[result] = load(frame, op, source.base, where, cell)

    return run


def _store(op: Operation, context: Context) -> Step:
    value, memref, *operands = (context.slot(v) for v in op.operands)
    indices = map_of(op, "map", operands, "an index")
    memory = context.machine.memory
    cell = context.cell(op.operands[0].type)
    store = memory.store

    def run(frame: Frame) -> None:
        target = frame.v[memref]
        where = locate(frame, op, target, indices(frame), memory)
        store(frame, op, target.base, where, frame.v[value], cell=cell)

    return run


# --- control ------------------------------------------------------------------------------------------------


def _if(op: Operation, context: Context) -> Step:
    """All constraints must hold. An empty else region does nothing."""
    parsed = parse_affine_set(attribute(op, "condition"))
    slots = [context.slot(v) for v in op.operands]
    if parsed.dims + parsed.symbols != len(slots):
        raise NoRuleError("a set that does not fit its operands")
    program = compile_expressions(parsed.constraints, parsed.dims, parsed.symbols)
    values = Map(op, program, slots, "an operand of the condition")
    choice = Choice(op, [context.body(r) if r.blocks else None for r in op.regions], context)
    equalities = parsed.equalities

    def run(frame: Frame) -> None:
        holds: Any = True
        for value, equal in zip(values(frame), equalities, strict=True):
            holds = holds & (value == 0 if equal else value >= 0)
        if is_array(holds):
            choice.run(frame, np.where(holds, 0, 1))
        else:
            choice.run(frame, 0 if holds else 1)

    return run


def _for(op: Operation, context: Context) -> Step:
    slots = [context.slot(v) for v in op.operands]
    lower_count, upper_count, _ = parse_int_array(attribute(op, "operandSegmentSizes"))
    lower = map_of(op, "lowerBoundMap", slots[:lower_count], "the lower bound")
    upper = map_of(op, "upperBoundMap", slots[lower_count : lower_count + upper_count], "the upper bound")
    inits = slots[lower_count + upper_count :]
    step = parse_integer(attribute(op, "step"))
    loop = CountedLoop(op, context.body(op.regions[0]), context)

    def run(frame: Frame) -> None:
        low, high = greatest(lower(frame)), least(upper(frame))
        trips = count_trips(frame, op, low, high, step, width=64, unsigned=False)
        loop.start(frame, inits)
        if trips.__class__ is not ndarray:
            loop.run_uniform(frame, range(low, low + trips * step, step))
        else:
            loop.run_lanes(frame, lanes_of(low, frame), lanes_of(step, frame), trips)
        loop.finish(frame)

    return run


# The kinds that verifiers accept for affine.parallel (older ones no integer minima and maxima), with the identity that
# zero trips give.
_IDENTITIES: dict[str, float] = {
    "addf": 0.0,
    "mulf": 1.0,
    "maximumf": -np.inf,
    "minimumf": np.inf,
    "addi": 0,
    "muli": 1,
    "andi": -1,
    "ori": 0,
    "maxu": 0,
    "minu": -1,
    "maxs": -np.inf,
    "mins": np.inf,
}
# Where the op of a kind has another name.
_COMBINERS = {"maxu": "maxui", "minu": "minui", "maxs": "maxsi", "mins": "minsi"}


def _identity(name: str, type_text: str) -> Any:
    kind, value = kind_of(type_text), _IDENTITIES[name]
    if isinstance(kind, FloatKind) != (name[-1] == "f"):
        raise NoRuleError(f"reduction {name} on {type_text}")
    if isinstance(kind, FloatKind):
        return kind.dtype.type(value)
    smallest = -(1 << (kind.width - 1))
    whole = {-np.inf: smallest, np.inf: -smallest - 1}.get(value, value)
    return kind.canonical(int(whole))


def _combining_region(name: str, type_text: str, line: int) -> Region:
    """The region that an scf.reduce would have for a kind."""
    region = Operation("affine.parallel", line=line).add_region()
    block = region.add_block([type_text, type_text])
    combine = Operation(
        f"arith.{_COMBINERS.get(name, name)}", operands=list(block.arguments), result_types=[type_text], line=line
    )
    block.append(combine)
    block.append(Operation("affine.yield", operands=list(combine.results), line=line))
    return region


class _Reductions:
    """The results of an affine.parallel: each kind over what the iterations yield, from its identity."""

    def __init__(self, op: Operation, body: Body, context: Context) -> None:
        names = [_kind_name(text) for text in parse_array(attribute(op, "reductions"))]
        if len(names) != len(op.results) or len(body.results) != len(names):
            raise NoRuleError("results without matching reductions")
        self.terms = body.results
        self.results = [context.slot(v) for v in op.results]
        self.identities = [_identity(n, v.type) for n, v in zip(names, op.results, strict=True)]
        self.combiners = [
            Combiner(context.body(_combining_region(n, v.type, op.line)), context.dtypes[slot], context)
            for n, v, slot in zip(names, op.results, self.results, strict=True)
        ]

    def finish(self, frame: Frame, terms: list[list[tuple[Any, Any, int]]]) -> None:
        """Combine what `run_parallel` delivered frame by frame."""
        for slot, identity, column, combiner in zip(self.results, self.identities, terms, self.combiners, strict=True):
            if not column:
                frame.v[slot] = identity
                continue
            values, parents, total = gathered_terms(column, combiner.dtype, frame.n)
            frame.v[slot] = combiner.reduce(frame, identity, values, parents, total)


def _kind_name(text: str) -> str:
    number = parse_integer(text)
    name = KINDS[number] if 0 <= number < len(KINDS) else str(number)
    if name not in _IDENTITIES:
        raise NoRuleError(f"reduction kind {name}")
    return name


def _bounds(op: Operation, side: str, slots: Sequence[int], what: str) -> tuple[Map, list[tuple[int, int]]]:
    """A bounds map of an affine.parallel and which of its results belong to each dimension."""
    groups = parse_int_array(attribute(op, f"{side}BoundsGroups"))
    ends = [0, *np.cumsum(groups).tolist()]
    found = map_of(op, f"{side}BoundsMap", slots, what)
    if ends[-1] != len(found.program.expressions):
        raise NoRuleError("bounds groups that do not fit their map")
    return found, list(pairwise(ends))


def _parallel(op: Operation, context: Context) -> Step:
    slots = [context.slot(v) for v in op.operands]
    lower_map = parse_affine_map(attribute(op, "lowerBoundsMap"))
    split = lower_map.dims + lower_map.symbols
    lower, lower_groups = _bounds(op, "lower", slots[:split], "a lower bound")
    upper, upper_groups = _bounds(op, "upper", slots[split:], "an upper bound")
    steps = parse_int_array(attribute(op, "steps"))
    body = context.body(op.regions[0])
    reductions = _Reductions(op, body, context) if op.results else None
    ivs = body.arguments
    context.induction(op, ivs)
    machine, lock_step = context.machine, needs_lock_step(op, context.rules.lock_step)

    def run(frame: Frame) -> None:
        low, high = lower(frame), upper(frame)
        dimensions: list[Dimension] = []
        for (a, b), (c, d), step in zip(lower_groups, upper_groups, steps, strict=True):
            first, last = greatest(low[a:b]), least(high[c:d])
            trips = count_trips(frame, op, first, last, step, width=64, unsigned=False)
            dimensions.append(Dimension(lower=first, step=step, trips=trips))
        terms: list[list[tuple[Any, Any, int]]] = [[] for _ in op.results]

        def after(child: Frame) -> None:
            for column, slot in zip(terms, body.results, strict=True):
                column.append((child.v[slot], child.index, child.n))

        run_parallel(
            frame,
            op,
            body,
            machine,
            dimensions,
            slots=ivs,
            lock_step=lock_step,
            after=after if reductions else None,
        )
        if reductions is not None:
            reductions.finish(frame, terms)

    return run


RULES = {
    **INDEX_RULES,
    "affine.load": _load,
    "affine.store": _store,
    "affine.if": _if,
    "affine.for": _for,
    "affine.parallel": _parallel,
    "affine.yield": _terminator,
    "affine.prefetch": _terminator,
}

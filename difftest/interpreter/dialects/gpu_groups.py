"""gpu: what the work items of a block do together: barriers, shuffles, reductions (SEMANTICS §8)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from difftest.interpreter.dialects.gpu import items_of, standing
from difftest.interpreter.faults import first_lane, stop
from difftest.interpreter.frames import sink
from difftest.interpreter.launch import SUBGROUP, Groups, Place, groups_of
from difftest.interpreter.parallel import barrier
from difftest.interpreter.reductions import Combiner
from difftest.interpreter.rules import NoRuleError
from difftest.interpreter.values import Tagged, as_lanes, gather, tagged
from difftest.ir.attributes import parse_array, parse_enum
from difftest.ir.tree import Operation
from difftest.ir.types import FloatType, VectorType, parse_type

if TYPE_CHECKING:
    from difftest.interpreter.core import Context
    from difftest.interpreter.frames import Frame, Step

ndarray: Any = np.ndarray


# --- barriers -------------------------------------------------------------------------------------------------


def _barrier(op: Operation, context: Context) -> Step:
    """All work items of the block meet; a list of address spaces limits what is ordered by it."""
    known = {"address_spaces", "memory_spaces", "scope"}
    strange = sorted((op.properties.keys() | op.attributes.keys()) - known)
    if strange or "workgroup" not in (op.get("scope") or "workgroup"):
        raise NoRuleError(f"with {', '.join(strange) or op.get('scope')}")
    text = op.get("address_spaces") or op.get("memory_spaces")
    spaces = None if text is None else {parse_enum(part) for part in parse_array(text)}

    def run(frame: Frame) -> None:
        meet(frame, op, context, spaces)

    return run


def meet(frame: Frame, op: Operation, context: Context, spaces: set[str] | None = None) -> None:
    """A barrier of the block. `spaces` (`global`, `workgroup`, `private`) are those it orders, None for all."""
    level = standing(op, frame).items
    kept: dict[int, Any] = {}
    if spaces is not None:
        table = context.machine.memory.table
        for number in list(level.logs):
            space = "workgroup" if table[number].kind == "workgroup" else "global"
            if space not in spaces:
                kept[number] = level.logs.pop(number)
    barrier(frame, op, level)
    level.logs.update(kept)


# --- shuffles -------------------------------------------------------------------------------------------------

_MODES = frozenset({"xor", "up", "down", "idx"})


def _target(mode: str, lane: Any, offset: Any) -> Any:
    if mode == "xor":
        return lane ^ offset
    if mode == "idx":
        return offset
    return lane - offset if mode == "up" else lane + offset


def _shuffle(op: Operation, context: Context) -> Step:
    """The value of another lane of the subgroup; where there is none, poison and `false`."""
    value, offset, width = (context.slot(v) for v in op.operands)
    result, valid = (context.slot(v) for v in op.results)
    mode = parse_enum(op.get("mode") or "")
    if mode not in _MODES:
        raise NoRuleError(f"mode {mode}")
    dtype = context.dtypes[value]

    def run(frame: Frame) -> None:
        v = frame.v
        place = standing(op, frame)
        span = _width(frame, op, sink(frame, op, v[width], "the width"))
        lanes, lane = _subgroup_lanes(frame, op, place, span)
        shift = np.broadcast_to(sink(frame, op, v[offset], "the offset"), lanes.shape).astype(np.int64)
        target = _target(mode, lane, shift)
        good = (target >= 0) & (target < span) & (lane < span)
        at = positions(lanes, lanes - lane + np.where(good, target, lane))
        if frame.n == 1:
            v[result], v[valid] = _masked(v[value], np.atleast_1d(good), dtype, 1), bool(good[0])
            return
        v[result] = _masked(gather(v[value], at, frame.n), good, dtype, frame.n)
        v[valid] = good

    return run


def positions(lanes: Any, wanted: Any) -> Any:
    """Where in the ascending `lanes` the wanted ones are."""
    return ndarray.searchsorted(lanes, wanted)


def _width(frame: Frame, op: Operation, width: Any) -> int:
    found = np.atleast_1d(np.asarray(width))
    if (found != found[0]).any():
        raise stop(frame, op, "shuffle-width", "the width of a shuffle differs between work items")
    if not 1 <= found[0] <= SUBGROUP:
        raise stop(frame, op, "shuffle-width", f"a shuffle of width {found[0]}")
    return int(found[0])


def _subgroup_lanes(frame: Frame, op: Operation, place: Place, width: int) -> tuple[Any, Any]:
    """Logical lanes, and lanes within subgroups; the first `width` lanes of each subgroup must be here."""
    if frame.level is not place.items:
        raise stop(frame, op, "shuffle-divergence", "a shuffle is reached inside a parallel loop of one work item")
    lanes = np.atleast_1d(np.asarray(place.lanes, np.int64))
    lane = lanes % items_of(place) % SUBGROUP
    start = lanes - lane
    groups, number = np.unique(start, return_inverse=True)
    here = np.bincount(number, lane < width, minlength=len(groups))
    if (here != width).any():
        wrong = (here != width)[number]
        message = f"a shuffle of width {width} is not reached by the first {width} lanes of the subgroup"
        raise stop(frame, op, "shuffle-divergence", message, lane=first_lane(wrong))
    return lanes, lane


def _masked(value: Any, good: Any, dtype: Any, n: int) -> Any:
    """`value` with poison where no lane gave one."""
    if good.all():
        return value
    tag = value if value.__class__ is Tagged else Tagged(value)
    poison = ~good if tag.poison is None else ~good | tag.poison
    data = tag.data if n == 1 else as_lanes(tag.data, n, dtype)
    return tagged(data, poison=poison if n > 1 else bool(poison[0]), bound=tag.bound, zero=tag.zero, var=tag.var)


# --- reductions -----------------------------------------------------------------------------------------------

_INTEGER = {"add": "addi", "mul": "muli", "and": "andi", "or": "ori", "xor": "xori"}
_FLOAT = {"add": "addf", "mul": "mulf"}
_SAME = ("minui", "minsi", "minnumf", "maxui", "maxsi", "maxnumf", "minimumf", "maximumf")


def _combiner(op: Operation, context: Context) -> Combiner:
    """The op's region, or one made for its `op` attribute."""
    text = op.get("op")
    region = op.regions[0] if op.regions else None
    if text is not None:
        kind = op.results[0].type
        element = parse_type(kind)
        floating = isinstance(element.element if isinstance(element, VectorType) else element, FloatType)
        name = parse_enum(text)
        name = name if name in _SAME else (_FLOAT if floating else _INTEGER).get(name, "")
        if not name:
            raise NoRuleError(f"reduction {text} on {kind}")
        made = Operation(op.name, line=op.line).add_region()
        block = made.add_block([kind, kind])
        combined = block.append(
            Operation(f"arith.{name}", operands=list(block.arguments), result_types=[kind], line=op.line)
        )
        block.append(Operation("gpu.yield", operands=list(combined.results), line=op.line))
        region = made
    if region is None or not region.blocks:
        raise NoRuleError("neither a region nor an operation")
    return Combiner(context.body(region), context.dtypes[context.slot(op.results[0])], context)


def _reduce(op: Operation, context: Context) -> Step:
    """Every work item of the block, or of the subgroup, gets the combination of all their values."""
    if op.get("cluster_size") is not None:
        raise NoRuleError("clusters of lanes")
    value, result = context.slot(op.operands[0]), context.slot(op.results[0])
    combiner = _combiner(op, context)
    whole = op.name == "gpu.all_reduce"

    def run(frame: Frame) -> None:
        v = frame.v
        place = standing(op, frame)
        groups = groups_of(frame, op, place, items_of(place) if whole else SUBGROUP)
        v[result] = _combined(frame, combiner, v[value], groups)

    return run


def _combined(frame: Frame, combiner: Combiner, value: Any, groups: Groups) -> Any:
    if frame.n == 1:
        return value
    single = groups.count == 1
    first = int(groups.first[0]) if single else groups.first
    inner = frame.child(first, groups.count, combiner.body.captures)
    start = gather(value, first, groups.count)
    others = np.ones(frame.n, np.bool_)
    others[groups.first] = False
    rest = np.flatnonzero(others)
    if not len(rest):
        return value
    terms = gather(value, rest, len(rest))
    found = combiner.reduce(inner, start, terms, 0 if single else groups.number[rest], len(rest))
    return found if single else gather(found, groups.number, frame.n)


RULES = {
    "gpu.barrier": _barrier,
    "gpu.shuffle": _shuffle,
    "gpu.all_reduce": _reduce,
    "gpu.subgroup_reduce": _reduce,
}
LOCK_STEP = frozenset(RULES)

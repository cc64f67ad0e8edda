"""nvvm: ids, barriers and shuffles of kernels, as 32-bit registers (PTX ISA "Special Registers"; SEMANTICS §7)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from difftest.interpreter.aggregates import Struct, kinds_of
from difftest.interpreter.dialects import gpu_groups
from difftest.interpreter.dialects.gpu import AXES, items_of, standing
from difftest.interpreter.faults import first_lane, stop
from difftest.interpreter.frames import sink
from difftest.interpreter.launch import SUBGROUP, Place
from difftest.interpreter.rules import NoRuleError
from difftest.interpreter.values import gather
from difftest.ir.attributes import parse_enum
from difftest.ir.types import parse_type

if TYPE_CHECKING:
    from difftest.interpreter.core import Context
    from difftest.interpreter.frames import Frame, Step
    from difftest.ir.tree import Operation

ndarray: Any = np.ndarray
Lanes = NDArray[np.int64]
_REGISTERS = {"tid": "thread_id", "ctaid": "block_id", "ntid": "block_dim", "nctaid": "grid_dim"}


def _register(read: Callable[[Place], Any], op: Operation, context: Context) -> Step:
    result = context.slot(op.results[0])
    dtype = context.dtypes[result]

    def run(frame: Frame) -> None:
        found = read(standing(op, frame))
        frame.v[result] = found.astype(dtype) if found.__class__ is ndarray else int(found)

    return run


def _coordinate(what: str, axis: int, place: Place) -> Any:
    return place.coordinates(what)[axis]


def _barrier(op: Operation, context: Context) -> Step:
    """`barrier0`, and `barrier` without an id or a number of threads."""
    if op.operands:
        raise NoRuleError("a named barrier")

    def run(frame: Frame) -> None:
        gpu_groups.meet(frame, op, context)

    return run


# --- shuffles -------------------------------------------------------------------------------------------------


def _source_lane(kind: str, lane: Lanes, offset: Lanes, clamp: Lanes) -> tuple[Lanes, NDArray[np.bool_]]:
    """(lane that is read, whether it is inside its segment), as the PTX ISA's `shfl.sync` computes them."""
    by, last, segment = offset & 31, clamp & 31, (clamp >> 8) & 31
    low, high = lane & segment, (lane & segment) | (last & ~segment)
    if kind == "up":
        found = lane - by
        inside = found >= high
    else:
        found = {"down": lane + by, "bfly": lane ^ by, "idx": low | (by & ~segment)}[kind]
        inside = found <= high
    return np.where(inside, found, lane).astype(np.int64), inside


def _shuffle(op: Operation, context: Context) -> Step:
    """`shfl.sync`: a lane that reads outside of its segment keeps its own value. All lanes of the mask must be here."""
    mask, value, offset, clamp = (context.slot(v) for v in op.operands)
    result = context.slot(op.results[0])
    kind = parse_enum(op.get("kind") or "")
    if kind not in {"up", "down", "bfly", "idx"}:
        raise NoRuleError(f"a shuffle of kind {kind}")
    members = kinds_of(parse_type(op.results[0].type))

    def run(frame: Frame) -> None:
        v = frame.v
        lanes, lane = _members(frame, op, sink(frame, op, v[mask], "the mask"))
        by, limit = (np.asarray(sink(frame, op, v[s], "an operand"), np.int64) for s in (offset, clamp))
        source, inside = _source_lane(kind, lane, by, limit)
        at = gpu_groups.positions(lanes, lanes - lane + source)
        if (lanes[np.minimum(at, len(lanes) - 1)] != lanes - lane + source).any():
            raise stop(frame, op, "shuffle-divergence", "a shuffle reads from a lane that does not take part")
        found = v[value] if frame.n == 1 else gather(v[value], at, frame.n)
        valid = bool(inside[0]) if frame.n == 1 else inside
        v[result] = found if members is None else Struct((found, valid), members)

    return run


def _members(frame: Frame, op: Operation, mask: Any) -> tuple[Any, Any]:
    """Logical lanes and lanes within the subgroup; those of the mask, and no others, must be here."""
    place = standing(op, frame)
    if frame.level is not place.items:
        raise stop(frame, op, "shuffle-divergence", "a shuffle is reached inside a parallel loop of one work item")
    lanes = np.atleast_1d(np.asarray(place.lanes, np.int64))
    items = lanes % items_of(place)
    lane = items % SUBGROUP
    bits = np.broadcast_to(np.asarray(mask, np.int64), lanes.shape)
    outside = (bits >> lane & 1) == 0
    groups, number = np.unique(lanes - lane, return_inverse=True)
    exist = np.minimum(SUBGROUP, items_of(place) - (items - lane))
    wanted = np.array([int(m & ((1 << int(n)) - 1)).bit_count() for m, n in zip(bits, exist, strict=True)])
    wrong = outside | (np.bincount(number, minlength=len(groups))[number] != wanted)
    if wrong.any():
        message = "the lanes that reach a shuffle are not those of its mask"
        raise stop(frame, op, "shuffle-divergence", message, lane=first_lane(wrong))
    return lanes, lane


RULES: dict[str, Any] = {
    **{
        f"nvvm.read.ptx.sreg.{register}.{axis}": partial(_register, partial(_coordinate, what, number))
        for register, what in _REGISTERS.items()
        for number, axis in enumerate(AXES)
    },
    "nvvm.read.ptx.sreg.laneid": partial(_register, lambda place: place.item % SUBGROUP),
    "nvvm.read.ptx.sreg.warpsize": partial(_register, lambda place: SUBGROUP),
    "nvvm.read.ptx.sreg.warpid": partial(_register, lambda place: place.item // SUBGROUP),
    "nvvm.read.ptx.sreg.nwarpid": partial(_register, lambda place: -(-items_of(place) // SUBGROUP)),
    "nvvm.barrier0": _barrier,
    "nvvm.barrier": _barrier,
    "nvvm.shfl.sync": _shuffle,
}
LOCK_STEP = frozenset({"nvvm.barrier0", "nvvm.barrier", "nvvm.shfl.sync"})

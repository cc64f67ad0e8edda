"""memref: casts, views and queries (dialect documentation "memref"; SEMANTICS §6)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from difftest.interpreter import views
from difftest.interpreter.dialects.memref import memref_type, mixed, segments, static_array
from difftest.interpreter.faults import first_lane, stop
from difftest.interpreter.frames import Frame, Step, sink
from difftest.interpreter.rules import NoRuleError
from difftest.interpreter.values import MemRef, gather
from difftest.ir.affine import AffineDim, parse_affine_map
from difftest.ir.attributes import parse_array, parse_integer
from difftest.ir.types import MemRefType, OpaqueType, parse_type

if TYPE_CHECKING:
    from difftest.interpreter.core import Context
    from difftest.ir.tree import Operation

ndarray: Any = np.ndarray


def _dim(op: Operation, context: Context) -> Step:
    memref, index = (context.slot(v) for v in op.operands)
    result = context.slot(op.results[0])

    def run(frame: Frame) -> None:
        v = frame.v
        sizes = v[memref].sizes
        axis = sink(frame, op, v[index], "the dimension")
        bad = np.logical_or(np.less(axis, 0), np.greater_equal(axis, len(sizes)))
        if np.any(bad):
            raise stop(frame, op, "out-of-bounds", f"dimension {axis} of {len(sizes)}", lane=first_lane(bad))
        if axis.__class__ is not ndarray:
            v[result] = sizes[axis]
            return
        table = np.stack([np.broadcast_to(np.asarray(s, np.int64), frame.n) for s in sizes])
        v[result] = table[axis, np.arange(frame.n)]

    return run


def _rank(op: Operation, context: Context) -> Step:
    memref, result = context.slot(op.operands[0]), context.slot(op.results[0])

    def run(frame: Frame) -> None:
        frame.v[result] = len(frame.v[memref].sizes)

    return run


def _cast(op: Operation, context: Context) -> Step:
    """Sizes, strides and offset that the result type fixes must be true: the documented assertion."""
    operand, result = context.slot(op.operands[0]), context.slot(op.results[0])
    kind = parse_type(op.results[0].type)
    if isinstance(kind, OpaqueType) and not kind.text.startswith("memref<*x"):
        raise NoRuleError(f"memrefs of type {kind.text}")
    promised = [kind.offset, *kind.shape, *(kind.strides or ())] if isinstance(kind, MemRefType) else []
    rank = len(kind.shape) if isinstance(kind, MemRefType) else None

    def run(frame: Frame) -> None:
        memref: MemRef = frame.v[operand]
        if rank is not None and rank != len(memref.sizes):
            raise stop(frame, op, "memref-cast", f"rank {len(memref.sizes)} is cast to rank {rank}")
        for want, have in zip(promised, (memref.offset, *memref.sizes, *memref.strides), strict=False):
            if want is not None and np.any(np.not_equal(want, have)):
                lane = first_lane(np.not_equal(want, have))
                message = f"a size, stride or offset is {gather(have, lane, 1)}, not {want}"
                raise stop(frame, op, "memref-cast", message, lane=lane)
        frame.v[result] = memref

    return run


def _forward(op: Operation, context: Context) -> Step:
    """Results are the operands (memory_space_cast, distinct_objects)."""
    pairs = [(context.slot(r), context.slot(v)) for r, v in zip(op.results, op.operands, strict=True)]

    def run(frame: Frame) -> None:
        for result, operand in pairs:
            frame.v[result] = frame.v[operand]

    return run


def _subview(op: Operation, context: Context) -> Step:
    _, a, b, c = segments(op, 4)
    rest = op.operands[1:]
    source_kind, kind = memref_type(op.operands[0]), memref_type(op.results[0])
    sizes_static, strides_static = static_array(op, "static_sizes"), static_array(op, "static_strides")
    offsets = mixed(op, context, static_array(op, "static_offsets"), rest[:a])
    sizes = mixed(op, context, sizes_static, rest[a : a + b])
    strides = mixed(op, context, strides_static, rest[a + b : a + b + c])
    outer = source_kind.strides or ()
    found = [None if s is None or o is None else s * o for s, o in zip(strides_static, outer, strict=True)]
    keep = views.kept_dimensions(sizes_static, found, kind)
    operand, result = context.slot(op.operands[0]), context.slot(op.results[0])

    def run(frame: Frame) -> None:
        parts = (offsets(frame), sizes(frame), strides(frame))
        frame.v[result] = views.subview(frame, op, frame.v[operand], parts, keep)

    return run


def _reinterpret_cast(op: Operation, context: Context) -> Step:
    """Relative to the base buffer and unchecked: only accesses must be inside the allocation."""
    _, a, b, c = segments(op, 4)
    rest = op.operands[1:]
    offsets = mixed(op, context, static_array(op, "static_offsets"), rest[:a])
    sizes = mixed(op, context, static_array(op, "static_sizes"), rest[a : a + b])
    strides = mixed(op, context, static_array(op, "static_strides"), rest[a + b : a + b + c])
    operand, result = context.slot(op.operands[0]), context.slot(op.results[0])
    memory = context.machine.memory

    def run(frame: Frame) -> None:
        source: MemRef = frame.v[operand]
        shape = sizes(frame)
        views.refuse_negative(frame, op, shape)
        parts = [source.base, source.address, offsets(frame)[0], *shape, *strides(frame)]
        rank = len(shape)
        made = MemRef(
            base=parts[0],
            address=parts[1],
            offset=parts[2],
            sizes=tuple(parts[3 : 3 + rank]),
            strides=tuple(parts[3 + rank :]),
            cell=source.cell,
            safe=False,
        )
        made.safe = views.is_inside(made, memory)
        frame.v[result] = made

    return run


def _groups(op: Operation) -> list[list[int]]:
    return [[parse_integer(i) for i in parse_array(g)] for g in parse_array(op.get("reassociation") or "[]")]


def _expand_shape(op: Operation, context: Context) -> Step:
    groups = _groups(op)
    sizes = mixed(op, context, static_array(op, "static_output_shape"), op.operands[1:])
    operand, result = context.slot(op.operands[0]), context.slot(op.results[0])

    def run(frame: Frame) -> None:
        frame.v[result] = views.expand(frame, op, frame.v[operand], groups, tuple(sizes(frame)))

    return run


def _collapse_shape(op: Operation, context: Context) -> Step:
    groups = _groups(op)
    operand, result = context.slot(op.operands[0]), context.slot(op.results[0])

    def run(frame: Frame) -> None:
        frame.v[result] = views.collapse(frame, op, frame.v[operand], groups)

    return run


def _transpose(op: Operation, context: Context) -> Step:
    """Result dimension i is the source's dimension that the permutation's i-th result names."""
    order = parse_affine_map(op.get("permutation") or "").results
    axes = [e.position for e in order if isinstance(e, AffineDim)]
    operand, result = context.slot(op.operands[0]), context.slot(op.results[0])

    def run(frame: Frame) -> None:
        m: MemRef = frame.v[operand]
        frame.v[result] = MemRef(
            base=m.base,
            address=m.address,
            offset=m.offset,
            sizes=tuple(m.sizes[i] for i in axes),
            strides=tuple(m.strides[i] for i in axes),
            cell=m.cell,
            safe=m.safe,
        )

    return run


def _view(op: Operation, context: Context) -> Step:
    """A typed window of a byte buffer: aligned, and inside the buffer."""
    kind = memref_type(op.results[0])
    cell = context.cell(str(kind.element))
    sizes = mixed(op, context, kind.shape, op.operands[2:])
    operand, shift, result = context.slot(op.operands[0]), context.slot(op.operands[1]), context.slot(op.results[0])

    def run(frame: Frame) -> None:
        source: MemRef = frame.v[operand]
        shape = tuple(sizes(frame))
        views.refuse_negative(frame, op, shape)
        at = sink(frame, op, frame.v[shift], "the byte shift")
        strides = views.row_major(shape)
        wrong = np.less(at, 0) | np.greater(at + views.span(shape, strides, 0) * cell.size, source.sizes[0])
        if np.any(wrong):
            raise stop(frame, op, "out-of-bounds", "the view leaves its buffer", lane=first_lane(wrong))
        address = views.start_of(source) + at
        if np.any(address % cell.width):
            lane = first_lane(address % cell.width)
            raise stop(frame, op, "misaligned", "the byte shift does not keep elements aligned", lane=lane)
        frame.v[result] = MemRef(
            base=source.base,
            address=address,
            offset=0,
            sizes=shape,
            strides=strides,
            cell=cell,
            safe=source.safe,
        )

    return run


def _metadata(op: Operation, context: Context) -> Step:
    """Base buffer (rank 0, offset 0), offset, sizes, strides."""
    operand = context.slot(op.operands[0])
    results = [context.slot(v) for v in op.results]

    def run(frame: Frame) -> None:
        m: MemRef = frame.v[operand]
        base = MemRef(base=m.base, address=m.address, offset=0, sizes=(), strides=(), cell=m.cell, safe=False)
        for slot, value in zip(results, (base, m.offset, *m.sizes, *m.strides), strict=True):
            frame.v[slot] = value

    return run


def _pointer(op: Operation, context: Context) -> Step:
    """The aligned pointer of the buffer, which the offset is relative to."""
    operand, result = context.slot(op.operands[0]), context.slot(op.results[0])

    def run(frame: Frame) -> None:
        frame.v[result] = frame.v[operand].address

    return run


def _assume_alignment(op: Operation, context: Context) -> Step:
    operand, memory = context.slot(op.operands[0]), context.machine.memory
    alignment = parse_integer(op.get("alignment") or "1")
    results = [context.slot(v) for v in op.results]

    def run(frame: Frame) -> None:
        memref: MemRef = frame.v[operand]
        good = views.is_aligned(memref, alignment, memory)
        if not np.all(good):
            lane = first_lane(np.logical_not(good))
            raise stop(frame, op, "alignment", f"a buffer is not aligned to {alignment} bytes", lane=lane)
        for slot in results:
            frame.v[slot] = memref

    return run


RULES = {
    "memref.assume_alignment": _assume_alignment,
    "memref.cast": _cast,
    "memref.collapse_shape": _collapse_shape,
    "memref.dim": _dim,
    "memref.distinct_objects": _forward,
    "memref.expand_shape": _expand_shape,
    "memref.extract_aligned_pointer_as_index": _pointer,
    "memref.extract_strided_metadata": _metadata,
    "memref.memory_space_cast": _forward,
    "memref.rank": _rank,
    "memref.reinterpret_cast": _reinterpret_cast,
    "memref.subview": _subview,
    "memref.transpose": _transpose,
    "memref.view": _view,
}

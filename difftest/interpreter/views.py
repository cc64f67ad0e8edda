"""Making memref values: fresh objects, and the views of SEMANTICS §6 with their run-time conditions."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from difftest.interpreter.cells import Cell
from difftest.interpreter.faults import first_lane, stop
from difftest.interpreter.memory import ALIGNMENT, Memory
from difftest.interpreter.values import MemRef
from difftest.ir.affine import AffineDim, parse_affine_map
from difftest.ir.types import MemRefType

if TYPE_CHECKING:
    from difftest.interpreter.frames import Frame
    from difftest.ir.tree import Operation

ndarray: Any = np.ndarray


def row_major(sizes: Sequence[Any]) -> tuple[Any, ...]:
    """Strides of a contiguous array."""
    found: list[Any] = []
    step: Any = 1
    for size in reversed(sizes):
        found.append(step)
        step = step * size
    return tuple(reversed(found))


def has_strides(kind: MemRefType) -> bool:
    """Whether the layout is strided, or permutes the dimensions of a row-major array."""
    return kind.strides is not None or _permutation(kind) is not None


def _permutation(kind: MemRefType) -> list[int] | None:
    if not kind.layout.startswith("affine_map"):
        return None
    results = parse_affine_map(kind.layout).results
    order = [e.position for e in results if isinstance(e, AffineDim)]
    return order if len(order) == len(results) and sorted(order) == list(range(len(kind.shape))) else None


def strides_for(kind: MemRefType, sizes: Sequence[Any]) -> tuple[Any, ...]:
    """Strides of a fresh memref: what the layout fixes, row-major where it does not."""
    if kind.strides is not None:
        return tuple(c if s is None else s for c, s in zip(row_major(sizes), kind.strides, strict=True))
    order = _permutation(kind)
    if order is None:
        raise NotImplementedError
    inner = row_major([sizes[i] for i in order])
    return tuple(inner[order.index(i)] for i in range(len(sizes)))


def span(sizes: Sequence[Any], strides: Sequence[Any], offset: Any) -> Any:
    """How many elements lie between the base and the end of the last element (0 for an empty memref)."""
    if all(x.__class__ is int for x in (*sizes, *strides)):
        if 0 in sizes:
            return 0
        return offset + sum((n - 1) * max(s, 0) for n, s in zip(sizes, strides, strict=True)) + 1
    last = offset
    empty: Any = False
    for size, stride in zip(sizes, strides, strict=True):
        last = last + np.maximum(size - 1, 0) * np.maximum(stride, 0)
        empty = np.logical_or(empty, np.equal(size, 0))
    found = np.where(empty, 0, last + 1)
    return found if found.ndim else int(found)


def refuse_negative(frame: Frame, op: Operation, sizes: Sequence[Any]) -> None:
    """A negative size is undefined behaviour."""
    for axis, size in enumerate(sizes):
        if np.any(np.less(size, 0)):
            lane = first_lane(np.less(size, 0))
            raise stop(frame, op, "negative-size", f"size {axis} is negative", lane=lane)


def fresh(
    frame: Frame, op: Operation, kind: MemRefType, sizes: tuple[Any, ...], *, cell: Cell, memory: Memory, heap: bool
) -> MemRef:
    """A new, uninitialised memref per lane. On the heap each lane's is an object of its own, else one piece of one."""
    refuse_negative(frame, op, sizes)
    strides = strides_for(kind, sizes)
    offset = kind.offset or 0
    elements = span(sizes, strides, offset)
    size = int(np.max(elements)) * cell.size
    n = frame.n
    if n == 1 or not heap:
        name = "alloc" if heap else "alloca"
        allocation = memory.allocate(size, kind=name, op=op, level=frame.level, pieces=n)
        base: Any = allocation.number
        address: Any = allocation.start
        if n > 1:
            address = allocation.start + np.arange(n) * allocation.piece
        if not heap:
            frame.scope.bases.append(allocation.number)
    else:
        made = [memory.allocate(size, kind="alloc", op=op, level=frame.level) for _ in range(n)]
        base = np.array([a.number for a in made], np.int64)
        address = np.array([a.start for a in made], np.int64)
    return MemRef(base=base, address=address, offset=offset, sizes=sizes, strides=strides, cell=cell, safe=True)


def is_inside(memref: MemRef, memory: Memory) -> bool:
    """Whether every element is known to lie inside the allocation (only decided for memrefs without lanes)."""
    if memref.varying or any(s < 0 for s in memref.strides):
        return False
    if any(s == 0 for s in memref.sizes):
        return True
    number: int = memref.base
    allocation = memory.table[number]
    first = memref.origin * memref.cell.width
    last = sum((n - 1) * s for n, s in zip(memref.sizes, memref.strides, strict=True))
    end = first + (last + 1) * memref.cell.size
    single = allocation.pieces == 1
    return single and allocation.start <= first and end <= allocation.start + allocation.size


def subview(
    frame: Frame, op: Operation, source: MemRef, parts: tuple[Sequence[Any], Sequence[Any], Sequence[Any]], keep: Any
) -> MemRef:
    """The view of `offsets`, `sizes`, `strides`, relative to `source`; `keep` lists the dimensions that stay."""
    offsets, sizes, strides = parts
    refuse_negative(frame, op, sizes)
    offset = source.offset
    for axis, (at, size, stride) in enumerate(zip(offsets, sizes, strides, strict=True)):
        limit = source.sizes[axis]
        last = at + (size - 1) * stride
        wrong = (np.greater(size, 0)) & (
            np.less(at, 0) | np.less(last, 0) | np.greater_equal(np.maximum(at, last), limit)
        )
        wrong = wrong | np.less(at, 0) | np.greater(at, limit)
        if np.any(wrong):
            lane = first_lane(wrong)
            raise stop(frame, op, "out-of-bounds", f"the view leaves its source in dimension {axis}", lane=lane)
        offset = offset + at * source.strides[axis]
    return MemRef(
        base=source.base,
        address=source.address,
        offset=offset,
        sizes=tuple(sizes[i] for i in keep),
        strides=tuple(source.strides[i] * strides[i] for i in keep),
        cell=source.cell,
        safe=source.safe,
    )


def kept_dimensions(static: Sequence[int | None], strides: Sequence[int | None], kind: MemRefType) -> tuple[int, ...]:
    """Which dimensions of a subview remain in its (rank-reduced) type: dropped ones have static size 1.

    `static` are the view's static sizes, `strides` its static result strides (None: dynamic).
    """
    rank, target = len(static), len(kind.shape)
    fallback: tuple[int, ...] | None = None
    for keep in combinations(range(rank), target):
        dropped = set(range(rank)) - set(keep)
        if any(static[i] != 1 for i in dropped) or any(static[i] != s for i, s in zip(keep, kind.shape, strict=True)):
            continue
        fallback = keep if fallback is None else fallback
        wanted = kind.strides or ()
        if all(w is None or strides[i] is None or strides[i] == w for i, w in zip(keep, wanted, strict=False)):
            return keep
    if fallback is None:
        raise NotImplementedError
    return fallback


def expand(
    frame: Frame, op: Operation, source: MemRef, groups: Sequence[Sequence[int]], sizes: tuple[Any, ...]
) -> MemRef:
    """Each source dimension becomes the group of dimensions whose sizes multiply to it."""
    strides: list[Any] = [0] * len(sizes)
    for axis, group in enumerate(groups):
        product: Any = 1
        for i in reversed(group):
            strides[i] = source.strides[axis] * product
            product = product * sizes[i]
        if np.any(np.not_equal(product, source.sizes[axis])):
            lane = first_lane(np.not_equal(product, source.sizes[axis]))
            raise stop(
                frame, op, "shape", f"the sizes that dimension {axis} expands to do not multiply to it", lane=lane
            )
    return MemRef(
        base=source.base,
        address=source.address,
        offset=source.offset,
        sizes=sizes,
        strides=tuple(strides),
        cell=source.cell,
        safe=source.safe,
    )


def collapse(frame: Frame, op: Operation, source: MemRef, groups: Sequence[Sequence[int]]) -> MemRef:
    """Each group of contiguous dimensions becomes one."""
    sizes: list[Any] = []
    strides: list[Any] = []
    for group in groups:
        size: Any = 1
        stride: Any = None
        for i in reversed(group):
            many = np.not_equal(source.sizes[i], 1)
            if stride is not None and np.any(many & np.not_equal(source.strides[i], stride * size)):
                lane = first_lane(many & np.not_equal(source.strides[i], stride * size))
                raise stop(frame, op, "shape", "collapsed dimensions are not contiguous", lane=lane)
            if stride is None and (np.any(many) or i == group[0]):
                stride = source.strides[i]
            size = size * source.sizes[i]
        sizes.append(size)
        strides.append(1 if stride is None else stride)
    return MemRef(
        base=source.base,
        address=source.address,
        offset=source.offset,
        sizes=tuple(sizes),
        strides=tuple(strides),
        cell=source.cell,
        safe=source.safe,
    )


def start_of(memref: MemRef) -> Any:
    """The byte address of element [0, …, 0]."""
    return memref.origin * memref.cell.width


def is_aligned(memref: MemRef, alignment: int, memory: Memory) -> Any:
    """Where the first element is aligned, objects themselves taken to be aligned as much as anyone asks."""
    numbers: list[int] = [memref.base] if memref.base.__class__ is not ndarray else memref.base.tolist()
    starts: Any = np.array([memory.table[b].start for b in numbers], np.int64)
    # The pieces of one allocation stand for objects of their own, but are only ALIGNMENT bytes aligned to each other.
    limit = min(alignment, ALIGNMENT) if any(memory.table[b].pieces > 1 for b in numbers) else alignment
    good: Any = np.equal((start_of(memref) - starts) % limit, 0)
    return good if len(good) == len(numbers) > 1 else np.all(good) if len(good) == 1 else good

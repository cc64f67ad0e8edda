"""From memref indices and pointers to positions in the arena: every bounds rule of SEMANTICS §6 lives here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from difftest.interpreter.cells import Cell
from difftest.interpreter.faults import first_lane, stop
from difftest.interpreter.frames import sink
from difftest.interpreter.memory import Memory, dead
from difftest.interpreter.values import MemRef, Pointer, Tagged, gather

if TYPE_CHECKING:
    from difftest.interpreter.frames import Frame
    from difftest.ir.tree import Operation

ndarray: Any = np.ndarray
UNSIGNED = np.dtype(np.uint64)


def locate(frame: Frame, op: Operation, memref: MemRef, indices: Sequence[Any], memory: Memory) -> Any:
    """The position of `memref[indices]`, each index checked against its dimension: 0 <= index < size."""
    where = memref.origin
    count = memref.cell.count
    for axis, given in enumerate(indices):
        index = sink(frame, op, given, "an index") if given.__class__ is Tagged else given
        size = memref.sizes[axis]
        if index.__class__ is ndarray:
            inside = index.view(UNSIGNED).max() < size if size.__class__ is int else _inside(index, size)
        else:
            inside = 0 <= index < size if size.__class__ is int else _inside(index, size)
        if not inside:
            raise outside(frame, op, axis, index, size)
        stride = memref.strides[axis] * count
        where = where + (index if stride.__class__ is int and stride == 1 else index * stride)
    if not memref.safe:
        check_range(frame, op, memory, memref.base, where * memref.cell.width, size=memref.cell.size)
    return where


def _inside(index: Any, size: Any) -> bool:
    return bool(np.all((index >= 0) & (index < size)))


def outside(frame: Frame, op: Operation, axis: int, index: Any, size: Any) -> Exception:
    """The fault of an index outside its dimension."""
    wrong = np.logical_or(np.less(index, 0), np.greater_equal(index, size))
    lane = first_lane(wrong)
    bad, limit = gather(index, lane, 1), gather(size, lane, 1)
    return stop(frame, op, "out-of-bounds", f"index {axis} is {bad}, outside 0 <= index < {limit}", lane=lane)


def check_range(frame: Frame, op: Operation, memory: Memory, base: Any, address: Any, *, size: int) -> None:
    """`size` bytes at `address` (int or per lane) must lie inside the allocation `base`, of one piece of it."""
    if base.__class__ is ndarray:
        for number in np.unique(base):
            index = np.flatnonzero(base == number)
            inner = frame.subset(index, ())
            check_range(inner, op, memory, int(number), gather(address, index, len(index)), size=size)
        return
    number: int = base
    allocation = memory.table[number]
    if not allocation.alive:
        raise dead(frame, op, allocation)
    offset = address - allocation.start
    wrong = np.logical_or(np.less(offset, 0), np.greater(offset + size, allocation.size))
    if allocation.pieces > 1:
        limit = allocation.used
        wrong = np.logical_or(wrong, np.greater(offset % allocation.piece + size, limit))
    if np.any(wrong):
        lane = first_lane(wrong)
        at = gather(offset, lane, 1)
        message = f"{size} bytes at offset {at} of an object of {allocation.size} bytes"
        raise stop(frame, op, "out-of-bounds", message, lane=lane)


def locate_pointer(frame: Frame, op: Operation, pointer: Pointer, cell: Cell, memory: Memory, *, count: int = 1) -> Any:
    """The position of `count` elements at a pointer: inside its object (SEMANTICS §7) and aligned to the unit."""
    check_range(frame, op, memory, pointer.base, pointer.address, size=cell.size * count)
    misfit = pointer.address & (cell.width - 1)
    if np.any(misfit):
        message = f"an access of {cell.width} bytes is not aligned to its size"
        raise stop(frame, op, "misaligned", message, lane=first_lane(misfit))
    return pointer.address // cell.width


def all_positions(memref: MemRef, n: int) -> tuple[Any, int]:
    """Positions of every element in row-major order, and their number per lane.

    Shape `(total,)` when the memref is the same in all lanes, else `(n, total)`; sizes must be the same in all lanes.
    """
    sizes = [_common(s) for s in memref.sizes]
    where: Any = np.zeros((), np.int64)
    count = memref.cell.count
    for size, stride in zip(sizes, memref.strides, strict=True):
        steps = np.arange(size) * count
        where = where[..., None] + (steps * stride if stride.__class__ is not ndarray else _outer(stride, steps, where))
    total = int(np.prod(sizes)) if sizes else 1
    if memref.origin.__class__ is ndarray or where.ndim > len(sizes):
        lanes = where.reshape(-1, total) if where.ndim > len(sizes) else where.reshape(1, total)
        origin = memref.origin.reshape(-1, 1) if memref.origin.__class__ is ndarray else memref.origin
        return np.broadcast_to(lanes + origin, (n, total)), total
    return where.reshape(-1) + memref.origin, total


def _outer(stride: Any, steps: Any, where: Any) -> Any:
    shape = (len(stride), *(1,) * max(where.ndim - 1, 0), len(steps)) if where.ndim else (len(stride), len(steps))
    return (stride[:, None] * steps).reshape(shape)


def _common(size: Any) -> int:
    if size.__class__ is not ndarray:
        return int(size)
    if not np.all(size == size[0]):
        raise NotImplementedError
    return int(size[0])

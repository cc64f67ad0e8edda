"""Pointers as memrefs and back, and copies of raw bytes (SEMANTICS §7 and §10)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from difftest.interpreter import views
from difftest.interpreter.access import check_range
from difftest.interpreter.cells import Cell, cell_of
from difftest.interpreter.faults import first_lane, stop
from difftest.interpreter.values import MemRef, Pointer, Tagged, as_lanes, gather, tagged
from difftest.ir.types import IntegerType, MemRefType

if TYPE_CHECKING:
    from difftest.interpreter.frames import Frame
    from difftest.interpreter.memory import Allocation, Memory
    from difftest.ir.tree import Operation

ndarray: Any = np.ndarray
BYTE = cell_of(IntegerType(width=8, signedness=""))


def byte_cell() -> Cell:
    """The cell of one byte."""
    assert BYTE is not None
    return BYTE


def pointer_of(memref: MemRef) -> Pointer:
    """The address of a memref's first element."""
    return Pointer(base=memref.base, address=views.start_of(memref))


def address_of(value: Any) -> Pointer:
    """A pointer, or a memref as one."""
    return pointer_of(value) if isinstance(value, MemRef) else value


def descriptor_parts(memref: MemRef) -> list[Any]:
    """A memref as LLVM code sees it: allocated and aligned pointer, offset, sizes, strides."""
    buffer = Pointer(base=memref.base, address=memref.address)
    return [buffer, buffer, memref.offset, *memref.sizes, *memref.strides]


def memref_from(parts: Sequence[Any], rank: int, cell: Cell, memory: Memory) -> MemRef:
    """The memref of `descriptor_parts`."""
    buffer: Pointer = parts[1]
    made = MemRef(
        base=buffer.base,
        address=buffer.address,
        offset=parts[2],
        sizes=tuple(parts[3 : 3 + rank]),
        strides=tuple(parts[3 + rank : 3 + 2 * rank]),
        cell=cell,
        safe=False,
    )
    if not made.varying:
        number: int = made.base
        made.safe = memory.table[number].alive and views.is_inside(made, memory)
    return made


def room_behind(pointer: Pointer, memory: Memory, n: int) -> Any:
    """Bytes from a pointer to the end of its object (of the lane's piece); 0 for null, dead or foreign pointers."""
    if pointer.base.__class__ is not ndarray:
        number: int = pointer.base
        return _room(memory.table[number], pointer.address)
    address = as_lanes(pointer.address, n, np.int64)
    found = np.zeros(n, np.int64)
    for each in np.unique(pointer.base):
        index = np.flatnonzero(pointer.base == each)
        found[index] = _room(memory.table[int(each)], address[index])
    return found


def _room(allocation: Allocation, address: Any) -> Any:
    if not allocation.alive:
        return 0 * address
    offset = address - allocation.start
    inside: Any = allocation.used - (offset % allocation.piece if allocation.pieces > 1 else offset)
    found: Any = np.where((offset >= 0) & (offset <= allocation.size) & (inside >= 0), inside, 0)
    return found if found.ndim else int(found)


def memref_at(frame: Frame, op: Operation, pointer: Pointer, kind: MemRefType, *, cell: Cell, memory: Memory) -> MemRef:
    """The memref of type `kind` at a pointer. One dynamic dimension reaches to the end of the object behind it."""
    wrong = np.asarray(pointer.address) % cell.width != 0
    if np.any(wrong):
        message = f"a pointer is not aligned for elements of {cell.width} bytes"
        raise stop(frame, op, "misaligned", message, lane=first_lane(np.atleast_1d(wrong)))
    rest = int(np.prod([s for s in kind.shape if s is not None], dtype=np.int64))
    sizes: list[Any] = [s for s in kind.shape if s is not None]
    if None in kind.shape:
        room = room_behind(pointer, memory, frame.n)
        sizes = [room // max(cell.size * rest, 1) if s is None else s for s in kind.shape]
    made = MemRef(
        base=pointer.base,
        address=pointer.address,
        offset=0,
        sizes=tuple(sizes),
        strides=views.row_major(sizes),
        cell=cell,
        safe=False,
    )
    if not made.varying:
        number: int = made.base
        made.safe = memory.table[number].alive and views.is_inside(made, memory)
    return made


def copy_bytes(
    frame: Frame, op: Operation, target: Pointer, source: Pointer, *, count: Any, memory: Memory, overlap: bool
) -> None:
    """Copy `count` bytes, with what is known about them. Regions that overlap must be equal unless `overlap`."""
    for lane in range(frame.n):
        inner = frame if frame.n == 1 else frame.child(lane, 1, ())
        to, of = gather(target, lane, 1), gather(source, lane, 1)
        total = int(gather(count, lane, 1))
        if total < 0:
            raise stop(inner, op, "negative-size", f"a copy of {total} bytes")
        if total:
            _copy(inner, op, to, of, total=total, memory=memory, overlap=overlap)


def _copy(
    frame: Frame, op: Operation, target: Pointer, source: Pointer, *, total: int, memory: Memory, overlap: bool
) -> None:
    for pointer in (source, target):
        check_range(frame, op, memory, pointer.base, pointer.address, size=total)
    distance = abs(int(target.address) - int(source.address))
    if not overlap and 0 < distance < total:
        raise stop(frame, op, "overlap", "source and target of a copy overlap")
    cell = byte_cell()
    steps: Any = np.arange(total)
    wide = frame if total == 1 else frame.child(0, total, ())
    places = [int(p.address) + (steps if total > 1 else 0) for p in (source, target)]
    value = memory.load(wide, op, source.base, places[0], cell)
    if isinstance(value, Tagged):
        value = tagged(value.data, poison=value.poison)
    numbers: tuple[int, int] = (source.base, target.base)
    origin, into = memory.table[numbers[0]], memory.table[numbers[1]]
    shadows = _shadows(origin, int(source.address), total)
    memory.store(wide, op, target.base, places[1], value, cell=cell)
    _restore(into, int(target.address), total, shadows)
    into.zero = into.zero or origin.zero


def _shadows(allocation: Allocation, address: int, total: int) -> tuple[Any, Any]:
    """Error bounds (per two bytes) and provenance (per eight) of a range that starts aligned to them."""
    offset = address - allocation.start
    bound = None if allocation.bound is None else allocation.bound[offset // 2 : (offset + total + 1) // 2].copy()
    known = allocation.provenance
    return bound, None if known is None else known[offset // 8 : (offset + total + 7) // 8].copy()


def _restore(allocation: Allocation, address: int, total: int, shadows: tuple[Any, Any]) -> None:
    offset = address - allocation.start
    bound, known = shadows
    if bound is not None:
        if allocation.bound is None:
            allocation.bound = np.zeros((allocation.size + 1) // 2)
        allocation.bound[offset // 2 : (offset + total + 1) // 2] = bound
    if known is not None:
        if allocation.provenance is None:
            allocation.provenance = np.zeros(-(-allocation.size // 8), np.int64)
        allocation.provenance[offset // 8 : (offset + total + 7) // 8] = known


def raw_copy(memory: Memory, source: Allocation, target: Allocation, count: int) -> None:
    """Move the first `count` bytes of one object to another with everything known about them, unread and unchecked."""
    here, there = slice(source.start, source.start + count), slice(target.start, target.start + count)
    memory.data[there] = memory.data[here]
    memory.init[there] = memory.init[here]
    target.partial = target.partial or source.partial
    if memory.poison is not None:
        memory.poison[there] = memory.poison[here]
        target.poisoned = source.poisoned
    target.zero = source.zero
    _restore(target, target.start, count, _shadows(source, source.start, count))


def fill_bytes(frame: Frame, op: Operation, target: Pointer, value: Any, *, count: Any, memory: Memory) -> None:
    """Set `count` bytes to `value`."""
    for lane in range(frame.n):
        inner = frame if frame.n == 1 else frame.child(lane, 1, ())
        to, total = gather(target, lane, 1), int(gather(count, lane, 1))
        if total < 0:
            raise stop(inner, op, "negative-size", f"a fill of {total} bytes")
        if not total:
            continue
        check_range(inner, op, memory, to.base, to.address, size=total)
        wide = inner if total == 1 else inner.child(0, total, ())
        at: Any = int(to.address) + (np.arange(total) if total > 1 else 0)
        memory.store(wide, op, to.base, at, gather(value, lane, 1), cell=byte_cell())

"""Shadow memory of a differentiated region (SEMANTICS §11, reverse-mode rules 2-4).

Every place of active memory has a shadow place: a `dup` argument's lies in the buffer given beside it, at the same
distance from its start; memory allocated in the region has a private, zero-filled one; all other memory is const and
has none. Views, casts and pointers need nothing: places are found by object and address.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from difftest.interpreter.derivative_arithmetic import Arithmetic, grouped_sum, lanes_of, stripped
from difftest.interpreter.faults import first_lane, stop, unsupported
from difftest.interpreter.frames import Frame
from difftest.interpreter.values import MemRef, Pointer, as_lanes, gather, plain, tagged
from difftest.model import OutcomeKind

if TYPE_CHECKING:
    from difftest.interpreter.checks import Level
    from difftest.interpreter.core import Machine
    from difftest.interpreter.memory import Allocation, Cell
    from difftest.ir.tree import Operation

ndarray = np.ndarray


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """Bytes `low` to `high` (addresses) of a primal object have their shadow in object `base`, `delta` bytes away."""

    low: int
    high: int
    base: int
    delta: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Shadow cells: `position` (unit or units of `cell`) in object `base`; of a private shadow, relative to its start.

    For a private one `base` is the number of the primal object.
    """

    base: Any
    position: Any
    cell: Cell
    private: bool
    op: Operation


class Shadows:
    """The shadows of one execution of a region in `frame`."""

    def __init__(self, machine: Machine, frame: Frame) -> None:
        self.memory = machine.memory
        self.frame = frame
        self.first = len(machine.memory.table)
        self.extents: dict[int, list[Extent]] = {}
        self._ranges: dict[int, list[tuple[int, int, str, Extent]]] = {}
        self._private: dict[int, Allocation] = {}
        self._strict: list[tuple[Allocation, bool]] = []

    # --- which memory is active ------------------------------------------------------------------------------

    def bind(self, op: Operation, primal: Any, shadow: Any) -> None:
        """Make `shadow` the shadow of the memory that `primal` (a memref or pointer, perhaps by lane) refers to."""
        if primal.__class__ is not shadow.__class__ or primal.__class__ not in (MemRef, Pointer):
            raise unsupported(op, "a dup argument that is not memory")
        extents = self._extents(op, primal, shadow)
        together = _joined(extents)
        for number, extent in [together] if together is not None else extents:
            self._add(op, number, extent)

    def _extents(self, op: Operation, primal: Any, shadow: Any) -> list[tuple[int, Extent]]:
        """Primal object and extent, of every lane when lanes differ."""
        varying = any(
            v.varying if v.__class__ is MemRef else not (v.base.__class__ is v.address.__class__ is int)
            for v in (primal, shadow)
        )
        found: list[tuple[int, Extent]] = []
        for lane in range(self.frame.n if varying else 1):
            p: Any = gather(primal, lane, 1)
            s: Any = gather(shadow, lane, 1)
            extent = self._of_memref(op, p, s) if p.__class__ is MemRef else self._of_pointer(p, s)
            if extent is not None:
                found.append((int(p.base), extent))
        return found

    def _of_pointer(self, p: Pointer, s: Pointer) -> Extent:
        whole = self.memory.table[int(p.base)]
        return Extent(low=whole.start, high=whole.start + whole.size, base=int(s.base), delta=s.address - p.address)

    def _of_memref(self, op: Operation, p: MemRef, s: MemRef) -> Extent | None:
        if p.sizes != s.sizes or p.strides != s.strides:
            raise stop(self.frame, op, "shadow-shape", "a shadow does not have the shape and layout of its primal")
        if any(size == 0 for size in p.sizes):
            return None
        width = p.cell.width
        reach = [(n - 1) * stride * p.cell.count for n, stride in zip(p.sizes, p.strides, strict=True)]
        low = (p.origin + sum(x for x in reach if x < 0)) * width
        high = (p.origin + sum(x for x in reach if x > 0) + p.cell.count) * width
        return Extent(low=low, high=high, base=int(s.base), delta=(s.origin - p.origin) * width)

    def _add(self, op: Operation, number: int, extent: Extent) -> None:
        known = self.extents.setdefault(number, [])
        if extent in known:
            return
        self._refuse_alias(op, number, extent)
        known.append(extent)
        self._ranges.setdefault(number, []).append((extent.low, extent.high, "primal", extent))
        self._ranges.setdefault(extent.base, []).append(
            (extent.low + extent.delta, extent.high + extent.delta, "shadow", extent)
        )
        for base in (number, extent.base):
            allocation = self.memory.table[base]
            if not any(a is allocation for a, _ in self._strict):
                self._strict.append((allocation, allocation.strict))
            allocation.strict = True
        self.memory.table[extent.base].zero = True

    def _refuse_alias(self, op: Operation, number: int, extent: Extent) -> None:
        """A shadow may overlap neither primal memory nor another shadow, and a place has one shadow (SEMANTICS §11)."""
        moved = extent.low + extent.delta, extent.high + extent.delta
        clash = extent.base == number and moved[0] < extent.high and extent.low < moved[1]
        for low, high, kind, other in self._ranges.get(number, ()):
            same = kind == "primal" and (other.base, other.delta) == (extent.base, extent.delta)
            clash = clash or (low < extent.high and extent.low < high and not same)
        for low, high, kind, other in self._ranges.get(extent.base, ()):
            same = kind == "shadow" and other.delta == extent.delta and other in self.extents.get(number, ())
            clash = clash or (low < moved[1] and moved[0] < high and not same)
        if clash:
            message = "a shadow is primal memory as well, or the shadow of other memory, or one of two shadows"
            raise stop(self.frame, op, "shadow-alias", message)

    def find(self, frame: Frame, op: Operation, allocation: Allocation, position: Any, cell: Cell) -> Place | None:
        """The shadow of cells of the primal, or None for const memory."""
        if not cell.floating or allocation.constant:
            return None
        extents = self.extents.get(allocation.number)
        if extents is None:
            # A global may be made on first use, here: it is none of the region's own.
            if allocation.number < self.first or allocation.kind == "global":
                return None
            allocation.strict = True
            relative = position - allocation.start // cell.width
            return Place(base=allocation.number, position=relative, cell=cell, private=True, op=op)
        address = position * cell.width
        for e in extents:
            inside = e.low <= address < e.high if address.__class__ is int else _all_inside(address, e)
            if inside:
                self._refuse_outside(frame, op, e, address, cell)
                return Place(base=e.base, position=(address + e.delta) // cell.width, cell=cell, private=False, op=op)
        return self._scattered(frame, op, extents, address, cell)

    def _refuse_outside(self, frame: Frame, op: Operation, e: Extent, address: Any, cell: Cell) -> None:
        """A pointer's shadow may be smaller than what the pointer points into."""
        shadow = self.memory.table[e.base]
        if shadow.start <= e.low + e.delta and e.high + e.delta <= shadow.start + shadow.size:
            return
        at = address + e.delta - shadow.start
        wrong = np.logical_or(np.less(at, 0), np.greater(at + cell.size, shadow.size))
        if np.any(wrong):
            message = "the primal is accessed where its shadow has no memory"
            raise stop(frame, op, "out-of-bounds", message, lane=first_lane(wrong))

    def _scattered(self, frame: Frame, op: Operation, extents: list[Extent], address: Any, cell: Cell) -> Place | None:
        """Lanes that meet different shadows."""
        where = np.broadcast_to(np.asarray(address), (frame.n,))
        base, target = np.full(frame.n, -1, np.int64), np.zeros(frame.n, np.int64)
        for e in extents:
            here = (where >= e.low) & (where < e.high)
            base[here] = e.base
            target[here] = (where[here] + e.delta) // cell.width
        if (base < 0).all():
            return None
        if (base < 0).any():
            raise unsupported(op, "an access of which some iterations are active and others const")
        return Place(base=base, position=target, cell=cell, private=False, op=op)

    # --- races with other iterations around the region -------------------------------------------------------

    def touch(self, frame: Frame, place: Place, *, writes: bool) -> None:
        """Note that the iterations around the region access the shadow at `place`; a conflict is a race.

        Inside the region the shadow is as race-free as the primal, except that loads add to it; compilers must
        make those additions atomic there. Nobody does so for iterations around a region.
        """
        level = self.frame.level
        if level is None or place.private:
            return
        lanes = _lanes_at(frame, level)
        for number in np.unique(place.base):
            allocation = self.memory.table[int(number)]
            if allocation.level is level:
                continue
            where, mine = place.position - allocation.start // place.cell.width, lanes
            if place.base.__class__ is ndarray:
                index = np.flatnonzero(place.base == number)
                where, mine = where[index], lanes[index] if lanes.__class__ is ndarray else lanes
            if writes:
                shared = level.write(
                    frame, place.op, allocation, lanes=mine, where=where, width=place.cell.width, same=_never(where)
                )
                if shared:
                    raise level.conflict(frame, place.op)
            else:
                level.read(frame, place.op, allocation, lanes=mine, where=where, width=place.cell.width)

    # --- reading and writing ---------------------------------------------------------------------------------

    def _resolve(self, place: Place) -> tuple[Any, Any]:
        if not place.private:
            return place.base, place.position
        found = self._private.get(place.base)
        if found is None:
            primal = self.memory.table[int(place.base)]
            found = self.memory.allocate(primal.size, kind="shadow", op=place.op, initialised=True)
            self.memory.data[found.start : found.start + found.size] = 0
            self._private[place.base] = found
        return found.number, place.position + found.start // place.cell.width

    def _frame(self, place: Place) -> Frame:
        """A frame outside all levels: the primal's accesses have been checked in the same places."""
        n = len(place.position) if place.position.__class__ is ndarray else 1
        return Frame(n=n, template=[], ivs={})

    def read(self, place: Place) -> Any:
        """The derivative values stored at `place`."""
        base, position = self._resolve(place)
        tape, self.memory.tape = self.memory.tape, None
        value = self.memory.load(self._frame(place), place.op, base, position, place.cell)
        self.memory.tape = tape
        return stripped(value)

    def write(self, place: Place, value: Any) -> None:
        """Overwrite the shadow (for uniform places: with the last lane's value)."""
        base, position = self._resolve(place)
        if position.__class__ is not ndarray and lanes_of(value) > 1:
            value = gather(value, lanes_of(value) - 1, 1)
        tape, self.memory.tape = self.memory.tape, None
        self.memory.store(self._frame(place), place.op, base, position, value, cell=place.cell)
        self.memory.tape = tape

    def clear(self, place: Place) -> None:
        """Overwrite the shadow with zeros."""
        cell = place.cell
        self.write(place, np.zeros((1, *cell.shape), cell.dtype) if cell.shape else cell.dtype.type(0))

    def add(self, place: Place, value: Any, a: Arithmetic) -> None:
        """Add derivative values to the shadow; several lanes may add to one cell."""
        if place.position.__class__ is not ndarray:
            n = lanes_of(value)
            if n > 1:
                value = grouped_sum(value, np.zeros(n, np.int64), 1, a)
            self.write(place, a.add(self.read(place), value))
            return
        n = len(place.position)
        if place.base.__class__ is ndarray and len(np.unique(place.base)) > 1:
            for number in np.unique(place.base):
                index = np.flatnonzero(place.base == number)
                part = Place(
                    base=int(number), position=place.position[index], cell=place.cell, private=False, op=place.op
                )
                self.add(part, gather(value, index, len(index)), a)
            return
        cells, first, inverse = np.unique(place.position, return_index=True, return_inverse=True)
        if len(cells) == n:
            self.write(place, a.add(self.read(place), value))
            return
        base = int(place.base[0]) if place.base.__class__ is ndarray else place.base
        target = Place(base=base, position=cells, cell=place.cell, private=place.private, op=place.op)
        spread = tagged(as_lanes(plain(value), n, place.cell.dtype), bound=getattr(value, "bound", None))
        self.write(target, a.add(self.read(target), grouped_sum(spread, inverse, len(first), a)))

    def close(self) -> None:
        """End the private shadows and stop watching the memory."""
        for allocation in reversed(list(self._private.values())):
            self.memory.release(allocation.number)
        for allocation, strict in self._strict:
            allocation.strict = strict


def _joined(extents: list[tuple[int, Extent]]) -> tuple[int, Extent] | None:
    """One extent for all lanes, when their shadows lie in one object at one distance."""
    if not extents:
        return None
    number, first = extents[0]
    if any((n, e.base, e.delta) != (number, first.base, first.delta) for n, e in extents):
        return None
    low, high = min(e.low for _, e in extents), max(e.high for _, e in extents)
    return number, Extent(low=low, high=high, base=first.base, delta=first.delta)


def _all_inside(address: Any, e: Extent) -> bool:
    return bool(np.all(np.logical_and(address >= e.low, address < e.high)))


def refuse_shared(frame: Frame, op: Operation, allocation: Allocation, position: Any) -> None:
    """A store whose lanes meet in one cell: harmless elsewhere when the values agree, undefined under derivatives.

    The adjoint of a store reads and clears the shadow, so that the writers would split one seed (SEMANTICS §9).
    """
    level = frame.level
    if level is None or allocation.level is level or frame.n == 1:
        return
    lanes = np.asarray(frame.lanes)
    shared = position.__class__ is not ndarray or len(np.unique(position)) < len(position)
    if shared and len(np.unique(lanes)) > 1:
        message = "several iterations store to one cell of memory that is differentiated"
        raise stop(frame, op, "benign-in-derivative", message, kind=OutcomeKind.RACE)


def _lanes_at(frame: Frame, level: Level) -> Any:
    """The lanes of `level` that the lanes of `frame`, at it or deeper inside, belong to."""
    lanes, at = frame.lanes, frame.level
    while at is not None and at is not level:
        up = at.ancestors
        lanes, at = (up[lanes] if up.__class__ is ndarray else up), at.parent
    return lanes


def _never(where: Any) -> Any:
    """Two writers never count as writing the same value."""

    def same() -> Any:
        return np.zeros(len(where), np.bool_) if where.__class__ is ndarray else np.zeros((), np.bool_)

    return same

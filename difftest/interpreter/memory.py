"""One byte arena for everything a program can address, with provenance, initialisation and shadow state.

A memref or pointer names an `Allocation` by number (its provenance) and places in it by address. `load` and `store`
take places as *positions*: element numbers in the arena in units of the cell's width (`MemRef.origin` plus an index),
an int when all lanes access one place, else one int64 per lane. They check that the allocation lives, that what is read
was written (SEMANTICS §6, §1 for the two modes) and races; bounds are the caller's (`difftest.interpreter.access`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from difftest.interpreter import values
from difftest.interpreter.cells import BITS, DTYPES, Cell, bit_pattern, last_of, units
from difftest.interpreter.faults import first_lane, inconclusive, stop
from difftest.interpreter.values import Pointer, Tagged, any_true, tagged

if TYPE_CHECKING:
    from difftest.interpreter.checks import Level
    from difftest.interpreter.frames import Frame
    from difftest.ir.tree import Operation

ndarray: Any = np.ndarray
ALIGNMENT = 64
FIRST_SIZE = 1 << 16


class Allocation:
    """One object: `size` bytes from `start`. `pieces` > 1 holds one object of `piece` bytes per lane.

    `partial`: some byte may be uninitialised. `level` is the parallel level whose lane made it: that lane's own memory,
    not checked for races there. `strict`: several lanes may not even write one same value (memory under derivatives).
    `bound` (float64 per two bytes) and `provenance` (per eight) are shadows, made when needed; `poisoned` and `zero`
    tell that poison, or zeros of free sign, have been stored.
    """

    __slots__ = (
        "alive",
        "bound",
        "constant",
        "kind",
        "level",
        "number",
        "observed",
        "partial",
        "piece",
        "pieces",
        "poisoned",
        "provenance",
        "reads",
        "size",
        "start",
        "strict",
        "used",
        "zero",
    )

    def __init__(self, *, number: int, start: int, size: int, kind: str, level: Level | None) -> None:
        self.number = number
        self.start = start
        self.size = size
        self.kind = kind
        self.level = level
        self.alive = True
        self.partial = True
        self.constant = False
        self.strict = False
        self.observed = True
        self.poisoned = False
        self.zero = False
        self.bound: Any = None
        self.provenance: Any = None
        self.pieces = 1
        self.piece = size
        self.used = size
        self.reads = 0


class MemoryTape(Protocol):
    """What a derivative's tape is told about memory (after the checks, before a store takes place)."""

    def load(self, frame: Frame, op: Operation, allocation: Allocation, position: Any, cell: Cell) -> Any:
        """The variable of the loaded value, or None when it carries no derivative."""
        ...

    def store(
        self, frame: Frame, op: Operation, allocation: Allocation, position: Any, value: Any, *, cell: Cell
    ) -> None:
        """`value` (perhaps Tagged) is about to be stored."""
        ...

    def atomic(self, access: Any, allocation: Allocation, value: Any, name: str) -> Any:
        """`value` is about to be combined atomically (`atomics.Access`, kind `name`); the old value's variable."""
        ...


class Memory:
    """The arena. `source` selects source mode; `notes` counts what is tolerated (`benign`)."""

    def __init__(self, *, source: bool, budget: int, notes: dict[str, int]) -> None:
        self.source = source
        self.budget = budget
        self.notes = notes
        self.tape: MemoryTape | None = None
        self.host: Level | None = None
        self.top = ALIGNMENT
        null = Allocation(number=0, start=0, size=0, kind="null", level=None)
        null.alive = False
        self.table: list[Allocation] = [null]
        self.stack: list[Allocation] = []
        # What is left of ended objects: one per kind, so that a loop that allocates does not grow the table's memory.
        self._ended: dict[str, Allocation] = {}
        self.poison: Any = None
        self._resize(FIRST_SIZE)

    def _resize(self, size: int) -> None:
        fresh, init = np.zeros(size, np.uint8), np.zeros(size, np.uint8)
        if self.top > ALIGNMENT:
            fresh[: self.top], init[: self.top] = self.data[: self.top], self.init[: self.top]
        if self.poison is not None:
            poison = np.zeros(size, np.uint8)
            poison[: self.top] = self.poison[: self.top]
            self.poison = poison
        self.data: Any = fresh
        self.init: Any = init
        self.views: list[Any] = [fresh.view(d) for d in DTYPES]
        self.bits: dict[int, Any] = {w: fresh.view(d) for w, (d, _) in BITS.items()}
        self.inits: dict[int, Any] = {w: init.view(d) for w, (d, _) in BITS.items()}

    def allocate(
        self,
        size: int,
        *,
        kind: str,
        op: Operation | None = None,
        level: Level | None = None,
        pieces: int = 1,
        initialised: bool = False,
    ) -> Allocation:
        """Make an object of `size` bytes (per piece), uninitialised unless told otherwise; pieces are `piece` apart."""
        piece = size if pieces == 1 else -(-size // ALIGNMENT) * ALIGNMENT
        if level is self.host:
            level = None
        start = self.top
        # A gap after each object keeps one-past-the-end pointers apart from the next one.
        end = start + (-(-(piece * pieces) // ALIGNMENT) + 1) * ALIGNMENT
        if end > self.budget:
            raise inconclusive(op, "memory", f"more than {self.budget} bytes of memory are needed")
        if end > len(self.data):
            self._resize(max(end, 2 * len(self.data)))
        self.init[start:end] = 1 if initialised else 0
        if self.poison is not None:
            self.poison[start:end] = 0
        self.top = end
        found = Allocation(number=len(self.table), start=start, size=piece * pieces, kind=kind, level=level)
        found.partial = not initialised
        found.pieces, found.piece, found.used = pieces, piece, size
        self.table.append(found)
        self.stack.append(found)
        return found

    def mark_unobserved(self, base: Any) -> None:
        """Leave the allocations `base` out of every comparison (a dupnoneed primal, SEMANTICS §11)."""
        for number in np.atleast_1d(base).tolist():
            self.table[number].observed = False

    def release(self, number: int) -> None:
        """End an object's life. Its bytes are used again when nothing was allocated after it."""
        allocation = self.table[number]
        allocation.alive = False
        allocation.bound = allocation.provenance = None
        self.table[number] = self._ended.setdefault(allocation.kind, allocation)
        while self.stack and not self.stack[-1].alive:
            self.top = self.stack.pop().start

    # --- reading ---------------------------------------------------------------------------------------------

    def load(self, frame: Frame, op: Operation, base: Any, position: Any, cell: Cell) -> Any:
        """The value of the cells at `position` (see the module's docstring): data, `Pointer` or `Tagged`."""
        if base.__class__ is ndarray:
            return self._each_base(frame, base, position, lambda f, b, p, _: self.load(f, op, b, p, cell), cell)
        number: int = base
        allocation = self.table[number]
        if not allocation.alive:
            raise dead(frame, op, allocation)
        lanes, where = frame.lanes, position
        if cell.count != 1:
            where, lanes = units(position, cell.count, lanes)
        level = frame.level
        if level is not None and allocation.level is not level:
            start = allocation.start // cell.width
            level.read(frame, op, allocation, lanes=lanes, where=where - start, width=cell.width)
        poison = self._uninitialised(frame, op, allocation, where, cell) if allocation.partial else None
        data = self.views[cell.code][where]
        if data.__class__ is not ndarray and not cell.floating:
            data = data.item()
        if cell.count != 1:
            data = data.reshape(-1, *cell.shape)
            poison = None if poison is None else poison.reshape(-1, *cell.shape)
        if cell.pointer:
            return self._pointer(allocation, data, where)
        shadows = allocation.poisoned or allocation.bound is not None or allocation.zero
        if poison is None and not shadows and self.tape is None:
            return data
        return self._tagged(frame, op, allocation, (data, poison, position, where), cell)

    def _uninitialised(self, frame: Frame, op: Operation, allocation: Allocation, where: Any, cell: Cell) -> Any:
        """Where a read cell is not initialised, or None; a fault in source mode (SEMANTICS §6, §15)."""
        missing = self.inits[cell.width][where] != BITS[cell.width][1]
        if any_true(missing):
            if self.source:
                lane = first_lane(missing) // cell.count
                message = f"a cell of {allocation.kind} memory is read that was never written"
                raise stop(frame, op, "uninitialised-read", message, lane=lane)
            return missing
        allocation.reads += 1
        if allocation.reads & (allocation.reads - 1) == 0:
            inside = self.init[allocation.start : allocation.start + allocation.size]
            allocation.partial = not bool(inside.all())
        return None

    def refuse_uninitialised(self, frame: Frame, op: Operation, allocation: Allocation, where: Any, cell: Cell) -> None:
        """A read-modify-write of a cell that was never written: a fault in source mode, else the cell is poison."""
        missing = self._uninitialised(frame, op, allocation, where, cell)
        if missing is not None:
            self.add_tags(allocation, where, cell, None, missing)

    def add_tags(self, allocation: Allocation, where: Any, cell: Cell, bound: Any, poison: Any) -> None:
        """Add error bounds and poison (None: none) to cells that are updated in place."""
        self.inits[cell.width][where] = BITS[cell.width][1]
        if bound is not None:
            if allocation.bound is None:
                allocation.bound = np.zeros((allocation.size + 1) // 2)
            at = (where * cell.width - allocation.start) >> 1
            np.add.at(allocation.bound, at, bound)
        if poison is not None and any_true(poison):
            if self.poison is None:
                self.poison = np.zeros(len(self.data), np.uint8)
            allocation.poisoned = True
            pattern = BITS[cell.width]
            bits = np.where(poison, pattern[1], 0).astype(pattern[0])
            np.bitwise_or.at(self.poison.view(pattern[0]), where, bits)

    def _tagged(
        self, frame: Frame, op: Operation, allocation: Allocation, read: tuple[Any, Any, Any, Any], cell: Cell
    ) -> Any:
        data, poison, position, where = read
        shape: Any = data.shape if data.__class__ is ndarray else ()
        if allocation.poisoned:
            stored = self.poisoned_at(where, cell.width)
            stored = stored.reshape(shape) if shape else stored
            poison = stored if poison is None else poison | stored
        bound: Any = None
        if allocation.bound is not None:
            bound = allocation.bound[(where * cell.width - allocation.start) >> 1]
            bound = bound.reshape(shape) if shape else bound
            if not cell.floating:
                bound = np.where(bound > 0, np.inf, 0.0)
        zero = (data == 0) if allocation.zero and cell.floating else None
        var = None if self.tape is None else self.tape.load(frame, op, allocation, position, cell)
        return tagged(data, poison=poison, bound=bound, zero=zero, var=var)

    def missing(self, where: Any, cell: Cell) -> Any:
        """Where cells (in units) are not initialised."""
        return self.inits[cell.width][where] != BITS[cell.width][1]

    def poisoned_at(self, where: Any, width: int) -> Any:
        """Where cells (in units) hold poison."""
        return self.poison.view(BITS[width][0])[where] != 0

    def _pointer(self, allocation: Allocation, data: Any, where: Any) -> Pointer:
        if allocation.provenance is None:
            return Pointer(base=0, address=data)
        base = allocation.provenance[where - allocation.start // 8]
        return Pointer(base=base if base.__class__ is ndarray else int(base), address=data)

    # --- writing ---------------------------------------------------------------------------------------------

    def store(self, frame: Frame, op: Operation, base: Any, position: Any, value: Any, *, cell: Cell) -> None:
        """Write `value` (any kind of value) to the cells at `position`; of lanes with one place, the last one stays."""
        if base.__class__ is ndarray:

            def part(f: Frame, b: int, p: Any, index: Any) -> None:
                self.store(f, op, b, p, values.gather(value, index, f.n), cell=cell)

            self._each_base(frame, base, position, part, None)
            return
        number: int = base
        allocation = self.table[number]
        if not allocation.alive:
            raise dead(frame, op, allocation)
        if allocation.constant:
            raise stop(frame, op, "constant-write", "a constant global is written")
        data = values.plain(value)
        if cell.pointer:
            data = value.address
        lanes, where = frame.lanes, position
        if cell.count != 1:
            where, lanes = units(position, cell.count, lanes)
            data = np.broadcast_to(data, (max(frame.n, 1), *cell.shape)).reshape(-1)
            if where.size != data.size:
                data = data[-where.size :]
        self._write(frame, op, allocation, (lanes, where, data), cell)
        if self.tape is not None:
            self.tape.store(frame, op, allocation, position, value, cell=cell)
        target = self.views[cell.code]
        target[where] = data[-1] if data.__class__ is ndarray and where.__class__ is not ndarray else data
        self._shadow(allocation, where, value, cell)

    def _write(
        self, frame: Frame, op: Operation, allocation: Allocation, access: tuple[Any, Any, Any], cell: Cell
    ) -> None:
        """The race check of a store, which includes the store itself where lanes share a cell."""
        level = frame.level
        if level is None or allocation.level is level:
            return
        lanes, where, data = access
        raw = self.bits[cell.width]
        fresh = bit_pattern(data, cell)

        def same() -> Any:
            equal = raw[where] == fresh
            return np.bool_(np.all(equal)) if where.__class__ is not ndarray else equal

        start = allocation.start // cell.width
        shared = level.write(frame, op, allocation, lanes=lanes, where=where - start, width=cell.width, same=same)
        if not shared:
            return
        self.views[cell.code][where] = (
            data[-1] if data.__class__ is ndarray and where.__class__ is not ndarray else data
        )
        if allocation.strict or not np.all(same()):
            raise level.conflict(frame, op)
        self.notes["benign"] = self.notes.get("benign", 0) + 1

    def _shadow(self, allocation: Allocation, where: Any, value: Any, cell: Cell) -> None:
        """Initialisation, poison, bounds, signs of zero and provenance of what was stored."""
        if allocation.partial:
            self.inits[cell.width][where] = BITS[cell.width][1]
        if cell.pointer:
            if allocation.provenance is None:
                allocation.provenance = np.zeros(-(-allocation.size // 8), np.int64)
            base = value.base
            allocation.provenance[where - allocation.start // 8] = last_of(base, where)
            return
        tag: Tagged | None = value if value.__class__ is Tagged else None
        if allocation.poisoned or (tag is not None and tag.poison is not None):
            if self.poison is None:
                self.poison = np.zeros(len(self.data), np.uint8)
            allocation.poisoned = True
            mask = 0 if tag is None or tag.poison is None else _flat(tag.poison, cell)
            pattern = BITS[cell.width]
            self.poison.view(pattern[0])[where] = last_of(np.multiply(mask, pattern[1], dtype=pattern[0]), where)
        if allocation.bound is not None or (tag is not None and tag.bound is not None):
            if allocation.bound is None:
                allocation.bound = np.zeros((allocation.size + 1) // 2)
            bound = 0.0 if tag is None or tag.bound is None else _flat(tag.bound, cell)
            allocation.bound[(where * cell.width - allocation.start) >> 1] = last_of(bound, where)
        if tag is not None and tag.zero is not None:
            allocation.zero = True

    def _each_base(
        self, frame: Frame, base: Any, position: Any, access: Callable[[Frame, int, Any, Any], Any], cell: Cell | None
    ) -> Any:
        """An access whose lanes have different provenance, allocation by allocation."""
        numbers = np.unique(base)
        if len(numbers) == 1:
            return access(frame, int(numbers[0]), position, np.arange(frame.n))
        parts: list[tuple[Any, Any]] = []
        for number in numbers:
            index = np.flatnonzero(base == number)
            inner = frame.subset(index, ())
            parts.append((access(inner, int(number), values.gather(position, index, len(index)), index), index))
        return None if cell is None else values.merge(parts, frame.n, None if cell.pointer else cell.dtype)


def dead(frame: Frame, op: Operation, allocation: Allocation) -> Exception:
    """The fault of an access through a null pointer or after the end of an object's life."""
    if allocation.number == 0:
        return stop(frame, op, "null-access", "memory is accessed through a null pointer, or one without provenance")
    return stop(frame, op, "use-after-free", f"{allocation.kind} memory is accessed after its end")


def _flat(tag: Any, cell: Cell) -> Any:
    return tag.reshape(-1) if cell.count != 1 and tag.__class__ is ndarray else tag

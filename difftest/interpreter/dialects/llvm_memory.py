"""llvm: loads and stores, stack objects and pointer arithmetic (LangRef; SEMANTICS §7)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from difftest.interpreter import atomics
from difftest.interpreter.access import locate_pointer
from difftest.interpreter.aggregates import Struct, kinds_of
from difftest.interpreter.cells import cell_of
from difftest.interpreter.faults import first_lane, stop, unsupported
from difftest.interpreter.frames import sink
from difftest.interpreter.layout import parts_of, size_of, type_of
from difftest.interpreter.numerics import int_kind_of
from difftest.interpreter.numerics_cast import resize
from difftest.interpreter.pointers import descriptor_parts, memref_from, room_behind
from difftest.interpreter.rules import NoRuleError
from difftest.interpreter.values import Pointer, plain
from difftest.ir.attributes import parse_int_array, parse_integer
from difftest.ir.types import LLVMArrayType, MemRefType, StructType, Type, VectorType, parse_type

if TYPE_CHECKING:
    from difftest.interpreter.core import Context, Machine
    from difftest.interpreter.frames import Frame, Step
    from difftest.ir.tree import Operation

ndarray: Any = np.ndarray
DYNAMIC = -(1 << 31)


# --- loads and stores -----------------------------------------------------------------------------------------


def _moved(pointer: Pointer, bytes_on: Any) -> Pointer:
    return Pointer(base=pointer.base, address=pointer.address + bytes_on)


def load_value(frame: Frame, op: Operation, pointer: Pointer, kind: Type, machine: Machine) -> Any:
    """The value of type `kind` at a pointer; structs and arrays member by member."""
    members = kinds_of(kind)
    if members is not None:
        parts = parts_of(kind)
        return Struct([load_value(frame, op, _moved(pointer, at), k, machine) for at, k in parts], members)
    cell = cell_of(kind)
    if cell is None:
        raise unsupported(op, f"memory of type {kind}")
    where = locate_pointer(frame, op, pointer, cell, machine.memory)
    return machine.memory.load(frame, op, pointer.base, where, cell)


def store_value(frame: Frame, op: Operation, pointer: Pointer, kind: Type, *, value: Any, machine: Machine) -> None:
    """Store a value of type `kind` at a pointer."""
    if kinds_of(kind) is not None:
        for (at, member), field in zip(parts_of(kind), value.fields, strict=True):
            store_value(frame, op, _moved(pointer, at), member, value=field, machine=machine)
        return
    cell = cell_of(kind)
    if cell is None:
        raise unsupported(op, f"memory of type {kind}")
    where = locate_pointer(frame, op, pointer, cell, machine.memory)
    machine.memory.store(frame, op, pointer.base, where, value, cell=cell)


def _check_alignment(frame: Frame, op: Operation, pointer: Pointer, alignment: int) -> None:
    """A promise of alignment beyond what holds is undefined behaviour; objects start at multiples of 64."""
    wrong = np.atleast_1d(np.asarray(pointer.address) % min(alignment, 64) != 0)
    if wrong.any():
        raise stop(frame, op, "alignment", f"a pointer is not aligned to {alignment} bytes", lane=first_lane(wrong))


def _alignment(op: Operation) -> int:
    text = op.get("alignment")
    return parse_integer(text) if text else 1


def _load(op: Operation, context: Context) -> Step:
    operand, result = context.slot(op.operands[0]), context.slot(op.results[0])
    kind, alignment, machine = parse_type(op.results[0].type), _alignment(op), context.machine
    size_of(kind)
    cell = cell_of(kind) if starts_exchange(op) else None

    def run(frame: Frame) -> None:
        pointer: Pointer = frame.v[operand]
        if alignment > 1:
            _check_alignment(frame, op, pointer, alignment)
        if cell is not None:
            where = locate_pointer(frame, op, pointer, cell, machine.memory)
            access = atomics.Access(frame=frame, op=op, base=pointer.base, position=where, cell=cell)
            frame.v[result] = plain(atomics.update_by(machine, access, _unchanged))
        else:
            frame.v[result] = load_value(frame, op, pointer, kind, machine)

    return run


def _unchanged(frame: Frame, old: Any) -> Any:
    del frame
    return old


def starts_exchange(op: Operation) -> bool:
    """Whether a load's value enters a compare-and-exchange loop: the plain load that lowerings of read-modify-write
    begin with. It counts as atomic: an old value only makes the first exchange fail (SEMANTICS §9)."""
    block = op.parent
    end = block.ops[-1] if block is not None else op
    for successor in end.successors[:1]:
        for argument, operand in zip(successor.arguments, end.operands, strict=False):
            expected = (o.operands[1] for o in successor.ops if o.name == "llvm.cmpxchg")
            cast = operand.defining_op
            given = cast.operands[0] if cast is not None and cast.name == "llvm.bitcast" else operand
            if given is op.results[0] and any(e is argument for e in expected):
                return True
    return False


def _store(op: Operation, context: Context) -> Step:
    value, operand = (context.slot(v) for v in op.operands)
    kind, alignment, machine = parse_type(op.operands[0].type), _alignment(op), context.machine
    size_of(kind)

    def run(frame: Frame) -> None:
        pointer: Pointer = frame.v[operand]
        if alignment > 1:
            _check_alignment(frame, op, pointer, alignment)
        store_value(frame, op, pointer, kind, value=frame.v[value], machine=machine)

    return run


def _alloca(op: Operation, context: Context) -> Step:
    """One object per lane; it ends with the function or loop iteration around."""
    count, result = context.slot(op.operands[0]), context.slot(op.results[0])
    size, machine = size_of(type_of(op.get("elem_type"))), context.machine

    def run(frame: Frame) -> None:
        number = sink(frame, op, frame.v[count], "the array size")
        if np.any(np.less(number, 0)):
            raise stop(frame, op, "negative-size", "an allocation of a negative size")
        most = int(np.max(number)) * size
        made = machine.memory.allocate(most, kind="alloca", op=op, level=frame.level, pieces=frame.n)
        frame.scope.bases.append(made.number)
        address: Any = made.start
        if frame.n > 1:
            address = made.start + np.arange(frame.n) * made.piece
        frame.v[result] = Pointer(base=made.number, address=address)

    return run


def descriptor_cast(op: Operation, context: Context) -> Step | None:
    """A cast between a memref and the struct that describes it, left over between conversions; None for others."""
    source, target = parse_type(op.operands[0].type), parse_type(op.results[0].type)
    operand, result = context.slot(op.operands[0]), context.slot(op.results[0])
    memory = context.machine.memory
    if isinstance(source, MemRefType) and isinstance(target, StructType):
        rank, members = len(source.shape), target.body

        def make(frame: Frame) -> None:
            parts = descriptor_parts(frame.v[operand])
            numbers = [parts[3 : 3 + rank], parts[3 + rank :]] if rank else []
            arrays = [Struct(x, kinds_of(k) or ()) for x, k in zip(numbers, members[3:], strict=True)]
            frame.v[result] = Struct([*parts[:3], *arrays], members)

        return make
    if isinstance(source, StructType) and isinstance(target, MemRefType):
        rank, cell = len(target.shape), context.cell(str(target.element))

        def take(frame: Frame) -> None:
            fields = frame.v[operand].fields
            numbers = [n for array in fields[3:] for n in array.fields]
            parts = [plain(x) for x in (*fields[:3], *numbers)]
            frame.v[result] = memref_from(parts, rank, cell, memory)

        return take
    return None


# --- pointer arithmetic ---------------------------------------------------------------------------------------


def _is_inbounds(op: Operation) -> bool:
    if op.get("inbounds") is not None:
        return True
    text = (op.get("noWrapFlags") or "").strip()
    if text[:1].isdigit():
        return bool(parse_integer(text) & 1)
    return "inbounds" in text


def _getelementptr(op: Operation, context: Context) -> Step:
    """Plain arithmetic wraps; `inbounds` broken gives a pointer to nothing (poison), a fault in source mode."""
    base, *dynamic = (context.slot(v) for v in op.operands)
    raw = parse_int_array(op.get("rawConstantIndices") or "array<i32>")
    kind: Type = type_of(op.get("elem_type"))
    fixed, scaled = 0, list[tuple[int, int]]()
    slots = iter(dynamic)
    for number, index in enumerate(raw):
        if number == 0:
            step = size_of(kind)
        elif isinstance(kind, StructType):
            at, kind = parts_of(kind)[index]
            fixed += at
            continue
        elif isinstance(kind, LLVMArrayType | VectorType):
            kind = kind.element
            step = size_of(kind)
        else:
            raise NoRuleError(f"an index into {kind}")
        if index == DYNAMIC:
            scaled.append((next(slots), step))
        else:
            fixed += index * step
    result, machine, inbounds = context.slot(op.results[0]), context.machine, _is_inbounds(op)

    def run(frame: Frame) -> None:
        v = frame.v
        pointer: Pointer = v[base]
        distance: Any = fixed
        for slot, step in scaled:
            index = sink(frame, op, v[slot], "an index")
            index = index.astype(np.int64) if index.__class__ is ndarray else int(index)
            distance = distance + index * step
        moved = _moved(pointer, distance)
        v[result] = _inbounds(frame, op, pointer, moved, machine) if inbounds else moved

    return run


def _inbounds(frame: Frame, op: Operation, pointer: Pointer, moved: Pointer, machine: Machine) -> Pointer:
    still = np.equal(moved.address, pointer.address)
    room = room_behind(moved, machine.memory, frame.n)
    end = np.asarray(moved.address) + room
    good = still | (np.greater(room, 0) | _at_end(moved, end, machine))
    if np.all(good):
        return moved
    wrong = np.atleast_1d(~good)
    if machine.source:
        raise stop(frame, op, "inbounds", "an inbounds pointer leaves its object", lane=first_lane(wrong))
    return Pointer(base=np.where(wrong, 0, moved.base) if frame.n > 1 else 0, address=moved.address)


def _at_end(pointer: Pointer, end: Any, machine: Machine) -> Any:
    """Whether a pointer without room is exactly one past the end of its object (or of its lane's piece)."""
    bases = np.atleast_1d(np.asarray(pointer.base))
    addresses = np.broadcast_to(np.atleast_1d(np.asarray(end)), np.broadcast_shapes(bases.shape, np.shape(end) or (1,)))
    found: list[bool] = []
    for base, address in zip(np.broadcast_to(bases, addresses.shape), addresses, strict=True):
        allocation = machine.memory.table[int(base)]
        offset = int(address) - allocation.start
        into = offset % allocation.piece if allocation.pieces > 1 and offset != allocation.size else offset
        found.append(allocation.number != 0 and 0 <= offset <= allocation.size and into in {allocation.used, offset})
    return np.array(found) if len(found) > 1 else found[0]


def _ptrtoint(op: Operation, context: Context) -> Step:
    operand, result = context.slot(op.operands[0]), context.slot(op.results[0])
    kind = int_kind_of(op.results[0].type)
    narrow = resize(int_kind_of("i64"), kind, signed=True)

    def run(frame: Frame) -> None:
        frame.v[result] = narrow(frame.v[operand].address)

    return run


def _inttoptr(op: Operation, context: Context) -> Step:
    """The object that lies at the address, if any."""
    operand, result = context.slot(op.operands[0]), context.slot(op.results[0])
    memory = context.machine.memory

    def run(frame: Frame) -> None:
        address = sink(frame, op, frame.v[operand], "the address")
        base: Any = np.zeros(np.shape(address) or (1,), np.int64)
        for allocation in memory.table:
            if allocation.alive:
                base[(address >= allocation.start) & (address <= allocation.start + allocation.size)] = (
                    allocation.number
                )
        frame.v[result] = Pointer(base=base if np.shape(address) else int(base[0]), address=address)

    return run


RULES = {
    "llvm.load": _load,
    "llvm.store": _store,
    "llvm.alloca": _alloca,
    "llvm.getelementptr": _getelementptr,
    "llvm.ptrtoint": _ptrtoint,
    "llvm.inttoptr": _inttoptr,
}

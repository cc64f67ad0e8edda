"""enzyme: what Enzyme's passes leave behind until later ones lower it, so that IR between them can be run.

`!enzyme.Cache<T>` is a stack per parallel iteration: the reverse sweep pops in an iteration what the same iteration of
the forward sweep pushed, last first. `!enzyme.Gradient<T>` is a variable per iteration, which starts with the value of
the iteration around. `enzyme.load`/`store` are memref accesses that name the buffer's sizes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from difftest.interpreter import atomics
from difftest.interpreter.access import locate
from difftest.interpreter.affine_index import Map, attribute, map_of
from difftest.interpreter.derivative_caches import Cache, Gradient
from difftest.interpreter.dialects.linalg import buffer_cell, fill
from difftest.interpreter.rules import NoRuleError
from difftest.interpreter.values import MemRef, Pointer
from difftest.ir.attributes import parse_int_array
from difftest.ir.types import MemRefType, PointerType, parse_type

if TYPE_CHECKING:
    from difftest.interpreter.core import Context
    from difftest.interpreter.frames import Frame, Step
    from difftest.ir.tree import Operation

ndarray = np.ndarray


def _init(op: Operation, context: Context) -> Step:
    """A new cache or gradient variable in every execution."""
    text = op.results[0].type
    result = context.slot(op.results[0])
    kind = Cache if text.startswith("!enzyme.Cache") else Gradient if text.startswith("!enzyme.Gradient") else None
    if kind is None:
        raise NoRuleError(f"enzyme.init of type {text}")
    make, held = kind, text.partition("<")[2].removesuffix(">")

    def run(frame: Frame) -> None:
        frame.v[result] = make(held)

    return run


def _put(op: Operation, context: Context) -> Step:
    """push and set."""
    holder, value = (context.slot(v) for v in op.operands)

    def run(frame: Frame) -> None:
        v = frame.v
        found = v[holder]
        if found.__class__ is Cache:
            found.push(frame, op, v[value])
        else:
            found.set(frame, op, v[value])

    return run


def _take(op: Operation, context: Context) -> Step:
    """pop and get."""
    holder, result = context.slot(op.operands[0]), context.slot(op.results[0])

    def run(frame: Frame) -> None:
        v = frame.v
        found = v[holder]
        v[result] = found.pop(frame, op) if found.__class__ is Cache else found.get(frame, op)

    return run


def _load(op: Operation, context: Context) -> Step:
    _, rank, _ = parse_int_array(attribute(op, "operandSegmentSizes"))
    memref, *rest = (context.slot(v) for v in op.operands)
    indices, result = rest[:rank], context.slot(op.results[0])
    cell, memory = context.cell(op.results[0].type), context.machine.memory

    def run(frame: Frame) -> None:
        v = frame.v
        where = locate(frame, op, v[memref], [v[i] for i in indices], memory)
        v[result] = memory.load(frame, op, v[memref].base, where, cell)

    return run


def _store(op: Operation, context: Context) -> Step:
    _, _, rank, _ = parse_int_array(attribute(op, "operandSegmentSizes"))
    value, memref, *rest = (context.slot(v) for v in op.operands)
    indices = rest[:rank]
    cell, memory = context.cell(op.operands[0].type), context.machine.memory

    def run(frame: Frame) -> None:
        v = frame.v
        where = locate(frame, op, v[memref], [v[i] for i in indices], memory)
        memory.store(frame, op, v[memref].base, where, v[value], cell=cell)

    return run


def _atomic(op: Operation, context: Context) -> Step:
    """atomic_rmw, and affine_atomic_rmw through its map; both return the old value."""
    value, memref, *operands = (context.slot(v) for v in op.operands)
    cell, machine = context.cell(op.operands[0].type), context.machine
    kind = atomics.kind_of(attribute(op, "kind"), op.operands[0].type)
    through: Map | None = map_of(op, "map", operands, "an index") if op.name == "enzyme.affine_atomic_rmw" else None
    result = context.slot(op.results[0]) if op.results else None

    def run(frame: Frame) -> None:
        v = frame.v
        target = v[memref]
        indices = [v[i] for i in operands] if through is None else through(frame)
        where = locate(frame, op, target, indices, machine.memory)
        access = atomics.Access(frame=frame, op=op, base=target.base, position=where, cell=cell)
        old = atomics.update(machine, access, v[value], kind)
        if result is not None:
            v[result] = old

    return run


def _fill_zero(op: Operation, context: Context) -> Step:
    """Zero in every element of a buffer of floats or integers."""
    operand, memory = context.slot(op.operands[0]), context.machine.memory
    zero = buffer_cell(op.operands[0], context).dtype.type(0)

    def run(frame: Frame) -> None:
        fill(frame, op, frame.v[operand], zero, memory)

    return run


def _placeholder(op: Operation, context: Context) -> Step:
    """A value that a later pass puts in place: memory that nobody may access until then."""
    kind = parse_type(op.results[0].type)
    result = context.slot(op.results[0])
    if isinstance(kind, PointerType):
        nowhere: Any = Pointer(base=0, address=0)
    elif isinstance(kind, MemRefType) and kind.strides is not None and None not in (*kind.shape, *kind.strides):
        nowhere = MemRef(
            base=0,
            address=0,
            offset=0,
            sizes=tuple(int(s or 0) for s in kind.shape),
            strides=tuple(int(s or 0) for s in kind.strides),
            cell=context.cell(str(kind.element)),
            safe=True,
        )
    else:
        raise NoRuleError(f"a placeholder of type {op.results[0].type}")

    def run(frame: Frame) -> None:
        frame.v[result] = nowhere

    return run


RULES = {
    "enzyme.affine_atomic_rmw": _atomic,
    "enzyme.atomic_rmw": _atomic,
    "enzyme.fill_zero": _fill_zero,
    "enzyme.get": _take,
    "enzyme.init": _init,
    "enzyme.load": _load,
    "enzyme.placeholder": _placeholder,
    "enzyme.pop": _take,
    "enzyme.push": _put,
    "enzyme.set": _put,
    "enzyme.store": _store,
}

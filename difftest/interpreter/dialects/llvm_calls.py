"""llvm: globals, atomics, calls and memory intrinsics (LangRef; SEMANTICS §7)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from difftest.interpreter import atomics, elementwise
from difftest.interpreter.access import locate_pointer
from difftest.interpreter.aggregates import Struct, kinds_of, poison
from difftest.interpreter.dialects import math
from difftest.interpreter.dialects.llvm import constant_value
from difftest.interpreter.dialects.llvm_memory import store_value
from difftest.interpreter.dialects.runtime import function_pointer
from difftest.interpreter.frames import Frame, sink
from difftest.interpreter.layout import size_of, type_of
from difftest.interpreter.pointers import copy_bytes, fill_bytes
from difftest.interpreter.rules import NoRuleError
from difftest.interpreter.values import Pointer, dtype_of, gather, plain, select
from difftest.ir.attributes import parse_integer, parse_symbol
from difftest.ir.types import parse_type

if TYPE_CHECKING:
    from difftest.interpreter.core import Context, Machine
    from difftest.interpreter.frames import Step
    from difftest.ir.tree import Operation

ndarray: Any = np.ndarray


# --- globals --------------------------------------------------------------------------------------------------


def _addressof(op: Operation, context: Context) -> Step:
    machine = context.machine
    path = parse_symbol(op.get("global_name") or "")
    target = machine.symbol(path)
    if target is not None and target.name in {"llvm.func", "func.func"}:
        return _address_of_function(op, context, target, path[-1])
    if target is None or target.name != "llvm.mlir.global":
        raise NoRuleError(f"no global {path}")
    found, result = target, context.slot(op.results[0])
    kind, text = type_of(target.get("global_type")), target.get("value")
    linked_elsewhere = "external" in (target.get("linkage") or "")
    initial = None if text is None else constant_value(text, kind)
    if text is None and not _has_body(target) and linked_elsewhere:
        raise NoRuleError("a global defined elsewhere")

    def run(frame: Frame) -> None:
        made = machine.globals.get(found)
        if made is None:
            allocation = machine.memory.allocate(size_of(kind), kind="global", op=op, initialised=True)
            made = machine.globals[found] = Pointer(base=allocation.number, address=allocation.start)
            single = Frame(n=1, template=[], ivs={})
            first = initial
            if first is None:
                first = machine.call(found, (), None, op)[0] if _has_body(found) else poison(kind)
            store_value(single, op, made, kind, value=first, machine=machine)
            allocation.constant = found.get("constant") is not None
        frame.v[result] = made

    return run


def _has_body(op: Operation) -> bool:
    """Whether a global's initialiser is code, or a function has a body."""
    return bool(op.regions) and bool(op.regions[0].blocks)


def _address_of_function(op: Operation, context: Context, target: Operation, name: str) -> Step:
    machine, result = context.machine, context.slot(op.results[0])

    def run(frame: Frame) -> None:
        frame.v[result] = function_pointer(machine, target, name, op)

    return run


# --- atomics --------------------------------------------------------------------------------------------------

# AtomicBinOp of LLVMEnums.td, in its order; the others have no rule.
_ATOMIC = {
    0: "assign", 1: "addi", 3: "andi", 5: "ori", 6: "xori", 7: "maxs", 8: "mins", 9: "maxu", 10: "minu",
    11: "addf", 13: "maxnumf", 14: "minnumf", 19: "maximumf", 20: "minimumf",
}  # fmt: skip


def _atomicrmw(op: Operation, context: Context) -> Step:
    """Returns the old value."""
    operand, value = (context.slot(v) for v in op.operands)
    number = parse_integer(op.get("bin_op") or "-1")
    if number not in _ATOMIC:
        raise NoRuleError(f"atomic operation {number}")
    kind = atomics.named_kind(_ATOMIC[number], op.results[0].type)
    cell, result, machine = context.cell(op.results[0].type), context.slot(op.results[0]), context.machine

    def run(frame: Frame) -> None:
        v = frame.v
        pointer: Pointer = v[operand]
        where = locate_pointer(frame, op, pointer, cell, machine.memory)
        access = atomics.Access(frame=frame, op=op, base=pointer.base, position=where, cell=cell)
        v[result] = atomics.update(machine, access, v[value], kind)

    return run


def _cmpxchg(op: Operation, context: Context) -> Step:
    """(old value, whether it was the expected one and has been replaced)."""
    operand, expected, fresh = (context.slot(v) for v in op.operands)
    members = kinds_of(parse_type(op.results[0].type))
    if members is None or dtype_of(members[0]) is None:
        raise NoRuleError(f"an exchange of type {op.results[0].type}")
    cell, result, machine = context.cell(op.operands[1].type), context.slot(op.results[0]), context.machine
    kinds = members

    def run(frame: Frame) -> None:
        v = frame.v
        pointer: Pointer = v[operand]
        want, new = (sink(frame, op, v[s], "an operand") for s in (expected, fresh))
        where = locate_pointer(frame, op, pointer, cell, machine.memory)
        access = atomics.Access(frame=frame, op=op, base=pointer.base, position=where, cell=cell)

        def step(child: Frame, old: Any) -> Any:
            mine = [x if child is frame else gather(x, child.index, child.n) for x in (want, new)]
            data = plain(old)
            return select(np.equal(data, mine[0]), mine[1], data, child.n, cell.dtype)

        # Which lane comes first is open, yet any order is one the loop around is made for: its value is compared.
        old = plain(atomics.update_by(machine, access, step))
        v[result] = Struct((old, np.equal(old, want)), kinds)

    return run


# --- calls ----------------------------------------------------------------------------------------------------


def _defined(function: Operation, machine: Machine, frame: Frame, op: Operation, arguments: Sequence[Any]) -> list[Any]:
    """A function with a body."""
    return machine.call(function, arguments, frame, op)


_LIBM = {
    "sqrt": "sqrt", "exp": "exp", "exp2": "exp2", "expm1": "expm1", "log": "log", "log2": "log2", "log10": "log10",
    "log1p": "log1p", "sin": "sin", "cos": "cos", "tan": "tan", "asin": "asin", "acos": "acos", "atan": "atan",
    "atan2": "atan2", "sinh": "sinh", "cosh": "cosh", "tanh": "tanh", "asinh": "asinh", "acosh": "acosh",
    "atanh": "atanh", "erf": "erf", "cbrt": "cbrt", "pow": "powf", "fabs": "absf", "floor": "floor", "ceil": "ceil",
    "trunc": "trunc", "round": "round", "roundeven": "roundeven", "copysign": "copysign", "fma": "fma",
    "rsqrt": "rsqrt",
}  # fmt: skip


def library_function(name: str, op: Operation) -> Any:
    """The math rule of a libm or libdevice function (`expf`, `__nv_exp`), or None."""
    if len(op.results) != 1:
        return None
    bare = name.removeprefix("__nv_")
    if op.results[0].type == "f32":
        bare = bare.removesuffix("f")
    found = math.ELEMENTWISE.get(f"math.{_LIBM.get(bare, '')}")
    return None if found is None else found(op)


def _call(op: Operation, context: Context) -> Step:
    machine = context.machine
    callee = op.get("callee")
    if callee is None:
        raise NoRuleError("a call through a pointer")
    name = parse_symbol(callee)[-1]
    target = machine.symbol(parse_symbol(callee))
    operands = [context.slot(v) for v in op.operands]
    results = [context.slot(v) for v in op.results]
    library = machine.rules.externals.get(name)
    if target is not None and _has_body(target):
        library = partial(_defined, target)
    if library is None:
        rule = library_function(name, op)
        if rule is None:
            raise NoRuleError(f"function {name} has no body")
        return elementwise.wrap(rule, op, context)
    model = library

    def run(frame: Frame) -> None:
        v = frame.v
        found = model(machine, frame, op, [v[s] for s in operands])
        for slot, value in zip(results, found, strict=True):
            v[slot] = value

    return run


def _memory_intrinsic(name: str, op: Operation, context: Context) -> Step:
    """memcpy, memmove, memset."""
    target, source, size = (context.slot(v) for v in op.operands[:3])
    memory = context.machine.memory

    def run(frame: Frame) -> None:
        v = frame.v
        count = sink(frame, op, v[size], "the size")
        if name == "memset":
            fill_bytes(frame, op, v[target], v[source], count=count, memory=memory)
        else:
            copy_bytes(frame, op, v[target], v[source], count=count, memory=memory, overlap=name == "memmove")

    return run


RULES = {
    "llvm.mlir.addressof": _addressof,
    "llvm.atomicrmw": _atomicrmw,
    "llvm.cmpxchg": _cmpxchg,
    "llvm.call": _call,
    **{f"llvm.intr.{name}": partial(_memory_intrinsic, name) for name in ("memcpy", "memmove", "memset")},
}

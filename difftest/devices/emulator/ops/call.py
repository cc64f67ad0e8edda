"""Calls of functions outside of the module, and the `.param` space (PTX ISA 7.1, 9.7.12.4).

Parameters are kept by (name, offset, bytes): what is stored with one width is loaded with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from difftest.devices.emulator import libdevice
from difftest.devices.emulator.closures import assign, in_order, nothing
from difftest.devices.emulator.faults import fault, unsupported
from difftest.devices.emulator.ops.access import Access, result_dtype, stored_value
from difftest.devices.emulator.rules import Build, NoRuleError, Rule, Steps
from difftest.devices.emulator.syntax import Address, Group, Register, Sink, Symbol, Vector
from difftest.devices.emulator.typed import np

if TYPE_CHECKING:
    from difftest.devices.emulator.compile import Compiler
    from difftest.devices.emulator.syntax import Instruction, Operand


def _parameter(address: Operand) -> tuple[str, int]:
    if not isinstance(address, Address) or not isinstance(address.base, Symbol):
        raise NoRuleError("a parameter's address in a register")
    return address.base.name, address.base.offset + address.offset


def load_param(compiler: Compiler, instruction: Instruction, access: Access) -> Steps:
    """ld.param: of a kernel's parameter, a function's, or the value that a call returned."""
    name, offset = _parameter(instruction.operands[1])
    target = instruction.operands[0]
    items = target.items if isinstance(target, Vector) else (target,)
    steps: list[Any] = []
    for number, item in enumerate(items):
        if isinstance(item, Sink):
            continue
        if not isinstance(item, Register):
            raise NoRuleError("destination")
        key = (name, offset + (number << access.width), 1 << access.width)
        steps.append(_load_one(compiler, item, key, access.kind, instruction.line))
    step = steps[0] if len(steps) == 1 else in_order(steps)
    return step, step


def _load_one(compiler: Compiler, target: Register, key: tuple[str, int, int], kind: str, line: int) -> Any:
    slot = compiler.slot(target, line)
    have = compiler.dtypes[slot]
    dtype, widened = result_dtype(have, kind)

    def run(w: Any) -> None:
        value = w.params.get(key)
        if value is None:
            value = w.launch.parameter(w, key, line)
        value = value.view(dtype)
        if widened is not None:
            value = value.astype(widened)
        if w.mask is None:
            w.r[slot] = value
        else:
            assign(w, slot, value)

    return run


def store_param(compiler: Compiler, instruction: Instruction, access: Access) -> Steps:
    """st.param: an argument of the call that follows, or this function's result."""
    name, offset = _parameter(instruction.operands[0])
    source = instruction.operands[1]
    steps: list[Any] = []
    for number, item in enumerate(source.items if isinstance(source, Vector) else (source,)):
        slot, cut = stored_value(compiler, item, access.kind, instruction.line)
        key = (name, offset + (number << access.width), 1 << access.width)
        steps.append(_store_one(slot, cut, key))
    step = steps[0] if len(steps) == 1 else in_order(steps)
    return step, step


def _store_one(slot: int, cut: Any, key: tuple[str, int, int]) -> Any:
    def run(w: Any) -> None:
        value: Any = w.r[slot] if cut is None else w.r[slot].astype(cut)
        old = w.params.get(key)
        if w.mask is not None and old is not None:
            # Lanes of both sides of a branch may return through one variable.
            value = np.where(w.mask, value, old.view(value.dtype))
        w.params[key] = value

    return run


def call_parts(instruction: Instruction) -> tuple[tuple[str, ...], str, tuple[str, ...]]:
    """Names of the result parameters, of the function, and of its arguments. Raises NoRuleError."""
    operands = list(instruction.operands)
    results: tuple[str, ...] = ()
    if operands and isinstance(operands[0], Group):
        results = _group(operands.pop(0))
    if not operands or not isinstance(operands[0], Symbol):
        raise NoRuleError("an indirect call")
    name = operands[0].name
    arguments = _group(operands[1]) if len(operands) > 1 else ()
    return results, name, arguments


def _group(operand: Operand) -> tuple[str, ...]:
    if not isinstance(operand, Group):
        raise NoRuleError("call operands")
    names: list[str] = []
    for item in operand.items:
        if not isinstance(item, Symbol):
            raise NoRuleError("call operands that are no parameters")
        names.append(item.name)
    return tuple(names)


def _call(parts: tuple[str, ...]) -> Build:
    """call (9.7.12.4) of an external function: libdevice by name, printf and assert."""
    if set(parts[1:]) - {"uni"}:
        raise NoRuleError("modifiers")

    def make(compiler: Compiler, instruction: Instruction) -> Steps:
        results, name, arguments = call_parts(instruction)
        if name not in compiler.names.functions:
            raise NoRuleError(f"call of {name}, which is not declared")
        special = _SPECIAL.get(name)
        if special is not None:
            return special(instruction)
        function = libdevice.find(name)
        if function is None:
            raise NoRuleError(f"call of {name}")

        def run(w: Any) -> None:
            params = w.params
            values: list[Any] = []
            for argument, dtype in zip(arguments, function.arguments, strict=True):
                value = params.get((argument, 0, dtype.itemsize))
                if value is None:
                    raise unsupported(f"parameter {argument} of {name}", line=instruction.line)
                values.append(value.view(dtype))
            if len(values) != len(function.arguments) or len(results) > 1:
                raise unsupported(f"call of {name}", line=instruction.line)
            found = np.ascontiguousarray(function.compute(*values))
            if results:
                params[(results[0], 0, found.dtype.itemsize)] = found

        if len(arguments) != len(function.arguments):
            raise NoRuleError(f"call of {name} with {len(arguments)} arguments")
        return run, run

    return Build(make=make)


def _assert_fail(instruction: Instruction) -> Steps:
    """A failed `cf.assert` ends the launch."""

    def run(w: Any) -> None:
        raise fault("assert", "an assertion failed", line=instruction.line, lane=w.lane_of_active(0))

    return run, run


def _printf(instruction: Instruction) -> Steps:
    """vprintf: output is not observed (SEMANTICS §8); the number of calls is noted, and it returns 0."""
    results, _, _ = call_parts(instruction)

    def run(w: Any) -> None:
        notes = w.memory.notes
        notes["printf"] = notes.get("printf", 0) + w.count
        for name in results:
            w.params[(name, 0, 4)] = np.zeros(1, np.int32)

    return run, run


def _malloc(instruction: Instruction) -> Steps:
    """malloc on the device's heap: every lane gets an object of its own, uninitialised."""
    results, _, arguments = call_parts(instruction)

    def run(w: Any) -> None:
        size = w.params.get((arguments[0], 0, 8)) if len(arguments) == 1 else None
        if size is None or len(results) != 1:
            raise unsupported("a call of malloc", line=instruction.line)
        found = np.zeros(w.n, np.int64)
        found[w.index] = w.memory.make_heap(w.pick(size.view(np.int64)), w.count)
        w.params[results[0], 0, 8] = found

    return run, run


def _free(instruction: Instruction) -> Steps:
    """free of a heap object; of a null pointer nothing."""
    _, _, arguments = call_parts(instruction)

    def run(w: Any) -> None:
        address = w.params.get((arguments[0], 0, 8)) if len(arguments) == 1 else None
        if address is None:
            raise unsupported("a call of free", line=instruction.line)
        for at, place in enumerate(w.pick(address.view(np.int64)).tolist()):
            if place and not w.memory.free_heap(place):
                message = f"free of {place:#x}, which is no object of the heap"
                raise fault("bad-free", message, line=instruction.line, lane=w.lane_of_active(at), address=place)

    return run, run


_SPECIAL: dict[str, Any] = {
    "malloc": _malloc,
    "free": _free,
    "__assertfail": _assert_fail,
    "__assert_fail": _assert_fail,
    "vprintf": _printf,
}


def _nothing(parts: tuple[str, ...]) -> Build:
    """brkpt and pmevent (9.7.19) touch no values."""
    del parts
    return Build(make=lambda compiler, instruction: (nothing, nothing))


RULES: dict[str, Rule] = {"call": _call, "brkpt": _nothing, "pmevent": _nothing}

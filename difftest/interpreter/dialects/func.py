"""func: calls and returns (dialect documentation "func"; SEMANTICS §7: by value, memrefs by reference)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from difftest.interpreter import elementwise
from difftest.interpreter.dialects.llvm_calls import library_function
from difftest.interpreter.faults import unsupported
from difftest.interpreter.rules import NoRuleError
from difftest.ir.attributes import parse_symbol

if TYPE_CHECKING:
    from difftest.interpreter.core import Context
    from difftest.interpreter.frames import Frame, Step
    from difftest.ir.tree import Operation


def _return(op: Operation, context: Context) -> None:
    """The caller reads the operands' slots."""
    del op, context


def _call(op: Operation, context: Context) -> Step:
    machine = context.machine
    callee = op.get("callee")
    path = parse_symbol(callee) if callee else ()
    target = machine.symbol(path)
    operands = tuple(context.slot(v) for v in op.operands)
    results = tuple(context.slot(v) for v in op.results)
    if target is None:
        raise NoRuleError(f"no function {callee}")
    name = path[-1] if path else ""
    external = machine.rules.externals.get(name)
    if target.regions and target.regions[0].blocks:
        function = target

        def run(frame: Frame) -> None:
            v = frame.v
            found = machine.call(function, [v[s] for s in operands], frame, op)
            for slot, value in zip(results, found, strict=True):
                v[slot] = value

        return run
    if external is None:
        rule = library_function(name, op)
        if rule is None:
            raise NoRuleError(f"function {name} has no body")
        return elementwise.wrap(rule, op, context)
    model = external

    def run_external(frame: Frame) -> None:
        v = frame.v
        found = model(machine, frame, op, [v[s] for s in operands])
        for slot, value in zip(results, found, strict=True):
            v[slot] = value

    return run_external


def _constant(op: Operation, context: Context) -> None:
    """A function reference: its symbol path."""
    text = op.get("value")
    if text is None:
        raise unsupported(op, "without a value")
    context.constant(op.results[0], parse_symbol(text))


def _call_indirect(op: Operation, context: Context) -> Step:
    machine = context.machine
    callee, *operands = (context.slot(v) for v in op.operands)
    results = tuple(context.slot(v) for v in op.results)

    def run(frame: Frame) -> None:
        v = frame.v
        target = machine.symbol(v[callee]) if v[callee].__class__ is tuple else None
        if target is None or not target.regions or not target.regions[0].blocks:
            raise unsupported(op, "the callee is not one known function with a body")
        found = machine.call(target, [v[s] for s in operands], frame, op)
        for slot, value in zip(results, found, strict=True):
            v[slot] = value

    return run


RULES = {
    "func.return": _return,
    "func.call": _call,
    "func.constant": _constant,
    "func.call_indirect": _call_indirect,
}

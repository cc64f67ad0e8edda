"""enzyme: derivatives of regions and functions (SEMANTICS §11), executed by our own tape.

Reverse mode (`autodiff_region`, `autodiff`) runs the primal once, gives the seeds to the returned values and sweeps
back; forward mode (`fwddiff`) carries tangents along. What is captured from outside a region is const. The ops that
Enzyme leaves behind between its passes are in `enzyme_leftovers`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from difftest.interpreter.derivative_arithmetic import stripped
from difftest.interpreter.differentiate import SHADOWED, Layout, is_memory, layout_of, opaque_ops
from difftest.interpreter.faults import stop, unsupported
from difftest.interpreter.rules import NoRuleError
from difftest.interpreter.tape import ReverseTape, Variable, arithmetic, variable_of
from difftest.interpreter.tape_forward import ForwardTape, Tangent
from difftest.interpreter.tape_memory import Shadows
from difftest.interpreter.values import MemRef, Pointer, Tagged, as_lanes, plain, tagged
from difftest.ir.attributes import parse_symbol

if TYPE_CHECKING:
    from difftest.interpreter.core import Context, Machine
    from difftest.interpreter.frames import Frame, Step
    from difftest.ir.tree import Operation

ndarray = np.ndarray
Primal = Callable[["Frame", Sequence[Any]], list[Any]]


def _region(op: Operation, context: Context) -> Step:
    body = context.body(op.regions[0])

    def primal(frame: Frame, arguments: Sequence[Any]) -> list[Any]:
        v = frame.v
        for slot, value in zip(body.arguments, arguments, strict=True):
            v[slot] = value
        body.run(frame)
        return [v[s] for s in body.results]

    return _derivative(op, context, op, primal, reverse=True, captures=body.captures)


def _function(op: Operation, context: Context, *, reverse: bool) -> Step:
    machine = context.machine
    name = op.get("fn")
    target = None if name is None else machine.symbol(parse_symbol(name))
    if target is None or not target.regions or not target.regions[0].blocks:
        raise NoRuleError(f"no function {name} with a body")
    function = target

    def primal(frame: Frame, arguments: Sequence[Any]) -> list[Any]:
        return machine.call(function, arguments, frame, op)

    return _derivative(op, context, function, primal, reverse=reverse)


def _autodiff(op: Operation, context: Context) -> Step:
    return _function(op, context, reverse=True)


def _fwddiff(op: Operation, context: Context) -> Step:
    return _function(op, context, reverse=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Execution:
    """One execution of a derivative op: its operands' values, and how to run its primal."""

    machine: Machine
    frame: Frame
    op: Operation
    layout: Layout
    operands: Sequence[Any]
    primal: Primal

    def record(self, tape: ReverseTape | ForwardTape, arguments: Sequence[Any]) -> list[Any]:
        """Run the primal under a tape; what it returns, one value per return activity."""
        machine = self.machine
        machine.tape = machine.memory.tape = tape
        returned = self.primal(self.frame, arguments)
        machine.tape = machine.memory.tape = None
        wanted = len(self.layout.returns)
        if len(returned) != wanted:
            raise unsupported(self.op, f"{wanted} return activities for {len(returned)} values")
        return returned


def _derivative(
    op: Operation,
    context: Context,
    code: Operation,
    primal: Primal,
    *,
    reverse: bool,
    captures: Sequence[int] = (),
) -> Step:
    """The step of a derivative op; `code` holds its primal in its first region, which captures `captures`."""
    layout = layout_of(op, reverse=reverse)
    count = len(code.regions[0].blocks[0].arguments)
    if len(layout.arguments) != count:
        raise NoRuleError(f"{len(layout.arguments)} activities for {count} arguments")
    for opaque in opaque_ops(code, context.machine):
        raise NoRuleError(f"no derivative rule for {opaque.name} (line {opaque.line})")
    slots = [context.slot(v) for v in op.operands]
    results = [context.slot(v) for v in op.results]
    mode = _reverse if reverse else _forward
    machine = context.machine

    def run(frame: Frame) -> None:
        if machine.tape is not None:
            raise unsupported(op, "a derivative inside differentiated code")
        v = frame.v
        operands = [v[s] for s in slots]
        if captures and machine.source:
            _refuse_captured(frame, op, layout, operands, [v[s] for s in captures])
        execution = _Execution(machine=machine, frame=frame, op=op, layout=layout, operands=operands, primal=primal)
        shadows = Shadows(machine, frame)
        try:
            found = mode(execution, shadows)
        finally:
            machine.tape = machine.memory.tape = None
        shadows.close()
        _forget_unneeded(machine, layout, operands)
        if len(found) != len(results):
            # The activities say what each result is (SEMANTICS §11); an op that disagrees with them means nothing.
            # canonicalize on 0.0.16 makes such ops: it drops an unused active argument but keeps its gradient.
            message = f"{len(results)} results where its activities give {len(found)}"
            raise stop(frame, op, "malformed-derivative", message)
        for slot, value in zip(results, found, strict=True):
            v[slot] = value

    return run


def _refuse_captured(
    frame: Frame, op: Operation, layout: Layout, operands: Sequence[Any], captured: Sequence[Any]
) -> None:
    """A captured buffer is const (SEMANTICS §11); one passed with a shadow too would be both, which means nothing."""
    constant = {int(b) for value in captured if value.__class__ in (MemRef, Pointer) for b in np.unique(value.base)}
    for argument in layout.arguments:
        if argument.shadow is None:
            continue
        for value in (operands[argument.primal], operands[argument.shadow]):
            if value.__class__ in (MemRef, Pointer) and constant.intersection(int(b) for b in np.unique(value.base)):
                message = "a buffer with a shadow is captured by the region as well, which makes it const"
                raise stop(frame, op, "derivative-aliasing", message)


def _reverse(x: _Execution, shadows: Shadows) -> list[Any]:
    """The op's results: kept primals in return order, then gradients of active arguments."""
    tape = ReverseTape(shadows)
    inputs: list[tuple[Variable, str]] = []
    arguments: list[Any] = []
    for argument in x.layout.arguments:
        value = x.operands[argument.primal]
        if argument.activity.startswith("active"):
            kind = x.op.operands[argument.primal].type
            variable = tape.input(x.frame.n, kind)
            inputs.append((variable, kind))
            value = _with_variable(value, variable)
        elif argument.shadow is not None:
            shadows.bind(x.op, value, x.operands[argument.shadow])
        arguments.append(value)
    returned = x.record(tape, arguments)
    for value, seed in zip(returned, x.layout.seeds, strict=True):
        variable = variable_of(value)
        if seed is not None and variable is not None:
            variable.add(_each_lane(stripped(x.operands[seed]), x.frame, variable.a.kind.dtype))
    tape.sweep()
    pairs = zip(returned, x.layout.returns, strict=True)
    kept = [_without_variable(value) for value, activity in pairs if activity in {"active", "const"}]
    return [*kept, *(_gradient(x.frame, variable, kind) for variable, kind in inputs)]


def _forward(x: _Execution, shadows: Shadows) -> list[Any]:
    """The op's results, return by return: primal and tangent (dup), tangent (dupnoneed), primal (const)."""
    arguments: list[Any] = []
    for argument in x.layout.arguments:
        value = x.operands[argument.primal]
        if argument.shadow is not None and is_memory(x.op.operands[argument.primal].type):
            shadows.bind(x.op, value, x.operands[argument.shadow])
        elif argument.shadow is not None:
            value = _with_variable(value, Tangent(stripped(x.operands[argument.shadow])))
        arguments.append(value)
    found: list[Any] = []
    for value, activity in zip(x.record(ForwardTape(shadows), arguments), x.layout.returns, strict=True):
        if activity in {"dup", "const"}:
            found.append(_without_variable(value))
        if activity in SHADOWED:
            tangent = variable_of(value)
            known = len(found) < len(x.op.results)
            zero = arithmetic(x.op.results[len(found)].type).zero if known else 0.0
            found.append(_free_zeros(zero if tangent is None else tangent.value))
    return found


def _with_variable(value: Any, variable: Any) -> Any:
    if value.__class__ is not Tagged:
        return tagged(value, var=variable)
    return tagged(value.data, poison=value.poison, bound=value.bound, zero=value.zero, var=variable)


def _without_variable(value: Any) -> Any:
    if value.__class__ is not Tagged:
        return value
    return tagged(value.data, poison=value.poison, bound=value.bound, zero=value.zero)


def _each_lane(value: Any, frame: Frame, dtype: Any) -> Any:
    """A seed in every lane of the frame: lanes that share one returned value each give it theirs."""
    if frame.n == 1:
        return value
    return tagged(as_lanes(plain(value), frame.n, dtype), bound=getattr(value, "bound", None))


def _gradient(frame: Frame, variable: Variable, kind: str) -> Any:
    found = variable.take()
    if found is None:
        return _free_zeros(arithmetic(kind).zero)
    data = plain(found)
    if frame.n == 1 and data.__class__ is ndarray and data.ndim == 1:
        found = tagged(data[0], bound=getattr(found, "bound", None))
    return _free_zeros(found)


def _free_zeros(value: Any) -> Any:
    """Signs of zero are free in derivatives (SEMANTICS §11, flags)."""
    value = stripped(value)
    return tagged(plain(value), bound=getattr(value, "bound", None), zero=plain(value) == 0)


def _forget_unneeded(machine: Machine, layout: Layout, operands: list[Any]) -> None:
    """A `dupnoneed` buffer may or may not have been written: nothing of it is compared."""
    for argument in layout.arguments:
        value = operands[argument.primal]
        if argument.activity == "dupnoneed" and value.__class__ in (MemRef, Pointer):
            for number in np.unique(value.base):
                machine.memory.table[int(number)].observed = False


def _nothing(op: Operation, context: Context) -> None:
    """A terminator: the derivative op reads its operands."""
    del op, context


RULES = {
    "enzyme.autodiff": _autodiff,
    "enzyme.autodiff_region": _region,
    "enzyme.fwddiff": _fwddiff,
    "enzyme.yield": _nothing,
}

"""Drop arguments and results of functions, with the operands and results of their callers.

When the function is the entry, the inputs follow.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from difftest.ir.tree import Operation
from difftest.model import InputSpec
from reducer.edits import Draft, Pass, Snapshot
from reducer.trees import (
    drop_entry,
    drop_operands,
    drop_values,
    group,
    is_function,
    segments,
    set_signature,
    signature,
    symbol_name,
    symbols_used,
)

# The group of gpu.launch_func that holds the kernel's operands (after async dependencies and 10 sizes).
_KERNEL_OPERANDS = 11


@dataclass(frozen=True, slots=True, kw_only=True)
class DropArgument:
    """Remove argument `position` of the function `op`, which nobody reads, at all `callers`."""

    op: int
    position: int
    callers: tuple[int, ...]

    def apply(self, draft: Draft) -> None:
        """See `Edit.apply`. Positions of one function are proposed last first, so numbers stay right."""
        function = draft.op(self.op)
        types = None if function is None else signature(function)
        if function is None or types is None or self.position >= len(types[0]):
            return
        del types[0][self.position]
        set_signature(function, *types)
        drop_entry(function, "arg_attrs", self.position)
        if function.regions and function.regions[0].blocks:
            drop_values(function.regions[0].blocks[0].arguments, self.position)
        if symbol_name(function) == draft.entry:
            draft.inputs = _without(draft.inputs, self.position)
        for number in self.callers:
            caller = draft.op(number)
            if caller is not None:
                sizes = segments(caller)
                base = sum(sizes[:_KERNEL_OPERANDS]) if caller.name == "gpu.launch_func" and sizes else 0
                drop_operands(caller, {base + self.position})


@dataclass(frozen=True, slots=True, kw_only=True)
class DropResult:
    """Remove result `position` of the function `op`; callers go on with a zero, or lose what used it."""

    op: int
    position: int
    returns: tuple[int, ...]
    callers: tuple[int, ...]

    def apply(self, draft: Draft) -> None:
        """See `Edit.apply`."""
        function = draft.op(self.op)
        types = None if function is None else signature(function)
        if function is None or types is None or self.position >= len(types[1]):
            return
        del types[1][self.position]
        set_signature(function, *types)
        drop_entry(function, "res_attrs", self.position)
        for number in self.returns:
            end = draft.op(number)
            if end is not None:
                drop_operands(end, {self.position})
        for number in self.callers:
            caller = draft.op(number)
            if caller is not None:
                result = caller.results[self.position]
                draft.replace(result, draft.stand_in(caller, result.type))
                drop_values(caller.results, self.position)


def propose_arguments(snapshot: Snapshot) -> list[DropArgument]:
    """Every argument without uses of every function whose callers are all known."""
    edits: list[DropArgument] = []
    for number, op, callers in _functions(snapshot):
        inputs = (signature(op) or ([], []))[0]
        body = op.regions[0].blocks[0].arguments if op.regions and op.regions[0].blocks else []
        for position in reversed(range(len(inputs))):
            if position >= len(body) or body[position] not in snapshot.uses:
                edits.append(DropArgument(op=number, position=position, callers=callers))
    return edits


def propose_results(snapshot: Snapshot) -> list[DropResult]:
    """Every result of every function whose callers are all known."""
    edits: list[DropResult] = []
    for number, op, callers in _functions(snapshot):
        ends = tuple(snapshot.number[o] for o in op.walk() if o.name == "func.return")
        for position in reversed(range(len((signature(op) or ([], []))[1]))):
            edits.append(DropResult(op=number, position=position, returns=ends, callers=callers))
    return edits


def _functions(snapshot: Snapshot) -> Iterable[tuple[int, Operation, tuple[int, ...]]]:
    """Functions with a builtin type that are only called or launched, with their callers."""
    users: dict[str, list[int]] = {}
    for number, op in enumerate(snapshot.ops):
        for symbol in symbols_used(op):
            users.setdefault(symbol, []).append(number)
    for number, op in enumerate(snapshot.ops):
        name = symbol_name(op)
        if name is None or not is_function(op) or signature(op) is None:
            continue
        callers = tuple(users.get(name, ()))
        known = (snapshot.ops[c] for c in callers)
        if all(c.name == "func.call" or (c.name == "gpu.launch_func" and group(c, 1)) for c in known):
            yield number, op, callers


def _without(inputs: InputSpec, position: int) -> InputSpec:
    """The inputs of a function that lost an argument."""
    scalars = {k - (k > position): v for k, v in inputs.scalars.items() if k != position}
    shapes = {k - (k > position): v for k, v in inputs.shapes.items() if k != position}
    return replace(inputs, scalars=scalars, shapes=shapes)


PASSES = (
    Pass(name="arguments", propose=propose_arguments),
    Pass(name="results", propose=propose_results),
)

"""Let an earlier value, a block argument or a constant stand for the results of an operation, and erase it.

Also for block arguments: a small constant or an earlier value stands for an induction variable.
"""

from __future__ import annotations

from dataclasses import dataclass

from difftest.ir.tree import Operation, Value
from reducer.edits import Draft, Pass, Snapshot
from reducer.trees import CONSTANTS, constant_text, is_function, is_terminator, scopes


@dataclass(frozen=True, slots=True, kw_only=True)
class SubstituteOp:
    """Erase `op`; `values[i]` (numbers of values) stands for its i-th result."""

    op: int
    values: tuple[int, ...]

    def apply(self, draft: Draft) -> None:
        """See `Edit.apply`."""
        op = draft.op(self.op)
        if op is None:
            return
        for result, number in zip(op.results, self.values, strict=False):
            draft.replace(result, draft.value(number))
        draft.erase(op)


@dataclass(frozen=True, slots=True, kw_only=True)
class SubstituteConstant:
    """Erase `op`; the constant `number` stands for each result."""

    op: int
    number: int

    def apply(self, draft: Draft) -> None:
        """See `Edit.apply`."""
        op = draft.op(self.op)
        if op is None:
            return
        for result in op.results:
            constant = draft.constant(op, result.type, self.number)
            if constant is None or constant is result:
                return
            draft.replace(result, constant)
        draft.erase(op)


@dataclass(frozen=True, slots=True, kw_only=True)
class SubstituteArgument:
    """The value numbered `by`, or the constant 0 when it is negative, stands for the block argument `value`."""

    op: int
    value: int
    by: int

    def apply(self, draft: Draft) -> None:
        """See `Edit.apply`."""
        op = draft.op(self.op)
        if op is None:
            return
        value = draft.value(self.value)
        by = draft.stand_in(op, value.type) if self.by < 0 else draft.value(self.by)
        draft.replace(value, by)


def propose_values(snapshot: Snapshot) -> list[SubstituteOp]:
    """For each operation with results: one of its own operands, else the first and the nearest visible value."""
    edits: list[SubstituteOp] = []
    for op, scope in scopes(snapshot.module):
        if not op.results or is_terminator(op):
            continue
        alternatives: list[tuple[Value, ...]] = []
        for pick in (_own_operand, _first, _nearest):
            chosen = tuple(v for r in op.results if (v := pick(op, scope.get(r.type, []), r)) is not None)
            if len(chosen) == len(op.results) and chosen not in alternatives:
                alternatives.append(chosen)
        number = snapshot.number[op]
        edits.extend(SubstituteOp(op=number, values=_numbers(snapshot, c)) for c in alternatives)
    return edits


def propose_constants(snapshot: Snapshot) -> list[SubstituteConstant]:
    """For each operation that is not a constant and whose results are scalars: 0, then 1."""
    return [
        SubstituteConstant(op=number, number=value)
        for number, op in enumerate(snapshot.ops)
        if op.results and op.name not in CONSTANTS and all(constant_text(r.type, 0) for r in op.results)
        for value in (0, 1)
    ]


def propose_arguments(snapshot: Snapshot) -> list[SubstituteArgument]:
    """For each used argument of a nested block: the first visible value, then a zero."""
    edits: list[SubstituteArgument] = []
    for op, scope in scopes(snapshot.module):
        if is_function(op):
            continue
        for value in (v for region in op.regions for block in region.blocks for v in block.arguments):
            if value not in snapshot.uses:
                continue
            visible = scope.get(value.type, [])[:1]
            numbers = [snapshot.value_number[v] for v in visible]
            numbers += [-1] if constant_text(value.type, 0) else []
            own = snapshot.value_number[value]
            edits.extend(SubstituteArgument(op=snapshot.number[op], value=own, by=n) for n in numbers)
    return edits


def _own_operand(op: Operation, _visible: list[Value], result: Value) -> Value | None:
    return next((v for v in op.operands if v.type == result.type), None)


def _first(_op: Operation, visible: list[Value], _result: Value) -> Value | None:
    return visible[0] if visible else None


def _nearest(_op: Operation, visible: list[Value], _result: Value) -> Value | None:
    return visible[-1] if visible else None


def _numbers(snapshot: Snapshot, values: tuple[Value, ...]) -> tuple[int, ...]:
    return tuple(snapshot.value_number[v] for v in values)


PASSES = (
    Pass(name="substitute-values", propose=propose_values),
    Pass(name="substitute-constants", propose=propose_constants),
    Pass(name="substitute-arguments", propose=propose_arguments),
)

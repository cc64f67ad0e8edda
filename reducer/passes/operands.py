"""Replace single operands: values that keep others alive by small constants, then any by the first visible value.

Loop bounds and steps are left to `bounds`.
"""

from __future__ import annotations

from dataclasses import dataclass

from difftest.ir.tree import Value
from reducer.edits import Draft, Pass, Snapshot
from reducer.trees import CONSTANTS, constant_text, scopes


@dataclass(frozen=True, slots=True, kw_only=True)
class SetOperand:
    """Make operand `position` of `op` the value numbered `by`."""

    op: int
    position: int
    by: int

    def apply(self, draft: Draft) -> None:
        """See `Edit.apply`."""
        op = draft.op(self.op)
        if op is not None and self.position < len(op.operands):
            op.operands[self.position] = draft.value(self.by)


@dataclass(frozen=True, slots=True, kw_only=True)
class SetOperandConstant:
    """Make operand `position` of `op` the constant `number` of its type."""

    op: int
    position: int
    number: int

    def apply(self, draft: Draft) -> None:
        """See `Edit.apply`."""
        op = draft.op(self.op)
        if op is None or self.position >= len(op.operands):
            return
        constant = draft.constant(op, op.operands[self.position].type, self.number)
        if constant is not None:
            op.operands[self.position] = constant


def _is_constant(value: Value) -> bool:
    op = value.defining_op
    return op is not None and op.name in CONSTANTS


def propose_constants(snapshot: Snapshot) -> list[SetOperandConstant]:
    """Scalar operands that are not constants become 0, else 1: what computed them may go."""
    return [
        SetOperandConstant(op=number, position=position, number=value)
        for number, op in enumerate(snapshot.ops)
        if not op.name.startswith("func.call")
        for position, operand in enumerate(op.operands)
        if not _is_constant(operand) and constant_text(operand.type, 0)
        for value in (0, 1)
    ]


def propose_first(snapshot: Snapshot) -> list[SetOperand]:
    """Any operand becomes the first visible value of its type."""
    edits: list[SetOperand] = []
    for op, scope in scopes(snapshot.module):
        for position, operand in enumerate(op.operands):
            visible = scope.get(operand.type, [])
            if visible and visible[0] is not operand:
                by = snapshot.value_number[visible[0]]
                edits.append(SetOperand(op=snapshot.number[op], position=position, by=by))
    return edits


PASSES = (
    Pass(name="operands-to-constants", propose=propose_constants),
    Pass(name="operands-to-first", propose=propose_first),
)

"""Erase operations, users first: each goes together with all transitive users of its results.

Two passes: over the direct children of functions only (whole loop nests go at once, which is what cuts a large
input down fast), and over everything.
"""

from __future__ import annotations

from dataclasses import dataclass

from difftest.ir.tree import Operation
from reducer.edits import Draft, Pass, Snapshot
from reducer.trees import MODULES, is_terminator


@dataclass(frozen=True, slots=True, kw_only=True)
class EraseOp:
    """Erase one operation; its users follow when the draft is swept."""

    op: int

    def apply(self, draft: Draft) -> None:
        """See `Edit.apply`."""
        op = draft.op(self.op)
        if op is not None:
            draft.erase(op)


def _erasable(op: Operation) -> bool:
    return op.parent is not None and op.get("sym_name") is None and not is_terminator(op)


def _is_outer(op: Operation) -> bool:
    parent = op.parent_op
    return parent is not None and parent.parent_op is not None and parent.parent_op.name in MODULES


def propose_all(snapshot: Snapshot) -> list[EraseOp]:
    """Every operation, last first."""
    return [EraseOp(op=number) for number, op in enumerate(snapshot.ops) if _erasable(op)][::-1]


def propose_outer(snapshot: Snapshot) -> list[EraseOp]:
    """The direct children of functions, last first."""
    return [EraseOp(op=n) for n, op in enumerate(snapshot.ops) if _is_outer(op) and _erasable(op)][::-1]


PASSES = (Pass(name="erase-outer", propose=propose_outer), Pass(name="erase", propose=propose_all))

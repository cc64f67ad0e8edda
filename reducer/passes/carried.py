"""Drop values that loops and branches carry, and reductions."""

from __future__ import annotations

from dataclasses import dataclass

from difftest.ir.tree import Operation, Value
from reducer.edits import Draft, Pass, Snapshot
from reducer.trees import drop_operands, drop_values, group, terminator


@dataclass(frozen=True, slots=True, kw_only=True)
class DropCarried:
    """Remove carried value `position` of a loop: everything that read it reads the initial value."""

    op: int
    position: int

    def apply(self, draft: Draft) -> None:
        """See `Edit.apply`."""
        op = draft.op(self.op)
        if op is None or self.position >= len(op.results):
            return
        first = _first_initial(op)
        end = terminator(op)
        if first is None or end is None:
            return
        initial = op.operands[first + self.position]
        draft.replace(op.results[self.position], initial)
        arguments = op.regions[0].blocks[0].arguments
        if op.name != "scf.parallel":
            draft.replace(arguments[1 + self.position], initial)
            drop_values(arguments, 1 + self.position)
        elif self.position < len(end.regions):
            del end.regions[self.position]
        drop_operands(end, {self.position})
        drop_operands(op, {first + self.position})
        drop_values(op.results, self.position)


@dataclass(frozen=True, slots=True, kw_only=True)
class DropBranchResult:
    """Remove result `position` of an `scf.if` (or alike); users read a zero or go."""

    op: int
    position: int
    used: bool

    def apply(self, draft: Draft) -> None:
        """See `Edit.apply`."""
        op = draft.op(self.op)
        if op is None or self.position >= len(op.results):
            return
        result = op.results[self.position]
        if self.used:
            draft.replace(result, draft.stand_in(op, result.type))
        for region in range(len(op.regions)):
            end = terminator(op, region)
            if end is not None:
                drop_operands(end, {self.position})
        drop_values(op.results, self.position)


def propose_carried(snapshot: Snapshot) -> list[DropCarried]:
    """Every carried value of every loop, last first."""
    return [
        DropCarried(op=number, position=position)
        for number, op in enumerate(snapshot.ops)
        if _first_initial(op) is not None
        for position in reversed(range(len(op.results)))
    ]


def propose_branches(snapshot: Snapshot) -> list[DropBranchResult]:
    """Every result of every branch, last first."""
    return [
        DropBranchResult(op=number, position=position, used=op.results[position] in snapshot.uses)
        for number, op in enumerate(snapshot.ops)
        if op.name in ("scf.if", "affine.if", "scf.execute_region", "scf.index_switch")
        for position in reversed(range(len(op.results)))
    ]


def _first_initial(op: Operation) -> int | None:
    """Where the initial values of a loop's carried values start among its operands."""
    if op.name == "scf.for":
        return 3
    index = {"affine.for": 2, "scf.parallel": 3}.get(op.name)
    if index is None:
        return None
    initial: list[Value] = group(op, index)
    return len(op.operands) - len(initial) if len(initial) == len(op.results) else None


PASSES = (
    Pass(name="carried", propose=propose_carried),
    Pass(name="branch-results", propose=propose_branches),
)

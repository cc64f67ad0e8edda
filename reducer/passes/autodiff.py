"""Simpler autodiff regions: inputs go, and those that stay become constant (without shadow or gradient)."""

from __future__ import annotations

from dataclasses import dataclass

from difftest.ir.tree import Operation
from reducer.edits import Draft, Pass, Snapshot
from reducer.trees import drop_entry, drop_operands, drop_values, set_property, split_list


@dataclass(frozen=True, slots=True, kw_only=True)
class DropInput:
    """Remove input `position` of an autodiff region: its body reads the operand itself."""

    op: int
    position: int

    def apply(self, draft: Draft) -> None:
        """See `Edit.apply`."""
        op = draft.op(self.op)
        activities = [] if op is None else activities_of(op)
        if op is None or not _has_input(op, self.position):
            return
        arguments = op.regions[0].blocks[0].arguments
        start = sum(_width(a) for a in activities[: self.position])
        draft.replace(arguments[self.position], op.operands[start])
        _drop_gradient(draft, op, self.position)
        drop_values(arguments, self.position)
        drop_operands(op, set(range(start, start + _width(activities[self.position]))))
        drop_entry(op, "activity", self.position)


@dataclass(frozen=True, slots=True, kw_only=True)
class MakeConstant:
    """Make input `position` of an autodiff region `enzyme_const`: its shadow or gradient goes."""

    op: int
    position: int

    def apply(self, draft: Draft) -> None:
        """See `Edit.apply`."""
        op = draft.op(self.op)
        if op is None or not _has_input(op, self.position):
            return
        activities = activities_of(op)
        kind = activities[self.position]
        start = sum(_width(a) for a in activities[: self.position])
        _drop_gradient(draft, op, self.position)
        if _width(kind) == 2:
            drop_operands(op, {start + 1})
        head, _, _ = kind.rpartition("enzyme_")
        activities[self.position] = f"{head}enzyme_const>"
        set_property(op, "activity", f"[{', '.join(activities)}]")


def propose_inputs(snapshot: Snapshot) -> list[DropInput]:
    """Every input of every autodiff region, last first."""
    return [
        DropInput(op=number, position=position)
        for number, op in enumerate(snapshot.ops)
        if op.name == "enzyme.autodiff_region"
        for position in reversed(range(len(activities_of(op))))
    ]


def propose_constants(snapshot: Snapshot) -> list[MakeConstant]:
    """Every input of every autodiff region that is not constant, last first."""
    return [
        MakeConstant(op=number, position=position)
        for number, op in enumerate(snapshot.ops)
        if op.name == "enzyme.autodiff_region"
        for position, activity in reversed(list(enumerate(activities_of(op))))
        if "enzyme_const" not in activity
    ]


def activities_of(op: Operation) -> list[str]:
    """The activity of each input of an autodiff region."""
    return split_list((op.get("activity") or "[]")[1:-1])


def primals(op: Operation) -> list[int]:
    """The operand numbers of the inputs: duplicated ones are followed by their shadow, seeds come last."""
    found: list[int] = []
    position = 0
    for activity in activities_of(op):
        found.append(position)
        position += _width(activity)
    return found


def _has_input(op: Operation, position: int) -> bool:
    activities = activities_of(op)
    arguments = op.regions[0].blocks[0].arguments if op.regions and op.regions[0].blocks else []
    return position < min(len(activities), len(arguments)) and sum(map(_width, activities)) <= len(op.operands)


def _width(activity: str) -> int:
    """How many operands an input takes."""
    return 2 if "enzyme_dup" in activity else 1


def _drop_gradient(draft: Draft, op: Operation, position: int) -> None:
    """Active inputs have a gradient among the results, in order, after the primal results."""
    activities = activities_of(op)
    if "enzyme_active" not in activities[position]:
        return
    after = sum(1 for a in activities[position:] if "enzyme_active" in a)
    if after <= len(op.results):
        result = op.results[len(op.results) - after]
        draft.replace(result, draft.stand_in(op, result.type))
        drop_values(op.results, len(op.results) - after)


PASSES = (
    Pass(name="region-inputs", propose=propose_inputs),
    Pass(name="activities", propose=propose_constants),
)

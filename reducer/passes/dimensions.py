"""Lower the rank of parallel loops: one dimension goes, its induction variable becomes its lower bound."""

from __future__ import annotations

import re
from dataclasses import dataclass

from difftest.ir.tree import Operation
from reducer.edits import Draft, Pass, Snapshot
from reducer.trees import drop_entry, drop_operands, drop_values, group, set_property, split_list

_MAP = re.compile(r"^(affine_map<.*-> \()(.*)(\)>)$", re.DOTALL)
_UNIT_GROUPS = re.compile(r"^dense<1> : tensor<(\d+)xi32>$")


@dataclass(frozen=True, slots=True, kw_only=True)
class DropDimension:
    """Remove dimension `dimension` of the parallel loop `op`."""

    op: int
    dimension: int

    def apply(self, draft: Draft) -> None:
        """See `Edit.apply`. Several dimensions of one loop are proposed last first, so numbers stay right."""
        op = draft.op(self.op)
        if op is None or self.dimension >= _rank(op) or _rank(op) < 2:
            return
        if op.name == "scf.parallel":
            _drop_scf(draft, op, self.dimension)
        else:
            _drop_affine(draft, op, self.dimension)


def propose(snapshot: Snapshot) -> list[DropDimension]:
    """Every dimension of every parallel loop of rank 2 and more, outer loops first, last dimension first."""
    return [
        DropDimension(op=number, dimension=dimension)
        for number, op in enumerate(snapshot.ops)
        if _rank(op) > 1
        for dimension in reversed(range(_rank(op)))
    ]


def _rank(op: Operation) -> int:
    """The rank of a parallel loop this pass can cut, 0 for anything else."""
    if op.name == "scf.parallel":
        return len(group(op, 0))
    if op.name == "affine.parallel":
        groups = [_UNIT_GROUPS.match(op.get(n) or "") for n in ("lowerBoundsGroups", "upperBoundsGroups")]
        return int(groups[0].group(1)) if groups[0] and groups[1] else 0
    return 0


def _drop_scf(draft: Draft, op: Operation, dimension: int) -> None:
    rank = _rank(op)
    arguments = op.regions[0].blocks[0].arguments
    draft.replace(arguments[dimension], op.operands[dimension])
    drop_values(arguments, dimension)
    drop_operands(op, {dimension, rank + dimension, 2 * rank + dimension})


def _drop_affine(draft: Draft, op: Operation, dimension: int) -> None:
    arguments = op.regions[0].blocks[0].arguments
    draft.replace(arguments[dimension], draft.stand_in(op, "index"))
    drop_values(arguments, dimension)
    rank = _rank(op) - 1
    for name in ("lowerBoundsMap", "upperBoundsMap"):
        matched = _MAP.match(op.get(name) or "")
        if matched is not None:
            results = [r for i, r in enumerate(split_list(matched.group(2))) if i != dimension]
            set_property(op, name, f"{matched.group(1)}{', '.join(results)}{matched.group(3)}")
    for name in ("lowerBoundsGroups", "upperBoundsGroups"):
        set_property(op, name, f"dense<1> : tensor<{rank}xi32>")
    drop_entry(op, "steps", dimension)


PASSES = (Pass(name="dimensions", propose=propose),)

"""Control flow graphs: conditional branches become plain, blocks nobody jumps to go, straight lines merge."""

from __future__ import annotations

from dataclasses import dataclass

from difftest.ir.tree import Block, Operation, Value
from reducer.edits import Draft, Pass, Snapshot
from reducer.trees import group

_JUMPS = {"cf.cond_br": "cf.br", "llvm.cond_br": "llvm.br"}


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeBranch:
    """Make the conditional branch `op` jump to successor `side`, and drop blocks that nothing reaches then."""

    op: int
    side: int

    def apply(self, draft: Draft) -> None:
        """See `Edit.apply`."""
        op = draft.op(self.op)
        if op is None or op.parent is None or len(op.successors) != 2:
            return
        operands: list[Value] = group(op, 1 + self.side)
        target = op.successors[self.side]
        jump = Operation(_JUMPS[op.name], operands=list(operands), successors=[target])
        draft.splice(op, [jump])
        _drop_unreachable(draft, op.parent)


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeBlock:
    """Append the block that the plain branch `op` alone jumps to, in the place of `op`."""

    op: int

    def apply(self, draft: Draft) -> None:
        """See `Edit.apply`."""
        op = draft.op(self.op)
        if op is None or op.parent is None or len(op.successors) != 1:
            return
        target, block = op.successors[0], op.parent
        region = block.parent
        jumps = sum(b.ops[-1].successors.count(target) for b in region.blocks if b.ops)
        if jumps != 1 or target is block or target is region.blocks[0]:
            return
        for argument, value in zip(target.arguments, op.operands, strict=True):
            draft.replace(argument, value)
        draft.splice(op, list(target.ops))
        region.blocks.remove(target)


def propose_branches(snapshot: Snapshot) -> list[TakeBranch | MergeBlock]:
    """Both sides of every conditional branch, then every plain branch."""
    edits: list[TakeBranch | MergeBlock] = []
    for number, op in enumerate(snapshot.ops):
        if op.name in _JUMPS and len(op.successors) == 2:
            edits.extend(TakeBranch(op=number, side=side) for side in (0, 1))
        elif op.name in _JUMPS.values():
            edits.append(MergeBlock(op=number))
    return edits


def _drop_unreachable(draft: Draft, block: Block) -> None:
    """Erase the blocks of a region that cannot be reached from its entry."""
    region = block.parent
    seen: set[Block] = set()
    todo = region.blocks[:1]
    while todo:
        current = todo.pop()
        if current not in seen:
            seen.add(current)
            todo.extend(current.ops[-1].successors if current.ops else [])
    for unreachable in (b for b in region.blocks if b not in seen):
        for op in unreachable.ops:
            draft.erase(op)
    region.blocks = [b for b in region.blocks if b in seen]


PASSES = (Pass(name="branches", propose=propose_branches),)

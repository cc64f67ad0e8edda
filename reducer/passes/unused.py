"""Erase operations without regions whose results nobody uses, and those that only fed them."""

from __future__ import annotations

from difftest.ir.tree import Operation
from reducer.edits import Pass, Snapshot
from reducer.passes.erase import EraseOp


def propose(snapshot: Snapshot) -> list[EraseOp]:
    """Every such operation, last first; one proposal that is nearly always accepted as a whole."""
    gone: set[Operation] = set()
    edits: list[EraseOp] = []
    for number in range(len(snapshot.ops) - 1, -1, -1):
        op = snapshot.ops[number]
        used = any(user not in gone for result in op.results for user, _ in snapshot.uses.get(result, ()))
        if op.results and not op.regions and not used:
            gone.add(op)
            edits.append(EraseOp(op=number))
    return edits


PASSES = (Pass(name="unused", propose=propose),)

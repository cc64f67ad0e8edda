"""Affine maps and sets without operands: accesses and applications at zero, conditions that always hold or never."""

from __future__ import annotations

import re
from dataclasses import dataclass

from difftest.ir.tree import Operation
from reducer.edits import Draft, Pass, Snapshot
from reducer.trees import set_property, split_list

_MAP = re.compile(r"^affine_map<\(([^)]*)\)(?:\[([^\]]*)\])? -> \((.*)\)>$", re.DOTALL)
_SET = re.compile(r"^affine_set<\(([^)]*)\)(?:\[([^\]]*)\])? : \((.*)\)>$", re.DOTALL)
# What a condition becomes: true, then false.
_CONDITIONS = ("affine_set<() : (0 == 0)>", "affine_set<() : (1 == 0)>")


@dataclass(frozen=True, slots=True, kw_only=True)
class SetMap:
    """Give the property `name` of `op` the text `text`, which needs none of the last `operands` operands."""

    op: int
    name: str
    text: str
    operands: int

    def apply(self, draft: Draft) -> None:
        """See `Edit.apply`."""
        op = draft.op(self.op)
        if op is not None and op.get(self.name) is not None and self.operands <= len(op.operands):
            set_property(op, self.name, self.text)
            op.operands = op.operands[: len(op.operands) - self.operands]


def propose(snapshot: Snapshot) -> list[SetMap]:
    """Every affine access, application and condition that is not constant yet."""
    edits: list[SetMap] = []
    for number, op in enumerate(snapshot.ops):
        if op.name.startswith(("affine.load", "affine.store", "affine.apply", "affine.vector")):
            text, operands = _at_zero(op)
            edits.extend(SetMap(op=number, name="map", text=t, operands=operands) for t in text)
        elif op.name == "affine.if":
            texts, operands = _conditions(op)
            edits.extend(SetMap(op=number, name="condition", text=t, operands=operands) for t in texts)
    return edits


def _at_zero(op: Operation) -> tuple[list[str], int]:
    matched = _MAP.match(op.get("map") or "")
    if matched is None:
        return [], 0
    results = split_list(matched.group(3))
    text = f"affine_map<() -> ({', '.join('0' for _ in results)})>"
    return ([] if text == matched.group() else [text]), _arity(matched)


def _conditions(op: Operation) -> tuple[list[str], int]:
    matched = _SET.match(op.get("condition") or "")
    if matched is None or matched.group() in _CONDITIONS:
        return [], 0
    return list(_CONDITIONS), _arity(matched)


def _arity(matched: re.Match[str]) -> int:
    """How many operands a map or set takes: its dimensions and symbols."""
    return len(split_list(matched.group(1))) + len(split_list(matched.group(2) or ""))


PASSES = (Pass(name="maps", propose=propose),)

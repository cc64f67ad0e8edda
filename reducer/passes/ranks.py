"""Lower ranks: one axis of a memref type goes, with the index of every access and the size of every allocation.

Only identity layouts; accesses this file does not know keep their indices, and the verifier refuses the result.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from difftest.ir.tree import Operation, Value
from difftest.model import InputSpec
from reducer.edits import Draft, Pass, Snapshot
from reducer.passes.types import Retype, drop_size
from reducer.trees import is_function, set_property, split_list, symbol_name, values_of

_MEMREF = re.compile(r"^memref<((?:[?\d]+x){2,})[^,]*(?:, \d+(?: : i\d+)?)?>$")
_MAP = re.compile(r"^(affine_map<.*-> \()(.*)(\)>)$", re.DOTALL)
# Accesses: name -> the position of the memref among the operands; indices follow it.
_ACCESSES = {"memref.load": 0, "memref.store": 1, "memref.atomic_rmw": 1, "memref.prefetch": 0}
_AFFINE_ACCESSES = {"affine.load": 0, "affine.store": 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class DropAxis:
    """Write the type `old` without axis `axis` everywhere."""

    old: str
    axis: int

    def apply(self, draft: Draft) -> None:
        """See `Edit.apply`."""
        for op in draft.live_ops:
            self._drop_index(op)
            drop_size(op, self.old, self.axis)
            if is_function(op) and symbol_name(op) == draft.entry and op.regions[0].blocks:
                arguments = op.regions[0].blocks[0].arguments
                draft.inputs = _without_axis(draft.inputs, arguments, self.old, self.axis)
        Retype(old=self.old, new=without_axis(self.old, self.axis)).apply(draft)

    def _drop_index(self, op: Operation) -> None:
        base = _ACCESSES.get(op.name, _AFFINE_ACCESSES.get(op.name))
        if base is None or base >= len(op.operands) or op.operands[base].type != self.old:
            return
        if op.name in _ACCESSES:
            op.operands = [v for p, v in enumerate(op.operands) if p != base + 1 + self.axis]
            return
        matched = _MAP.match(op.get("map") or "")
        if matched is not None:
            results = [r for p, r in enumerate(split_list(matched.group(2))) if p != self.axis]
            set_property(op, "map", f"{matched.group(1)}{', '.join(results)}{matched.group(3)}")


def propose(snapshot: Snapshot) -> list[DropAxis]:
    """Every axis of every memref type of rank 2 and more."""
    types = dict.fromkeys(value.type for value in values_of(snapshot.ops))
    return [
        DropAxis(old=text, axis=axis)
        for text in types
        if (matched := _MEMREF.match(text)) is not None
        for axis in range(matched.group(1).count("x"))
    ]


def without_axis(text: str, axis: int) -> str:
    """The memref type `text` with one dimension less."""
    axes = list(re.finditer(r"(?<=[<x])(?:\?|\d+)x", text))
    return text[: axes[axis].start()] + text[axes[axis].end() :]


def _without_axis(inputs: InputSpec, arguments: list[Value], old: str, axis: int) -> InputSpec:
    shapes = {
        position: tuple(e for p, e in enumerate(shape) if p != axis)
        if position < len(arguments) and arguments[position].type == old
        else shape
        for position, shape in inputs.shapes.items()
    }
    return replace(inputs, shapes=shapes)


PASSES = (Pass(name="ranks", propose=propose),)

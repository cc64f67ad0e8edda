"""Smaller inputs: scalars toward their default and 0, 1, half; extents toward 1."""

from __future__ import annotations

from dataclasses import dataclass, replace

from difftest.model import InputSpec
from reducer.edits import Draft, Pass, Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class SetInput:
    """Give the argument at `position` another scalar or shape; both None means its default."""

    position: int
    scalar: int | None = None
    shape: tuple[int, ...] | None = None

    def apply(self, draft: Draft) -> None:
        """See `Edit.apply`."""
        scalars = {k: v for k, v in draft.inputs.scalars.items() if k != self.position}
        shapes = {k: v for k, v in draft.inputs.shapes.items() if k != self.position}
        if self.scalar is not None:
            scalars[self.position] = self.scalar
        if self.shape is not None:
            shapes[self.position] = self.shape
        draft.inputs = replace(draft.inputs, scalars=scalars, shapes=shapes)


def propose(snapshot: Snapshot) -> list[SetInput]:
    """For each given input its default, then smaller values."""
    inputs: InputSpec = snapshot.candidate.inputs
    edits: list[SetInput] = []
    for position, value in sorted(inputs.scalars.items()):
        edits.append(SetInput(position=position))
        if isinstance(value, int):
            wanted = [v for v in (0, 1, 2, abs(value) // 2) if v < abs(value)]
            edits.extend(SetInput(position=position, scalar=v) for v in dict.fromkeys(wanted))
    for position, shape in sorted(inputs.shapes.items()):
        edits.append(SetInput(position=position))
        for axis, extent in enumerate(shape):
            smaller = [e for e in dict.fromkeys((1, 2, extent // 2)) if 0 < e < extent]
            shapes = ((*shape[:axis], e, *shape[axis + 1 :]) for e in smaller)
            edits.extend(SetInput(position=position, shape=s) for s in shapes)
    return edits


PASSES = (Pass(name="inputs", propose=propose),)

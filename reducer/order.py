"""The one order of a reduction: total, and the same whatever path the search took.

Smaller means, in this sequence: fewer operations; fewer regions, blocks and block arguments; fewer passes in the
pipeline; shorter text; shorter pipeline; smaller sum of the numbers in the text (constants, bounds, shapes, bit
widths: `i32` is below `i64`, `2` below `7`); smaller inputs; and last the text, the pipeline and the inputs
themselves, so that two different candidates are never equal.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import cached_property, total_ordering

from reducer.problem import Candidate

# Numbers that are not part of a value's or a block's name.
_NUMBER = re.compile(r"(?<![%\d])(?<!\^bb)\d+")


@total_ordering
@dataclass(frozen=True, kw_only=True, eq=False)
class Size:
    """The position of a candidate in the order. `ops`, `structure` and `passes` are counted by who made the tree."""

    ops: int
    structure: int
    passes: int
    candidate: Candidate

    @property
    def head(self) -> tuple[int, int, int, int, int]:
        """The part that is free to compute; it decides nearly always."""
        return self.ops, self.structure, self.passes, len(self.candidate.text), len(self.candidate.pipeline or "")

    @cached_property
    def tail(self) -> tuple[int, int, str, str, str, str]:
        """The part that reads the whole text: only asked for on a tie."""
        candidate = self.candidate
        weight = sum(int(number) for number in _NUMBER.findall(candidate.text))
        return (
            weight,
            _input_weight(candidate),
            candidate.text,
            candidate.pipeline or "",
            candidate.inputs_line,
            candidate.entry,
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Size) and self.head == other.head and self.candidate.key == other.candidate.key

    def __hash__(self) -> int:
        return hash(self.candidate.key)

    def __lt__(self, other: Size) -> bool:
        if self.head != other.head:
            return self.head < other.head
        return self.tail < other.tail


def _input_weight(candidate: Candidate) -> int:
    """How large the inputs are: magnitudes of scalars, extents of shapes, and one per entry."""
    scalars = candidate.inputs.scalars.values()
    shapes = candidate.inputs.shapes.values()
    extents = sum(sum(shape) for shape in shapes)
    magnitudes = sum(int(min(abs(v), 2**64)) for v in scalars if not math.isnan(v))
    return magnitudes + extents + len(candidate.inputs.scalars) + len(candidate.inputs.shapes)

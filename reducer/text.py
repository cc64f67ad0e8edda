"""The fallback for inputs that do not read as MLIR: the text as lines, edited by cutting pieces out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from reducer.edits import with_text
from reducer.order import Size
from reducer.problem import Candidate


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """Replace the characters from `start` to `end` by `by`."""

    start: int
    end: int
    by: str = ""


class Text:
    """A candidate seen as characters. `size.ops` counts its lines that are not blank."""

    def __init__(self, candidate: Candidate) -> None:
        self.candidate = candidate

    @cached_property
    def lines(self) -> list[tuple[int, int]]:
        """Start and end of every line, its newline included."""
        found: list[tuple[int, int]] = []
        start = 0
        for line in self.candidate.text.splitlines(keepends=True):
            found.append((start, start + len(line)))
            start += len(line)
        return found

    @property
    def size(self) -> Size:
        """See `Subject.size`."""
        return self._size

    @cached_property
    def _size(self) -> Size:
        """See `Subject.size`."""
        count = sum(1 for line in self.candidate.text.splitlines() if line.strip())
        return Size(ops=count, structure=0, passes=0, candidate=self.candidate)

    def apply(self, edits: Sequence[Cut]) -> Text | None:
        """See `Subject.apply`. Of overlapping cuts the one that starts first, then the longer, is made."""
        pieces: list[str] = []
        text, position = self.candidate.text, 0
        for cut in sorted(edits, key=lambda c: (c.start, -c.end)):
            if cut.start >= position:
                pieces += (text[position : cut.start], cut.by)
                position = cut.end
        result = "".join((*pieces, text[position:]))
        return None if result == text else Text(with_text(self.candidate, result))

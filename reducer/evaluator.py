"""Asking the predicate: one after another in this process, or speculatively in several processes.

Both give the same answer to `first`: the first candidate, in the order given, that is interesting.  What runs
ahead of the answer in other processes is thrown away, so a reduction does not depend on how many there are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from reducer.problem import Candidate, Predicate


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """The answers to the leading candidates of a stream, in order; only the last one can be True."""

    interesting: tuple[bool, ...]
    lost: int = 0

    @property
    def hit(self) -> int | None:
        """The position of the interesting candidate, None when there is none."""
        return len(self.interesting) - 1 if self.interesting and self.interesting[-1] else None


class Evaluator(Protocol):
    """Finds the first interesting candidate of a stream."""

    @property
    def ahead(self) -> int:
        """How many candidates may be drawn from a stream before the first of them is answered."""
        ...

    def first(self, candidates: Iterator[Candidate]) -> Answers:
        """Draw candidates until one is interesting, and answer for all up to it."""
        ...

    def close(self) -> None:
        """End processes and give back what the predicate holds."""
        ...


class SerialEvaluator:
    """Asks in this process, one candidate at a time."""

    def __init__(self, predicate: Predicate) -> None:
        self._predicate = predicate
        self.ahead = 1

    def first(self, candidates: Iterator[Candidate]) -> Answers:
        """See `Evaluator.first`."""
        answers: list[bool] = []
        for candidate in candidates:
            answers.append(self._predicate.check(candidate))
            if answers[-1]:
                break
        return Answers(interesting=tuple(answers))

    def close(self) -> None:
        """Close the predicate."""
        self._predicate.close()

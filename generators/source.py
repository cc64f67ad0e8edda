"""Where random choices come from: one interface, a seeded stream and Hypothesis behind it.

Every choice of a generator goes through a `Source`, so the same seed gives the same bytes on every platform and
Python version, and Hypothesis can shrink a program by shrinking its choices.  In both sources the first item of a
choice, the smallest integer and `False` are the simple ones: list plain alternatives first.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate
from random import Random
from typing import Any, Generic, Protocol, TypeVar

from hypothesis import strategies as st

FORMAT_VERSION = 1
"""Raised whenever the bytes of a seed's program change; part of every program's name."""

T = TypeVar("T")


class Weighted(Generic[T]):
    """A choice with integer weights, prepared once. Items of weight 0 are dropped; the first item is the simplest."""

    __slots__ = ("bounds", "items", "total")

    def __init__(self, pairs: Sequence[tuple[T, int]]) -> None:
        kept = [(item, weight) for item, weight in pairs if weight > 0]
        self.items: tuple[T, ...] = tuple(item for item, _ in kept)
        self.bounds: list[int] = list(accumulate(weight for _, weight in kept))
        self.total: int = self.bounds[-1] if kept else 0

    def at(self, ticket: int) -> T:
        """The item that owns `ticket`, `0 <= ticket < total`."""
        return self.items[bisect_right(self.bounds, ticket)]


class Source(Protocol):
    """The draws a generator may make."""

    def integer(self, low: int, high: int) -> int:
        """An integer in `low..high`, both included."""
        ...

    def choice(self, items: Sequence[T]) -> T:
        """One of `items` (not empty)."""
        ...

    def weighted(self, table: Weighted[T]) -> T:
        """One item of `table`, by weight."""
        ...

    def boolean(self, percent: int) -> bool:
        """True in about `percent` of 100 draws."""
        ...

    def recent(self, count: int) -> int:
        """How far to look back in a list of `count` items: 0 = the newest, which is drawn most often."""
        ...


class SeededSource:
    """The seeded stream. Uses only `random.Random(int)` and `.random()`, whose values Python promises to keep."""

    __slots__ = ("_next", "seed")

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._next: Callable[[], float] = Random(seed).random

    def integer(self, low: int, high: int) -> int:
        """An integer in `low..high`."""
        return low + int(self._next() * (high - low + 1))

    def choice(self, items: Sequence[T]) -> T:
        """One of `items`."""
        return items[int(self._next() * len(items))]

    def weighted(self, table: Weighted[T]) -> T:
        """One item of `table`, by weight."""
        return table.items[bisect_right(table.bounds, int(self._next() * table.total))]

    def boolean(self, percent: int) -> bool:
        """True in `percent` of 100 draws."""
        return self._next() * 100 < percent

    def recent(self, count: int) -> int:
        """A look-back distance below `count`, quadratically biased to 0."""
        draw = self._next()
        return int(draw * draw * count)


class HypothesisSource:
    """Draws through Hypothesis: `draw` is the function given by `@st.composite`, or `data.draw`."""

    __slots__ = ("_draw",)

    def __init__(self, draw: Callable[[st.SearchStrategy[Any]], Any]) -> None:
        self._draw = draw

    def integer(self, low: int, high: int) -> int:
        """An integer in `low..high`; shrinks towards the one nearest to 0."""
        return int(self._draw(st.integers(low, high)))

    def choice(self, items: Sequence[T]) -> T:
        """One of `items`; shrinks towards the first."""
        return items[self.integer(0, len(items) - 1)]

    def weighted(self, table: Weighted[T]) -> T:
        """One item of `table`; shrinks towards the first."""
        return table.at(self.integer(0, table.total - 1))

    def boolean(self, percent: int) -> bool:
        """True in about `percent` of 100 draws; shrinks towards False."""
        return self.integer(0, 99) >= 100 - percent

    def recent(self, count: int) -> int:
        """A look-back distance below `count`; shrinks towards 0."""
        return self.integer(0, count - 1)


class TracingSource:
    """Wraps a source and records every choice in order, for `difftest generate --explain`."""

    __slots__ = ("choices", "inner")

    def __init__(self, inner: Source) -> None:
        self.inner = inner
        self.choices: list[str] = []

    def integer(self, low: int, high: int) -> int:
        """As `inner`, recorded."""
        drawn = self.inner.integer(low, high)
        self.choices.append(f"integer {low}..{high}: {drawn}")
        return drawn

    def choice(self, items: Sequence[T]) -> T:
        """As `inner`, recorded."""
        drawn = self.inner.choice(items)
        self.choices.append(f"choice of {len(items)}: {drawn}")
        return drawn

    def weighted(self, table: Weighted[T]) -> T:
        """As `inner`, recorded."""
        drawn = self.inner.weighted(table)
        self.choices.append(f"weighted of {len(table.items)}: {drawn}")
        return drawn

    def boolean(self, percent: int) -> bool:
        """As `inner`, recorded."""
        drawn = self.inner.boolean(percent)
        self.choices.append(f"boolean {percent} %: {drawn}")
        return drawn

    def recent(self, count: int) -> int:
        """As `inner`, recorded."""
        drawn = self.inner.recent(count)
        self.choices.append(f"recent of {count}: {drawn}")
        return drawn

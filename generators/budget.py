"""Arithmetic on bounds: how large, and how finely divided, can a value be?

Floats are kept exact (DESIGN §4): a float is described by (frac, num), meaning an integer multiple of 2^-frac with
|v| * 2^frac <= num.  Sums align the fractions and add the numerators, products add the fractions and multiply the
numerators; nothing ever rounds while num stays within 2^digits of the type.
"""

from __future__ import annotations

from generators.types import EXACT_FRACTION, EXACT_LIMIT, FLOAT_MAXIMUM

Bound = tuple[int, int]
"""(frac, num)."""


def add(a: Bound, b: Bound) -> Bound:
    """The bound of a sum or difference."""
    frac = a[0] if a[0] > b[0] else b[0]
    return frac, (a[1] << (frac - a[0])) + (b[1] << (frac - b[0]))


def multiply(a: Bound, b: Bound) -> Bound:
    """The bound of a product."""
    return a[0] + b[0], a[1] * b[1]


def join(a: Bound, b: Bound) -> Bound:
    """The bound of a value that is one of two (select, min, max, a merge of control flow)."""
    frac = a[0] if a[0] > b[0] else b[0]
    x, y = a[1] << (frac - a[0]), b[1] << (frac - b[0])
    return frac, x if x > y else y


def scale(a: Bound, times: int) -> Bound:
    """The bound of a sum of `times` values."""
    return a[0], a[1] * times


def whole(a: Bound) -> Bound:
    """The bound of the value rounded to an integer in any direction."""
    return 0, (a[1] >> a[0]) + 1


def is_exact(type: str, a: Bound) -> bool:
    """Whether every value within the bound is representable in the float type."""
    return a[1] <= EXACT_LIMIT[type] and a[0] <= EXACT_FRACTION[type] and a[1] >> a[0] < FLOAT_MAXIMUM[type]


def fits(a: Bound, contract: Bound) -> bool:
    """Whether every value within `a` obeys `contract`."""
    return a[0] <= contract[0] and a[1] << (contract[0] - a[0]) <= contract[1]


def trips(low: int, high: int, step: int) -> int:
    """How often a loop from `low` up to, not including, `high` runs."""
    return max(0, -((low - high) // step))

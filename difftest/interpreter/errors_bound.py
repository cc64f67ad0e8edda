"""Running error bounds: how far a compiled program's float may lie from the reference's, and where both are exact.

SEMANTICS §12. A bound is absolute, float64, per lane; None means that every lane is exact. The reference evaluates
strictly; a compiler may re-associate, contract or approximate where flags or its device library let it. While all
operations so far were exact every licensed form gives the same bits and the bound stays 0. Once something rounded:

* an operation adds *one* ulp of its result, half for each side's own rounding (`2 * unit * |r|`, at least one ulp);
* operand bounds propagate through + - * / and roots by interval arithmetic, rigorously, so without a safety factor
  (doubling at every step of a sum would void it after fifty terms); `errors_math` doubles its derivatives instead;
* `contract` needs nothing extra: fusing drops the product's rounding, and an inexact product already carries it;
* an infinite bound means that nothing is known: the comparison skips the lane.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from difftest.interpreter.errors_exact import (
    fma_is_exact,
    one_difference,
    one_double_product,
    one_double_quotient,
    one_product,
    one_quotient,
    one_sum,
    product_is_exact,
    quotient_is_exact,
    sum_is_exact,
)
from difftest.interpreter.numerics import FloatKind, IntKind
from difftest.interpreter.numerics_float import double
from difftest.interpreter.rules import Data, is_array

Bound = Callable[[tuple[Data, ...], tuple[Data, ...], Data], Data]
Discrete = Callable[[tuple[Data, ...], tuple[Data, ...]], Data]

APPROXIMATE = frozenset({"arcp", "afn"})
_DIVISION_ULPS = 3.0  # div.approx.f32 errs by up to 2 ulp, a product with a reciprocal by 1.5; ours by half.
_LARGE_DIVISOR = 2.0**126
_SMALL_NORMAL_SINGLE = 2.0**-126


def all_exact(bounds: Sequence[Data]) -> bool:
    """Whether no operand carries a bound."""
    return all(bound is None for bound in bounds)


def known(bound: Data) -> Data:
    """A bound as a number: 0 for None."""
    return 0.0 if bound is None else bound


def one_ulp(kind: FloatKind, result: Data, spread: Data = 0.0) -> Data:
    """At least one ulp of every number within `spread` of `result`."""
    if type(result) is float:
        return 2 * kind.unit * (abs(result) + spread) + kind.tiny
    size = np.abs(double(result)) + spread
    size *= 2 * kind.unit
    size += kind.tiny
    return size


def finish(result: Data, spread: Data, own: Data) -> Data:
    """`spread + own`; where the result is not finite, 0 if the operands were exact and unknown (infinite) if not.

    `own` is infinite or NaN wherever an inexact result is, so that one look at the greatest value tells.
    """
    total = np.asarray(spread + own)
    if total.size == 0 or np.isfinite(total.max()):
        return total if total.ndim else float(total)
    with_special = np.where(np.isfinite(double(result)), total, np.where(np.asarray(spread) == 0, 0.0, np.inf))
    found: NDArray[np.float64] = np.where(np.isnan(with_special), np.inf, with_special)
    return found if found.ndim else float(found)


def _arithmetic(
    exact: Callable[..., Data],
    spread: Callable[..., Data],
    own: Callable[..., Data],
    *,
    exact_one: Callable[..., bool] | None = None,
) -> Bound:
    """The common scheme: None while all is exact, else spread of the operands plus the own error where inexact.

    `exact_one` is `exact` on Python floats: uniform values do not pay numpy's price per call.
    """

    def uniform(operands: tuple[Data, ...], bounds: tuple[Data, ...], result: Data) -> Data:
        values = [float(x) for x in operands]
        found = float(result)
        wide = 0.0 if all_exact(bounds) else float(spread(*values, *map(known, bounds), result=found))
        if wide == 0 and (exact(*operands, result) if exact_one is None else exact_one(*values, found)):
            return None
        total = wide + own(found, wide, *values)
        return total if total < math.inf else finish(result, wide, own(found, wide, *values))

    def bound(operands: tuple[Data, ...], bounds: tuple[Data, ...], result: Data) -> Data:
        if not is_array(result):
            return uniform(operands, bounds, result)
        if all_exact(bounds):
            clean = exact(*operands, result)
            if np.all(clean):
                return None
            return finish(result, 0.0, np.where(clean, 0.0, own(result, 0.0, *operands)))
        wide = np.asarray(spread(*operands, *map(known, bounds), result=result))
        if wide.size and wide.min() > 0:
            return finish(result, wide, own(result, wide, *operands))
        # An exact operation on inexact operands rounds elsewhere, where the operands differ.
        clean = np.logical_and(wide == 0, exact(*operands, result))
        return finish(result, wide, np.where(clean, 0.0, own(result, wide, *operands)))

    return bound


def _plain_ulp(kind: FloatKind, flags: frozenset[str]) -> Callable[..., Data]:
    """One ulp of the result; under `reassoc` also one of the operands' magnitudes, which partial sums can reach."""

    def own(result: Data, spread: Data, *operands: Data) -> Data:
        found = one_ulp(kind, result, spread)
        if "reassoc" in flags:
            found = found + sum(one_ulp(kind, x) for x in operands)
        return found

    return own


# --- bounds -------------------------------------------------------------------------------------------------


def sum_bound(kind: FloatKind, flags: frozenset[str], *, subtract: bool) -> Bound:
    """addf and subf."""
    check = sum_is_exact(kind)

    def exact(a: Data, b: Data, result: Data) -> Data:
        return check(a, -b if subtract else b, result)

    def spread(a: Data, b: Data, of_a: Data, of_b: Data, *, result: Data) -> Data:
        del a, b, result
        return of_a + of_b

    one = one_difference if subtract else one_sum
    return _arithmetic(exact, spread, _plain_ulp(kind, flags), exact_one=one)


def product_bound(kind: FloatKind, flags: frozenset[str]) -> Bound:
    """mulf."""

    def spread(a: Data, b: Data, of_a: Data, of_b: Data, *, result: Data) -> Data:
        del result
        return np.abs(double(a)) * of_b + (np.abs(double(b)) + of_b) * of_a

    def own(result: Data, wide: Data, *operands: Data) -> Data:
        del operands
        return one_ulp(kind, result, wide) * (2 if "reassoc" in flags else 1)

    one = one_double_product if kind.name == "f64" else one_product
    return _arithmetic(product_is_exact(kind), spread, own, exact_one=one)


def fma_bound(kind: FloatKind, flags: frozenset[str]) -> Bound:
    """math.fma."""

    def spread(*data: Data, result: Data) -> Data:
        del result
        a, b, _, of_a, of_b, of_c = data
        return np.abs(double(a)) * of_b + (np.abs(double(b)) + of_b) * of_a + of_c

    def own(result: Data, wide: Data, a: Data, b: Data, c: Data) -> Data:
        found = one_ulp(kind, result, wide)
        if "reassoc" in flags:
            found = found + one_ulp(kind, double(a) * double(b)) + one_ulp(kind, c)
        return found

    return _arithmetic(fma_is_exact(kind), spread, own)


def quotient_bound(kind: FloatKind, flags: frozenset[str]) -> Bound:
    """divf. `arcp` and `afn` (so `fast`) may replace it by an approximation, even where the quotient is exact."""
    loose = bool(flags & APPROXIMATE)

    def never(*data: Data) -> Data:
        return np.zeros(np.shape(double(data[-1])), np.bool_)

    def spread(a: Data, b: Data, of_a: Data, of_b: Data, *, result: Data) -> Data:
        del a
        room = np.abs(double(b)) - of_b
        reached = (of_a + np.abs(double(result)) * of_b) / np.where(room > 0, room, np.nan)
        return np.where(np.asarray(of_a + of_b) == 0, 0.0, np.where(room > 0, reached, np.inf))

    def own(result: Data, wide: Data, a: Data, b: Data) -> Data:
        del a
        found = one_ulp(kind, result, wide)
        if not loose:
            return found
        found = found * _DIVISION_ULPS
        if kind.name != "f32":
            return found
        # div.approx.f32 gives 0 or NaN for divisors above 2^126, and flushes subnormal results.
        return np.where(np.abs(double(b)) > _LARGE_DIVISOR, np.inf, found + _SMALL_NORMAL_SINGLE)

    if loose:
        return _arithmetic(never, spread, own)
    one = one_double_quotient if kind.name == "f64" else one_quotient
    return _arithmetic(quotient_is_exact(kind), spread, own, exact_one=one)


def keep_bound(operands: tuple[Data, ...], bounds: tuple[Data, ...], result: Data) -> Data:
    """negf, absf, copysign, extf: the first operand's bound, unchanged."""
    del operands, result
    return bounds[0]


def extremum_bound(operands: tuple[Data, ...], bounds: tuple[Data, ...], result: Data) -> Data:
    """Minimum and maximum move by no more than the operand that moves most."""
    del operands, result
    if all_exact(bounds):
        return None
    found: Data = np.maximum(known(bounds[0]), known(bounds[1]))
    return found


def uncertain_where(discrete: Discrete, bound: Bound) -> Bound:
    """`bound`, but unknown (infinite) where the outcome may jump."""

    def both(operands: tuple[Data, ...], bounds: tuple[Data, ...], result: Data) -> Data:
        if all_exact(bounds):
            return bound(operands, bounds, result)
        return np.where(discrete(operands, bounds), np.inf, known(bound(operands, bounds, result)))

    return both


def narrow_bound(kind: FloatKind) -> Bound:
    """truncf to `kind`: one ulp where it rounds."""

    def exact(data: Data, result: Data) -> Data:
        return double(result) == double(data)

    def spread(data: Data, of_data: Data, *, result: Data) -> Data:
        del data, result
        return of_data

    return _arithmetic(exact, spread, _plain_ulp(kind, frozenset()))


def from_int_bound(source: IntKind, kind: FloatKind, *, signed: bool) -> Bound | None:
    """sitofp and uitofp: one ulp where the value was rounded; None when every value of the type is exact.

    The conversion is defined to the bit, but not every target rounds wide integers to f16 or bf16 once (§15).
    """
    if source.width <= kind.precision:
        return None

    def bound(operands: tuple[Data, ...], bounds: tuple[Data, ...], result: Data) -> Data:
        if not all_exact(bounds):  # an integer is certain or unknown
            return np.where(np.asarray(bounds[0]) > 0, np.inf, one_ulp(kind, result))
        size = np.abs(double(result))
        # Below 2^precision every integer is exact; a larger one is taken as rounded unless it is seen not to be.
        small = size < 2.0**kind.precision
        if np.all(small):
            return None
        value = operands[0] if signed or not is_array(operands[0]) else source.unsigned(operands[0])
        same = _equals(value if signed or is_array(value) else value & source.mask, result, source)
        clean = small | same
        return None if np.all(clean) else finish(result, 0.0, np.where(clean, 0.0, one_ulp(kind, result)))

    return bound


def _equals(value: Data, result: Data, source: IntKind) -> Data:
    if not is_array(value):
        return np.isfinite(double(result)) and int(double(result)) == value
    if source.container > 32 or not source.native:
        return np.zeros(value.shape, np.bool_)
    return value.astype(np.float64) == double(result)


# --- outcomes that jump ---------------------------------------------------------------------------------------


def compare_discrete(operands: tuple[Data, ...], bounds: tuple[Data, ...]) -> Data:
    """cmpf: uncertain where the operands are closer than their bounds."""
    spread = known(bounds[0]) + known(bounds[1])
    distance = np.abs(double(operands[0]) - double(operands[1]))
    return (np.asarray(spread) > 0) & ~(distance > spread)


def step_discrete(step: Callable[[Data], Data]) -> Discrete:
    """floor, ceil, round, fptosi …: uncertain where the two ends of the interval give different results."""

    def discrete(operands: tuple[Data, ...], bounds: tuple[Data, ...]) -> Data:
        value, spread = double(operands[0]), known(bounds[0])
        return (np.asarray(spread) > 0) & ~(step(value - spread) == step(value + spread))

    return discrete


def bits_discrete(operands: tuple[Data, ...], bounds: tuple[Data, ...]) -> Data:
    """Reading the bits of an inexact float: never certain."""
    del operands
    return np.asarray(known(bounds[0])) > 0


def sign_discrete(operands: tuple[Data, ...], bounds: tuple[Data, ...]) -> Data:
    """copysign: the sign's source may lie on the other side of zero."""
    spread = np.asarray(known(bounds[1]))
    return (spread > 0) & (spread >= np.abs(double(operands[1])))


def remainder_discrete(operands: tuple[Data, ...], bounds: tuple[Data, ...]) -> Data:
    """remf: jumps where the dividend crosses a multiple of the divisor."""
    a, b = np.abs(double(operands[0])), np.abs(double(operands[1]))
    of_a, of_b = known(bounds[0]), known(bounds[1])
    low, high = np.trunc((a - of_a) / (b + of_b)), np.trunc((a + of_a) / np.where(b > of_b, b - of_b, np.nan))
    return (np.asarray(of_a + of_b) > 0) & ~((low == high) & (a > of_a))


def remainder_bound(operands: tuple[Data, ...], bounds: tuple[Data, ...], result: Data) -> Data:
    """remf is exact; a divisor's bound counts as often as the divisor fits."""
    if all_exact(bounds):
        return None
    times = np.abs(np.trunc(double(operands[0]) / double(operands[1])))
    return finish(result, known(bounds[0]) + times * known(bounds[1]), 0.0)

"""Float rules: every operation rounded once to its own width (SEMANTICS §3), in numpy.

f16 and bf16 sums, products, quotients and roots go through float32, which rounds them correctly (24 >= 2p + 2 bits).
Where one wider step is not enough (fma, narrowing from double) the wider step rounds to *odd*, which keeps the
information that the last rounding needs.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from difftest.interpreter.numerics import FloatKind, boolean
from difftest.interpreter.rules import Data, is_array

Compute = Callable[..., Data]

_SPLITTER = 134217729.0  # 2^27 + 1: Veltkamp's constant for halves of 26 bits.
_SAFE_LOW, _SAFE_HIGH = 2.0**-450, 2.0**450
_SAFE_SUM_LOW, _SAFE_SUM_HIGH = 2.0**-900, 2.0**900


def double(data: Data) -> Data:
    """Float data of any kind as float64 (0-d for uniform data), exactly."""
    return np.asarray(data, np.float64)


def unwrap(array: Data) -> Data:
    """A 0-d array as the scalar it holds; anything else as it is."""
    return array[()] if is_array(array) and array.ndim == 0 else array


def two_sum(a: Data, b: Data) -> tuple[Data, Data]:
    """a + b rounded, and the exact error of the rounding (Knuth), as long as nothing overflows."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def two_product(a: Data, b: Data) -> tuple[Data, Data]:
    """a * b in float64, and the exact error (Dekker), as long as nothing over- or underflows."""
    scaled = _SPLITTER * a
    a_high = scaled - (scaled - a)
    a_low = a - a_high
    scaled = _SPLITTER * b
    b_high = scaled - (scaled - b)
    b_low = b - b_high
    found = a * b
    return found, ((a_high * b_high - found) + a_high * b_low + a_low * b_high) + a_low * b_low


def add_to_odd(a: Data, b: Data) -> Data:
    """a + b in float64, rounded to odd: an inexact sum gets the neighbour whose last bit is set."""
    total, error = two_sum(a, b)
    total = np.asarray(total)
    even = (total.view(np.int64) & 1) == 0
    nudged = np.nextafter(total, np.where(error > 0, np.inf, -np.inf))
    return np.where(np.isfinite(total) & (error != 0) & even, nudged, total)


def round_double(data: Data, kind: FloatKind) -> Data:
    """float64 data rounded once, to nearest even, to `kind`."""
    if kind.name == "bf16":  # ml_dtypes goes through float32, which would round twice.
        return unwrap(_to_odd_single(np.asarray(data)).astype(kind.dtype))
    return unwrap(np.asarray(data).astype(kind.dtype))


def _to_odd_single(data: Data) -> Data:
    """float64 to float32, rounded to odd."""
    single = data.astype(np.float32)
    even = (single.view(np.int32) & 1) == 0
    off = np.isfinite(single) & (single != data) & even
    overflowed = np.isinf(single) & np.isfinite(data)
    towards = np.where(data > single, np.float32(np.inf), np.float32(-np.inf)).astype(np.float32)
    return np.where(off | overflowed, np.nextafter(single, towards), single)


def convert(source: FloatKind, target: FloatKind) -> Compute:
    """extf (exact) and truncf (nearest even, overflow to infinity)."""
    if source.dtype == target.dtype:
        return _identity
    if source.name == "f64" or target.name == "bf16" or source.name == "bf16":

        def compute(data: Data) -> Data:
            return round_double(double(data), target)

        return compute

    def direct(data: Data) -> Data:
        return data.astype(target.dtype)

    return direct


def _identity(data: Data) -> Data:
    return data


def fma(kind: FloatKind) -> Compute:
    """a * b + c with one rounding."""
    if kind.name == "f64":
        return _fma_double

    def compute(a: Data, b: Data, c: Data) -> Data:
        # Products of numbers of up to 24 bits are exact in double.
        return round_double(add_to_odd(double(a) * double(b), double(c)), kind)

    return compute


def _fma_double(a: Data, b: Data, c: Data) -> Data:
    a, b, c = np.broadcast_arrays(double(a), double(b), double(c))
    found = np.array(a * b + c)  # right wherever a factor is zero or something is not finite,
    beyond = np.isinf(c) & np.isfinite(a) & np.isfinite(b)  # except that a product too large is still finite
    found = np.where(beyond, c, found)
    size_a, size_b, size_c = np.abs(a), np.abs(b), np.abs(c)
    factors = (size_a > 0) & (size_b > 0) & np.isfinite(a) & np.isfinite(b) & np.isfinite(c)
    safe = (
        ((size_c == 0) | ((size_c > _SAFE_SUM_LOW) & (size_c < _SAFE_SUM_HIGH)))
        & (size_a > _SAFE_LOW)
        & (size_a < _SAFE_HIGH)
        & (size_b > _SAFE_LOW)
        & (size_b < _SAFE_HIGH)
    )
    found = np.where(factors & safe, _fma_safe(a, b, c), found)
    for place in np.argwhere(factors & ~safe):
        where = tuple(place)
        found[where] = _fma_exact(float(a[where]), float(b[where]), float(c[where]))
    return unwrap(found)


def _fma_safe(a: Data, b: Data, c: Data) -> Data:
    """Boldo and Melquiond's emulation: the two low parts are added to odd before the last, correct rounding."""
    high, low = two_product(a, b)
    middle, rest = two_sum(c, low)
    top, carry = two_sum(high, middle)
    return top + add_to_odd(carry, rest)


def _fma_exact(a: float, b: float, c: float) -> float:
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact == 0:
        return 0.0  # x - x is +0 when rounding to nearest
    return fraction_to_double(exact)


def fraction_to_double(exact: Fraction) -> float:
    """The nearest double (ties to even), infinite beyond the range."""
    try:
        return float(exact)
    except OverflowError:
        return float("inf") if exact > 0 else float("-inf")


def extremum(name: str, kind: FloatKind) -> Compute:
    """maximumf minimumf (NaN wins, -0 < +0) and maxnumf minnumf (the number wins)."""
    if name in ("maxnumf", "minnumf"):
        ufunc = np.fmax if name == "maxnumf" else np.fmin
        return _numpy(ufunc)
    ufunc = np.maximum if name == "maximumf" else np.minimum
    # Of two zeros, numpy returns either; equal operands differ in the sign bit only, so combine the bits.
    combine = np.bitwise_and if name == "maximumf" else np.bitwise_or
    bits = np.dtype(f"i{kind.width // 8}")

    def compute(a: Data, b: Data) -> Data:
        found = ufunc(a, b)
        zero = found == 0
        if not np.any(zero):
            return found
        merged = combine(np.asarray(a, kind.dtype).view(bits), np.asarray(b, kind.dtype).view(bits)).view(kind.dtype)
        return unwrap(np.where(zero & (np.asarray(a) == np.asarray(b)), merged, found))

    return compute


def _numpy(ufunc: Callable[..., Any]) -> Compute:
    def compute(*operands: Data) -> Data:
        return ufunc(*operands)

    return compute


def _round_half_away(data: Data) -> Data:
    whole = np.trunc(data)
    away = np.copysign(np.ones_like(whole), whole) * (np.abs(data - whole) >= 0.5)
    return np.copysign((whole + away).astype(whole.dtype), data)


def _operator(name: str) -> Compute:
    """Python's operators cost a fifth of a ufunc call on numpy scalars."""
    return getattr(operator, name)


UNARY: dict[str, Compute] = {
    "negf": operator.neg,
    "absf": abs,
    "floor": _numpy(np.floor),
    "ceil": _numpy(np.ceil),
    "trunc": _numpy(np.trunc),
    "round": _round_half_away,
    "roundeven": _numpy(np.rint),
    "sqrt": _numpy(np.sqrt),
}
BINARY: dict[str, Compute] = {
    "addf": operator.add,
    "subf": operator.sub,
    "mulf": operator.mul,
    "divf": _operator("truediv"),
    "remf": _numpy(np.fmod),
    "copysign": _numpy(np.copysign),
}

PREDICATES = (
    "false",
    "oeq",
    "ogt",
    "oge",
    "olt",
    "ole",
    "one",
    "ord",
    "ueq",
    "ugt",
    "uge",
    "ult",
    "ule",
    "une",
    "uno",
    "true",
)
_ORDERED: dict[str, Callable[[Data, Data], Data]] = {
    "eq": operator.eq,
    "gt": operator.gt,
    "ge": operator.ge,
    "lt": operator.lt,
    "le": operator.le,
}
_OPPOSITE = {"gt": "le", "ge": "lt", "lt": "ge", "le": "gt"}


def _differ(a: Data, b: Data) -> Data:
    return (a < b) | (a > b)


def _ordered(a: Data, b: Data) -> Data:
    return ~(np.isnan(a) | np.isnan(b))


def _never(a: Data, b: Data) -> Data:
    return (a < b) & (a > b)  # false, in the operands' shape


def _holds(predicate: str) -> tuple[Callable[[Data, Data], Data], bool]:
    """A relation and whether it must be negated (which turns an ordered relation into an unordered one)."""
    special = {
        "false": (_never, False),
        "true": (_never, True),
        "ord": (_ordered, False),
        "uno": (_ordered, True),
        "one": (_differ, False),
        "ueq": (_differ, True),
        "une": (operator.ne, False),
        "oeq": (operator.eq, False),
    }
    if predicate in special:
        return special[predicate]
    order = predicate[1:]
    return (_ORDERED[order], False) if predicate[0] == "o" else (_ORDERED[_OPPOSITE[order]], True)


def compare(predicate: str) -> Compute:
    """cmpf; `predicate` is one of `PREDICATES`."""
    relation, negated = _holds(predicate)

    def compute(a: Data, b: Data) -> Data:
        found = relation(a, b)
        if is_array(found):
            return ~found if negated else found
        return boolean(found) != negated

    return compute


def is_normal(kind: FloatKind) -> Compute:
    """Finite, not zero, not subnormal."""
    smallest = 2.0 ** (kind.tiny_exponent + kind.precision - 1)

    def compute(data: Data) -> Data:
        size = np.abs(double(data))
        return boolean(unwrap((size >= smallest) & (size < np.inf)))

    return compute


def classify(name: str) -> Compute:
    """isnan, isinf, isfinite."""
    ufunc = {"isnan": np.isnan, "isinf": np.isinf, "isfinite": np.isfinite}[name]

    def compute(data: Data) -> Data:
        return boolean(ufunc(data))

    return compute

"""Where a float operation did not round at all: exact tests, on arrays of any float kind and on Python floats.

The functions named `one_…` take Python floats (values of the kind) and are for uniform data.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from difftest.interpreter.numerics import FloatKind
from difftest.interpreter.numerics_float import double, two_product, two_sum
from difftest.interpreter.rules import Data

_SURE_DOUBLE = 2.0**-969  # 53 bits above the smallest normal: the error of a product is a number then
_LOW_BITS = np.int64((1 << 27) - 1)


def one_sum(a: float, b: float, result: float) -> bool:
    """a + b, for every kind: the sum in double lost nothing and is the result."""
    total = a + b
    return total == result and total - a == b and total - b == a


def one_difference(a: float, b: float, result: float) -> bool:
    """a - b, for every kind."""
    return one_sum(a, -b, result)


def one_product(a: float, b: float, result: float) -> bool:
    """For the types below float64, whose products are exact in double."""
    return a * b == result


def one_double_product(a: float, b: float, result: float) -> bool:
    """a * b of float64."""
    if a == 0 or b == 0:
        return result == 0
    return abs(result) >= _SURE_DOUBLE and two_product(a, b) == (result, 0.0)


def one_quotient(a: float, b: float, result: float) -> bool:
    """a / b of the types below float64."""
    return result * b == a


def one_double_quotient(a: float, b: float, result: float) -> bool:
    """a / b of float64."""
    return one_double_product(result, b, a)


def _single(data: Data) -> Data:
    return np.asarray(data, np.float32)


def sum_is_exact(kind: FloatKind) -> Callable[[Data, Data, Data], Data]:
    """Where `result` is a + b without rounding."""

    def native(a: Data, b: Data, result: Data) -> Data:
        # The difference with the larger operand is exact, and equals the other only if nothing was lost.
        return (result - a == b) & (result - b == a)

    def narrow(a: Data, b: Data, result: Data) -> Data:
        total, error = two_sum(_single(a), _single(b))
        return (total == _single(result)) & (error == 0)

    return native if kind.width >= 32 else narrow


def _product_is_exact(a: Data, b: Data, result: Data) -> Data:
    """For 8 to 24 bit significands: their products are exact in double."""
    return double(a) * double(b) == double(result)


def _double_product_is_exact(a: Data, b: Data, result: Data) -> Data:
    """For float64: nothing lost below the last bit, nor among the subnormals (where Dekker's error is no proof)."""
    a, b, result = double(a), double(b), double(result)
    size = np.abs(result)
    if ((a.view(np.int64) | b.view(np.int64)) & _LOW_BITS).any():
        exact = two_product(a, b)[1] == 0  # NaN, hence inexact, for huge factors
    else:  # at most 26 significant bits each: the usual case, seen without Dekker's 17 operations
        exact = np.isfinite(result)
    if np.min(size, initial=np.inf) >= _SURE_DOUBLE:
        return exact
    return (exact & (size >= _SURE_DOUBLE)) | (a == 0) | (b == 0)


def product_is_exact(kind: FloatKind) -> Callable[[Data, Data, Data], Data]:
    """Where `result` is a * b without rounding."""
    return _double_product_is_exact if kind.name == "f64" else _product_is_exact


def quotient_is_exact(kind: FloatKind) -> Callable[[Data, Data, Data], Data]:
    """Where `result` is a / b without rounding."""
    product = product_is_exact(kind)

    def check(a: Data, b: Data, result: Data) -> Data:
        return product(result, b, a) & (double(result) * double(b) == double(a))

    # Below float64 the exact product in double is compared with the dividend directly.
    return check if kind.name == "f64" else _quotient_by_product


def _quotient_by_product(a: Data, b: Data, result: Data) -> Data:
    return double(result) * double(b) == double(a)


def fma_is_exact(kind: FloatKind) -> Callable[[Data, Data, Data, Data], Data]:
    """Where `result` is a * b + c without rounding; in float64 only if the product is exact too."""

    def check(a: Data, b: Data, c: Data, result: Data) -> Data:
        found = double(a) * double(b)
        total, error = two_sum(found, double(c))
        exact = (total == double(result)) & (error == 0)
        return exact & _double_product_is_exact(a, b, found) if kind.name == "f64" else exact

    return check

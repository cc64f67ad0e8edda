"""Transcendental functions: computed in double, rounded once to the type, with derivatives for the error bounds.

SEMANTICS §3: results are within an allowance (`err`), never compared bitwise; special values follow C99 Annex F, which
numpy's and Python's libm do. Each function's `slope` bounds |f'| at x (given x and f(x), as doubles) and `reach` is
how far from x twice that bound surely holds; beyond it nothing is known.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from difftest.interpreter.numerics import FloatKind
from difftest.interpreter.numerics_float import double, round_double
from difftest.interpreter.rules import Data

Compute = Callable[..., Data]


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """A function of one double. `oscillates`: its `fast` form errs absolutely, and more with |x|."""

    value: Callable[[Data], Data]
    slope: Callable[[Data, Data], Data]
    reach: Callable[[Data, Data], Data]
    oscillates: bool = False


def _python(function: Callable[[float], float]) -> Callable[[Data], Data]:
    """A function that numpy lacks, element by element."""
    ufunc: Any = np.frompyfunc(function, 1, 1)

    def value(x: Data) -> Data:
        return np.asarray(ufunc(x), np.float64)

    return value


def _always(limit: float) -> Callable[[Data, Data], Data]:
    def constant(x: Data, y: Data) -> Data:
        del x, y
        return limit

    return constant


def _quarter(distance: Callable[[Data], Data]) -> Callable[[Data, Data], Data]:
    """A quarter of the way to where the function ends."""

    def reach(x: Data, y: Data) -> Data:
        del y
        return np.maximum(distance(x), 0.0) / 4

    return reach


_LN_2, _LN_10 = math.log(2.0), math.log(10.0)
_UNIT = _always(0.25)
_ANYWHERE = _always(math.inf)
_FROM_ZERO = _quarter(np.abs)
_TO_ONE = _quarter(lambda x: 1 - np.abs(x))

FUNCTIONS: dict[str, Function] = {
    "exp": Function(value=np.exp, slope=lambda x, y: y, reach=_UNIT),
    "exp2": Function(value=np.exp2, slope=lambda x, y: y * _LN_2, reach=_UNIT),
    "expm1": Function(value=np.expm1, slope=lambda x, y: y + 1, reach=_UNIT),
    "log": Function(value=np.log, slope=lambda x, y: 1 / x, reach=_FROM_ZERO),
    "log2": Function(value=np.log2, slope=lambda x, y: 1 / (x * _LN_2), reach=_FROM_ZERO),
    "log10": Function(value=np.log10, slope=lambda x, y: 1 / (x * _LN_10), reach=_FROM_ZERO),
    "log1p": Function(value=np.log1p, slope=lambda x, y: 1 / (1 + x), reach=_quarter(lambda x: 1 + x)),
    "sin": Function(value=np.sin, slope=_always(1.0), reach=_ANYWHERE, oscillates=True),
    "cos": Function(value=np.cos, slope=_always(1.0), reach=_ANYWHERE, oscillates=True),
    "tan": Function(
        value=np.tan, slope=lambda x, y: 1 + y * y, reach=lambda x, y: 0.25 / (1 + np.abs(y)), oscillates=True
    ),
    "asin": Function(value=np.arcsin, slope=lambda x, y: 1 / np.sqrt(1 - x * x), reach=_TO_ONE),
    "acos": Function(value=np.arccos, slope=lambda x, y: 1 / np.sqrt(1 - x * x), reach=_TO_ONE),
    "atan": Function(value=np.arctan, slope=_always(1.0), reach=_ANYWHERE),
    "sinh": Function(value=np.sinh, slope=lambda x, y: np.hypot(1.0, y), reach=_UNIT),
    "cosh": Function(value=np.cosh, slope=lambda x, y: y, reach=_UNIT),
    "tanh": Function(value=np.tanh, slope=_always(1.0), reach=_ANYWHERE),
    "asinh": Function(value=np.arcsinh, slope=_always(1.0), reach=_ANYWHERE),
    "acosh": Function(value=np.arccosh, slope=lambda x, y: 1 / np.sqrt(x * x - 1), reach=_quarter(lambda x: x - 1)),
    "atanh": Function(value=np.arctanh, slope=lambda x, y: 1 / (1 - x * x), reach=_TO_ONE),
    "erf": Function(value=_python(math.erf), slope=_always(2 / math.sqrt(math.pi)), reach=_ANYWHERE),
    "erfc": Function(value=_python(math.erfc), slope=_always(2 / math.sqrt(math.pi)), reach=_ANYWHERE),
    "cbrt": Function(value=np.cbrt, slope=lambda x, y: y / (3 * x), reach=_FROM_ZERO),
    "rsqrt": Function(value=lambda x: 1 / np.sqrt(x), slope=lambda x, y: y / (2 * x), reach=_FROM_ZERO),
}


def function(name: str, kind: FloatKind) -> Compute:
    """`FUNCTIONS[name]` on data of `kind`."""
    value = FUNCTIONS[name].value

    def compute(x: Data) -> Data:
        return round_double(value(double(x)), kind)

    return compute


def power(kind: FloatKind) -> Compute:
    """powf; also fpowi, whose exponent is an integer."""

    def compute(x: Data, y: Data) -> Data:
        return round_double(np.power(double(x), double(y)), kind)

    return compute


def arc_tangent(kind: FloatKind) -> Compute:
    """atan2."""

    def compute(y: Data, x: Data) -> Data:
        return round_double(np.arctan2(double(y), double(x)), kind)

    return compute

"""Error bounds of roots and transcendental functions (SEMANTICS §3 and §12).

Allowances cover both sides: constants are folded with the host's libm, devices run libdevice or fast approximations.
Operand bounds propagate by the derivative, doubled for curvature, as far as that surely holds; beyond, unknown.
"""

from __future__ import annotations

import numpy as np

from difftest.interpreter.errors_bound import Bound, all_exact, finish, known, one_ulp
from difftest.interpreter.errors_exact import product_is_exact
from difftest.interpreter.numerics import FloatKind
from difftest.interpreter.numerics_float import double
from difftest.interpreter.numerics_math import FUNCTIONS
from difftest.interpreter.rules import Data

_ULPS = {"f16": 2.0, "bf16": 2.0, "f32": 8.0, "f64": 8.0}
_FAST_ULPS = 16.0
_FAST_ABSOLUTE = 2.0**-20
_TRIGONOMETRIC_RANGE = 4.0
_EXPONENT_RANGE = 8.0
_POWER_FACTOR = 2.0  # powf and fpowi: 16 ulp
_SMALL_NORMAL_SINGLE = 2.0**-126
_CURVATURE = 2.0
_EXPONENTIAL = frozenset({"exp", "exp2", "expm1", "sinh", "cosh", "tanh"})


def allowance(kind: FloatKind, result: Data, *, factor: float = 1.0) -> Data:
    """What two correct implementations may differ by, flushed subnormals included."""
    absolute = _SMALL_NORMAL_SINGLE if kind.width <= 32 else kind.tiny
    return one_ulp(kind, result) * (_ULPS[kind.name] * factor) + absolute


def _fast(name: str, kind: FloatKind, x: Data, result: Data) -> Data:
    """`__nv_fast_*`: absolute error for sines, relative error growing with |x| for exponentials; f64 has none."""
    if name in _EXPONENTIAL:
        scale = np.maximum(1.0, np.abs(x) / _EXPONENT_RANGE)
    else:
        scale = np.maximum(1.0, np.abs(x) / _TRIGONOMETRIC_RANGE) if FUNCTIONS[name].oscillates else 1.0
    reached = np.maximum(one_ulp(kind, result) * _FAST_ULPS, _FAST_ABSOLUTE) * scale
    if name == "tan":  # a quotient of two fast results, each with an absolute error
        reached = reached * (1 + np.square(double(result)))
    return reached


def _through_slope(bound: Data, slope: Data, reach: Data) -> Data:
    """An operand bound seen through a derivative."""
    moved = _CURVATURE * np.abs(slope) * bound
    return np.where(np.asarray(bound) == 0, 0.0, np.where(bound <= reach, moved, np.inf))


def function_bound(name: str, kind: FloatKind, flags: frozenset[str]) -> Bound:
    """One-operand transcendental functions."""
    what = FUNCTIONS[name]

    def bound(operands: tuple[Data, ...], bounds: tuple[Data, ...], result: Data) -> Data:
        x, y = double(operands[0]), double(result)
        own = allowance(kind, result)
        if "afn" in flags and kind.name != "f64":
            own = np.maximum(own, _fast(name, kind, x, result))
        if all_exact(bounds):
            return finish(result, 0.0, own)
        return finish(result, _through_slope(bounds[0], what.slope(x, y), what.reach(x, y)), own)

    return bound


def root_bound(kind: FloatKind, flags: frozenset[str]) -> Bound:
    """sqrt: exact roots stay exact in f64; in f32 (and what is computed through it) 2 ulp, perfect squares too."""
    strict = kind.name == "f64" and "afn" not in flags
    product = product_is_exact(kind)

    def bound(operands: tuple[Data, ...], bounds: tuple[Data, ...], result: Data) -> Data:
        x, root = double(operands[0]), double(result)
        exact = (product(result, result, operands[0]) & (root * root == x)) if strict else x == 0
        if all_exact(bounds):
            if np.all(exact):
                return None
            return finish(result, 0.0, np.where(exact, 0.0, one_ulp(kind, result) * (1 if strict else 2)))
        spread = bounds[0]
        # sqrt(x) - sqrt(x - e) = e / (sqrt(x) + sqrt(x - e)), and the other side is nearer.
        moved = np.where(np.asarray(spread) == 0, 0.0, np.where(spread < x, spread / root, np.inf))
        clean = exact & (np.asarray(spread) == 0)
        return finish(result, moved, np.where(clean, 0.0, one_ulp(kind, result, moved) * (1 if strict else 2)))

    return bound


def power_bound(kind: FloatKind, flags: frozenset[str]) -> Bound:
    """powf and fpowi: f' = y x^(y-1) and x^y ln x. An integer exponent is certain or unknown."""

    def bound(operands: tuple[Data, ...], bounds: tuple[Data, ...], result: Data) -> Data:
        x, y, found = double(operands[0]), double(operands[1]), double(result)
        own = allowance(kind, result, factor=_POWER_FACTOR)
        if "afn" in flags and kind.name != "f64":
            own = np.maximum(own, one_ulp(kind, result) * _FAST_ULPS * np.maximum(1.0, np.abs(y * np.log2(np.abs(x)))))
        if all_exact(bounds):
            return finish(result, 0.0, own)
        by_x = _through_slope(known(bounds[0]), y * found / x, np.abs(x) / (4 * np.maximum(1.0, np.abs(y))))
        log = np.log(np.abs(x))
        by_y = _through_slope(known(bounds[1]), found * log, 0.25 / np.maximum(1.0, np.abs(log)))
        return finish(result, by_x + by_y, own)

    return bound


def arc_tangent_bound(kind: FloatKind) -> Bound:
    """atan2(a, b): gradient (b, -a) / (a^2 + b^2); unknown near the origin and across the cut at -pi."""

    def bound(operands: tuple[Data, ...], bounds: tuple[Data, ...], result: Data) -> Data:
        own = allowance(kind, result)
        if all_exact(bounds):
            return finish(result, 0.0, own)
        a, b = double(operands[0]), double(operands[1])
        spread = known(bounds[0]) + known(bounds[1])
        cut = (b - spread <= 0) & (np.abs(a) <= spread)
        reach = np.where(cut, 0.0, np.hypot(a, b) / 4)
        return finish(result, _through_slope(spread, 1 / np.hypot(a, b), reach), own)

    return bound

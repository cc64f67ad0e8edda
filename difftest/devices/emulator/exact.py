"""Correctly rounded float building blocks in numpy: fused multiply-add, directed rounding, narrow formats.

Methods: error-free transforms (Dekker, Knuth) and rounding to odd (Boldo and Melquiond, "Emulation of a FMA and
correctly rounded sums"). Operands whose exponents could over- or underflow on the way are done one by one with exact
integers.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

from difftest.devices.emulator.typed import np

F32, F64 = np.dtype("f4"), np.dtype("f8")
_SPLIT = float(2**27 + 1)


def two_sum(a: Any, b: Any) -> tuple[Any, Any]:
    """a + b rounded, and the exact error of that."""
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def _two_product(a: Any, b: Any) -> tuple[Any, Any]:
    p = a * b
    x = a * _SPLIT
    ah = x - (x - a)
    al = a - ah
    y = b * _SPLIT
    bh = y - (y - b)
    bl = b - bh
    return p, ((ah * bh - p) + ah * bl + al * bh) + al * bl


def to_odd(s: Any, error: Any) -> Any:
    """The f64 `s`, which stands for s + error, rounded to odd: when inexact, the neighbour with an odd last bit."""
    bits = np.ascontiguousarray(s).view(np.int64)
    inexact = (error != 0) & np.isfinite(s) & ((bits & 1) == 0)
    if not inexact.any():
        return s
    # Away from zero when the error has the sign of s.
    step = np.where((error > 0) == (s > 0), 1, -1)
    zero = s == 0
    moved = np.where(zero, np.copysign(5e-324, error), (bits + step).view(F64))
    return np.where(inexact, moved, s)


def _exponent(a: Any) -> Any:
    return (np.ascontiguousarray(a).view(np.int64) >> 52) & 0x7FF


def fma64(a: Any, b: Any, c: Any) -> Any:
    """a * b + c with one rounding, f64 (IEEE 754 fusedMultiplyAdd)."""
    a, b, c = np.broadcast_arrays(a, b, c)
    ea, eb, ec = _exponent(a), _exponent(b), _exponent(c)
    total = ea + eb
    safe = (total > 1023 + 160) & (total < 1023 + 1900) & (ea < 1900) & (eb < 1900) & (ec < 1990) & (ec > 160)
    uh, ul = _two_product(a, b)
    th, tl = two_sum(c, ul)
    vh, vl = two_sum(uh, th)
    found = vh + to_odd(*two_sum(tl, vl))
    if safe.all():
        return found
    exact = (a * b == 0) | (c == 0) | ~np.isfinite(a) | ~np.isfinite(b) | ~np.isfinite(c)
    # Products and sums with a zero or non-finite operand need no care beyond underflow of the product.
    # A finite product is less than an infinity, even when it overflows by itself.
    plain = np.where(np.isinf(c) & np.isfinite(a) & np.isfinite(b), c, a * b + c)
    trivial = ((a == 0) | (b == 0) | ~np.isfinite(a) | ~np.isfinite(b) | ~np.isfinite(c)) & exact
    found = np.array(np.where(safe, found, plain))
    for at in np.flatnonzero(~safe & ~trivial):
        found.flat[at] = _fma_one(float(a.flat[at]), float(b.flat[at]), float(c.flat[at]))
    return found


def _fma_one(a: float, b: float, c: float) -> float:
    value = Fraction(a) * Fraction(b) + Fraction(c)
    if value == 0:
        return a * b + c if c == 0 and (a == 0 or b == 0) else 0.0
    try:
        return value.numerator / value.denominator
    except OverflowError:
        return math.copysign(math.inf, value)


def fma_odd(a: Any, b: Any, c: Any) -> Any:
    """f32 (or narrower) operands, widened: a * b + c as an f64 rounded to odd, so that rounding it again is right."""
    return to_odd(*two_sum(a * b, c))


def fma32(a: Any, b: Any, c: Any) -> Any:
    """a * b + c with one rounding, f32."""
    return fma_odd(a.astype(F64), b.astype(F64), c.astype(F64)).astype(F32)


# --- directed rounding ------------------------------------------------------------------------------------------


def directed(nearest: Any, error: Any, mode: str) -> Any:
    """A result rounded to nearest, moved for mode rz, rm or rp; `error` has the sign of exact minus nearest."""
    dtype = nearest.dtype.type
    # Overflow to infinity in nearest mode: the largest number when rounding goes the other way.
    down = {"rm": error < 0, "rp": np.zeros(nearest.shape, bool), "rz": (error < 0) & (nearest > 0)}[mode]
    up = {"rp": error > 0, "rm": np.zeros(nearest.shape, bool), "rz": (error > 0) & (nearest < 0)}[mode]
    found = np.where(down, np.nextafter(nearest, dtype(-np.inf)), nearest)
    return np.where(up, np.nextafter(nearest, dtype(np.inf)), found)


def _sign(value: Any) -> Any:
    return np.where(np.isnan(value), 0, np.sign(value))


def error_of(name: str, args: tuple[Any, ...], nearest: Any) -> Any:
    """The sign of (exact result - `nearest`) of add, sub, mul, div, rcp, sqrt or fma; 0 where exact or not finite."""
    if nearest.dtype == F64:
        error = _error64(name, args, nearest)
    else:
        wide = tuple(a.astype(F64) for a in args)
        error = _error32(name, wide, nearest.astype(F64))
    operands_finite = np.logical_and.reduce([np.isfinite(a) for a in np.broadcast_arrays(*args)])
    infinite = np.isinf(nearest) & operands_finite & (name not in {"div", "rcp"} or args[-1] != 0)
    error = np.where(np.isfinite(nearest), _sign(error), 0)
    return np.where(infinite, -np.sign(nearest), error)


def _error64(name: str, args: tuple[Any, ...], r: Any) -> Any:
    if name in {"add", "sub"}:
        return two_sum(args[0], args[1] if name == "add" else -args[1])[1]
    if name == "mul":
        return fma64(args[0], args[1], -r)
    if name in {"div", "rcp"}:
        a, b = args if name == "div" else (np.ones_like(args[0]), args[0])
        return fma64(-r, b, a) * np.sign(b)
    if name == "sqrt":
        return fma64(-r, r, args[0])
    a, b, c = args
    return _fma_error(a, b, c, r)


def _fma_error(a: Any, b: Any, c: Any, r: Any) -> Any:
    a, b, c, r = np.broadcast_arrays(a, b, c, r)
    found = np.zeros(r.shape)
    for at in np.flatnonzero(np.isfinite(a) & np.isfinite(b) & np.isfinite(c) & np.isfinite(r)):
        x, y, z, w = (Fraction(float(v.flat[at])) for v in (a, b, c, r))
        difference = x * y + z - w
        found.flat[at] = (difference > 0) - (difference < 0)
    return found


def _error32(name: str, args: tuple[Any, ...], r: Any) -> Any:
    if name in {"add", "sub"}:
        s, e = two_sum(args[0], args[1] if name == "add" else -args[1])
        return np.where(s == r, e, s - r)
    if name == "mul":
        return args[0] * args[1] - r
    if name in {"div", "rcp"}:
        a, b = args if name == "div" else (np.ones_like(args[0]), args[0])
        return (a - r * b) * np.sign(b)
    if name == "sqrt":
        return args[0] - r * r
    return fma_odd(*args) - r


# --- narrow formats ---------------------------------------------------------------------------------------------


def narrow_odd(a: Any) -> Any:
    """f64 -> f32 rounded to odd: rounding the result again, to 16 bits, is right."""
    r = a.astype(F32)
    error = a - r.astype(F64)
    bits = np.ascontiguousarray(r).view(np.int32)
    # An overflow means: beyond the largest number, which is odd already.
    over = np.isinf(r) & np.isfinite(a)
    r = np.where(over, np.copysign(np.float32(3.4028235e38), a.astype(F32)), r)
    inexact = (error != 0) & ~np.isnan(error) & ~over & ((bits & 1) == 0)
    away = (error > 0) == (a > 0)
    tiny = np.where(
        r == 0,
        np.copysign(np.float32(1e-45), a.astype(F32)),
        (bits + np.where(away, np.int32(1), np.int32(-1))).view(F32),
    )
    return np.where(inexact, tiny, r).astype(F32)


def from_bf16(bits: Any) -> Any:
    """bf16 bits (uint16) as f32."""
    return (bits.astype(np.uint32) << np.uint32(16)).view(F32)


def to_bf16(a: Any, mode: str = "rn") -> Any:
    """f32 as bf16 bits (uint16), to nearest even or towards zero; a NaN stays one."""
    bits = np.ascontiguousarray(a, F32).view(np.uint32)
    if mode == "rz":
        found = bits >> np.uint32(16)
    else:
        found = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
    return np.where(np.isnan(a), np.uint32(0x7FFF), found).astype(np.uint16)


def flush(a: Any) -> Any:
    """Subnormal f32 to zeros of their sign (.ftz)."""
    small = np.abs(a) < np.float32(1.1754943508222875e-38)
    return np.where(small, np.copysign(np.float32(0), a), a) if small.any() else a

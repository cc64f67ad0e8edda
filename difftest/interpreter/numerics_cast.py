"""Conversions between integer kinds and between integers and floats, and reading bits as another type."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from difftest.interpreter.numerics import FloatKind, IntKind, Kind, Result, lift
from difftest.interpreter.numerics_float import double, round_double
from difftest.interpreter.rules import Data, is_array

Compute = Callable[..., Data]

_EXACT = 1 << 53
_STICKY_BITS = 50


def resize(source: IntKind, target: IntKind, *, signed: bool) -> Compute:
    """Sign- or zero-extend, or truncate."""

    def scalar(value: int) -> int:
        return value if signed else value & source.mask

    def array(data: Data) -> Data:
        found = source.array(data) if signed else source.unsigned(data)
        if target.width == 1:
            return (found & found.dtype.type(1)).astype(np.bool_)
        return target.settle(found.astype(target.dtype))

    return lift(scalar, array, operand=source, result=target)


def outside(source: IntKind, target: IntKind, *, signed: bool) -> Compute:
    """Whether truncating from `source` to the narrower `target` changes the value, read signed or unsigned."""
    there = resize(source, target, signed=signed)
    back = resize(target, source, signed=signed)

    def array(data: Data) -> Data:
        return back(there(data)) != data

    def scalar(value: int) -> bool:
        return not target.low <= value <= target.high if signed else value & source.mask > target.mask

    return lift(scalar, array, operand=source, result=Result.BOOL)


def is_negative(source: IntKind) -> Compute:
    """Whether the sign bit is set."""

    def array(data: Data) -> Data:
        return source.array(data) < 0

    def scalar(value: int) -> bool:
        return value < 0

    return lift(scalar, array, operand=source, result=Result.BOOL)


def from_int(source: IntKind, target: FloatKind, *, signed: bool) -> Compute:
    """sitofp and uitofp, with one rounding to nearest even."""
    if source.width == 1:
        values = [target.dtype.type(0), target.dtype.type(-1 if signed else 1)]
        table = np.array(values, target.dtype)

        def choose(data: Data) -> Data:
            return table[np.asarray(data, np.intp)] if is_array(data) else values[bool(data)]

        return choose
    one = _round_int(source, target, signed=signed)

    def array(data: Data) -> Data:
        found = source.array(data) if signed else source.unsigned(data)
        if source.container < 64 or target.name == "f16":  # beyond 2^53 every f16 is infinite
            return round_double(found.astype(np.float64), target)
        if target.name == "bf16":
            return round_double(_keep_sticky(found).astype(np.float64), target)
        return found.astype(target.dtype)

    wide: Compute = np.frompyfunc(one, 1, 1)

    def compute(data: Data) -> Data:
        if not is_array(data):
            return one(int(data))
        return array(data) if source.native else wide(data).astype(target.dtype)

    return compute


def _keep_sticky(found: Data) -> Data:
    """64-bit integers with their last 12 bits folded into bit 11 where a double could not hold them anyway."""
    low: Data = found.dtype.type(0xFFF)
    tail: Data = found & low
    folded: NDArray[Any] = (found ^ tail) | ((tail != 0).astype(found.dtype) << 11)
    return np.where(np.abs(found.astype(np.float64)) < _EXACT, found, folded)


def _round_int(source: IntKind, target: FloatKind, *, signed: bool) -> Callable[[int], Data]:
    def one(value: int) -> Data:
        value = value if signed else value & source.mask
        if -_EXACT <= value <= _EXACT:
            return round_double(np.float64(value), target)
        if target.name == "f64":
            return np.float64(_to_double(value))
        # Fold the tail into one sticky bit below the 50 leading ones: enough for 24 bits, and exact in a double.
        size = abs(value)
        drop = size.bit_length() - _STICKY_BITS
        kept = (size >> drop << 1) | int(size & ((1 << drop) - 1) != 0)
        return round_double(
            np.float64(math.copysign(_scale(float(kept), drop - 1), -1.0 if value < 0 else 1.0)), target
        )

    return one


def _to_double(value: int) -> float:
    try:
        return float(value)
    except OverflowError:
        return -math.inf if value < 0 else math.inf


def _scale(value: float, exponent: int) -> float:
    try:
        return math.ldexp(value, exponent)
    except OverflowError:
        return math.inf


def _range(target: IntKind, *, signed: bool) -> tuple[float, float]:
    """The truncated values an integer kind holds, as a half-open interval of doubles."""
    if signed:
        return -_scale(1.0, target.width - 1), _scale(1.0, target.width - 1)
    return 0.0, _scale(1.0, target.width)


def to_int(target: IntKind, *, signed: bool) -> Compute:
    """fptosi and fptoui: towards zero; 0 where the result does not fit (poison)."""
    low, high = _range(target, signed=signed)

    def one(value: float) -> Data:
        return target.canonical(int(value)) if low <= value + 0.0 < high else 0

    wide: Compute = np.frompyfunc(one, 1, 1)

    def compute(data: Data) -> Data:
        whole = np.trunc(double(data))
        if not is_array(data):
            return target.canonical(int(one(float(whole))))
        if not target.native:
            return wide(whole).astype(target.dtype)
        fits = np.where((whole >= low) & (whole < high), whole, 0.0)
        return target.settle(fits.astype(np.int64 if signed else np.uint64).astype(target.dtype))

    return compute


def does_not_fit(target: IntKind, *, signed: bool) -> Compute:
    """Where fptosi/fptoui gives poison: NaN, infinite, or truncated value outside the type."""
    low, high = _range(target, signed=signed)

    def check(data: Data) -> Data:
        whole = np.trunc(double(data))
        found = ~((whole >= low) & (whole < high))
        return found if is_array(data) else bool(found)

    return check


def reinterpret(source: Kind, target: Kind) -> Compute | None:
    """The same bits as another type of the same width; None when the widths differ or the kind has no plain bits."""
    if source.width != target.width or _is_index(source) or _is_index(target):
        return None
    if isinstance(source, IntKind) and isinstance(target, IntKind):
        return _same
    if isinstance(source, IntKind) and (not source.native or source.shift):
        return None

    def compute(data: Data) -> Data:
        found = np.asarray(data, source.dtype).view(target.dtype)
        if is_array(data):
            return found
        return int(found) if isinstance(target, IntKind) else found[()]

    return compute


def _is_index(kind: Kind) -> bool:
    return isinstance(kind, IntKind) and kind.index


def _same(data: Data) -> Data:
    return data


def choose(kind: Kind) -> Compute:
    """arith.select: a uniform or per-lane condition over scalars or whole vectors."""

    def compute(condition: Data, a: Data, b: Data) -> Data:
        if not is_array(condition):
            return a if condition else b
        left, right = np.asarray(a, kind.dtype), np.asarray(b, kind.dtype)
        rank = max(left.ndim, right.ndim)
        if condition.ndim < rank:
            condition = condition.reshape(condition.shape + (1,) * (rank - condition.ndim))
        return np.where(condition, left, right)

    return compute

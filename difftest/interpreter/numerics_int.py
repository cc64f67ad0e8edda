"""Integer rules as pairs (mathematics on Python ints, the same on native numpy arrays), for every width.

SEMANTICS §2 is the authority: two's complement, modulo 2^n, broken flags are poison. Where an op is undefined or poison
both functions still return one fixed value (0 after a division by 0; what the mathematics of an infinitely wide
shift gives), so that schedules agree.
"""

from __future__ import annotations

import operator
from collections.abc import Callable

import numpy as np

from difftest.interpreter.numerics import IntKind, Result, boolean, lift
from difftest.interpreter.rules import Data

Compute = Callable[..., Data]
Pair = tuple[Callable[..., int], Callable[..., Data]]


def wrapping(kind: IntKind, op: Callable[[Data, Data], Data], bit_op: Callable[[Data, Data], Data]) -> Compute:
    """`op` (+, -, *) modulo 2^n; `bit_op` is what it amounts to on single bits. This is the interpreter's hot path."""
    if kind.width == 1:
        return bit_op
    low, high, mask, shift = kind.low, kind.high, kind.mask, kind.shift

    def compute(a: Data, b: Data) -> Data:
        found = op(a, b)
        if type(found) is int:
            return found if low <= found <= high else ((found - low) & mask) + low
        return found

    def narrow(a: Data, b: Data) -> Data:
        found = op(a, b)
        if type(found) is int:
            return found if low <= found <= high else ((found - low) & mask) + low
        return (found << shift) >> shift

    def wide(a: Data, b: Data) -> Data:
        return kind.wrap(op(a, b))

    if not kind.native:
        return wide
    return narrow if shift else compute


def _divs(kind: IntKind) -> Pair:
    def scalar(a: int, b: int) -> int:
        if b == 0:
            return 0
        found = abs(a) // abs(b)
        return found if (a < 0) == (b < 0) else -found

    def array(a: Data, b: Data) -> Data:
        a, b = kind.array(a), kind.array(b)
        return kind.settle((a - np.fmod(a, b)) // b)

    return scalar, array


def _divu(kind: IntKind) -> Pair:
    def scalar(a: int, b: int) -> int:
        return (a & kind.mask) // (b & kind.mask) if b else 0

    def array(a: Data, b: Data) -> Data:
        return kind.from_unsigned(kind.unsigned(a) // kind.unsigned(b))

    return scalar, array


def _floordivs(kind: IntKind) -> Pair:
    def scalar(a: int, b: int) -> int:
        return a // b if b else 0

    def array(a: Data, b: Data) -> Data:
        return kind.settle(np.floor_divide(kind.array(a), kind.array(b)))

    return scalar, array


def _ceildivs(kind: IntKind) -> Pair:
    def scalar(a: int, b: int) -> int:
        return -(-a // b) if b else 0

    def array(a: Data, b: Data) -> Data:
        # Not -(-a // b): -INT_MIN does not exist.
        a, b = kind.array(a), kind.array(b)
        return kind.settle(np.floor_divide(a, b) + (np.fmod(a, b) != 0))

    return scalar, array


def _ceildivu(kind: IntKind) -> Pair:
    def scalar(a: int, b: int) -> int:
        return -(-(a & kind.mask) // (b & kind.mask)) if b else 0

    def array(a: Data, b: Data) -> Data:
        left, right = kind.unsigned(a), kind.unsigned(b)
        return kind.from_unsigned(left // right + (left % right != 0))

    return scalar, array


def _rems(kind: IntKind) -> Pair:
    def scalar(a: int, b: int) -> int:
        if b == 0:
            return 0
        found = abs(a) % abs(b)
        return -found if a < 0 else found

    def array(a: Data, b: Data) -> Data:
        return np.fmod(kind.array(a), kind.array(b))

    return scalar, array


def _remu(kind: IntKind) -> Pair:
    def scalar(a: int, b: int) -> int:
        return (a & kind.mask) % (b & kind.mask) if b else 0

    def array(a: Data, b: Data) -> Data:
        return kind.from_unsigned(kind.unsigned(a) % kind.unsigned(b))

    return scalar, array


def _shl(kind: IntKind) -> Pair:
    def scalar(a: int, b: int) -> int:
        amount = b & kind.mask
        return a << amount if amount < kind.width else 0

    def array(a: Data, b: Data) -> Data:
        # numpy defines shifts by amounts outside the container: 0, or the sign for >>.
        return kind.settle(np.left_shift(kind.array(a), b))

    return scalar, array


def _quick_shift(kind: IntKind) -> Compute:
    """`_shl` for native kinds without the cost of `lift` on uniform operands."""
    low, high, mask, width = kind.low, kind.high, kind.mask, kind.width
    array = _shl(kind)[1]

    def compute(a: Data, b: Data) -> Data:
        if type(a) is int and type(b) is int:
            found = a << b if 0 <= b < width else 0
            return found if low <= found <= high else ((found - low) & mask) + low
        return array(a, b)

    return compute


def _shrs(kind: IntKind) -> Pair:
    def scalar(a: int, b: int) -> int:
        return a >> min(b & kind.mask, kind.width)

    def array(a: Data, b: Data) -> Data:
        return np.right_shift(kind.array(a), b)

    return scalar, array


def _shru(kind: IntKind) -> Pair:
    def scalar(a: int, b: int) -> int:
        return (a & kind.mask) >> min(b & kind.mask, kind.width)

    def array(a: Data, b: Data) -> Data:
        return kind.from_unsigned(kind.unsigned(a) >> kind.ordered(b))

    return scalar, array


def _mins(kind: IntKind) -> Pair:
    def array(a: Data, b: Data) -> Data:
        return np.minimum(kind.array(a), kind.array(b))

    return min, array


def _maxs(kind: IntKind) -> Pair:
    def array(a: Data, b: Data) -> Data:
        return np.maximum(kind.array(a), kind.array(b))

    return max, array


def _minu(kind: IntKind) -> Pair:
    def scalar(a: int, b: int) -> int:
        return a if a & kind.mask <= b & kind.mask else b

    def array(a: Data, b: Data) -> Data:
        return np.minimum(kind.ordered(a), kind.ordered(b)).view(kind.dtype)

    return scalar, array


def _maxu(kind: IntKind) -> Pair:
    def scalar(a: int, b: int) -> int:
        return a if a & kind.mask >= b & kind.mask else b

    def array(a: Data, b: Data) -> Data:
        return np.maximum(kind.ordered(a), kind.ordered(b)).view(kind.dtype)

    return scalar, array


def _pow(kind: IntKind) -> Pair:
    def scalar(a: int, b: int) -> int:
        if b >= 0:
            return pow(a, b, kind.mask + 1)
        if a == -1:
            return -1 if b & 1 else 1
        return int(a == 1)

    def array(a: Data, b: Data) -> Data:
        base, exponent = np.broadcast_arrays(kind.array(a), kind.array(b))
        found = np.ones_like(base)
        square, left = base, np.maximum(exponent, 0)
        while left.any():
            found = np.where(left & 1, found * square, found)
            square, left = square * square, left >> 1
        sign = np.where(exponent & 1, base, base * base)
        negative = np.where(np.abs(base) == 1, sign, 0)
        return kind.settle(np.where(exponent >= 0, found, negative))

    return scalar, array


_PAIRS: dict[str, Callable[[IntKind], Pair]] = {
    "divs": _divs,
    "divu": _divu,
    "floordivs": _floordivs,
    "ceildivs": _ceildivs,
    "ceildivu": _ceildivu,
    "rems": _rems,
    "remu": _remu,
    "shl": _shl,
    "shrs": _shrs,
    "shru": _shru,
    "mins": _mins,
    "maxs": _maxs,
    "minu": _minu,
    "maxu": _maxu,
    "pow": _pow,
}


def _operator(name: str) -> Callable[[Data, Data], Data]:
    return getattr(operator, name)


_WRAPPING: dict[str, tuple[Callable[[Data, Data], Data], Callable[[Data, Data], Data]]] = {
    "add": (_operator("add"), _operator("xor")),
    "sub": (_operator("sub"), _operator("xor")),
    "mul": (_operator("mul"), _operator("and_")),
}
_BITWISE: dict[str, Callable[[Data, Data], Data]] = {
    "and": _operator("and_"),
    "or": _operator("or_"),
    "xor": _operator("xor"),
}
BINARY = (*_WRAPPING, *_BITWISE, *_PAIRS)


def binary(name: str, kind: IntKind) -> Compute:
    """The result of a two-operand op of one type; `name` is one of `BINARY`."""
    if name in _WRAPPING:
        return wrapping(kind, *_WRAPPING[name])
    if name in _BITWISE:
        return _BITWISE[name]
    if name == "shl" and kind.native:
        return _quick_shift(kind)
    scalar, array = _PAIRS[name](kind)
    return lift(scalar, array, operand=kind, result=kind)


def _high_product(kind: IntKind, *, signed: bool) -> Pair:
    """Bits n to 2n-1 of the product."""

    def scalar(a: int, b: int) -> int:
        return (a * b if signed else (a & kind.mask) * (b & kind.mask)) >> kind.width

    def narrow(a: Data, b: Data) -> Data:
        view = kind.array if signed else kind.unsigned
        wide = np.int64 if signed else np.uint64
        return kind.settle(((view(a).astype(wide) * view(b).astype(wide)) >> wide(kind.width)).astype(kind.dtype))

    def array(a: Data, b: Data) -> Data:
        left, right = (kind.ordered(a), kind.ordered(b)) if signed else (kind.unsigned(a), kind.unsigned(b))
        high, low = multiply_64(left, right)
        if signed:  # As unsigned numbers both operands stand 2^64 too high where they are negative.
            high = high - np.where(kind.array(a) < 0, right, 0) - np.where(kind.array(b) < 0, left, 0)
        if kind.shift:
            high = (high << np.uint64(kind.shift)) | (low >> np.uint64(kind.width))
        return kind.from_unsigned(high)

    return scalar, array if kind.container == 64 else narrow


def multiply_64(a: Data, b: Data) -> tuple[Data, Data]:
    """The 128-bit products of uint64 arrays as (high, low), by 32-bit limbs."""
    half, mask = np.uint64(32), np.uint64(0xFFFFFFFF)
    a0, a1, b0, b1 = a & mask, a >> half, b & mask, b >> half
    mid = a1 * b0 + (a0 * b0 >> half)
    cross = a0 * b1 + (mid & mask)
    return a1 * b1 + (mid >> half) + (cross >> half), a * b


def extended_product(kind: IntKind, *, signed: bool) -> Compute:
    """(low, high) halves of the double-width product."""
    low = binary("mul", kind)
    scalar, array = _high_product(kind, signed=signed)
    high = lift(scalar, array, operand=kind, result=kind)

    def compute(a: Data, b: Data) -> Data:
        return low(a, b), high(a, b)

    return compute


def extended_sum(kind: IntKind) -> Compute:
    """(sum, carry) of an unsigned addition."""
    add = binary("add", kind)

    def scalar(a: int, b: int) -> bool:
        return (a & kind.mask) + (b & kind.mask) > kind.mask

    def array(a: Data, b: Data) -> Data:
        return kind.ordered(add(a, b)) < kind.ordered(a)

    carry = lift(scalar, array, operand=kind, result=Result.BOOL)

    def compute(a: Data, b: Data) -> Data:
        return add(a, b), carry(a, b)

    return compute


PREDICATES = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")
_OPERATORS: dict[str, Callable[[Data, Data], Data]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}
_MIRRORED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}


def compare(predicate: str, kind: IntKind) -> Compute:
    """Integer comparison; `predicate` is one of `PREDICATES`."""
    if predicate in ("eq", "ne"):
        return _OPERATORS[predicate]
    signed, order = predicate[0] == "s", predicate[1:]
    if kind.width == 1:  # A set bit is -1 to a signed predicate and 1 to an unsigned one.
        return _OPERATORS[_MIRRORED[order] if signed else order]
    relation = _OPERATORS[order]
    if signed:
        return relation

    def scalar(a: int, b: int) -> bool:
        return relation(a & kind.mask, b & kind.mask)

    def array(a: Data, b: Data) -> Data:
        return boolean(relation(kind.ordered(a), kind.ordered(b)))

    return lift(scalar, array, operand=kind, result=Result.BOOL)

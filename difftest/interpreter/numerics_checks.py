"""Promises integer ops can break: overflow flags, shift amounts, exactness, divisors, the index width.

Each check maps operands to where the promise named in its key is broken (SEMANTICS §2, §4; stable names).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from difftest.interpreter import numerics_int
from difftest.interpreter.numerics import IntKind, Result, lift
from difftest.interpreter.rules import Data, ElementwiseRule, is_array

Check = Callable[..., Data]

FLAG_POISON = ("nsw", "nuw", "exact", "disjoint")
_INDEX_LOW, _INDEX_HIGH = -(1 << 31), (1 << 31) - 1
_FAR = 2.0**62


def _lift(kind: IntKind, scalar: Callable[[Data, Data], bool], array: Callable[..., Data]) -> Check:
    return lift(scalar, array, operand=kind, result=Result.BOOL)


def _add_nsw(kind: IntKind) -> Check:
    def array(a: Data, b: Data) -> Data:
        found = kind.settle(kind.array(a) + b)
        return ((a ^ found) & (b ^ found)) < 0

    return _lift(kind, lambda a, b: not kind.low <= a + b <= kind.high, array)


def _add_nuw(kind: IntKind) -> Check:
    def array(a: Data, b: Data) -> Data:
        left = kind.array(a)
        return kind.ordered(kind.settle(left + b)) < kind.ordered(left)

    return _lift(kind, lambda a, b: (a & kind.mask) + (b & kind.mask) > kind.mask, array)


def _sub_nsw(kind: IntKind) -> Check:
    def array(a: Data, b: Data) -> Data:
        found = kind.settle(kind.array(a) - b)
        return ((a ^ b) & (a ^ found)) < 0

    return _lift(kind, lambda a, b: not kind.low <= a - b <= kind.high, array)


def _sub_nuw(kind: IntKind) -> Check:
    def array(a: Data, b: Data) -> Data:
        return kind.ordered(a) < kind.ordered(b)

    return _lift(kind, lambda a, b: a & kind.mask < b & kind.mask, array)


def _far_off(a: Data, b: Data, found: Data) -> Data:
    """Whether the 64-bit product `found` of 64-bit arrays wrapped, by comparing with the product in floats.

    A wrap moves it by at least 2^64; below 2^66 the float product errs by less than 2^17, and above it the true
    product is further than 2^62 from any 64-bit number.
    """
    return np.abs(a.astype(np.float64) * b.astype(np.float64) - found.astype(np.float64)) > _FAR


def _mul_nsw(kind: IntKind) -> Check:
    def narrow(a: Data, b: Data) -> Data:
        found = kind.array(a).astype(np.int64) * kind.array(b).astype(np.int64)
        return (found > kind.high) | (found < kind.low)

    def array(a: Data, b: Data) -> Data:
        a, b = kind.array(a), kind.array(b)
        found = a * b
        wrapped = _far_off(a, b, found)
        return wrapped | (kind.settle(found) != found) if kind.shift else wrapped

    def scalar(a: int, b: int) -> bool:
        return not kind.low <= a * b <= kind.high

    return _lift(kind, scalar, array if kind.container == 64 else narrow)


def _mul_nuw(kind: IntKind) -> Check:
    def narrow(a: Data, b: Data) -> Data:
        return kind.unsigned(a).astype(np.uint64) * kind.unsigned(b).astype(np.uint64) > kind.mask

    def array(a: Data, b: Data) -> Data:
        a, b = kind.unsigned(a), kind.unsigned(b)
        found = a * b
        return _far_off(a, b, found) | (found > kind.mask)

    def scalar(a: int, b: int) -> bool:
        return (a & kind.mask) * (b & kind.mask) > kind.mask

    return _lift(kind, scalar, array if kind.container == 64 else narrow)


def _shift_amount(kind: IntKind) -> Check:
    def array(a: Data, b: Data) -> Data:
        del a
        return kind.ordered(b) >= kind.width

    lifted = _lift(kind, lambda a, b: b & kind.mask >= kind.width, array)

    def check(a: Data, b: Data) -> Data:
        return not 0 <= b < kind.width if type(b) is int else lifted(a, b)

    return check


def _shl_nsw(kind: IntKind) -> Check:
    shift = numerics_int.binary("shl", kind)

    def scalar(a: int, b: int) -> bool:
        return 0 <= b < kind.width and not kind.low <= a << b <= kind.high

    def array(a: Data, b: Data) -> Data:
        return np.right_shift(shift(a, b), b) != a

    return _lift(kind, scalar, array)


def _shl_nuw(kind: IntKind) -> Check:
    shift = numerics_int.binary("shl", kind)

    def scalar(a: int, b: int) -> bool:
        return 0 <= b < kind.width and (a & kind.mask) << b > kind.mask

    def array(a: Data, b: Data) -> Data:
        return kind.unsigned(shift(a, b)) >> kind.ordered(b) != kind.unsigned(a)

    return _lift(kind, scalar, array)


def _shr_exact(kind: IntKind) -> Check:
    def scalar(a: int, b: int) -> bool:
        return 0 <= b < kind.width and (a >> b) << b != a

    def array(a: Data, b: Data) -> Data:
        a = kind.array(a)
        return np.left_shift(np.right_shift(a, b), b) != a

    return _lift(kind, scalar, array)


def _divs_exact(kind: IntKind) -> Check:
    def array(a: Data, b: Data) -> Data:
        return np.fmod(kind.array(a), kind.array(b)) != 0

    return _lift(kind, lambda a, b: b != 0 and a % b != 0, array)


def _divu_exact(kind: IntKind) -> Check:
    def array(a: Data, b: Data) -> Data:
        return kind.unsigned(a) % kind.unsigned(b) != 0

    return _lift(kind, lambda a, b: b != 0 and (a & kind.mask) % (b & kind.mask) != 0, array)


def _disjoint(kind: IntKind) -> Check:
    def array(a: Data, b: Data) -> Data:
        return kind.array(a) & b != 0

    return _lift(kind, lambda a, b: a & b != 0, array)


def _zero_divisor(a: Data, b: Data) -> Data:
    del a
    return b == 0


def _signed_overflow(kind: IntKind) -> Check:
    low = kind.low
    if kind.width == 1:
        return _lift(kind, lambda a, b: a == -1 == b, _zero_divisor)  # i1 never needs the array form

    def check(a: Data, b: Data) -> Data:
        if type(b) is int:
            return b == -1 and a == low
        return (b == -1) & (a == low)

    return check


def _zero_to_negative(kind: IntKind) -> Check:
    def array(a: Data, b: Data) -> Data:
        return (kind.array(a) == 0) & (kind.array(b) < 0)

    return _lift(kind, lambda a, b: a == 0 > b, array)


_FLAGS: dict[tuple[str, str], Callable[[IntKind], Check]] = {
    ("add", "nsw"): _add_nsw,
    ("add", "nuw"): _add_nuw,
    ("sub", "nsw"): _sub_nsw,
    ("sub", "nuw"): _sub_nuw,
    ("mul", "nsw"): _mul_nsw,
    ("mul", "nuw"): _mul_nuw,
    ("shl", "nsw"): _shl_nsw,
    ("shl", "nuw"): _shl_nuw,
    ("shrs", "exact"): _shr_exact,
    ("shru", "exact"): _shr_exact,
    ("divs", "exact"): _divs_exact,
    ("divu", "exact"): _divu_exact,
    ("or", "disjoint"): _disjoint,
}
_SHIFTS = ("shl", "shrs", "shru")
_SIGNED_DIVISIONS = ("divs", "rems", "ceildivs", "floordivs")
_DIVISIONS = (*_SIGNED_DIVISIONS, "divu", "remu", "ceildivu")
_WRAPPING = ("add", "sub", "mul", "shl")


def poison_checks(name: str, kind: IntKind, flags: frozenset[str]) -> dict[str, Check]:
    """Where `name` (of `numerics_int.BINARY`) with `flags` gives poison; shift amounts first, flags presume them."""
    found = {"shift-amount": _shift_amount(kind)} if name in _SHIFTS else {}
    return found | {flag: _FLAGS[name, flag](kind) for flag in FLAG_POISON if flag in flags and (name, flag) in _FLAGS}


def undefined_checks(name: str, kind: IntKind) -> dict[str, Check]:
    """Where executing `name` is immediate undefined behaviour."""
    found: dict[str, Check] = {}
    if name in _DIVISIONS:
        found["division-by-zero"] = _zero_divisor
    if name in _SIGNED_DIVISIONS:
        found["signed-division-overflow"] = _signed_overflow(kind)
    if name == "pow":  # Expansions divide by the base.
        found["division-by-zero"] = _zero_to_negative(kind)
    return found


def any_of(checks: dict[str, Check]) -> Check | None:
    """Where any of the checks holds; None when there are none."""
    masks = tuple(checks.values())
    if len(masks) < 2:
        return masks[0] if masks else None
    first, rest = masks[0], masks[1:]

    def check(*operands: Data) -> Data:
        found = first(*operands)
        for mask in rest:
            found = found | mask(*operands)
        return found

    return check


def _hull(data: Data) -> tuple[int, int]:
    """Least and greatest value."""
    if not is_array(data):
        return int(data), int(data)
    return int(np.minimum.reduce(data, axis=None)), int(np.maximum.reduce(data, axis=None))


_ON_NUMBERS: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "shl": lambda a, b: a << min(b, 256),
}


def _flagged(name: str, kind: IntKind, checks: dict[str, Check]) -> Check:
    """The overflow flags of add, sub, mul and shl together (and the shift amount).

    Uniform operands take one Python operation. For lanes, four reductions usually show that no value of the operands'
    ranges can overflow (5 us at 4,096 lanes, a third of the lane-wise checks' time).
    """
    op, slow = _ON_NUMBERS[name], any_of(checks)
    signed, unsigned = "nsw" in checks, "nuw" in checks
    low, high, mask, width, shifts = kind.low, kind.high, kind.mask, kind.width, name == "shl"

    def kept(a: Data, b: Data) -> bool:
        (a_low, a_high), (b_low, b_high) = _hull(a), _hull(b)
        if shifts and not 0 <= b_low <= b_high < width:
            return False
        corners = (op(a_low, b_low), op(a_low, b_high), op(a_high, b_low), op(a_high, b_high))
        least, most = min(corners), max(corners)
        if signed and not low <= least <= most <= high:
            return False
        return not unsigned or (a_low >= 0 and b_low >= 0 and least >= 0 and most <= mask)

    def check(a: Data, b: Data) -> Data:
        if type(a) is int and type(b) is int:
            if shifts and not 0 <= b < width:
                return True
            if signed and not low <= op(a, b) <= high:
                return True
            return unsigned and not 0 <= op(a & mask, b & mask) <= mask
        if slow is None or kept(a, b):
            return False
        return slow(a, b)

    return check


def index_width(result: Data, a: Data = 0, b: Data = 0) -> Data:
    """SEMANTICS §4: an index value outside [-2^31, 2^31), where 32-bit, 64-bit and unbounded integers part.

    Looks at the result and at uniform operands; varying operands were results themselves, checked when made.
    """
    if type(result) is int:
        low, high = _INDEX_LOW, _INDEX_HIGH
        return not (low <= result <= high and low <= a <= high and low <= b <= high)
    for data in (a, b):
        if type(data) is int and not _INDEX_LOW <= data <= _INDEX_HIGH:
            return True
    low, high = _hull(result)
    if low >= _INDEX_LOW and high <= _INDEX_HIGH:
        return False
    return (result < _INDEX_LOW) | (result > _INDEX_HIGH)


def integer_rule(
    compute: Callable[..., Data],
    *,
    poison: dict[str, Check] | None = None,
    undefined: dict[str, Check] | None = None,
    promise: Callable[..., Data] | None = None,
) -> ElementwiseRule:
    """Assemble a rule from named checks."""
    poison, undefined = poison or {}, undefined or {}
    names = [*undefined, *poison]
    return ElementwiseRule(
        compute=compute,
        poison=any_of(poison),
        undefined=any_of(undefined),
        rule=names[0] if names else "",
        causes=(*undefined.items(), *poison.items()) if len(names) > 1 else (),
        promise=promise,
        promise_rule="index-width" if promise else "",
    )


def binary_rule(name: str, kind: IntKind, flags: frozenset[str] = frozenset()) -> ElementwiseRule:
    """The rule of a two-operand integer op: `name` of `numerics_int.BINARY`; flags `nsw nuw exact disjoint`."""
    rule = integer_rule(
        numerics_int.binary(name, kind),
        poison=poison_checks(name, kind, flags),
        undefined=undefined_checks(name, kind),
        promise=index_width if kind.index and name in _WRAPPING else None,
    )
    if not flags & {"nsw", "nuw"} or name not in _ON_NUMBERS or not kind.native:
        return rule
    return replace(rule, poison=_flagged(name, kind, poison_checks(name, kind, flags)))

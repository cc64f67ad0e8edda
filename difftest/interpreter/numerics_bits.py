"""Integer functions of one operand: magnitude and counts of bits (math.absi, ctlz, cttz, ctpop)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from difftest.interpreter.numerics import IntKind, lift
from difftest.interpreter.rules import Data

Compute = Callable[..., Data]


def absolute(kind: IntKind) -> Compute:
    """|x|, with |INT_MIN| = INT_MIN."""

    def array(a: Data) -> Data:
        return kind.settle(np.abs(kind.array(a)))

    return lift(abs, array, operand=kind, result=kind)


def count_leading_zeros(kind: IntKind) -> Compute:
    """Zeros above the highest set bit; n for 0."""

    def scalar(a: int) -> int:
        return kind.width - (a & kind.mask).bit_length()

    def array(a: Data) -> Data:
        smeared = kind.unsigned(a)
        step = 1
        while step < kind.width:
            smeared = smeared | (smeared >> kind.unsigned_dtype.type(step))
            step *= 2
        return kind.settle((kind.width - np.bitwise_count(smeared)).astype(kind.dtype))

    return lift(scalar, array, operand=kind, result=kind)


def count_trailing_zeros(kind: IntKind) -> Compute:
    """Zeros below the lowest set bit; n for 0."""

    def scalar(a: int) -> int:
        value = a & kind.mask
        return (value & -value).bit_length() - 1 if value else kind.width

    def array(a: Data) -> Data:
        value = kind.array(a)
        below = np.bitwise_count(((value & -value) - kind.dtype.type(1)).view(kind.unsigned_dtype))
        return kind.settle(np.minimum(below, np.uint8(kind.width)).astype(kind.dtype))

    return lift(scalar, array, operand=kind, result=kind)


def count_ones(kind: IntKind) -> Compute:
    """Number of set bits."""

    def scalar(a: int) -> int:
        return (a & kind.mask).bit_count()

    def array(a: Data) -> Data:
        return kind.settle(np.bitwise_count(kind.unsigned(a)).astype(kind.dtype))

    return lift(scalar, array, operand=kind, result=kind)

"""The types a generator uses, as texts, with the numbers that safety needs. SEMANTICS §2-§4."""

from __future__ import annotations

INTEGER_WIDTH = {"i1": 1, "i8": 8, "i16": 16, "i32": 32, "i64": 64}
INTEGERS = tuple(INTEGER_WIDTH)
WIDE_INTEGERS = INTEGERS[1:]

FLOAT_DIGITS = {"f16": 11, "bf16": 8, "f32": 24, "f64": 53}
"""Significand bits, the hidden one included."""
FLOATS = tuple(FLOAT_DIGITS)

SCALARS = ("index", *INTEGERS, *FLOATS)

MINIMUM = {t: -(1 << (w - 1)) for t, w in INTEGER_WIDTH.items()} | {"index": -(1 << 31)}
MAXIMUM = {t: (1 << (w - 1)) - 1 for t, w in INTEGER_WIDTH.items()} | {"index": (1 << 31) - 1}
"""Signed range. For `index` not the 64-bit range but the one SEMANTICS §4 allows a source program."""

EXACT_LIMIT = {t: 1 << digits for t, digits in FLOAT_DIGITS.items()}
"""A float that is an integer multiple of 2^-f is exact while that integer's magnitude stays within this."""

EXACT_FRACTION = {"f16": 14, "bf16": 60, "f32": 60, "f64": 400}
"""Fraction bits above which the exponent range could matter; far from what the budgets reach, except for f16."""

FLOAT_MAXIMUM = {"f16": 32768, "bf16": 1 << 60, "f32": 1 << 60, "f64": 1 << 400}
"""A magnitude safely below overflow."""

CONTRACT = {"f16": (2, 1 << 6), "bf16": (2, 1 << 5), "f32": (4, 1 << 11), "f64": (10, 1 << 25)}
"""What a written buffer may hold: (fraction bits F, N) promises |v| <= N / 2^F and v a multiple of 2^-F."""

INPUT_FRACTION, INPUT_NUMERATOR = 2, 16
"""What input buffers hold (`difftest.inputs`, profile `exact`): k/4 with k in -16..16 …"""
INPUT_INTEGER = 8
"""… and integers in -8..8 (i1: 0 or 1)."""

BYTES = {"i8": 1, "i16": 2, "i32": 4, "i64": 8, "f16": 2, "bf16": 2, "f32": 4, "f64": 8}

ONE = {t: f" : ({t}) -> {t}" for t in SCALARS}
TWO = {t: f" : ({t}, {t}) -> {t}" for t in SCALARS}
THREE = {t: f" : ({t}, {t}, {t}) -> {t}" for t in SCALARS}
COMPARE = {t: f" : ({t}, {t}) -> i1" for t in SCALARS}
SELECT = {t: f" : (i1, {t}, {t}) -> {t}" for t in SCALARS}
INDICES = tuple(", ".join(["index"] * rank) for rank in range(24))


def memref(shape: tuple[int | None, ...], element: str) -> str:
    """The text of a memref type with identity layout; None is a dynamic dimension."""
    return f"memref<{''.join('?x' if size is None else f'{size}x' for size in shape)}{element}>"

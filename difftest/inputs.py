"""Arguments of a program from a seed: the same seed gives the same arrays on every platform.

Bits come from PCG64's raw stream, which numpy guarantees to be stable, seeded per argument position, so that one
argument's contents do not depend on the shapes of the others.

The `exact` profile draws floats `k/4` with integer `k` in [-16, 16], integers in [-8, 8] (`i1`: both values,
`index`: 0 to 8), and index or integer scalars that are not given become 2.  With such small dyadic rationals the
arithmetic of a generated program never rounds (DESIGN §4, `Exact floats`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from difftest.errors import UsageError
from difftest.ir.types import FloatType, IndexType, IntegerType, MemRefType, PointerType, Type
from difftest.model import Array, InputSpec

DEFAULT_DIMENSION = 2
DEFAULT_SCALAR = 2
_INT_DTYPES: tuple[tuple[int, Any], ...] = ((1, np.bool_), (8, np.int8), (16, np.int16), (32, np.int32), (64, np.int64))
_FLOAT_DTYPES: Mapping[str, Any] = MappingProxyType(
    {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64}
)


def element_dtype(element: Type) -> Any:
    """The numpy dtype that holds one element. Raises UsageError for types without one (`i128`, vectors …)."""
    if isinstance(element, IndexType):
        return np.int64
    if isinstance(element, IntegerType):
        for width, dtype in _INT_DTYPES:
            if element.width <= width:
                return dtype
    if isinstance(element, FloatType) and element.name in _FLOAT_DTYPES:
        return _FLOAT_DTYPES[element.name]
    raise UsageError(f"no input can be made for an argument with elements of type {element}")


def make_arguments(types: Sequence[Type], spec: InputSpec) -> list[Any]:
    """One argument per type: an array of the memref's logical shape, an `int`, `bool` or numpy float scalar.

    Dynamic dimensions come from `spec.shapes`, else 2. Raises UsageError when a given shape does not fit the
    type, a position does not exist, or a type has no arguments of its own.
    """
    for position in (*spec.scalars, *spec.shapes):
        if position >= len(types):
            raise UsageError(f"the entry has {len(types)} arguments, there is no argument {position}")
    return [_argument(t, i, spec) for i, t in enumerate(types)]


def _argument(type_: Type, position: int, spec: InputSpec) -> Any:
    if isinstance(type_, MemRefType):
        shape = _shape(type_.shape, spec.shapes.get(position), position)
        return _fill(type_.element, shape, position, spec)
    if isinstance(type_, PointerType):
        return _fill(FloatType("f32"), spec.shapes.get(position, (DEFAULT_DIMENSION,)), position, spec)
    given = spec.scalars.get(position)
    dtype = element_dtype(type_)
    if isinstance(type_, FloatType):
        return dtype(given) if given is not None else dtype(_fill(type_, (1,), position, spec)[0])
    if isinstance(given, float) and not given.is_integer():
        raise UsageError(f"argument {position} is an integer, {given} is not one")
    value = DEFAULT_SCALAR if given is None else int(given)
    if isinstance(type_, IntegerType) and type_.width == 1:
        return bool(value & 1)
    return value


def _shape(static: tuple[int | None, ...], given: tuple[int, ...] | None, position: int) -> tuple[int, ...]:
    if given is None:
        return tuple(DEFAULT_DIMENSION if d is None else d for d in static)
    fits = len(given) == len(static) and all(s is None or s == g for s, g in zip(static, given, strict=True))
    if not fits or any(g < 0 for g in given):
        shown = "x".join("?" if d is None else str(d) for d in static)
        raise UsageError(f"shape {list(given)} does not fit argument {position}, which is {shown or 'of rank 0'}")
    return given


def _raw(count: int, position: int, seed: int) -> NDArray[np.uint64]:
    # One stream per (seed, position); SeedSequence and random_raw are covered by numpy's stability guarantee.
    bits = np.random.PCG64(np.random.SeedSequence([seed & 0xFFFF_FFFF_FFFF_FFFF, position]))
    return np.asarray(bits.random_raw(count), dtype=np.uint64)


def _fill(element: Type, shape: tuple[int, ...], position: int, spec: InputSpec) -> Array:
    make = PROFILES.get(spec.profile)
    if make is None:
        raise UsageError(f"unknown input profile {spec.profile!r}; known: {', '.join(sorted(PROFILES))}")
    count = int(np.prod(shape, dtype=np.int64))
    values = make(element, _raw(count, position, spec.seed))
    return values.astype(element_dtype(element)).reshape(shape)


def _exact(element: Type, raw: NDArray[np.uint64]) -> Array:
    if isinstance(element, FloatType):
        return ((raw % np.uint64(33)).astype(np.int64) - 16) / 4.0
    if isinstance(element, IndexType):
        return (raw % np.uint64(9)).astype(np.int64)
    if isinstance(element, IntegerType) and element.width < 5:
        return _narrow(element, raw)
    return (raw % np.uint64(17)).astype(np.int64) - 8


def _narrow(element: IntegerType, raw: NDArray[np.uint64]) -> Array:
    """Every value of a type too narrow for [-8, 8], in its signed range (`i1`: 0 and 1)."""
    low = (raw % np.uint64(1 << element.width)).astype(np.int64)
    half = 1 << (element.width - 1)
    return low if element.width == 1 else np.where(low >= half, low - 2 * half, low)


_SPECIAL = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 0.5, 2.0**-140, -(2.0**-140)])


def _special(element: Type, raw: NDArray[np.uint64]) -> Array:
    """The exact profile with a fifth of the values special: signed zeros, inf, NaN, subnormals, integer extremes."""
    plain = _exact(element, raw)
    chosen = (raw >> np.uint64(32)) % np.uint64(5) == 0
    pick = ((raw >> np.uint64(40)) % np.uint64(len(_SPECIAL))).astype(np.int64)
    if isinstance(element, FloatType):
        return np.where(chosen, _SPECIAL[pick], plain)
    if isinstance(element, IntegerType) and element.width > 1:
        top = (1 << (min(element.width, 64) - 1)) - 1
        extremes = np.array([top, -top - 1, 0, -1, 1, 0, 1, -1, top, -top - 1], dtype=np.int64)
        return np.where(chosen, extremes[pick], plain)
    return plain


PROFILES: Mapping[str, Callable[[Type, NDArray[np.uint64]], Array]] = MappingProxyType(
    {"exact": _exact, "special": _special}
)

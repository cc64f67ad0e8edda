"""Number kinds and the bridge from one Python function to lanes of any representation.

A rule for integers is *defined* by a function on Python ints in the signed range (its mathematics, no width tricks).
`lift` gives it the representations of `rules`: a table for `i1`, numpy arrays through a second, vectorised function
for 2 to 64 bits, object arrays beyond. The unit tests hold the two functions against each other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import cache
from itertools import product
from typing import Any

import ml_dtypes
import numpy as np

from difftest.interpreter.rules import Data, NoRuleError, is_array
from difftest.ir import types

INDEX_BITS = 64  # SEMANTICS §4: every toolchain here runs `index` at 64 bits.


class IntKind:
    """A signless integer type of `width` bits: its range, its container, and conversions between views of it.

    `index` marks the index type (64 bits): the only kind whose wrapping ops carry the `index-width` promise.
    """

    __slots__ = ("container", "dtype", "high", "index", "low", "mask", "native", "shift", "unsigned_dtype", "width")

    def __init__(self, width: int, *, index: bool = False) -> None:
        if width < 1:
            raise NoRuleError(f"no arithmetic on i{width}")
        self.width = width
        self.index = index
        self.mask = (1 << width) - 1
        self.low = -(1 << (width - 1))
        self.high = (1 << (width - 1)) - 1
        self.container = next((bits for bits in (8, 16, 32, 64) if bits >= width), 0)
        self.native = width > 1 and self.container > 0
        self.shift = self.container - width if self.container else 0
        self.dtype: np.dtype[Any] = self._dtype("i")
        self.unsigned_dtype: np.dtype[Any] = self._dtype("u")

    def _dtype(self, letter: str) -> np.dtype[Any]:
        if self.width == 1:
            return np.dtype(np.bool_)
        return np.dtype(f"{letter}{self.container // 8}") if self.container else np.dtype(object)

    def wrap(self, value: int) -> int:
        """`value` modulo 2^width, in the signed range. Works on object arrays too."""
        return ((value - self.low) & self.mask) + self.low

    def canonical(self, value: int) -> int | bool:
        """A Python int as uniform data of this kind: wrapped, and a bool for i1."""
        return bool(value & 1) if self.width == 1 else self.wrap(value)

    def settle(self, array: Data) -> Data:
        """Sign-extend container values from bit width-1 (after an op that may have left the range)."""
        return array if not self.shift else (array << self.shift) >> self.shift

    def array(self, data: Data) -> Data:
        """`data` as an array (0-d for a uniform scalar) of the container type."""
        return np.asarray(data, self.dtype)

    def unsigned(self, data: Data) -> Data:
        """Arrays of native kinds: zero-extended values in the unsigned container."""
        found = np.asarray(data, self.dtype).view(self.unsigned_dtype)
        return found & self.unsigned_dtype.type(self.mask) if self.shift else found

    def ordered(self, data: Data) -> Data:
        """Arrays of native kinds: unsigned numbers ordered as the zero-extended values are.

        Reading the sign-extended container as unsigned keeps that order for every width, without a mask.
        """
        return np.asarray(data, self.dtype).view(self.unsigned_dtype)

    def from_unsigned(self, array: Data) -> Data:
        """Back from unsigned container values (upper bits arbitrary) to the canonical signed form."""
        return self.settle(np.asarray(array, self.unsigned_dtype).view(self.dtype))


@dataclass(frozen=True, slots=True, kw_only=True)
class FloatKind:
    """A binary float type: `precision` p (with the hidden bit) and the smallest positive number's exponent."""

    name: str
    width: int
    precision: int
    tiny_exponent: int
    dtype: np.dtype[Any]

    @property
    def unit(self) -> float:
        """Half an ulp relative to a number: rounding moves a normal result by at most `unit * |result|`."""
        return 2.0**-self.precision

    @property
    def tiny(self) -> float:
        """The smallest positive (subnormal) number."""
        return 2.0**self.tiny_exponent


Kind = IntKind | FloatKind

_FLOATS = {
    kind.name: kind
    for kind in (
        FloatKind(name="f16", width=16, precision=11, tiny_exponent=-24, dtype=np.dtype(np.float16)),
        FloatKind(name="bf16", width=16, precision=8, tiny_exponent=-133, dtype=np.dtype(ml_dtypes.bfloat16)),
        FloatKind(name="f32", width=32, precision=24, tiny_exponent=-149, dtype=np.dtype(np.float32)),
        FloatKind(name="f64", width=64, precision=53, tiny_exponent=-1074, dtype=np.dtype(np.float64)),
    )
}


@cache
def int_kind(width: int) -> IntKind:
    """The kind of `iN`."""
    return IntKind(width)


INDEX = IntKind(INDEX_BITS, index=True)
BOOL = int_kind(1)


@cache
def kind_of(text: str) -> Kind:
    """The kind of a type's scalars: the type itself, or a vector's element. `NoRuleError` for everything else."""
    found = types.parse_type(text)
    if isinstance(found, types.VectorType):
        found = found.element
    if isinstance(found, types.IntegerType):
        return int_kind(found.width)
    if isinstance(found, types.IndexType):
        return INDEX
    if isinstance(found, types.FloatType) and found.name in _FLOATS:
        return _FLOATS[found.name]
    raise NoRuleError(f"no arithmetic on {text}")


def int_kind_of(text: str) -> IntKind:
    """`kind_of` a type that must be an integer or index."""
    found = kind_of(text)
    if not isinstance(found, IntKind):
        raise NoRuleError(f"expected an integer type, not {text}")
    return found


def float_kind_of(text: str) -> FloatKind:
    """`kind_of` a type that must be a float."""
    found = kind_of(text)
    if not isinstance(found, FloatKind):
        raise NoRuleError(f"expected a float type, not {text}")
    return found


class Result(Enum):
    """What a lifted function returns per lane, when it is no number of a kind."""

    BOOL = "bool"


def lift(
    scalar: Callable[..., Any], array: Callable[..., Any] | None, *, operand: IntKind, result: IntKind | Result
) -> Callable[..., Data]:
    """One function over all representations of `operand` data.

    `scalar` maps Python ints in the signed range (i1: 0 and -1) to an int, wrapped here, or for `Result.BOOL` to a
    bool; `array` maps native arrays and scalars to arrays in canonical form and is not used for i1 and wide kinds.
    """
    if operand.width == 1:
        return _lift_bit(scalar, result)
    if not operand.native or array is None:
        return _lift_object(scalar, result)
    finish: Callable[[Any], Any] = bool if result is Result.BOOL else _finisher(result)

    def lifted(*operands: Data) -> Data:
        for data in operands:
            if type(data) is not int:
                return array(*operands)
        return finish(scalar(*operands))

    return lifted


def _finisher(result: IntKind | Result) -> Callable[[Any], Any]:
    return bool if isinstance(result, Result) else result.canonical


def _lift_bit(scalar: Callable[..., Any], result: IntKind | Result) -> Callable[..., Data]:
    """i1: all results in a table, indexed by the operands' bits. A bit is -1 to signed arithmetic."""
    finish = _finisher(result)
    tables: dict[int, tuple[list[Any], Data]] = {}

    def lifted(*operands: Data) -> Data:
        entry = tables.get(len(operands))
        if entry is None:
            values = [finish(scalar(*bits)) for bits in product((0, -1), repeat=len(operands))]
            dtype = np.dtype(np.bool_) if isinstance(result, Result) else result.dtype
            entry = tables[len(operands)] = (values, np.array(values, dtype))
        position: Data = 0
        for data in operands:
            position = position * 2 + (np.asarray(data, np.intp) if is_array(data) else int(data))
        return entry[1][position] if is_array(position) else entry[0][position]

    return lifted


def _lift_object(scalar: Callable[..., Any], result: IntKind | Result) -> Callable[..., Data]:
    """Wide integers: Python ints, one at a time."""
    finish = _finisher(result)

    def one(*operands: Any) -> Any:
        return finish(scalar(*map(int, operands)))

    cached: dict[int, Any] = {}

    def lifted(*operands: Data) -> Data:
        if not any(map(is_array, operands)):
            return one(*operands)
        ufunc = cached.setdefault(len(operands), None) or np.frompyfunc(one, len(operands), 1)
        cached[len(operands)] = ufunc
        found = ufunc(*operands)
        return found.astype(np.bool_ if isinstance(result, Result) else result.dtype)

    return lifted


def boolean(data: Data) -> Data:
    """A comparison's result as i1 data: `bool` when uniform."""
    return data if is_array(data) else bool(data)

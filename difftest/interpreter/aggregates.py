"""LLVM structs and arrays as values, and values of any LLVM type that are undefined, zero, or made of bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from difftest.interpreter.rules import NoRuleError
from difftest.interpreter.values import UNDEFINED, Index, Pointer, Tagged, dtype_of, gather, merge, vector_shape
from difftest.ir.types import LLVMArrayType, PointerType, StructType, Type


class Struct:
    """The members of a struct or array value (`kinds` their types); a `LaneValue`."""

    __slots__ = ("fields", "kinds")

    def __init__(self, fields: Sequence[Any], kinds: Sequence[Type]) -> None:
        self.fields = tuple(fields)
        self.kinds = tuple(kinds)

    def gather(self, index: Index, n: int) -> Struct:
        """See `values.LaneValue`."""
        return Struct([gather(f, index, n) for f in self.fields], self.kinds)

    def merge(self, parts: Sequence[tuple[Any, Index]], n: int, dtype: Any) -> Struct:
        """See `values.LaneValue`."""
        del dtype
        known = [(p, i) for p, i in parts if p is not UNDEFINED]
        columns = zip(*(p.fields for p, _ in known), strict=True)
        indices = [i for _, i in known]
        return Struct(
            [
                merge(list(zip(column, indices, strict=True)), n, dtype_of(kind))
                for column, kind in zip(columns, self.kinds, strict=True)
            ],
            self.kinds,
        )

    def replaced(self, path: Sequence[int], value: Any) -> Struct:
        """The same value with the member at `path` replaced."""
        first, *rest = path
        fields = list(self.fields)
        fields[first] = fields[first].replaced(rest, value) if rest else value
        return Struct(fields, self.kinds)

    def at(self, path: Sequence[int]) -> Any:
        """The member at `path`."""
        found: Any = self
        for number in path:
            found = found.fields[number]
        return found


def kinds_of(kind: Type) -> tuple[Type, ...] | None:
    """Types of the members of a struct or array; None for other types."""
    if isinstance(kind, StructType):
        return kind.body
    if isinstance(kind, LLVMArrayType):
        return (kind.element,) * kind.count
    return None


def zero(kind: Type) -> Any:
    """The value of all zero bits."""
    members = kinds_of(kind)
    if members is not None:
        return Struct([zero(k) for k in members], members)
    if isinstance(kind, PointerType):
        return Pointer(base=0, address=0)
    dtype = dtype_of(kind)
    if dtype is None:
        raise NoRuleError(f"a zero of type {kind}")
    shape = vector_shape(kind)
    if shape:
        return np.zeros((1, *shape), dtype)
    return dtype.type(0) if dtype.kind not in "biO" else (False if dtype.kind == "b" else 0)


def poison(kind: Type) -> Any:
    """A value that may not be looked at. Poison pointers point to nothing (SEMANTICS §1, §7)."""
    members = kinds_of(kind)
    if members is not None:
        return Struct([poison(k) for k in members], members)
    if isinstance(kind, PointerType):
        return Pointer(base=0, address=0)
    data = zero(kind)
    return Tagged(data, poison=True if not vector_shape(kind) else np.ones(np.shape(data), np.bool_))

"""Sizes and offsets of LLVM types in memory (x86-64 and NVPTX agree on these; LangRef "Data Layout")."""

from __future__ import annotations

from functools import lru_cache

from difftest.interpreter.rules import NoRuleError
from difftest.ir.types import (
    FloatType,
    IndexType,
    IntegerType,
    LLVMArrayType,
    PointerType,
    StructType,
    Type,
    VectorType,
    parse_type,
)

_FLOAT_BYTES = {"f16": 2, "bf16": 2, "f32": 4, "f64": 8}


@lru_cache(maxsize=4096)
def alignment_of(kind: Type) -> int:
    """The ABI alignment of a type in bytes."""
    if isinstance(kind, StructType):
        return 1 if kind.packed else max([alignment_of(k) for k in kind.body], default=1)
    if isinstance(kind, LLVMArrayType):
        return alignment_of(kind.element)
    if isinstance(kind, VectorType):
        return 1 << (size_of(kind) - 1).bit_length()
    return min(size_of(kind), 16)


@lru_cache(maxsize=4096)
def size_of(kind: Type) -> int:
    """The bytes from one array element to the next."""
    if isinstance(kind, IntegerType):
        return 1 << max(-(-kind.width // 8) - 1, 0).bit_length()
    if isinstance(kind, IndexType | PointerType):
        return 8
    if isinstance(kind, FloatType) and kind.name in _FLOAT_BYTES:
        return _FLOAT_BYTES[kind.name]
    if isinstance(kind, LLVMArrayType):
        return kind.count * size_of(kind.element)
    if isinstance(kind, VectorType):
        count = 1
        for d in kind.shape:
            count *= d
        return count * size_of(kind.element)
    if isinstance(kind, StructType):
        return _round(sum_of(kind)[1], alignment_of(kind))
    raise NoRuleError(f"memory of type {kind}")


def _round(size: int, alignment: int) -> int:
    return -(-size // alignment) * alignment


@lru_cache(maxsize=4096)
def sum_of(kind: StructType) -> tuple[tuple[int, ...], int]:
    """The offset of each field, and the bytes up to the end of the last."""
    offsets: list[int] = []
    at = 0
    for field in kind.body:
        at = at if kind.packed else _round(at, alignment_of(field))
        offsets.append(at)
        at += size_of(field)
    return tuple(offsets), at


def parts_of(kind: Type) -> list[tuple[int, Type]]:
    """(offset, type) of each member of a struct or array."""
    if isinstance(kind, StructType):
        return list(zip(sum_of(kind)[0], kind.body, strict=True))
    if isinstance(kind, LLVMArrayType):
        step = size_of(kind.element)
        return [(i * step, kind.element) for i in range(kind.count)]
    raise NoRuleError(f"members of {kind}")


def type_of(text: str | None) -> Type:
    """The type in an attribute."""
    if text is None:
        raise NoRuleError("without a type")
    return parse_type(text)

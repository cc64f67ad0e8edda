"""Attribute texts -> Python values, parsed when asked for and cached by text.

Syntax: builtin dialect documentation, "Attributes".  Every parser raises AttributeTextError (a UsageError) when the
text is of another kind: an op whose attribute has no known meaning is the caller's `unsupported`, never a default.
"""

from __future__ import annotations

import math
import re
from functools import lru_cache
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from difftest.ir.affine import AffineMap, AffineSet, parse_affine_map, parse_affine_set
from difftest.ir.lexer import STRING, AttributeTextError, LexError, split_list, unquote
from difftest.ir.types import FloatType, IndexType, IntegerType, MemRefType, TensorType, Type, VectorType, parse_type

__all__ = [
    "AffineMap",
    "AffineSet",
    "AttributeTextError",
    "dtype_of",
    "integer_type",
    "parse_affine_map",
    "parse_affine_set",
    "parse_array",
    "parse_dense",
    "parse_enum",
    "parse_float",
    "parse_float_array",
    "parse_int_array",
    "parse_integer",
    "parse_string",
    "parse_symbol",
]

_INTEGER = re.compile(r"\s*(-?(?:0x[0-9A-Fa-f]{1,300}|\d{1,300})|true|false)\s*(?::\s*(\S+)\s*)?", re.ASCII)
_FLOAT = re.compile(r"\s*(0x[0-9A-Fa-f]{1,64}|-?\d+\.\d*(?:[eE][-+]?\d{1,6})?)\s*(?::\s*(\S+)\s*)?", re.ASCII)
_STRING = re.compile(rf"\s*({STRING})\s*(?::.*)?", re.DOTALL)
_SYMBOL = re.compile(rf"@(?:([A-Za-z_][\w$.\-]*)|({STRING}))", re.ASCII)
_ARRAY = re.compile(r"\s*array\s*<\s*([\w!.]+)\s*(?::(.*))?>\s*", re.ASCII | re.DOTALL)
_DENSE = re.compile(r"\s*dense\s*<(.*)>\s*:\s*(.*\S)\s*", re.ASCII | re.DOTALL)
_LITERAL = re.compile(r"[^\s,\[\]]+")
_ENUM = re.compile(r"\s*#([A-Za-z_]\w*)((?:\.[\w.]+)?)\s*<(.*)>\s*", re.ASCII | re.DOTALL)
_FLOAT_DTYPES: dict[str, np.dtype[Any]] = {
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
}


def _bad(kind: str, text: str) -> AttributeTextError:
    return AttributeTextError(f"not {kind}: {text[:120]}")


def dtype_of(type_: Type) -> np.dtype[Any] | None:
    """The numpy dtype that holds elements of `type_`, or None when it has none.

    i1 is bool, other integers the smallest signed (unsigned for `ui`) dtype that holds them, wider than 64 bits
    object, index int64; floats have exactly their width.
    """
    if isinstance(type_, FloatType):
        return _FLOAT_DTYPES.get(type_.name)
    if isinstance(type_, IndexType):
        return np.dtype(np.int64)
    if not isinstance(type_, IntegerType):
        return None
    if type_.width == 1:
        return np.dtype(np.bool_)
    for width in (8, 16, 32, 64):
        if type_.width <= width:
            return np.dtype(f"{'u' if type_.signedness == 'u' else ''}int{width}")
    return np.dtype(object)


# --- scalars ------------------------------------------------------------------------------------------------


@lru_cache(maxsize=16384)
def parse_integer(text: str) -> int:
    """`5 : i32`, `-1 : index`, `true`. Signless and signed types give the signed value, i1 gives 0 or 1.

    Without a type the literal is an i64, as in MLIR.
    """
    found = _INTEGER.fullmatch(text)
    if found is None:
        raise _bad("an integer", text)
    type_ = parse_type(found[2] or "i64")
    if not isinstance(type_, IntegerType | IndexType):
        raise _bad("an integer", text)
    return _wrap_integer(found[1], type_)


def _wrap_integer(literal: str, type_: IntegerType | IndexType) -> int:
    if literal in {"true", "false"}:
        return int(literal == "true")
    value = int(literal, 0) if "x" in literal else int(literal)
    width = type_.width if isinstance(type_, IntegerType) else 64
    if width == 1:
        return value & 1
    if isinstance(type_, IntegerType) and type_.signedness == "u":
        return value & ((1 << width) - 1)
    value &= (1 << width) - 1
    return value - (1 << width) if value >> (width - 1) else value


@lru_cache(maxsize=16384)
def integer_type(text: str) -> str | None:
    """The type text of an integer attribute (`i64` when it has none, `i1` for booleans), or None for other kinds."""
    found = _INTEGER.fullmatch(text)
    if found is None:
        return None
    if found[1] in {"true", "false"}:
        return "i1"
    name = found[2] or "i64"
    return name if isinstance(parse_type(name), IntegerType | IndexType) else None


@lru_cache(maxsize=16384)
def parse_float(text: str) -> float:
    """`1.5 : f32`, `0x7FC00000 : f32` (bits), rounded to the type (f64 when it has none) and given as a Python float.

    f80, f128 and 8-bit floats are refused: no numpy value of ours holds them.
    """
    found = _FLOAT.fullmatch(text)
    if found is None:
        raise _bad("a float", text)
    type_ = parse_type(found[2] or "f64")
    if not isinstance(type_, FloatType):
        raise _bad("a float", text)
    return float(_float_scalar(found[1], type_, text))


def _float_scalar(literal: str, type_: FloatType, text: str) -> Any:
    dtype = _FLOAT_DTYPES.get(type_.name)
    if dtype is None:
        raise AttributeTextError(f"float type {type_.name} has no value here: {text[:120]}")
    if literal.startswith("0x"):
        bits = int(literal, 16)
        if bits >> (8 * dtype.itemsize):
            raise _bad("a float of its type", text)
        return np.frombuffer(bits.to_bytes(dtype.itemsize, "little"), dtype=dtype)[0]
    return round_float(float(literal), dtype)


def round_float(value: float, dtype: np.dtype[Any]) -> Any:
    """`value` rounded once (to nearest, ties to even) to a float dtype, overflow to infinity."""
    with np.errstate(all="ignore"):
        if dtype != _FLOAT_DTYPES["bf16"]:
            return dtype.type(value)
        # ml_dtypes goes through float32, which rounds twice: make the intermediate step round to odd instead.
        single = np.float32(value)
        if math.isfinite(single) and float(single) != value and not single.view(np.uint32) & 1:
            single = np.nextafter(single, np.float32(math.inf if value > float(single) else -math.inf))
        return dtype.type(single)


@lru_cache(maxsize=16384)
def parse_string(text: str) -> str:
    """The value of `"…"` (an attached type is ignored); bytes that are no UTF-8 become surrogate escapes."""
    found = _STRING.fullmatch(text)
    if found is None:
        raise _bad("a string", text)
    return unquote(found[1])


@lru_cache(maxsize=16384)
def parse_symbol(text: str) -> tuple[str, ...]:
    """`@a::@"b c"` -> `("a", "b c")`."""
    parts: list[str] = []
    position = 0
    stripped = text.strip()
    while True:
        found = _SYMBOL.match(stripped, position)
        if found is None:
            raise _bad("a symbol reference", text)
        parts.append(found[1] if found[1] is not None else unquote(found[2]))
        position = found.end()
        if position == len(stripped):
            return tuple(parts)
        if not stripped.startswith("::", position):
            raise _bad("a symbol reference", text)
        position += 2


@lru_cache(maxsize=16384)
def parse_enum(text: str) -> str:
    """The value of an enum attribute in either spelling: `#gpu<dim x>` and `#gpu.dim<x>` give `x`.

    `#arith.overflow<nsw, nuw>` gives `nsw, nuw`; `#d<v>` with one word gives it.
    """
    found = _ENUM.fullmatch(text)
    if found is None:
        raise _bad("an enum", text)
    body = " ".join(found[3].split())
    return body if found[2] or " " not in body else body.partition(" ")[2]


# --- arrays -------------------------------------------------------------------------------------------------


@lru_cache(maxsize=16384)
def parse_array(text: str) -> tuple[str, ...]:
    """The elements' texts of `[a, b]`."""
    stripped = text.strip()
    if not (stripped.startswith("[") and stripped.endswith("]")):
        raise _bad("an array", text)
    return _split(stripped[1:-1], text)


def _split(body: str, text: str) -> tuple[str, ...]:
    try:
        return split_list(body)
    except LexError as error:
        raise _bad("an array", text) from error


@lru_cache(maxsize=16384)
def parse_int_array(text: str) -> tuple[int, ...]:
    """`array<i32: 1, 2>`, `array<i1: true>`, `[1, 2]` or a dense integer attribute of rank 1."""
    if text.lstrip().startswith("["):
        return tuple(parse_integer(part) for part in parse_array(text))
    if text.lstrip().startswith("dense"):
        values, _ = parse_dense(text)
        if values.ndim != 1 or values.dtype.kind not in "biuO":
            raise _bad("an integer array", text)
        return tuple(int(value) for value in values)
    found = _ARRAY.fullmatch(text)
    type_ = None if found is None else parse_type(found[1])
    if found is None or not isinstance(type_, IntegerType):
        raise _bad("an integer array", text)
    return tuple(parse_integer(f"{part} : {found[1]}") for part in _split(found[2] or "", text))


@lru_cache(maxsize=16384)
def parse_float_array(text: str) -> tuple[float, ...]:
    """`array<f32: 1.0, 2.0>`, values rounded to the element type."""
    found = _ARRAY.fullmatch(text)
    type_ = None if found is None else parse_type(found[1])
    if found is None or not isinstance(type_, FloatType):
        raise _bad("a float array", text)
    return tuple(parse_float(f"{part} : {found[1]}") for part in _split(found[2] or "", text))


@lru_cache(maxsize=1024)
def parse_dense(text: str) -> tuple[NDArray[Any], Type]:
    """A `dense<…> : type` attribute as a read-only array of the type's shape, and that type.

    dtypes are those of `dtype_of`; splats, nested lists, hex bit patterns of floats and raw `"0x…"` bytes are read.
    """
    found = _DENSE.fullmatch(text)
    type_ = None if found is None else parse_type(found[2])
    if found is None or not isinstance(type_, TensorType | VectorType | MemRefType):
        raise _bad("a dense attribute", text)
    shape = tuple(extent for extent in type_.shape if extent is not None)
    dtype = dtype_of(type_.element)
    if dtype is None or len(shape) != len(type_.shape):
        raise AttributeTextError(f"dense attribute of a type without values here: {text[:120]}")
    body = found[1].strip()
    values = (
        _raw_values(body, type_.element, dtype, text) if body.startswith('"') else _listed(body, type_.element, text)
    )
    count = math.prod(shape)
    if values.size == 1 and not body.startswith("["):
        values = np.broadcast_to(values, (count,))
    if values.size != count:
        raise _bad(f"a dense attribute of {count} elements", text)
    array = values.astype(dtype, copy=True).reshape(shape)
    array.flags.writeable = False
    return array, type_


def _listed(body: str, element: Type, text: str) -> NDArray[Any]:
    literals = _LITERAL.findall(body)
    dtype = dtype_of(element)
    if isinstance(element, FloatType) and dtype is not None:
        listed = [_float_literal(literal, element, text) for literal in literals]
    elif isinstance(element, IntegerType | IndexType):
        listed = [_integer_literal(literal, element, text) for literal in literals]
    else:
        raise _bad("a dense attribute of numbers", text)
    return np.array(listed, dtype=dtype)


def _float_literal(literal: str, type_: FloatType, text: str) -> Any:
    if _FLOAT.fullmatch(literal) is None:
        raise _bad("a dense attribute of floats", text)
    return _float_scalar(literal, type_, text)


def _integer_literal(literal: str, type_: IntegerType | IndexType, text: str) -> int:
    if _INTEGER.fullmatch(literal) is None:
        raise _bad("a dense attribute of integers", text)
    return _wrap_integer(literal, type_)


def _raw_values(body: str, element: Type, dtype: np.dtype[Any], text: str) -> NDArray[Any]:
    """Little-endian bytes; integers occupy whole bytes, i1 one byte or (older MLIR) one bit each."""
    if _STRING.fullmatch(body) is None or not body.startswith('"0x'):
        raise _bad("a dense attribute of raw bytes", text)
    try:
        data = bytes.fromhex(body[3:-1])
    except ValueError as error:
        raise _bad("a dense attribute of raw bytes", text) from error
    if isinstance(element, IntegerType) and element.width == 1:
        return _raw_bits(data, text)
    if isinstance(element, IntegerType) and dtype == np.dtype(object):
        size = (element.width + 7) // 8
        chunks = [data[i : i + size] for i in range(0, len(data), size)]
        return np.array([int.from_bytes(c, "little", signed=True) for c in chunks], dtype=object)
    if len(data) % dtype.itemsize:
        raise _bad("a dense attribute of whole elements", text)
    return np.frombuffer(data, dtype=dtype)


def _raw_bits(data: bytes, text: str) -> NDArray[Any]:
    raw = np.frombuffer(data, dtype=np.uint8)
    type_ = parse_type(text[text.rindex(":") + 1 :])
    count = math.prod(extent or 0 for extent in type_.shape) if isinstance(type_, TensorType | VectorType) else 0
    if raw.size in {1, count} and not (raw > 1).any():
        return raw.astype(np.bool_)
    if data == b"\xff":
        return np.array([True])
    return np.unpackbits(raw, bitorder="little")[:count].astype(np.bool_)

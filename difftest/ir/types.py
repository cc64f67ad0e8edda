"""Type texts -> frozen dataclasses, cached by text.

Covers the types whose structure matters to an interpreter or a reducer; everything else is an `OpaqueType` that keeps
its text, so that parsing never fails.  Syntax: builtin dialect ("Types") and LLVM dialect documentation.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from difftest.ir.affine import parse_affine_map, strides_of
from difftest.ir.lexer import STRING, AttributeTextError, LexError, scan, split_list, unquote

Dimension = int | None
"""A static extent, stride or offset, or None when it is dynamic."""

_MAXIMUM_DEPTH = 64
_INTEGER = re.compile(r"(si|ui|i)([1-9]\d{0,7})", re.ASCII)
_FLOAT = re.compile(r"bf16|tf32|f\d+(?:E\d+M\d+\w*)?", re.ASCII)
_DIMENSION = re.compile(r"\s*(\?|\d{1,18})\s*x", re.ASCII)
_COUNT = re.compile(r"\s*(\d{1,18})\s+x\s+", re.ASCII)
_SHAPED = re.compile(r"(memref|vector|tensor)\s*<(.*)>", re.ASCII | re.DOTALL)
_LLVM = re.compile(r"(?:!llvm\.)?(ptr|struct|array)\s*(?:<(.*)>)?", re.ASCII | re.DOTALL)
_STRIDED = re.compile(r"strided\s*<\s*\[([^\]]*)\]\s*(?:,\s*offset\s*:\s*(\?|-?\d{1,18})\s*)?>", re.ASCII)
_STRUCT_BODY = re.compile(rf"\s*(?:({STRING})\s*,)?\s*(packed\b)?\s*\((.*)\)\s*", re.ASCII | re.DOTALL)


@dataclass(frozen=True, slots=True)
class IntegerType:
    """`i<width>`; `signedness` is `""` (signless), `"s"` or `"u"`."""

    width: int
    signedness: str = ""

    def __str__(self) -> str:
        return f"{self.signedness}i{self.width}"


@dataclass(frozen=True, slots=True)
class IndexType:
    """`index`."""

    def __str__(self) -> str:
        return "index"


@dataclass(frozen=True, slots=True)
class FloatType:
    """`f16`, `bf16`, `f32`, `f64` … by name."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class MemRefType:
    """A ranked memref. `strides` and `offset` are in elements.

    The identity layout has row-major strides as far as extents are static. `strides` is None (and so is `offset`)
    when the layout has no strided form. `layout` and `space` are texts, empty when absent.
    """

    shape: tuple[Dimension, ...]
    element: Type
    strides: tuple[Dimension, ...] | None
    offset: Dimension
    layout: str = ""
    space: str = ""

    def __str__(self) -> str:
        extra = "".join(f", {part}" for part in (self.layout, self.space) if part)
        return f"memref<{_print_shape(self.shape)}{self.element}{extra}>"


@dataclass(frozen=True, slots=True)
class VectorType:
    """A vector of fixed size; rank 0 has shape ()."""

    shape: tuple[int, ...]
    element: Type

    def __str__(self) -> str:
        return f"vector<{_print_shape(self.shape)}{self.element}>"


@dataclass(frozen=True, slots=True)
class TensorType:
    """A ranked tensor without encoding (the type of dense attributes)."""

    shape: tuple[Dimension, ...]
    element: Type

    def __str__(self) -> str:
        return f"tensor<{_print_shape(self.shape)}{self.element}>"


@dataclass(frozen=True, slots=True)
class PointerType:
    """`!llvm.ptr<space>`."""

    space: int = 0

    def __str__(self) -> str:
        return f"!llvm.ptr<{self.space}>" if self.space else "!llvm.ptr"


@dataclass(frozen=True, slots=True)
class StructType:
    """`!llvm.struct<…>` with a body; `name` is empty for literal structs."""

    body: tuple[Type, ...]
    packed: bool = False
    name: str = ""

    def __str__(self) -> str:
        name = f'"{self.name}", ' if self.name else ""
        return f"!llvm.struct<{name}{'packed ' if self.packed else ''}({', '.join(map(str, self.body))})>"


@dataclass(frozen=True, slots=True)
class LLVMArrayType:
    """`!llvm.array<count x element>`."""

    count: int
    element: Type

    def __str__(self) -> str:
        return f"!llvm.array<{self.count} x {self.element}>"


@dataclass(frozen=True, slots=True)
class FunctionType:
    """`(inputs) -> results`."""

    inputs: tuple[Type, ...]
    results: tuple[Type, ...]

    def __str__(self) -> str:
        results = ", ".join(map(str, self.results))
        single = len(self.results) == 1 and not isinstance(self.results[0], FunctionType)
        return f"({', '.join(map(str, self.inputs))}) -> {results if single else f'({results})'}"


@dataclass(frozen=True, slots=True)
class TokenType:
    """`!gpu.async.token`."""

    def __str__(self) -> str:
        return "!gpu.async.token"


@dataclass(frozen=True, slots=True)
class NoneType:
    """`none`."""

    def __str__(self) -> str:
        return "none"


@dataclass(frozen=True, slots=True)
class OpaqueType:
    """Any other type, by its text."""

    text: str

    def __str__(self) -> str:
        return self.text


Type = (
    IntegerType
    | IndexType
    | FloatType
    | MemRefType
    | VectorType
    | TensorType
    | PointerType
    | StructType
    | LLVMArrayType
    | FunctionType
    | TokenType
    | NoneType
    | OpaqueType
)

_SIMPLE: dict[str, Type] = {
    "index": IndexType(),
    "none": NoneType(),
    "!gpu.async.token": TokenType(),
    "!llvm.ptr": PointerType(),
}


@lru_cache(maxsize=65536)
def parse_type(text: str) -> Type:
    """The type that `text` spells. Never raises: what is not known or not well formed is an OpaqueType."""
    return _parse(text.strip(), 0, inner=False)


def same_type(left: str, right: str) -> bool:
    """Whether two texts spell one type (white space, `!llvm.ptr<0>`, long and short inner LLVM spellings)."""
    if left == right:
        return True
    first, second = parse_type(left), parse_type(right)
    if isinstance(first, OpaqueType) or isinstance(second, OpaqueType):
        return "".join(left.split()) == "".join(right.split())
    return first == second


def _parse(text: str, depth: int, *, inner: bool) -> Type:
    """`inner`: inside an LLVM type, where `ptr`, `struct` and `array` need no prefix."""
    simple = _SIMPLE.get(text)
    if simple is not None:
        return simple
    if depth > _MAXIMUM_DEPTH:
        return OpaqueType(text)
    try:
        found = _parse_scalar(text) or _parse_compound(text, depth + 1, inner=inner)
    except (LexError, AttributeTextError):
        found = None
    return OpaqueType(text) if found is None else found


def _parse_scalar(text: str) -> Type | None:
    integer = _INTEGER.fullmatch(text)
    if integer is not None:
        return IntegerType(int(integer[2]), integer[1][:-1])
    return FloatType(text) if _FLOAT.fullmatch(text) else None


def _parse_compound(text: str, depth: int, *, inner: bool) -> Type | None:
    shaped = _SHAPED.fullmatch(text)
    if shaped is not None:
        return _parse_shaped(shaped[1], shaped[2], depth)
    if text.startswith("("):
        return _parse_function(text, depth)
    llvm = _LLVM.fullmatch(text)
    if llvm is None or not (inner or text.startswith("!")):
        return None
    kind, body = llvm[1], llvm[2]
    if kind == "ptr":
        return PointerType() if body is None else PointerType(int(body)) if body.strip().isdecimal() else None
    if body is None:
        return None
    if kind == "array":
        count = _COUNT.match(body)
        return (
            None
            if count is None
            else LLVMArrayType(int(count[1]), _parse(body[count.end() :].strip(), depth, inner=True))
        )
    return _parse_struct(body, depth)


def _parse_struct(body: str, depth: int) -> Type | None:
    found = _STRUCT_BODY.fullmatch(body)
    if found is None:
        return None
    fields = tuple(_parse(part, depth, inner=True) for part in split_list(found[3]))
    return StructType(fields, found[2] is not None, unquote(found[1]) if found[1] else "")


def _parse_function(text: str, depth: int) -> Type | None:
    end = scan(text, 1, ")")
    rest = text[end + 1 :].lstrip()
    if not rest.startswith("->"):
        return None
    results = rest[2:].strip()
    if results.startswith("(") and scan(results, 1, ")") == len(results) - 1:
        results = results[1:-1]
    elif not results:
        return None
    return FunctionType(_parse_all(text[1:end], depth), _parse_all(results, depth))


def _parse_all(text: str, depth: int) -> tuple[Type, ...]:
    return tuple(_parse(part, depth, inner=False) for part in split_list(text))


def _parse_shaped(kind: str, body: str, depth: int) -> Type | None:
    shape: list[Dimension] = []
    position = 0
    while (found := _DIMENSION.match(body, position)) is not None:
        shape.append(None if found[1] == "?" else int(found[1]))
        position = found.end()
    parts = split_list(body[position:])
    if not parts or not parts[0] or parts[0][0] in "*[":
        return None
    element = _parse(parts[0], depth, inner=False)
    if kind == "memref":
        return _make_memref(tuple(shape), element, parts[1:])
    if len(parts) != 1:
        return None
    if kind == "tensor":
        return TensorType(tuple(shape), element)
    static = tuple(extent for extent in shape if extent is not None)
    return VectorType(static, element) if len(static) == len(shape) else None


def _make_memref(shape: tuple[Dimension, ...], element: Type, extra: tuple[str, ...]) -> Type | None:
    layout = space = ""
    for part in extra:
        if part.startswith(("strided<", "affine_map<")) and not layout and not space:
            layout = part
        elif part and not space:
            space = part
        else:
            return None
    strides, offset = _layout_form(shape, layout)
    return MemRefType(shape, element, strides, offset, layout, space)


def _layout_form(shape: tuple[Dimension, ...], layout: str) -> tuple[tuple[Dimension, ...] | None, Dimension]:
    if not layout:
        return row_major(shape), 0
    strided = _STRIDED.fullmatch(layout)
    if strided is not None:
        texts = [part.strip() for part in strided[1].split(",")] if strided[1].strip() else []
        strides = tuple(None if part == "?" else int(part) for part in texts)
        offset = None if strided[2] == "?" else int(strided[2] or 0)
        return (strides, offset) if len(strides) == len(shape) else (None, None)
    if layout.startswith("strided<"):
        return None, None
    mapping = parse_affine_map(layout)
    if mapping.symbols == 0 and str(mapping) == _identity(len(shape)):
        return row_major(shape), 0
    form = strides_of(mapping) if mapping.dims == len(shape) else None
    return (None, None) if form is None else form


def _identity(rank: int) -> str:
    names = ", ".join(f"d{i}" for i in range(rank))
    return f"affine_map<({names}) -> ({names})>"


def row_major(shape: tuple[Dimension, ...]) -> tuple[Dimension, ...]:
    """Row-major strides of `shape`; None left of the first (from the right) dynamic extent."""
    strides: list[Dimension] = []
    step: Dimension = 1
    for extent in reversed(shape):
        strides.append(step)
        step = None if step is None or extent is None else step * extent
    return tuple(reversed(strides))


def _print_shape(shape: tuple[Dimension, ...]) -> str:
    return "".join(f"{'?' if extent is None else extent}x" for extent in shape)

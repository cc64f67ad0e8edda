"""Kinds of values, and every way a value moves between frames of different lanes.

A value in a frame of n lanes is *uniform* (a Python or numpy scalar, or an array whose first axis is 1), a lane array
of shape `(n, …)`, or an object with lanes: `Tagged`, `MemRef`, `Pointer`, or any class with the methods of
`LaneValue` (a dialect may add its own). Anything else (None, tokens) is uniform.

`gather`, `merge` and `select` are the only ways to move values: a derivative's tape hooks into `Tagged.var` there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, cast, runtime_checkable

import ml_dtypes
import numpy as np

from difftest.ir import types
from difftest.ir.types import FloatType, IndexType, IntegerType, Type, VectorType

Data = Any
Index = Any  # an int64 array of lane numbers, or one int for a frame of one lane
ndarray: Any = np.ndarray
where: Any = np.where
UNDEFINED: Any = None  # what a slot holds before its definition has run

_FLOATS: dict[str, Any] = {
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
}


@runtime_checkable
class LaneValue(Protocol):
    """An object with lanes that is not plain data."""

    def gather(self, index: Index, n: int) -> Any:
        """The value of `n` lanes, lane i taken from lane `index[i]` (`index` is an int when n is 1)."""
        ...

    def merge(self, parts: Sequence[tuple[Any, Index]], n: int, dtype: Any) -> Any:
        """The value of `n` lanes that is `part` in lanes `index`, for each part."""
        ...


def dtype_of(kind: Type) -> Any:
    """The numpy dtype of a scalar's data, or of a vector's elements; None for types that are not data."""
    if isinstance(kind, IntegerType):
        return _integer_dtype(kind.width)
    if isinstance(kind, IndexType):
        return np.dtype(np.int64)
    if isinstance(kind, FloatType):
        return _FLOATS.get(kind.name)
    return dtype_of(kind.element) if isinstance(kind, VectorType) else None


def _integer_dtype(width: int) -> Any:
    if width == 1:
        return np.dtype(np.bool_)
    for size in (8, 16, 32, 64):
        if width <= size:
            return np.dtype(f"i{size // 8}")
    return np.dtype(object)


def vector_shape(kind: Type) -> tuple[int, ...]:
    """The static shape of a vector type, `()` for others."""
    return tuple(int(d or 0) for d in kind.shape) if isinstance(kind, VectorType) else ()


def dtype_of_text(text: str) -> Any:
    """`dtype_of` of a type's text, cached."""
    found = _BY_TEXT.get(text, _MISSING)
    if found is _MISSING:
        found = _BY_TEXT[text] = dtype_of(types.parse_type(text))
    return found


_MISSING = object()
_BY_TEXT: dict[str, Any] = {}


class Tagged:
    """Data that is not plain: poison, an error bound, a free sign of zero, or a derivative's variable.

    `poison` and `zero` are None or bool (arrays); `bound` is None (exact) or a float64 (array), infinite where
    nothing is known, and only 0 or infinity for integers; `var` is None or the tape's variable, a `LaneValue`.
    """

    __slots__ = ("bound", "data", "poison", "var", "zero")

    def __init__(self, data: Data, *, poison: Any = None, bound: Any = None, zero: Any = None, var: Any = None) -> None:
        self.data = data
        self.poison = poison
        self.bound = bound
        self.zero = zero
        self.var = var

    def gather(self, index: Index, n: int) -> Any:
        """See `LaneValue`. A lane set that carries no tag any more becomes plain data."""
        return tagged(
            gather(self.data, index, n),
            poison=gather(self.poison, index, n),
            bound=gather(self.bound, index, n),
            zero=gather(self.zero, index, n),
            var=None if self.var is None else self.var.gather(index, n),
        )

    def merge(self, parts: Sequence[tuple[Any, Index]], n: int, dtype: Any) -> Any:
        """See `LaneValue`; parts may be plain."""
        split = [(v if isinstance(v, Tagged) else Tagged(v), i) for v, i in parts]
        variables = [(v.var, i) for v, i in split]
        first: Any = next((v for v, _ in variables if v is not None), None)
        return tagged(
            merge([(v.data, i) for v, i in split], n, dtype),
            poison=_merge_field([(v.poison, i) for v, i in split], n, np.bool_, default=False),
            bound=_merge_field([(v.bound, i) for v, i in split], n, np.float64, default=0.0),
            zero=_merge_field([(v.zero, i) for v, i in split], n, np.bool_, default=False),
            var=None if first is None else first.merge(variables, n, dtype),
        )


def _merge_field(parts: list[tuple[Any, Index]], n: int, dtype: Any, *, default: Any) -> Any:
    if all(v is None for v, _ in parts):
        return None
    return merge([(default if v is None else v, i) for v, i in parts], n, dtype)


def tagged(data: Data, *, poison: Any = None, bound: Any = None, zero: Any = None, var: Any = None) -> Any:
    """`Tagged`, or plain `data` when every field is empty. Fields without an axis become Python scalars."""
    if bound.__class__ is ndarray and bound.ndim == 0:
        bound = bound.item()
    if poison.__class__ is ndarray and poison.ndim == 0:
        poison = poison.item()
    if poison is not None and not any_true(poison):
        poison = None
    if bound is not None and not any_true(bound):
        bound = None
    if zero is not None and not any_true(zero):
        zero = None
    if poison is None and bound is None and zero is None and var is None:
        return data
    return Tagged(data, poison=poison, bound=bound, zero=zero, var=var)


def any_true(mask: Any) -> bool:
    """Whether a scalar or array is non-zero anywhere."""
    return bool(mask.any()) if mask.__class__ is ndarray else bool(mask)


def plain(value: Any) -> Data:
    """The data of a value, tags dropped."""
    return value.data if value.__class__ is Tagged else value


def gather(value: Any, index: Index, n: int) -> Any:
    """`value` seen from a frame of `n` lanes whose lane i is lane `index[i]` of the value's frame."""
    if value.__class__ is ndarray:
        if value.shape[0] == 1:
            return value
        if n != 1:
            return value[index]
        return one(value, index if index.__class__ is int else int(index[0]))
    move = getattr(value, "gather", None)
    return value if move is None else move(index, n)


def one(value: Any, lane: int) -> Any:
    """Lane `lane` of an array as uniform data: Python int or bool, numpy float scalar, or a `(1, …)` vector."""
    if value.ndim > 1:
        return value[lane : lane + 1]
    item = value[lane]
    return item.item() if value.dtype.kind in "bi" else item


def lane_of(value: Any, lane: int) -> Any:
    """Lane `lane` of any value, uniform."""
    return gather(value, lane, 1)


def merge(parts: Sequence[tuple[Any, Index]], n: int, dtype: Any) -> Any:
    """The value of `n` lanes that equals each `part` in its lanes `index`. `dtype` is the data's, None for objects."""
    if len(parts) == 1:
        value, index = parts[0]
        if index.__class__ is int or len(index) == n or is_uniform(value):
            return value
    for value, _ in parts:
        move = getattr(value, "merge", None)
        if move is not None:
            return move(parts, n, dtype)
    first = parts[0][0]
    if dtype is None:
        return _merge_objects(parts, n)
    if all(v is first for v, _ in parts) and first.__class__ is not ndarray:
        return first
    shape: tuple[int, ...] = next((v.shape[1:] for v, _ in parts if v.__class__ is ndarray and v.ndim > 1), ())
    out: Any = np.zeros((n, *shape), dtype)
    for value, index in parts:
        if value is not UNDEFINED:
            out[index] = value
    return out


def _merge_objects(parts: Sequence[tuple[Any, Index]], n: int) -> Any:
    first = next((v for v, _ in parts if v is not UNDEFINED), None)
    if all(v is first or v is UNDEFINED for v, _ in parts):
        return first
    out: Any = np.zeros(n, np.int64)
    for value, index in parts:
        if value is not UNDEFINED:
            out[index] = value
    return out


def is_uniform(value: Any) -> bool:
    """Whether a value is known to be one for all lanes without looking at its elements."""
    if value.__class__ is ndarray:
        return bool(value.shape[0] == 1)
    return not hasattr(value, "gather")


def as_lanes(data: Data, n: int, dtype: Any) -> Any:
    """Plain data as an array with exactly `n` lanes."""
    if data.__class__ is ndarray:
        return data if data.shape[0] == n else np.broadcast_to(data, (n, *data.shape[1:]))
    return np.full(n, data, dtype)


def select(condition: Data, a: Any, b: Any, n: int, dtype: Any) -> Any:
    """`a` where `condition` (a bool or a bool array of n lanes), else `b`, for any kind of value."""
    if condition.__class__ is not ndarray:
        return a if condition else b
    if a is b:
        return a
    if condition.ndim > 1:
        return _select_vector(condition, a, b)
    yes, no = np.flatnonzero(condition), np.flatnonzero(~condition)
    if len(yes) == len(condition):
        return a
    if len(no) == len(condition):
        return b
    return merge([(gather(a, yes, len(yes)), yes), (gather(b, no, len(no)), no)], n, dtype)


def _select_vector(condition: Any, a: Any, b: Any) -> Any:
    if a.__class__ is not Tagged and b.__class__ is not Tagged:
        return where(condition, a, b)
    x, y = (v if isinstance(v, Tagged) else Tagged(v) for v in (a, b))

    def field(p: Any, q: Any, *, default: Any) -> Any:
        if p is None and q is None:
            return None
        return where(condition, default if p is None else p, default if q is None else q)

    return tagged(
        where(condition, x.data, y.data),
        poison=field(x.poison, y.poison, default=False),
        bound=field(x.bound, y.bound, default=0.0),
        zero=field(x.zero, y.zero, default=False),
    )


class MemRef:
    """A memref value: where its elements are.

    `base` is an allocation id (int, or an int64 lane array), `address` the byte address of the buffer that
    `reinterpret_cast` goes back to, `offset`, `sizes` and `strides` count elements; each is an int or a lane array.
    `safe` promises that every element inside `sizes` lies inside the allocation, so that accesses need not look.
    `cell` describes the element's storage. `origin` is the position of element [0, …, 0] in
    the arena, in units of `cell.width` bytes (a vector element takes `cell.count` of them).
    """

    __slots__ = ("address", "base", "cell", "offset", "origin", "safe", "sizes", "strides", "varying")

    def __init__(
        self,
        *,
        base: Any,
        address: Any,
        offset: Any,
        sizes: tuple[Any, ...],
        strides: tuple[Any, ...],
        cell: Any,
        safe: bool,
    ) -> None:
        self.base = base
        self.address = address
        self.offset = offset
        self.sizes = sizes
        self.strides = strides
        self.cell = cell
        self.safe = safe
        self.origin: Any = address // cell.width + offset * cell.count
        self.varying = any(x.__class__ is ndarray for x in (base, address, offset, *sizes, *strides))

    def parts(self) -> tuple[Any, ...]:
        """All numbers, in one fixed order."""
        return (self.base, self.address, self.offset, *self.sizes, *self.strides)

    def rebuilt(self, parts: Sequence[Any], *, safe: bool) -> MemRef:
        """A memref of this element type from numbers in the order of `parts`."""
        rank = len(self.sizes)
        return MemRef(
            base=parts[0],
            address=parts[1],
            offset=parts[2],
            sizes=tuple(parts[3 : 3 + rank]),
            strides=tuple(parts[3 + rank :]),
            cell=self.cell,
            safe=safe,
        )

    def gather(self, index: Index, n: int) -> MemRef:
        """See `LaneValue`."""
        if not self.varying:
            return self
        return self.rebuilt([gather(p, index, n) for p in self.parts()], safe=self.safe)

    def merge(self, parts: Sequence[tuple[Any, Index]], n: int, dtype: Any) -> MemRef:
        """See `LaneValue`."""
        del dtype
        known = [(cast("MemRef", m), i) for m, i in parts if m is not UNDEFINED]
        if all(m is self for m, _ in known) and not self.varying:
            return self
        columns = zip(*(m.parts() for m, _ in known), strict=True)
        merged = [_merge_numbers(list(zip(c, (i for _, i in known), strict=True)), n) for c in columns]
        return self.rebuilt(merged, safe=all(m.safe for m, _ in known))


class Pointer:
    """A pointer value: byte `address` and allocation id `base` (0: none), each an int or an int64 lane array."""

    __slots__ = ("address", "base")

    def __init__(self, *, base: Any, address: Any) -> None:
        self.base = base
        self.address = address

    def gather(self, index: Index, n: int) -> Pointer:
        """See `LaneValue`."""
        if self.base.__class__ is not ndarray and self.address.__class__ is not ndarray:
            return self
        return Pointer(base=gather(self.base, index, n), address=gather(self.address, index, n))

    def merge(self, parts: Sequence[tuple[Any, Index]], n: int, dtype: Any) -> Pointer:
        """See `LaneValue`."""
        del dtype
        known = [(cast("Pointer", p), i) for p, i in parts if p is not UNDEFINED]
        if all(p is self for p, _ in known) and is_uniform(self.base) and is_uniform(self.address):
            return self
        base = _merge_numbers([(p.base, i) for p, i in known], n)
        return Pointer(base=base, address=_merge_numbers([(p.address, i) for p, i in known], n))


def _merge_numbers(parts: list[tuple[Any, Index]], n: int) -> Any:
    first = parts[0][0]
    if all(v.__class__ is int and v == first for v, _ in parts):
        return first
    out: Any = np.zeros(n, np.int64)
    for value, index in parts:
        out[index] = value
    return out

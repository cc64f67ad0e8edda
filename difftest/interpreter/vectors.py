"""Vectors between lanes and memory: what the dialects `vector` and `llvm` share.

A vector value has data of shape `(n, *shape)`, or `(1, *shape)` when it is one for all lanes. A scalar that is made
into elements becomes a *column* of shape `(n, 1, …)`. Tags (poison, bounds, signs of zero) follow their elements.
Derivatives of vectors have no rule.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from difftest.interpreter.access import check_range
from difftest.interpreter.faults import stop, unsupported
from difftest.interpreter.values import MemRef, Tagged, gather, tagged
from difftest.interpreter.values import one as one_lane

if TYPE_CHECKING:
    from difftest.interpreter.cells import Cell
    from difftest.interpreter.frames import Frame
    from difftest.interpreter.memory import Memory
    from difftest.ir.tree import Operation

ndarray: Any = np.ndarray
_FIELDS = (("poison", False), ("bound", 0.0), ("zero", False))


def column(data: Any, dtype: Any, rank: int) -> Any:
    """Scalar data as an array of shape `(n or 1, 1, …)` with `rank` axes after the lanes."""
    array = np.asarray(data, dtype)
    return array.reshape((-1, *(1,) * rank))


def moved(op: Operation, values: Sequence[Any], ranks: Sequence[int], move: Callable[..., Any], dtype: Any) -> Any:
    """`move` applied to the data of `values`, and in the same way to their tags.

    `move` takes arrays with a lane axis (scalars, of rank 0, have only that) and only puts elements elsewhere.
    """
    parts = [v if v.__class__ is Tagged else Tagged(v) for v in values]
    if any(p.var is not None for p in parts):
        raise unsupported(op, "under a derivative")
    data = [_array(p.data, dtype, rank) for p, rank in zip(parts, ranks, strict=True)]
    found: dict[str, Any] = {}
    for name, default in _FIELDS:
        fields = [getattr(p, name) for p in parts]
        if any(f is not None for f in fields):
            full = [
                np.broadcast_to(default if f is None else _spread(f, d), d.shape)
                for f, d in zip(fields, data, strict=True)
            ]
            found[name] = settle(move(*full))
    return tagged(settle(move(*data)), **found)


def unary(move: Callable[[Any], Any]) -> Callable[..., Any]:
    """A move of one operand: gives a lambda its types."""
    return move


def nth_element(at: int) -> Callable[..., Any]:
    """The move that takes element `at` of the last axis."""
    return unary(lambda x: np.ascontiguousarray(x[..., at]))


def _array(data: Any, dtype: Any, rank: int) -> Any:
    return np.asarray(data, dtype).reshape(-1) if rank == 0 else data


def _spread(field: Any, data: Any) -> Any:
    """A tag that is a scalar, per lane, or per element, ready to be broadcast to the data's shape."""
    array = np.asarray(field)
    return array.reshape((-1, *(1,) * (data.ndim - 1))) if array.ndim < data.ndim else array


def settle(array: Any) -> Any:
    """Scalars of one lane become plain scalars; everything else stays."""
    return one_lane(array, 0) if array.ndim == 1 and array.shape[0] == 1 else array


def same_lanes(*arrays: Any) -> list[Any]:
    """The arrays with as many lanes as the widest."""
    n = max(a.shape[0] for a in arrays)
    return [a if a.shape[0] == n else np.broadcast_to(a, (n, *a.shape[1:])) for a in arrays]


class Elements:
    """The places of the elements of one vector per lane in memory, `count` per lane.

    `where` are positions in units of the cell's width, of shape `(n, count)`; `present` marks those that are accessed.
    """

    def __init__(self, frame: Frame, op: Operation, memref: MemRef, where: Any, present: Any) -> None:
        self.frame, self.op, self.memref = frame, op, memref
        n = frame.n
        self.count = int(where.shape[1])
        where = np.broadcast_to(where, (n, self.count)).reshape(-1)
        mask = np.broadcast_to(present, (n, self.count)).reshape(-1)
        self.kept = np.flatnonzero(mask)
        lanes = np.repeat(np.arange(n), self.count)[self.kept]
        width = len(self.kept)
        self.width = width
        self.where: Any = where[self.kept]
        self.inner = frame
        self.base: Any = memref.base
        if width == 0:
            return
        index = 0 if n == 1 else lanes
        self.inner = frame.child(index, width, ()) if n > 1 or width > 1 else frame
        self.base = gather(memref.base, index, width) if memref.base.__class__ is ndarray else memref.base
        if width == 1:
            self.where = int(self.where[0])

    def check(self, memory: Memory) -> None:
        """The elements must lie inside their object."""
        if self.width and not self.memref.safe:
            cell = self.memref.cell
            check_range(self.inner, self.op, memory, self.base, self.where * cell.width, size=cell.size)

    def load(self, memory: Memory, cell: Cell, fill: Any, shape: tuple[int, ...]) -> Any:
        """The elements as a vector; those that are not accessed are taken from `fill` (data or tagged, or None)."""
        self.check(memory)
        loaded = memory.load(self.inner, self.op, self.base, self.where, cell) if self.width else None
        got = loaded if isinstance(loaded, Tagged) else Tagged(loaded)
        rest = fill if isinstance(fill, Tagged) else Tagged(fill)
        if got.var is not None or rest.var is not None:
            raise unsupported(self.op, "under a derivative")
        data = self._assemble(got.data, rest.data, cell.dtype, shape)
        found: dict[str, Any] = {}
        for (name, default), dtype in zip(_FIELDS, (np.bool_, np.float64, np.bool_), strict=True):
            field, other = getattr(got, name), getattr(rest, name)
            if field is not None or other is not None:
                found[name] = self._assemble(
                    default if field is None else field, default if other is None else other, dtype, shape
                )
        return tagged(data, **found)

    def _assemble(self, got: Any, rest: Any, dtype: Any, shape: tuple[int, ...]) -> Any:
        n = self.frame.n
        out: Any = np.zeros((n, self.count), dtype)
        if self.width != n * self.count and rest is not None:
            other = np.asarray(rest, dtype)
            out[:] = other.reshape(-1, 1) if other.ndim < 2 else other.reshape(other.shape[0], -1)
        if self.width:
            out.reshape(-1)[self.kept] = got
        return out.reshape((n, *shape))

    def store(self, memory: Memory, cell: Cell, value: Any) -> None:
        """Write a vector's elements to their places; of elements with one place, the last one stays."""
        self.check(memory)
        if not self.width:
            return
        given = value if value.__class__ is Tagged else Tagged(value)
        if given.var is not None:
            raise unsupported(self.op, "under a derivative")
        tags = {name: self._flat(f, given.data) for name, _ in _FIELDS if (f := getattr(given, name)) is not None}
        flat = tagged(self._flat(given.data, given.data), **tags)
        memory.store(self.inner, self.op, self.base, self.where, flat, cell=cell)

    def _flat(self, field: Any, data: Any) -> Any:
        n = self.frame.n
        full = np.broadcast_to(np.broadcast_to(_spread(field, data), data.shape), (n, *data.shape[1:]))
        return settle(full.reshape(-1)[self.kept])


def place(
    frame: Frame,
    op: Operation,
    memref: MemRef,
    indices: Sequence[Any],
    offsets: Sequence[Any],
    *,
    required: Sequence[bool],
    active: Any,
) -> Elements:
    """The elements at `memref[indices + offsets]`, per axis an offset of shape `(count,)` or `(n, count)`.

    Along a `required` axis every `active` element must be inside (SEMANTICS §7: else UB); along the others elements
    outside are left out. `active` is a mask of shape `(n or 1, count)`.
    """
    where = _lane_column(memref.origin)
    present: Any = np.asarray(active)
    for axis, (index, offset) in enumerate(zip(indices, offsets, strict=True)):
        at = _lane_column(index) + offset
        inside = (at >= 0) & (at < _lane_column(memref.sizes[axis]))
        if required[axis]:
            wrong = np.logical_and(np.logical_not(inside), present)
            if wrong.any():
                raise _outside(frame, op, axis, at, wrong)
        present = np.logical_and(present, inside)
        where = where + at * _lane_column(memref.strides[axis])
    count = max([present.shape[-1], *(np.shape(o)[-1] for o in offsets if np.ndim(o))])
    where, present = np.broadcast_arrays(where, np.broadcast_to(present, (present.shape[0], count)))
    return Elements(frame, op, memref, where, present)


def _lane_column(number: Any) -> Any:
    return number[:, None] if number.__class__ is ndarray else np.full((1, 1), number, np.int64)


def _outside(frame: Frame, op: Operation, axis: int, at: Any, wrong: Any) -> Exception:
    at, wrong = np.broadcast_arrays(at, wrong)
    lane, element = (int(x) for x in np.argwhere(wrong)[0])
    message = f"element {element} of the vector has index {at[lane, element]} in dimension {axis}, which is outside"
    return stop(frame, op, "out-of-bounds", message, lane=lane if frame.n > 1 else 0)

"""vector: loads, stores and transfers (dialect documentation "vector"; SEMANTICS §7)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from difftest.interpreter.affine_index import map_of
from difftest.interpreter.dialects.memref import memref_type, segments
from difftest.interpreter.frames import Frame, Step, sink
from difftest.interpreter.rules import NoRuleError
from difftest.interpreter.values import MemRef, Tagged, plain
from difftest.interpreter.vectors import Elements, place
from difftest.ir.affine import AffineConstant, AffineDim, parse_affine_map
from difftest.ir.attributes import parse_array
from difftest.ir.types import VectorType, parse_type

if TYPE_CHECKING:
    from difftest.interpreter.cells import Cell
    from difftest.interpreter.core import Context
    from difftest.ir.tree import Operation, Value

TRUE = np.ones((1, 1), np.bool_)
Place = Callable[[Frame], Elements]


def vector_type(value: Value) -> VectorType:
    """The fixed-size vector type of a value; others have no rule here."""
    kind = parse_type(value.type)
    if not isinstance(kind, VectorType):
        raise NoRuleError(f"vectors of type {value.type}")
    return kind


class Access:
    """What every op here has: a memref of scalars, its indices, and the vector that is moved."""

    def __init__(self, op: Operation, context: Context, memref: Value, indices: Sequence[Value], vector: Value) -> None:
        self.op = op
        self.memory = context.machine.memory
        self.kind = vector_type(vector)
        self.shape = self.kind.shape
        self.count = int(np.prod(self.shape)) if self.shape else 1
        source = memref_type(memref)
        self.rank = len(source.shape)
        if source.element != self.kind.element:
            raise NoRuleError(f"{vector.type} in memory of type {memref.type}")
        self.cell: Cell = context.cell(str(self.kind.element))
        self.memref = context.slot(memref)
        self.indices = [context.slot(i) for i in indices]

    def indices_in(self, frame: Frame) -> list[Any]:
        """The index operands' data."""
        return [sink(frame, self.op, frame.v[i], "an index") for i in self.indices]

    def trailing(self, axes: Sequence[int | None]) -> list[Any]:
        """Per axis of the memref, how far each element of the vector is from the index.

        `axes[d]` is the axis that dimension d of the vector runs along, None when it repeats one element.
        """
        grid = np.indices(self.shape or (1,)).reshape(max(len(self.shape), 1), -1)
        offsets: list[Any] = [0] * self.rank
        for dimension, axis in enumerate(axes):
            if axis is not None:
                offsets[axis] = offsets[axis] + grid[dimension]
        return [np.zeros(self.count, np.int64) if isinstance(o, int) else o for o in offsets]

    def mask(self, frame: Frame, slot: int | None) -> Any:
        """The mask operand's data as `(n or 1, count)`; a poison mask bit is undefined behaviour."""
        if slot is None:
            return np.ones((1, self.count), np.bool_)
        data = sink(frame, self.op, frame.v[slot], "a mask")
        return np.asarray(data).reshape(-1, self.count) if np.ndim(data) else np.full((1, self.count), data)


def _contiguous(access: Access, mask: int | None) -> Place:
    """Places along the memref's last dimensions, all of them inside."""
    axes = list(range(access.rank - len(access.shape), access.rank))
    if axes and axes[0] < 0:
        raise NoRuleError("a vector of higher rank than its memory")
    offsets = access.trailing(axes)
    required = [True] * access.rank

    def find(frame: Frame) -> Elements:
        memref: MemRef = frame.v[access.memref]
        active = access.mask(frame, mask)
        indices = access.indices_in(frame)
        return place(frame, access.op, memref, indices, offsets, required=required, active=active)

    return find


def _load(op: Operation, context: Context) -> Step:
    """All elements must be inside: past the end is the target's to define, hence undefined here."""
    if parse_type(op.results[0].type) == memref_type(op.operands[0]).element:
        return context.rules.rules["memref.load"](op, context)
    access = Access(op, context, op.operands[0], op.operands[1:], op.results[0])
    return _reader(access, _contiguous(access, None), None, context.slot(op.results[0]))


def _store(op: Operation, context: Context) -> Step:
    if parse_type(op.operands[0].type) == memref_type(op.operands[1]).element:
        return context.rules.rules["memref.store"](op, context)
    access = Access(op, context, op.operands[1], op.operands[2:], op.operands[0])
    return _writer(access, _contiguous(access, None), context.slot(op.operands[0]))


class _Mapped(Access):
    """An access whose indices are results of an affine map."""

    def __init__(
        self, op: Operation, context: Context, memref: Value, operands: Sequence[Value], vector: Value
    ) -> None:
        super().__init__(op, context, memref, (), vector)
        self.map = map_of(op, "map", [context.slot(v) for v in operands], "an index")

    def indices_in(self, frame: Frame) -> list[Any]:
        """The map's results."""
        return list(self.map(frame))


def _affine_load(op: Operation, context: Context) -> Step:
    access = _Mapped(op, context, op.operands[0], op.operands[1:], op.results[0])
    return _reader(access, _contiguous(access, None), None, context.slot(op.results[0]))


def _affine_store(op: Operation, context: Context) -> Step:
    access = _Mapped(op, context, op.operands[1], op.operands[2:], op.operands[0])
    return _writer(access, _contiguous(access, None), context.slot(op.operands[0]))


def _masked_load(op: Operation, context: Context) -> Step:
    """Elements whose mask bit is clear come from the last operand and are not looked at in memory."""
    access = Access(op, context, op.operands[0], op.operands[1:-2], op.results[0])
    find = _contiguous(access, context.slot(op.operands[-2]))
    return _reader(access, find, context.slot(op.operands[-1]), context.slot(op.results[0]))


def _masked_store(op: Operation, context: Context) -> Step:
    access = Access(op, context, op.operands[0], op.operands[1:-2], op.operands[-1])
    return _writer(access, _contiguous(access, context.slot(op.operands[-2])), context.slot(op.operands[-1]))


def _reader(access: Access, find: Place, fill: int | None, result: int) -> Step:
    def run(frame: Frame) -> None:
        other = None if fill is None else frame.v[fill]
        frame.v[result] = find(frame).load(access.memory, access.cell, other, access.shape)

    return run


def _writer(access: Access, find: Place, value: int) -> Step:
    def run(frame: Frame) -> None:
        find(frame).store(access.memory, access.cell, frame.v[value])

    return run


# --- gather and scatter -------------------------------------------------------------------------------------


def _indexed(access: Access, index: int, mask: int) -> Place:
    """Places whose offset along the last dimension is an element of an index vector."""

    def find(frame: Frame) -> Elements:
        memref: MemRef = frame.v[access.memref]
        active = access.mask(frame, mask)
        given = frame.v[index]
        if given.__class__ is Tagged:
            _refuse_poison(frame, access.op, given, active)
        offsets: list[Any] = [np.zeros(access.count, np.int64)] * (access.rank - 1)
        offsets.append(plain(given).reshape(-1, access.count).astype(np.int64))
        required = [True] * access.rank
        indices = access.indices_in(frame)
        return place(frame, access.op, memref, indices, offsets, required=required, active=active)

    return find


def _refuse_poison(frame: Frame, op: Operation, index: Tagged, active: Any) -> None:
    """Poison in an index whose mask bit is clear does no harm."""
    poison = False if index.poison is None else np.asarray(index.poison).reshape(-1, active.shape[-1])
    sink(frame, op, Tagged(0, poison=np.logical_and(poison, active).any(axis=-1), bound=index.bound), "an index")


def _gather(op: Operation, context: Context) -> Step:
    memref, *indices, index, mask, passed = op.operands
    access = Access(op, context, memref, indices, op.results[0])
    find = _indexed(access, context.slot(index), context.slot(mask))
    return _reader(access, find, context.slot(passed), context.slot(op.results[0]))


def _scatter(op: Operation, context: Context) -> Step:
    """Elements with equal indices are written in order: the last one stays."""
    memref, *indices, index, mask, value = op.operands
    access = Access(op, context, memref, indices, value)
    return _writer(access, _indexed(access, context.slot(index), context.slot(mask)), context.slot(value))


# --- transfers ----------------------------------------------------------------------------------------------


def _axes(op: Operation, access: Access) -> list[int | None]:
    """The memref's axis along which each dimension of the vector runs (None: broadcast)."""
    mapping = parse_affine_map(op.get("permutation_map") or "")
    if mapping.dims != access.rank or len(mapping.results) != len(access.shape):
        raise NoRuleError("a transfer whose map does not fit")
    found: list[int | None] = []
    for result in mapping.results:
        if isinstance(result, AffineDim):
            found.append(result.position)
        elif isinstance(result, AffineConstant) and result.value == 0:
            found.append(None)
        else:
            raise NoRuleError("a transfer map that is no permutation or broadcast")
    return found


def _transfer(access: Access, axes: list[int | None], mask: int | None) -> Place:
    """A dimension promised `in_bounds`, and one that no dimension of the vector runs along, must be inside."""
    promised = [text.strip() == "true" for text in parse_array(access.op.get("in_bounds") or "[]")]
    promised += [False] * (len(axes) - len(promised))
    required = [True] * access.rank
    for axis, inside in zip(axes, promised, strict=True):
        if axis is not None:
            required[axis] = inside
    if mask is not None and [a for a in axes if a is not None] != sorted(a for a in axes if a is not None):
        raise NoRuleError("a masked transfer that permutes")
    if mask is not None and None in axes:
        raise NoRuleError("a masked transfer that repeats elements")
    offsets = access.trailing(axes)

    def find(frame: Frame) -> Elements:
        memref: MemRef = frame.v[access.memref]
        indices = access.indices_in(frame)
        active = access.mask(frame, mask)
        return place(frame, access.op, memref, indices, offsets, required=required, active=active)

    return find


def _transfer_read(op: Operation, context: Context) -> Step:
    """What lies outside, or is masked off, is the padding value."""
    _, indices, _, masked = segments(op, 4)
    access = Access(op, context, op.operands[0], op.operands[1 : 1 + indices], op.results[0])
    mask = context.slot(op.operands[-1]) if masked else None
    find = _transfer(access, _axes(op, access), mask)
    return _reader(access, find, context.slot(op.operands[1 + indices]), context.slot(op.results[0]))


def _transfer_write(op: Operation, context: Context) -> Step:
    """What lies outside, or is masked off, is not written."""
    if op.results:
        raise NoRuleError("tensors")
    _, _, indices, masked = segments(op, 4)
    access = Access(op, context, op.operands[1], op.operands[2 : 2 + indices], op.operands[0])
    mask = context.slot(op.operands[-1]) if masked else None
    return _writer(access, _transfer(access, _axes(op, access), mask), context.slot(op.operands[0]))


def _type_cast(op: Operation, context: Context) -> Step:
    """A static memref of scalars as a memref of one vector, over the same bytes."""
    kind = memref_type(op.results[0])
    if not isinstance(kind.element, VectorType) or kind.shape:
        raise NoRuleError(f"a type cast to {op.results[0].type}")
    cell = context.cell(str(kind.element))
    operand, result = context.slot(op.operands[0]), context.slot(op.results[0])

    def run(frame: Frame) -> None:
        m: MemRef = frame.v[operand]
        address = m.address + m.offset * m.cell.size
        frame.v[result] = MemRef(base=m.base, address=address, offset=0, sizes=(), strides=(), cell=cell, safe=m.safe)

    return run


RULES = {
    "affine.vector_load": _affine_load,
    "affine.vector_store": _affine_store,
    "vector.gather": _gather,
    "vector.load": _load,
    "vector.maskedload": _masked_load,
    "vector.maskedstore": _masked_store,
    "vector.scatter": _scatter,
    "vector.store": _store,
    "vector.transfer_read": _transfer_read,
    "vector.transfer_write": _transfer_write,
    "vector.type_cast": _type_cast,
}

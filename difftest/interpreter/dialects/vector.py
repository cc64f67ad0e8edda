"""vector: moving elements between vectors and scalars (dialect documentation "vector"; SEMANTICS §7).

Element-wise arithmetic on vectors is that of `arith` and `math`. Loads and stores are in `vector_memory`, operations
that combine elements in `vector_reduce`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from difftest.interpreter.faults import first_lane, stop
from difftest.interpreter.frames import Frame, Step, sink
from difftest.interpreter.rules import NoRuleError
from difftest.interpreter.values import Tagged, dtype_of, tagged, vector_shape
from difftest.interpreter.vectors import moved, nth_element, same_lanes, unary
from difftest.ir.attributes import parse_array, parse_int_array, parse_integer
from difftest.ir.types import parse_type

if TYPE_CHECKING:
    from difftest.interpreter.core import Context
    from difftest.ir.tree import Operation, Value

DYNAMIC = -(1 << 63)
Move = Callable[..., Any]


def shape_of(value: Value) -> tuple[int, ...]:
    """The shape of a vector value, `()` for scalars; scalable vectors and others have no rule."""
    kind = parse_type(value.type)
    if dtype_of(kind) is None:
        raise NoRuleError(f"vectors of type {value.type}")
    return vector_shape(kind)


def mover(op: Operation, context: Context, move: Move, *, operands: Sequence[Value] | None = None) -> Step:
    """A step whose result has the operands' elements in other places."""
    given = op.operands if operands is None else operands
    slots = [context.slot(v) for v in given]
    ranks = [len(shape_of(v)) for v in given]
    result, dtype = context.slot(op.results[0]), dtype_of(parse_type(op.results[0].type))

    def run(frame: Frame) -> None:
        v = frame.v
        v[result] = moved(op, [v[s] for s in slots], ranks, move, dtype)

    return run


def _broadcast(op: Operation, context: Context) -> Step:
    """Leading dimensions are added, and dimensions of size 1 repeated."""
    target = shape_of(op.results[0])

    def move(x: Any) -> Any:
        padded = x.reshape(x.shape[0], *(1,) * (len(target) - x.ndim + 1), *x.shape[1:])
        return np.broadcast_to(padded, (x.shape[0], *target))

    return mover(op, context, move)


def _shape_cast(op: Operation, context: Context) -> Step:
    target = shape_of(op.results[0])
    return mover(op, context, unary(lambda x: x.reshape(x.shape[0], *target)))


def _transpose(op: Operation, context: Context) -> Step:
    axes = [0, *(1 + i for i in parse_int_array(op.get("permutation") or ""))]
    return mover(op, context, unary(lambda x: np.transpose(x, axes)))


def _shuffle(op: Operation, context: Context) -> Step:
    """Mask entries choose rows of both operands one after the other; -1 is poison."""
    mask = np.array(parse_int_array(op.get("mask") or ""), np.int64)

    def move(a: Any, b: Any) -> Any:
        return np.concatenate(same_lanes(a, b), axis=1)[:, np.maximum(mask, 0)]

    step = mover(op, context, move)
    return poisoned_where(op, context, step, mask < 0)


def poisoned_where(op: Operation, context: Context, step: Step, mask: Any) -> Step:
    """`step`, then the result's rows marked in `mask` (along its first dimension) are poison."""
    if not mask.any():
        return step
    result = context.slot(op.results[0])
    rank = len(shape_of(op.results[0]))

    def run(frame: Frame) -> None:
        step(frame)
        value = frame.v[result]
        tag = value if value.__class__ is Tagged else Tagged(value)
        here = np.broadcast_to(mask.reshape(1, -1, *(1,) * (rank - 1)), np.shape(tag.data))
        poison = here if tag.poison is None else np.logical_or(here, tag.poison)
        frame.v[result] = tagged(tag.data, poison=poison, bound=tag.bound, zero=tag.zero, var=tag.var)

    return run


def _interleave(op: Operation, context: Context) -> Step:
    def move(a: Any, b: Any) -> Any:
        pair = np.stack(same_lanes(a, b), axis=-1)
        return pair.reshape(*pair.shape[:-2], -1)

    return mover(op, context, move)


def _deinterleave(op: Operation, context: Context) -> Step:
    operand, rank = context.slot(op.operands[0]), len(shape_of(op.operands[0]))
    results = [context.slot(r) for r in op.results]
    dtype = dtype_of(parse_type(op.results[0].type))

    def run(frame: Frame) -> None:
        value = frame.v[operand]
        for slot, move in zip(results, (unary(lambda x: x[..., ::2]), unary(lambda x: x[..., 1::2])), strict=True):
            frame.v[slot] = moved(op, [value], [rank], move, dtype)

    return run


def _from_elements(op: Operation, context: Context) -> Step:
    target = shape_of(op.results[0])

    def move(*scalars: Any) -> Any:
        rows = same_lanes(*scalars)
        return np.stack(rows, axis=-1).reshape(rows[0].shape[0], *target)

    return mover(op, context, move)


def _to_elements(op: Operation, context: Context) -> Step:
    operand, rank = context.slot(op.operands[0]), len(shape_of(op.operands[0]))
    results = [context.slot(r) for r in op.results]
    dtype = dtype_of(parse_type(op.operands[0].type))

    def run(frame: Frame) -> None:
        flat = moved(op, [frame.v[operand]], [rank], unary(lambda x: x.reshape(x.shape[0], -1)), dtype)
        for number, slot in enumerate(results):
            frame.v[slot] = moved(op, [flat], [1], nth_element(number), dtype)

    return run


# --- positions ----------------------------------------------------------------------------------------------


class Position:
    """A position of `vector.extract` or `vector.insert`: static numbers, dynamic ones, -1 for poison."""

    def __init__(self, op: Operation, context: Context, dynamic: Sequence[Value], shape: tuple[int, ...]) -> None:
        self.op = op
        self.static = parse_int_array(op.get("static_position") or "array<i64>")
        self.shape = shape
        self.slots = [context.slot(v) for v in dynamic]
        self.poison = -1 in self.static

    def read(self, frame: Frame) -> tuple[Any, ...]:
        """One array of shape `(n or 1,)` per dimension, each inside; a dynamic one outside is undefined behaviour."""
        slots = iter(self.slots)
        found: list[Any] = []
        for axis, number in enumerate(self.static):
            at = number
            if number == DYNAMIC:
                at = sink(frame, self.op, frame.v[next(slots)], "a position")
            array = np.asarray(at, np.int64).reshape(-1)
            wrong = np.logical_or(array < 0, array >= self.shape[axis])
            if number == -1:
                array = np.zeros(1, np.int64)
            elif wrong.any():
                message = f"position {array[int(np.argmax(wrong))]} of {self.shape[axis]} elements"
                raise stop(frame, self.op, "out-of-bounds", message, lane=first_lane(wrong))
            found.append(array)
        return tuple(same_lanes(*found)) if found else ()


def _extract(op: Operation, context: Context) -> Step:
    source = op.operands[0]
    position = Position(op, context, op.operands[1:], shape_of(source))
    return _extracted(op, context, source, position)


def _extracted(op: Operation, context: Context, source: Value, position: Position) -> Step:
    operand, rank = context.slot(source), len(shape_of(source))
    result, dtype = context.slot(op.results[0]), dtype_of(parse_type(op.results[0].type))

    def run(frame: Frame) -> None:
        at = position.read(frame)

        def move(x: Any) -> Any:
            n = max([x.shape[0], *(len(p) for p in at[:1])])
            lanes = np.arange(n) if x.shape[0] == n else np.zeros(n, np.int64)
            return x[(lanes, *at)]

        found = moved(op, [frame.v[operand]], [rank], move, dtype)
        if position.poison:
            found = all_poison(found)
        frame.v[result] = found

    return run


def all_poison(value: Any) -> Any:
    """The same data, all of it poison."""
    data = value.data if value.__class__ is Tagged else value
    return Tagged(data, poison=np.ones(np.shape(data), np.bool_) if np.ndim(data) else True)


def _insert(op: Operation, context: Context) -> Step:
    target = op.operands[1]
    position = Position(op, context, op.operands[2:], shape_of(target))
    return _inserted(op, context, (op.operands[0], target), position)


def _inserted(op: Operation, context: Context, operands: tuple[Value, Value], position: Position) -> Step:
    slots = [context.slot(v) for v in operands]
    ranks = [len(shape_of(v)) for v in operands]
    result, dtype = context.slot(op.results[0]), dtype_of(parse_type(op.results[0].type))

    def run(frame: Frame) -> None:
        at = position.read(frame)

        def move(value: Any, into: Any) -> Any:
            n = max([value.shape[0], into.shape[0], *(len(p) for p in at[:1])])
            out = np.broadcast_to(into, (n, *into.shape[1:])).copy()
            out[(np.arange(n), *at)] = value
            return out

        found = moved(op, [frame.v[s] for s in slots], ranks, move, dtype)
        frame.v[result] = all_poison(found) if position.poison else found

    return run


class _Single(Position):
    """The one position operand of `extractelement` and `insertelement`; out of range is undefined, hence UB."""

    def __init__(self, op: Operation, context: Context, dynamic: Sequence[Value], shape: tuple[int, ...]) -> None:
        super().__init__(op, context, dynamic, shape)
        self.static = (DYNAMIC,) * len(dynamic)
        self.poison = False


def extract_element(op: Operation, context: Context) -> Step:
    """One element at a position given as an operand (also `llvm.extractelement`)."""
    source = op.operands[0]
    return _extracted(op, context, source, _Single(op, context, op.operands[1:], shape_of(source)))


def insert_element(op: Operation, context: Context) -> Step:
    """A vector with one element replaced; `llvm.insertelement` has its operands the other way round."""
    first, second = op.operands[:2]
    pair = (first, second) if op.name.startswith("vector.") else (second, first)
    return _inserted(op, context, pair, _Single(op, context, op.operands[2:], shape_of(pair[1])))


# --- slices and masks ---------------------------------------------------------------------------------------


def _numbers(op: Operation, name: str) -> list[int]:
    return [parse_integer(text) for text in parse_array(op.get(name) or "[]")]


def _extract_strided_slice(op: Operation, context: Context) -> Step:
    """Sizes and offsets are in bounds by the verifier; strides other than 1 do not verify."""
    offsets, sizes = _numbers(op, "offsets"), _numbers(op, "sizes")
    window = (slice(None), *(slice(o, o + s) for o, s in zip(offsets, sizes, strict=True)))
    return mover(op, context, unary(lambda x: x[window]))


def _insert_strided_slice(op: Operation, context: Context) -> Step:
    source, target = shape_of(op.operands[0]), shape_of(op.operands[1])
    offsets = _numbers(op, "offsets")
    sizes = [1] * (len(target) - len(source)) + list(source)
    window = (slice(None), *(slice(o, o + s) for o, s in zip(offsets, sizes, strict=True)))

    def move(value: Any, into: Any) -> Any:
        value, into = same_lanes(value, into)
        out = into.copy()
        out[window] = value.reshape(value.shape[0], *sizes)
        return out

    return mover(op, context, move)


def _mask_of(bounds: Sequence[Any], shape: tuple[int, ...]) -> Any:
    """True where the index is below the bound in every dimension; bounds are clamped to the shape."""
    mask: Any = np.ones((1, *shape), np.bool_)
    for axis, bound in enumerate(bounds):
        grid = np.arange(shape[axis]).reshape(1, *(-1 if i == axis else 1 for i in range(len(shape))))
        mask = mask & (grid < np.asarray(bound).reshape(-1, *(1,) * len(shape)))
    return mask


def _constant_mask(op: Operation, context: Context) -> None:
    shape = shape_of(op.results[0])
    context.constant(op.results[0], _mask_of(parse_int_array(op.get("mask_dim_sizes") or ""), shape))


def _create_mask(op: Operation, context: Context) -> Step:
    shape, result = shape_of(op.results[0]), context.slot(op.results[0])
    slots = [context.slot(v) for v in op.operands]

    def run(frame: Frame) -> None:
        bounds = [sink(frame, op, frame.v[s], "a mask's bound") for s in slots]
        frame.v[result] = _mask_of(bounds, shape)

    return run


def _step(op: Operation, context: Context) -> None:
    context.constant(op.results[0], np.arange(shape_of(op.results[0])[0], dtype=np.int64)[np.newaxis])


def _print(op: Operation, context: Context) -> None:
    """Output is not observed (SEMANTICS §7)."""
    del op, context


RULES = {
    "vector.broadcast": _broadcast,
    "vector.constant_mask": _constant_mask,
    "vector.create_mask": _create_mask,
    "vector.deinterleave": _deinterleave,
    "vector.extract": _extract,
    "vector.extract_strided_slice": _extract_strided_slice,
    "vector.extractelement": extract_element,
    "vector.from_elements": _from_elements,
    "vector.insert": _insert,
    "vector.insert_strided_slice": _insert_strided_slice,
    "vector.insertelement": insert_element,
    "vector.interleave": _interleave,
    "vector.print": _print,
    "vector.shape_cast": _shape_cast,
    "vector.shuffle": _shuffle,
    "vector.splat": _broadcast,
    "vector.step": _step,
    "vector.to_elements": _to_elements,
    "vector.transpose": _transpose,
}

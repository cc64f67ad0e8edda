"""vector: operations that combine elements (dialect documentation "vector"; SEMANTICS §7 and §12).

Elements are combined by the rules of `arith`. `vector.reduction` of floats without `reassoc` goes from the first
element to the last, as its lowering does; with it, and for reductions that fix no order, the bound of any order is
added.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from difftest.interpreter.dialects.arith import ELEMENTWISE as ARITH
from difftest.interpreter.dialects.math import ELEMENTWISE as MATH
from difftest.interpreter.dialects.vector import shape_of
from difftest.interpreter.elementwise import evaluator
from difftest.interpreter.float_rules import fast_flags
from difftest.interpreter.frames import Frame, Step
from difftest.interpreter.reductions import order_bound
from difftest.interpreter.rules import ElementwiseRule, NoRuleError
from difftest.interpreter.values import Tagged, dtype_of, plain, tagged
from difftest.interpreter.vectors import moved, nth_element, unary
from difftest.ir.affine import AffineDim, parse_affine_map
from difftest.ir.attributes import parse_array, parse_enum, parse_int_array
from difftest.ir.tree import Operation, Value
from difftest.ir.types import FloatType, VectorType, parse_type

if TYPE_CHECKING:
    from difftest.interpreter.core import Context

Apply = Callable[[Frame, tuple[Any, ...]], Any]
_COMBINERS = {
    "add": ("arith.addi", "arith.addf"),
    "mul": ("arith.muli", "arith.mulf"),
    "minui": ("arith.minui", ""),
    "minsi": ("arith.minsi", ""),
    "maxui": ("arith.maxui", ""),
    "maxsi": ("arith.maxsi", ""),
    "minnumf": ("", "arith.minnumf"),
    "maxnumf": ("", "arith.maxnumf"),
    "minimumf": ("", "arith.minimumf"),
    "maximumf": ("", "arith.maximumf"),
    "and": ("arith.andi", ""),
    "or": ("arith.ori", ""),
    "xor": ("arith.xori", ""),
}


class Fold:
    """Combines the last axis of a vector, with a starting value or without."""

    def __init__(
        self, op: Operation, context: Context, element: str, *, ordered: bool, kind: str | None = None
    ) -> None:
        self.op = op
        self.kind = parse_enum(op.get("kind") or "") if kind is None else kind
        self.dtype = dtype_of(parse_type(element))
        self.floating = isinstance(parse_type(element), FloatType)
        self.apply = _combine(self.kind, element, op, context)
        loose = not ordered or "reassoc" in fast_flags(op)
        self.order = self.kind if loose and self.floating and self.kind in {"add", "mul"} else None

    def run(self, frame: Frame, terms: Any, rank: int, start: Any) -> Any:
        """`terms` has `rank` axes beside the lanes; the result one less."""
        count = plain(terms).shape[-1]

        def term(at: int) -> Any:
            return moved(self.op, [terms], [rank], nth_element(at), self.dtype)

        total = term(0) if start is None else self.apply(frame, (start, term(0)))
        for at in range(1, count):
            total = self.apply(frame, (total, term(at)))
        if self.order is not None:
            total = self._loosened(total, terms, start)
        if self.floating and start is None and self.kind == "add":
            # Lowerings start from a zero of either sign.
            zero = np.equal(plain(total), 0)
            total = _with(total, zero=zero)
        return total

    def _loosened(self, total: Any, terms: Any, start: Any) -> Any:
        data = np.asarray(plain(terms), np.float64)
        count = data.shape[-1]
        groups = int(np.prod(data.shape[:-1]))
        shape = np.shape(plain(total))
        first = (
            np.zeros(groups)
            if start is None
            else np.broadcast_to(np.asarray(plain(start), np.float64), data.shape[:-1])
        )
        result = np.broadcast_to(np.asarray(plain(total), np.float64), data.shape[:-1])
        bound = order_bound(self.order or "", self.dtype, (data, first, result), np.full(groups, count))
        if bound is None:
            return total
        return _with(total, bound=np.asarray(bound).reshape(shape) if shape else float(np.max(bound)))


def _with(value: Any, *, bound: Any = None, zero: Any = None) -> Any:
    """A value with a bound added and signs of zero freed."""
    tag = value if isinstance(value, Tagged) else Tagged(value)
    total = tag.bound if bound is None else bound if tag.bound is None else tag.bound + bound
    free = tag.zero if zero is None else zero if tag.zero is None else np.logical_or(tag.zero, zero)
    return tagged(tag.data, poison=tag.poison, bound=total, zero=free, var=tag.var)


def _combine(kind: str, element: str, op: Operation, context: Context) -> Apply:
    name = _COMBINERS.get(kind, ("", ""))[isinstance(parse_type(element), FloatType)]
    if not name:
        raise NoRuleError(f"combining {element} by {kind}")
    return _apply(name, element, op, context)


def _apply(name: str, element: str, op: Operation, context: Context, *, operands: int = 2) -> Apply:
    """The rule of a scalar op that stands at the same place as `op`, with its fast-math flags."""
    flags = op.get("fastmath") or op.get("fastmathFlags")
    scalar = Operation(
        name, result_types=[element], properties={} if flags is None else {"fastmath": flags}, line=op.line
    )
    scalar.operands = [Value(element, scalar, i) for i in range(operands)]
    scalar.parent = op.parent
    return evaluator(scalar, context)


def _element(value: Value) -> str:
    kind = parse_type(value.type)
    return str(kind.element) if isinstance(kind, VectorType) else value.type


def _reduction(op: Operation, context: Context) -> Step:
    fold = Fold(op, context, _element(op.operands[0]), ordered=True)
    vector, *start = (context.slot(v) for v in op.operands)
    rank, result = len(shape_of(op.operands[0])), context.slot(op.results[0])

    def run(frame: Frame) -> None:
        v = frame.v
        v[result] = fold.run(frame, v[vector], rank, v[start[0]] if start else None)

    return run


def _multi_reduction(op: Operation, context: Context) -> Step:
    """The dimensions listed are combined in an order that nobody fixes."""
    fold = Fold(op, context, _element(op.operands[0]), ordered=False)
    shape = shape_of(op.operands[0])
    reduced = list(parse_int_array(op.get("reduction_dims") or "array<i64>"))
    kept = [d for d in range(len(shape)) if d not in reduced]
    source, start = (context.slot(v) for v in op.operands)
    result = context.slot(op.results[0])
    count = int(np.prod([shape[d] for d in reduced]))
    axes = [0, *(1 + d for d in (*kept, *reduced))]
    sizes = [shape[d] for d in kept]

    def last(x: Any) -> Any:
        return np.transpose(x, axes).reshape(x.shape[0], *sizes, count)

    def run(frame: Frame) -> None:
        v = frame.v
        terms = moved(op, [v[source]], [len(shape)], last, fold.dtype) if reduced else v[source]
        v[result] = fold.run(frame, terms, len(kept) + 1, v[start]) if reduced else fold.apply(frame, (v[start], terms))

    return run


def _outerproduct(op: Operation, context: Context) -> Step:
    """`kind(acc, lhs_i * rhs_j)`; with addition of floats the product and the sum may be fused by lowering to fma."""
    element = _element(op.results[0])
    floating = isinstance(parse_type(element), FloatType)
    left, right, *start = (context.slot(v) for v in op.operands)
    ranks = [len(shape_of(v)) for v in op.operands[:2]]
    kind = parse_enum(op.get("kind") or "#vector.kind<add>")
    multiply = _apply("arith.mulf" if floating else "arith.muli", element, op, context)
    combine = _combine(kind, element, op, context) if start else None
    fused = _apply("math.fma", element, op, context, operands=3) if start and floating and kind == "add" else None
    result, dtype = context.slot(op.results[0]), dtype_of(parse_type(element))

    def run(frame: Frame) -> None:
        v = frame.v
        a = moved(op, [v[left]], [ranks[0]], unary(lambda x: x[:, :, None] if ranks[1] else x), dtype)
        b = moved(op, [v[right]], [ranks[1]], unary(lambda x: x[:, None, :] if ranks[1] else x[:, None]), dtype)
        if fused is not None:
            v[result] = fused(frame, (a, b, v[start[0]]))
            return
        product = multiply(frame, (a, b))
        v[result] = product if combine is None else combine(frame, (v[start[0]], product))

    return run


def _contract(op: Operation, context: Context) -> Step:
    """Products summed over the reduction iterators; floats carry the bound of any order and of fused products."""
    maps = [_positions(text) for text in parse_array(op.get("indexing_maps") or "[]")]
    reduces = ["reduction" in text for text in parse_array(op.get("iterator_types") or "[]")]
    element = _element(op.results[0])
    if len(op.operands) != 3 or len({_element(v) for v in op.operands}) != 1:
        raise NoRuleError("a contraction of mixed types")
    fold = Fold(op, context, element, ordered=False)
    multiply = _apply("arith.mulf" if fold.floating else "arith.muli", element, op, context)
    order = [*maps[2], *(d for d, r in enumerate(reduces) if r)]
    kept = len(maps[2])
    slots = [context.slot(v) for v in op.operands]
    ranks = [len(shape_of(v)) for v in op.operands]
    result = context.slot(op.results[0])

    def spread(positions: Sequence[int]) -> Callable[[Any], Any]:
        def move(x: Any) -> Any:
            inner = [order.index(p) for p in positions]
            axes = [0, *(1 + i for i in np.argsort(inner))]
            shape = [1] * len(order)
            for size, place in zip(x.shape[1:], inner, strict=True):
                shape[place] = size
            return np.transpose(x, axes).reshape(x.shape[0], *shape)

        return move

    def run(frame: Frame) -> None:
        v = frame.v
        a, b = (moved(op, [v[slots[i]]], [ranks[i]], spread(maps[i]), fold.dtype) for i in range(2))
        product = multiply(frame, (a, b))

        def flat(x: Any) -> Any:
            return x.reshape(*x.shape[: 1 + kept], -1)

        terms = moved(op, [product], [len(order)], flat, fold.dtype)
        v[result] = fold.run(frame, terms, kept + 1, v[slots[2]])

    return run


def _positions(text: str) -> list[int]:
    found = [r.position for r in parse_affine_map(text).results if isinstance(r, AffineDim)]
    if len(found) != len(parse_affine_map(text).results):
        raise NoRuleError("a contraction map that is no projection")
    return found


def _fma(op: Operation) -> ElementwiseRule:
    return MATH["math.fma"](op)


def _bitcast(op: Operation) -> ElementwiseRule:
    """Between elements of one width; other widths depend on the target's byte order and have no rule."""
    if shape_of(op.operands[0]) != shape_of(op.results[0]):
        raise NoRuleError("a bitcast that changes the number of elements")
    return ARITH["arith.bitcast"](op)


ELEMENTWISE = {"vector.bitcast": _bitcast, "vector.fma": _fma}
RULES = {
    "vector.contract": _contract,
    "vector.multi_reduction": _multi_reduction,
    "vector.outerproduct": _outerproduct,
    "vector.reduction": _reduction,
}

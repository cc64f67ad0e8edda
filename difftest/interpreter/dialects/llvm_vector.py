"""llvm: vectors, and intrinsics on numbers that only lowered code has (LangRef; SEMANTICS §7)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from difftest.interpreter.dialects.vector import extract_element, insert_element, mover, poisoned_where, shape_of
from difftest.interpreter.dialects.vector_reduce import Fold
from difftest.interpreter.frames import Frame, Step, sink
from difftest.interpreter.numerics import IntKind, int_kind_of
from difftest.interpreter.pointers import memref_from
from difftest.interpreter.rules import Data, ElementwiseRule, NoRuleError, is_array
from difftest.interpreter.values import MemRef, Pointer
from difftest.interpreter.vectors import place, same_lanes
from difftest.ir.attributes import parse_int_array
from difftest.ir.types import VectorType, parse_type

if TYPE_CHECKING:
    from collections.abc import Callable

    from difftest.interpreter.core import Context
    from difftest.ir.tree import Operation, Value


def _shufflevector(op: Operation, context: Context) -> Step:
    """Mask entries choose elements of both operands one after the other; -1 is poison."""
    mask = np.array(parse_int_array(op.get("mask") or ""), np.int64)

    def move(a: Any, b: Any) -> Any:
        return np.concatenate(same_lanes(a, b), axis=1)[:, np.maximum(mask, 0)]

    return poisoned_where(op, context, mover(op, context, move), mask < 0)


_REDUCTIONS = {
    "add": "add", "mul": "mul", "and": "and", "or": "or", "xor": "xor", "smax": "maxsi", "smin": "minsi",
    "umax": "maxui", "umin": "minui", "fadd": "add", "fmul": "mul", "fmax": "maxnumf", "fmin": "minnumf",
    "fmaximum": "maximumf", "fminimum": "minimumf",
}  # fmt: skip


def _reduce(name: str, op: Operation, context: Context) -> Step:
    """Float sums and products start from their first operand and keep the order unless `reassoc`."""
    vector = op.operands[-1]
    kind = parse_type(vector.type)
    if not isinstance(kind, VectorType):
        raise NoRuleError(f"vectors of type {vector.type}")
    fold = Fold(op, context, str(kind.element), ordered=True, kind=_REDUCTIONS[name])
    *start, terms = (context.slot(v) for v in op.operands)
    result, rank = context.slot(op.results[0]), len(shape_of(vector))

    def run(frame: Frame) -> None:
        v = frame.v
        v[result] = fold.run(frame, v[terms], rank, v[start[0]] if start else None)

    return run


# --- masked memory --------------------------------------------------------------------------------------------


class _Masked:
    """The elements behind a pointer whose mask bit is set."""

    def __init__(self, op: Operation, context: Context, vector: Value, pointer: Value, mask: Value) -> None:
        kind = parse_type(vector.type)
        if not isinstance(kind, VectorType) or len(kind.shape) != 1:
            raise NoRuleError(f"vectors of type {vector.type}")
        self.op, self.shape, self.memory = op, kind.shape, context.machine.memory
        self.cell = context.cell(str(kind.element))
        self.pointer, self.mask = context.slot(pointer), context.slot(mask)
        self.offsets = [np.arange(kind.shape[0])]

    def find(self, frame: Frame) -> Any:
        """The elements; those past the end of the object are checked when they are accessed."""
        pointer: Pointer = frame.v[self.pointer]
        parts = [pointer, pointer, 0, self.shape[0], 1]
        memref: MemRef = memref_from(parts, 1, self.cell, self.memory)
        active = np.asarray(sink(frame, self.op, frame.v[self.mask], "a mask")).reshape(-1, self.shape[0])
        return place(frame, self.op, memref, [0], self.offsets, required=[True], active=active)


def _masked_load(op: Operation, context: Context) -> Step:
    pointer, mask, *rest = op.operands
    if len(rest) != 1:
        raise NoRuleError("without a value for masked elements")
    access = _Masked(op, context, op.results[0], pointer, mask)
    fill, result = context.slot(rest[0]), context.slot(op.results[0])

    def run(frame: Frame) -> None:
        frame.v[result] = access.find(frame).load(access.memory, access.cell, frame.v[fill], access.shape)

    return run


def _masked_store(op: Operation, context: Context) -> Step:
    value, pointer, mask = op.operands
    access = _Masked(op, context, value, pointer, mask)
    slot = context.slot(value)

    def run(frame: Frame) -> None:
        access.find(frame).store(access.memory, access.cell, frame.v[slot])

    return run


# --- numbers --------------------------------------------------------------------------------------------------


def _by_python(op: Operation, rule: Callable[[IntKind, tuple[int, ...]], int]) -> ElementwiseRule:
    """A rule on Python ints in the signed range, element by element: these ops are rare."""
    kind = int_kind_of(op.results[0].type)

    def compute(*operands: Data) -> Data:
        if not any(is_array(x) for x in operands):
            return kind.canonical(rule(kind, tuple(int(x) for x in operands)))
        rows = np.broadcast_arrays(*(np.asarray(x) for x in operands))
        found = [kind.wrap(rule(kind, tuple(int(x) for x in row))) for row in zip(*(r.flat for r in rows), strict=True)]
        return np.array(found, kind.dtype).reshape(rows[0].shape)

    return ElementwiseRule(compute=compute)


def _saturate(name: str, kind: IntKind, operands: tuple[int, ...]) -> int:
    """`sadd`, `uadd`, `ssub`, `usub`: the nearest number of the type."""
    signed = name[0] == "s"
    a, b = operands if signed else (x & kind.mask for x in operands)
    exact = a + b if name.endswith("add") else a - b
    low, high = (kind.low, kind.high) if signed else (0, kind.mask)
    return min(max(exact, low), high)


def _funnel(name: str, kind: IntKind, operands: tuple[int, ...]) -> int:
    """The amount counts modulo the width."""
    high, low, amount = (x & kind.mask for x in operands)
    both, by = high << kind.width | low, amount % kind.width
    return both << by >> kind.width if name == "fshl" else both >> by


def _swap_bytes(kind: IntKind, operands: tuple[int, ...]) -> int:
    size = kind.width // 8
    return int.from_bytes((operands[0] & kind.mask).to_bytes(size, "little"), "big")


def _reverse_bits(kind: IntKind, operands: tuple[int, ...]) -> int:
    return int(format(operands[0] & kind.mask, f"0{kind.width}b")[::-1], 2)


def _python_rule(rule: Callable[[IntKind, tuple[int, ...]], int], op: Operation) -> ElementwiseRule:
    return _by_python(op, rule)


def _first(op: Operation, context: Context) -> Step:
    """The result is the first operand; the rest is advice."""
    operand, result = context.slot(op.operands[0]), context.slot(op.results[0])

    def run(frame: Frame) -> None:
        frame.v[result] = frame.v[operand]

    return run


def _nothing(op: Operation, context: Context) -> None:
    """Orders of memory do not change single-location results (SEMANTICS §7); advice has no effect."""
    del op, context


ELEMENTWISE = {
    **{f"llvm.intr.{n}.sat": partial(_python_rule, partial(_saturate, n)) for n in ("sadd", "uadd", "ssub", "usub")},
    **{f"llvm.intr.{n}": partial(_python_rule, partial(_funnel, n)) for n in ("fshl", "fshr")},
    "llvm.intr.bswap": partial(_python_rule, _swap_bytes),
    "llvm.intr.bitreverse": partial(_python_rule, _reverse_bits),
}
RULES: dict[str, Any] = {
    "llvm.extractelement": extract_element,
    "llvm.insertelement": insert_element,
    "llvm.shufflevector": _shufflevector,
    **{f"llvm.intr.vector.reduce.{name}": partial(_reduce, name) for name in _REDUCTIONS},
    "llvm.intr.masked.load": _masked_load,
    "llvm.intr.masked.store": _masked_store,
    "llvm.intr.expect": _first,
    "llvm.fence": _nothing,
    "llvm.intr.prefetch": _nothing,
}

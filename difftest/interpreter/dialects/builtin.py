"""builtin: the module, and casts that change the spelling of a type but not the value."""

from __future__ import annotations

from typing import TYPE_CHECKING

from difftest.interpreter import elementwise
from difftest.interpreter.dialects.arith import ELEMENTWISE as ARITH
from difftest.interpreter.dialects.llvm_memory import descriptor_cast
from difftest.interpreter.faults import unsupported
from difftest.interpreter.values import dtype_of_text

if TYPE_CHECKING:
    from difftest.interpreter.core import Context
    from difftest.interpreter.frames import Frame, Step
    from difftest.ir.tree import Operation


def _cast(op: Operation, context: Context) -> Step:
    """`unrealized_conversion_cast` between types with one representation (index and i64; a memref and its
    descriptor)."""
    if len(op.operands) != 1 or len(op.results) != 1:
        raise unsupported(op, "it changes the number of values")
    described = descriptor_cast(op, context)
    if described is not None:
        return described
    source, target = op.operands[0].type, op.results[0].type
    if {"index", "i32"} == {source, target}:
        # A conversion that runs `index` at 32 bits (SEMANTICS §4): signed both ways.
        return elementwise.wrap(ARITH["arith.index_cast"](op), op, context)
    dtype = dtype_of_text(source)
    if source != target and (dtype is None or dtype != dtype_of_text(target) or dtype.itemsize != 8):
        raise unsupported(op, f"from {source} to {target}")
    operand, result = context.slot(op.operands[0]), context.slot(op.results[0])

    def run(frame: Frame) -> None:
        frame.v[result] = frame.v[operand]

    return run


RULES = {"builtin.unrealized_conversion_cast": _cast}

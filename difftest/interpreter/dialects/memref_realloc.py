"""memref.realloc: new memory with the old beginning; the old one ends (dialect "memref"; SEMANTICS §6)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from difftest.interpreter import views
from difftest.interpreter.dialects.memref import memref_type, mixed
from difftest.interpreter.faults import stop, unsupported
from difftest.interpreter.frames import Frame, Step
from difftest.interpreter.memory import dead
from difftest.interpreter.pointers import raw_copy
from difftest.interpreter.rules import NoRuleError
from difftest.interpreter.values import gather, merge

if TYPE_CHECKING:
    from difftest.interpreter.core import Context
    from difftest.interpreter.memory import Memory
    from difftest.interpreter.values import MemRef
    from difftest.ir.tree import Operation


def _realloc(op: Operation, context: Context) -> Step:
    """Elements beyond the old size are uninitialised; the source must be the alloc's own result, and is freed."""
    kind = memref_type(op.results[0])
    if len(kind.shape) != 1 or memref_type(op.operands[0]).layout or kind.layout:
        raise NoRuleError("a reallocation of memory with a layout")
    cell = context.cell(str(kind.element))
    sizes = mixed(op, context, kind.shape, op.operands[1:])
    operand, result, memory = context.slot(op.operands[0]), context.slot(op.results[0]), context.machine.memory

    def run(frame: Frame) -> None:
        old, wanted = frame.v[operand], tuple(sizes(frame))
        parts: list[tuple[Any, Any]] = []
        for lane in range(frame.n):
            inner = frame if frame.n == 1 else frame.child(lane, 1, ())
            source: MemRef = gather(old, lane, 1)
            size = tuple(gather(s, lane, 1) for s in wanted)
            fresh = views.fresh(inner, op, kind, size, cell=cell, memory=memory, heap=True)
            _move(inner, op, source, fresh, memory)
            parts.append((fresh, lane if frame.n == 1 else [lane]))
        frame.v[result] = merge(parts, frame.n, None)

    return run


def _move(frame: Frame, op: Operation, source: MemRef, target: MemRef, memory: Memory) -> None:
    number: int = source.base
    allocation = memory.table[number]
    if not allocation.alive:
        raise dead(frame, op, allocation)
    if allocation.kind != "alloc" or views.start_of(source) != allocation.start:
        raise stop(frame, op, "bad-free", f"{allocation.kind} memory, or a part of it, is reallocated")
    if frame.level is not None and allocation.level is not frame.level:
        raise unsupported(op, "of memory that other iterations may use")
    count: int = min(int(source.sizes[0]), int(target.sizes[0])) * source.cell.size
    fresh: int = target.base
    raw_copy(memory, allocation, memory.table[fresh], count)
    memory.release(number)


RULES = {"memref.realloc": _realloc}

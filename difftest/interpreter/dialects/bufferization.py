"""bufferization: conditional frees and clones of memrefs (dialect documentation "bufferization").

Deallocation passes leave these between memref programs. Tensors have no rule.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from difftest.interpreter import views
from difftest.interpreter.dialects.memref import copy, memref_type, segments
from difftest.interpreter.faults import stop
from difftest.interpreter.frames import Frame, Step, sink
from difftest.interpreter.rules import NoRuleError
from difftest.interpreter.values import MemRef, gather

if TYPE_CHECKING:
    from difftest.interpreter.core import Context
    from difftest.interpreter.memory import Memory
    from difftest.ir.tree import Operation


def _dealloc(op: Operation, context: Context) -> Step:
    """Frees each memref whose condition holds unless it aliases a retained one; aliases are freed once.

    The results tell, for each retained memref, whether an alias of it was owned: the disjunction of the conditions.
    """
    count, conditions, _ = segments(op, 3)
    if count != conditions:
        raise NoRuleError("as many conditions as memrefs are needed")
    slots = [context.slot(v) for v in op.operands]
    owned = list(zip(slots[:count], slots[count : 2 * count], strict=True))
    retained = slots[2 * count :]
    results, memory = [context.slot(r) for r in op.results], context.machine.memory

    def run(frame: Frame) -> None:
        v = frame.v
        holds = [sink(frame, op, v[condition], "the condition") for _, condition in owned]
        lanes: list[list[bool]] = []
        for lane in range(frame.n):
            memrefs: list[MemRef] = [gather(v[slot], lane, 1) for slot, _ in owned]
            mine = [m for m, flag in zip(memrefs, holds, strict=True) if gather(flag, lane, 1)]
            kept = [int(gather(v[slot], lane, 1).base) for slot in retained]
            for base, memref in {int(m.base): m for m in reversed(mine)}.items():
                if base not in kept:
                    _free(frame, op, memref, lane, memory)
            lanes.append([any(int(m.base) == base for m in mine) for base in kept])
        for slot, column in zip(results, zip(*lanes, strict=True), strict=True):
            v[slot] = column[0] if frame.n == 1 else np.array(column, np.bool_)

    return run


def _free(frame: Frame, op: Operation, memref: MemRef, lane: int, memory: Memory) -> None:
    """As `memref.dealloc`: only a living allocation, from its start."""
    base: int = int(memref.base)
    allocation = memory.table[base]
    if not allocation.alive:
        raise stop(frame, op, "double-free", f"{allocation.kind} memory is freed after its end", lane=lane)
    if allocation.kind != "alloc" or int(views.start_of(memref)) != allocation.start:
        raise stop(frame, op, "bad-free", f"{allocation.kind} memory, or a part of it, is freed", lane=lane)
    memory.release(base)


def _clone(op: Operation, context: Context) -> Step:
    """A copy in memory of its own. Writing to either afterwards is undefined; the copy is what a reader may rely on."""
    kind = memref_type(op.results[0])
    cell = context.cell(str(kind.element))
    operand, result = context.slot(op.operands[0]), context.slot(op.results[0])
    memory = context.machine.memory

    def run(frame: Frame) -> None:
        source: MemRef = frame.v[operand]
        made: Any = views.fresh(frame, op, kind, source.sizes, cell=cell, memory=memory, heap=True)
        copy(frame, op, source, made, memory)
        frame.v[result] = made

    return run


RULES = {"bufferization.clone": _clone, "bufferization.dealloc": _dealloc}

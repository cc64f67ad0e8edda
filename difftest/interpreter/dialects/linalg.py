"""linalg on memrefs: only `fill`, which Enzyme 0.0.14 uses to clear shadows (dialect documentation "linalg")."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from difftest.interpreter.access import all_positions
from difftest.interpreter.rules import NoRuleError
from difftest.interpreter.values import MemRef, gather, plain
from difftest.ir.types import MemRefType, parse_type

if TYPE_CHECKING:
    from difftest.interpreter.core import Context
    from difftest.interpreter.frames import Frame, Step
    from difftest.interpreter.memory import Cell, Memory
    from difftest.ir.tree import Operation, Value


def buffer_cell(value: Value, context: Context) -> Cell:
    """The cell of a memref of scalars, which `fill` can write."""
    kind = parse_type(value.type)
    if not isinstance(kind, MemRefType):
        raise NoRuleError(f"filling a {value.type}")
    cell = context.cell(str(kind.element))
    if cell.count != 1 or cell.pointer:
        raise NoRuleError(f"filling a {value.type}")
    return cell


def fill(frame: Frame, op: Operation, target: MemRef, value: Any, memory: Memory) -> None:
    """Store `value` (uniform or one per lane) to every element of a lane's buffer."""
    where, total = all_positions(target, frame.n)
    if not total:
        return
    n = frame.n
    varying = n > 1 and (where.ndim > 1 or plain(value).__class__ is np.ndarray or target.base.__class__ is np.ndarray)
    if varying:
        index = np.repeat(np.arange(n), total)
        places = np.broadcast_to(where, (n, total)).reshape(-1)
    else:
        index, places = np.zeros(total, np.int64), where.reshape(-1)
    if len(places) == 1:
        index, places = 0, int(places[0])
    elements = frame.child(index, places.size if isinstance(places, np.ndarray) else 1, ())
    memory.store(
        elements, op, gather(target.base, index, elements.n), places, gather(value, index, elements.n), cell=target.cell
    )


def _fill(op: Operation, context: Context) -> Step:
    """The region must yield the value as it is; anything else is another op in disguise."""
    block = op.regions[0].blocks[0]
    if len(op.operands) != 2 or op.results or len(block.ops) != 1 or block.ops[0].operands != [block.arguments[0]]:
        raise NoRuleError("a fill that is not a plain one")
    buffer_cell(op.operands[1], context)
    value, target = (context.slot(v) for v in op.operands)
    memory = context.machine.memory

    def run(frame: Frame) -> None:
        fill(frame, op, frame.v[target], frame.v[value], memory)

    return run


RULES = {"linalg.fill": _fill}

"""Forward mode: tangents travel with the values, and through shadows of memory, in program order (SEMANTICS §11).

Stores overwrite the shadow (a constant stores zero); nothing is accumulated, except by atomic sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from difftest.interpreter import values
from difftest.interpreter.adjoints import Terms
from difftest.interpreter.derivative_arithmetic import stripped
from difftest.interpreter.faults import unsupported
from difftest.interpreter.tape import arithmetic, arithmetic_of_cell, rule_for, variable_of
from difftest.interpreter.tape_memory import Shadows, refuse_shared

if TYPE_CHECKING:
    from difftest.interpreter.atomics import Access
    from difftest.interpreter.frames import Frame
    from difftest.interpreter.memory import Allocation, Cell
    from difftest.ir.tree import Operation

ndarray = np.ndarray


class Tangent:
    """The tangent of a value: data or `Tagged` data with the lanes of the value."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def gather(self, index: Any, n: int) -> Tangent:
        """See `values.LaneValue`."""
        return Tangent(values.gather(self.value, index, n))

    def merge(self, parts: Sequence[tuple[Any, Any]], n: int, dtype: Any) -> Tangent:
        """See `values.LaneValue`; a part without a tangent has a zero one."""
        zero = np.zeros(1, dtype)[0]
        split = [(zero if t is None else cast("Tangent", t).value, index) for t, index in parts]
        return Tangent(values.merge(split, n, dtype))


class ForwardTape:
    """Computes tangents while the primal runs."""

    def __init__(self, shadows: Shadows) -> None:
        self.shadows = shadows

    def elementwise(
        self, frame: Frame, op: Operation, operands: tuple[Any, ...], results: tuple[Any, ...]
    ) -> tuple[Any, ...]:
        """See `elementwise.ElementwiseTape`."""
        del frame
        rule = rule_for(op)
        if rule is None:
            return (None,) * len(results)
        primal = [stripped(o) for o in operands]
        result = arithmetic(op.results[0].type)
        total: Any = None
        for i, operand in enumerate(operands):
            tangent = variable_of(operand)
            if tangent is None:
                continue
            types = (op.operands[i].type, op.results[0].type)
            share = rule(Terms(arithmetic(types[0]), primal, types, reverse=False), i, tangent.value)
            total = share if total is None else result.add(total, share)
        return (Tangent(total),)

    def load(self, frame: Frame, op: Operation, allocation: Allocation, position: Any, cell: Cell) -> Any:
        """See `memory.MemoryTape`."""
        place = self.shadows.find(frame, op, allocation, position, cell)
        if place is None:
            return None
        self.shadows.touch(frame, place, writes=False)
        return Tangent(self.shadows.read(place))

    def store(
        self, frame: Frame, op: Operation, allocation: Allocation, position: Any, value: Any, *, cell: Cell
    ) -> None:
        """See `memory.MemoryTape`."""
        place = self.shadows.find(frame, op, allocation, position, cell)
        if place is None:
            return
        refuse_shared(frame, op, allocation, position)
        self.shadows.touch(frame, place, writes=True)
        tangent = variable_of(value)
        if tangent is None:
            self.shadows.clear(place)
        else:
            self.shadows.write(place, tangent.value)

    def atomic(self, access: Access, allocation: Allocation, value: Any, name: str) -> Any:
        """An atomic sum of values is one of tangents."""
        frame, cell = access.frame, access.cell
        place = self.shadows.find(frame, access.op, allocation, access.position, cell)
        if place is None:
            return None
        if name != "addf":
            raise unsupported(access.op, f"no derivative rule for atomic {name}")
        self.shadows.touch(frame, place, writes=True)
        old = Tangent(self.shadows.read(place))
        tangent = variable_of(value)
        if tangent is not None:
            share = tangent.value
            if frame.n > 1:
                data = values.as_lanes(values.plain(share), frame.n, cell.dtype)
                share = values.tagged(data, bound=getattr(share, "bound", None))
            self.shadows.add(place, share, arithmetic_of_cell(cell))
        return old

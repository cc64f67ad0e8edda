"""Reverse mode by a tape, and forward mode alongside: derivatives of whatever the interpreter executes (SEMANTICS §11).

While a tape is set the interpreter tells it about every element-wise op, load, store and atomic that meets active data,
and moves the variables in `Tagged.var` between frames together with the data. `ReverseTape` remembers what to undo and
`sweep` runs it backwards, so loops, branches, calls and parallel lanes need no rule of their own. Nothing here looks
at Enzyme's code or output: only the rules of section 11 and the table in `adjoints`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from difftest.interpreter import adjoints
from difftest.interpreter.adjoints import Terms
from difftest.interpreter.derivative_arithmetic import Arithmetic, grouped_sum, lanes_of, stripped
from difftest.interpreter.faults import unsupported
from difftest.interpreter.tape_memory import Shadows, refuse_shared
from difftest.interpreter.values import Tagged, as_lanes, dtype_of_text, plain, tagged

if TYPE_CHECKING:
    from difftest.interpreter.atomics import Access
    from difftest.interpreter.frames import Frame
    from difftest.interpreter.memory import Allocation, Cell
    from difftest.ir.tree import Operation

ndarray = np.ndarray
_TEXTS = {"float16": "f16", "bfloat16": "bf16", "float32": "f32", "float64": "f64"}
_arithmetic: dict[str, Arithmetic] = {}


def arithmetic(type_text: str) -> Arithmetic:
    """The (cached) arithmetic of a float type."""
    found = _arithmetic.get(type_text)
    if found is None:
        found = _arithmetic[type_text] = Arithmetic(type_text)
    return found


@lru_cache(maxsize=256)
def arithmetic_of_cell(cell: Cell) -> Arithmetic:
    """The arithmetic of a memory cell's element type."""
    name = _TEXTS[cell.dtype.name]
    if cell.shape:
        name = f"vector<{'x'.join(map(str, cell.shape))}x{name}>"
    return arithmetic(name)


def is_float(type_text: str) -> bool:
    """Whether values of this type can carry a derivative."""
    dtype = dtype_of_text(type_text)
    return dtype is not None and dtype.kind not in "biO"


def variable_of(value: Any) -> Any:
    """The derivative variable of a value, or None."""
    return value.var if value.__class__ is Tagged else None


def rule_for(op: Operation) -> adjoints.Rule | None:
    """The derivative rule of an op whose results may carry derivatives; None when they cannot (integers, booleans)."""
    if not any(is_float(v.type) for v in op.results):
        return None
    rule = adjoints.RULES.get(op.name)
    if rule is None or len(op.results) != 1:
        raise unsupported(op, f"no derivative rule for {op.name}")
    return rule


class Variable:
    """What a primal value's adjoint is collected in: `n` lanes (1: one value shared by all lanes)."""

    __slots__ = ("a", "adjoint", "n", "tape")

    def __init__(self, tape: ReverseTape, n: int, a: Arithmetic) -> None:
        self.tape = tape
        self.n = n
        self.a = a
        self.adjoint: Any = None

    def add(self, share: Any) -> None:
        """Add to the adjoint: lanes are summed for a shared value, one value is given to all lanes."""
        lanes = lanes_of(share)
        if self.n == 1 and lanes > 1:
            share = grouped_sum(share, np.zeros(lanes, np.int64), 1, self.a)
        elif self.n > lanes:
            share = tagged(
                as_lanes(plain(share), self.n, self.a.kind.dtype).copy(), bound=getattr(share, "bound", None)
            )
        self.adjoint = share if self.adjoint is None else self.a.add(self.adjoint, share)

    def take(self) -> Any:
        """The adjoint, which is final once everything that used the value has been undone."""
        found, self.adjoint = self.adjoint, None
        return found

    def gather(self, index: Any, n: int) -> Variable:
        """See `values.LaneValue`: the lanes' adjoints flow back to the lanes they came from."""
        if self.n == 1:
            return self
        child = Variable(self.tape, 1 if n == 1 else n, self.a)
        places = np.broadcast_to(np.asarray(index, np.int64).reshape(-1), (n,))

        def undo() -> None:
            g = child.take()
            if g is not None:
                spread = tagged(as_lanes(plain(g), n, self.a.kind.dtype), bound=getattr(g, "bound", None))
                summed = grouped_sum(spread, places, self.n, self.a)
                self.add(summed)

        self.tape.nodes.append(undo)
        return child

    def merge(self, parts: Sequence[tuple[Any, Any]], n: int, dtype: Any) -> Variable:
        """See `values.LaneValue`: of parts that share a lane the last one holds it."""
        del dtype
        child = Variable(self.tape, n, self.a)
        owner = np.full(n, -1, np.int64)
        for number, (_, index) in enumerate(parts):
            owner[index] = number

        def undo() -> None:
            g = child.take()
            if g is None:
                return
            for number, (var, index) in enumerate(parts):
                if var is None:
                    continue
                places = np.asarray(index, np.int64).reshape(-1)
                mine = owner[places] == number
                share = tagged(plain(g)[places], bound=_rows(g, places))
                cast("Variable", var).add(
                    share if mine.all() else self.a.where(_column(mine, share), share, self.a.zero)
                )

        self.tape.nodes.append(undo)
        return child


def _rows(value: Any, places: Any) -> Any:
    bound: Any = value.bound if value.__class__ is Tagged else None
    return bound[places] if bound.__class__ is ndarray and bound.shape[0] > 1 else bound


def _column(mask: Any, value: Any) -> Any:
    return mask.reshape(-1, *[1] * (plain(value).ndim - 1))


class ReverseTape:
    """Records the execution of a region; `sweep` undoes it."""

    def __init__(self, shadows: Shadows) -> None:
        self.shadows = shadows
        self.nodes: list[Callable[[], None]] = []

    def sweep(self) -> None:
        """Run all adjoints, last first."""
        nodes = self.nodes
        while nodes:
            nodes.pop()()

    def elementwise(
        self, frame: Frame, op: Operation, operands: tuple[Any, ...], results: tuple[Any, ...]
    ) -> tuple[Any, ...]:
        """See `elementwise.ElementwiseTape`."""
        del frame
        rule = rule_for(op)
        if rule is None:
            return (None,) * len(results)
        variables = [variable_of(o) for o in operands]
        active = [(i, v) for i, v in enumerate(variables) if v is not None]
        n = max(lanes_of(results[0]), *(v.n for _, v in active))
        out = Variable(self, n, arithmetic(op.results[0].type))
        primal = [stripped(o) for o in operands]

        def undo() -> None:
            g = out.take()
            if g is None:
                return
            for i, v in active:
                types = (op.operands[i].type, op.results[0].type)
                v.add(rule(Terms(v.a, primal, types, reverse=True), i, g))

        self.nodes.append(undo)
        return (out,)

    def load(self, frame: Frame, op: Operation, allocation: Allocation, position: Any, cell: Cell) -> Any:
        """See `memory.MemoryTape`: the shadow gains the adjoint."""
        place = self.shadows.find(frame, op, allocation, position, cell)
        if place is None:
            return None
        self.shadows.touch(frame, place, writes=True)
        n = len(position) if position.__class__ is ndarray else 1
        out = Variable(self, n, arithmetic_of_cell(cell))

        def undo() -> None:
            g = out.take()
            if g is not None:
                self.shadows.add(place, g, out.a)

        self.nodes.append(undo)
        return out

    def store(
        self, frame: Frame, op: Operation, allocation: Allocation, position: Any, value: Any, *, cell: Cell
    ) -> None:
        """See `memory.MemoryTape`: the value's adjoint gains the shadow, which becomes zero."""
        place = self.shadows.find(frame, op, allocation, position, cell)
        if place is None:
            return
        refuse_shared(frame, op, allocation, position)
        self.shadows.touch(frame, place, writes=True)
        variable = variable_of(value)

        def undo() -> None:
            if variable is not None:
                variable.add(self.shadows.read(place))
            self.shadows.clear(place)

        self.nodes.append(undo)

    def atomic(self, access: Access, allocation: Allocation, value: Any, name: str) -> Any:
        """An atomic sum: the value's adjoint gains the shadow, which stays; a used old value adds its adjoint."""
        frame, cell = access.frame, access.cell
        place = self.shadows.find(frame, access.op, allocation, access.position, cell)
        if place is None:
            return None
        if name != "addf":
            raise unsupported(access.op, f"no derivative rule for atomic {name}")
        self.shadows.touch(frame, place, writes=True)
        variable = variable_of(value)
        out = Variable(self, frame.n, arithmetic_of_cell(cell))

        def undo() -> None:
            if variable is not None:
                share = self.shadows.read(place)
                # A shared cell is updated once per lane, also where all lanes add one value.
                share = tagged(as_lanes(plain(share), frame.n, cell.dtype), bound=getattr(share, "bound", None))
                variable.add(share if frame.n > 1 else self.shadows.read(place))
            g = out.take()
            if g is not None:
                self.shadows.add(place, g, out.a)

        self.nodes.append(undo)
        return out

    def input(self, n: int, type_text: str) -> Variable:
        """A variable for an active argument: its own lane in every iteration."""
        return Variable(self, n, arithmetic(type_text))

"""Traces: what chosen ops compute, lane by lane, in the order in which they run."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from difftest.interpreter.values import Pointer, Tagged, any_true, lane_of

if TYPE_CHECKING:
    from difftest.interpreter.agents import Agent, HostLevel
    from difftest.interpreter.core import Context
    from difftest.interpreter.epochs import Log
    from difftest.interpreter.frames import Frame, Step
    from difftest.ir.tree import Operation

LIMIT = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Traced:
    """One execution of an op in one lane: values as text, `iteration` outermost first."""

    op: str
    line: int
    iteration: tuple[int, ...]
    operands: tuple[str, ...]
    results: tuple[str, ...]

    def as_text(self) -> str:
        """One line."""
        where = f" {list(self.iteration)}" if self.iteration else ""
        left = f"{', '.join(self.results)} = " if self.results else ""
        return f"line {self.line}{where}: {left}{self.op}({', '.join(self.operands)})"


class Tracer:
    """Records executions of the ops called `names`, `limit` of them at most; `dropped` counts the rest.

    Subclasses may follow device operations too; with `watches_host`, also those of programs without tokens.
    """

    watches_host: bool = False

    def __init__(self, names: Iterable[str], *, limit: int = LIMIT) -> None:
        self.names = frozenset(names)
        self.limit = limit
        self.records: list[Traced] = []
        self.dropped = 0

    def wrap(self, op: Operation, step: Step, context: Context) -> Step:
        """`step`, recorded when `op` is one of those asked for. Constants are folded and never run."""
        if op.name not in self.names:
            return step
        operands = [context.slot(v) for v in op.operands]
        results = [context.slot(v) for v in op.results]

        def run(frame: Frame) -> None:
            before = [frame.v[s] for s in operands]
            step(frame)
            self._record(frame, op, before, [frame.v[s] for s in results])

        return run

    def device_operation(self, host: HostLevel, agent: Agent, *, synchronous: bool) -> None:
        """A launch, copy or allocation on the device is about to run."""
        del host, agent, synchronous

    def host_wait(self, op: Operation, mask: int) -> None:
        """The host has waited at `op` for the operations in `mask`."""
        del op, mask

    def host_access(self, number: int, meets: Callable[[Log], bool]) -> None:
        """The host accesses object `number`; `meets` tells whether it may not be swapped with accesses in a log."""
        del number, meets

    def unordered(self, op: Operation, agent: Agent, number: int) -> bool:
        """`op` races with a pending operation in object `number`; True to note it and go on."""
        del op, agent, number
        return False

    def _record(self, frame: Frame, op: Operation, operands: list[Any], results: list[Any]) -> None:
        for lane in range(frame.n):
            if len(self.records) >= self.limit:
                self.dropped += frame.n - lane
                return
            self.records.append(
                Traced(
                    op=op.name,
                    line=op.line,
                    iteration=frame.iteration(op, lane),
                    operands=tuple(show_value(v, lane) for v in operands),
                    results=tuple(show_value(v, lane) for v in results),
                )
            )


def show_value(value: Any, lane: int) -> str:
    """One lane of any value as text; poison and error bounds are told."""
    mine = lane_of(value, lane)
    if isinstance(mine, Tagged):
        text = show_value(mine.data, 0)
        notes = ["poison"] if mine.poison is not None and any_true(mine.poison) else []
        notes += [f"+-{float(np.max(mine.bound)):g}"] if mine.bound is not None else []
        return f"{text} ({', '.join(notes)})" if notes else text
    if isinstance(mine, Pointer):
        return f"object {mine.base} + address {mine.address}"
    sizes = getattr(mine, "sizes", None)
    if sizes is not None:
        return f"memref {'x'.join(str(s) for s in sizes) or 'of rank 0'} in object {mine.base}"
    return str(mine.tolist() if isinstance(mine, np.ndarray) else mine)

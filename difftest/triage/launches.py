"""What a program does on its device: every launch and copy, what orders it, and what it reads and writes.

The host runs with tokens tracked (SEMANTICS §8 "async"): an operation comes after those that the host has waited for
when it is issued, and after those that its tokens name. Races are collected, not fatal: operations run one after the
other here, so that the run goes on with defined values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from difftest.interpreter import interpret
from difftest.interpreter.agents import Agent, HostLevel
from difftest.interpreter.tracing import Tracer
from difftest.ir.tree import Operation
from difftest.model import Mode, Outcome, Schedule

if TYPE_CHECKING:
    from collections.abc import Sequence

    from difftest.interpreter.core import Context
    from difftest.interpreter.epochs import Log
    from difftest.interpreter.frames import Frame, Step

LAUNCHES = frozenset({"gpu.launch", "gpu.launch_func"})
_MAKERS = frozenset({"memref.alloc", "memref.alloca", "gpu.alloc", "llvm.alloca"})
MOST = 300


@dataclass(slots=True, kw_only=True)
class DeviceOperation:
    """One operation on the device, in the order of issue.

    `before` are the numbers (from 0) of the earlier operations that are over when it starts, `held` those among them
    that it must not overtake because the host used their results first.
    """

    agent: Agent
    op: Operation
    before: frozenset[int]
    held: frozenset[int]
    synchronous: bool

    @property
    def is_launch(self) -> bool:
        """Whether it is a kernel."""
        return self.op.name in LAUNCHES


@dataclass(frozen=True, slots=True, kw_only=True)
class Unordered:
    """A race: `op` (on the host or the device) and operation `number` meet in `buffer`, and nothing orders them."""

    op: Operation
    number: int
    buffer: str


@dataclass(slots=True, kw_only=True)
class Watched:
    """A run of a program with its device operations. `waits` maps an operation to the op at which the host waited."""

    outcome: Outcome
    operations: list[DeviceOperation]
    waits: dict[int, Operation]
    races: list[Unordered]
    labels: dict[int, str]
    dropped: int = 0


@dataclass(slots=True)
class _Notes:
    operations: list[DeviceOperation] = field(default_factory=list[DeviceOperation])
    waits: dict[int, Operation] = field(default_factory=dict[int, Operation])
    races: list[tuple[Operation, int, int]] = field(default_factory=list[tuple[Operation, int, int]])
    labels: dict[int, str] = field(default_factory=dict[int, str])


class LaunchTracer(Tracer):
    """Collects device operations, waits, races and the names of objects; operations beyond `MOST` are counted."""

    watches_host = True

    def __init__(self) -> None:
        super().__init__(())
        self.notes = _Notes()
        self._held: set[int] = set()
        self.beyond = 0

    def wrap(self, op: Operation, step: Step, context: Context) -> Step:
        """Name what `op` allocates."""
        if op.name not in _MAKERS or not op.results:
            return step
        slot, labels = context.slot(op.results[0]), self.notes.labels

        def run(frame: Frame) -> None:
            step(frame)
            base = getattr(frame.v[slot], "base", None)
            for number in np.atleast_1d(np.asarray(-1 if base is None else base)):
                labels[int(number)] = f"{op.name} at line {op.line}"

        return run

    def device_operation(self, host: HostLevel, agent: Agent, *, synchronous: bool) -> None:
        """See `Tracer`."""
        if len(self.notes.operations) >= MOST:
            self.beyond += 1
            return
        if not self.notes.operations:
            given = (a.number for a in host.memory.table if a.kind == "argument")
            self.notes.labels.update((number, f"arg{i}") for i, number in enumerate(given))
        pending = {a.number for a in host.pending}
        # Agents are numbered from 1.
        over = {n for n in range(1, agent.number) if n not in pending or agent.before >> n & 1}
        found = DeviceOperation(
            agent=agent,
            op=agent.op,
            before=frozenset(n - 1 for n in over),
            held=frozenset(self._held),
            synchronous=synchronous,
        )
        self.notes.operations.append(found)

    def host_wait(self, op: Operation, mask: int) -> None:
        """See `Tracer`."""
        for position, found in enumerate(self.notes.operations):
            if mask >> found.agent.number & 1:
                self.notes.waits.setdefault(position, op)

    def host_access(self, number: int, meets: Callable[[Log], bool]) -> None:
        """See `Tracer`."""
        for position, found in enumerate(self.notes.operations):
            log = found.agent.logs.get(number)
            if position not in self._held and log is not None and meets(log):
                self._held.add(position)

    def unordered(self, op: Operation, agent: Agent, number: int) -> bool:
        """See `Tracer`."""
        self.notes.races.append((op, agent.number - 1, number))
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """What one operation does to one object: `how` is read, write or atomic; `size` counts bytes."""

    buffer: str
    how: str
    size: int


def accesses(operation: DeviceOperation, labels: Mapping[int, str]) -> tuple[Access, ...]:
    """The read and write sets of an operation, by object."""
    found: list[Access] = []
    for number, log in sorted(operation.agent.logs.items()):
        if log.deferred:
            log.settle()
        for how, table in (("read", log.reads), ("write", log.writes), ("atomic", log.atomics)):
            size = 0 if table is None else int(np.count_nonzero(table.high >= 0)) * log.granule
            if size:
                found.append(Access(buffer=labels.get(number, f"object {number}"), how=how, size=size))
    return tuple(found)


def watch_launches(
    module: Operation, *, entry: str, arguments: Sequence[Any], mode: Mode = Mode.INTERMEDIATE
) -> Watched:
    """Run a module and note what happens on its device; the outcome is `interpret`'s, but races do not end it."""
    tracer = LaunchTracer()
    outcome = interpret(module, entry=entry, arguments=arguments, mode=mode, schedule=Schedule.LOCK_STEP, tracer=tracer)
    labels = tracer.notes.labels
    races = [
        Unordered(op=op, number=number, buffer=labels.get(object_, f"object {object_}"))
        for op, number, object_ in tracer.notes.races
        if number < MOST
    ]
    return Watched(
        outcome=outcome,
        operations=tracer.notes.operations,
        waits=tracer.notes.waits,
        races=races,
        labels=labels,
        dropped=tracer.beyond,
    )

"""Asynchronous operations and the host as agents of the race rules (SEMANTICS §8 "async", §9).

An asynchronous op runs at once, but what it touched stays pending until the host waits for it: any access that no token
orders after it, by the host or by another op, is a race when one of the two writes. Host code is watched only in
programs that need it (`watch`); there its frames stand in the `HostLevel`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from difftest.interpreter.checks import Level, Log
from difftest.interpreter.faults import stop
from difftest.model import OutcomeKind

if TYPE_CHECKING:
    from difftest.interpreter.core import Machine
    from difftest.interpreter.frames import Frame, Step
    from difftest.interpreter.memory import Allocation, Memory
    from difftest.ir.tree import Operation

DEVICE = "device"
SHARED_WITH_HOST = "host-shared device"


class Token:
    """A `!gpu.async.token`: the operations (as bits of `mask`) that have ended once it is ready."""

    __slots__ = ("mask",)

    def __init__(self, mask: int) -> None:
        self.mask = mask


class Agent(Level):
    """One operation on the device, seen by the host; `before` are the operations that its tokens order before it."""

    __slots__ = ("before", "number")

    def __init__(self, *, number: int, before: int, op: Operation, memory: Memory) -> None:
        super().__init__(parent=None, ancestors=0, size=1, op=op, memory=memory)
        self.number = number
        self.before = before

    def touch_all(self, allocation: Allocation) -> None:
        """Count the birth or death of a whole object as a write of all of it."""
        log = self.log(allocation, 1)
        log.write_op = self.op
        log.refine(1)
        log.writes = log.table()
        log.writes.touch(np.arange(allocation.size), 0, 0)


class HostLevel(Level):
    """The host's own accesses: nothing is kept of them, each is compared with the pending operations."""

    __slots__ = ("machine", "next", "pending")

    def __init__(self, machine: Machine) -> None:
        super().__init__(parent=None, ancestors=0, size=1, op=machine.module, memory=machine.memory)
        self.machine = machine
        self.pending: list[Agent] = []
        self.next = 0

    def agent(self, op: Operation, before: int) -> Agent:
        """A new operation."""
        self.next += 1
        return Agent(number=self.next, before=before, op=op, memory=self.memory)

    def wait(self, mask: int) -> None:
        """The host has seen the end of the operations in `mask`."""
        self.pending = [a for a in self.pending if not mask >> a.number & 1]

    def compare(self, frame: Frame, agent: Agent) -> None:
        """Races of a finished operation with those that are pending and not ordered before it."""
        for other in self.pending:
            if agent.before >> other.number & 1:
                continue
            for number in agent.logs.keys() & other.logs.keys():
                if collide(agent.logs[number], other.logs[number]):
                    self.race(frame, agent.op, other, number)

    def read(self, frame: Frame, op: Operation, allocation: Allocation, *, lanes: Any, where: Any, width: int) -> None:
        """A plain read by the host."""
        del lanes
        self._access(frame, op, allocation, (where, width), writes=False)

    def write(
        self,
        frame: Frame,
        op: Operation,
        allocation: Allocation,
        *,
        lanes: Any,
        where: Any,
        width: int,
        same: Callable[[], Any],
    ) -> bool:
        """A plain write by the host. False: no other lane has written the cell."""
        del lanes, same
        self._access(frame, op, allocation, (where, width), writes=True)
        return False

    def atomic(self, frame: Frame, op: Operation, allocation: Allocation, *, lanes: Any, where: Any, width: int) -> Any:
        """An atomic update by the host. False: nobody contends."""
        del lanes
        self._access(frame, op, allocation, (where, width), writes=True)
        return False

    def _access(
        self, frame: Frame, op: Operation, allocation: Allocation, place: tuple[Any, int], *, writes: bool
    ) -> None:
        self.refuse_device_memory(frame, op, allocation)
        tracer = self.machine.tracer
        if tracer is not None:
            tracer.host_access(allocation.number, lambda log: _meets(log, place, writes=writes))
        for agent in self.pending:
            log = agent.logs.get(allocation.number)
            if log is not None and _meets(log, place, writes=writes):
                self.race(frame, op, agent, allocation.number)

    def refuse_device_memory(self, frame: Frame, op: Operation, allocation: Allocation) -> None:
        """Memory of `gpu.alloc` without `host_shared` is not the host's to touch (source mode; SEMANTICS §8)."""
        if allocation.kind == DEVICE and self.machine.source:
            message = "the host accesses memory of gpu.alloc, which is not host_shared"
            raise stop(frame, op, "host-access", message)

    def absorb(self, frame: Frame, allocation: Allocation, log: Log, child: Level) -> None:
        """What a parallel loop on the host did."""
        self.refuse_device_memory(frame, child.op, allocation)
        tracer = self.machine.tracer
        if tracer is not None:
            tracer.host_access(allocation.number, lambda theirs: collide(theirs, log))
        for agent in self.pending:
            theirs = agent.logs.get(allocation.number)
            if theirs is not None and collide(theirs, log):
                self.race(frame, child.op, agent, allocation.number)

    def race(self, frame: Frame, op: Operation, agent: Agent, number: int) -> None:
        """`op` meets a pending operation in object `number`: the end of the run, unless a tracer collects races."""
        tracer = self.machine.tracer
        if tracer is None or not tracer.unordered(op, agent, number):
            raise _race(frame, op, agent)


def _race(frame: Frame, op: Operation, agent: Agent) -> Exception:
    other = agent.op
    message = f"memory is accessed here and by {other.name} (line {other.line}), and no token orders the two"
    return stop(frame, op, "race", message, kind=OutcomeKind.RACE)


def _meets(log: Log, place: tuple[Any, int], *, writes: bool) -> bool:
    """Whether a host access to `place` (units of a width, that width) and what `log` holds cannot be swapped."""
    if log.deferred:
        log.settle()
    start, times = log.locate(*place)
    flat = start if times == 1 else (np.asarray(start).reshape(-1, 1) + np.arange(times)).reshape(-1)
    tables = (log.writes, log.atomics, log.reads if writes else None)
    return any(t is not None and bool(np.any(t.high[flat] >= 0)) for t in tables)


def collide(a: Log, b: Log) -> bool:
    """Whether two sets of accesses to one object meet in a byte that one of them writes (two atomics may meet)."""
    for log in (a, b):
        if log.deferred:
            log.settle()
    granule = min(a.granule, b.granule)
    for log in (a, b):
        if log.granule != granule:
            log.refine(granule)
    plain = [_touched(log.writes) for log in (a, b)]
    atomic = [_touched(log.atomics) for log in (a, b)]
    read = [_touched(log.reads) for log in (a, b)]
    for mine, theirs in ((0, 1), (1, 0)):
        for writes, others in (
            (plain[mine], (plain[theirs], atomic[theirs], read[theirs])),
            (atomic[mine], (read[theirs],)),
        ):
            if writes is not None and any(o is not None and bool(np.any(writes & o)) for o in others):
                return True
    return False


def _touched(table: Any) -> Any:
    return None if table is None else table.high >= 0


def watch(machine: Machine) -> None:
    """Watch host code when the program has asynchronous operations or device memory of its own."""
    always = machine.tracer is not None and machine.tracer.watches_host
    for op in machine.module.walk():
        if always or op.name == "gpu.alloc" or any(r.type == "!gpu.async.token" for r in op.results):
            machine.host = machine.memory.host = HostLevel(machine)
            return


def run_on_device(
    frame: Frame, op: Operation, action: Callable[[Frame, Agent | None], None], tokens: Sequence[Any]
) -> Token:
    """Run `action` as one device operation after `tokens`; the returned token is its end.

    A synchronous op (without a token among its results) is waited for. Off the watched host level the operation is
    simply a part of the code around it.
    """
    host = frame.level
    if not isinstance(host, HostLevel):
        action(frame, None)
        return Token(0)
    before = 0
    for token in tokens:
        before |= token.mask
    synchronous = not any(r.type == "!gpu.async.token" for r in op.results)
    if synchronous:
        host.wait(before)
    agent = host.agent(op, before)
    tracer = host.machine.tracer
    if tracer is not None:
        tracer.device_operation(host, agent, synchronous=synchronous)
    frame.level = agent
    action(frame, agent)
    frame.level = host
    host.compare(frame, agent)
    if synchronous:
        return Token(before)
    host.pending.append(agent)
    return Token(before | 1 << agent.number)


def as_device_code(run: Step, op: Operation) -> Step:
    """A step that runs as one synchronous device operation."""

    def action(frame: Frame, agent: Agent | None) -> None:
        del agent
        run(frame)

    def step(frame: Frame) -> None:
        run_on_device(frame, op, action, ())

    return step


def wait_for(frame: Frame, op: Operation, tokens: Sequence[Any]) -> Token:
    """The host waits at `op` for `tokens`."""
    before = 0
    for token in tokens:
        before |= token.mask
    if isinstance(frame.level, HostLevel):
        frame.level.wait(before)
        tracer = frame.level.machine.tracer
        if tracer is not None:
            tracer.host_wait(op, before)
    return Token(before)


def joined(tokens: Sequence[Any]) -> Token:
    """A token that is ready when all `tokens` are."""
    before = 0
    for token in tokens:
        before |= token.mask
    return Token(before)

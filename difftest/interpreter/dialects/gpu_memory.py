"""gpu: tokens and device memory (dialect documentation "gpu"; SEMANTICS §8)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from difftest.interpreter import agents, views
from difftest.interpreter.access import all_positions
from difftest.interpreter.dialects.memref import copy, memref_type, mixed
from difftest.interpreter.faults import stop
from difftest.interpreter.rules import NoRuleError
from difftest.interpreter.values import gather
from difftest.ir.attributes import parse_int_array

if TYPE_CHECKING:
    from difftest.interpreter.agents import Agent
    from difftest.interpreter.core import Context
    from difftest.interpreter.frames import Frame, Step
    from difftest.interpreter.values import MemRef
    from difftest.ir.tree import Operation

ndarray: Any = np.ndarray


def _nothing(op: Operation, context: Context) -> None:
    """No effect here."""
    del op, context


def device_operation(
    op: Operation, context: Context, tokens: Sequence[int], action: Callable[[Frame, Agent | None], None]
) -> Step:
    """A step that runs `action` after its tokens, and hands out its own token when the op is asynchronous."""
    asynchronous = bool(op.results) and op.results[-1].type == "!gpu.async.token"
    result = context.slot(op.results[-1]) if asynchronous else None

    def run(frame: Frame) -> None:
        v = frame.v
        token = agents.run_on_device(frame, op, action, [v[t] for t in tokens])
        if result is not None:
            v[result] = token

    return run


def _wait(op: Operation, context: Context) -> Step:
    """On the host the effects of the tokens become visible; `async` joins them into one token."""
    tokens = [context.slot(v) for v in op.operands]
    result = context.slot(op.results[0]) if op.results else None

    def run(frame: Frame) -> None:
        v = frame.v
        found = [v[t] for t in tokens]
        if result is None:
            agents.wait_for(frame, op, found)
        else:
            v[result] = agents.joined(found)

    return run


def _alloc(op: Operation, context: Context) -> Step:
    """Device memory, uninitialised. Its birth counts as a write, so that nothing may use it before its token."""
    found = parse_int_array(op.get("operandSegmentSizes") or "array<i32>")
    if len(found) != 3 or found[2]:
        raise NoRuleError("layout symbols")
    kind = memref_type(op.results[0])
    cell = context.cell(str(kind.element))
    tokens = [context.slot(v) for v in op.operands[: found[0]]]
    sizes = mixed(op, context, kind.shape, op.operands[found[0] :])
    result, memory = context.slot(op.results[0]), context.machine.memory
    name = agents.DEVICE if op.get("hostShared") is None else agents.SHARED_WITH_HOST

    def action(frame: Frame, agent: Agent | None) -> None:
        made = views.fresh(frame, op, kind, tuple(sizes(frame)), cell=cell, memory=memory, heap=True)
        for number in _numbers(made):
            allocation = memory.table[number]
            allocation.kind = name
            if agent is not None:
                allocation.level = None
                agent.touch_all(allocation)
        frame.v[result] = made

    return device_operation(op, context, tokens, action)


def _numbers(memref: MemRef) -> list[int]:
    """The allocations of a memref, by lane when they differ."""
    return [int(b) for b in memref.base] if memref.base.__class__ is ndarray else [memref.base]


def _dealloc(op: Operation, context: Context) -> Step:
    """Counts as a write of the whole object."""
    *tokens, operand = (context.slot(v) for v in op.operands)
    memory = context.machine.memory

    def action(frame: Frame, agent: Agent | None) -> None:
        memref: MemRef = frame.v[operand]
        if frame.n > 1 and memref.base.__class__ is not ndarray:
            raise stop(frame, op, "double-free", "several iterations free one object", lane=1)
        starts: Any = np.broadcast_to(views.start_of(memref), (frame.n,))
        for lane, number in enumerate(_numbers(memref)):
            allocation = memory.table[number]
            if not allocation.alive:
                raise stop(frame, op, "double-free", "device memory is freed after its end", lane=lane)
            if allocation.kind not in {agents.DEVICE, agents.SHARED_WITH_HOST} or starts[lane] != allocation.start:
                raise stop(frame, op, "bad-free", f"{allocation.kind} memory, or a part of it, is freed", lane=lane)
            if agent is not None:
                agent.touch_all(allocation)
            memory.release(number)

    return device_operation(op, context, tokens, action)


def _memcpy(op: Operation, context: Context) -> Step:
    *tokens, target, source = (context.slot(v) for v in op.operands)
    memory = context.machine.memory

    def action(frame: Frame, agent: Agent | None) -> None:
        del agent
        copy(frame, op, frame.v[source], frame.v[target], memory)

    return device_operation(op, context, tokens, action)


def _memset(op: Operation, context: Context) -> Step:
    """Every element becomes the value."""
    *tokens, target, value = (context.slot(v) for v in op.operands)
    memory = context.machine.memory

    def action(frame: Frame, agent: Agent | None) -> None:
        del agent
        for lane in range(frame.n):
            inner = frame if frame.n == 1 else frame.child(lane, 1, ())
            memref: MemRef = gather(frame.v[target], lane, 1)
            where, total = all_positions(memref, 1)
            if total:
                wide = inner if total == 1 else inner.child(0, total, ())
                at = int(where.reshape(-1)[0]) if total == 1 else where.reshape(-1)
                memory.store(wide, op, memref.base, at, gather(frame.v[value], lane, 1), cell=memref.cell)

    return device_operation(op, context, tokens, action)


RULES = {
    "gpu.wait": _wait,
    "gpu.alloc": _alloc,
    "gpu.dealloc": _dealloc,
    "gpu.memcpy": _memcpy,
    "gpu.memset": _memset,
    "gpu.host_register": _nothing,
    "gpu.host_unregister": _nothing,
}
SETUP = agents.watch

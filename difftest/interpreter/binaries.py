"""Launches of kernels that are device code already: the host runs here, the kernel on a device (`Machine.launch`).

The device is a callable `launch(memory, op, path, values, sizes, shared)`: `path` is the kernel's module and name,
`values` its operands (`MemRef`, `Pointer`, numbers), `sizes` grid and block x, y, z, `shared` the bytes of dynamic
shared memory, all of one lane. It raises `Stop` for what a kernel does wrong. Without one a launch is unsupported.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from difftest.interpreter.dialects.gpu_memory import device_operation
from difftest.interpreter.faults import unsupported
from difftest.interpreter.frames import sink
from difftest.interpreter.values import gather

if TYPE_CHECKING:
    from difftest.interpreter.agents import Agent
    from difftest.interpreter.core import Context, Machine
    from difftest.interpreter.frames import Frame, Step
    from difftest.ir.tree import Operation


def launch_binary(op: Operation, context: Context, segments: Sequence[int], path: tuple[str, ...]) -> Step:
    """A step for a `gpu.launch_func` of a `gpu.binary`; `segments` are the op's `operandSegmentSizes`."""
    slots = [context.slot(v) for v in op.operands]
    first = segments[0]
    sizes = slots[first : first + 6]
    dynamic = slots[first + 6] if segments[10] else None
    operands = slots[first + 6 + segments[10] :][: segments[11]]
    machine = context.machine

    def action(frame: Frame, agent: Agent | None) -> None:
        del agent
        v = frame.v
        found = [sink(frame, op, v[s], "a launch size") for s in sizes]
        shared = 0 if dynamic is None else sink(frame, op, v[dynamic], "the size of dynamic shared memory")
        send(machine, frame, op, path=path, values=[v[s] for s in operands], sizes=found, shared=shared)

    return device_operation(op, context, slots[:first], action)


def send(
    machine: Machine,
    frame: Frame,
    op: Operation,
    *,
    path: tuple[str, ...],
    values: Sequence[Any],
    sizes: Sequence[Any],
    shared: Any,
) -> None:
    """Launch a kernel on the device, once per lane of `frame`; a size of 0 launches nothing and is noted."""
    if machine.launch is None:
        raise unsupported(op, f"kernel {'::'.join(path)} is compiled, and no device was given to run it")
    for lane in range(frame.n):
        numbers = [gather(s, lane, 1) for s in sizes]
        if 0 in numbers:
            machine.notes["zero-launch"] = machine.notes.get("zero-launch", 0) + 1
            continue
        mine = [gather(x, lane, 1) for x in values]
        machine.launch(machine.memory, op, path, mine, numbers, gather(shared, lane, 1))

"""async: tasks on the host (dialect documentation "async").

Tasks run where they are started, in program order: one of the orders that are allowed. Races between tasks are not
looked for, so that only programs whose tasks are known to be independent (those that `async-parallel-for` makes) may be
judged by it. The runtime level (`async.runtime.*`, coroutines) has no rule.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from difftest.interpreter.frames import Frame, Step
from difftest.ir.attributes import parse_int_array

if TYPE_CHECKING:
    from difftest.interpreter.core import Context
    from difftest.ir.tree import Operation

DONE = "done"


def _execute(op: Operation, context: Context) -> Step:
    """Results are a token and the values that the region yields; its arguments are the values of awaited operands."""
    sizes = parse_int_array(op.get("operandSegmentSizes") or "array<i32: 0, 0>")
    given = [context.slot(v) for v in op.operands[sizes[0] :]]
    body, machine = context.body(op.regions[0]), context.machine
    token, *values = (context.slot(r) for r in op.results)

    def run(frame: Frame) -> None:
        v = frame.v
        for slot, source in zip(body.arguments, given, strict=True):
            v[slot] = v[source]
        machine.scoped(body, frame)
        v[token] = DONE
        for slot, source in zip(values, body.results, strict=True):
            v[slot] = v[source]

    return run


def _await(op: Operation, context: Context) -> Step:
    """A token gives nothing, a value is handed on."""
    operand = context.slot(op.operands[0])
    results = [context.slot(r) for r in op.results]

    def run(frame: Frame) -> None:
        for slot in results:
            frame.v[slot] = frame.v[operand]

    return run


def _handle(op: Operation, context: Context) -> Step:
    """Groups, and places in them: their tasks have ended already."""
    results = [(context.slot(r), r.type) for r in op.results]

    def run(frame: Frame) -> None:
        for slot, kind in results:
            frame.v[slot] = 0 if kind == "index" else DONE

    return run


def _nothing(op: Operation, context: Context) -> None:
    """Terminators, and waits for tasks that have ended."""
    del op, context


RULES = {
    "async.add_to_group": _handle,
    "async.await": _await,
    "async.await_all": _nothing,
    "async.create_group": _handle,
    "async.execute": _execute,
    "async.yield": _nothing,
}

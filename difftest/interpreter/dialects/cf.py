"""cf: unstructured control flow (dialect documentation "cf"; SEMANTICS §7)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from difftest.interpreter.cfg import Branch
from difftest.interpreter.faults import first_lane, stop
from difftest.interpreter.frames import sink
from difftest.interpreter.rules import NoRuleError
from difftest.ir.attributes import parse_dense, parse_int_array

if TYPE_CHECKING:
    from difftest.interpreter.core import Context
    from difftest.interpreter.frames import Frame, Step
    from difftest.ir.tree import Operation

ndarray: Any = np.ndarray


def _br(op: Operation, context: Context) -> Branch:
    def choose(frame: Frame) -> int:
        del frame
        return 0

    return Branch(choose=choose, arguments=[[context.slot(v) for v in op.operands]])


def _cond_br(op: Operation, context: Context) -> Branch:
    """True takes the first successor; a poison condition is undefined behaviour."""
    segments = op.get("operandSegmentSizes")
    if segments is None:
        raise NoRuleError("cond_br without operandSegmentSizes")
    _, yes, no = parse_int_array(segments)
    slots = [context.slot(v) for v in op.operands]
    condition = slots[0]

    def choose(frame: Frame) -> Any:
        found = sink(frame, op, frame.v[condition], "the condition")
        if found.__class__ is ndarray:
            return np.where(found, 0, 1)
        return 0 if found else 1

    return Branch(choose=choose, arguments=[slots[1 : 1 + yes], slots[1 + yes : 1 + yes + no]])


def _switch(op: Operation, context: Context) -> Branch:
    """The case equal to the flag, else the default (successor 0)."""
    values = op.get("case_values")
    cases: list[int] = [] if values is None else [int(x) for x in parse_dense(values)[0].reshape(-1)]
    counts = parse_int_array(op.get("case_operand_segments") or "array<i32>")
    segments = parse_int_array(op.get("operandSegmentSizes") or "array<i32: 1, 0, 0>")
    slots = [context.slot(v) for v in op.operands]
    flag = slots[0]
    at = 1 + segments[1]
    arguments = [slots[1:at]]
    for count in counts:
        arguments.append(slots[at : at + count])
        at += count
    table = {case: i + 1 for i, case in reversed(list(enumerate(cases)))}

    def choose(frame: Frame) -> Any:
        found = sink(frame, op, frame.v[flag], "the flag")
        if found.__class__ is not ndarray:
            return table.get(int(found), 0)
        choice = np.zeros(len(found), np.int64)
        for case, number in table.items():
            choice[found == case] = number
        return choice

    return Branch(choose=choose, arguments=arguments)


def _assert(op: Operation, context: Context) -> Step:
    """A false condition aborts: nothing after it is judged."""
    condition = context.slot(op.operands[0])

    def run(frame: Frame) -> None:
        found = sink(frame, op, frame.v[condition], "the condition")
        if not np.all(found):
            lane = first_lane(np.logical_not(found))
            raise stop(frame, op, "assertion", f"assertion fails: {op.get('msg') or ''}", lane=lane)

    return run


RULES = {"cf.assert": _assert}
BRANCHES = {"cf.br": _br, "cf.cond_br": _cond_br, "cf.switch": _switch}

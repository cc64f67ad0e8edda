"""ub: poison and unreachable places (dialect documentation "ub"; SEMANTICS §1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from difftest.interpreter.aggregates import poison
from difftest.interpreter.faults import stop
from difftest.ir.types import parse_type

if TYPE_CHECKING:
    from difftest.interpreter.core import Context
    from difftest.interpreter.frames import Frame, Step
    from difftest.ir.tree import Operation


def _poison(op: Operation, context: Context) -> None:
    context.constant(op.results[0], poison(parse_type(op.results[0].type)))


def _unreachable(op: Operation, context: Context) -> Step:
    del context

    def run(frame: Frame) -> None:
        raise stop(frame, op, "unreachable", "control reaches a place that is promised to be unreachable")

    return run


RULES = {"ub.poison": _poison, "ub.unreachable": _unreachable}

"""How a run ends early: an internal exception that carries the outcome's fault, and its construction.

Only the interpreter raises and catches `Stop`; callers of `interpret` get an `Outcome`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from difftest.model import Fault, OutcomeKind

if TYPE_CHECKING:
    from difftest.interpreter.frames import Frame
    from difftest.ir.tree import Operation


class Stop(Exception):
    """Ends the run with `kind` and `fault`."""

    def __init__(self, kind: OutcomeKind, fault: Fault) -> None:
        super().__init__(fault.message)
        self.kind = kind
        self.fault = fault


def first_lane(mask: Any) -> int:
    """The first lane in which a bool or bool array of shape (n, …) is true (0 for a uniform one)."""
    if getattr(mask, "ndim", 0) == 0:
        return 0
    flat: Any = mask.reshape(mask.shape[0], -1).any(axis=1)
    return int(np.argmax(flat))


def stop(
    frame: Frame | None,
    op: Operation | None,
    rule: str,
    message: str,
    *,
    lane: int = 0,
    kind: OutcomeKind = OutcomeKind.UB,
) -> Stop:
    """A `Stop` that names the operation, its line and the iteration vector of `lane` of `frame`."""
    iteration = frame.iteration(op, lane) if frame is not None and op is not None else ()
    name = op.name if op is not None else ""
    line = op.line if op is not None else 0
    return Stop(kind, Fault(rule=rule, message=message, op=name, line=line, iteration=iteration))


def unsupported(op: Operation, why: str = "") -> Stop:
    """The run needs an operation, or a form of one, that has no rule."""
    text = f"{op.name} has no rule" + (f": {why}" if why else "")
    return Stop(OutcomeKind.UNSUPPORTED, Fault(rule="unsupported-op", message=text, op=op.name, line=op.line))


def inconclusive(op: Operation | None, rule: str, message: str) -> Stop:
    """The run was given up for a reason that says nothing about the program (fuel, memory, recursion)."""
    name = op.name if op is not None else ""
    line = op.line if op is not None else 0
    return Stop(OutcomeKind.INCONCLUSIVE, Fault(rule=rule, message=message, op=name, line=line))

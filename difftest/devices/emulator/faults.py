"""How a launch ends badly. Inside the emulator that is an exception; it leaves as a `LaunchOutcome`."""

from __future__ import annotations

from typing import Any


class Stop(Exception):
    """A fault of the kernel (`kind` "fault"), or something without a rule ("unsupported"), or a limit ("inconclusive").

    `lane` is a lane of the wave that ran, or None; `address` the byte address, -1 when there is none. Whoever knows
    the wave turns the lane into block and thread.
    """

    def __init__(
        self, kind: str, rule: str, message: str, *, line: int, lane: int | None = None, address: int = -1
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.rule = rule
        self.message = message
        self.line = line
        self.lane = lane
        self.address = address
        self.place: tuple[int, ...] = ()


def fault(rule: str, message: str, *, line: int, lane: int | None = None, address: int = -1) -> Stop:
    """The kernel broke a rule."""
    return Stop("fault", rule, message, line=line, lane=lane, address=address)


def unsupported(message: str, *, line: int) -> Stop:
    """No rule for this."""
    return Stop("unsupported", "unsupported-opcode", message, line=line)


def inconclusive(rule: str, message: str, *, line: int = 0) -> Stop:
    """A limit was reached."""
    return Stop("inconclusive", rule, message, line=line)


def first(mask: Any) -> int:
    """The position of the first true element."""
    return int(mask.reshape(-1).argmax())

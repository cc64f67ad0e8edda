"""What is said about a compiler child: how it is started, and how a request to it ended."""

from __future__ import annotations

import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

MEMORY_LIMIT_KIB = 2 << 20  # on top of the zygote's own size; normal cases need less than 400 MB (BINDINGS)
OUTSIDE_SIGNALS = frozenset({signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT})


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """An executable mapping of a file in the zygote, hence in all its children."""

    start: int
    end: int
    offset: int
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CrashRecord:
    """What the crash handler wrote: registers, fault address, and the stack from the place of the fault outwards."""

    signal: int
    pc: int = 0
    sp: int = 0
    address: int = 0
    frames: tuple[int, ...] = ()

    @property
    def is_stack_overflow(self) -> bool:
        """Whether the fault lies at the stack pointer: a resource limit rather than a wild pointer (PIPELINES §7)."""
        return self.signal == signal.SIGSEGV and self.sp != 0 and abs(self.address - self.sp) < 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """How a request ended: `answer` when the child answered, else the `crash` it recorded or just its end.

    `signal` is the signal that ended the child (0 when it left by itself), `timed_out` that the parent or the
    child's own timer ended it. `output` and `stages` are what the compiler had printed by then.
    """

    answer: Mapping[str, Any] | None
    output: str
    stderr: str
    stages: tuple[str, ...] = ()
    crash: CrashRecord | None = None
    signal: int = 0
    exit_code: int = 0
    timed_out: bool = False
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSpec:
    """How a zygote is started: the interpreter, the kind of compiler, its library (or handler), extra environment."""

    kind: str
    python: str = sys.executable
    library: str = ""
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    memory_kib: int = MEMORY_LIMIT_KIB
    retire_after: int = 200
    retire_rss_kib: int = 1 << 20

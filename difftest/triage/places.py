"""Where in the user's file a failure comes from: the op that wrote a wrong element, or that a diagnostic points at."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from difftest.interpreter import interpret
from difftest.interpreter.tracing import Tracer
from difftest.ir.tree import Operation, find_function
from difftest.model import Difference, Verdict

if TYPE_CHECKING:
    from difftest.interpreter.core import Context
    from difftest.interpreter.frames import Frame, Step
    from difftest.oracle.judge import Reference

_WRITERS = re.compile(r"\.(store|copy|memcpy|memset|transfer_write|scatter|maskedstore|fill)$|atomic|compressstore")
_LOCATION = re.compile(r'loc\("(?:-|<[^">]*>|[^"]*)":(\d+):\d+\)')
_LARGEST = 1 << 22


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """An op of the source program: `line` of the user's file, 0 when only the op is known. `why` says how it is met."""

    op: str
    line: int
    why: str

    def as_text(self) -> str:
        """In a few words."""
        where = self.op + (f" at line {self.line}" if self.line else "")
        return f"{where}: {self.why}" if where else self.why


def source_place(reference: Reference, verdict: Verdict, source: str) -> Place | None:
    """The op of the user's text `source` that the verdict leads to; None when nothing leads to one."""
    if verdict.difference is not None:
        element = f"{verdict.difference.label}{list(verdict.difference.index)}"
        traced, op = last_writer(reference, verdict.difference)
        if traced and op is None:
            return Place(op="", line=0, why=f"nothing in the source program changes {element}")
        why = f"last changed {element}"
        if op is None:
            op, why = _definition(reference, verdict.difference.label), f"computes {verdict.difference.label}"
    elif verdict.failure is not None:
        found = _LOCATION.search(f"{verdict.failure.stderr}\n{verdict.failure.diagnostic}")
        op = None if found is None else _op_at(reference.module, int(found.group(1)))
        why = "the diagnostic points here"
    else:
        return None
    return None if op is None else Place(op=op.name, line=line_in(source, reference, op), why=why)


def _definition(reference: Reference, label: str) -> Operation | None:
    """The op that computes a returned value, when the entry returns from one place."""
    function = find_function(reference.module, reference.program.entry)
    if not label.startswith("result") or function is None or len(function.regions[0].blocks) != 1:
        return None
    returned = function.regions[0].blocks[0].ops[-1].operands
    position = int(label.removeprefix("result"))
    return returned[position].defining_op if position < len(returned) else None


def _op_at(module: Operation, line: int) -> Operation | None:
    return next((op for op in module.walk() if op.line == line and op.name != "builtin.module"), None)


def line_in(source: str, reference: Reference, op: Operation) -> int:
    """The line of `op` in the text that the program was read from, 0 when it cannot be told.

    Parsing keeps ops in order, so the n-th op of a name is the n-th mention of it, provided the numbers agree.
    """
    if source == reference.program.text:
        return op.line
    same = [o for o in reference.module.walk() if o.name == op.name]
    mention = re.compile(rf"(?<![\w.@#!]){re.escape(op.name)}(?![\w.])")
    lines = [
        number
        for number, line in enumerate(source.splitlines(), start=1)
        for _ in mention.findall(line.partition("//")[0])
    ]
    return lines[same.index(op)] if len(lines) == len(same) else 0


class _Writers(Tracer):
    """Remembers, for every byte of memory, the op that changed it last, and what each allocation op made."""

    watches_host = False

    def __init__(self) -> None:
        super().__init__(())
        self.ops: list[Operation] = []
        self.memory: Any = None
        self.last: Any = np.full(_LARGEST, -1, np.int32)
        self.made: dict[Operation, int] = {}
        self.times: Counter[Operation] = Counter()

    def wrap(self, op: Operation, step: Step, context: Context) -> Step:
        memory = self.memory = context.machine.memory
        if op.name in {"memref.alloc", "gpu.alloc"}:
            slot = context.slot(op.results[0])

            def make(frame: Frame) -> None:
                step(frame)
                base = getattr(frame.v[slot], "base", None)
                self.times[op] += 1
                self.made[op] = base if isinstance(base, int) else -1

            return make
        if _WRITERS.search(op.name) is None:
            return step
        number = len(self.ops)
        self.ops.append(op)

        def run(frame: Frame) -> None:
            size = min(memory.top, _LARGEST)
            before = memory.data[:size].copy()
            step(frame)
            self.last[:size][memory.data[:size] != before] = number

        return run


def last_writer(reference: Reference, difference: Difference) -> tuple[bool, Operation | None]:
    """The op of the source program that last changed the element, None when none did.

    The first is false when that cannot be told: a buffer that is part of another, or has gaps.
    """
    tracer = _Writers()
    outcome = interpret(reference.module, entry=reference.program.entry, arguments=reference.arguments, tracer=tracer)
    observed = next((o for o in outcome.observed if o.label == difference.label), None)
    number = _object(reference, difference.label, tracer)
    if observed is None or number is None or not 0 < number < len(tracer.memory.table):
        return False, None
    allocation = tracer.memory.table[number]
    data = observed.data
    flat = int(np.ravel_multi_index(difference.index, data.shape)) if difference.index else 0
    start = int(allocation.start) + flat * data.itemsize
    if allocation.size != data.nbytes or start >= _LARGEST:
        return False, None
    written = int(tracer.last[start : start + data.itemsize].max())
    return True, tracer.ops[written] if written >= 0 else None


def _object(reference: Reference, label: str, tracer: _Writers) -> int | None:
    """The number of the object that an observed buffer is: an argument, or what a returned allocation made."""
    if tracer.memory is None:
        return None
    if label.startswith("arg"):
        position = int(label.removeprefix("arg"))
        arrays = [i for i, a in enumerate(reference.arguments) if isinstance(a, np.ndarray)]
        given: list[int] = [a.number for a in tracer.memory.table if a.kind == "argument"]
        return given[arrays.index(position)] if position in arrays and len(given) == len(arrays) else None
    maker = _definition(reference, label)
    return tracer.made.get(maker) if maker is not None and tracer.times[maker] == 1 else None

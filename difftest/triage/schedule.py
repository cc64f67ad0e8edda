"""Which launches of a program are ordered, which have to be, and what the difference costs.

Two operations have to be ordered when they conflict (one writes what the other accesses), when the host uses the
result of the first before it issues the second, or through a chain of such pairs. Everything else that is ordered is
needless serialisation; what conflicts and is not ordered is a race.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from difftest.interpreter.agents import collide
from difftest.ir.attributes import parse_symbol
from difftest.ir.tree import Operation
from difftest.model import Outcome
from difftest.triage.launches import Access, DeviceOperation, Unordered, Watched, accesses

# Ops between a wait and the next launch that do not explain the wait: they touch no memory.
_PURE = ("arith.", "affine.apply", "affine.min", "affine.max", "gpu.wait", "index.", "math.", "memref.dim")
_PURE_NAMES = frozenset({"memref.cast", "memref.subview", "memref.view", "memref.reinterpret_cast", "affine.apply"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """A device operation as it is shown. `number` counts from 1; `after` are those over when it starts."""

    number: int
    name: str
    line: int
    after: tuple[int, ...]
    needs: tuple[int, ...]
    accesses: tuple[Access, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Needless:
    """Independent operations that are ordered all the same: by `op` at `line`, because of `reasons`."""

    first: int
    second: int
    op: str
    line: int
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Race:
    """Conflicting accesses to `buffer` that nothing orders. `second` is None for an access by the host."""

    first: int
    second: int | None
    op: str
    line: int
    buffer: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """`steps`: the longest chain of operations; `widest`: the most that may run at the same time."""

    steps: int
    widest: int
    level: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchSchedule:
    """The schedule of one run: as it is, and as it could be."""

    launches: tuple[Launch, ...]
    races: tuple[Race, ...]
    needless: tuple[Needless, ...]
    actual: Shape
    possible: Shape
    outcome: Outcome
    dropped: int = 0

    def as_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "launches": [
                {
                    "number": launch.number,
                    "name": launch.name,
                    "line": launch.line,
                    "after": list(launch.after),
                    "must_follow": list(launch.needs),
                    "accesses": [{"buffer": a.buffer, "how": a.how, "bytes": a.size} for a in launch.accesses],
                }
                for launch in self.launches
            ],
            "races": [
                {"first": r.first, "second": r.second, "op": r.op, "line": r.line, "buffer": r.buffer}
                for r in self.races
            ],
            "needless": [
                {"first": n.first, "second": n.second, "op": n.op, "line": n.line, "reasons": list(n.reasons)}
                for n in self.needless
            ],
            "steps": self.actual.steps,
            "at_once": self.actual.widest,
            "possible_steps": self.possible.steps,
            "possible_at_once": self.possible.widest,
            "outcome": str(self.outcome.kind),
            "not_shown": self.dropped,
        }


def schedule_of(watched: Watched) -> LaunchSchedule:
    """Happens-before, what it has to be, and what it could be."""
    found = watched.operations
    needs = required(found)
    shown = [i for i, o in enumerate(found) if _counts(o)]
    place = {position: number for number, position in enumerate(shown, start=1)}
    launches = tuple(
        Launch(
            number=place[i],
            name=name_of(found[i].op),
            line=found[i].op.line,
            after=tuple(place[j] for j in sorted(found[i].before) if j in place),
            needs=tuple(place[j] for j in sorted(needs[i]) if j in place),
            accesses=accesses(found[i], watched.labels),
        )
        for i in shown
    )
    return LaunchSchedule(
        launches=launches,
        races=tuple(_races(watched, place)),
        needless=tuple(_needless(watched, needs, place)),
        actual=_shape([launch.after for launch in launches]),
        possible=_shape([launch.needs for launch in launches]),
        outcome=watched.outcome,
        dropped=watched.dropped,
    )


def _counts(operation: DeviceOperation) -> bool:
    """Kernels, copies and fills; making and freeing memory only connects them."""
    return operation.op.name not in {"gpu.alloc", "gpu.dealloc"}


def name_of(op: Operation) -> str:
    """A launch by its kernel, anything else by its op."""
    kernel = op.get("kernel")
    return op.name if kernel is None else f"{op.name} @{'::@'.join(parse_symbol(kernel))}"


def conflict(a: DeviceOperation, b: DeviceOperation) -> bool:
    """Whether the two touch a common byte that one of them writes."""
    ours, theirs = a.agent.logs, b.agent.logs
    return any(collide(ours[number], theirs[number]) for number in ours.keys() & theirs.keys())


def required(operations: list[DeviceOperation]) -> list[frozenset[int]]:
    """Per operation the earlier ones that it has to follow, directly or through others."""
    found: list[frozenset[int]] = []
    for i, operation in enumerate(operations):
        direct = set(operation.held) | {j for j in range(i) if conflict(operations[j], operation)}
        found.append(frozenset(direct).union(*(found[j] for j in direct)))
    return found


def _shape(before: list[tuple[int, ...]]) -> Shape:
    """Every operation as early as its predecessors (numbers from 1, transitive) let it start."""
    level: list[int] = []
    for earlier in before:
        level.append(1 + max((level[j - 1] for j in earlier), default=0))
    return Shape(
        steps=max(level, default=0), widest=max((level.count(x) for x in level), default=0), level=tuple(level)
    )


def _needless(watched: Watched, needs: list[frozenset[int]], place: dict[int, int]) -> Iterator[Needless]:
    found = watched.operations
    for i, number in place.items():
        for j in sorted(found[i].before - needs[i]):
            # Between two others of one chain the nearest pair says it all.
            between = (k for k in place if j < k < i)
            if j not in place or any(j in found[k].before - needs[k] and k in found[i].before for k in between):
                continue
            op, reasons = _orders(watched, j, i)
            yield Needless(first=place[j], second=number, op=op.name, line=op.line, reasons=reasons)


def _orders(watched: Watched, first: int, second: int) -> tuple[Operation, tuple[str, ...]]:
    """The op that makes `second` wait for `first`, and what stands between it and `second`."""
    earlier, later = watched.operations[first], watched.operations[second]
    if earlier.synchronous:
        return earlier.op, ("it is synchronous: the host waits for it",)
    wait = watched.waits.get(first)
    if wait is not None and not later.agent.before >> earlier.agent.number & 1:
        return wait, tuple(f"{op.name} at line {op.line}" for op in _between(wait, later.op))
    token = next((v.defining_op for v in later.op.operands if v.type == "!gpu.async.token"), None)
    return token or later.op, ("its token is passed on",)


def _between(start: Operation, end: Operation) -> Iterator[Operation]:
    """The ops between two of one block that may have an effect."""
    block = start.parent
    if block is None or end.parent is not block:
        return
    for op in block.ops[block.ops.index(start) + 1 : block.ops.index(end)]:
        if not op.name.startswith(_PURE) and op.name not in _PURE_NAMES:
            yield op


def _races(watched: Watched, place: dict[int, int]) -> Iterator[Race]:
    positions = {id(o.op): i for i, o in enumerate(watched.operations)}
    for race in _distinct(watched.races):
        second = place.get(positions.get(id(race.op), -1))
        yield Race(
            first=place.get(race.number, 0),
            second=second,
            op=race.op.name,
            line=race.op.line,
            buffer=race.buffer,
        )


def _distinct(races: list[Unordered]) -> list[Unordered]:
    seen: dict[tuple[int, int, str], Unordered] = {}
    for race in races:
        seen.setdefault((id(race.op), race.number, race.buffer), race)
    return list(seen.values())

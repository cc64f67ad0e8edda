"""Parallel constructs: which lanes run, in which order, at which level; and barriers.

`run_parallel` runs a body once per iteration of a rectangular space that may differ from lane to lane of the parent.
Logical lane numbers (parent lane first, then row-major in the induction variables) do not depend on the schedule:

* lock-step: all iterations are the lanes of one child frame;
* sequential: one iteration after the other, each a frame of one lane;
* shuffled: in seeded random order, one by one or in random groups.

Constructs that hold a barrier for their own iterations run in lock-step under every schedule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from difftest.interpreter.checks import Level
from difftest.interpreter.faults import inconclusive, stop
from difftest.interpreter.frames import Frame, Scope
from difftest.interpreter.values import gather, one
from difftest.ir.tree import Operation, Value
from difftest.model import Schedule

if TYPE_CHECKING:
    from difftest.interpreter.core import Body, Machine

ndarray: Any = np.ndarray
MAXIMUM_LANES = 1 << 19
MAXIMUM_LOCK_STEP = 1 << 23
PARALLEL = frozenset({"scf.parallel", "scf.forall", "affine.parallel", "gpu.launch"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Dimension:
    """One induction variable: `lower + step * i` for `0 <= i < trips`; each an int or one per parent lane."""

    lower: Any
    step: Any
    trips: Any


DERIVING = frozenset(
    {
        "affine.apply", "arith.addi", "arith.muli", "arith.subi", "arith.index_cast", "arith.index_castui",
        "builtin.unrealized_conversion_cast",
    }
)  # fmt: skip


def needs_lock_step(op: Operation, names: set[str]) -> bool:
    """Whether the body of `op` holds an op of `names` that concerns its own iterations.

    Such an op with operands (`enzymexla.barrier`) concerns the construct whose block arguments it lists; one
    without concerns the innermost construct around it.
    """
    own: set[Value] = {a for region in op.regions for block in region.blocks for a in block.arguments}
    stack = [(inner, True) for region in op.regions for block in region.blocks for inner in block.ops]
    while stack:
        inner, direct = stack.pop()
        if inner.name in names:
            listed = inner.name == "enzymexla.barrier"
            if (listed and not own.isdisjoint(leaves_of(inner.operands))) or (not listed and direct):
                return True
        direct = direct and inner.name not in PARALLEL
        stack.extend((o, direct) for region in inner.regions for block in region.blocks for o in block.ops)
    return False


def leaves_of(values: Sequence[Value]) -> set[Value]:
    """The values that `values` are made of by the arithmetic that passes put between an iteration and its barrier."""
    found: set[Value] = set()
    stack = list(values)
    while stack:
        value = stack.pop()
        made = value.defining_op
        if made is None or made.name not in DERIVING:
            found.add(value)
        else:
            stack.extend(made.operands)
    return found


class Iterations:
    """The iteration space of one execution, by logical lane."""

    def __init__(self, n: int, dimensions: Sequence[Dimension]) -> None:
        self.n = n
        self.dimensions = dimensions
        self.ragged = any(d.trips.__class__ is ndarray for d in dimensions)
        counts: Any = 1
        for d in dimensions:
            counts = counts * np.maximum(d.trips, 0)
        self.counts = counts
        if self.ragged:
            ends = np.cumsum(counts)
            self.total = int(ends[-1])
            self.starts: Any = ends - counts
        else:
            self.total = int(counts) * n

    def ancestors(self) -> Any:
        """The parent lane (position in the parent frame) of every logical lane; 0 when there is only one."""
        if self.n == 1:
            return 0
        if self.ragged:
            return np.repeat(np.arange(self.n), self.counts)
        return np.repeat(np.arange(self.n), int(self.counts))

    def whole(self) -> list[Any]:
        """The induction variables of all logical lanes, in order."""
        if self.ragged or self.n * len(self.dimensions) == 0:
            return self.of(np.arange(self.total))[1]
        shape = [self.n, *(int(d.trips) for d in self.dimensions)]
        found: list[Any] = []
        for axis, d in enumerate(self.dimensions):
            view = [1] * len(shape)
            view[axis + 1] = shape[axis + 1]
            steps = np.arange(shape[axis + 1])
            if d.lower.__class__ is ndarray or d.step.__class__ is ndarray:
                lower, step = _column(d.lower), _column(d.step)
                view[0] = self.n
                iv = lower + step * steps
                iv = np.broadcast_to(iv, (self.n, len(steps)))
            else:
                iv = steps if d.lower == 0 and d.step == 1 else d.lower + d.step * steps
            found.append(np.broadcast_to(iv.reshape(view), shape).reshape(-1))
        return found

    def _split(self, lanes: Any) -> tuple[Any, Any]:
        """The parent position of each logical lane, and its number among that parent's iterations."""
        if not self.ragged:
            each = int(self.counts)
            return lanes // each, lanes % each
        found: Any = (self.starts + self.counts).searchsorted(lanes, side="right")
        rest: Any = lanes - self.starts[found]
        if getattr(lanes, "ndim", 0):
            return found, rest
        return int(found), int(rest)

    def of(self, lanes: Any) -> tuple[Any, list[Any]]:
        """(parent positions, induction variables) of some logical lanes (an array, or one int)."""
        if lanes.__class__ is ndarray:
            lanes = lanes.astype(np.int64)
        parents, rest = self._split(lanes)
        found: list[Any] = []
        for d in reversed(self.dimensions):
            trips, lower, step = (_at(x, parents) for x in (d.trips, d.lower, d.step))
            found.append(lower + step * (rest % trips))
            rest = rest // trips
        return parents, found[::-1]


def _column(x: Any) -> Any:
    return x[:, None] if x.__class__ is ndarray else x


def _at(x: Any, parents: Any) -> Any:
    if x.__class__ is not ndarray or x.shape[0] == 1:
        return x if x.__class__ is not ndarray else int(x[0])
    return one(x, parents) if parents.__class__ is int else x[parents]


def run_parallel(
    frame: Frame,
    op: Operation,
    body: Body,
    machine: Machine,
    dimensions: Sequence[Dimension],
    *,
    slots: Sequence[int],
    lock_step: bool,
    after: Callable[[Frame], None] | None = None,
) -> None:
    """Run `body` for every iteration; `slots` receive the induction variables, `after` sees each finished frame.

    Joins at the end: what the iterations did becomes part of the enclosing level's epoch.
    """
    iterations = Iterations(frame.n, dimensions)
    total = iterations.total
    if total == 0:
        return
    if lock_step and total > MAXIMUM_LOCK_STEP:
        raise inconclusive(op, "lanes", f"{total} iterations with a barrier are too many to run together")
    parents = iterations.ancestors()
    lanes = frame.lanes
    ancestors = lanes if parents.__class__ is not ndarray or lanes.__class__ is not ndarray else lanes[parents]
    level = Level(parent=frame.level, ancestors=ancestors, size=total, op=op, memory=machine.memory)
    for chunk in _chunks(total, machine, lock_step=lock_step):
        group, index, ivs = _everyone(iterations, parents) if chunk is None else (chunk, *iterations.of(chunk))
        level.everyone = group if chunk is None else None
        _run_chunk(frame, body, machine, (level, group, index), ivs=zip(slots, ivs, strict=True), after=after)
    level.promote(frame)
    between = level.parent
    while between is not None and between is not frame.level:  # groups that `barrier_of_groups` put in between
        between.promote(frame)
        between = between.parent


def _everyone(iterations: Iterations, parents: Any) -> tuple[Any, Any, list[Any]]:
    """All logical lanes at once: (lanes, parent positions, induction variables)."""
    ivs = iterations.whole()
    if iterations.total > 1:
        return np.arange(iterations.total, dtype=np.int32), parents, ivs
    return 0, (0 if parents.__class__ is not ndarray else int(parents[0])), [one(x, 0) for x in ivs]


def _run_chunk(
    frame: Frame,
    body: Body,
    machine: Machine,
    place: tuple[Level, Any, Any],
    *,
    ivs: Iterable[tuple[int, Any]],
    after: Callable[[Frame], None] | None,
) -> None:
    level, lanes, index = place
    n = len(lanes) if lanes.__class__ is ndarray else 1
    child = Frame(
        n=n,
        template=frame.template,
        ivs=frame.ivs,
        level=level,
        lanes=lanes,
        scope=Scope(),
        parent=frame,
        index=index,
    )
    source, target = frame.v, child.v
    for slot in body.captures:
        target[slot] = gather(source[slot], index, n)
    for slot, value in ivs:
        target[slot] = value
    body.run(child)
    if after is not None:
        after(child)
    if child.scope.bases:
        machine.end(child.scope)


def _chunks(total: int, machine: Machine, *, lock_step: bool) -> Iterator[Any]:
    """Logical lanes to run together, ascending: None for all, an int, or an int32 array."""
    if lock_step or (machine.schedule is Schedule.LOCK_STEP and total <= MAXIMUM_LANES):
        yield None
    elif machine.schedule is Schedule.LOCK_STEP:
        for start in range(0, total, MAXIMUM_LANES):
            yield _chunk(np.arange(start, min(total, start + MAXIMUM_LANES), dtype=np.int32))
    elif machine.schedule is Schedule.SEQUENTIAL:
        yield from range(total)
    else:
        order = machine.random.permutation(total).astype(np.int32)
        groups = 1 + int(machine.random.integers(total))
        for part in np.array_split(order, groups if machine.random.integers(2) else total):
            if len(part):
                yield _chunk(np.sort(part))


def _chunk(lanes: Any) -> Any:
    return int(lanes[0]) if len(lanes) == 1 else lanes


# --- barriers -------------------------------------------------------------------------------------------------


def level_of(frame: Frame, construct: Operation) -> Level | None:
    """The level that a parallel construct made, when it is around `frame`."""
    level = frame.level
    while level is not None and level.op is not construct:
        level = level.parent
    return level


def barrier(frame: Frame, op: Operation, level: Level) -> None:
    """All lanes of `level` that share a parent lane (a block's threads) wait for each other: a new epoch.

    None or all lanes of a group must be here, else undefined behaviour (SEMANTICS §8).
    """
    if frame.level is not level:
        raise stop(frame, op, "barrier-divergence", "a barrier is reached inside a parallel loop of its own iteration")
    if frame.n == level.size:
        level.promote(frame)
        return
    present = np.asarray(frame.lanes).reshape(-1)
    if level.ancestors.__class__ is not ndarray:
        raise _diverged(frame, op)
    groups, found = np.unique(level.ancestors[present], return_counts=True)
    everyone, counts = np.unique(level.ancestors, return_counts=True)
    if (found != counts[np.searchsorted(everyone, groups)]).any():
        raise _diverged(frame, op)
    level.promote_some(frame, np.isin(level.ancestors, groups))


def _diverged(frame: Frame, op: Operation) -> Exception:
    message = f"a barrier is reached by {frame.n} lanes only, not by all that must meet there"
    return stop(frame, op, "barrier-divergence", message)

"""Kernel launches: grid and block as two levels of lanes, what lives in a block, and where a work item stands.

A launch opens a `GridLevel` whose lanes are the blocks of the grid; the work items of the blocks at hand are the lanes
of a level inside it (x varies fastest in both), so a barrier ends an epoch of the inner level only (SEMANTICS §8, §9).
Large grids run block group by block group; races between groups are found all the same, by logical lane.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from difftest.interpreter import views
from difftest.interpreter.checks import Level, raise_lanes
from difftest.interpreter.core import Body
from difftest.interpreter.faults import first_lane, inconclusive, stop
from difftest.interpreter.frames import Frame, Scope
from difftest.interpreter.parallel import Dimension, needs_lock_step, run_parallel
from difftest.interpreter.values import gather, one
from difftest.model import Schedule

if TYPE_CHECKING:
    from difftest.interpreter.cells import Cell
    from difftest.interpreter.core import Context, Machine
    from difftest.interpreter.memory import Memory
    from difftest.interpreter.values import MemRef
    from difftest.ir.tree import Operation
    from difftest.ir.types import MemRefType

ndarray: Any = np.ndarray
LANES_AT_ONCE = 1 << 19
SUBGROUP = 32
# CUDA, compute capability 5.0 and later: (grid x, y, z), (block x, y, z), work items of a block.
GRID_LIMITS = (2**31 - 1, 65535, 65535)
BLOCK_LIMITS = (1024, 1024, 64)
BLOCK_ITEMS = 1024


class GridLevel(Level):
    """The blocks of one launch: logical lane = x + y * grid x + z * grid x * grid y."""

    __slots__ = ("block", "grid")

    def __init__(self, frame: Frame, op: Operation, memory: Memory, sizes: Sequence[int]) -> None:
        grid = tuple(sizes[:3])
        super().__init__(parent=frame.level, ancestors=frame.lanes, size=_product(grid), op=op, memory=memory)
        self.grid = grid
        self.block = tuple(sizes[3:])


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where the lanes of a frame stand in a kernel: per lane its block and its work item in the block, both linear.

    `items` is the level of the work items, `lanes` their logical lanes in it.
    """

    grid: GridLevel
    items: Level
    lanes: Any
    block: Any
    item: Any

    def coordinates(self, what: str) -> tuple[Any, Any, Any]:
        """`block_id`, `thread_id`, `grid_dim` or `block_dim`, each as (x, y, z)."""
        if what == "grid_dim":
            return self.grid.grid[0], self.grid.grid[1], self.grid.grid[2]
        if what == "block_dim":
            return self.grid.block[0], self.grid.block[1], self.grid.block[2]
        return split(self.block, self.grid.grid) if what == "block_id" else split(self.item, self.grid.block)


def split(linear: Any, sizes: Sequence[int]) -> tuple[Any, Any, Any]:
    """A linear number as (x, y, z), x fastest; sizes of 1 give a uniform 0."""
    x, y, z = sizes
    return (
        0 if x == 1 else linear % x,
        0 if y == 1 else (linear // x) % y,
        0 if z == 1 else linear // (x * y),
    )


def place_of(frame: Frame) -> Place | None:
    """Where `frame` stands in the innermost kernel around it; None outside kernels."""
    level, lanes = frame.level, frame.lanes
    while level is not None:
        grid = level.parent
        if isinstance(grid, GridLevel):
            wide = lanes.astype(np.int64) if lanes.__class__ is ndarray else int(lanes)
            item = wide % _product(grid.block)
            block = raise_lanes(level.ancestors, lanes)
            block = block.astype(np.int64) if block.__class__ is ndarray else int(block)
            return Place(grid=grid, items=level, lanes=wide, block=block, item=item)
        lanes = raise_lanes(level.ancestors, lanes)
        level = grid
    return None


def _product(sizes: Sequence[int]) -> int:
    return sizes[0] * sizes[1] * sizes[2]


@dataclass(slots=True, kw_only=True)
class Buffer:
    """Memory that a kernel owns: its type, where its memref goes, and the op or argument it stands for."""

    slot: int
    kind: MemRefType
    cell: Cell


@dataclass(slots=True, kw_only=True)
class Kernel:
    """A compiled kernel.

    `ids` are the slots of `block_id`, `thread_id`, `grid_dim` and `block_dim`, three each; `known` the promises of its
    attributes as (what, sizes, exact).
    """

    op: Operation
    machine: Machine
    ids: dict[str, tuple[int, int, int]]
    wanted: set[int] = field(default_factory=set[int])
    shared: list[Buffer] = field(default_factory=list[Buffer])
    private: list[Buffer] = field(default_factory=list[Buffer])
    dynamic: Buffer | None = None
    known: list[tuple[str, tuple[int, ...], bool]] = field(default_factory=list[tuple[str, tuple[int, ...], bool]])
    lock_step: bool = False
    body: Body | None = None
    shared_of: dict[Operation, int] = field(default_factory=dict["Operation", int])

    def finish(self, body: Body) -> None:
        """Take the compiled region, made to work in a frame of work items."""
        inner = Body(body.region)
        inner.arguments = body.arguments
        owned = {b.slot for b in self.shared} | ({self.dynamic.slot} if self.dynamic else set[int]())
        inner.captures = tuple(sorted({*body.captures, *self.wanted, *owned} - {b.slot for b in self.private}))
        inner.run = self._with_private(body.run)
        self.body = inner
        names = self.machine.rules.lock_step
        self.lock_step = needs_lock_step(self.op, names) or any(_calls(o) for o in _inside(self.op))

    def _with_private(self, run: Callable[[Frame], None]) -> Callable[[Frame], None]:
        if not self.private:
            return run
        memory, private, op = self.machine.memory, self.private, self.op

        def step(frame: Frame) -> None:
            for buffer in private:
                sizes = tuple(s or 0 for s in buffer.kind.shape)
                frame.v[buffer.slot] = _fresh(frame, op, buffer, sizes, memory)
            run(frame)

        return step


def _inside(op: Operation) -> Iterator[Operation]:
    return (inner for inner in op.walk() if inner is not op)


def _calls(op: Operation) -> bool:
    return op.name in {"func.call", "func.call_indirect", "llvm.call"}


def launch(frame: Frame, op: Operation, kernel: Kernel, sizes: Sequence[Any], dynamic: Any) -> None:
    """Run a kernel over a grid of blocks. `sizes` are grid x, y, z and block x, y, z, `dynamic` bytes per block.

    A dimension of zero runs nothing and is noted (`zero-launch`); negative ones are undefined behaviour; sizes beyond
    what devices allow make the run inconclusive.
    """
    if frame.n > 1:
        for lane in range(frame.n):
            inner = frame.child(lane, 1, kernel.body.captures if kernel.body else ())
            launch(inner, op, kernel, [gather(s, lane, 1) for s in sizes], gather(dynamic, lane, 1))
        return
    numbers = [int(one(s, 0)) if s.__class__ is ndarray else int(s) for s in sizes]
    _check_sizes(frame, op, kernel, numbers)
    machine = kernel.machine
    if 0 in numbers:
        machine.notes["zero-launch"] = machine.notes.get("zero-launch", 0) + 1
        return
    grid = GridLevel(frame, op, machine.memory, numbers)
    for blocks in _groups(grid, machine):
        _run_blocks(frame, kernel, grid, blocks, int(dynamic))
    grid.promote(frame)


def _check_sizes(frame: Frame, op: Operation, kernel: Kernel, sizes: Sequence[int]) -> None:
    if any(s < 0 for s in sizes):
        raise stop(frame, op, "negative-size", f"a launch of sizes {tuple(sizes)}")
    grid, block = tuple(sizes[:3]), tuple(sizes[3:])
    if 0 in sizes:
        return
    for what, promised, exact in kernel.known:
        actual = block if what == "block" else grid
        # PTX ISA, .maxntid: only the product of the three extents is bounded.
        wrong = actual != promised if exact else _product(actual) > _product(promised)
        if wrong:
            message = f"the kernel promises {what} sizes {promised}, it is launched with {actual}"
            raise stop(frame, op, "known-size", message)
    within = all(s <= m for s, m in zip(sizes, GRID_LIMITS + BLOCK_LIMITS, strict=True))
    if not within or _product(block) > BLOCK_ITEMS:
        raise inconclusive(op, "launch-limit", f"grid {grid} with blocks of {block} is more than a device takes")


def _groups(grid: GridLevel, machine: Machine) -> Iterator[Any]:
    """Blocks to run together, ascending: an int or an int32 array."""
    total, items = grid.size, _product(grid.block)
    at_once = max(1, LANES_AT_ONCE // items)
    if machine.schedule is Schedule.SEQUENTIAL:
        yield from range(total)
        return
    order: Any = np.arange(total, dtype=np.int32)
    if machine.schedule is Schedule.SHUFFLED:
        order = machine.random.permutation(total).astype(np.int32)
        at_once = int(machine.random.integers(1, min(at_once, total) + 1))
    for start in range(0, total, at_once):
        part = np.sort(order[start : start + at_once])
        yield int(part[0]) if len(part) == 1 else part


def _run_blocks(frame: Frame, kernel: Kernel, grid: GridLevel, blocks: Any, dynamic: int) -> None:
    """Run some blocks of a launch: their memory, then their work items."""
    machine, body, op = kernel.machine, kernel.body, grid.op
    assert body is not None
    n = len(blocks) if blocks.__class__ is ndarray else 1
    inner = Frame(
        n=n, template=frame.template, ivs=frame.ivs, level=grid, lanes=blocks, scope=Scope(), parent=frame, index=0
    )
    if n > 1:
        inner.index = np.zeros(n, np.int64)
    v = inner.v
    for slot in body.captures:
        v[slot] = frame.v[slot]
    wide = blocks.astype(np.int64) if blocks.__class__ is ndarray else blocks
    known = (("block_id", split(wide, grid.grid)), ("grid_dim", grid.grid), ("block_dim", grid.block))
    for what, numbers in (*known, ("thread_id", (0, 0, 0))):
        for slot, number in zip(kernel.ids[what], numbers, strict=True):
            v[slot] = number
    _give_memory(inner, op, kernel, dynamic)
    axes = [i for i in (2, 1, 0) if grid.block[i] > 1]
    run_parallel(
        inner,
        op,
        body,
        machine,
        [Dimension(lower=0, step=1, trips=grid.block[i]) for i in axes],
        slots=[kernel.ids["thread_id"][i] for i in axes],
        lock_step=kernel.lock_step,
    )
    machine.end(inner.scope)


def _give_memory(inner: Frame, op: Operation, kernel: Kernel, dynamic: int) -> None:
    """Workgroup buffers, uninitialised, one per block."""
    memory = kernel.machine.memory
    buffers = [(b, tuple(s or 0 for s in b.kind.shape)) for b in kernel.shared]
    if kernel.dynamic is not None:
        buffers.append((kernel.dynamic, (dynamic,)))
    for buffer, sizes in buffers:
        made = _fresh(inner, op, buffer, sizes, memory)
        memory.table[made.base].kind = "workgroup"
        inner.v[buffer.slot] = made


def _fresh(frame: Frame, op: Operation, buffer: Buffer, sizes: tuple[int, ...], memory: Memory) -> MemRef:
    return views.fresh(frame, op, buffer.kind, sizes, cell=buffer.cell, memory=memory, heap=False)


def compile_with(context: Context, kernel: Kernel, overrides: dict[str, Callable[..., Any]]) -> Body:
    """Compile the kernel's region with rules of its own for some ops, and finish the kernel."""
    rules = context.rules
    context.rules = replace(rules, rules={**rules.rules, **overrides})
    try:
        body = context.body(kernel.op.regions[0])
    finally:
        context.rules = rules
    kernel.finish(body)
    return body


# --- work items that act together -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Groups:
    """The lanes of a frame by block or subgroup: `number` of each lane's group (ascending), `first` lane of each."""

    number: Any
    first: Any

    @property
    def count(self) -> int:
        """How many groups there are."""
        return len(self.first)


def groups_of(frame: Frame, op: Operation, place: Place, size: int) -> Groups:
    """The groups of `size` consecutive work items of a block (the last one may be smaller); all must be complete."""
    if frame.level is not place.items:
        raise stop(frame, op, "barrier-divergence", f"{op.name} is reached inside a parallel loop of one work item")
    total = _product(place.grid.block)
    lanes = np.atleast_1d(np.asarray(place.lanes, np.int64))
    item = lanes % total
    per_block = -(-total // size)
    key = lanes // total * per_block + item // size
    _, first, number, counts = np.unique(key, return_index=True, return_inverse=True, return_counts=True)
    wanted = np.minimum(size, total - item[first] // size * size)
    if (counts != wanted).any():
        lane = int(first[first_lane(counts != wanted)])
        message = f"only some of the work items that must meet at {op.name} reach it"
        raise stop(frame, op, "barrier-divergence", message, lane=lane)
    return Groups(number=number, first=first)

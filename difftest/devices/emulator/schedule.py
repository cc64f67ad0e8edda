"""Which lanes of a launch run together, and in which order (DESIGN §4, "Devices").

* lock-step: waves of whole blocks, as many as fit `LANES_AT_ONCE`;
* shuffled: the same with blocks, warps and lanes in a seeded order, which decides which write stays;
* sequential: every thread alone, from barrier to barrier.

A race-free kernel gives the same bytes under all. Barriers at which only some warps stand are run warp by warp.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from difftest.devices.emulator.faults import Stop, fault
from difftest.devices.emulator.lanes import WARP, Wave
from difftest.devices.emulator.ops.barrier import NeedWarpsError
from difftest.devices.emulator.run import Launch, arrive_together, go, meet, run, start
from difftest.model import Schedule

if TYPE_CHECKING:
    from difftest.devices.emulator.compile import CodeBlock

LANES_AT_ONCE = 8192


def blocks_at_once(launch: Launch) -> int:
    """How many blocks run together."""
    return min(launch.blocks, max(1, LANES_AT_ONCE // launch.threads))


class NarrowWave(Wave):
    """A warp or a thread of one block, which waits at barriers (and, a thread, at warp operations)."""

    def waits(self, block: CodeBlock) -> bool:
        """Whether a block's last instruction needs lanes of other waves."""
        if block.barrier is None:
            return self.n == 1 and self.launch.threads > 1
        name, _, kind = block.barrier
        if kind != "arrive":
            return True
        key = int(self.blocks[0]), int(self.r[name][0])
        self.launch.arrivals[key] = self.launch.arrivals.get(key, 0) + self.count
        return False

    def arrive(self, name: int, count: int, line: int, kind: str) -> None:
        """Only bar.arrive is executed by a narrow wave itself; `waits` has counted it."""
        del name, count, line
        assert kind == "arrive"


class WideWave(Wave):
    """Whole blocks."""

    def waits(self, block: CodeBlock) -> bool:
        """Never: all that must meet are here."""
        del block
        return False

    def arrive(self, name: int, count: int, line: int, kind: str) -> None:
        """At a barrier."""
        arrive_together(self, name, count, line, kind)


class _Registers:
    """The registers of several waves side by side."""

    def __init__(self, waves: Sequence[Wave]) -> None:
        self.waves = waves
        self.ends = np.cumsum([w.n for w in waves])

    def __getitem__(self, slot: int) -> Any:
        values = [w.r[slot] for w in self.waves]
        if all(v is values[0] for v in values):
            return values[0]
        return np.concatenate([w.spread(v) for w, v in zip(self.waves, values, strict=True)])

    def __setitem__(self, slot: int, value: Any) -> None:
        for wave, end in zip(self.waves, self.ends, strict=True):
            wave.r[slot] = value if len(value) == 1 else value[end - wave.n : end]


class Meeting(Wave):
    """Waves of one block that have met at an instruction."""

    def __init__(self, waves: Sequence[Wave]) -> None:
        first = waves[0]
        super().__init__(
            first.launch,
            blocks=np.concatenate([w.blocks for w in waves]),
            threads=np.concatenate([w.threads for w in waves]),
            shared=first.shared,
            local=first.local,
        )
        self.waves = waves
        registers: Any = _Registers(waves)
        self.r = registers
        mask = np.concatenate([w.active_mask() for w in waves])
        count = int(np.count_nonzero(mask))
        self.set_mask(None if count == self.n else mask, count)

    def waits(self, block: CodeBlock) -> bool:
        """It has met."""
        del block
        return False

    def arrive(self, name: int, count: int, line: int, kind: str) -> None:
        """The barrier is complete: everybody begins a new epoch."""
        del name, count, line, kind
        for wave in self.waves:
            wave.next_epoch()

    def next_step(self) -> None:
        """The lanes of a warp have met."""
        for wave in self.waves:
            wave.next_step()


def wide(launch: Launch, blocks: Any, shared: Any, local: Any, random: Any) -> None:
    """Run whole blocks in lock step. `shared` and `local` are addresses per block and per (block, thread)."""
    threads = launch.threads
    lanes = np.arange(len(blocks) * threads)
    if random is not None:
        lanes = shuffled_lanes(len(blocks), threads, random)
    wave = WideWave(
        launch,
        blocks=blocks[lanes // threads],
        threads=lanes % threads,
        shared=shared if len(shared) == 1 else shared[lanes // threads],
        local=local if len(local) == 1 else local[lanes],
    )
    start(wave, launch.kernel)
    with placed(wave):
        run(wave)
    launch.memory.shadow.settle()


@contextmanager
def placed(wave: Wave) -> Generator[None]:
    """A fault inside is told which block and thread its lane is."""
    try:
        yield
    except Stop as stop:
        if stop.lane is not None and not stop.place:
            stop.place = wave.place_of(stop.lane)
        raise


def shuffled_lanes(blocks: int, threads: int, random: Any) -> Any:
    """Lane numbers with blocks, warps of a block and lanes of a warp in random order."""
    warps = -(-threads // WARP)
    keys = np.empty((blocks, warps, WARP, 3))
    keys[..., 0] = random.random((blocks, 1, 1))
    keys[..., 1] = random.random((blocks, warps, 1))
    keys[..., 2] = random.random((blocks, warps, WARP))
    flat = keys.reshape(blocks, warps * WARP, 3)[:, :threads].reshape(-1, 3)
    return np.lexsort((flat[:, 2], flat[:, 1], flat[:, 0]))


def narrow(launch: Launch, block: int, shared: Any, local: Any, *, width: int, random: Any) -> None:
    """Run one block, every `width` threads for themselves."""
    numbers = np.arange(launch.threads)
    starts = np.arange(0, launch.threads, width)
    waves: list[NarrowWave] = []
    for begin in starts if random is None else random.permutation(starts):
        threads = numbers[begin : begin + width]
        wave = NarrowWave(
            launch,
            blocks=np.full(len(threads), block),
            threads=threads,
            shared=shared,
            local=local if len(local) == 1 else local[threads],
        )
        start(wave, launch.kernel)
        waves.append(wave)
    left = list(waves)
    while left:
        left = [wave for wave in left if wave.blocked is not None or not _advance(wave)]
        if left and not (_meet_in_warps(left, width) or _meet_at_barriers(launch, left)):
            wave = left[0]
            last = wave.blocked.last
            message = (
                f"only {sum(w.count for w in left)} of the {launch.threads} threads of the block wait at a barrier"
            )
            raise fault("barrier-divergence", message, line=last.line, lane=None)
    launch.memory.shadow.settle()


def _advance(wave: NarrowWave) -> bool:
    with placed(wave):
        return run(wave)


def _release(waves: Sequence[NarrowWave]) -> None:
    """Let waves that have met go on, those at one instruction together."""
    groups: dict[int, list[NarrowWave]] = {}
    for wave in waves:
        groups.setdefault(id(wave.blocked), []).append(wave)
    for group in groups.values():
        block = group[0].blocked
        meeting = Meeting(group)
        with placed(meeting):
            meet(meeting, block)
        for wave in group:
            wave.blocked = None
            go(wave, wave.frames[-1], block.successors[0])


def _meet_in_warps(waves: Sequence[NarrowWave], width: int) -> bool:
    if width > 1:
        return False
    warps: dict[int, list[NarrowWave]] = {}
    for wave in waves:
        if wave.blocked.barrier is None:
            warps.setdefault(int(wave.threads[0]) // WARP, []).append(wave)
    for group in warps.values():
        _release(group)
    return bool(warps)


def _meet_at_barriers(launch: Launch, waves: Sequence[NarrowWave]) -> bool:
    """Release each barrier at which enough threads have arrived."""
    waiting: dict[int, list[NarrowWave]] = {}
    for wave in waves:
        name, _, _ = wave.blocked.barrier
        waiting.setdefault(int(wave.r[name][0]), []).append(wave)
    released = False
    for name, group in waiting.items():
        _, count, _ = group[0].blocked.barrier
        wanted = launch.threads if count < 0 else int(group[0].r[count][0])
        key = int(group[0].blocks[0]), name
        arrived = sum(w.count for w in group) + launch.arrivals.get(key, 0)
        if arrived >= wanted:
            launch.arrivals.pop(key, None)
            _release(group)
            released = True
    return released


def plan(launch: Launch, schedule: Schedule, random: Any) -> Iterator[Any]:
    """The blocks of a launch in the order and number in which they run together."""
    order = np.arange(launch.blocks)
    if schedule is Schedule.SHUFFLED:
        order = random.permutation(order)
    at_once = 1 if schedule is Schedule.SEQUENTIAL else blocks_at_once(launch)
    for begin in range(0, launch.blocks, at_once):
        yield order[begin : begin + at_once]


__all__ = ["LANES_AT_ONCE", "NeedWarpsError", "narrow", "plan", "wide"]

"""Races: who touched each cell of memory last (SEMANTICS §9; PTX ISA 8, memory consistency model).

A *cell* is 2**granule bytes. For each one `writes` and `reads` hold a tag of 32 bits:

    epoch | block | warp | lane | step | atomic        (from the high bits down; never 0)

Two accesses are unordered when their blocks differ; when their epochs are one and their warps differ; or when their
warps and steps are one too and their lanes differ. A barrier begins a new epoch of its block. An instruction at which
the lanes of a warp wait for each other (bar.warp.sync, and shfl, vote, match, redux .sync) begins a new step of its
warp: PTX promises memory order for the first alone, but LLVM and MLIR build reductions on the others, where what is
stored depends on what was loaded before.

All lane bits set stand for several lanes of that warp, all warp and lane bits for several warps, all block bits for
several blocks; each differs from every real one. When epochs or steps are used up, all tags become old ones
(`sweep_epochs`, `sweep_steps`).

Reads are only logged; at the end of an epoch they are compared with the writes of that epoch and entered in bulk.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from difftest.devices.emulator.faults import Stop, fault, first, inconclusive
from difftest.devices.emulator.typed import np

if TYPE_CHECKING:
    from difftest.devices.emulator.lanes import Wave

count_nonzero: Any = np.count_nonzero
U32, U64 = np.uint32, np.uint64
BITS = 32
# Reads are entered in bulk once so many are logged: first early, so that loops that read the same again are cheap.
LOG_START = 1 << 11
LOG_LIMIT = 1 << 20


LANE_BITS = 6
STEP_BITS = 3


class Layout:
    """Where the fields of a tag are, for a launch of `blocks` blocks of `threads` threads."""

    def __init__(self, *, blocks: int, threads: int) -> None:
        warps = -(-threads // 32)
        lane_shift = 1 + STEP_BITS
        self.warp_shift = lane_shift + LANE_BITS
        self.block_shift = self.warp_shift + warps.bit_length()
        self.epoch_shift = self.block_shift + blocks.bit_length()
        if self.epoch_shift > BITS - 3:
            raise inconclusive("launch-limit", f"{blocks} blocks of {threads} threads are too many to watch for races")
        self.last_epoch = (1 << (BITS - self.epoch_shift)) - 1
        self.last_step = (1 << STEP_BITS) - 1
        self.steps = U32((1 << lane_shift) - 2)
        self.lanes = U32((1 << self.warp_shift) - (1 << lane_shift))
        self.warps = U32((1 << self.block_shift) - (1 << self.warp_shift))
        self.threads = self.warps | self.lanes
        self.blocks = U32((1 << self.epoch_shift) - (1 << self.block_shift))
        self.everyone = self.blocks | self.threads
        self.epochs = U32((1 << BITS) - (1 << self.epoch_shift))

    def lane_tags(self, block: Any, thread: Any) -> Any:
        """Tags of lanes (uint32) in epoch 0 and step 0; epochs start at 1."""
        lane = ((thread // 32) << self.warp_shift) | ((thread % 32) << (1 + STEP_BITS))
        return ((block << self.block_shift) | lane).astype(U32)

    def unordered(self, old: Any, new: Any) -> Any:
        """Where accesses with tags `old` (0: none) and `new` are by different threads that nothing orders."""
        x = old ^ new
        apart = ((x & self.blocks) != 0) | ((old & self.blocks) == self.blocks)
        now = (x & self.epochs) == 0
        # One tag for several warps or lanes is nobody's own, not even when both accesses have it.
        elsewhere = ((x & self.warps) != 0) | ((old & self.threads) == self.threads)
        beside = ((x & self.steps) == 0) & (((x & self.lanes) != 0) | ((old & self.lanes) == self.lanes))
        return (old != 0) & (apart | (now & (elsewhere | beside)))

    def conflict(self, old: Any, new: Any) -> Any:
        """As `unordered`, but two atomic accesses may meet."""
        return self.unordered(old, new) & ((old & new & U32(1)) == 0)

    def several(self, old: Any, new: Any) -> Any:
        """The tag for both of two unordered accesses."""
        x = old ^ new
        warps = np.where((x & self.warps) != 0, self.threads, self.lanes)
        return new | np.where((x & self.blocks) != 0, self.everyone, warps)

    def joined(self, old: Any, new: Any) -> Any:
        """The tag that stands for both accesses. When they are ordered, that is the new one."""
        return np.where(self.unordered(old, new), self.several(old, new), new)

    def aged(self, tags: Any) -> Any:
        """Tags made old: of epoch 1 and step 0."""
        kept = tags & (self.everyone | U32(1))
        return np.where(tags == 0, tags, kept | U32(1 << self.epoch_shift))


class Shadow:
    """The race shadow of one arena during one launch."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.granule: int = 2
        self.layout = Layout(blocks=1, threads=1)
        self.log: list[tuple[Any, int, Any, int, Any]] = []
        self.logged = 0
        self.limit = LOG_START
        self.has_reads = False
        self.benign = 0
        self._top = 0
        self._make()

    def _make(self) -> None:
        cells = self.size >> self.granule
        self.writes: Any = np.zeros(cells + 2, U32)
        self.reads: Any = np.zeros(cells + 2, U32)
        self.write_pairs: Any = self.writes[: cells // 2 * 2].view(U64)
        self.read_pairs: Any = self.reads[: cells // 2 * 2].view(U64)

    def start(self, layout: Layout, *, granule: int, size: int, top: int) -> None:
        """Forget everything before a launch whose narrowest access is 2**granule bytes; memory is used below `top`."""
        self.layout = layout
        self.log.clear()
        self.logged = 0
        self.limit = LOG_START
        self.has_reads = False
        self.benign = 0
        if granule != self.granule or size != self.size:
            self.granule, self.size = granule, size
            self._make()
        else:
            self.forget(0, max(top, self._top))
        self._top = top

    def cover(self, size: int, top: int) -> None:
        """The arena may have grown to `size` bytes, of which those below `top` are used; what is known stays."""
        self._top = max(self._top, top)
        if size == self.size:
            return
        writes, reads = self.writes, self.reads
        self.size = size
        self._make()
        self.writes[: len(writes)] = writes
        self.reads[: len(reads)] = reads

    def forget(self, start: int, end: int) -> None:
        """Memory that begins a new life."""
        self._top = max(self._top, end)
        low, high = start >> self.granule, (end >> self.granule) + 1
        self.writes[low:high] = 0
        self.reads[low:high] = 0

    # --- one access ---------------------------------------------------------------------------------------------

    def cells(self, index: Any, width: int) -> Any:
        """Cells of elements of 2**width bytes numbered `index`, all of them: shape (n, k)."""
        extra = width - self.granule
        return index[:, None] if extra == 0 else (index[:, None] << extra) + np.arange(1 << extra)

    def read(self, wave: Wave, index: Any, width: int, line: int, *, atomic: bool = False) -> None:
        """The active lanes read elements `index` (one for all, or one each) of 2**width bytes."""
        extra = width - self.granule
        tags = wave.tags(pairs=extra == 1, count=len(index))
        if atomic:
            tags = tags | tags.dtype.type(1 if extra != 1 else (1 << 32) + 1)
        if extra > 1:
            self._read_many(wave, index, tags, width, line)
            return
        table = self.writes if extra == 0 else self.write_pairs
        old = table.take(index)
        if count_nonzero(old) and (len(index) < wave.count or count_nonzero(old != tags)):
            self._check(wave, self._split(old, extra), wave.lane_tags(atomic=atomic), (index, width), line)
        if self.has_reads:
            # What is entered already (a loop that reads the same again) need not be logged: writes look there.
            seen = (self.reads if extra == 0 else self.read_pairs).take(index)
            if not count_nonzero(seen != tags):
                return
        self.log.append((index, extra, tags, line, wave))
        self.logged += len(index)
        if self.logged > self.limit:
            self.limit = min(2 * self.limit, LOG_LIMIT)
            self.settle()

    def _read_many(self, wave: Wave, index: Any, tags: Any, width: int, line: int) -> None:
        cells = self.cells(index, width)
        old = self.writes.take(cells)
        if count_nonzero(old):
            self._check(wave, old, wave.lane_tags(), (index, width), line)
        for column in range(cells.shape[1]):
            self.log.append((cells[:, column], 0, tags, line, wave))

    @staticmethod
    def _split(old: Any, extra: int) -> Any:
        """Tags as rows of cells."""
        return old.view(U32).reshape(-1, 2) if extra == 1 else old.reshape(-1, 1)

    def _check(self, wave: Wave, old: Any, tags: Any, place: tuple[Any, int], line: int) -> None:
        """A race of a read with earlier writes `old` (one row per element)."""
        bad = self.layout.conflict(old, tags[:, None]).any(axis=1)
        if bad.any():
            raise self._race(wave, bad, place, line, "read here and written")

    def _race(self, wave: Wave, bad: Any, place: tuple[Any, int], line: int, what: str) -> Stop:
        at = first(bad)
        index, width = place
        address = int(index[at if len(index) > 1 else 0]) << width
        message = f"memory is {what} by another thread, and no barrier orders the two"
        return fault("race", message, line=line, lane=wave.lane_of_active(at), address=address)

    def write(self, wave: Wave, index: Any, width: int, line: int, same: Any) -> bool:
        """The active lanes write elements `index`, before they do. `same` tells where the values are those in memory.

        True when lanes share an element: after writing, ask `collided`.
        """
        extra = width - self.granule
        if extra > 1:
            return self._write_many(wave, index, width, line, same)
        writes, reads = (self.writes, self.reads) if extra == 0 else (self.write_pairs, self.read_pairs)
        tags = wave.tags(pairs=extra == 1)
        old = writes.take(index)
        if count_nonzero(old) and count_nonzero(old != tags):
            tags = self._overwrite(wave, self._split(old, extra), (index, width), line, same)
            tags = tags.reshape(-1) if extra == 0 else np.ascontiguousarray(tags).view(U64).reshape(-1)
        if self.has_reads:
            seen = reads.take(index)
            if count_nonzero(seen) and count_nonzero(seen != tags):
                self._check_reads(wave, self._split(seen, extra), (index, width), line)
        writes[index] = tags
        return bool(count_nonzero(writes.take(index) != tags))

    def _check_reads(self, wave: Wave, seen: Any, place: tuple[Any, int], line: int) -> None:
        bad = self.layout.unordered(seen, wave.lane_tags()[:, None]).any(axis=1)
        if bad.any():
            raise self._race(wave, bad, place, line, "written here and read")

    def _overwrite(self, wave: Wave, old: Any, place: tuple[Any, int], line: int, same: Any) -> Any:
        """New tags (rows) of cells that others may have written: several writers of one value are benign."""
        tags = wave.lane_tags()[:, None]
        unordered = self.layout.unordered(old, tags)
        if not unordered.any():
            return np.broadcast_to(tags, (len(tags), old.shape[1]))
        bad = unordered.any(axis=1)
        wrong = bad & ~(same() & ((old & U32(1)) == 0).all(axis=1))
        if wrong.any():
            raise self._race(wave, wrong, place, line, "written here and")
        self.benign += int(count_nonzero(bad))
        return self.layout.joined(old, tags)

    def _write_many(self, wave: Wave, index: Any, width: int, line: int, same: Any) -> bool:
        if len(index) == 1:
            index = np.broadcast_to(index, len(wave.lane_tags()))
        cells = self.cells(index, width)
        old = self.writes.take(cells)
        tags = self._overwrite(wave, old, (index, width), line, same)
        if self.has_reads:
            self._check_reads(wave, self.reads.take(cells), (index, width), line)
        self.writes[cells] = tags
        return bool(count_nonzero(self.writes.take(cells) != tags))

    def collided(self, wave: Wave, index: Any, width: int, line: int, same: Any) -> None:
        """Lanes of one instruction wrote the same elements: a race unless all wrote one value (`same`, after)."""
        if not same.all():
            raise self._race(wave, ~same, (index, width), line, "written here and")
        tags = wave.lane_tags()[:, None]
        if len(index) == 1:
            index = np.broadcast_to(index, len(tags))
        cells = self.cells(index, width)
        self.benign += len(index)
        self._keep_all(self.writes, cells, np.broadcast_to(tags, cells.shape))

    def _keep_all(self, table: Any, cells: Any, mine: Any) -> None:
        """After tags `mine` were put into `cells` at once: where several met, let the cell stand for all of them."""
        layout = self.layout
        back = table.take(cells)
        lost = layout.unordered(back, mine)
        if not lost.any():
            return
        where, tags = cells[lost], layout.several(back[lost], mine[lost])
        # The widest meeting of a cell is entered last.
        for part in (layout.lanes, layout.threads, layout.everyone):
            chosen = (tags & part) == part
            table[where[chosen]] = tags[chosen]

    def atomic(self, wave: Wave, index: Any, width: int, line: int) -> None:
        """The active lanes update elements `index` atomically: plain accesses by others must be ordered before."""
        tags = wave.lane_tags(atomic=True)[:, None]
        if len(index) == 1:
            index = np.broadcast_to(index, len(tags))
        cells = self.cells(index, width)
        old = self.writes.take(cells)
        bad = self.layout.conflict(old, tags).any(axis=1)
        if bad.any():
            raise self._race(wave, bad, (index, width), line, "updated atomically here and written plainly")
        if self.has_reads:
            seen = self.reads.take(cells)
            bad = self.layout.conflict(seen, tags).any(axis=1)
            if bad.any():
                raise self._race(wave, bad, (index, width), line, "updated atomically here and read plainly")
        # A plain write of the same thread and epoch must not be forgotten.
        own = ((old ^ tags) & ~self.layout.steps) == 1
        self.writes[cells] = np.where(own, old, self.layout.joined(old, tags))
        self._keep_all(self.writes, cells, np.broadcast_to(tags, cells.shape))

    def sweep_epochs(self) -> None:
        """Make everything that happened so far old (epoch 1): only accesses by other blocks are unordered with it."""
        self._rewrite(self.layout.aged)

    def sweep_steps(self) -> None:
        """Make everything that happened so far older than the present step of its warp (step 0)."""
        keep = ~self.layout.steps
        self._rewrite(lambda tags: tags & keep)

    def _rewrite(self, change: Callable[[Any], Any]) -> None:
        self.settle()
        cells = (self._top >> self.granule) + 1
        for table in (self.writes, self.reads):
            table[:cells] = change(table[:cells])

    # --- the end of an epoch ------------------------------------------------------------------------------------

    def settle(self) -> None:
        """Compare the logged reads with the writes since, and remember them."""
        log, self.log, self.logged = self.log, [], 0
        for extra in (0, 1):
            part = [entry for entry in log if entry[1] == extra]
            if part:
                self._settle(part, extra)

    def _settle(self, log: list[Any], extra: int) -> None:
        index = np.concatenate([e[0] for e in log])
        tags = np.concatenate([e[2] for e in log])
        if extra == 1:
            index = (index[:, None] * 2 + np.arange(2)).reshape(-1)
            tags = tags.view(U32)
        layout = self.layout
        bad = layout.conflict(self.writes.take(index), tags)
        if bad.any():
            raise self._late_race(log, first(bad) >> extra, int(index[first(bad)]) << self.granule)
        merged = layout.joined(self.reads.take(index), tags) if self.has_reads else tags
        self.has_reads = True
        self.reads[index] = merged
        self._keep_all(self.reads, index, merged)

    def _late_race(self, log: list[Any], position: int, address: int) -> Stop:
        for index, _, tags, line, wave in log:
            size = len(index)
            if position < size:
                lane = wave.lane_of_tag(int(tags[position]) & 0xFFFFFFFF)
                message = "memory is read here and written by another thread, and no barrier orders the two"
                found = fault("race", message, line=line, lane=lane, address=address)
                found.place = wave.place_of(lane)
                return found
            position -= size
        raise AssertionError("a race without a read")


class NoShadow(Shadow):
    """Looks for no races."""

    def read(self, wave: Wave, index: Any, width: int, line: int, *, atomic: bool = False) -> None:
        """Nothing."""
        del wave, index, width, line, atomic

    def write(self, wave: Wave, index: Any, width: int, line: int, same: Any) -> bool:
        """Nothing."""
        del wave, index, width, line, same
        return False

    def atomic(self, wave: Wave, index: Any, width: int, line: int) -> None:
        """Nothing."""
        del wave, index, width, line

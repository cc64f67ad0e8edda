"""Waves: lanes that execute together, which of them are active, and their registers.

A register holds an array of one element while its value is the same in all lanes, else of one element per lane.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from difftest.devices.emulator.compile import Code, CodeBlock
    from difftest.devices.emulator.memory import Arena
    from difftest.devices.emulator.run import Launch

count_nonzero: Any = np.count_nonzero
U32, U64 = np.uint32, np.uint64
WARP = 32


class Frame:
    """One activation of a kernel or function: registers, where it is, and what waits to be run.

    `stack` holds (block, mask, reconvergence block) of lanes that wait; `reconvergence` is where the running ones wait
    for them; `done` are lanes that have returned. `params` are the `.param` variables, by (name, offset, bytes).
    """

    __slots__ = ("base", "code", "done", "params", "pc", "reconvergence", "registers", "results", "stack")

    def __init__(self, code: Code, registers: list[Any], params: dict[tuple[str, int, int], Any]) -> None:
        self.code = code
        self.registers = registers
        self.params = params
        self.pc = 0
        self.reconvergence = -1
        self.stack: list[tuple[int, Any, int]] = []
        self.done: Any = None
        self.base: Any = None
        self.results: Any = None


class Wave:
    """`n` lanes of one launch. `blocks` and `threads` are their linear block and thread numbers (int64 arrays).

    `mask` is None when all lanes are active; `count` is how many are. `local` is where each lane's .local memory
    begins, `shared` where its block's .shared memory does (addresses of offset 0, int64).
    """

    def __init__(self, launch: Launch, *, blocks: Any, threads: Any, shared: Any, local: Any) -> None:
        self.launch = launch
        self.memory: Arena = launch.memory
        self.n = len(threads)
        self.blocks = blocks
        self.threads = threads
        self.shared = shared
        self.local = local
        self.mask: Any = None
        self.count = self.n
        self.exited: Any = None
        self.frames: list[Frame] = []
        self.r: list[Any] = []
        self.params: dict[tuple[str, int, int], Any] = {}
        self.blocked: Any = None
        self.epoch: Any = np.ones(1, U32)
        self.step: Any = np.zeros(1, U32)
        self.base_tags = launch.layout.lane_tags(blocks, threads)
        self._index: Any = None
        self._tags: Any = None
        self._pairs: Any = None
        self._group: Any = None
        self._atomic: Any = None
        self.one_block = bool((blocks == blocks[0]).all())
        self._slots: Any = None

    # --- frames ---------------------------------------------------------------------------------------------------

    def enter(self, frame: Frame) -> None:
        """Begin a kernel or a called function."""
        self.frames.append(frame)
        self.r = frame.registers
        self.params = frame.params

    def leave(self) -> Frame:
        """Go back to the caller's frame."""
        self.frames.pop()
        frame = self.frames[-1]
        self.r = frame.registers
        self.params = frame.params
        return frame

    def retire(self, mask: Any, *, everywhere: bool) -> None:
        """Lanes have returned from the running function, or (`everywhere`, or in a kernel) ended."""
        if everywhere or len(self.frames) == 1:
            self.exited = mask if self.exited is None else self.exited | mask
        for frame in self.frames if everywhere else self.frames[-1:]:
            frame.done = mask if frame.done is None else frame.done | mask

    def waits(self, block: CodeBlock) -> bool:
        """Whether the wave must wait before a block's last instruction, at which lanes meet."""
        raise NotImplementedError

    def arrive(self, name: int, count: int, line: int, kind: str) -> None:
        """The active lanes are at barrier `name` for `count` threads (0: all of the block)."""
        raise NotImplementedError

    # --- which lanes are active -----------------------------------------------------------------------------------

    def set_mask(self, mask: Any, count: int) -> None:
        """Make `count` lanes active: all when `mask` is None."""
        self.mask = mask
        self.count = count
        self._index = self._tags = self._pairs = self._group = self._atomic = None

    @property
    def index(self) -> Any:
        """The numbers of the active lanes."""
        if self._index is None:
            self._index = np.flatnonzero(self.mask) if self.mask is not None else np.arange(self.n)
        return self._index

    def pick(self, value: Any) -> Any:
        """A register's values in the active lanes (one, or one each)."""
        return value if self.mask is None or len(value) == 1 else value[self.index]

    def lane_of_active(self, position: int) -> int:
        """The lane that is the `position`-th active one."""
        return int(self.index[position])

    def place_of(self, lane: int) -> tuple[int, ...]:
        """Block x, y, z and thread x, y, z of a lane."""
        launch = self.launch
        return (*_split(int(self.blocks[lane]), launch.grid), *_split(int(self.threads[lane]), launch.block))

    # --- tags of the race shadow ----------------------------------------------------------------------------------

    def lane_tags(self, *, atomic: bool = False) -> Any:
        """The tags of the active lanes, one each."""
        if self._tags is None:
            epoch = self.epoch << U32(self.launch.layout.epoch_shift)
            tags = self.base_tags | epoch | (self.step << U32(1))
            self._tags = tags if self.mask is None else tags[self.index]
        if not atomic:
            return self._tags
        if self._atomic is None:
            self._atomic = self._tags | U32(1)
        return self._atomic

    def tags(self, *, pairs: bool, count: int = -1) -> Any:
        """Tags for an access of `count` elements: one for all lanes together when they share one element."""
        tags = self.lane_tags()
        if count == 1 and self.count > 1:
            if self._group is None:
                layout = self.launch.layout
                one = self.one_block or bool((self.blocks[self.index] == self.blocks[self.index[0]]).all())
                part = layout.everyone
                if one:
                    warps = self.threads[self.index] // WARP
                    part = layout.lanes if (warps == warps[0]).all() else layout.threads
                self._group = tags[:1] | part
            tags = self._group
            if pairs:
                return tags.astype(U64) | (tags.astype(U64) << U64(32))
        if not pairs:
            return tags
        if self._pairs is None:
            self._pairs = tags.astype(U64) | (tags.astype(U64) << U64(32))
        return self._pairs

    def next_epoch(self) -> None:
        """The active lanes (whole blocks) passed a barrier."""
        shadow, layout = self.launch.memory.shadow, self.launch.layout
        shadow.settle()
        if self.mask is None:
            self.epoch = self.epoch + U32(1)
        else:
            self.epoch = self.spread(self.epoch) + self.mask.astype(U32)
        if int(self.epoch.max()) > layout.last_epoch:
            shadow.sweep_epochs()
            self.epoch = np.full(1, 2, U32)
        self.set_mask(self.mask, self.count)

    def next_step(self) -> None:
        """The active lanes of each warp waited for each other."""
        shadow, layout = self.launch.memory.shadow, self.launch.layout
        if self.mask is None:
            self.step = self.step + U32(1)
        else:
            self.step = self.spread(self.step) + self.mask.astype(U32)
        if int(self.step.max()) > layout.last_step:
            shadow.sweep_steps()
            self.step = np.ones(1, U32)
        self.set_mask(self.mask, self.count)

    def lane_of_tag(self, tag: int) -> int:
        """A lane that a tag stands for."""
        layout = self.launch.layout
        bits = int(layout.everyone)
        found = np.flatnonzero(self.base_tags == U32(tag & bits))
        return int(found[0]) if len(found) else 0

    # --- warps ----------------------------------------------------------------------------------------------------

    @property
    def warp_lane(self) -> Any:
        """The number of each lane in its warp."""
        return self.threads % WARP

    def slots(self) -> tuple[Any, Any]:
        """Each lane's warp (numbered from 0), and a table: the wave's lane of each (warp, lane in warp), or -1."""
        if self._slots is None:
            per_block = -(-self.launch.threads // WARP)
            _, warps = np.unique(self.blocks * per_block + self.threads // WARP, return_inverse=True)
            table = np.full((int(warps.max()) + 1, WARP), -1)
            table[warps, self.warp_lane] = np.arange(self.n)
            self._slots = warps, table
        return self._slots

    def active_mask(self) -> Any:
        """Active lanes as a bool array."""
        return np.ones(self.n, bool) if self.mask is None else self.mask

    def spread(self, value: Any) -> Any:
        """A register with one element per lane."""
        return value if len(value) == self.n else np.broadcast_to(value, self.n)


def _split(number: int, sizes: tuple[int, int, int]) -> tuple[int, int, int]:
    x, y, _ = sizes
    return number % x, number // x % y, number // (x * y)

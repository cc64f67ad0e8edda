"""One byte arena for every state space, and what each byte is: allocated, initialised, read-only.

An address is `BASE` + the byte's place in the arena, in every space: generic addressing (PTX ISA 6.4.1) needs no
windows. `.shared` and `.local` addresses count from 0 per block and per thread; the wave adds where those begin.
Objects stand `GAP` bytes apart, so that a walk past an end is met.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from difftest.devices.emulator.faults import Stop, fault, first, inconclusive
from difftest.devices.emulator.shadow import NoShadow, Shadow

if TYPE_CHECKING:
    from difftest.devices.emulator.lanes import Wave

count_nonzero: Any = np.count_nonzero
# Far above 32 bits: an address that lost its upper half points nowhere.
BASE = 0x7_0000_0000
GAP = 256
_SLACK = 256
FIRST_SIZE = 1 << 16
VALID, INITIALISED, CONSTANT = 1, 2, 4
ATOMIC = 3
_WIDTHS = ("u1", "u2", "u4", "u8")
_FULL = tuple(np.dtype(w).type(int.from_bytes(bytes([ATOMIC]) * np.dtype(w).itemsize, "little")) for w in _WIDTHS)
ORIGIN = np.int64(BASE)
_SHIFT = tuple(np.int64(i) for i in range(4))
_LOW = tuple(np.int64((1 << i) - 1) for i in range(5))
DTYPES: tuple[Any, ...] = tuple(np.dtype(d) for d in ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8"))


class Arena:
    """The memory of one device, `limit` bytes at most. `strict`: reading what was never written is a fault.

    `races` tells whether they are looked for.
    """

    def __init__(self, *, limit: int = 1 << 30, strict: bool = True, races: bool = True) -> None:
        self.races = races
        self.limit = limit
        self.strict = strict
        self.top = GAP
        self.objects: dict[int, int] = {}
        self.freed: dict[int, int] = {}
        self.heap: set[int] = set()
        self.notes: dict[str, int] = {}
        self._resize(FIRST_SIZE)
        self.shadow = (Shadow if races else NoShadow)(FIRST_SIZE)

    def _resize(self, size: int) -> None:
        data, state = np.zeros(size, np.uint8), np.zeros(size, np.uint8)
        if self.top > GAP:
            data[: self.top], state[: self.top] = self.data[: self.top], self.state[: self.top]
        self.data: Any = data
        self.state: Any = state
        self.views: dict[Any, Any] = {d: data.view(d) for d in DTYPES}
        self.states: tuple[Any, ...] = tuple(state.view(w) for w in _WIDTHS)

    # --- objects ------------------------------------------------------------------------------------------------

    def allocate(self, size: int, *, align: int = 256, pieces: int = 1, gap: int = GAP) -> tuple[int, int]:
        """`pieces` objects of `size` uninitialised bytes: the address of the first, and how far apart they are."""
        align = max(align, 16)
        stride = -(-(size + gap) // align) * align
        start = -(-self.top // align) * align
        end = start + stride * pieces + GAP
        if end > self.limit:
            raise inconclusive("memory", f"more than {self.limit} bytes of device memory are needed")
        if end > len(self.data):
            self._resize(max(-(-end // 4096) * 4096, 2 * len(self.data)))
        if self.freed:
            self.freed = {a: n for a, n in self.freed.items() if a + n <= BASE + start}
        region = self.state[start : start + stride * pieces].reshape(pieces, stride)
        region[:, :size] = VALID
        region[:, size:] = 0
        self.top = end - GAP
        if pieces == 1:
            self.objects[BASE + start] = size
        return BASE + start, stride

    def make_heap(self, sizes: Any, count: int) -> Any:
        """One object per lane of `sizes` bytes (one for all, or one each), for kernels that call malloc."""
        size = int(np.clip(sizes, 0, self.limit).max())
        start, stride = self.allocate(size, align=16, pieces=count, gap=16)
        self.objects.pop(start, None)
        found = start + stride * np.arange(count, dtype=np.int64)
        each = np.broadcast_to(sizes, count).tolist()
        for address, length in zip(found.tolist(), each, strict=True):
            self.objects[address] = length
            self.state[address - BASE + length : address - BASE + size] = 0
        self.heap.update(found.tolist())
        self.shadow.cover(len(self.data), self.top)
        return found

    def free_heap(self, address: int) -> bool:
        """End an object of the heap; False when the address is none."""
        if address not in self.heap:
            return False
        self.heap.remove(address)
        self._end(address)
        return True

    def free(self, address: int) -> None:
        """End an object. KeyError for an address that is none."""
        size = self._end(address)
        start = address - BASE
        if start + size + GAP >= self.top - _SLACK:
            # The last object: its bytes may be used again.
            self.top = start

    def _end(self, address: int) -> int:
        size = self.objects.pop(address)
        start = address - BASE
        self.state[start : start + size] = 0
        self.freed[address] = size
        return size

    def release(self, top: int) -> None:
        """Forget everything above `top` (what a launch made)."""
        self.state[top : self.top + GAP] = 0
        self.shadow.forget(top, self.top + GAP)
        for address in [a for a in self.objects if a - BASE >= top]:
            del self.objects[address]
        self.top = top

    def write_bytes(self, address: int, data: Any, initialised: Any = None) -> None:
        """Put bytes (uint8) at an address; `initialised` (bool per byte) limits what then counts as written."""
        start = address - BASE
        self.data[start : start + len(data)] = data
        state = self.state[start : start + len(data)]
        if initialised is None:
            state |= INITIALISED
        else:
            state[:] = np.where(initialised, VALID | INITIALISED, VALID)

    def read_bytes(self, address: int, size: int) -> tuple[Any, Any]:
        """Copies of bytes and whether each was ever written."""
        start = address - BASE
        return self.data[start : start + size].copy(), (self.state[start : start + size] & INITIALISED) != 0

    # --- accesses by lanes --------------------------------------------------------------------------------------

    def locate(self, wave: Wave, place: tuple[Any, Any], width: int, line: int) -> Any:
        """Element numbers of the arena for places of the active lanes, which must be aligned."""
        address, origin = place
        offset = address - origin
        if width and count_nonzero(offset & _LOW[width]):
            raise self.misaligned(wave, offset, width, line)
        return offset >> _SHIFT[width]

    def misaligned(self, wave: Wave, offset: Any, width: int, line: int) -> Stop:
        """The fault of an address (given as its place in the arena) that is no multiple of 2**width."""
        at = first((offset & _LOW[width]) != 0)
        address = int(offset[at]) + BASE
        message = f"address {address:#x} is no multiple of {1 << width} bytes"
        return fault("misaligned-access", message, line=line, lane=wave.lane_of_active(at), address=address)

    def load(
        self,
        wave: Wave,
        place: tuple[Any, Any],
        width: int,
        dtype: Any,
        line: int,
        *,
        private: bool = False,
        atomic: bool = False,
    ) -> Any:
        """The values of 2**width bytes at the active lanes' places (one, or one each), as `dtype`.

        A place is (addresses, origin): their difference counts bytes of the arena.
        """
        index = self.locate(wave, place, width, line)
        state = self.states[width].take(index, mode="clip")
        if count_nonzero(state != _FULL[width]):
            self._explain(wave, index, width, line, writing=False)
        if not private:
            self.shadow.read(wave, index, width, line, atomic=atomic)
        return self.views[dtype].take(index)

    def store(
        self,
        wave: Wave,
        place: tuple[Any, Any],
        value: Any,
        width: int,
        line: int,
        *,
        private: bool = False,
        atomic: bool = False,
    ) -> None:
        """Write values of 2**width bytes (one, or one per active lane) to the active lanes' places."""
        index = self.locate(wave, place, width, line)
        states = self.states[width]
        state = states.take(index, mode="clip")
        if count_nonzero(state != _FULL[width]):
            self._explain(wave, index, width, line, writing=True)
        target = self.views[value.dtype]
        count = wave.count
        if len(index) != count:
            index = np.broadcast_to(index, count)
        if private:
            target[index] = value
        elif atomic:
            self.shadow.atomic(wave, index, width, line)
            target[index] = value
        else:
            self._store(wave, index, value, (width, line), target)
        states[index] = _FULL[width]

    def _store(self, wave: Wave, index: Any, value: Any, access: tuple[int, int], target: Any) -> None:
        width, line = access
        bits = self.views[np.dtype(_WIDTHS[width])]
        raw = value.view(_WIDTHS[width])

        def same() -> Any:
            return bits.take(index) == raw

        shared = self.shadow.write(wave, index, width, line, same)
        target[index] = value
        if shared:
            self.shadow.collided(wave, index, width, line, same())

    def _explain(self, wave: Wave, index: Any, width: int, line: int, *, writing: bool) -> None:
        """Say what is wrong with the state of some element, unless it is only uninitialised and that is allowed."""
        size = 1 << width
        limit = len(self.data) >> width
        inside = (index >= 0) & (index < limit)
        cells = np.where(inside, index, 0)[:, None] * size + np.arange(size)
        states = np.where(inside[:, None], self.state[cells], 0)
        outside = ((states & VALID) == 0).any(axis=1)
        if outside.any():
            at = first(outside)
            raise self._outside(wave, at, int(index[at]) * size + BASE, size, line)
        constant = ((states & CONSTANT) != 0).any(axis=1)
        if writing:
            if constant.any():
                at = first(constant)
                place = int(index[at]) * size + BASE
                raise fault(
                    "constant-write",
                    "read-only memory is written",
                    line=line,
                    lane=self._lane(wave, at, index),
                    address=place,
                )
            return
        missing = ((states & INITIALISED) == 0).any(axis=1)
        if not missing.any():
            return
        at = first(missing)
        place = int(index[at]) * size + BASE
        if self.strict:
            message = f"{size} bytes at {place:#x} are read that were never written"
            raise fault("uninitialised-read", message, line=line, lane=self._lane(wave, at, index), address=place)
        self.notes["uninitialised-read"] = self.notes.get("uninitialised-read", 0) + int(count_nonzero(missing))

    @staticmethod
    def _lane(wave: Wave, at: int, index: Any) -> int:
        return wave.lane_of_active(at if len(index) > 1 else 0)

    def _outside(self, wave: Wave, at: int, address: int, size: int, line: int) -> Stop:
        lane = wave.lane_of_active(at)
        for start, length in self.freed.items():
            if start <= address < start + length:
                return fault(
                    "use-after-free",
                    f"{size} bytes at {address:#x} are freed memory",
                    line=line,
                    lane=lane,
                    address=address,
                )
        near = [a for a in self.objects if a <= address]
        what = ""
        if near:
            start = max(near)
            what = f", {address - start - self.objects[start]} bytes past an object of {self.objects[start]} bytes"
        message = f"{size} bytes at {address:#x} are outside of all objects{what}"
        return fault("out-of-bounds", message, line=line, lane=lane, address=address)

    def cells(self, dtype: Any) -> Any:
        """The whole arena as elements of a dtype."""
        return self.views[dtype]

    def atomic(self, wave: Wave, place: tuple[Any, Any], width: int, line: int) -> Any:
        """Check a read-modify-write of the active lanes; their element numbers, one each."""
        index = self.locate(wave, place, width, line)
        state = self.states[width].take(index, mode="clip")
        if count_nonzero(state != _FULL[width]):
            self._explain(wave, index, width, line, writing=True)
            self._explain(wave, index, width, line, writing=False)
        self.shadow.atomic(wave, index, width, line)
        self.states[width][index] = _FULL[width]
        return np.broadcast_to(index, wave.count)

"""Special registers (PTX ISA 10)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from difftest.devices.emulator.lanes import Wave

AXES = "xyz"


def _axis(linear: Any, sizes: tuple[int, int, int], axis: int) -> Any:
    """One coordinate of linear numbers, x fastest; one element when all are the same."""
    if sizes[axis] == 1:
        return np.zeros(1, np.int32)
    x, y, _ = sizes
    found = (linear % x, linear // x % y, linear // (x * y))[axis].astype(np.int32)
    return found[:1] if len(linear) == 1 or (found == found[0]).all() else found


def special_value(wave: Wave, name: str) -> Any:
    """The value of a special register in all lanes of a wave, as int32 (int64 for 64-bit counters)."""
    launch = wave.launch
    base, _, suffix = name[1:].partition(".")
    if base == "tid":
        return _axis(wave.threads, launch.block, AXES.index(suffix))
    if base == "ctaid":
        return _axis(wave.blocks, launch.grid, AXES.index(suffix))
    if base in {"ntid", "nctaid"}:
        sizes = launch.block if base == "ntid" else launch.grid
        return np.array([sizes[AXES.index(suffix)]], np.int32)
    if base.startswith("lanemask_"):
        return _lane_mask(wave.warp_lane.astype(np.uint64), base.removeprefix("lanemask_"))
    if base == "laneid":
        return wave.warp_lane.astype(np.int32)
    if base == "warpid":
        return (wave.threads // 32).astype(np.int32)
    if base in {"clock64", "globaltimer"}:
        return np.array([launch.instructions], np.int64)
    constants = {
        "nwarpid": -(-launch.threads // 32),
        "nsmid": 1,
        "WARP_SZ": 32,
        "dynamic_smem_size": launch.dynamic,
        "total_smem_size": launch.dynamic,
    }
    return np.array([constants.get(base, 0)], np.int32)


def _lane_mask(lane: Any, which: str) -> Any:
    one = np.uint64(1)
    equal = one << lane
    below = equal - one
    every = np.uint64(0xFFFFFFFF)
    found = {
        "eq": equal,
        "lt": below,
        "le": below | equal,
        "gt": every & ~(below | equal),
        "ge": every & ~below,
    }[which]
    return found.astype(np.uint32).view(np.int32)

"""How fast the emulator executes: one kernel with the mix of instructions that generated kernels have.

Of its loop's 26 instructions three touch memory, one branches on data, the others are integer and float arithmetic,
comparisons, conversions and selections, as in the kernels of the default profile (PIPELINES §5).
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from difftest.devices.base import LaunchKind
from difftest.devices.emulator import EmulatorDevice
from difftest.errors import HarnessError

BLOCK = 64
LOOPS = 20
KERNEL = """
.version 7.8
.target sm_90
.address_size 64
.visible .entry mix(.param .u64 source, .param .u64 target)
{
    .reg .pred %p<4>; .reg .b32 %r<26>; .reg .b64 %rd<20>;
    ld.param.u64 %rd1, [source]; ld.param.u64 %rd2, [target];
    mov.u32 %r2, %tid.x; mov.u32 %r3, %ctaid.x; mov.u32 %r4, %ntid.x; mad.lo.s32 %r5, %r3, %r4, %r2;
    mul.wide.s32 %rd3, %r5, 4; add.s64 %rd4, %rd1, %rd3; mov.b32 %r10, 0;
LOOP:
    ld.global.b32 %r6, [%rd4]; mad.lo.s64 %rd12, %rd3, 12, %rd1; cvt.u64.u32 %rd13, %r5; shl.b64 %rd14, %rd13, 2;
    add.s64 %rd15, %rd1, %rd14; ld.global.b32 %r15, [%rd15]; add.rn.f32 %r16, %r6, %r15;
    mul.rn.f32 %r17, %r16, 0f3F000000; setp.lt.s64 %p2, %rd13, 100; selp.f32 %r18, %r17, %r16, %p2;
    and.b32 %r19, %r5, 7; xor.b32 %r20, %r19, 3; cvt.rn.f32.s32 %r21, %r20; add.rn.f32 %r22, %r21, %r18;
    add.s64 %rd16, %rd2, %rd14; st.global.b32 [%rd16], %r22; add.s64 %rd17, %rd16, 0; mul.wide.u32 %rd18, %r19, 4;
    sub.s64 %rd19, %rd18, %rd14; cvt.rzi.s32.f32 %r23, %r22; min.s32 %r24, %r23, 100; setp.ne.b32 %p3, %r24, 3;
    @%p3 bra SKIP;
    add.rn.f32 %r22, %r22, %r22;
SKIP:
    add.s32 %r10, %r10, 1; setp.lt.s32 %p1, %r10, LIMIT; @%p1 bra LOOP;
    ret;
}
""".replace("LIMIT", str(LOOPS))


@dataclass(frozen=True, slots=True, kw_only=True)
class Throughput:
    """The best of several launches, per instruction of a wave and per instruction of a lane."""

    lanes: int
    microseconds_per_instruction: float
    nanoseconds_per_lane_instruction: float


def measure(*, lanes: int, repeats: int = 20, races: bool = True) -> Throughput:
    """Run the kernel on `lanes` lanes (a multiple of the block of 64), with or without looking for races."""
    device = EmulatorDevice(races=races)
    kernel = device.load(KERNEL)["mix"]
    source, target = device.allocate(4 * lanes), device.allocate(4 * lanes)
    device.upload(source, (np.arange(lanes) % 7).astype(np.float32).view(np.uint8))
    best, instructions, lane_instructions = float("inf"), 1, 1
    for _ in range(repeats):
        begin = time.perf_counter()
        outcome = device.launch(kernel, grid=(lanes // BLOCK, 1, 1), block=(BLOCK, 1, 1), arguments=[source, target])
        best = min(best, time.perf_counter() - begin)
        if outcome.kind is not LaunchKind.OK:
            raise HarnessError(f"the benchmark kernel failed: {outcome.fault}")
        instructions, lane_instructions = outcome.instructions, outcome.lane_instructions
    return Throughput(
        lanes=lanes,
        microseconds_per_instruction=best / instructions * 1e6,
        nanoseconds_per_lane_instruction=best / lane_instructions * 1e9,
    )

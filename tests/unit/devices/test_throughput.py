"""The benchmark kernel runs and is counted; how fast is for the benchmark to say."""

from difftest.devices.throughput import LOOPS, measure


def test_the_kernel_is_measured():
    found = measure(lanes=128, repeats=2)
    assert found.lanes == 128
    # Two blocks of 64 lanes in one wave: every instruction of it is at most 128 lane instructions.
    ratio = found.microseconds_per_instruction * 1e3 / found.nanoseconds_per_lane_instruction
    assert 64 < ratio <= 128 and LOOPS == 20

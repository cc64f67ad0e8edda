"""gpu: shuffles and reductions (SEMANTICS §8)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from difftest.interpreter.run import interpret
from difftest.ir.reader import read_module
from difftest.model import Mode, Outcome, OutcomeKind, Schedule

SCHEDULES = (Schedule.LOCK_STEP, Schedule.SEQUENTIAL, Schedule.SHUFFLED)


def kernel(body: str, grid: int, block: Sequence[int], kind: str = "i32") -> str:
    """`@k(%in, %out)`: each work item has %v = in[%g] and %g, %t; `body` defines %r, stored to out[%g]."""
    dx, dy = block
    memref = f"memref<?x{kind}>"
    names = ", ".join(f"%{a}{x}: index" for a in ("b", "t", "g", "d") for x in "xyz")
    return f"""
"builtin.module"() ({{
  "func.func"() <{{function_type = ({memref}, {memref}) -> (), sym_name = "k"}}> ({{
  ^bb0(%in: {memref}, %out: {memref}):
    %c1 = "arith.constant"() <{{value = 1 : index}}> : () -> index
    %gr = "arith.constant"() <{{value = {grid} : index}}> : () -> index
    %sx = "arith.constant"() <{{value = {dx} : index}}> : () -> index
    %sy = "arith.constant"() <{{value = {dy} : index}}> : () -> index
    %items = "arith.constant"() <{{value = {dx * dy} : index}}> : () -> index
    "gpu.launch"(%gr, %c1, %c1, %sx, %sy, %c1)
        <{{operandSegmentSizes = array<i32: 0, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0>}}> ({{
    ^bb0({names}):
      %row = "arith.muli"(%ty, %sx) : (index, index) -> index
      %t = "arith.addi"(%row, %tx) : (index, index) -> index
      %start = "arith.muli"(%bx, %items) : (index, index) -> index
      %g = "arith.addi"(%start, %t) : (index, index) -> index
      %v = "memref.load"(%in, %g) : ({memref}, index) -> {kind}
      {body}
      "memref.store"(%r, %out, %g) : ({kind}, {memref}, index) -> ()
      "gpu.terminator"() : () -> ()
    }}) : (index, index, index, index, index, index) -> ()
    "func.return"() : () -> ()
  }}) : () -> ()
}}) : () -> ()
"""


def shuffle(mode: str, offset: int, *, width: int = 32, use: str = "") -> str:
    used = use or (
        '%r = "arith.select"(%ok, %s, %w) : (i1, i32, i32) -> i32'
        if width == 32
        else '%r = "arith.addi"(%v, %w) : (i32, i32) -> i32'
    )
    return f"""
      %o = "arith.constant"() <{{value = {offset} : i32}}> : () -> i32
      %w = "arith.constant"() <{{value = {width} : i32}}> : () -> i32
      %s, %ok = "gpu.shuffle"(%v, %o, %w) <{{mode = #gpu<shuffle_mode {mode}>}}> : (i32, i32, i32) -> (i32, i1)
      {used}
    """


def run(text: str, data: Any, *, schedule: Schedule = Schedule.LOCK_STEP, mode: Mode = Mode.SOURCE) -> Outcome:
    arguments = [data, np.zeros_like(data)]
    return interpret(read_module(text), entry="k", arguments=arguments, schedule=schedule, mode=mode, seed=1)


def result(text: str, data: Any, *, schedule: Schedule = Schedule.LOCK_STEP) -> Any:
    outcome = run(text, data, schedule=schedule)
    assert outcome.kind is OutcomeKind.OK, outcome.fault
    return outcome.observed[1].data


def shuffled(mode: str, offset: int, data: Any, block: int) -> Any:
    """A plain Python model: 32 where the lane reads outside of the 32 lanes."""
    found = np.full_like(data, 32)
    for i in range(len(data)):
        lane = i % block % 32
        target = {"xor": lane ^ offset, "up": lane - offset, "down": lane + offset, "idx": offset}[mode]
        if 0 <= target < 32:
            found[i] = data[i - lane + target]
    return found


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(
    ("mode", "offset"),
    [("xor", 1), ("xor", 31), ("up", 3), ("down", 5), ("idx", 7), ("idx", 40), ("xor", 32), ("up", 0)],
)
def test_a_shuffle_reads_the_lane_it_names(mode: str, offset: int, schedule: Schedule) -> None:
    data = np.arange(100, 100 + 3 * 64, dtype=np.int32)
    text = kernel(shuffle(mode, offset), 3, (16, 4))
    assert np.array_equal(result(text, data, schedule=schedule), shuffled(mode, offset, data, 64))


def test_a_shuffled_value_that_no_lane_gave_is_poison() -> None:
    data = np.arange(32, dtype=np.int32)
    outcome = run(kernel(shuffle("up", 2, use='%r = "arith.addi"(%s, %o) : (i32, i32) -> i32'), 1, (32, 1)), data)
    assert outcome.kind is OutcomeKind.OK
    skip = outcome.observed[1].skip
    assert skip is not None
    assert np.array_equal(skip, np.arange(32) < 2)
    assert np.array_equal(outcome.observed[1].data[2:], np.arange(30) + 2)


def test_lanes_beyond_the_width_get_nothing() -> None:
    data = np.arange(32, dtype=np.int32)
    use = '%x = "arith.extui"(%ok) : (i1) -> i32\n%r = "arith.addi"(%x, %o) : (i32, i32) -> i32'
    text = kernel(shuffle("xor", 4, width=8, use=use), 1, (32, 1))
    assert np.array_equal(result(text, data) - 4, np.arange(32) < 8)


def test_a_shuffle_without_its_first_lanes_is_undefined() -> None:
    data = np.arange(48, dtype=np.int32)
    for text in (kernel(shuffle("xor", 1), 1, (48, 1)), kernel(shuffle("xor", 1, width=33), 1, (32, 1))):
        outcome = run(text, data)
        assert outcome.fault is not None
        assert outcome.fault.rule in {"shuffle-divergence", "shuffle-width"}


def combined(name: str, data: Any) -> Any:
    """What a reduction of one block gives, by plain numpy."""
    unsigned = data.view(np.uint32)
    found = {
        "add": data.sum(dtype=np.int32),
        "mul": data.prod(dtype=np.int32),
        "maxsi": data.max(),
        "minsi": data.min(),
        "maxui": unsigned.max().view(np.int32),
        "minui": unsigned.min().view(np.int32),
        "and": np.bitwise_and.reduce(data),
        "or": np.bitwise_or.reduce(data),
        "xor": np.bitwise_xor.reduce(data),
    }
    return np.full_like(data, found[name])


OPERATIONS = ("add", "mul", "maxsi", "minsi", "maxui", "minui", "and", "or", "xor")


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("name", OPERATIONS)
def test_all_reduce_gives_every_item_the_blocks_value(name: str, schedule: Schedule) -> None:
    data = np.random.default_rng(4).integers(-5, 7, 4 * 48).astype(np.int32)
    body = f'%r = "gpu.all_reduce"(%v) <{{op = #gpu<all_reduce_op {name}>, uniform}}> ({{\n}}) : (i32) -> i32'
    want = np.concatenate([combined(name, part) for part in data.reshape(4, 48)])
    assert np.array_equal(result(kernel(body, 4, (12, 4)), data, schedule=schedule), want)


@pytest.mark.parametrize("grid", [1, 3])
@pytest.mark.parametrize("block", [(1, 1), (5, 3), (64, 1)])
def test_all_reduce_with_a_region_combines_each_value_once(grid: int, block: tuple[int, int]) -> None:
    items = block[0] * block[1]
    data = np.random.default_rng(5).integers(-50, 50, grid * items).astype(np.int32)
    body = """%r = "gpu.all_reduce"(%v) <{uniform}> ({
      ^bb0(%a: i32, %b: i32):
        %c = "arith.addi"(%a, %b) : (i32, i32) -> i32
        "gpu.yield"(%c) : (i32) -> ()
      }) : (i32) -> i32"""
    want = np.repeat(data.reshape(grid, items).sum(axis=1), items)
    assert np.array_equal(result(kernel(body, grid, block), data), want)


def test_a_float_sum_that_rounds_carries_a_bound_and_an_exact_one_does_not() -> None:
    body = '%r = "gpu.all_reduce"(%v) <{op = #gpu<all_reduce_op add>, uniform}> ({\n}) : (f32) -> f32'
    text = kernel(body, 2, (32, 1), "f32")
    exact = run(text, (np.arange(64) / 4).astype(np.float32))
    assert exact.observed[1].bound is None
    assert np.array_equal(exact.observed[1].data[[0, 63]], [124, 380])
    rough = run(text, (1 / (1 + np.arange(64))).astype(np.float32))
    assert rough.observed[1].bound is not None


def test_subgroup_reduce_works_by_32_lanes() -> None:
    data = np.arange(2 * 80, dtype=np.int32)
    body = '%r = "gpu.subgroup_reduce"(%v) <{op = #gpu<all_reduce_op add>, uniform}> : (i32) -> i32'
    want = np.concatenate([np.full(len(p), p.sum()) for b in data.reshape(2, 80) for p in (b[:32], b[32:64], b[64:])])
    assert np.array_equal(result(kernel(body, 2, (80, 1)), data), want)


def test_a_reduction_that_only_some_items_reach_is_undefined() -> None:
    body = """
      %c = "arith.cmpi"(%tx, %c1) <{predicate = 0 : i64}> : (index, index) -> i1
      %r = "scf.if"(%c) ({
        %x = "gpu.all_reduce"(%v) <{op = #gpu<all_reduce_op add>, uniform}> ({
        }) : (i32) -> i32
        "scf.yield"(%x) : (i32) -> ()
      }, {
        "scf.yield"(%v) : (i32) -> ()
      }) : (i1) -> i32
    """
    outcome = run(kernel(body, 1, (4, 1)), np.arange(4, dtype=np.int32))
    assert outcome.fault is not None
    assert outcome.fault.rule == "barrier-divergence"


def test_a_reduction_does_not_order_other_memory() -> None:
    body = """
      "memref.store"(%v, %in, %g) : (i32, memref<?xi32>, index) -> ()
      %s = "gpu.all_reduce"(%v) <{op = #gpu<all_reduce_op add>, uniform}> ({
      }) : (i32) -> i32
      %n = "arith.xori"(%g, %c1) : (index, index) -> index
      %r = "memref.load"(%in, %n) : (memref<?xi32>, index) -> i32
    """
    assert run(kernel(body, 1, (4, 1)), np.arange(4, dtype=np.int32)).kind is OutcomeKind.RACE


def ptx_shuffle(kind: str, offset: int, clamp: int, data: Any) -> Any:
    """The PTX ISA's pseudo-code of shfl.sync, lane by lane."""
    found = data.copy()
    for i in range(len(data)):
        lane, segment = i % 32, clamp >> 8 & 31
        high, low = (lane & segment) | (clamp & 31 & ~segment), lane & segment
        j = {"up": lane - offset, "down": lane + offset, "bfly": lane ^ offset, "idx": low | (offset & ~segment)}[kind]
        if (j >= high) if kind == "up" else (j <= high):
            found[i] = data[i - lane + j]
    return found


@pytest.mark.parametrize(
    ("kind", "offset", "clamp"),
    [("bfly", 1, 31), ("bfly", 4, 0x1C03), ("up", 3, 0), ("down", 5, 31), ("idx", 2, 0x1807), ("down", 3, 0x1C1F)],
)
def test_a_ptx_shuffle_keeps_the_lanes_own_value_outside_of_its_segment(kind: str, offset: int, clamp: int) -> None:
    data = np.arange(100, 164, dtype=np.int32)
    struct = "!llvm.struct<(i32, i1)>"
    body = f"""
      %m = "llvm.mlir.constant"() <{{value = -1 : i32}}> : () -> i32
      %o = "llvm.mlir.constant"() <{{value = {offset} : i32}}> : () -> i32
      %w = "llvm.mlir.constant"() <{{value = {clamp} : i32}}> : () -> i32
      %s = "nvvm.shfl.sync"(%m, %v, %o, %w) <{{kind = #nvvm<shfl_kind {kind}>, return_value_and_is_valid}}>
          : (i32, i32, i32, i32) -> {struct}
      %r = "llvm.extractvalue"(%s) <{{position = array<i64: 0>}}> : ({struct}) -> i32
    """
    assert np.array_equal(result(kernel(body, 1, (64, 1)), data), ptx_shuffle(kind, offset, clamp, data))
    few = run(kernel(body.replace("-1 : i32", "15 : i32"), 1, (64, 1)), data)
    assert few.fault is not None
    assert few.fault.rule == "shuffle-divergence"

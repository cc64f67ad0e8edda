"""gpu: launches, ids, barriers and memory of a block (SEMANTICS §8 and §9)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from difftest.interpreter.run import interpret
from difftest.ir.reader import read_module
from difftest.model import Mode, Outcome, OutcomeKind, Schedule

I32 = "memref<?xi32>"
SHARED = "memref<64xi32, #gpu.address_space<workgroup>>"
PRIVATE = "memref<1xi32, #gpu.address_space<private>>"
ZERO = '%z = "arith.constant"() <{value = 0 : index}> : () -> index'
LINEAR = """
%gxy = "arith.muli"(%gx, %gy) : (index, index) -> index
%dxy = "arith.muli"(%dx, %dy) : (index, index) -> index
%b0 = "arith.muli"(%bz, %gxy) : (index, index) -> index
%b1 = "arith.muli"(%by, %gx) : (index, index) -> index
%b2 = "arith.addi"(%b0, %b1) : (index, index) -> index
%b = "arith.addi"(%b2, %bx) : (index, index) -> index
%t0 = "arith.muli"(%tz, %dxy) : (index, index) -> index
%t1 = "arith.muli"(%ty, %dx) : (index, index) -> index
%t2 = "arith.addi"(%t0, %t1) : (index, index) -> index
%t = "arith.addi"(%t2, %tx) : (index, index) -> index
%items0 = "arith.muli"(%dxy, %dz) : (index, index) -> index
%start = "arith.muli"(%b, %items0) : (index, index) -> index
%g = "arith.addi"(%start, %t) : (index, index) -> index
%gi = "arith.index_cast"(%g) : (index) -> i32
%ti = "arith.index_cast"(%t) : (index) -> i32
%bi = "arith.index_cast"(%b) : (index) -> i32
"""


def launch(body: str, grid: Sequence[int], block: Sequence[int], *, more: str = "", workgroup: int = 0) -> str:
    """A module whose `@k(%out)` launches `body`; `more` are attributions."""
    sizes = [f"%s{i}" for i in range(6)]
    constants = "\n".join(
        f'{name} = "arith.constant"() <{{value = {n} : index}}> : () -> index'
        for name, n in zip(sizes, (*grid, *block), strict=True)
    )
    ids = ", ".join(f"%{a}{x}: index" for a in ("b", "t", "g", "d") for x in "xyz")
    segments = "array<i32: 0, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0>"
    return f"""
"builtin.module"() ({{
  "func.func"() <{{function_type = ({I32}) -> (), sym_name = "k"}}> ({{
  ^bb0(%out: {I32}):
    {ZERO}
    {constants}
    "gpu.launch"({", ".join(sizes)}) <{{operandSegmentSizes = {segments},
        workgroup_attributions = {workgroup} : i64}}> ({{
    ^bb0({ids}{more}):
      {LINEAR}
      {body}
      "gpu.terminator"() : () -> ()
    }}) : (index, index, index, index, index, index) -> ()
    "func.return"() : () -> ()
  }}) : () -> ()
}}) : () -> ()
"""


def store(value: str, at: str = "%g", memref: str = "%out", kind: str = I32) -> str:
    return f'"memref.store"({value}, {memref}, {at}) : (i32, {kind}, index) -> ()'


def run(text: str, size: int, *, schedule: Schedule = Schedule.LOCK_STEP, mode: Mode = Mode.SOURCE) -> Outcome:
    array = np.full(size, -1, np.int32)
    return interpret(read_module(text), entry="k", arguments=[array], schedule=schedule, mode=mode, seed=3)


def result(text: str, size: int, *, schedule: Schedule = Schedule.LOCK_STEP) -> Any:
    outcome = run(text, size, schedule=schedule)
    assert outcome.kind is OutcomeKind.OK, outcome.fault
    return outcome.observed[0].data


def rule(outcome: Outcome) -> str:
    assert outcome.fault is not None, outcome
    return outcome.fault.rule


def position(name: str, axis: str) -> str:
    op = f'"gpu.{name}"() <{{dimension = #gpu<dim {axis}>}}> : () -> index'
    return f'%p = {op}\n%pi = "arith.index_cast"(%p) : (index) -> i32'


SCHEDULES = (Schedule.LOCK_STEP, Schedule.SEQUENTIAL, Schedule.SHUFFLED)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_every_work_item_runs_once_with_x_fastest(schedule: Schedule) -> None:
    text = launch(store("%gi"), (2, 3, 2), (2, 2, 3))
    assert np.array_equal(result(text, 144, schedule=schedule), np.arange(144))


def test_ids_as_ops_equal_the_arguments_of_the_region() -> None:
    grid, block = (2, 3, 4), (4, 2, 3)
    z, y, x = np.indices(grid[::-1])
    c, b, a = np.indices(block[::-1])
    expected = {
        "block_id": [np.repeat(i.reshape(-1), 24) for i in (x, y, z)],
        "thread_id": [np.tile(i.reshape(-1), 24) for i in (a, b, c)],
        "grid_dim": [np.full(576, n) for n in grid],
        "block_dim": [np.full(576, n) for n in block],
    }
    for name, columns in expected.items():
        for axis, column in zip("xyz", columns, strict=True):
            text = launch(position(name, axis) + "\n" + store("%pi"), grid, block)
            assert np.array_equal(result(text, 576), column), (name, axis)


def test_global_and_subgroup_ids() -> None:
    body = position("global_id", "x") + "\n" + store("%pi")
    assert np.array_equal(result(launch(body, (3, 1, 1), (40, 1, 1)), 120), np.arange(120))
    items = np.tile(np.arange(80), 2)
    for name, want in (
        ("lane_id", items % 32),
        ("subgroup_id", items // 32),
        ("num_subgroups", np.full(160, 3)),
        ("subgroup_size", np.full(160, 32)),
    ):
        body = f'%p = "gpu.{name}"() : () -> index\n%pi = "arith.index_cast"(%p) : (index) -> i32\n' + store("%pi")
        assert np.array_equal(result(launch(body, (2, 1, 1), (20, 4, 1)), 160), want), name


@pytest.mark.parametrize("barrier", ['"gpu.barrier"() : () -> ()', '"nvvm.barrier0"() : () -> ()'])
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_barrier_makes_workgroup_memory_visible(schedule: Schedule, barrier: str) -> None:
    body = f"""
    {store("%gi", "%t", "%sh", SHARED)}
    {barrier}
    %top = "arith.constant"() <{{value = 63 : index}}> : () -> index
    %r = "arith.subi"(%top, %t) : (index, index) -> index
    %v = "memref.load"(%sh, %r) : ({SHARED}, index) -> i32
    {store("%v")}
    """
    text = launch(body, (3, 1, 1), (64, 1, 1), more=f", %sh: {SHARED}", workgroup=1)
    expected = np.arange(192).reshape(3, 64)[:, ::-1].reshape(-1)
    assert np.array_equal(result(text, 192, schedule=schedule), expected)
    outcome = run(text.replace(barrier, ""), 192, schedule=schedule)
    assert (outcome.kind, rule(outcome)) == (OutcomeKind.RACE, "race") or rule(outcome) == "uninitialised-read"


def test_without_a_barrier_another_items_cell_is_a_race() -> None:
    body = f"""
    {store("%gi", "%t", "%sh", SHARED)}
    %one = "arith.constant"() <{{value = 1 : index}}> : () -> index
    %n = "arith.xori"(%t, %one) : (index, index) -> index
    %v = "memref.load"(%sh, %n) : ({SHARED}, index) -> i32
    {store("%v")}
    """
    text = launch(body, (1, 1, 1), (64, 1, 1), more=f", %sh: {SHARED}", workgroup=1)
    assert run(text, 64).kind is OutcomeKind.RACE


def test_a_barrier_orders_nothing_between_blocks() -> None:
    body = f"""
    {store("%bi", "%t")}
    "gpu.barrier"() : () -> ()
    """
    assert run(launch(body, (2, 1, 1), (2, 1, 1)), 2).kind is OutcomeKind.RACE
    assert np.array_equal(result(launch(body, (1, 1, 1), (2, 1, 1)), 2), [0, 0])


def test_blocks_that_run_in_different_groups_still_race(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("difftest.interpreter.launch.LANES_AT_ONCE", 4)
    assert run(launch(store("%bi", "%t"), (4, 1, 1), (2, 1, 1)), 2).kind is OutcomeKind.RACE
    assert np.array_equal(result(launch(store("%gi"), (9, 1, 1), (2, 1, 1)), 18), np.arange(18))


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_barrier_that_only_some_items_reach_is_undefined(schedule: Schedule) -> None:
    body = f"""
    %c = "arith.cmpi"(%tx, %z) <{{predicate = 0 : i64}}> : (index, index) -> i1
    "scf.if"(%c) ({{
      "gpu.barrier"() : () -> ()
      "scf.yield"() : () -> ()
    }}, {{
    }}) : (i1) -> ()
    {store("%gi")}
    """
    assert rule(run(launch(body, (2, 1, 1), (4, 1, 1)), 8, schedule=schedule)) == "barrier-divergence"


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_barrier_under_a_condition_on_the_block_is_fine(schedule: Schedule) -> None:
    body = f"""
    {store("%gi", "%t", "%sh", SHARED)}
    %c = "arith.cmpi"(%bx, %z) <{{predicate = 0 : i64}}> : (index, index) -> i1
    "scf.if"(%c) ({{
      "gpu.barrier"() : () -> ()
      %last = "arith.constant"() <{{value = 3 : index}}> : () -> index
      %r = "arith.subi"(%last, %t) : (index, index) -> index
      %v = "memref.load"(%sh, %r) : ({SHARED}, index) -> i32
      {store("%v")}
      "scf.yield"() : () -> ()
    }}, {{
      {store("%gi")}
      "scf.yield"() : () -> ()
    }}) : (i1) -> ()
    """
    text = launch(body, (2, 1, 1), (4, 1, 1), more=f", %sh: {SHARED}", workgroup=1)
    assert np.array_equal(result(text, 8, schedule=schedule), [3, 2, 1, 0, 4, 5, 6, 7])


def test_a_barrier_with_a_list_of_spaces_orders_only_those() -> None:
    def text(spaces: str, memref: str, kind: str) -> str:
        body = f"""
        {store("%gi", "%t", memref, kind)}
        "gpu.barrier"() <{{address_spaces = [{spaces}]}}> : () -> ()
        %one = "arith.constant"() <{{value = 1 : index}}> : () -> index
        %n = "arith.xori"(%t, %one) : (index, index) -> index
        %v = "memref.load"({memref}, %n) : ({kind}, index) -> i32
        %top = "arith.constant"() <{{value = 4 : index}}> : () -> index
        %w = "arith.addi"(%t, %top) : (index, index) -> index
        {store("%v", "%w")}
        """
        return launch(body, (1, 1, 1), (4, 1, 1), more=f", %sh: {SHARED}", workgroup=1)

    fence = "#gpu.address_space<workgroup>"
    assert np.array_equal(result(text(fence, "%sh", SHARED), 8)[4:], [1, 0, 3, 2])
    assert run(text(fence, "%out", I32), 8).kind is OutcomeKind.RACE
    assert np.array_equal(result(text("#gpu.address_space<global>", "%out", I32), 8)[4:], [1, 0, 3, 2])


def test_workgroup_memory_is_uninitialised_and_one_per_block() -> None:
    read = f'%v = "memref.load"(%sh, %z) : ({SHARED}, index) -> i32\n' + store("%v")
    text = launch(read, (1, 1, 1), (1, 1, 1), more=f", %sh: {SHARED}", workgroup=1)
    assert rule(run(text, 1)) == "uninitialised-read"
    both = store("%bi", "%z", "%sh", SHARED) + "\n" + read
    text = launch(both, (5, 1, 1), (1, 1, 1), more=f", %sh: {SHARED}", workgroup=1)
    assert np.array_equal(result(text, 5), np.arange(5))


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_private_memory_is_one_per_work_item(schedule: Schedule) -> None:
    body = f"""
    {store("%gi", "%z", "%pv", PRIVATE)}
    "gpu.barrier"() : () -> ()
    %v = "memref.load"(%pv, %z) : ({PRIVATE}, index) -> i32
    {store("%v")}
    """
    text = launch(body, (2, 1, 1), (4, 1, 1), more=f", %pv: {PRIVATE}")
    assert np.array_equal(result(text, 8, schedule=schedule), np.arange(8))


def test_an_alloca_in_a_kernel_is_private() -> None:
    body = f"""
    %pv = "memref.alloca"() <{{operandSegmentSizes = array<i32: 0, 0>}}> : () -> {PRIVATE}
    {store("%gi", "%z", "%pv", PRIVATE)}
    %v = "memref.load"(%pv, %z) : ({PRIVATE}, index) -> i32
    {store("%v")}
    """
    assert np.array_equal(result(launch(body, (2, 1, 1), (4, 1, 1)), 8), np.arange(8))


def test_dynamic_shared_memory_has_the_size_of_the_launch() -> None:
    body = f"""
    %raw = "gpu.dynamic_shared_memory"() : () -> memref<?xi8, #gpu.address_space<workgroup>>
    %v = "memref.view"(%raw, %z) : (memref<?xi8, #gpu.address_space<workgroup>>, index) -> {SHARED}
    {store("%gi", "%t", "%v", SHARED)}
    %w = "memref.load"(%v, %t) : ({SHARED}, index) -> i32
    {store("%w")}
    """
    text = launch(body, (2, 1, 1), (4, 1, 1))
    assert rule(run(text, 8)) == "out-of-bounds"
    given = text.replace("0, 0, 0, 0>", "0, 0, 0, 1>").replace('"gpu.launch"(', '%bytes = "arith.constant"() <{value ='
        ' 256 : i32}> : () -> i32\n"gpu.launch"(').replace("%s5) <{operand", "%s5, %bytes) <{operand")  # fmt: skip
    given = given.replace("(index, index, index, index, index, index) -> ()", "(index, index, index, index, index,"
        " index, i32) -> ()")  # fmt: skip
    assert np.array_equal(result(given, 8), np.arange(8))


def test_a_zero_dimension_runs_nothing_and_is_noted() -> None:
    outcome = run(launch(store("%gi"), (0, 1, 1), (4, 1, 1)), 4)
    assert outcome.kind is OutcomeKind.OK
    assert outcome.notes["zero-launch"] == 1
    assert np.array_equal(outcome.observed[0].data, [-1] * 4)


@pytest.mark.parametrize(
    ("grid", "block"),
    [
        ((1, 1, 1), (1025, 1, 1)),
        ((1, 1, 1), (32, 33, 1)),
        ((1, 1, 1), (1, 1, 65)),
        ((1, 65536, 1), (1, 1, 1)),
        ((1, 1, 65536), (1, 1, 1)),
    ],
)
def test_more_than_a_device_takes_is_inconclusive(grid: Sequence[int], block: Sequence[int]) -> None:
    outcome = run(launch(store("%gi"), grid, block), 4)
    assert (outcome.kind, rule(outcome)) == (OutcomeKind.INCONCLUSIVE, "launch-limit")


def test_a_negative_size_is_undefined() -> None:
    assert rule(run(launch(store("%gi"), (-1, 1, 1), (4, 1, 1)), 4)) == "negative-size"


def test_a_fault_names_block_and_work_item() -> None:
    outcome = run(launch(store("%gi"), (2, 1, 1), (2, 2, 1)), 6)
    assert rule(outcome) == "out-of-bounds"
    assert outcome.fault is not None
    assert outcome.fault.iteration == (1, 0, 0, 0, 1, 0)


def test_an_id_beyond_its_upper_bound_is_undefined() -> None:
    body = position("thread_id", "x").replace("}> :", ", upper_bound = 3 : index}> :") + "\n" + store("%pi")
    assert rule(run(launch(body, (1, 1, 1), (4, 1, 1)), 4)) == "upper-bound"
    assert np.array_equal(result(launch(body, (1, 1, 1), (3, 1, 1)), 3), [0, 1, 2])


def test_clusters_have_no_rule() -> None:
    text = launch(store("%gi"), (1, 1, 1), (1, 1, 1)).replace("1, 0, 0, 0, 0>", "1, 1, 1, 1, 0>")
    outcome = run(text, 1)
    assert outcome.kind is OutcomeKind.UNSUPPORTED


def test_a_launch_in_every_iteration_of_a_parallel_loop() -> None:
    text = launch(store("%at"), (2, 1, 1), (2, 1, 1))
    text = text.replace(
        store("%at"),
        f"""
      %four = "arith.constant"() <{{value = 4 : index}}> : () -> index
      %from = "arith.muli"(%i, %four) : (index, index) -> index
      %at = "arith.addi"(%from, %g) : (index, index) -> index
      %ii = "arith.index_cast"(%i) : (index) -> i32
      {store("%ii", "%at")}""",
    )
    text = text.replace(
        '"gpu.launch"(',
        """
    %three = "arith.constant"() <{value = 3 : index}> : () -> index
    %step = "arith.constant"() <{value = 1 : index}> : () -> index
    "scf.parallel"(%z, %three, %step) <{operandSegmentSizes = array<i32: 1, 1, 1, 0>}> ({
    ^bb0(%i: index):
    "gpu.launch"(""",
    ).replace(
        '"func.return"',
        """
      "scf.reduce"() : () -> ()
    }) : (index, index, index) -> ()
    "func.return\"""",
    )
    assert np.array_equal(result(text, 12), np.repeat(np.arange(3), 4))
    racy = text.replace(store("%ii", "%at"), store("%ii", "%g"))
    assert run(racy, 12).kind is OutcomeKind.RACE

"""Races: found whatever the schedule, not found where fork, join or a barrier orders; same-value writes are benign."""

import numpy as np
import pytest

from difftest.interpreter.epochs import Lanes, Log
from difftest.model import OutcomeKind

ARGS = "%A: memref<?xi32>; %B: memref<?xi32>; %n: index"
KIND = "(i32, memref<?xi32>, index) -> ()"


def load(name, index, memref="A"):
    return f"%{name} = memref.load(%{memref}, %{index}) : (memref<?xi32>, index) -> i32\n"


def store(value, index, memref="A"):
    return f"memref.store(%{value}, %{memref}, %{index}) : {KIND}\n"


def atomic(value, index, memref="A"):
    return (
        f"%o{value}{index} = memref.atomic_rmw(%{value}, %{memref}, %{index}) <{{kind = 1 : i64}}> : "
        f"(i32, memref<?xi32>, index) -> i32\n"
    )


LANE = "%x = arith.index_cast(%i) : (index) -> i32\n%next = arith.addi(%i, %c1) : (index, index) -> index\n"
ONE = "%x1 = const 1 : i32\n"


def given(n=6):
    return np.zeros(n + 1, np.int32), np.zeros(n + 1, np.int32), n


def par(p, body, bounds="%i=%c0:%n:%c1"):
    return p.parallel(bounds, body)


RACES = {
    "two lanes write different values": lambda p: par(p, LANE + store("x", "c0")),
    "one lane writes what the next reads": lambda p: par(p, LANE + load("v", "next") + store("x", "i")),
    "one lane reads what the next has written": lambda p: par(p, LANE + store("x", "i") + load("v", "next")),
    "shared accumulator": lambda p: par(
        p, LANE + load("v", "c0") + "%s = arith.addi(%v, %x) : (i32, i32) -> i32\n" + store("s", "c0")
    ),
    "read of a cell that another lane atomically updates": lambda p: par(p, LANE + atomic("x", "c0") + load("v", "c0")),
    "atomic update and plain write": lambda p: par(p, LANE + atomic("x", "i") + store("x", "next")),
    "same value, but one lane reads": lambda p: par(p, LANE + ONE + store("x1", "c0") + load("v", "c0")),
    "lanes of different rows": lambda p: par(p, p.parallel("%j=%c0:%n:%c1", LANE + store("x", "j"))),
    "write in the parent, read in another lane's child": lambda p: par(
        p, LANE + store("x", "i") + p.parallel("%j=%c0:%n:%c1", load("v", "j"))
    ),
    "child reads, then another lane writes": lambda p: par(
        p, LANE + p.parallel("%j=%c0:%n:%c1", load("v", "j")) + store("x", "i")
    ),
    "a value is rewritten before another lane writes the last one": lambda p: par(
        p,
        LANE
        + ONE
        + (
            "%first = arith.cmpi(%i, %c0) <{predicate = 0 : i64}> : (index, index) -> i1\nscf.if(%first) "
            "({\n%y = const 7 : i32\n"
        )
        + store("y", "c0")
        + "scf.yield() : () -> ()\n}, {\n}) : (i1) -> ()\n"
        + store("x1", "c0"),
    ),
    "a narrower access inside a wider one": lambda p: (
        """%b = memref.view(%C, %c0) : (memref<64xi8>, index) -> memref<16xi32>
"""
        + par(
            p,
            LANE
            + """%y = const 1 : i8
%at = arith.shli(%i, %c1) : (index, index) -> index
memref.store(%x, %b, %i) : (i32, memref<16xi32>, index) -> ()
memref.store(%y, %C, %at) : (i8, memref<64xi8>, index) -> ()
""",
        )
    ),
}


@pytest.mark.parametrize("name", RACES)
def test_race_is_found_under_every_schedule(p, schedule, name):
    args = ARGS + ("; %C: memref<64xi8>" if "%C" in RACES[name](p) else "")
    values = [*given(), *([np.zeros(64, np.int8)] if "%C" in args else [])]
    for seed in range(3):
        found = p.run(args, RACES[name](p), *values, schedule=schedule, seed=seed)
        assert found.kind is OutcomeKind.RACE and found.fault.rule == "race", found


ORDERED = {
    "each lane its own cell": lambda p: par(p, LANE + store("x", "i") + load("v", "i") + store("v", "i")),
    "all read one cell": lambda p: par(p, LANE + load("v", "c0") + store("v", "i", "B")),
    "all update one cell atomically": lambda p: par(p, LANE + atomic("x", "c0")),
    "join orders two loops": lambda p: (
        par(p, LANE + store("x", "i"))
        + par(p, LANE + load("v", "next") + store("v", "i", "B"))
        .replace("%i", "%h")
        .replace("%x", "%w")
        .replace("%next", "%m")
    ),
    "children of one lane are joined": lambda p: (
        par(p, ONE, "%i=%c0:%c1:%c1")
        + p.parallel(
            "%k=%c0:%c1:%c1",
            "%y = const 3 : i32\n"
            + p.parallel("%a=%c0:%n:%c1", store("y", "a"))
            + p.parallel("%b=%c0:%n:%c1", load("v", "c0") + store("v", "b", "B")),
        )
    ),
    "fork orders the parent's write before its children's reads": lambda p: p.parallel(
        "%k=%c0:%c1:%c1", "%y = const 3 : i32\n" + store("y", "c0") + p.parallel("%a=%c0:%n:%c1", load("v", "c0"))
    ),
    "one lane's own memory": lambda p: par(
        p,
        LANE
        + "%m = memref.alloca(%n) <{operandSegmentSizes = array<i32: 1, 0>}> : (index) -> memref<?xi32>\n"
        + p.parallel("%j=%c0:%n:%c1", store("x", "j", "m"))
        + load("v", "c0", "m")
        + store("v", "i"),
    ),
}


@pytest.mark.parametrize("name", ORDERED)
def test_ordered_accesses_are_no_race(p, schedule, name):
    found = p.run(ARGS, ORDERED[name](p), *given(), schedule=schedule)
    assert found.kind is OutcomeKind.OK, found.fault
    assert not found.notes


def test_children_of_one_lane_race_with_each_other(p, schedule):
    body = p.parallel("%k=%c0:%c1:%c1", p.parallel("%i=%c0:%n:%c1", LANE + store("x", "c0")))
    assert p.run(ARGS, body, *given(), schedule=schedule).kind is OutcomeKind.RACE


def test_same_value_written_by_all_is_benign_and_counted(p, schedule):
    found = p.run(ARGS, ONE + par(p, store("x1", "c0")), *given(), schedule=schedule)
    assert found.kind is OutcomeKind.OK and found.observed[0].data[0] == 1
    assert found.notes["benign"] > 0


def test_same_value_through_nested_loops_is_benign(p, schedule):
    body = ONE + par(p, p.parallel("%j=%c0:%n:%c1", store("x1", "j")))
    found = p.run(ARGS, body, *given(), schedule=schedule)
    assert found.kind is OutcomeKind.OK and found.notes["benign"] > 0


def test_host_code_is_not_tracked(p):
    assert p.run(ARGS, "%x = const 1 : i32\n" + store("x", "c0") + load("v", "c0"), *given()).kind is OutcomeKind.OK


def test_zero_and_minus_zero_are_different_values(p):
    body = """%z = const 0.0 : f32
%m = const -0.0 : f32
""" + p.parallel(
        "%i=%c0:%n:%c1",
        """%c = arith.cmpi(%i, %c0) <{predicate = 0 : i64}> : (index, index) -> i1
%v = arith.select(%c, %z, %m) : (i1, f32, f32) -> f32
memref.store(%v, %F, %c0) : (f32, memref<1xf32>, index) -> ()""",
    )
    assert p.run("%F: memref<1xf32>; %n: index", body, np.zeros(1, np.float32), 3).kind is OutcomeKind.RACE


def brute(accesses):
    """Per granule the exact sets of lanes."""
    found = {}
    for where, lane in accesses:
        found.setdefault(where, set()).add(lane)
    return found


def test_lowest_and_highest_lane_decide_like_exact_sets():
    rng = np.random.default_rng(5)
    for _ in range(200):
        table = Lanes(4)
        seen = []
        for _ in range(int(rng.integers(1, 4))):
            lanes = np.sort(rng.choice(6, int(rng.integers(1, 5)), replace=False)).astype(np.int32)
            where = rng.integers(0, 4, len(lanes))
            table.touch(where, lanes, lanes)
            seen += list(zip(where.tolist(), lanes.tolist(), strict=True))
        exact = brute(seen)
        for where in range(4):
            for lane in range(6):
                expected = bool(exact.get(where, set()) - {lane})
                assert bool(table.others(np.array([where]), np.array([lane]), np.array([lane]))[0]) == expected


def test_granules_are_refined_without_losing_accesses():
    log = Log(16, 4)
    log.reads = log.table()
    log.reads.touch(np.array([1]), np.array([3]), np.array([3]))
    where, times = log.locate(5, 1)
    assert (where, times, log.granule) == (5, 1, 1)
    assert log.reads.high.tolist() == [-1] * 4 + [3] * 4 + [-1] * 8

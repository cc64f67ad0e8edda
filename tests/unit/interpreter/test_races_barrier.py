"""Barriers: epochs of one level, divergence, groups of one parent lane, lock-step under every schedule."""

import numpy as np
import pytest

from difftest.interpreter.parallel import barrier
from difftest.interpreter.registry import all_rules
from difftest.model import OutcomeKind

KIND = "memref<?xi32>"
ARGS = "%A: memref<?xi32>; %B: memref<?xi32>; %n: index; %m: index"
LANE = "%x = arith.index_cast(%j) : (index) -> i32\n"
MEET = "test.barrier() : () -> ()\n"
BLOCK = "%row = arith.muli(%i, %m) : (index, index) -> index\n%at = arith.addi(%row, %j) : (index, index) -> index\n"


@pytest.fixture(autouse=True)
def planted(monkeypatch):
    def rule(op, context):
        def run(frame):
            barrier(frame, op, frame.level)

        return run

    monkeypatch.setitem(all_rules().rules, "test.barrier", rule)
    all_rules().lock_step.add("test.barrier")
    yield
    all_rules().lock_step.discard("test.barrier")


def load(name, index, memref="A"):
    return f"%{name} = memref.load(%{memref}, %{index}) : ({KIND}, index) -> i32\n"


def store(value, index, memref="A"):
    return f"memref.store(%{value}, %{memref}, %{index}) : (i32, {KIND}, index) -> ()\n"


def reverse(base="row"):
    return (
        f"%last = arith.subi(%m, %c1) : (index, index) -> index\n%back = arith.subi(%last, %j) : (index, "
        f"index) -> index\n%other = arith.addi(%{base}, %back) : (index, index) -> index\n"
    )


def blocks(p, body):
    return p.parallel("%i=%c0:%n:%c1", p.parallel("%j=%c0:%m:%c1", LANE + BLOCK + body))


def run(p, body, schedule, n=3, m=4):
    return p.run(ARGS, body, np.zeros(n * m, np.int32), np.zeros(n * m, np.int32), n, m, schedule=schedule)


def test_barrier_orders_the_lanes_of_a_block(p, schedule):
    body = blocks(p, store("x", "at") + MEET + reverse() + load("v", "other") + store("v", "at", "B"))
    found = run(p, body, schedule)
    assert found.kind is OutcomeKind.OK, found.fault
    assert found.observed[1].data.tolist() == [3, 2, 1, 0] * 3


def test_without_the_barrier_it_is_a_race(p, schedule):
    body = blocks(p, store("x", "at") + reverse() + load("v", "other") + store("v", "at", "B"))
    assert run(p, body, schedule).kind is OutcomeKind.RACE


def test_barrier_orders_nothing_between_blocks(p, schedule):
    body = blocks(p, store("x", "at") + MEET + reverse("c0") + load("v", "other") + store("v", "at", "B"))
    assert run(p, body, schedule).kind is OutcomeKind.RACE


def test_second_epoch_is_checked_on_its_own(p, schedule):
    twice = store("x", "at") + MEET + store("x", "at") + reverse() + load("v", "other")
    assert run(p, blocks(p, twice), schedule).kind is OutcomeKind.RACE


def guarded(condition, body):
    return f"{condition}\nscf.if(%go) ({{\n{body}scf.yield() : () -> ()\n}}, {{\n}}) : (i1) -> ()\n"


def test_barrier_reached_by_some_lanes_is_undefined(p, schedule):
    body = blocks(p, guarded("%go = arith.cmpi(%j, %c1) <{predicate = 2 : i64}> : (index, index) -> i1", MEET))
    found = run(p, body, schedule)
    assert (found.kind, found.fault.rule) == (OutcomeKind.UB, "barrier-divergence")


FIRST = "%go = arith.cmpi(%i, %c1) <{predicate = 2 : i64}> : (index, index) -> i1"


def test_barrier_reached_by_whole_blocks_orders_those(p, schedule):
    meet = guarded(FIRST, store("x", "at") + MEET + reverse() + load("v", "other") + store("v", "at", "B"))
    found = run(p, blocks(p, meet), schedule)
    assert found.kind is OutcomeKind.OK, found.fault
    assert found.observed[1].data.tolist() == [3, 2, 1, 0] + [0] * 8


def test_blocks_that_skip_the_barrier_stay_unordered(p, schedule):
    body = store("x", "at") + guarded(FIRST, MEET) + reverse() + load("v", "other") + store("v", "at", "B")
    assert run(p, blocks(p, body), schedule).kind is OutcomeKind.RACE


def test_barrier_in_a_uniform_loop(p, schedule):
    inner = "scf.for(%c0, %m, %c1) ({\n^bb0(%k: index):\n" + load("v", "other") + MEET + store("v", "at") + MEET
    body = blocks(
        p, store("x", "at") + MEET + reverse() + inner + "scf.yield() : () -> ()\n}) : (index, index, index) -> ()\n"
    )
    found = run(p, body, schedule)
    assert found.kind is OutcomeKind.OK, found.fault
    assert found.observed[0].data.tolist() == [0, 1, 2, 3] * 3

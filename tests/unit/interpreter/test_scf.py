"""scf: loops, choices and parallel constructs, with lanes that agree and lanes that part, under every schedule."""

import numpy as np
import pytest

from difftest.model import Schedule

ADD = '"arith.addi"(%{}, %{}) : (index, index) -> index'
CAST = "arith.index_cast(%{}) : (index) -> i64"
STORE = "memref.store(%{}, %A, %i) : (i64, memref<?xi64>, index) -> ()"


def zeros(n):
    return np.zeros(n, np.int64)


def sum_loop(lower, upper, step, *, kind="index"):
    return f"""%r = scf.for({lower}, {upper}, {step}, %c0) ({{
^bb0(%k: index, %acc: index):
%s = arith.addi(%acc, %k) : (index, index) -> index
scf.yield(%s) : (index) -> ()
}}) : (index, index, index, index) -> index
"""


@pytest.mark.parametrize(
    ("bounds", "total"), [((0, 5, 1), 10), ((0, 5, 2), 6), ((3, 3, 1), 0), ((5, 1, 1), 0), ((-3, 2, 3), -3)]
)
def test_for_adds_its_induction_values(p, bounds, total):
    assert p.data("%l: index; %u: index; %s0: index", sum_loop("%l", "%u", "%s0"), *bounds, returns="%r : index") == [
        total
    ]


@pytest.mark.parametrize("step", [0, -1])
def test_for_with_a_step_that_is_not_positive_is_undefined(p, step):
    found = p.fault("%l: index; %u: index; %s0: index", sum_loop("%l", "%u", "%s0"), 0, 4, step, returns="%r : index")
    assert found[:2] == ("ub", "loop-step")


def typed_loop(flag=""):
    return f"""%z = const 0 : i8
%o = const 1 : i8
%r = scf.for(%l, %u, %s, %z) {flag} ({{
^bb0(%k: i8, %acc: i8):
%t = arith.addi(%acc, %o) : (i8, i8) -> i8
scf.yield(%t) : (i8) -> ()
}}) : (i8, i8, i8, i8) -> i8
"""


def test_for_end_that_cannot_be_represented_is_undefined(p):
    args = "%l: i8; %u: i8; %s: i8"
    assert p.fault(args, typed_loop(), 0, 127, 64, returns="%r : i8")[:2] == ("ub", "loop-end")
    assert p.data(args, typed_loop(), 0, 126, 63, returns="%r : i8") == [2]


def test_unsigned_for_compares_unsigned(p):
    args = "%l: i8; %u: i8; %s: i8"
    flag = "<{unsignedCmp}>"
    assert p.data(args, typed_loop(flag), 100, -106, 25, returns="%r : i8") == [2]
    assert p.data(args, typed_loop(), 100, -106, 25, returns="%r : i8") == [0]


def test_for_in_lanes_with_their_own_bounds(p, schedule):
    body = p.parallel("%i=%c0:%n:%c1", sum_loop("%i", "%m", "%c1") + f"%v = {CAST.format('r')}\n{STORE.format('v')}")
    found = p.data("%A: memref<?xi64>; %n: index; %m: index", body, zeros(6), 6, 4, schedule=schedule)
    assert found[0].tolist() == [sum(range(i, 4)) for i in range(6)]


def test_for_carries_several_values_at_once(p):
    body = """%n = const 7 : index
%r, %q = scf.for(%c0, %n, %c1, %c0, %c1) ({
^bb0(%k: index, %a: index, %b: index):
%s = arith.addi(%a, %b) : (index, index) -> index
scf.yield(%b, %s) : (index, index) -> ()
}) : (index, index, index, index, index) -> (index, index)"""
    body = body.replace("%r, %q =", "%r:2 =")
    assert p.data("", body, returns="%r#0, %r#1 : index, index") == [13, 21]


WHILE = """%r:2 = scf.while(%i, %c0) ({
^bb0(%a: index, %count: index):
%c = arith.cmpi(%a, %m) <{predicate = 2 : i64}> : (index, index) -> i1
scf.condition(%c, %a, %count) : (i1, index, index) -> ()
}, {
^bb0(%a2: index, %count2: index):
%a3 = arith.addi(%a2, %c2) : (index, index) -> index
%count3 = arith.addi(%count2, %c1) : (index, index) -> index
scf.yield(%a3, %count3) : (index, index) -> ()
}) : (index, index) -> (index, index)
"""


def test_while_forwards_the_values_of_the_last_condition(p, schedule):
    inner = WHILE + f"%v = {CAST.format('r#0')}\n{STORE.format('v')}"
    body = "%c2 = const 2 : index\n" + p.parallel("%i=%c0:%n:%c1", inner)
    found = p.data("%A: memref<?xi64>; %n: index; %m: index", body, zeros(7), 7, 5, schedule=schedule)
    assert found[0].tolist() == [6, 5, 6, 5, 6, 5, 6]


def test_while_runs_its_condition_once_when_false(p):
    body = "%c2 = const 2 : index\n" + WHILE
    assert p.data("%i: index; %m: index", body, 9, 5, returns="%r#0, %r#1 : index, index") == [9, 0]


IF = """%c = arith.cmpi(%i, %m) <{predicate = 2 : i64}> : (index, index) -> i1
%r = scf.if(%c) ({
%x = arith.addi(%i, %m) : (index, index) -> index
scf.yield(%x) : (index) -> ()
}, {
scf.yield(%c1) : (index) -> ()
}) : (i1) -> index
"""


def test_if_merges_what_lanes_that_part_yield(p, schedule):
    body = p.parallel("%i=%c0:%n:%c1", IF + f"%v = {CAST.format('r')}\n{STORE.format('v')}")
    for split in (0, 2, 5, 9):
        found = p.data("%A: memref<?xi64>; %n: index; %m: index", body, zeros(5), 5, split, schedule=schedule)
        assert found[0].tolist() == [i + split if i < split else 1 for i in range(5)]


def test_if_without_else_leaves_the_other_lanes_alone(p, schedule):
    inner = """%c = arith.cmpi(%i, %m) <{predicate = 2 : i64}> : (index, index) -> i1
scf.if(%c) ({
%one = const 1 : i64
memref.store(%one, %A, %i) : (i64, memref<?xi64>, index) -> ()
scf.yield() : () -> ()
}, {
}) : (i1) -> ()"""
    body = p.parallel("%i=%c0:%n:%c1", inner)
    found = p.data("%A: memref<?xi64>; %n: index; %m: index", body, zeros(5), 5, 3, schedule=schedule)
    assert found[0].tolist() == [1, 1, 1, 0, 0]


SWITCH = """%r = scf.index_switch(%i) <{cases = array<i64: 1, 3>}> ({
%d = const 10 : i64
scf.yield(%d) : (i64) -> ()
}, {
%e = const 11 : i64
scf.yield(%e) : (i64) -> ()
}, {
%f = const 13 : i64
scf.yield(%f) : (i64) -> ()
}) : (index) -> i64
"""


def test_index_switch_takes_the_equal_case_or_the_default(p, schedule):
    body = p.parallel("%i=%c0:%n:%c1", SWITCH + STORE.format("r"))
    found = p.data("%A: memref<?xi64>; %n: index", body, zeros(5), 5, schedule=schedule)
    assert found[0].tolist() == [10, 11, 10, 13, 10]


def test_execute_region_runs_its_blocks_once(p):
    body = """%r = scf.execute_region() ({
cf.br(%c1) [^next] : (index) -> ()
^next(%x: index):
%y = arith.addi(%x, %c1) : (index, index) -> index
scf.yield(%y) : (index) -> ()
}) : () -> index"""
    assert p.data("", body, returns="%r : index") == [2]


def test_parallel_visits_every_point_once(p, schedule):
    inner = """%x = arith.muli(%i, %m) : (index, index) -> index
%at = arith.addi(%x, %j) : (index, index) -> index
%v = arith.index_cast(%at) : (index) -> i64
memref.store(%v, %A, %i, %j) : (i64, memref<?x?xi64>, index, index) -> ()"""
    body = "%c2 = const 2 : index\n" + p.parallel("%i=%c0:%n:%c1, %j=%c1:%m:%c2", inner)
    found = p.data("%A: memref<?x?xi64>; %n: index; %m: index", body, np.full((3, 5), -1), 3, 5, schedule=schedule)
    expected = np.full((3, 5), -1)
    expected[:, 1::2] = np.arange(15).reshape(3, 5)[:, 1::2]
    assert np.array_equal(found[0], expected)


def test_parallel_bounds_may_differ_by_lane(p, schedule):
    inner = p.parallel(
        "%j=%i:%n:%c1",
        """%v = arith.index_cast(%i) : (index) -> i64
memref.store(%v, %A, %i, %j) : (i64, memref<?x?xi64>, index, index) -> ()""",
    )
    body = p.parallel("%i=%c0:%n:%c1", inner)
    found = p.data("%A: memref<?x?xi64>; %n: index", body, np.full((4, 4), 9), 4, schedule=schedule)
    expected = np.full((4, 4), 9)
    for i in range(4):
        expected[i, i:] = i
    assert np.array_equal(found[0], expected)


def reduction(p, op, kind, value, init):
    body = f"{value}\n"
    return p.parallel("%i=%c0:%n:%c1", body, results="%r", inits=f"{init} : {kind}", tail=p.reduce(("%t", kind, op)))


@pytest.mark.parametrize("n", [0, 1, 2, 5, 8, 31])
def test_reduce_combines_init_and_every_iteration_once(p, schedule, n):
    body = "%init = const 5 : i64\n" + reduction(p, "arith.addi", "i64", f"%t = {CAST.format('i')}", "%init")
    assert p.data("%n: index", body, n, returns="%r : i64", schedule=schedule) == [5 + sum(range(n))]


def test_reduce_in_lanes_of_different_length(p, schedule):
    inner = p.parallel(
        "%j=%c0:%i:%c1",
        "%t = arith.index_cast(%j) : (index) -> i64",
        results="%r",
        inits="%init : i64",
        tail=p.reduce(("%t", "i64", "arith.addi")),
    )
    body = "%init = const 5 : i64\n" + p.parallel("%i=%c0:%n:%c1", inner + STORE.format("r"))
    found = p.data("%A: memref<?xi64>; %n: index", body, zeros(7), 7, schedule=schedule)
    assert found[0].tolist() == [5 + sum(range(i)) for i in range(7)]


def test_several_reductions_are_independent(p, schedule):
    body = "%init = const 5 : i64\n%small = const 100 : i64\n" + p.parallel(
        "%i=%c0:%n:%c1",
        f"%t = {CAST.format('i')}",
        results="%r:2",
        inits="%init, %small : i64, i64",
        tail=p.reduce(("%t", "i64", "arith.addi"), ("%t", "i64", "arith.minsi")),
    )
    assert p.data("%n: index", body, 6, returns="%r#0, %r#1 : i64, i64", schedule=schedule) == [20, 0]


def float_sum(p, values, schedule):
    value = "%t = memref.load(%A, %i) : (memref<?xf32>, index) -> f32"
    body = "%init = const 0.5 : f32\n" + reduction(p, "arith.addf", "f32", value, "%init")
    given = np.array(values, np.float32)
    return p.ok("%A: memref<?xf32>; %n: index", body, given, len(given), returns="%r : f32", schedule=schedule)[
        "result0"
    ]


def test_float_sum_that_is_exact_in_every_order_is_exact(p, schedule):
    found = float_sum(p, [0.25 * i for i in range(40)], schedule)
    assert found.data == 195.5 and found.bound is None


def test_float_sum_that_rounds_in_some_order_has_a_bound(p, schedule):
    found = float_sum(p, [2.0**24, 1.0, -(2.0**24), 1.0, 1.0], schedule)
    assert found.skip or abs(float(found.data) - 3.5) <= found.bound


def test_parallel_step_that_is_not_positive_is_undefined(p):
    body = p.parallel("%i=%c0:%n:%n", "")
    assert p.fault("%n: index", body, 0)[:2] == ("ub", "loop-step")


def test_forall_with_static_and_dynamic_bounds(p, schedule):
    body = """scf.forall(%n) <{operandSegmentSizes = array<i32: 0, 1, 0, 0>, staticLowerBound = array<i64: 1,
0>, staticStep = array<i64: 1, 2>, staticUpperBound = array<i64: -9223372036854775808, 4>}> ({
^bb0(%i: index, %j: index):
%v = const 1 : i64
memref.store(%v, %A, %i, %j) : (i64, memref<?x4xi64>, index, index) -> ()
scf.forall.in_parallel() ({
^bb0:
}) : () -> ()
}) : (index) -> ()"""
    found = p.data("%A: memref<?x4xi64>; %n: index", body, np.zeros((3, 4), np.int64), 3, schedule=schedule)
    assert found[0].tolist() == [[0, 0, 0, 0], [1, 0, 1, 0], [1, 0, 1, 0]]


def test_shuffled_schedules_differ_by_seed_only_where_the_order_shows(p):
    inner = "%v = arith.index_cast(%i) : (index) -> i64\nmemref.store(%v, %A, %i) : (i64, memref<?xi64>, index) -> ()"
    body = p.parallel("%i=%c0:%n:%c1", inner)
    runs = [
        p.data("%A: memref<?xi64>; %n: index", body, zeros(50), 50, schedule=Schedule.SHUFFLED, seed=s)[0]
        for s in range(5)
    ]
    assert all(np.array_equal(r, np.arange(50)) for r in runs)


def test_results_without_a_reduction_are_unsupported(p):
    body = """%z = const 0 : i32
%s = scf.parallel(%c0, %c1, %c1, %z) <{operandSegmentSizes = array<i32: 1, 1, 1, 1>}> ({
^bb1(%i: index):
}) : (index, index, index, i32) -> i32
"""
    outcome = p.run("", body, returns="%s : i32")
    assert outcome.kind.value == "unsupported"

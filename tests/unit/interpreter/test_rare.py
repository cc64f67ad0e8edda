"""Rare paths of the core, the race checker and the numbers, each by a program or value that needs it."""

import math

import numpy as np
import pytest

from difftest.interpreter import checks
from difftest.interpreter.numerics import FloatKind, IntKind, float_kind_of, int_kind, int_kind_of, kind_of
from difftest.interpreter.numerics_cast import from_int, reinterpret
from difftest.interpreter.numerics_checks import index_width
from difftest.interpreter.rules import NoRuleError
from difftest.model import Mode, OutcomeKind

M = "memref<?xi32>"
ARGS = f"%A: {M}; %B: {M}; %n: index"
LANE = "%x = arith.index_cast(%i) : (index) -> i32\n"


def given(n=4):
    return np.zeros(16, np.int32), np.zeros(16, np.int32), n


def load(name, index, memref="A"):
    return f"%{name} = memref.load(%{memref}, %{index}) : ({M}, index) -> i32\n"


def store(value, index, memref="A"):
    return f"memref.store(%{value}, %{memref}, %{index}) : (i32, {M}, index) -> ()\n"


# --- core -----------------------------------------------------------------------------------------------------


def test_a_region_without_blocks_does_nothing(p):
    assert p.run("", '"enzymexla.scope"() ({\n}) : () -> ()\n').kind is OutcomeKind.OK


def test_modules_may_hold_ops_without_symbols(p):
    callee = 'func.func() <{function_type = () -> (), sym_name = "f"}> ({\nfunc.return() : () -> ()\n}) : () -> ()\n'
    other = '"test.nothing"() : () -> ()\n' + callee
    assert p.run("", "func.call() <{callee = @f}> : () -> ()\n", others=other).kind is OutcomeKind.OK


# --- races ----------------------------------------------------------------------------------------------------


def test_many_reads_are_settled_before_they_fill_the_memory(p, monkeypatch, schedule):
    monkeypatch.setattr(checks, "DEFERRED_LIMIT", 3)
    body = LANE + load("v", "c0") + load("w", "c0") + p.parallel("%j=%c0:%n:%c1", load("u", "c0") + load("t", "c1"))
    quiet = p.parallel("%i=%c0:%n:%c1", body + store("x", "i", "B"))
    assert p.run(ARGS, quiet, *given(), schedule=schedule).kind is OutcomeKind.OK
    loud = p.parallel("%i=%c0:%n:%c1", body + store("x", "i"))
    assert p.run(ARGS, loud, *given(), schedule=schedule).kind is OutcomeKind.RACE


@pytest.mark.parametrize(("shift", "kind"), [(0, OutcomeKind.OK), (4, OutcomeKind.RACE)])
def test_accesses_of_two_widths_meet_when_a_nested_loop_ends(p, schedule, shift, kind):
    inner = f"%row = arith.muli(%i, %four) : (index, index) -> index\n%s = const {shift} : index\n"
    inner += "%far = arith.addi(%row, %s) : (index, index) -> index\n"
    inner += "%at = arith.addi(%far, %j) : (index, index) -> index\n"
    inner += "%b = memref.load(%C, %at) : (memref<64xi8>, index) -> i8\n"
    body = LANE + "memref.store(%x, %w, %i) : (i32, memref<16xi32>, index) -> ()\n%four = const 4 : index\n"
    view = "%w = memref.view(%C, %c0) : (memref<64xi8>, index) -> memref<16xi32>\n"
    text = view + p.parallel("%i=%c0:%n:%c1", body + p.parallel("%j=%c0:%four:%c1", inner))
    found = p.run("%C: memref<64xi8>; %n: index", text, np.zeros(64, np.int8), 4, schedule=schedule)
    assert found.kind is kind, found.fault


@pytest.mark.parametrize(("second", "kind"), [("y", OutcomeKind.RACE), ("z", OutcomeKind.OK)])
def test_a_barrier_of_some_groups_keeps_what_their_lanes_rewrote(p, schedule, second, kind):
    """Lane j = 0 of each group rewrites a cell before the barrier; after it, lane 1 of group 0 writes it too."""
    values = "%y = const 7 : i32\n%z = const 5 : i32\n%two = const 2 : index\n"
    first = "%l = arith.cmpi(%j, %c0) <{predicate = 0 : i64}> : (index, index) -> i1\n"
    twice = f"scf.if(%l) ({{\n{store('z', 'i')}{store(second, 'i')}scf.yield() : () -> ()\n}}, {{\n}}) : (i1) -> ()\n"
    group = "%g = arith.cmpi(%i, %c0) <{predicate = 0 : i64}> : (index, index) -> i1\n"
    meet = 'scf.if(%g) ({\n"enzymexla.barrier"(%j) : (index) -> ()\nscf.yield() : () -> ()\n}, {\n}) : (i1) -> ()\n'
    inner = first + twice + group + meet
    text = values + p.parallel("%i=%c0:%n:%c1", p.parallel("%j=%c0:%two:%c1", inner + load("v", "i", "B")))
    outer = text + values.replace("%y", "%y2").replace("%z", "%z2").replace("%two", "%two2")
    found = p.run(ARGS, outer, *given(), schedule=schedule)
    assert found.kind is OutcomeKind.OK, found.fault
    again = text.replace(load("v", "i", "B"), store("z", "c0"))
    assert p.run(ARGS, again, *given(), schedule=schedule).kind in {OutcomeKind.RACE, kind}


def test_atomic_updates_of_nested_loops_are_handed_outwards(p, schedule):
    atomic = f"%o = memref.atomic_rmw(%x, %A, %c0) <{{kind = 1 : i64}}> : (i32, {M}, index) -> i32\n"
    nested = LANE + p.parallel("%j=%c0:%n:%c1", atomic)
    found = p.run(ARGS, p.parallel("%i=%c0:%n:%c1", nested), *given(), schedule=schedule)
    assert found.kind is OutcomeKind.OK and found.observed[0].data[0] == 4 * (0 + 1 + 2 + 3)
    plain = p.parallel("%i=%c0:%n:%c1", nested + load("v", "c0"))
    assert p.run(ARGS, plain, *given(), schedule=schedule).kind is OutcomeKind.RACE


def test_same_value_writes_of_nested_loops_are_errors_on_differentiated_memory(p, schedule):
    kind = "memref<4xf64>"
    write = f"memref.store(%one, %q, %j) : (f64, {kind}, index) -> ()\n"
    loops = "%two = const 2 : index\n" + p.parallel("%i=%c0:%two:%c1", p.parallel("%j=%c0:%two:%c1", write))
    dup = "#enzyme<activity enzyme_dup>"
    region = f"""enzyme.autodiff_region(%x, %dx) <{{activity = [{dup}], ret_activity = []}}> ({{
^bb0(%q: {kind}):
%one = const 1.0 : f64
{loops}enzyme.yield() : () -> ()
}}) : ({kind}, {kind}) -> ()
"""
    found = p.run(f"%x: {kind}; %dx: {kind}", region, np.zeros(4), np.zeros(4), schedule=schedule)
    assert found.kind is OutcomeKind.RACE, found.fault


# --- numbers --------------------------------------------------------------------------------------------------


def test_kinds_that_do_not_exist():
    with pytest.raises(NoRuleError, match="i0"):
        IntKind(0)
    with pytest.raises(NoRuleError, match="expected an integer"):
        int_kind_of("f32")
    with pytest.raises(NoRuleError, match="expected a float"):
        float_kind_of("i32")
    assert isinstance(kind_of("vector<2xf32>"), FloatKind)


@pytest.mark.parametrize("name", ["f16", "bf16", "f32", "f64"])
def test_integers_larger_than_every_float_become_infinite(name):
    convert = from_int(int_kind(2048), float_kind_of(name), signed=True)
    for value, expected in ((1 << 1500, math.inf), (-(1 << 2000), -math.inf), (1 << 1040, math.inf)):
        assert float(convert(value)) == expected


def test_bits_are_reinterpreted_only_between_kinds_that_have_them():
    same = reinterpret(int_kind(7), int_kind(7))
    assert same is not None and same(-3) == -3
    assert reinterpret(int_kind(128), int_kind(128))(1 << 100) == 1 << 100
    assert reinterpret(int_kind(16), float_kind_of("f16"))(0x3C00) == 1
    assert reinterpret(int_kind(32), int_kind(64)) is None
    assert reinterpret(int_kind_of("index"), int_kind(64)) is None
    odd = FloatKind(name="odd", width=7, precision=3, tiny_exponent=-3, dtype=np.dtype(np.int8))
    assert reinterpret(int_kind(7), odd) is None


def test_the_index_promise_looks_at_uniform_operands_of_arrays():
    assert index_width(np.array([1, 2]), 1 << 40, 0) is True
    assert index_width(np.array([1, 2]), np.array([1]), 3) is False
    assert index_width(np.array([1, 1 << 31]), 0, 0).tolist() == [False, True]


# --- tags -----------------------------------------------------------------------------------------------------

PAIR = "%p = ub.poison() : () -> i32\n%q = arith.select(%k, %x, %p) : (i1, i32, i32) -> i32\n"


@pytest.mark.parametrize("op", ["divsi", "remui"])
def test_divisions_among_poison_lanes(p, op):
    """Undefined behaviour counts only in lanes whose operands are sound; a poison divisor is itself undefined."""
    kind = "memref<?xi1>"
    pick = f"%k = memref.load(%K, %i) : ({kind}, index) -> i1\n" + load("x", "i") + PAIR
    divide = f"%r = arith.{op}(%{{0}}, %{{1}}) : (i32, i32) -> i32\n"
    arguments = f"%A: {M}; %B: {M}; %n: index; %K: {kind}"
    mask = np.array([True, False, True])
    data = np.array([8, 0, 6], np.int32)
    whole = pick + divide.format("q", "two") + store("r", "i", "B")
    loop = "%two = const 2 : i32\n" + p.parallel("%i=%c0:%n:%c1", whole)
    found = p.ok(arguments, loop, data, data, 3, mask)["arg1"]
    assert found.skip.tolist() == [False, True, False]
    assert found.data[[0, 2]].tolist() == ([4, 3] if op == "divsi" else [0, 0])
    by_poison = loop.replace("(%q, %two)", "(%two, %q)")
    assert p.fault(arguments, by_poison, data, data, 3, mask)[:2] == ("ub", "poison-sink")
    by_zero = pick + "%z = arith.subi(%x, %x) : (i32, i32) -> i32\n%t = arith.addi(%q, %z) : (i32, i32) -> i32\n"
    by_zero += f"%r = arith.{op}(%q, %z) : (i32, i32) -> i32\n" + store("r", "i", "B")
    rule = p.fault(arguments, p.parallel("%i=%c0:%n:%c1", by_zero), data, data, 3, mask)
    assert rule[:2] == ("ub", "division-by-zero")


def test_promises_among_poison_lanes(p):
    kind = "memref<?xi1>"
    pick = f"%k = memref.load(%K, %i) : ({kind}, index) -> i1\n" + load("x", "i") + PAIR
    shift = "%r = arith.shli(%two, %q) : (i32, i32) -> i32\n"
    arguments = f"%A: {M}; %B: {M}; %n: index; %K: {kind}"
    loop = "%two = const 2 : i32\n" + p.parallel("%i=%c0:%n:%c1", pick + shift + store("r", "i", "B"))
    data, mask = np.array([3, 99, 40], np.int32), np.array([True, False, True])
    assert p.fault(arguments, loop, data, data, 3, mask)[:2] == ("ub", "shift-amount")
    found = p.ok(arguments, loop, data, data, 3, mask, mode=Mode.INTERMEDIATE)["arg1"]
    assert found.skip.tolist() == [False, True, True] and found.data[0] == 16


def test_choices_among_values_with_bounds(p):
    body = "%t = const 3.0 : f32\n%q = arith.divf(%x, %t) : (f32, f32) -> f32\n"
    body += "%r = arith.select(%k, %q, %x) : (i1, f32, f32) -> f32\n"
    body += "%s = arith.select(%k, %x, %q) : (i1, f32, f32) -> f32\n"
    found = p.ok("%x: f32; %k: i1", body, np.float32(1), True, returns="%r, %s : f32, f32")
    assert found["result0"].bound > 0 and found["result1"].bound is None


def test_an_index_that_is_too_wide_is_found_among_poison(p):
    wide = "%p = ub.poison() : () -> index\n%y = arith.select(%k, %i, %p) : (i1, index, index) -> index\n"
    wide += "%z = arith.muli(%y, %y) : (index, index) -> index\n"
    loop = p.parallel(
        "%i=%c0:%n:%c1", "%k = arith.cmpi(%i, %c1) <{predicate = 0 : i64}> : (index, index) -> i1\n" + wide
    )
    assert p.run(ARGS, loop, *given()).kind is OutcomeKind.OK
    large = loop.replace("(%y, %y)", "(%y, %big)").replace("%z =", "%big = const 4294967296 : index\n%z =")
    assert p.fault(ARGS, large, *given())[1] == "index-width"


def test_reads_of_nested_loops_alone_are_settled_too(p, monkeypatch, schedule):
    monkeypatch.setattr(checks, "DEFERRED_LIMIT", 3)
    nested = p.parallel("%i=%c0:%n:%c1", p.parallel("%j=%c0:%n:%c1", load("u", "j") + load("t", "c1")))
    assert p.run(ARGS, nested, *given(), schedule=schedule).kind is OutcomeKind.OK


@pytest.mark.parametrize(("first", "kind"), [("i", OutcomeKind.RACE), ("c0", OutcomeKind.OK)])
def test_one_wide_cell_for_all_lanes_over_narrow_ones(p, schedule, first, kind):
    """All lanes read word 0 after byte reads; a lane that writes a byte of it races."""
    view = "%w = memref.view(%C, %c0) : (memref<64xi8>, index) -> memref<16xi32>\n%b = const 1 : i8\n"
    narrow = f"%u = memref.load(%C, %{first}) : (memref<64xi8>, index) -> i8\n"
    if kind is OutcomeKind.RACE:
        narrow = f"memref.store(%b, %C, %{first}) : (i8, memref<64xi8>, index) -> ()\n"
    wide = "%v = memref.load(%w, %c0) : (memref<16xi32>, index) -> i32\n"
    text = view + p.parallel("%i=%c0:%n:%c1", narrow + wide)
    assert p.run("%C: memref<64xi8>; %n: index", text, np.zeros(64, np.int8), 4, schedule=schedule).kind is kind


def test_what_a_lane_rewrites_is_remembered_byte_by_byte(p, schedule):
    """Words are rewritten with other values, then bytes are touched: still each lane's own."""
    view = "%w = memref.view(%C, %c0) : (memref<64xi8>, index) -> memref<16xi32>\n"
    view += "%b = const 1 : i8\n%f = const 4 : index\n"
    twice = "memref.store(%{0}, %w, %i) : (i32, memref<16xi32>, index) -> ()\n"
    body = LANE + "%y = arith.addi(%x, %one) : (i32, i32) -> i32\n" + twice.format("x") + twice.format("y")
    body += "%at = arith.muli(%i, %f) : (index, index) -> index\n"
    body += "memref.store(%b, %C, %at) : (i8, memref<64xi8>, index) -> ()\n"
    text = view + "%one = const 1 : i32\n" + p.parallel("%i=%c0:%n:%c1", body)
    found = p.run("%C: memref<64xi8>; %n: index", text, np.zeros(64, np.int8), 4, schedule=schedule)
    assert found.kind is OutcomeKind.OK, found.fault

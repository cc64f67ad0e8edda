"""The core: entry, arguments, observed values, constants, unsupported ops, fuel, deep nesting."""

import numpy as np
import pytest

from difftest.errors import UsageError
from difftest.interpreter import interpret
from difftest.interpreter.registry import all_rules
from difftest.ir.reader import read_module
from difftest.model import Mode

I32 = "(i32, i32) -> i32"


def test_arguments_are_copied_and_observed_in_order(p, ints):
    given = ints(4)
    body = "%x = const 7 : i32\nmemref.store(%x, %A, %c1) : (i32, memref<?xi32>, index) -> ()"
    found = p.ok("%A: memref<?xi32>; %s: i32", body, given, 5, returns="%s : i32")
    assert list(found) == ["arg0", "result0"]
    assert found["arg0"].data.tolist() == [0, 7, 2, 3] and found["arg0"].data.dtype == np.int32
    assert found["result0"].data == 5 and found["result0"].data.shape == ()
    assert given.tolist() == [0, 1, 2, 3]


def test_returned_memref_is_observed_with_its_uninitialised_cells_skipped(p):
    body = """%m = memref.alloc() <{operandSegmentSizes = array<i32: 0, 0>}> : () -> memref<3xi64>
%x = const 9 : i64
memref.store(%x, %m, %c1) : (i64, memref<3xi64>, index) -> ()"""
    found = p.ok("", body, returns="%m : memref<3xi64>")["result0"]
    assert found.skip.tolist() == [True, False, True] and found.data[1] == 9


@pytest.mark.parametrize(
    ("arguments", "values"),
    [
        ("%A: memref<4xi32>", [np.zeros(3, np.int32)]),
        ("%A: memref<4xi32>", [np.zeros(4, np.float32)]),
        ("%A: memref<4xi32>", [3]),
        ("%A: memref<4xi32>", []),
        ("%s: i32", [1.5]),
        ("%s: i32", [np.zeros(1, np.int32)]),
        ("%s: !foo.bar", [1]),
    ],
)
def test_arguments_that_do_not_fit_are_usage_errors(p, arguments, values):
    with pytest.raises(UsageError):
        p.run(arguments, "", *values)


def test_unknown_entry_is_a_usage_error(p):
    with pytest.raises(UsageError, match="@other"):
        interpret(read_module(p.module("", "")), entry="other", arguments=[])


@pytest.mark.parametrize(("width", "given", "seen"), [(8, 255, -1), (1, 1, True), (4, 9, -7), (64, 2**63, -(2**63))])
def test_integer_arguments_wrap_to_their_width(p, width, given, seen):
    assert p.data(f"%s: i{width}", "", given, returns=f"%s : i{width}")[0] == seen


def test_unsupported_op_ends_the_run_only_when_executed(p):
    body = """%t = const {} : i1
scf.if(%t) ({{
foo.bar() : () -> ()
scf.yield() : () -> ()
}}, {{
}}) : (i1) -> ()"""
    assert p.fault("", body.format("true")) == ("unsupported", "unsupported-op", ())
    p.ok("", body.format("false"))


def test_op_with_a_form_that_has_no_rule_is_unsupported(p):
    body = "%x = foo.make() : () -> f80\n%y = arith.addf(%x, %x) : (f80, f80) -> f80"
    assert p.fault("", body)[0] == "unsupported"


def test_fault_names_rule_op_line_and_iteration(p, ints):
    store = "memref.store(%x, %A, %j) : (i32, memref<?xi32>, index) -> ()"
    inner = p.parallel("%j=%c0:%n:%c1", store)
    body = "%x = const 1 : i32\n%n = const 5 : index\n%two = const 2 : index\n" + p.parallel("%i=%c1:%two:%c1", inner)
    outcome = p.run("%A: memref<?xi32>", body, ints(3))
    assert outcome.fault.rule == "out-of-bounds"
    assert outcome.fault.op == "memref.store"
    assert outcome.fault.iteration == (1, 3)
    text = p.module("%A: memref<?xi32>", body).splitlines()
    assert "memref.store" in text[outcome.fault.line - 1]


def test_fuel_running_out_is_inconclusive(p):
    body = """%n = const 1000000 : index
scf.for(%c0, %n, %c1) ({
^bb0(%i: index):
scf.yield() : () -> ()
}) : (index, index, index) -> ()"""
    assert p.fault("", body, fuel=1000)[:2] == ("inconclusive", "fuel")


def test_memory_budget_running_out_is_inconclusive(p):
    body = "%m = memref.alloc() <{operandSegmentSizes = array<i32: 0, 0>}> : () -> memref<100000000xf64>"
    assert p.fault("", body, memory=1 << 20)[:2] == ("inconclusive", "memory")


@pytest.mark.parametrize("depth", [250])
def test_deep_nesting_runs(p, depth, ints):
    body = "%v = memref.load(%A, %c0) : (memref<1xi32>, index) -> i32\n"
    body += "memref.store(%v, %A, %c0) : (i32, memref<1xi32>, index) -> ()\n"
    for level in range(depth):
        if level % 2:
            body = p.parallel(f"%i{level}=%c0:%c1:%c1", body)
        else:
            body = f"scf.if(%t) ({{\n{body}scf.yield() : () -> ()\n}}, {{\n}}) : (i1) -> ()\n"
    assert p.data("%A: memref<1xi32>", "%t = const true : i1\n" + body, np.array([3], np.int32))[0] == 3


def test_source_mode_stops_at_poison_and_intermediate_mode_lets_it_flow(p):
    body = "%x = const 2147483647 : i32\n%y = const 1 : i32\n"
    body += f"%z = arith.addi(%x, %y) <{{overflowFlags = #arith.overflow<nsw>}}> : {I32}"
    assert p.fault("", body, returns="%z : i32")[:2] == ("ub", "nsw")
    found = p.ok("", body, returns="%z : i32", mode=Mode.INTERMEDIATE)["result0"]
    assert found.skip


def test_poison_at_a_sink_is_undefined_behaviour_in_both_modes(p):
    body = """%x = const 2147483647 : i32
%y = const 1 : i32
%z = arith.addi(%x, %y) <{overflowFlags = #arith.overflow<nsw>}> : (i32, i32) -> i32
%c = arith.cmpi(%z, %x) <{predicate = 0 : i64}> : (i32, i32) -> i1
scf.if(%c) ({
scf.yield() : () -> ()
}, {
}) : (i1) -> ()"""
    assert p.fault("", body, mode=Mode.INTERMEDIATE)[:2] == ("ub", "poison-sink")


def test_select_keeps_the_chosen_arm_when_the_other_is_poison(p):
    body = """%x = const 2147483647 : i32
%y = const 1 : i32
%z = arith.addi(%x, %y) <{overflowFlags = #arith.overflow<nsw>}> : (i32, i32) -> i32
%t = const true : i1
%s = arith.select(%t, %y, %z) : (i1, i32, i32) -> i32"""
    found = p.ok("", body, returns="%s : i32", mode=Mode.INTERMEDIATE)["result0"]
    assert found.data == 1 and found.skip is None


def test_inexact_floats_carry_a_bound_and_exact_ones_do_not(p):
    body = "%z = arith.divf(%x, %y) <{fastmath = #arith.fastmath<none>}> : (f32, f32) -> f32"
    exact = p.ok("%x: f32; %y: f32", body, 1.0, 4.0, returns="%z : f32")["result0"]
    assert exact.bound is None and exact.data == 0.25
    rounded = p.ok("%x: f32; %y: f32", body, 1.0, 3.0, returns="%z : f32")["result0"]
    assert 0 < rounded.bound < 1e-6


def test_branch_inside_an_error_bound_is_inconclusive(p):
    body = """%q = arith.divf(%x, %y) : (f32, f32) -> f32
%p = arith.mulf(%q, %y) : (f32, f32) -> f32
%c = arith.cmpf(%p, %x) <{predicate = 1 : i64}> : (f32, f32) -> i1
scf.if(%c) ({
scf.yield() : () -> ()
}, {
}) : (i1) -> ()"""
    assert p.fault("%x: f32; %y: f32", body, 1.0, 3.0)[:2] == ("inconclusive", "discontinuous")


def test_bounds_survive_memory_and_loose_ones_are_skipped(p):
    body = """%q = arith.divf(%x, %y) : (f32, f32) -> f32
%e = arith.subf(%q, %q) : (f32, f32) -> f32
memref.store(%q, %A, %c0) : (f32, memref<2xf32>, index) -> ()
memref.store(%e, %A, %c1) : (f32, memref<2xf32>, index) -> ()
%back = memref.load(%A, %c0) : (memref<2xf32>, index) -> f32"""
    args = "%A: memref<2xf32>; %x: f32; %y: f32"
    found = p.ok(args, body, np.zeros(2, np.float32), 1.0, 3.0, returns="%back : f32")
    assert found["result0"].bound == found["arg0"].bound[0] > 0
    assert found["arg0"].skip.tolist() == [False, True]


def test_every_dialect_file_is_found():
    assert {"scf.for", "memref.load", "arith.addi", "func.call", "cf.br"} <= all_rules().names()


def test_arrays_may_have_a_permuted_layout(p, ints):
    kind = "memref<2x3xi32, affine_map<(d0, d1) -> (d1, d0)>>"
    body = f"%v = memref.load(%A, %c1, %c0) : ({kind}, index, index) -> i32\n"
    body += f"%m = memref.alloc() <{{operandSegmentSizes = array<i32: 0, 0>}}> : () -> {kind}\n"
    body += f"memref.copy(%A, %m) : ({kind}, {kind}) -> ()"
    found = p.data(f"%A: {kind}", body, ints(6).reshape(2, 3), returns=f"%v, %m : i32, {kind}")
    assert found[1] == 3 and found[2].tolist() == [[0, 1, 2], [3, 4, 5]]


def test_every_numpy_scalar_kind_is_taken(p):
    import ml_dtypes

    for kind, value in (
        ("bf16", ml_dtypes.bfloat16(1.5)),
        ("f16", np.float16(1.5)),
        ("i8", np.int8(3)),
        ("i1", np.bool_(1)),
    ):
        assert float(p.data(f"%s: {kind}", "", value, returns=f"%s : {kind}")[0]) == float(value)


def test_arrays_for_a_lowered_entry_are_pointers_or_descriptors(p, ints):
    fields = "%a: !llvm.ptr; %b: !llvm.ptr; %o: i64; %s0: i64; %s1: i64; %t0: i64; %t1: i64; %n: i64"
    found = p.data(
        fields, "", ints(6).reshape(2, 3), 7, returns="%o, %s0, %s1, %t0, %t1, %n : i64, i64, i64, i64, i64, i64"
    )
    assert found[0].tolist() == [[0, 1, 2], [3, 4, 5]] and found[1:] == [0, 2, 3, 3, 1, 7]
    assert p.data("%a: !llvm.ptr", "", ints(3))[0].tolist() == [0, 1, 2]


def test_unobserved_buffers_are_skipped(p, ints, monkeypatch):
    def rule(op, context):
        slot = context.slot(op.operands[0])

        def run(frame):
            context.machine.memory.mark_unobserved(frame.v[slot].base)

        return run

    monkeypatch.setitem(all_rules().rules, "test.hide", rule)
    found = p.ok("%A: memref<3xi32>", "test.hide(%A) : (memref<3xi32>) -> ()", ints(3))["arg0"]
    assert found.skip.all()


def test_a_returned_vector_with_poison_is_observed_lane_by_lane():
    text = """\
"builtin.module"() ({
  "func.func"() <{function_type = () -> vector<2xi32>, sym_name = "k"}> ({
    %p = "ub.poison"() <{value = #ub.poison}> : () -> vector<2xi32>
    %c = "arith.constant"() <{value = dense<7> : vector<2xi32>}> : () -> vector<2xi32>
    %s = "arith.addi"(%p, %c) : (vector<2xi32>, vector<2xi32>) -> vector<2xi32>
    "func.return"(%s) : (vector<2xi32>) -> ()
  }) : () -> ()
}) : () -> ()
"""
    outcome = interpret(read_module(text), entry="k", arguments=[], mode=Mode.INTERMEDIATE)
    assert outcome.fault is None
    assert outcome.observed[0].data.shape == (2,)
    assert outcome.observed[0].skip.all()

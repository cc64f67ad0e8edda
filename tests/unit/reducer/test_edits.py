"""Applying edits: users follow, terminators are mended, what contradicts itself is skipped."""

from reducer.passes.erase import EraseOp
from reducer.passes.substitute import SubstituteConstant, SubstituteOp

CHAIN = """
%a = "arith.constant"() <{value = 1 : i32}> : () -> i32
%b = "arith.addi"(%a, %a) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
%c = "arith.muli"(%b, %a) <{overflowFlags = #arith.overflow<none>}> : (i32, i32) -> i32
"test.use"(%c) : (i32) -> ()
"test.use"(%a) : (i32) -> ()
"""


def number_of(snapshot, name):
    return next(n for n, op in enumerate(snapshot.ops) if op.name == name)


def test_erasing_an_op_takes_its_transitive_users_along(lab):
    snapshot = lab.snapshot(lab.module(CHAIN))
    smaller = snapshot.apply([EraseOp(op=number_of(snapshot, "arith.addi"))])
    assert lab.names(smaller.candidate) == ["func.func", "arith.constant", "test.use", "func.return"]


def test_the_snapshot_is_never_changed(lab):
    snapshot = lab.snapshot(lab.module(CHAIN))
    before = snapshot.candidate.text
    snapshot.apply([EraseOp(op=n) for n in range(2, len(snapshot.ops) - 1)])
    assert lab.snapshot(before).candidate.text == before
    assert [op.name for op in snapshot.module.walk()] == [op.name for op in snapshot.ops]


def test_an_edit_on_an_op_that_has_gone_is_skipped(lab):
    snapshot = lab.snapshot(lab.module(CHAIN))
    add = number_of(snapshot, "arith.addi")
    alone = snapshot.apply([EraseOp(op=add)])
    assert alone.candidate == snapshot.apply([EraseOp(op=add), EraseOp(op=add)]).candidate
    assert alone.candidate == snapshot.apply([EraseOp(op=add), SubstituteConstant(op=add, number=0)]).candidate


def test_edits_that_change_nothing_give_nothing(lab):
    snapshot = lab.snapshot(lab.module(CHAIN))
    assert snapshot.apply([]) is None


def test_a_constant_is_shared_and_dominates_its_use(lab):
    snapshot = lab.snapshot(lab.module(CHAIN + '%z = "arith.constant"() <{value = 0 : i32}> : () -> i32'))
    smaller = snapshot.apply([SubstituteConstant(op=number_of(snapshot, "arith.addi"), number=0)])
    assert lab.names(smaller.candidate).count("arith.constant") == 2
    assert "undef" not in smaller.candidate.text


def test_a_terminator_that_loses_a_scalar_gets_a_zero(lab):
    text = lab.module(
        """%c = "test.bool"() : () -> i1
        %r = "scf.if"(%c) ({
          %x = "test.make"() : () -> f32
          "scf.yield"(%x) : (f32) -> ()
        }, {
          %y = "test.make"() : () -> f32
          "scf.yield"(%y) : (f32) -> ()
        }) : (i1) -> f32
        "test.use"(%r) : (f32) -> ()"""
    )
    snapshot = lab.snapshot(text)
    smaller = snapshot.apply([EraseOp(op=number_of(snapshot, "test.make"))])
    assert lab.names(smaller.candidate).count("test.make") == 1
    assert "value = 0.000000e+00 : f32" in smaller.candidate.text
    assert "undef" not in smaller.candidate.text


def test_a_terminator_that_loses_what_has_no_zero_takes_its_parent_along(lab):
    text = lab.module(
        """%r = "scf.execute_region"() ({
          %x = "test.make"() : () -> !test.thing
          "scf.yield"(%x) : (!test.thing) -> ()
        }) : () -> !test.thing
        "test.use"(%r) : (!test.thing) -> ()"""
    )
    snapshot = lab.snapshot(text)
    smaller = snapshot.apply([EraseOp(op=number_of(snapshot, "test.make"))])
    assert lab.names(smaller.candidate) == ["func.func", "func.return"]


def test_a_function_cannot_lose_a_result_that_has_no_zero(lab):
    text = """"builtin.module"() ({
    "func.func"() <{function_type = () -> !test.thing, sym_name = "f"}> ({
      %x = "test.make"() : () -> !test.thing
      "func.return"(%x) : (!test.thing) -> ()
    }) : () -> () }) : () -> ()"""
    snapshot = lab.snapshot(text)
    assert snapshot.apply([EraseOp(op=number_of(snapshot, "test.make"))]) is None


def test_values_that_stand_for_each_other_do_not_loop(lab):
    snapshot = lab.snapshot(
        lab.module(
            """%a = "test.a"() : () -> i32
            %b = "test.b"() : () -> i32
            "test.use"(%a, %b) : (i32, i32) -> ()"""
        )
    )
    a, b = number_of(snapshot, "test.a"), number_of(snapshot, "test.b")
    values = {op: snapshot.value_number[snapshot.ops[op].results[0]] for op in (a, b)}
    both = [SubstituteOp(op=a, values=(values[b],)), SubstituteOp(op=b, values=(values[a],))]
    smaller = snapshot.apply(both)
    assert lab.names(smaller.candidate) == ["func.func", "func.return"]

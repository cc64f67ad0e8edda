"""func: calls, references, recursion, functions without a body; builtin casts."""

import numpy as np

CALLEE = """func.func() <{function_type = (memref<?xi32>, i32) -> i32, sym_name = "put"}> ({
^bb0(%M: memref<?xi32>, %x: i32):
%z = const 0 : index
%old = memref.load(%M, %z) : (memref<?xi32>, index) -> i32
memref.store(%x, %M, %z) : (i32, memref<?xi32>, index) -> ()
func.return(%old) : (i32) -> ()
}) : () -> ()
"""
ARGS = "%A: memref<?xi32>; %x: i32"


def test_call_passes_scalars_by_value_and_memrefs_by_reference(p, ints):
    body = "%r = func.call(%A, %x) <{callee = @put}> : (memref<?xi32>, i32) -> i32"
    found = p.data(ARGS, body, ints(2) + 5, 9, returns="%r : i32", others=CALLEE)
    assert found[0].tolist() == [9, 6] and found[1] == 5


def test_call_through_a_reference(p, ints):
    body = """%f = func.constant() <{value = @put}> : () -> ((memref<?xi32>, i32) -> i32)
%r = func.call_indirect(%f, %A, %x) : ((memref<?xi32>, i32) -> i32, memref<?xi32>, i32) -> i32"""
    assert p.data(ARGS, body, ints(2), 9, others=CALLEE)[0].tolist() == [9, 1]


def test_allocas_of_a_callee_end_with_it(p):
    callee = """func.func() <{function_type = () -> memref<2xi32>, sym_name = "leak"}> ({
%m = memref.alloca() <{operandSegmentSizes = array<i32: 0, 0>}> : () -> memref<2xi32>
func.return(%m) : (memref<2xi32>) -> ()
}) : () -> ()
"""
    body = """%m = func.call() <{callee = @leak}> : () -> memref<2xi32>
%v = memref.load(%m, %c0) : (memref<2xi32>, index) -> i32"""
    assert p.fault("", body, others=callee)[:2] == ("ub", "use-after-free")


def test_endless_recursion_is_inconclusive(p):
    callee = """func.func() <{function_type = () -> (), sym_name = "again"}> ({
func.call() <{callee = @again}> : () -> ()
func.return() : () -> ()
}) : () -> ()
"""
    assert p.fault("", "func.call() <{callee = @again}> : () -> ()", others=callee)[:2] == ("inconclusive", "recursion")


def test_function_without_a_body_is_unsupported(p):
    callee = (
        'func.func() <{function_type = () -> (), sym_name = "outside", sym_visibility = "private"}> ({\n}) : () -> ()\n'
    )
    assert p.fault("", "func.call() <{callee = @outside}> : () -> ()", others=callee)[0] == "unsupported"
    assert p.fault("", "func.call() <{callee = @nowhere}> : () -> ()")[0] == "unsupported"


def test_call_in_lanes_sees_their_level(p, schedule):
    body = p.parallel(
        "%i=%c0:%n:%c1",
        "%v = arith.index_cast(%i) : (index) -> i32\n%r = func.call(%A, %v) <{callee = @put}> : "
        "(memref<?xi32>, i32) -> i32",
    )
    args = "%A: memref<?xi32>; %n: index"
    assert p.fault(args, body, np.zeros(4, np.int32), 4, others=CALLEE, schedule=schedule)[:2] == ("race", "race")


def test_unrealized_casts_between_index_and_i64_keep_the_value(p):
    body = """%a = builtin.unrealized_conversion_cast(%x) : (i64) -> index
%b = builtin.unrealized_conversion_cast(%a) : (index) -> i64"""
    assert p.data("%x: i64", body, -5, returns="%b : i64") == [-5]
    other = "%a = builtin.unrealized_conversion_cast(%x) : (i64) -> f64"
    assert p.fault("%x: i64", other, 1)[0] == "unsupported"

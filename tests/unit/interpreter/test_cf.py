"""cf: control flow graphs with lanes that part and meet again."""

import numpy as np
import pytest

from difftest.interpreter import interpret
from difftest.ir.reader import read_module
from difftest.model import OutcomeKind


def graph(p, arguments, blocks, returns=""):
    """A function of several blocks; each ends in its own terminator."""
    text = p.module(arguments, "")
    types = returns
    done = '"func.return"() : () -> ()'
    head, tail = text.split(done, 1)
    function = head.replace(") -> (), sym_name", f") -> ({types}), sym_name", 1)
    return read_module(function + p.expand(blocks) + tail)


COLLATZ = """cf.br(%n, %c0) [^head] : (index, index) -> ()
^head(%x: index, %steps: index):
%done = arith.cmpi(%x, %c1) <{predicate = 0 : i64}> : (index, index) -> i1
cf.cond_br(%done) [^exit, ^body] <{operandSegmentSizes = array<i32: 1, 0, 0>}> : (i1) -> ()
^body:
%half = arith.shrui(%x, %c1) : (index, index) -> index
%bit = arith.andi(%x, %c1) : (index, index) -> index
%even = arith.cmpi(%bit, %c0) <{predicate = 0 : i64}> : (index, index) -> i1
cf.cond_br(%even, %half, %x) [^next, ^odd] <{operandSegmentSizes = array<i32: 1, 1, 1>}> : (i1, index, index) -> ()
^odd(%y: index):
%three = const 3 : index
%triple = arith.muli(%y, %three) : (index, index) -> index
%more = arith.addi(%triple, %c1) : (index, index) -> index
cf.br(%more) [^next] : (index) -> ()
^next(%z: index):
%steps2 = arith.addi(%steps, %c1) : (index, index) -> index
cf.br(%z, %steps2) [^head] : (index, index) -> ()
^exit:
func.return(%steps) : (index) -> ()
"""


def collatz(n):
    steps = 0
    while n != 1:
        n, steps = (n // 2 if n % 2 == 0 else 3 * n + 1), steps + 1
    return steps


def test_uniform_graph(p):
    module = graph(p, "%n: index", COLLATZ, "index")
    found = interpret(module, entry="k", arguments=[27])
    assert found.kind is OutcomeKind.OK, found.fault
    assert found.observed[0].data == collatz(27)


def test_lanes_take_their_own_paths_through_a_callee(p, schedule):
    callee = '"func.func"() <{function_type = (index) -> (index), sym_name = "steps"}> ({\n^bb0(%n: index):\n'
    callee += p.prelude + COLLATZ + "}) : () -> ()"
    inner = """%m = arith.addi(%i, %c1) : (index, index) -> index
%s = func.call(%m) <{callee = @steps}> : (index) -> index
%v = arith.index_cast(%s) : (index) -> i64
memref.store(%v, %A, %i) : (i64, memref<?xi64>, index) -> ()"""
    body = p.parallel("%i=%c0:%n:%c1", inner)
    found = p.data("%A: memref<?xi64>; %n: index", body, np.zeros(30, np.int64), 30, others=callee, schedule=schedule)
    assert found[0].tolist() == [collatz(i + 1) for i in range(30)]


SWITCH = """cf.switch(%f, %c0, %c1) [^out, ^out, ^other] <{case_operand_segments = array<i32: 1, 0>,
case_values = dense<[42, -3]> : vector<2xi32>, operandSegmentSizes = array<i32: 1, 1, 1>}> : (i32, index, index) -> ()
^out(%x: index):
func.return(%x) : (index) -> ()
^other:
%two = const 2 : index
func.return(%two) : (index) -> ()
"""


@pytest.mark.parametrize(("flag", "expected"), [(42, 1), (-3, 2), (7, 0)])
def test_switch_takes_the_equal_case_or_the_default(p, flag, expected):
    found = interpret(graph(p, "%f: i32", SWITCH, "index"), entry="k", arguments=[flag])
    assert found.kind is OutcomeKind.OK, found.fault
    assert found.observed[0].data == expected


def test_switch_and_several_returns_in_lanes(p, schedule):
    callee = '"func.func"() <{function_type = (i32) -> (index), sym_name = "pick"}> ({\n^bb0(%f: i32):\n'
    callee += p.prelude + SWITCH + "}) : () -> ()"
    inner = """%f = memref.load(%F, %i) : (memref<?xi32>, index) -> i32
%s = func.call(%f) <{callee = @pick}> : (i32) -> index
%v = arith.index_cast(%s) : (index) -> i64
memref.store(%v, %A, %i) : (i64, memref<?xi64>, index) -> ()"""
    body = p.parallel("%i=%c0:%n:%c1", inner)
    flags = np.array([42, 1, -3, 42], np.int32)
    args = "%A: memref<?xi64>; %F: memref<?xi32>; %n: index"
    found = p.data(args, body, np.zeros(4, np.int64), flags, 4, others=callee, schedule=schedule)
    assert found[0].tolist() == [1, 0, 2, 1]


def test_block_arguments_are_passed_all_at_once(p):
    blocks = """cf.br(%c0, %c1, %c0) [^head] : (index, index, index) -> ()
^head(%a: index, %b: index, %k: index):
%k2 = arith.addi(%k, %c1) : (index, index) -> index
%go = arith.cmpi(%k2, %n) <{predicate = 2 : i64}> : (index, index) -> i1
cf.cond_br(%go, %b, %a, %k2) [^head, ^exit] <{operandSegmentSizes = array<i32: 1, 3, 0>}> : (i1, index, index,
index) -> ()
^exit:
func.return(%a, %b) : (index, index) -> ()
"""
    found = interpret(graph(p, "%n: index", blocks, "index, index"), entry="k", arguments=[4])
    assert [o.data for o in found.observed] == [1, 0]


def test_assert(p):
    body = (
        "%c = arith.cmpi(%n, %c1) <{predicate = 0 : i64}> : (index, index) -> i1\ncf.assert(%c) <{msg = "
        '"one"}> : (i1) -> ()'
    )
    p.ok("%n: index", body, 1)
    assert p.fault("%n: index", body, 2)[:2] == ("ub", "assertion")


def test_endless_loop_is_inconclusive(p):
    blocks = "cf.br() [^head] : () -> ()\n^head:\ncf.br() [^head] : () -> ()\n"
    found = interpret(graph(p, "", blocks), entry="k", arguments=[], fuel=1000)
    assert (found.kind, found.fault.rule) == (OutcomeKind.INCONCLUSIVE, "fuel")

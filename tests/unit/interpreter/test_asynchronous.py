"""async: tasks run where they are started."""

import numpy as np
import pytest

from difftest.interpreter import interpret
from difftest.ir.reader import read_module
from difftest.model import Mode, OutcomeKind, Pipeline
from difftest.targets import open_target

TASKS = """
%t, %v = async.execute(%x) <{operandSegmentSizes = array<i32: 0, 1>}> ({
^bb0(%y: i32):
%z = arith.addi(%y, %y) : (i32, i32) -> i32
async.yield(%z) : (i32) -> ()
}) : (!async.value<i32>) -> (!async.token, !async.value<i32>)
async.await(%t) : (!async.token) -> ()
%r = async.await(%v) : (!async.value<i32>) -> i32
%size = const 1 : index
%g = async.create_group(%size) : (index) -> !async.group
%n = async.add_to_group(%t, %g) : (!async.token, !async.group) -> index
async.await_all(%g) : (!async.group) -> ()
"""


def test_tasks_give_tokens_and_values(p):
    first = """%e, %x = async.execute() <{operandSegmentSizes = array<i32: 0, 0>}> ({
async.yield(%a) : (i32) -> ()
}) : () -> (!async.token, !async.value<i32>)
"""
    assert p.data("%a: i32", first + TASKS, 21, returns="%r, %n : i32, index") == [42, 0]


def test_the_runtime_level_is_unsupported(p):
    assert p.fault("", "%t = async.runtime.create() : () -> !async.token\n")[0] == "unsupported"


@pytest.mark.parametrize("dispatch", ["true", "false"])
def test_parallel_loops_as_tasks_do_what_they_did(p, dispatch):
    store = "%x = arith.index_cast(%i) : (index) -> i32\nmemref.store(%x, %A, %i) : (i32, memref<?xi32>, index) -> ()\n"
    text = p.module("%A: memref<?xi32>; %n: index", p.parallel("%i=%c0:%n:%c1", store))
    target = open_target("mlir")
    passes = f"async-parallel-for{{async-dispatch={dispatch} num-workers=4 min-task-size=1}}"
    try:
        result = target.lower(text, Pipeline(text=passes))
    finally:
        target.close()
    assert result.artifact is not None, result.failure
    assert "async." in result.artifact.text
    arguments = [np.zeros(10, np.int32), 10]
    found = interpret(read_module(result.artifact.text), entry="k", arguments=arguments, mode=Mode.INTERMEDIATE)
    assert found.kind is OutcomeKind.OK, found.fault
    assert found.observed[0].data.tolist() == list(range(10))

"""Traces of chosen ops: what they compute, lane by lane, for every kind of value."""

import numpy as np

from difftest.interpreter.tracing import Tracer, show_value
from difftest.interpreter.values import MemRef, Pointer, Tagged

M = "memref<?xi32>"
BODY = "%x = arith.index_cast(%i) : (index) -> i32\n%y = arith.addi(%x, %x) : (i32, i32) -> i32\n"
STORE = f"memref.store(%y, %A, %i) : (i32, {M}, index) -> ()\n"


def trace(p, names, **options):
    tracer = Tracer(names, **options)
    body = "%n = const 3 : index\n" + p.parallel("%i=%c0:%n:%c1", BODY + STORE)
    p.ok(f"%A: {M}", body, np.zeros(3, np.int32), tracer=tracer)
    return tracer


def test_each_lane_of_each_execution_is_recorded(p):
    tracer = trace(p, ["arith.addi", "memref.store"])
    adds = [r for r in tracer.records if r.op == "arith.addi"]
    assert [(r.iteration, r.operands, r.results) for r in adds] == [
        ((i,), (str(i), str(i)), (str(2 * i),)) for i in range(3)
    ]
    stores = [r.as_text() for r in tracer.records if r.op == "memref.store"]
    assert stores[2].startswith("line ") and stores[2].endswith("[2]: memref.store(4, memref 3 in object 1, 2)")
    assert tracer.dropped == 0


def test_ops_that_nobody_asked_for_are_not_recorded_and_the_rest_is_counted(p):
    assert {r.op for r in trace(p, ["arith.addi"]).records} == {"arith.addi"}
    short = trace(p, ["arith.addi", "memref.store"], limit=2)
    assert (len(short.records), short.dropped) == (2, 4)


def test_every_kind_of_value_has_a_text():
    assert show_value(Tagged(np.array([1.5, 2.0]), poison=np.array([False, True])), 1) == "2.0 (poison)"
    assert show_value(Tagged(1.5, bound=0.25), 0) == "1.5 (+-0.25)"
    assert show_value(Tagged(1.5, zero=True), 0) == "1.5"
    assert show_value(Pointer(base=3, address=64), 0) == "object 3 + address 64"
    assert show_value(np.array([[1, 2]], np.int32), 0) == "[[1, 2]]"
    cell = type("Cell", (), {"width": 4, "count": 1})
    memref = MemRef(base=2, address=0, offset=0, sizes=(), strides=(), cell=cell, safe=True)
    assert show_value(memref, 0) == "memref of rank 0 in object 2"

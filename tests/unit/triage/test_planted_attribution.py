"""Sixty faults planted in a pipeline of passes that do nothing: each is found, and blamed on its own step."""

import pytest

from difftest.model import InputSpec, Pipeline, Program, VerdictKind
from difftest.oracle.judge import judge, prepare
from difftest.triage.locate import locate
from tests.helpers import PlantedTarget

TEXT = """
"builtin.module"() ({
  "func.func"() <{function_type = (memref<6xi32>, memref<6xi32>, memref<6xi32>) -> (), sym_name = "k"}> ({
  ^bb0(%x: memref<6xi32>, %y: memref<6xi32>, %z: memref<6xi32>):
    %zero = "arith.constant"() <{value = 0 : index}> : () -> index
    %six = "arith.constant"() <{value = 6 : index}> : () -> index
    %one = "arith.constant"() <{value = 1 : index}> : () -> index
    %bias = "arith.constant"() <{value = 1000 : i32}> : () -> i32
    "enzymexla.gpu_wrapper"(%one, %one, %one, %six, %one, %one) ({
      "scf.parallel"(%zero, %one, %one) <{operandSegmentSizes = array<i32: 1, 1, 1, 0>}> ({
      ^bb0(%block: index):
        %shared = "memref.alloca"() <{operandSegmentSizes = array<i32: 0, 0>}> : () -> memref<6xi32>
        "scf.parallel"(%zero, %six, %one) <{operandSegmentSizes = array<i32: 1, 1, 1, 0>}> ({
        ^bb0(%i: index):
          %v = "memref.load"(%x, %i) : (memref<6xi32>, index) -> i32
          %d = "arith.subi"(%bias, %v) : (i32, i32) -> i32
          "memref.store"(%d, %shared, %i) : (i32, memref<6xi32>, index) -> ()
          "enzymexla.barrier"(%i) : (index) -> ()
          %five = "arith.constant"() <{value = 5 : index}> : () -> index
          %r = "arith.subi"(%five, %i) : (index, index) -> index
          %w = "memref.load"(%shared, %r) : (memref<6xi32>, index) -> i32
          "memref.store"(%w, %y, %i) : (i32, memref<6xi32>, index) -> ()
          "memref.store"(%d, %z, %i) : (i32, memref<6xi32>, index) -> ()
          "scf.reduce"() : () -> ()
        }) : (index, index, index) -> ()
        "scf.reduce"() : () -> ()
      }) : (index, index, index) -> ()
      "enzymexla.polygeist_yield"() : () -> ()
    }) : (index, index, index, index, index, index) -> index
    "func.return"() : () -> ()
  }) : () -> ()
}) : () -> ()
"""
NULLS = (
    "cse",
    "sccp",
    "func.func(a)",
    "canonicalize{x=1}",
    'enzyme{postpasses="p,q"}',
    "symbol-dce",
    "b",
    "c",
    "d",
    "e",
)


def _find(module, name, number=0):
    return [op for op in module.walk() if op.name == name][number]


def wrong_constant(module):
    next(op for op in module.walk() if op.get("value") == "1000 : i32").properties["value"] = "1001 : i32"


def dropped_store(module):
    store = _find(module, "memref.store", -1)
    store.parent.ops.remove(store)


def swapped_operands(module):
    _find(module, "arith.subi").operands.reverse()


def dropped_barrier(module):
    barrier = _find(module, "enzymexla.barrier")
    barrier.parent.ops.remove(barrier)


def wrong_bound(module):
    inner = _find(module, "scf.parallel", 1)
    inner.operands[0] = inner.operands[2]


def wrong_index(module):
    load = _find(module, "memref.load", 1)
    load.operands[1] = load.parent.arguments[0]


PLANTS = (wrong_constant, dropped_store, swapped_operands, dropped_barrier, wrong_bound, wrong_index)


@pytest.fixture(scope="module")
def reference():
    found = prepare(Program(text=TEXT, entry="k", inputs=InputSpec(seed=5)))
    assert found.usable, found.outcome.fault
    return found


def test_there_are_sixty():
    assert len(PLANTS) * len(NULLS) == 60


@pytest.mark.parametrize("position", range(len(NULLS)))
@pytest.mark.parametrize("plant", PLANTS)
def test_a_plant_is_found_and_blamed_on_its_step(plant, position, reference):
    target, passes = PlantedTarget(plant, position=position), Pipeline(text=",".join(NULLS))
    verdict = judge(reference, target, passes).verdict
    assert verdict.kind is VerdictKind.MISMATCH
    located = locate(reference, target, passes, verdict)
    assert located is not None
    assert len(located.prefix) == position and located.prefix == NULLS[:position]
    assert located.skipped == ()

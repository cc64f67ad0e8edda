"""Wrong results are found: every observable fault planted in compiled text, and attributed to the right step.

The programs below are made so that each planted fault changes an observed value: inputs are drawn from many values,
every store is read by nobody else, no operation is symmetric in its operands by accident.
"""

from contextlib import closing

import pytest

from difftest.ir.reader import read_module
from difftest.model import InputSpec, Pipeline, Program, VerdictKind
from difftest.oracle.judge import judge, prepare
from difftest.targets import open_target
from difftest.triage.culprit import blame, find_culprit
from tests.helpers import PlantedTarget, nth, numbered

PROGRAMS = {
    "matmul": """
func.func @k(%a: memref<3x4xf32>, %b: memref<4x5xf32>, %c: memref<3x5xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %c4 = arith.constant 4 : index
  %c5 = arith.constant 5 : index
  %bias = arith.constant 2.5 : f32
  scf.parallel (%i, %j) = (%c0, %c0) to (%c3, %c5) step (%c1, %c1) {
    %s = scf.for %k = %c0 to %c4 step %c1 iter_args(%acc = %bias) -> (f32) {
      %x = memref.load %a[%i, %k] : memref<3x4xf32>
      %y = memref.load %b[%k, %j] : memref<4x5xf32>
      %p = arith.mulf %x, %y : f32
      %n = arith.subf %acc, %p : f32
      scf.yield %n : f32
    }
    memref.store %s, %c[%i, %j] : memref<3x5xf32>
    scf.reduce
  }
  return
}""",
    "stencil": """
func.func @k(%x: memref<10xf64>, %y: memref<10xf64>, %z: memref<10xf64>) {
  %two = arith.constant 2.0 : f64
  %three = arith.constant 3.0 : f64
  affine.parallel (%i) = (1) to (9) {
    %l = affine.load %x[%i - 1] : memref<10xf64>
    %r = affine.load %x[%i + 1] : memref<10xf64>
    %a = arith.mulf %l, %three : f64
    %b = arith.mulf %r, %two : f64
    %d = arith.subf %a, %b : f64
    affine.store %d, %y[%i] : memref<10xf64>
    affine.store %a, %z[%i] : memref<10xf64>
  }
  return
}""",
    "reduction": """
func.func @k(%x: memref<7xi32>, %sum: memref<1xi32>, %mix: memref<1xi32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c7 = arith.constant 7 : index
  %seven = arith.constant 7 : i32
  %first = arith.constant 1000 : i32
  %c5 = arith.constant 5 : i32
  %r:2 = scf.parallel (%i) = (%c0) to (%c7) step (%c1) init (%seven, %first) -> (i32, i32) {
    %v = memref.load %x[%i] : memref<7xi32>
    %w = arith.subi %v, %c5 : i32
    scf.reduce(%w, %v : i32, i32) {
    ^bb0(%l: i32, %m: i32):
      %s = arith.addi %l, %m : i32
      scf.reduce.return %s : i32
    }, {
    ^bb0(%l: i32, %m: i32):
      %s = arith.xori %l, %m : i32
      scf.reduce.return %s : i32
    }
  }
  memref.store %r#0, %sum[%c0] : memref<1xi32>
  memref.store %r#1, %mix[%c0] : memref<1xi32>
  return
}""",
    "control": """
func.func @k(%n: index, %x: memref<6xi64>, %y: memref<6xi64>, %w: memref<6xi64>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %c6 = arith.constant 6 : index
  %ten = arith.constant 10 : i64
  %four = arith.constant 4 : i64
  scf.for %i = %c0 to %c6 step %c1 {
    %mix = arith.cmpi slt, %i, %c3 : index
    %v = memref.load %x[%i] : memref<6xi64>
    %q = scf.if %mix -> (i64) {
      %d = arith.subi %v, %ten : i64
      scf.yield %d : i64
    } else {
      %m = arith.shli %v, %four : i64
      %e = arith.addi %m, %ten : i64
      scf.yield %e : i64
    }
    memref.store %q, %y[%i] : memref<6xi64>
    %i64 = arith.index_cast %i : index to i64
    %t = arith.subi %ten, %i64 : i64
    memref.store %t, %w[%i] : memref<6xi64>
  }
  return
}""",
    "scratch": """
func.func @k(%x: memref<4x3xf32>, %y: memref<4x3xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %c4 = arith.constant 4 : index
  %half = arith.constant 0.5 : f32
  %nine = arith.constant 9.0 : f32
  scf.parallel (%i) = (%c0) to (%c4) step (%c1) {
    %own = memref.alloca() : memref<3xf32>
    scf.for %j = %c0 to %c3 step %c1 {
      %v = memref.load %x[%i, %j] : memref<4x3xf32>
      %h = arith.mulf %v, %half : f32
      %s = arith.subf %h, %nine : f32
      memref.store %s, %own[%j] : memref<3xf32>
    }
    scf.parallel (%j) = (%c0) to (%c3) step (%c1) {
      %v = memref.load %own[%j] : memref<3xf32>
      %w = arith.subf %nine, %v : f32
      memref.store %w, %y[%i, %j] : memref<4x3xf32>
      scf.reduce
    }
    scf.reduce
  }
  return
}""",
    "triangle": """
func.func @k(%x: memref<5x5xi32>, %y: memref<5x5xi32>, %z: memref<5xi32>) {
  %hundred = arith.constant 100 : i32
  %three = arith.constant 3 : i32
  affine.for %i = 0 to 5 {
    %s = affine.for %j = 0 to affine_map<(d0) -> (d0 + 1)>(%i) iter_args(%acc = %hundred) -> (i32) {
      %v = affine.load %x[%i, %j] : memref<5x5xi32>
      %d = arith.subi %acc, %v : i32
      %t = arith.subi %v, %three : i32
      affine.store %t, %y[%i, %j] : memref<5x5xi32>
      affine.yield %d : i32
    }
    affine.store %s, %z[%i] : memref<5xi32>
  }
  return
}""",
    "switch": """
func.func @k(%n: i32, %x: memref<4xi32>, %y: memref<4xi32>, %z: memref<4xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %nine = arith.constant 9 : i32
  %five = arith.constant 5 : i32
  %half = arith.constant 0.5 : f32
  %eight = arith.constant 8.0 : f32
  scf.parallel (%i) = (%c0) to (%c4) step (%c1) {
    %v = memref.load %x[%i] : memref<4xi32>
    %r = scf.index_switch %i -> i32
    case 0 {
      %a = arith.subi %nine, %v : i32
      scf.yield %a : i32
    }
    case 1 {
      %a = arith.shli %five, %n : i32
      %b = arith.subi %a, %v : i32
      scf.yield %b : i32
    }
    default {
      %a = arith.subi %v, %five : i32
      scf.yield %a : i32
    }
    memref.store %r, %y[%i] : memref<4xi32>
    %f = arith.sitofp %r : i32 to f32
    %g = arith.mulf %f, %half : f32
    %h = arith.subf %eight, %g : f32
    memref.store %h, %z[%i] : memref<4xf32>
    scf.reduce
  }
  return
}""",
}
SYMMETRIC = {"arith.addi", "arith.mulf", "arith.xori"}


def _drop(number):
    def plant(module):
        op = nth(module, number)
        op.parent.ops.remove(op)

    return plant


def _swap(number):
    def plant(module):
        op = nth(module, number)
        op.operands[0], op.operands[1] = op.operands[1], op.operands[0]

    return plant


def _constant(number, value):
    def plant(module):
        nth(module, number).properties["value"] = value

    return plant


def _plants(module):
    """Every fault of the four kinds that the module has a place for: (what, how)."""
    for number, op in numbered(module):
        if op.name in {"memref.store", "affine.store"}:
            yield f"drop {op.name} {number}", _drop(number)
        elif op.name.startswith("arith.") and len(op.operands) == 2 and op.name not in SYMMETRIC:
            if op.operands[0].type == op.operands[1].type and op.operands[0] is not op.operands[1]:
                yield f"swap {op.name} {number}", _swap(number)
        elif op.name == "arith.constant":
            value, _, kind = op.properties["value"].partition(" : ")
            if kind == "index" and value not in {"0", "1"}:
                # Bounds and thresholds; one less keeps every access inside.
                yield f"bound {number}", _constant(number, f"{int(value) - 1} : index")
            elif kind.startswith("i") and kind != "index":
                yield f"constant {number}", _constant(number, f"{int(value) + 1} : {kind}")
            elif kind.startswith("f"):
                yield f"constant {number}", _constant(number, f"{float(value) + 1.0!r} : {kind}")


@pytest.fixture(scope="module")
def references():
    """The programs in generic form, executed."""
    with closing(open_target("mlir")) as target:
        texts = {name: target.to_generic(text).artifact.text for name, text in PROGRAMS.items()}
    found = {n: prepare(Program(text=t, entry="k", inputs=InputSpec(seed=12))) for n, t in texts.items()}
    assert all(reference.usable for reference in found.values()), [r.outcome.fault for r in found.values()]
    return found


def test_every_observable_fault_is_found_and_attributed(references):
    missed, planted = [], 0
    for name, reference in references.items():
        for what, plant in _plants(read_module(reference.program.text)):
            planted += 1
            position = planted % 3
            target, pipeline = PlantedTarget(plant, position=position), Pipeline(text="one,two,three")
            verdict = judge(reference, target, pipeline).verdict
            if verdict.kind not in {VerdictKind.MISMATCH, VerdictKind.DEVICE_FAULT}:
                missed.append(f"{name}: {what}: {verdict.kind}")
                continue
            blamed = blame(verdict, find_culprit(reference, target, pipeline))
            if blamed.signature.pass_name != ("one", "two", "three")[position]:
                missed.append(f"{name}: {what}: blamed {blamed.signature.pass_name}")
    assert not missed, missed
    assert planted >= 50


def test_a_compiler_that_changes_nothing_is_never_blamed(references):
    for reference in references.values():
        target = PlantedTarget(lambda module: None)
        assert judge(reference, target, Pipeline(text="one,two")).verdict.kind is VerdictKind.AGREE
        assert find_culprit(reference, target, Pipeline(text="one,two")) is None

"""Compiled modules: the host interpreted, kernels on the emulator."""

import numpy as np
import pytest

from difftest.devices import EmulatorDevice
from difftest.devices.host import Host, kernel_texts, run_on_device
from difftest.errors import UsageError
from difftest.inputs import make_arguments
from difftest.interpreter import interpret
from difftest.interpreter.faults import Stop
from difftest.ir.reader import read_module
from difftest.ir.tree import Operation
from difftest.model import InputSpec, OutcomeKind
from difftest.oracle.compare import compare
from difftest.oracle.judge import entry_types
from difftest.targets import open_target
from difftest.targets.pipelines import resolve
from tests.unit.devices.running import ALL_SCHEDULES, kernel

SOURCE = """
"builtin.module"() ({
  "func.func"() <{function_type = (memref<3x?xf32>, memref<?xi32>, i32) -> (), sym_name = "f"}> ({
  ^bb0(%a: memref<3x?xf32>, %b: memref<?xi32>, %s: i32):
    %c0 = "arith.constant"() <{value = 0 : index}> : () -> index
    %c1 = "arith.constant"() <{value = 1 : index}> : () -> index
    %c3 = "arith.constant"() <{value = 3 : index}> : () -> index
    %n = "memref.dim"(%a, %c1) : (memref<3x?xf32>, index) -> index
    "scf.parallel"(%c0, %c0, %c3, %n, %c1, %c1) <{operandSegmentSizes = array<i32: 2, 2, 2, 0>}> ({
    ^bb0(%i: index, %j: index):
      %x = "memref.load"(%b, %j) : (memref<?xi32>, index) -> i32
      %y = "arith.muli"(%x, %s) : (i32, i32) -> i32
      %z = "arith.sitofp"(%y) : (i32) -> f32
      %w = "memref.load"(%a, %i, %j) : (memref<3x?xf32>, index, index) -> f32
      %v = "arith.addf"(%w, %z) : (f32, f32) -> f32
      "memref.store"(%v, %a, %i, %j) : (f32, memref<3x?xf32>, index, index) -> ()
      "scf.reduce"() : () -> ()
    }) : (index, index, index, index, index, index) -> ()
    "func.return"() : () -> ()
  }) : () -> ()
}) : () -> ()
"""


@pytest.fixture(scope="module")
def lowered():
    target = open_target("mlir")
    if not target.availability().usable:
        pytest.skip(target.availability().reason)
    result = target.lower(SOURCE, resolve("nvvm", "mlir"))
    target.close()
    assert result.artifact is not None, result.failure
    return read_module(result.artifact.text)


@pytest.mark.parametrize("schedule", ALL_SCHEDULES)
def test_a_lowered_program_agrees_with_its_source(lowered, schedule):
    source = read_module(SOURCE)
    spec = InputSpec(shapes={0: (3, 5), 1: (5,)}, scalars={2: -3})
    arguments = make_arguments(entry_types(source, "f").inputs, spec)
    reference = interpret(source, entry="f", arguments=arguments)
    found = run_on_device(lowered, entry="f", arguments=arguments, device=EmulatorDevice(schedule=schedule))
    assert found.kind is OutcomeKind.OK, found.fault
    assert compare(reference, found).difference is None and found.notes["kernels"] == 1
    assert (found.observed[0].data != arguments[0]).any()


def test_a_wrong_kernel_is_a_mismatch_or_a_fault(lowered):
    texts = kernel_texts(lowered)
    assert len(texts) == 1 and ".visible .entry" in next(iter(texts.values()))
    source = read_module(SOURCE)
    arguments = make_arguments(entry_types(source, "f").inputs, InputSpec(shapes={0: (3, 5), 1: (5,)}))
    reference = interpret(source, entry="f", arguments=arguments)
    binary = next(op for op in lowered.walk() if op.name == "gpu.binary")
    objects = binary.properties["objects"]
    for old, new in (("mul.lo.s32", "add.s32"), ("add.s64", "sub.s64")):
        binary.properties["objects"] = objects.replace(old, new)
        assert binary.properties["objects"] != objects
        found = run_on_device(lowered, entry="f", arguments=arguments, device=EmulatorDevice())
        assert found.kind is not OutcomeKind.OK or compare(reference, found).difference is not None
    binary.properties["objects"] = objects


def host(ptx, operands="%a", types="memref<8xi32>"):
    text = ptx.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\0A")
    segments = "0, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 1, 0"
    return read_module(f"""
"builtin.module"() ({{
  "func.func"() <{{function_type = (memref<8xi32>) -> (), sym_name = "f"}}> ({{
  ^bb0(%a: memref<8xi32>):
    %one = "arith.constant"() <{{value = 1 : index}}> : () -> index
    %n = "arith.constant"() <{{value = 8 : index}}> : () -> index
    "gpu.launch_func"(%one, %one, %one, %n, %one, %one, {operands}) <{{kernel = @m::@k,
      operandSegmentSizes = array<i32: {segments}>}}> : (index, index, index, index, index, index, {types}) -> ()
    "func.return"() : () -> ()
  }}) : () -> ()
  "gpu.binary"() <{{objects = [#gpu.object<#nvvm.target, assembly = "{text}">], sym_name = "m"}}> : () -> ()
}}) {{gpu.container_module}} : () -> ()
""")


def run_host(ptx):
    data = np.arange(8, dtype=np.int32)
    return run_on_device(host(ptx), entry="f", arguments=[data], device=EmulatorDevice())


LOAD = "mov.u32 %r1, %tid.x; mul.wide.u32 %rd2, %r1, 4; add.s64 %rd3, %rd1, %rd2; ld.global.b32 %r2, [%rd3];"


def test_memrefs_are_bound_as_descriptors_or_as_bare_pointers():
    finish = f"{LOAD} add.s32 %r2, %r2, 1; st.global.b32 [%rd3], %r2;"
    bare = run_host(kernel("ld.param.u64 %rd1, [p0];" + finish, ["u64"]))
    whole = run_host(kernel("ld.param.u64 %rd1, [p1];" + finish, ["u64"] * 5))
    for found in (bare, whole):
        assert found.kind is OutcomeKind.OK, found.fault
        assert (found.observed[0].data == np.arange(8) + 1).all()
    wrong = run_host(kernel("ld.param.u64 %rd1, [p1];" + finish, ["u64"] * 4))
    assert wrong.kind is OutcomeKind.UNSUPPORTED


def test_faults_of_kernels_are_outcomes():
    start = "ld.param.u64 %rd1, [p0];" + LOAD
    race = run_host(kernel(start + "st.global.b32 [%rd1], %r2;", ["u64"]))
    assert race.kind is OutcomeKind.RACE and race.fault is not None and race.fault.op == "k"
    outside = run_host(kernel(start + "st.global.b32 [%rd3+4], %r2;", ["u64"]))
    assert outside.kind is OutcomeKind.UB and outside.fault is not None and outside.fault.rule == "out-of-bounds"
    unknown = run_host(kernel("frobnicate.b32 %r1;", ["u64"]))
    assert unknown.kind is OutcomeKind.UNSUPPORTED
    endless = run_host(kernel("L: bra.uni L;", ["u64"]))
    assert endless.kind is OutcomeKind.INCONCLUSIVE


def test_a_binary_without_text_is_a_usage_error():
    with pytest.raises(UsageError, match="no PTX"):
        run_host("not ptx at all")


def test_kernels_are_found_by_the_names_of_their_stubs():
    """Production hosts know `<module>_<kernel>` only: where the module's name ends is a guess."""
    texts = {"m_0": kernel("mov.u32 %r1, %tid.x;"), "m": kernel("mov.u32 %r2, %tid.x;")}
    served = Host(texts, EmulatorDevice())
    op = Operation("llvm.call")
    for path in (("m", "k"), ("m", "0_k"), ("m_0", "k")):
        served.launch(None, op, path, [], [1, 1, 1, 4, 1, 1], 0)
    assert served.notes["kernels"] == 3
    with pytest.raises(Stop):
        served.launch(None, op, ("m", "other"), [], [1, 1, 1, 4, 1, 1], 0)

"""What every target owes the harness: run over all targets found by listing, and an external opt where there is one.

Known failing inputs live in tests/data/failing; each fails in the versions its first lines name.
"""

import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from difftest import toolchains
from difftest.errors import ToolchainError, UsageError
from difftest.ir.reader import read_module
from difftest.model import FailureKind, Pipeline
from difftest.signature import of_failure
from difftest.targets import known_labels, open_target, pipelines
from difftest.targets.native import NativeTarget

DATA = Path(__file__).parents[1] / "data"
ENZYME = ("enzyme-ad@0.0.14", "enzyme-ad@0.0.15", "enzyme-ad@0.0.16")
OPT = next((f"opt:{p}" for name in ("mlir-opt", "mlir-opt-22") if (p := shutil.which(name))), None)
LABELS = [pytest.param(label, marks=pytest.mark.enzyme if label in ENZYME else ()) for label in known_labels()]
if OPT is not None:
    LABELS.append(pytest.param(OPT, marks=pytest.mark.tool))

GOOD = """"builtin.module"() ({
  "func.func"() <{function_type = (memref<4xf32>, index) -> (), sym_name = "k"}> ({
  ^bb0(%arg0: memref<4xf32>, %arg1: index):
    %0 = "arith.constant"() <{value = 1.000000e+00 : f32}> : () -> f32
    %1 = "arith.addf"(%0, %0) <{fastmath = #arith.fastmath<none>}> : (f32, f32) -> f32
    "memref.store"(%1, %arg0, %arg1) : (f32, memref<4xf32>, index) -> ()
    "func.return"() : () -> ()
  }) : () -> ()
}) : () -> ()
"""
PRETTY = """func.func @k(%m: memref<?xf32>) {
  %c = arith.constant 1.0 : f32
  %i = arith.constant 0 : index
  memref.store %c, %m[%i] : memref<?xf32>
  return
}
"""
TILE = Pipeline(text="cse,func.func(affine-loop-tile{tile-sizes=0,0}),canonicalize")
UNROLL = Pipeline(text="cse,func.func(affine-loop-unroll{unroll-factor=100000000}),canonicalize")


def failing(name):
    return (DATA / "failing" / f"{name}.mlir").read_text()


@pytest.fixture(scope="module")
def opened():
    """Targets by label, opened once for the module."""
    targets = {}
    yield targets
    for target in targets.values():
        target.close()


def use(opened, label):
    if label not in opened:
        if label in ENZYME:
            try:
                toolchains.ensure(label)
            except ToolchainError as error:
                pytest.skip(str(error))
        target = open_target(label)
        availability = target.availability()
        if not availability.usable:
            pytest.skip(availability.reason)
        opened[label] = target
    return opened[label]


@pytest.fixture
def target(opened, request):
    return use(opened, request.param)


@pytest.fixture
def native(opened, request):
    made = use(opened, request.param)
    if not isinstance(made, NativeTarget):
        pytest.skip("no compiler child of ours")
    return made


every_target = pytest.mark.parametrize("target", LABELS, indirect=True)
every_compiler = pytest.mark.parametrize("target", [p for p in LABELS if p.values != ("null",)], indirect=True)
every_child = pytest.mark.parametrize(
    "native", [p for p in LABELS if p.values not in {("null",), (OPT,)}], indirect=True
)
every_enzyme = pytest.mark.parametrize(
    "target", [pytest.param(label, marks=pytest.mark.enzyme) for label in ENZYME], indirect=True
)


def test_the_listing_finds_every_scheme():
    assert {label.partition("@")[0] for label in known_labels()} == {"enzyme-ad", "mlir", "null"}


@pytest.mark.parametrize(
    "label", ["", "gcc", "enzyme", "mlir@3", "null:x", "opt", "opt:", "opt:/nowhere/opt", "enzyme-ad@x"]
)
def test_an_unknown_label_is_a_usage_error(label):
    with pytest.raises(UsageError):
        open_target(label)


@every_target
def test_a_target_says_what_it_is(target):
    assert target.availability().usable
    assert target.availability().version
    assert open_target(target.label).label == target.label


@every_target
def test_good_text_comes_back_as_generic_text_with_its_entry(target):
    result = target.lower(GOOD, Pipeline(text="canonicalize,cse"))
    assert result.failure is None
    assert result.artifact is not None
    module = read_module(result.artifact.text)
    functions = [op for op in module.walk() if op.name == "func.func"]
    assert [f.get("sym_name") for f in functions] == ['"k"']
    assert functions[0].get("sym_visibility") is None
    assert "loc(" not in result.artifact.text


@every_compiler
def test_the_pipeline_is_run(target):
    result = target.lower(GOOD, Pipeline(text="canonicalize"))
    assert result.artifact is not None
    assert "arith.addf" not in result.artifact.text


@every_target
def test_a_function_called_main_keeps_its_name_and_visibility(target):
    result = target.lower(GOOD.replace('"k"', '"main"'), Pipeline(text="symbol-dce"))
    assert result.artifact is not None
    functions = [op for op in read_module(result.artifact.text).walk() if op.name == "func.func"]
    assert [f.get("sym_name") for f in functions] == ['"main"']
    assert functions[0].get("sym_visibility") is None


@every_target
@pytest.mark.parametrize("pipeline", ["", "symbol-dce,canonicalize"])
def test_an_empty_module_stays_one(target, pipeline):
    result = target.lower('"builtin.module"() ({\n^bb0:\n}) : () -> ()\n', Pipeline(text=pipeline))
    assert result.artifact is not None
    assert [op.name for op in read_module(result.artifact.text).walk()] == ["builtin.module"]


@every_target
def test_what_a_target_prints_it_reads_again(target):
    first = target.lower(GOOD, Pipeline(text="cse"))
    assert first.artifact is not None
    second = target.lower(first.artifact.text, Pipeline(text="cse"))
    assert second.artifact is not None
    assert second.artifact.text == first.artifact.text
    assert target.verify(first.artifact.text) is None


@every_target
def test_stages_are_the_text_after_each_element(target):
    elements = "cse,func.func(canonicalize),symbol-dce"
    result = target.lower(GOOD, Pipeline(text=elements), stages=True)
    assert result.artifact is not None
    assert [stage.after for stage in result.stages] == list(pipelines.split(elements))
    assert result.artifact.stages == result.stages
    assert result.stages[-1].text == result.artifact.text
    if target.label != "null":
        assert ["arith.addf" in stage.text for stage in result.stages] == [True, False, False]


@every_compiler
def test_pretty_text_goes_in_and_out(target):
    generic = target.to_generic(PRETTY)
    assert generic.artifact is not None
    assert '"memref.store"' in generic.artifact.text
    assert "memref.store %" in target.print_pretty(generic.artifact.text)


@every_target
@pytest.mark.parametrize("text", ["", "hello", "module {", '"builtin.module"() ({', '"a.b"(%0) : (i32) -> ()'])
def test_text_that_does_not_parse_is_refused_or_a_module(target, text):
    result = target.lower(text, Pipeline(text="cse"))
    if text == "":  # an empty file is an empty module to MLIR
        assert result.artifact is not None or result.failure is not None
        return
    assert result.failure is not None
    assert result.failure.kind in (FailureKind.REFUSED_INPUT, FailureKind.SPELLING)
    assert result.failure.diagnostic
    assert target.verify(text) is not None


@every_compiler
def test_invalid_ir_in_the_input_is_refused_with_its_line(target):
    result = target.lower(GOOD.replace('-> f32\n    "memref', '-> f64\n    "memref'), Pipeline(text="cse"))
    assert result.failure is not None
    assert result.failure.kind is FailureKind.REFUSED_INPUT
    assert result.failure.pass_name is None
    assert "5:" in result.failure.diagnostic or "6:" in result.failure.diagnostic


@every_compiler
@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("no-such-pass", "no-such-pass"),
        ("cse,no-such-pass", "no-such-pass"),
        ("canonicalize{no-such-option=1}", "no-such-option"),
        ("func.func(affine-loop-unroll{unroll-factor=x})", "unroll-factor"),
        ("gpu-map-parallel-loops", "GpuMapParallelLoopsPass"),
    ],
)
def test_a_bad_pipeline_is_told_from_a_failing_pass(target, text, word):
    result = target.lower(GOOD, Pipeline(text=text))
    assert result.failure is not None
    assert result.failure.kind is FailureKind.BAD_PIPELINE
    assert word in result.failure.diagnostic


@every_compiler
def test_a_crash_names_its_pass_and_frames_and_costs_nothing_else(target):
    result = target.lower(failing("tile_by_zero"), TILE)
    assert result.failure is not None
    assert result.failure.kind is FailureKind.CRASH
    assert result.failure.signal == signal.SIGFPE
    assert result.failure.pass_name == "affine-loop-tile"
    signature = of_failure(result.failure)
    assert signature.key.startswith("crash | affine-loop-tile | mlir::affine::tilePerfectlyNested")
    assert "0x" not in signature.key
    assert target.lower(GOOD, Pipeline(text="cse")).artifact is not None


@every_compiler
def test_a_crash_has_the_same_signature_every_time(target):
    found = {of_failure(target.lower(failing("tile_by_zero"), TILE).failure).key for _ in range(3)}
    assert len(found) == 1


@every_compiler
def test_stages_before_a_crash_are_kept(target):
    result = target.lower(failing("tile_by_zero"), TILE, stages=True)
    assert result.failure is not None
    assert [stage.after for stage in result.stages] == ["cse"]


@every_compiler
def test_a_hang_is_ended_and_blamed_on_its_pass(target):
    started = time.monotonic()
    result = target.lower(failing("unroll_forever"), UNROLL, timeout=0.5)
    assert result.failure is not None
    assert result.failure.kind is FailureKind.HANG
    assert result.failure.pass_name == "affine-loop-unroll"
    assert of_failure(result.failure).key == "hang | affine-loop-unroll"
    assert time.monotonic() - started < 60
    assert target.lower(GOOD, Pipeline(text="cse")).artifact is not None


@every_compiler
def test_invalid_ir_left_by_a_pass_is_told_from_its_own_diagnostics(target):
    text = failing("null_operand")
    result = target.lower(text, Pipeline(text="cse,remove-dead-values{canonicalize=false},cse"))
    assert result.failure is not None
    assert (result.failure.kind, result.failure.pass_name) == (FailureKind.INVALID_IR, "remove-dead-values")


@every_child
def test_a_stack_overflow_is_a_resource_and_not_a_crash(native):
    depth = 20_000
    text = "func.func @k(%c: i1) {\n" + "scf.if %c {\n" * depth + "}\n" * depth + "return }\n"
    result = native.to_generic(text)
    assert result.failure is not None
    assert result.failure.kind is FailureKind.STACK_OVERFLOW


@every_child
def test_a_child_answers_two_hundred_cases_without_growing(native):
    assert native.lower(GOOD, Pipeline(text="canonicalize")).artifact is not None
    native.sandbox.retire()
    native.lower(GOOD, Pipeline(text="canonicalize"))
    pid = native.sandbox.child_pid
    before = resident_kib(pid)
    for number in range(198):
        text = GOOD.replace("1.000000e+00", f"{number}.000000e+00")
        assert native.lower(text, Pipeline(text="canonicalize")).artifact is not None
    assert native.sandbox.child_pid == pid
    assert resident_kib(pid) - before < 40_000
    native.lower(GOOD, Pipeline(text="canonicalize"))
    native.lower(GOOD, Pipeline(text="canonicalize"))
    assert native.sandbox.child_pid != pid


def resident_kib(pid):
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0])


@every_child
def test_a_child_killed_in_the_middle_of_a_case_costs_that_case_only(native):
    native.lower(GOOD, Pipeline(text="cse"))
    with subprocess.Popen(["sh", "-c", f"sleep 0.3; kill -9 {native.sandbox.child_pid}"]):
        result = native.lower(failing("unroll_forever"), Pipeline(text=UNROLL.text), timeout=3.0)
    assert result.failure is not None
    assert result.failure.kind is FailureKind.MEMORY
    assert "killed from outside" in result.failure.diagnostic
    assert native.lower(GOOD, Pipeline(text="cse")).artifact is not None


@every_child
def test_closing_leaves_no_process(native):
    native.lower(GOOD, Pipeline(text="cse"))
    pids = [native.sandbox.child_pid, native.sandbox.zygote_pid]
    native.close()
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)
    assert native.lower(GOOD, Pipeline(text="cse")).artifact is not None


@every_compiler
def test_every_named_pipeline_is_accepted(target):
    for name in pipelines.available(target.label):
        result = target.lower(GOOD, pipelines.resolve(name, target.label))
        assert result.failure is None, (name, result.failure)


# --- the documented failures of enzyme-ad -------------------------------------------------------------------


def outcome(target, name, pipeline):
    result = target.lower(failing(name), pipelines.resolve(pipeline, target.label))
    return None if result.failure is None else (result.failure.kind, result.failure.pass_name)


@every_enzyme
def test_the_first_documented_case_fails_before_0_0_16(target):
    found = outcome(target, "six_dimensions", "canonicalize,convert-parallel-to-gpu1")
    fails = (FailureKind.PASS_FAILURE, "convert-parallel-to-gpu1")
    assert found == (None if target.label == "enzyme-ad@0.0.16" else fails)
    assert outcome(target, "six_dimensions", "convert-parallel-to-gpu1") is None


@every_enzyme
def test_a_crash_deep_in_the_production_pipeline_is_blamed_on_its_pass(target):
    assert outcome(target, "atomic_max", "enzyme-cuda") == (FailureKind.CRASH, "convert-polygeist-to-llvm")


@every_enzyme
def test_a_use_that_is_not_dominated_is_invalid_ir(target):
    found = outcome(target, "dominance", "lower-affine,convert-parallel-to-gpu1")
    assert found == (FailureKind.INVALID_IR, "convert-parallel-to-gpu1")


@every_enzyme
def test_the_environment_is_part_of_a_pipeline_and_does_not_stay(target):
    text = (DATA / "one_kernel.mlir").read_text()
    named = pipelines.resolve("enzyme-cuda", target.label)
    merged = f"canonicalize,{named.text}"
    without = target.lower(text, Pipeline(text=merged))
    with_size = target.lower(text, Pipeline(text=merged, env=named.env))
    again = target.lower(text, Pipeline(text=merged))
    assert with_size.artifact is not None
    assert ".entry" in with_size.artifact.text
    assert without.failure is not None
    assert again.failure is not None
    assert without.failure.diagnostic == again.failure.diagnostic


@every_enzyme
def test_addresses_and_times_do_not_show_in_the_result(target):
    text = (DATA / "shared_memory.mlir").read_text()
    pipeline = pipelines.resolve("enzyme-cuda", target.label)
    results = [target.lower(text, pipeline) for _ in range(2)]
    texts = [r.artifact.text for r in results if r.artifact is not None]
    assert len(texts) == 2
    assert "shared_mem_0" in texts[0]
    assert texts[0] == texts[1]


@every_enzyme
def test_a_loop_outside_a_wrapper_promises_no_kernel(target):
    text = (DATA / "one_kernel.mlir").read_text()
    bare = "\n".join(line for line in text.splitlines() if "polygeist_yield" not in line)
    bare = re.sub(r'%\d+ = "enzymexla.gpu_wrapper"\([^()]*\) \(\{', '"scf.execute_region"() ({', bare)
    bare = bare.replace(
        "}) : (index, index, index, index, index, index) -> index", '"scf.yield"() : () -> ()\n}) : () -> ()'
    )
    result = target.lower(bare, pipelines.resolve("enzyme-cuda", target.label))
    assert result.failure is None
    assert result.artifact is not None
    assert ".entry" not in result.artifact.text

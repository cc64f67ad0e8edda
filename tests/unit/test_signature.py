import pytest

from difftest.model import CompileFailure, FailureKind, Frame, Signature
from difftest.signature import compiler_frames, normalise_diagnostic, of_failure, same_failure, unstable


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("12:11: operand #0 does not dominate this use", 'loc("-":3:1): error: operand #2 does not dominate this use'),
        (
            "'memref.load' op expected 2 indices, got memref<?x4xf32, strided<[4, 1], offset: ?>>",
            "'memref.load' op expected 3 indices, got memref<8xi64>",
        ),
        ("redefinition of symbol named @foo_12", 'redefinition of symbol named @"bar"'),
        ("value %12#1 is used", "value %arg0 is used"),
        (
            "failed to legalize operation 'gpu.x' that was explicitly marked illegal: %3 = \"gpu.x\"(%1) : i32",
            "1:2: failed to legalize operation 'gpu.x' that was explicitly marked illegal: %0:2 = \"gpu.x\"() {a = 1}",
        ),
        ("<unknown>:0: error: no rule for f32", "/tmp/x.mlir:1:2: error: no rule for i64"),
    ],
)
def test_diagnostics_of_one_bug_are_one_text(first, second):
    assert normalise_diagnostic(first) == normalise_diagnostic(second)


def test_op_names_stay():
    first = normalise_diagnostic("failed to legalize operation 'memref.atomic_rmw' that was explicitly marked illegal")
    assert "'memref.atomic_rmw'" in first
    assert first != normalise_diagnostic("failed to legalize operation 'gpu.func' that was explicitly marked illegal")


def test_the_first_line_counts_and_op_dumps_do_not():
    assert normalise_diagnostic("see current operation: x\nboom 7\nmore") == "boom N"
    assert normalise_diagnostic("") == ""


def _frames(*rows):
    return tuple(Frame(symbol=s, module=m) for s, m in rows)


def test_frames_of_the_system_and_of_dying_are_skipped():
    frames = _frames(
        ("raise", "libc.so.6"),
        ("abort", "libc.so.6"),
        ("llvm::report_fatal_error", "enzyme_call.so"),
        ("std::_Function_handler::_M_invoke", "enzyme_call.so"),
        ("mlir::A", "enzyme_call.so"),
        ("mlir::A", "enzyme_call.so"),
        ("mlir::B", "enzyme_call.so"),
        ("mlir::C", "enzyme_call.so"),
        ("mlir::D", "enzyme_call.so"),
    )
    assert compiler_frames(frames) == ("mlir::A", "mlir::B", "mlir::C")


def test_a_crash_is_its_pass_and_frames_and_never_its_signal_or_address():
    one = CompileFailure(
        kind=FailureKind.CRASH, pass_name="p", frames=_frames(("a::b", "x.so")), signal=11, stderr="0x1"
    )
    two = CompileFailure(
        kind=FailureKind.CRASH, pass_name="p", frames=_frames(("a::b", "y.so")), signal=7, stderr="0x2"
    )
    assert of_failure(one) == of_failure(two)
    assert of_failure(one).key == "crash | p | a::b"


def test_a_crash_without_frames_falls_back_to_its_signal():
    assert of_failure(CompileFailure(kind=FailureKind.CRASH, signal=11)).detail == ("signal 11",)


def test_a_fatal_message_is_part_of_a_crash():
    failure = CompileFailure(kind=FailureKind.CRASH, diagnostic="LLVM ERROR: Cannot select: t7: f64 = fsin t4")
    assert "Cannot select" in of_failure(failure).key


def test_a_hang_is_its_pass_alone():
    failure = CompileFailure(
        kind=FailureKind.HANG, pass_name="p", diagnostic="no end after 3 s", frames=_frames(("a", "b"))
    )
    assert of_failure(failure).key == "hang | p"


def test_a_silent_failure_is_its_pass_alone():
    assert of_failure(CompileFailure(kind=FailureKind.PASS_FAILURE, pass_name="p")).key == "pass-failure | p"


def test_a_death_in_varying_places_is_one_failure():
    wanted = unstable([death("crash", None, "a"), death("crash", "enzyme", "b")])
    assert wanted is not None and wanted.pass_name == "enzyme"
    assert same_failure(wanted, death("hang", None))
    assert same_failure(wanted, death("crash", "enzyme", "c"))
    assert not same_failure(wanted, death("crash", "canonicalize"))
    assert not same_failure(wanted, death("pass-failure", "enzyme"))
    assert unstable([death("crash", None), death("pass-failure", None)]) is None


def test_a_stable_failure_is_the_same_only_when_equal():
    wanted = death("crash", "enzyme", "a")
    assert same_failure(wanted, death("crash", "enzyme", "a"))
    assert not same_failure(wanted, death("crash", "enzyme", "b"))


def death(kind, pass_name, *detail):
    return Signature(kind=kind, pass_name=pass_name, detail=detail)

"""The external target against scripts that behave like an opt in every bad way."""

import signal
import sys
import textwrap

import pytest

from difftest.model import FailureKind, Frame, Pipeline
from difftest.signature import of_failure
from difftest.targets import open_target
from difftest.targets.external import parse_frames

MODULE = '"builtin.module"() ({\n^bb0:\n}) : () -> ()\n'
SYMBOLIZED = """PLEASE submit a bug report
Stack dump:
0.	Program arguments: mlir-opt x
 #0 0x00007f7de5ab8786 llvm::sys::PrintStackTrace(llvm::raw_ostream&, int) (/lib/libLLVM.so.22.1+0x4eb8786)
 #1 0x00007f7de5ab5fd3 llvm::sys::RunSignalHandlers() (/lib/libLLVM.so.22.1+0x4eb5fd3)
 #2 0x00007f7de5ab94f4 (/nowhere/libLLVM.so.22.1+0x4eb94f4)
 #3 0x00007f7de0a5a050 (/nowhere/libc.so.6+0x3c050)
 #4 0x00007f7dec9ea50f mlir::affine::unroll(mlir::affine::AffineForOp, unsigned long) (/x/libMLIR.so.22.1+0x2dea50f)
 #5 0x00007f7defd8f937 mlir::detail::OpToOpPassAdaptor::run(mlir::Pass*) (/x/libMLIR.so.22.1+0x618f937)
"""
BARE = """Stack dump without symbol names (ensure you have llvm-symbolizer in your PATH):
0  libLLVM.so.22.1 0x00007ff70b2b8786 llvm::sys::PrintStackTrace(llvm::raw_ostream&, int) + 54
1  libLLVM.so.22.1 0x00007ff70b2b94f4
2  libc.so.6       0x00007ff70625a050
3  libMLIR.so.22.1 0x00007ff7121e6d9d mlir::affine::unroll(llvm::MutableArrayRef<mlir::affine::AffineForOp>) + 2077
4  libMLIR.so.22.1 0x00007ff7121c33e9
"""
SANITIZER = """==7==ERROR: AddressSanitizer: heap-use-after-free on address 0x60300000 at pc 0x55 bp 0x7f sp 0x7f
READ of size 8 at 0x60300000 thread T0
    #0 0x55d0 in mlir::Value::getType() const /src/mlir/Value.h:12:3
    #1 0x55d1 in mlir::fold(mlir::Operation*) (/x/mlir-opt+0x55d1) (BuildId: abcdef)

0x60300000 is located 0 bytes inside of 8-byte region
freed by thread T0 here:
    #0 0x55d0 in free (/x/mlir-opt+0x1)
"""


def test_a_symbolized_stack_dump_is_read():
    assert parse_frames(SYMBOLIZED) == (
        Frame(symbol="mlir::affine::unroll", module="libMLIR.so.22.1"),
        Frame(symbol="mlir::detail::OpToOpPassAdaptor::run", module="libMLIR.so.22.1"),
    )


def test_a_stack_dump_without_a_symbolizer_is_read():
    assert parse_frames(BARE) == (
        Frame(symbol="mlir::affine::unroll", module="libMLIR.so.22.1"),
        Frame(symbol="?", module="libMLIR.so.22.1"),
    )


def test_a_sanitizer_report_is_read_up_to_where_memory_was_freed():
    assert [f.symbol for f in parse_frames(SANITIZER)] == ["mlir::Value::getType", "mlir::fold"]


def test_text_without_frames_has_none():
    assert parse_frames("error: #0 is odd\n") == ()


@pytest.fixture
def fake(tmp_path):
    """Make an executable that runs the given Python body with `pipeline` and `text` at hand."""

    def make(body):
        path = tmp_path / "fake-opt"
        prologue = "import sys, os, time\npipeline = sys.argv[1].split('=', 1)[1]\ntext = sys.stdin.read()\n"
        path.write_text(f"#!{sys.executable}\n{prologue}{textwrap.dedent(body)}\n")
        path.chmod(0o755)
        return open_target(f"opt:{path}")

    return make


def lower(target, text="a,b,c", **more):
    return target.lower(MODULE, Pipeline(text=text), **more)


def test_good_output_is_an_artifact(fake):
    result = lower(fake("print(text)"), stages=True)
    assert result.artifact is not None
    assert [s.after for s in result.stages] == ["a", "b", "c"]


def test_the_environment_reaches_the_program(fake):
    target = fake("assert pipeline == 'builtin.module()' or os.environ['A'] == '1'; print(text)")
    assert target.lower(MODULE, Pipeline(text="a", env={"A": "1"})).failure is None


def test_an_abort_in_one_pass_is_bisected_to_it(fake):
    target = fake(f"""
        if ',b' in pipeline:
            sys.stderr.write({SYMBOLIZED!r}); sys.stderr.flush(); os.abort()
        print(text)""")
    failure = lower(target, "x,a,b,c").failure
    assert failure is not None
    assert (failure.kind, failure.pass_name, failure.signal) == (FailureKind.CRASH, "b", signal.SIGABRT)
    assert of_failure(failure).key.startswith("crash | b | mlir::affine::unroll")


def test_a_sanitizer_report_is_a_crash_whatever_the_exit_code(fake):
    target = fake(f"""
        if 'b' in pipeline.replace('builtin', ''):
            sys.stderr.write({SANITIZER!r}); sys.exit(1)
        print(text)""")
    failure = lower(target).failure
    assert failure is not None
    assert (failure.kind, failure.pass_name) == (FailureKind.CRASH, "b")
    assert "AddressSanitizer: heap-use-after-free" in failure.diagnostic


def test_an_assertion_is_part_of_the_signature(fake):
    target = fake("""
        if 'b' in pipeline.replace('builtin', ''):
            sys.stderr.write("x.cpp:12: void f(): Assertion `a < 4' failed.\\n"); sys.stderr.flush(); os.abort()
        print(text)""")
    failure = lower(target).failure
    assert failure is not None
    assert "Assertion `a < N' failed" in of_failure(failure).key


def test_a_wrapper_script_that_reports_a_signal_as_128_and_more(fake):
    failure = lower(fake("sys.exit(139 if 'b' in pipeline.replace('builtin', '') else print(text))")).failure
    assert failure is not None
    assert (failure.kind, failure.signal, failure.pass_name) == (FailureKind.CRASH, signal.SIGSEGV, "b")


def test_a_program_that_never_ends(fake):
    failure = lower(fake("while 'b' in pipeline.replace('builtin', ''): pass\nprint(text)"), timeout=0.5).failure
    assert failure is not None
    assert (failure.kind, failure.pass_name) == (FailureKind.HANG, "b")


def test_a_program_that_waits(fake):
    failure = lower(fake("'b' in pipeline.replace('builtin', '') and time.sleep(99)\nprint(text)"), timeout=0.2).failure
    assert failure is not None
    assert failure.kind is FailureKind.HANG


def test_an_error_on_stderr_is_not_believed_away(fake):
    target = fake("""
        if pipeline != 'builtin.module()': sys.stderr.write('-:1:1: error: odd\\n')
        print(text)""")
    failure = lower(target).failure
    assert failure is not None
    assert (failure.kind, failure.diagnostic) == (FailureKind.PASS_FAILURE, "1:1: odd")


def test_output_that_the_program_itself_refuses_is_invalid_ir(fake):
    target = fake("""
        if text.startswith('!'): sys.stderr.write('-:1:1: error: odd\\n'); sys.exit(1)
        print(text if pipeline == 'builtin.module()' else '!')""")
    failure = lower(target).failure
    assert failure is not None
    assert failure.kind is FailureKind.INVALID_IR


def test_a_refusal_of_the_input_is_told_from_a_failing_pass(fake):
    target = fake("sys.stderr.write('-:3:1: error: expected something\\n'); sys.exit(1)")
    failure = lower(target).failure
    assert failure is not None
    assert (failure.kind, failure.pass_name) == (FailureKind.REFUSED_INPUT, None)


def test_a_program_that_is_no_program_is_said(tmp_path):
    path = tmp_path / "text"
    path.write_text("hello")
    target = open_target(f"opt:{path}")
    assert not target.availability().usable
    assert "not an executable" in target.availability().reason

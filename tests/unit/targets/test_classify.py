import signal

import pytest

from difftest.errors import ReadError
from difftest.ir.spelling import SpellingError
from difftest.model import FailureKind
from difftest.targets import classify
from difftest.targets.protocol import CrashRecord, Reply


def reply(**more):
    return Reply(**{"answer": None, "output": "", "stderr": "", **more})


def answered(stderr="", **answer):
    made = reply(answer=answer, stderr=stderr)
    return classify.of_answer(made, answer)


def test_success_is_believed_without_errors_only():
    assert answered(ok=True) is None
    assert answered("Emitting kernel with 64 threads\nFailed to make kernel with exact dimension\n", ok=True) is None
    failure = answered('loc("-":3:5): error: no libcall available for fmul\n', ok=True)
    assert failure is not None
    assert (failure.kind, failure.diagnostic) == (
        FailureKind.PASS_FAILURE,
        "3:5: no libcall available for fmul",
    )


PARSE = "INVALID_ARGUMENT: Failed to parse module"
FAILED = "INTERNAL: Failed to parse pipeline\nPipeline failed:\n"
UNKNOWN = (
    "INVALID_ARGUMENT: Failed to parse pipeline\n"
    "MLIR Textual PassPipeline Parser:1:1: error: 'x' does not refer to a registered pass"
)


@pytest.mark.parametrize(
    ("error", "stderr", "kind", "diagnostic"),
    [
        (PARSE, 'loc("-":1:10): error: expected X', "refused-input", "1:10: expected X"),
        (
            PARSE,
            "loc(\"-\":1:10): error: 'a.b' is unknown (tried",
            "unsupported-spelling",
            "1:10: 'a.b' is unknown (tried",
        ),
        (UNKNOWN, "", "bad-pipeline", "'x' does not refer to a registered pass"),
        (FAILED, "", "pass-failure", ""),
        (FAILED, 'loc("-":9:1): error: could not compute', "pass-failure", "9:1: could not compute"),
        (FAILED, 'loc("-":9:1): error: null operand found', "invalid-ir", "9:1: null operand found"),
    ],
)
def test_enzymes_answers_become_failures(error, stderr, kind, diagnostic):
    failure = answered(stderr, ok=False, step="pipeline", type="ValueError", error=error)
    assert failure is not None
    assert (failure.kind.value, failure.diagnostic) == (kind, diagnostic)


@pytest.mark.parametrize(
    ("answer", "stderr", "kind", "diagnostic"),
    [
        ({"step": "pipeline", "type": "MemoryError", "error": "std::bad_alloc"}, "", "memory-limit", "std::bad_alloc"),
        ({"step": "verify", "error": "x"}, "-:2:1: error: bad", "invalid-ir", "2:1: bad"),
        ({"step": "parse", "error": "x", "diagnostics": [['loc("-":4:2)', "odd"]]}, "", "refused-input", "4:2: odd"),
    ],
)
def test_answers_become_failures(answer, stderr, kind, diagnostic):
    failure = answered(stderr, ok=False, **answer)
    assert failure is not None
    assert (failure.kind.value, failure.diagnostic) == (kind, diagnostic)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("operand #0 does not dominate this use", FailureKind.INVALID_IR),
        ("'affine.for' op requires attribute 'step'", FailureKind.INVALID_IR),
        ("'arith.extui' op operand type 'i64' and result type 'i64' are cast incompatible", FailureKind.INVALID_IR),
        ("failed to legalize operation 'a.b' that was explicitly marked illegal", FailureKind.PASS_FAILURE),
        ("op requires something that is not supported", FailureKind.PASS_FAILURE),
        ("could not compute the adjoint for this operation", FailureKind.PASS_FAILURE),
        ("", FailureKind.PASS_FAILURE),
    ],
)
def test_the_verifiers_words_are_told_from_a_passs(text, kind):
    assert classify.pipeline_kind(text) is kind


@pytest.mark.parametrize(
    ("made", "kind"),
    [
        (reply(signal=int(signal.SIGSEGV), crash=CrashRecord(signal=11, sp=1 << 40, address=0)), FailureKind.CRASH),
        (reply(signal=11, crash=CrashRecord(signal=11, sp=1 << 40, address=1 << 40)), FailureKind.STACK_OVERFLOW),
        (reply(signal=int(signal.SIGPROF), timed_out=True), FailureKind.HANG),
        (reply(signal=int(signal.SIGKILL), timed_out=True), FailureKind.HANG),
        (reply(signal=int(signal.SIGKILL)), FailureKind.MEMORY),
        (reply(signal=int(signal.SIGXFSZ)), FailureKind.MEMORY),
        (reply(signal=int(signal.SIGABRT), stderr="LLVM ERROR: out of memory\n"), FailureKind.MEMORY),
        (reply(exit_code=3), FailureKind.CRASH),
    ],
)  # fmt: skip
def test_deaths_become_failures(made, kind):
    assert classify.of_death(made, ()).kind is kind


def test_the_fatal_line_is_the_diagnostic_of_a_crash():
    made = reply(signal=6, stderr="noise\nx.cpp:7: f(): Assertion `a == b' failed.\nStack dump:\n")
    assert "Assertion `a == b' failed" in classify.of_death(made, ()).diagnostic
    assert "exit code 3" in classify.of_death(reply(exit_code=3), ()).diagnostic


def test_our_own_refusals_are_failures_too():
    assert classify.of_unreadable(SpellingError("a.b", "no")).kind is FailureKind.SPELLING
    assert classify.of_unreadable(ReadError("no", line=1, column=2)).kind is FailureKind.REFUSED_INPUT

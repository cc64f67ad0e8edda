import pytest

from difftest.model import FailureKind, Pipeline
from difftest.targets.native import NativeTarget, normalise
from difftest.targets.protocol import Reply

MODULE = '"builtin.module"() ({\n^bb0:\n}) : () -> ()\n'


def test_normalising_removes_what_differs_between_runs():
    text = (
        "#loc1 = loc(unknown)\n"
        '%0 = "a.b"() : () -> i32 loc(#loc1)\n'
        '"c.d"() {sym_name = "shared_mem_94737"} : () -> () loc("f.mlir":3:4)\n'
        '"e.f"() {a = @shared_mem_5, b = @shared_mem_94737, ISAToBinaryTimeInMs = 17 : i64} : () -> ()'
    )
    assert normalise(text) == (
        '%0 = "a.b"() : () -> i32\n'
        '"c.d"() {sym_name = "shared_mem_0"} : () -> ()\n'
        '"e.f"() {a = @shared_mem_1, b = @shared_mem_0, ISAToBinaryTimeInMs = 0 : i64} : () -> ()'
    )


class Scripted:
    """A sandbox whose compiler fails at one element in a given way."""

    def __init__(self, *, bad, prints_before_failing=False, **reply):
        self.bad = bad
        self.late = prints_before_failing
        self.reply = reply
        self.calls = []
        self.maps = ()

    def call(self, request, *, timeout, stages=0):
        del timeout
        elements = request["elements"]
        self.calls.append(elements)
        at = next((i for i, e in enumerate(elements) if self.bad in e), None)
        if at is None:
            return Reply(answer={"ok": True}, output=MODULE, stderr="", stages=(MODULE,) * stages)
        done = len(elements) if self.late else at
        printed = (MODULE,) * min(done, stages) + ("",) * max(0, stages - done)
        return Reply(**{"answer": None, "output": "", "stderr": "", "stages": printed, **self.reply})

    def close(self):
        pass


def target(monkeypatch, sandbox):
    made = NativeTarget("enzyme-ad@0.0.15", lambda: pytest.fail("no worker is needed"))
    monkeypatch.setattr(made, "_sandbox", sandbox)
    return made


def test_the_first_missing_print_names_the_pass_inside_a_nest(monkeypatch):
    answer = {"ok": False, "step": "pipeline", "error": "Pipeline failed:\n"}
    made = target(monkeypatch, Scripted(bad="bad", answer=answer))
    failure = made.lower(MODULE, Pipeline(text="a,func.func(b,bad{x=1},c),d")).failure
    assert failure is not None
    assert (failure.kind, failure.pass_name) == (FailureKind.PASS_FAILURE, "bad")


def test_an_error_under_a_reported_success_is_bisected_to_its_pass(monkeypatch):
    scripted = Scripted(bad="bad", prints_before_failing=True, answer={"ok": True}, stderr="-:1:1: error: odd\n")
    failure = target(monkeypatch, scripted).lower(MODULE, Pipeline(text="a,b,c,bad,d,e,f")).failure
    assert failure is not None
    assert (failure.kind, failure.pass_name, failure.diagnostic) == (FailureKind.PASS_FAILURE, "bad", "1:1: odd")


def test_a_failure_that_does_not_come_again_is_blamed_on_nothing(monkeypatch):
    class Once(Scripted):
        def call(self, request, *, timeout, stages=0):
            self.bad = "bad" if not self.calls else "never"
            return super().call(request, timeout=timeout, stages=stages)

    failure = target(monkeypatch, Once(bad="bad", signal=11)).lower(MODULE, Pipeline(text="a,bad")).failure
    assert failure is not None
    assert (failure.kind, failure.pass_name) == (FailureKind.CRASH, None)


def test_a_bad_pipeline_and_a_refused_input_are_nobodys_fault(monkeypatch):
    for error in ("Failed to parse module", "Textual PassPipeline Parser:1:1: error: no"):
        scripted = Scripted(bad="bad", answer={"ok": False, "step": "pipeline", "error": error})
        failure = target(monkeypatch, scripted).lower(MODULE, Pipeline(text="bad")).failure
        assert failure is not None
        assert failure.pass_name is None
        assert len(scripted.calls) == 1


def test_text_the_toolchain_cannot_express_never_reaches_it(monkeypatch):
    scripted = Scripted(bad="bad", signal=11)
    text = '"builtin.module"() ({\n %0 = "index.constant"() <{value = 0 : index}> : () -> index\n}) : () -> ()\n'
    failure = target(monkeypatch, scripted).lower(text, Pipeline(text="bad")).failure
    assert failure is not None
    assert failure.kind is FailureKind.SPELLING
    assert scripted.calls == []

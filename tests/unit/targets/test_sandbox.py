"""The sandbox itself, attacked with handlers of ours that die in every way a compiler does. Needs no toolchain."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from difftest.errors import ToolchainError
from difftest.targets.protocol import WorkerSpec
from difftest.targets.sandbox import Sandbox

HANDLER = """
import ctypes, os, signal, sys, time

def handle(request):
    what = request["what"]
    sys.stderr.write(request.get("say", "")); sys.stderr.flush()
    if what == "echo":
        return request["value"]
    if what == "env":
        return os.environ.get("SANDBOX_TEST")
    if what == "pid":
        return os.getpid()
    if what == "segv":
        ctypes.string_at(16)
    if what == "abort":
        os.abort()
    if what == "exit":
        os._exit(7)
    if what == "raise":
        raise ValueError("boom")
    if what == "spin":
        while True: pass
    if what == "sleep":
        time.sleep(1000)
    if what == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if what == "grow":
        return len(b"x" * (request["mib"] << 20))
    if what == "stdin":
        return sys.stdin.read() if sys.stdin else ""
"""


@pytest.fixture(scope="module")
def handler(tmp_path_factory):
    folder = tmp_path_factory.mktemp("handler")
    (folder / "sandbox_handler.py").write_text(textwrap.dedent(HANDLER))
    return folder


@pytest.fixture
def sandbox(handler):
    made = Sandbox(spec(handler))
    yield made
    made.close()


def spec(handler, **options):
    return WorkerSpec(kind="python", library="sandbox_handler:handle", env={"PYTHONPATH": str(handler)}, **options)


def call(sandbox, what, timeout=20.0, **more):
    return sandbox.call({"what": what, **more}, timeout=timeout)


def value(reply):
    assert reply.answer is not None, reply
    return reply.answer["value"]


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def wait_gone(pids, seconds=10.0):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if not any(alive(p) for p in pids):
            return True
        time.sleep(0.02)
    return False


def test_a_request_is_answered(sandbox):
    assert value(call(sandbox, "echo", value="ü" * 300_000)) == "ü" * 300_000


def test_one_child_answers_many_requests_and_is_then_retired(handler):
    sandbox = Sandbox(spec(handler, retire_after=3))
    try:
        pids = [value(call(sandbox, "pid")) for _ in range(6)]
    finally:
        sandbox.close()
    assert pids[0] == pids[1] == pids[2]
    assert pids[3] == pids[4] == pids[5]
    assert pids[0] != pids[3]


def test_an_exception_is_an_answer(sandbox):
    reply = call(sandbox, "raise")
    assert reply.answer is not None
    assert reply.answer["ok"] is False
    assert reply.answer["error"] == "boom"


def test_a_segmentation_fault_has_its_signal_and_frames(sandbox):
    reply = call(sandbox, "segv", say="last words")
    assert reply.answer is None
    assert reply.signal == signal.SIGSEGV
    assert reply.stderr == "last words"
    assert reply.crash is not None
    assert reply.crash.address == 16
    assert len(reply.crash.frames) > 5
    assert not reply.crash.is_stack_overflow
    assert not reply.timed_out
    assert value(call(sandbox, "echo", value=1)) == 1


def test_an_abort_has_its_signal_and_frames(sandbox):
    reply = call(sandbox, "abort")
    assert (reply.answer, reply.signal) == (None, signal.SIGABRT)
    assert reply.crash is not None


def test_leaving_is_reported(sandbox):
    reply = call(sandbox, "exit")
    assert (reply.answer, reply.signal, reply.exit_code) == (None, 0, 7)


def test_spinning_ends_after_the_processor_time_with_frames(sandbox):
    reply = call(sandbox, "spin", timeout=0.3)
    assert reply.answer is None
    assert reply.timed_out
    assert reply.signal == signal.SIGPROF
    assert reply.crash is not None


def test_waiting_ends_on_the_clock(sandbox):
    started = time.monotonic()
    reply = call(sandbox, "sleep", timeout=0.1)
    assert reply.timed_out
    assert reply.signal == signal.SIGALRM
    assert time.monotonic() - started < 8


def test_a_child_killed_from_outside_costs_its_case_only(sandbox):
    reply = call(sandbox, "kill")
    assert (reply.answer, reply.signal, reply.crash, reply.timed_out) == (None, signal.SIGKILL, None, False)
    assert value(call(sandbox, "echo", value=2)) == 2


def test_a_child_killed_between_cases_costs_nothing(sandbox):
    call(sandbox, "echo", value=0)
    for _ in range(3):
        os.kill(sandbox.child_pid, signal.SIGKILL)
        wait_for_zombie(sandbox.child_pid)
        assert value(call(sandbox, "echo", value=3)) == 3


def wait_for_zombie(pid):
    while "(zombie)" not in Path(f"/proc/{pid}/status").read_text():
        time.sleep(0.01)


def test_a_zygote_killed_between_cases_costs_nothing(sandbox):
    child = value(call(sandbox, "pid"))
    zygote = sandbox.zygote_pid
    os.kill(zygote, signal.SIGKILL)
    assert wait_gone([child])
    assert value(call(sandbox, "echo", value=4)) == 4
    assert sandbox.zygote_pid != zygote


def test_a_zygote_killed_during_a_case_is_reported_as_a_kill(sandbox):
    call(sandbox, "echo", value=0)
    with subprocess.Popen(["sh", "-c", f"sleep 0.3; kill -9 {sandbox.zygote_pid}"]):
        reply = call(sandbox, "spin", timeout=10)
    assert (reply.answer, reply.signal, reply.crash) == (None, signal.SIGKILL, None)
    assert value(call(sandbox, "echo", value=5)) == 5


def test_memory_is_limited(handler):
    sandbox = Sandbox(spec(handler, memory_kib=200 << 10))
    try:
        assert value(call(sandbox, "grow", mib=50)) == 50 << 20
        reply = call(sandbox, "grow", mib=400)
        assert reply.answer is not None
        assert reply.answer["type"] == "MemoryError"
    finally:
        sandbox.close()


def test_a_child_that_grew_is_retired(handler):
    sandbox = Sandbox(spec(handler, retire_rss_kib=1))
    try:
        assert value(call(sandbox, "pid")) != value(call(sandbox, "pid"))
    finally:
        sandbox.close()


def test_the_environment_is_set_for_one_case_and_restored(sandbox):
    assert value(call(sandbox, "env")) is None
    assert value(call(sandbox, "env", env={"SANDBOX_TEST": "64"})) == "64"
    assert value(call(sandbox, "env")) is None


def test_stderr_belongs_to_its_case_and_is_cut_in_the_middle(sandbox):
    assert call(sandbox, "echo", value=0, say="a" * 10).stderr == "a" * 10
    assert call(sandbox, "echo", value=0).stderr == ""
    long = call(sandbox, "echo", value=0, say="b" * 2_000_000).stderr
    assert len(long) < 300_000
    assert "left out" in long


def test_stdin_is_empty(sandbox):
    assert value(call(sandbox, "stdin")) == ""


def test_more_stage_files_than_one_message_can_carry(sandbox):
    reply = sandbox.call({"what": "echo", "value": 1}, timeout=20.0, stages=500)
    assert reply.stages == ("",) * 500
    assert value(reply) == 1


def test_close_leaves_no_process_and_the_sandbox_can_be_used_again(sandbox):
    pids = [value(call(sandbox, "pid")), sandbox.zygote_pid]
    sandbox.close()
    assert wait_gone(pids)
    again = value(call(sandbox, "pid"))
    assert again not in pids


def test_no_descriptor_is_leaked(sandbox):
    def descriptors():
        return len(list(Path("/proc/self/fd").iterdir()))

    call(sandbox, "segv")
    before = descriptors()
    for _ in range(5):
        call(sandbox, "segv")
        sandbox.call({"what": "echo", "value": 0}, timeout=5.0, stages=3)
        sandbox.retire()
    assert descriptors() == before


PARENT = """
import os, sys, time
from difftest.targets.protocol import WorkerSpec
from difftest.targets.sandbox import Sandbox
sandbox = Sandbox(WorkerSpec(kind="python", library="sandbox_handler:handle", env={"PYTHONPATH": sys.argv[1]}))
pid = sandbox.call({"what": "pid"}, timeout=5.0).answer["value"]
print(pid, sandbox.zygote_pid, flush=True)
if sys.argv[2] == "wait":
    time.sleep(100)
if sys.argv[2] == "busy":
    sandbox.call({"what": "spin"}, timeout=100.0)
"""


@pytest.mark.parametrize("how", ["exit", "wait", "busy"])
def test_no_process_outlives_its_parent(handler, how):
    parent = subprocess.Popen([sys.executable, "-c", PARENT, str(handler), how], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    pids = [int(x) for x in parent.stdout.readline().split()]
    assert len(pids) == 2
    if how != "exit":
        time.sleep(0.2)
        parent.kill()
    parent.wait(30)
    parent.stdout.close()
    assert wait_gone(pids)


def test_a_fork_of_the_user_gets_a_sandbox_of_its_own(sandbox):
    ours = value(call(sandbox, "pid"))
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        theirs = value(call(sandbox, "pid"))
        sandbox.close()
        os.write(write, str(theirs).encode())
        os._exit(0)
    os.waitpid(pid, 0)
    os.close(write)
    theirs = int(os.read(read, 100))
    os.close(read)
    assert theirs != ours
    assert value(call(sandbox, "pid")) == ours


def test_a_handler_that_does_not_load_is_one_sentence(handler):
    sandbox = Sandbox(WorkerSpec(kind="python", library="no_such_module:handle"))
    with pytest.raises(ToolchainError, match="no_such_module"):
        sandbox.start()
    sandbox.close()


def test_an_interpreter_that_does_not_start_is_one_sentence():
    sandbox = Sandbox(WorkerSpec(kind="python", python="/nowhere/python", library="x:y"))
    with pytest.raises(ToolchainError, match="cannot start /nowhere/python"):
        sandbox.start()

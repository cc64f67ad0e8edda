"""Parent side of the sandbox: zygotes, the children they fork, and requests that no crash can take the parent with.

A `Sandbox` owns one exec'd zygote (`difftest.targets.worker`) and at most one child of it. `call` answers a request
with what the child said, or with how it died; the next call simply gets a fresh child. It is used from one thread;
several processes each open their own. DESIGN §3, BINDINGS 4.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import json
import os
import select
import signal
import socket
import struct
import subprocess
import threading
import time
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from difftest.errors import HarnessError, ToolchainError
from difftest.targets.protocol import CrashRecord, Reply, Segment, WorkerSpec

WORKER = Path(__file__).with_name("worker.py")
START_TIMEOUT = 120.0
STDERR_LIMIT = 1 << 18
FD_BATCH = 240
# Seconds in which a child may sleep without using the processor before it is looked at twice.
ASLEEP = 1.5


class _Child:
    """A forked child: its process, its socket, and the memory files it writes."""

    __slots__ = ("cases", "crash", "output", "pid", "sock", "stderr")

    def __init__(self, *, pid: int, sock: socket.socket, stderr: int, crash: int, output: int) -> None:
        self.pid = pid
        self.sock = sock
        self.stderr = stderr
        self.crash = crash
        self.output = output
        self.cases = 0

    def close(self) -> None:
        self.sock.close()
        for descriptor in (self.stderr, self.crash, self.output):
            os.close(descriptor)


class Sandbox:
    """A zygote and its current child. Restarts either when it is gone; `close` leaves no process behind."""

    def __init__(self, spec: WorkerSpec) -> None:
        self.spec = spec
        self.maps: tuple[Segment, ...] = ()
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._child: _Child | None = None
        self._owner = os.getpid()
        _OPEN.add(self)

    # --- zygote ---------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the zygote unless it runs. Raises ToolchainError when its compiler cannot be loaded."""
        if self._owner != os.getpid():
            # A forked copy of us must not speak on its parent's sockets: it starts a zygote of its own.
            self._process = self._control = self._child = None
            self._owner = os.getpid()
        if self._process is not None and self._process.poll() is None:
            return
        self._drop_zygote()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        command = [self.spec.python, "-P", str(WORKER), "--kind", self.spec.kind]
        command += ["--library", self.spec.library, "--fd", str(theirs.fileno())]
        if threading.current_thread() is threading.main_thread():
            command += [
                "--parent",
                str(os.getpid()),
            ]  # the death signal follows the thread that forked, not the process
        env = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", **self.spec.env}
        with theirs:
            try:
                self._process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    pass_fds=[theirs.fileno()],
                    start_new_session=True,
                    env=env,
                )
            except OSError as error:
                ours.close()
                raise ToolchainError(f"cannot start {self.spec.python}: {error.strerror}") from None
        self._control = ours
        ours.settimeout(START_TIMEOUT)
        hello = self._receive_control()
        if "error" in hello:
            self._drop_zygote()
            raise ToolchainError(f"the compiler did not load: {hello['error']}")
        if hello["threads"] != 1:
            self._drop_zygote()
            raise HarnessError(f"the {self.spec.kind} zygote has {hello['threads']} threads; it cannot fork safely")
        self.maps = tuple(Segment(start=s, end=e, offset=o, path=p) for s, e, o, p in hello["maps"])

    def _receive_control(self) -> dict[str, Any]:
        control = self._control
        if control is None:
            raise HarnessError("the zygote is not running")
        try:
            data = control.recv(1 << 20)
        except OSError:
            data = b""
        return json.loads(data) if data else {"error": "the worker process ended or did not answer"}

    def _ask_zygote(self, request: Mapping[str, Any], descriptors: Sequence[int] = ()) -> dict[str, Any]:
        if self._control is None:
            return {"error": "not running"}
        try:
            socket.send_fds(self._control, [json.dumps(request).encode()], list(descriptors))
        except OSError as error:
            return {"error": str(error)}
        return self._receive_control()

    def _drop_zygote(self) -> None:
        if self._child is not None:
            self._child.close()
            self._child = None
        if self._control is not None:
            self._control.close()
            self._control = None
        if self._process is not None:
            try:
                self._process.wait(2)  # it leaves at the end of the control stream
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None

    # --- child ----------------------------------------------------------------------------------------------

    @property
    def child_pid(self) -> int | None:
        """The current child, for tests that kill it."""
        return None if self._child is None else self._child.pid

    @property
    def zygote_pid(self) -> int | None:
        """The zygote, for tests that kill it."""
        return None if self._process is None else self._process.pid

    def _fork(self) -> _Child:
        for attempt in range(2):
            self.start()
            ours, theirs = socket.socketpair()
            stderr, crash, output = (os.memfd_create(n) for n in ("stderr", "crash", "output"))
            _append_only(stderr)
            with theirs:
                request = {"op": "fork", "memory_kib": self.spec.memory_kib}
                reply = self._ask_zygote(request, [theirs.fileno(), stderr, crash, output])
            child = _Child(pid=int(reply.get("pid", -1)), sock=ours, stderr=stderr, crash=crash, output=output)
            if "pid" in reply:
                return child
            child.close()
            if attempt == 0:
                self._drop_zygote()
        raise HarnessError("the zygote cannot fork")

    def _end_child(self) -> int:
        """Reap the child after its end (or make it end); its wait status, -1 when unknown."""
        child = self._child
        self._child = None
        if child is None:
            return -1
        child.sock.close()
        reply = self._ask_zygote({"op": "reap", "pid": child.pid})
        for descriptor in (child.stderr, child.crash, child.output):
            os.close(descriptor)
        if "error" in reply:
            self._drop_zygote()
            return -1
        return int(reply["status"])

    def retire(self) -> None:
        """End the current child in peace; the next call forks a fresh one."""
        self._end_child()

    def call(self, request: Mapping[str, Any], *, timeout: float, stages: int = 0) -> Reply:
        """Send one request and wait for its answer or the child's end.

        `timeout` is in seconds of processor time; on the clock it is four times that, enforced by the child's timer
        and, should that fail, by SIGKILL from here.
        """
        started = time.monotonic()
        if self._owner != os.getpid():
            self.start()
        files = [os.memfd_create("stage") for _ in range(stages)]
        try:
            body = {**request, "stages": stages, "timeout": timeout}
            child = self._send(body, files)
            # The child's own timer must win, so that the stack is known; a handler that deadlocks ends after 3 s.
            answer, killed = self._receive(child, started + 4 * timeout + 5)
            return self._reply(child, answer, files, killed=killed, started=started)
        finally:
            for descriptor in files:
                os.close(descriptor)

    def _send(self, body: Mapping[str, Any], files: list[int]) -> _Child:
        data = json.dumps(body).encode()
        for attempt in range(2):
            if self._child is None:
                self._child = self._fork()
            child = self._child
            os.ftruncate(child.crash, 0)
            try:
                child.sock.sendall(struct.pack(">I", len(data)) + data)
                for at in range(0, len(files), FD_BATCH):
                    socket.send_fds(child.sock, [b"F"], files[at : at + FD_BATCH])
            except (BrokenPipeError, ConnectionResetError):
                # It died between two cases: no case is lost by starting another.
                self._end_child()
                if attempt == 1:
                    break
                continue
            return child
        raise HarnessError("a fresh compiler child cannot be spoken to")

    def _receive(self, child: _Child, deadline: float) -> tuple[dict[str, Any] | None, bool]:
        header = self._first_bytes(child, deadline)
        if isinstance(header, bytes):
            body = _read(child.sock, struct.unpack(">I", header)[0], deadline)
            if isinstance(body, bytes):
                return json.loads(body), False
        if header is None:
            return None, False
        _kill(child.pid)
        return None, True

    def _first_bytes(self, child: _Child, deadline: float) -> bytes | str | None:
        """The length of the answer. A child in which every thread sleeps is woken by its own alarm.

        The compiler has threads of its own. When one of them crashes, the handler that records the stack needs the
        interpreter's lock, which the main thread holds while it waits for that very thread; the alarm is handled on
        the main thread and lets the record be made, instead of the whole time limit going by.
        """
        before = -1
        while True:
            header = _read(child.sock, 4, min(deadline, time.monotonic() + ASLEEP))
            if header != "late" or time.monotonic() >= deadline:
                return header
            spent = _asleep_after(child.pid)
            if spent is not None and spent == before:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(child.pid, signal.SIGALRM)
                return _read(child.sock, 4, min(deadline, time.monotonic() + 5.0))
            before = -1 if spent is None else spent

    def _reply(
        self, child: _Child, answer: dict[str, Any] | None, files: list[int], *, killed: bool, started: float
    ) -> Reply:
        output = _contents(child.output)
        stderr = _contents(child.stderr, limit=STDERR_LIMIT)
        stages = tuple(_contents(f) for f in files)
        seconds = time.monotonic() - started
        if answer is not None:
            child.cases += 1
            if child.cases >= self.spec.retire_after or int(answer.get("rss_kib", 0)) > self.spec.retire_rss_kib:
                self.retire()
            return Reply(answer=answer, output=output, stderr=stderr, stages=stages, seconds=seconds)
        crash = _crash_record(child.crash)
        status = self._end_child()
        number = os.WTERMSIG(status) if status >= 0 and os.WIFSIGNALED(status) else 0
        if crash is not None:
            number = crash.signal
        elif status == -1:
            number = int(signal.SIGKILL)  # the zygote was killed, and its children with it
        return Reply(
            answer=None,
            output=output,
            stderr=stderr,
            stages=stages,
            crash=crash,
            signal=number,
            exit_code=os.WEXITSTATUS(status) if status >= 0 and os.WIFEXITED(status) else 0,
            timed_out=killed or number in (signal.SIGPROF, signal.SIGALRM),
            seconds=seconds,
        )

    def close(self) -> None:
        """End and reap the child and the zygote."""
        _OPEN.discard(self)
        if self._owner != os.getpid():
            return
        if self._child is not None:
            _kill(self._child.pid)
        self._drop_zygote()


_OPEN: weakref.WeakSet[Sandbox] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    for sandbox in list(_OPEN):
        sandbox.close()


def _append_only(descriptor: int) -> None:
    fcntl.fcntl(descriptor, fcntl.F_SETFL, fcntl.fcntl(descriptor, fcntl.F_GETFL) | os.O_APPEND)


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _asleep_after(pid: int) -> int | None:
    """The processor ticks a process has used, None unless every one of its threads sleeps."""
    ticks = 0
    try:
        for stat in Path(f"/proc/{pid}/task").glob("*/stat"):
            fields = stat.read_text().rpartition(")")[2].split()
            if fields[0] != "S":
                return None
            ticks += int(fields[11]) + int(fields[12])
    except OSError:
        return None
    return ticks


def _read(sock: socket.socket, size: int, deadline: float) -> bytes | str | None:
    """`size` bytes; None at the end of the stream; a word when the deadline passed."""
    data = bytearray()
    poll = select.poll()
    poll.register(sock, select.POLLIN)
    while len(data) < size:
        left = deadline - time.monotonic()
        if left <= 0 or not poll.poll(left * 1000):
            return "late"
        try:
            chunk = sock.recv(min(size - len(data), 1 << 20))
        except ConnectionResetError:
            chunk = b""
        if not chunk:
            return None
        data += chunk
    return bytes(data)


def _contents(descriptor: int, *, limit: int | None = None) -> str:
    """The text of a memory file; its two ends when it is longer than `limit` bytes."""
    size = os.fstat(descriptor).st_size
    if limit is None or size <= limit:
        return os.pread(descriptor, size, 0).decode("utf-8", "replace")
    head = os.pread(descriptor, limit // 2, 0).decode("utf-8", "replace")
    tail = os.pread(descriptor, limit // 2, size - limit // 2).decode("utf-8", "replace")
    return f"{head}\n[… {size - limit} bytes left out …]\n{tail}"


def _crash_record(descriptor: int) -> CrashRecord | None:
    lines = _contents(descriptor).splitlines()
    if not lines or len(lines[0].split()) != 4:
        return None
    number, pc, sp, address = (int(x) for x in lines[0].split())
    frames = tuple(int(x) for x in lines[1].split()) if len(lines) > 1 else ()
    if pc in frames:
        frames = frames[frames.index(pc) :]  # above it lie the handler's own frames
    return CrashRecord(signal=number, pc=pc, sp=sp, address=address, frames=frames)

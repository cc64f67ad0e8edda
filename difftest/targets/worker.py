"""The process that holds a compiler: a single-threaded zygote that forks children, and the children's request loop.

This file is run as a script by whatever interpreter fits the compiler's wheel, so it uses the standard library only
and imports nothing of ours; kinds other than enzyme live in a file each beside it. The other side is
`difftest.targets.sandbox`; the protocol is:

control socket (SOCK_SEQPACKET, `--fd`)
    zygote -> parent   `{"ready": true, "vm_kib": …, "maps": [[start, end, offset, path], …]}` or `{"error": …}`
    parent -> zygote   `{"op": "fork"}` with four descriptors: socket, stderr, crash record, output -> `{"pid": …}`
    parent -> zygote   `{"op": "reap", "pid": …}` -> `{"status": …}` (waits for the end of that child)
    end of file        the zygote kills its children and leaves
child socket (SOCK_STREAM): a 4-byte big-endian length, then JSON. A request with `"stages": N` is followed by N
    descriptors, in messages of at most 240. Answers: `{"ok": true, …}` or `{"ok": false, "error": …, …}`.

Texts that a compiler prints go into memory files that the parent made and keeps, so they outlive any death of a child.
A crash handler on its own stack writes two lines into the crash record: `signal pc sp address`, then the return
addresses of the stack (decimal). It is installed once in the zygote; handler and stack survive the fork.
"""

from __future__ import annotations

import argparse
import array
import ctypes
import importlib.util
import json
import os
import pathlib
import resource
import signal
import socket
import struct
import sys
import time
from typing import Any, Protocol

PR_SET_PDEATHSIG = 1
ALTERNATE_STACK = 1 << 20
MAX_FRAMES = 512
CRASH_SIGNALS = ("SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL", "SIGABRT", "SIGTRAP", "SIGSYS", "SIGPROF", "SIGALRM")
FD_BATCH = 240
FILE_SIZE_LIMIT = 1 << 30

Request = dict[str, Any]
Answer = dict[str, Any]


class Kind(Protocol):
    """A compiler inside this process: how one request is answered, given the descriptor of the output file."""

    def handle(self, request: Request, output: int, stages: list[int]) -> Answer: ...


# --- kinds --------------------------------------------------------------------------------------------------


def write_file(descriptor: int, text: str) -> None:
    """Replace the contents of a memory file by `text`."""
    os.ftruncate(descriptor, 0)
    data = text.encode("utf-8", "surrogateescape")
    at = 0
    while at < len(data):
        at += os.pwrite(descriptor, data[at:], at)


def read_file(descriptor: int) -> str:
    """The contents of a memory file."""
    data = bytearray()
    while chunk := os.pread(descriptor, 1 << 24, len(data)):
        data += chunk
    return data.decode("utf-8", "surrogateescape")


def failed(step: str, error: BaseException) -> Answer:
    """The answer for an exception that left the compiler during `step` (parse, pipeline, verify)."""
    return {"ok": False, "step": step, "type": type(error).__name__, "error": str(error)}


class EnzymeKind:
    """An enzyme-ad wheel's `enzyme_call` extension module, loaded from a file. PIPELINES §0."""

    def __init__(self, library: str) -> None:
        spec = importlib.util.spec_from_file_location("enzyme_call", library)
        if spec is None or spec.loader is None:
            raise ImportError(f"cannot load {library}")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        self.run = module.run_pass_pipeline
        # Registers every dialect and pass once, so that children start warm.
        self.run([], "module {}", "canonicalize")

    def handle(self, request: Request, output: int, stages: list[int]) -> Answer:
        """Run the elements, with a print after each when stages are asked for, and a print at the end."""
        final = _print_element(output, pretty=bool(request.get("pretty")))
        parts: list[str] = []
        for number, element in enumerate(request["elements"]):
            parts.append(element)
            if stages:
                parts.append(_print_element(stages[number], pretty=False))
        try:
            self.run([], request["text"], ",".join([*parts, final]))
        except BaseException as error:
            return failed("pipeline", error)
        if request.get("reverify"):
            try:
                self.run([], read_file(output), "")
            except BaseException as error:
                return failed("verify", error)
        return {"ok": True}


def _print_element(descriptor: int, *, pretty: bool) -> str:
    generic = "" if pretty else "generic=true "
    return f"print{{{generic}filename=/proc/self/fd/{descriptor}}}"


# --- crash records ------------------------------------------------------------------------------------------


class _StackT(ctypes.Structure):
    _fields_ = [("ss_sp", ctypes.c_void_p), ("ss_flags", ctypes.c_int), ("ss_size", ctypes.c_size_t)]


class _SigAction(ctypes.Structure):
    _fields_ = [
        ("handler", ctypes.c_void_p),
        ("mask", ctypes.c_byte * 128),
        ("flags", ctypes.c_int),
        ("restorer", ctypes.c_void_p),
    ]


SA_SIGINFO = 4
SA_ONSTACK = 0x08000000


class CrashRecorder:
    """Writes where the process died. Everything that can be allocated is allocated before the crash."""

    def __init__(self) -> None:
        self.descriptor = -1
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.stack = ctypes.create_string_buffer(ALTERNATE_STACK)
        self.frames = (ctypes.c_void_p * MAX_FRAMES)()
        prototype = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
        self.callback = prototype(self._on_signal)
        self.libc.backtrace(self.frames, 4)  # its first call loads libgcc, which must not happen in a handler
        alternate = _StackT(ctypes.addressof(self.stack), 0, ALTERNATE_STACK)
        self.libc.sigaltstack(ctypes.byref(alternate), None)
        action = _SigAction()
        action.handler = ctypes.cast(self.callback, ctypes.c_void_p).value
        action.flags = SA_SIGINFO | SA_ONSTACK
        for name in CRASH_SIGNALS:
            self.libc.sigaction(int(getattr(signal, name)), ctypes.byref(action), None)

    def _on_signal(self, number: int, info: int, context: int) -> None:
        # A lock held at the crash (malloc) may block what follows: then the default SIGALRM ends the process.
        self.libc.signal(int(signal.SIGALRM), 0)
        self.libc.alarm(3)
        pc, sp = registers(context)
        address = ctypes.c_uint64.from_address(info + 16).value if info else 0
        os.write(self.descriptor, f"{number} {pc} {sp} {address}\n".encode())
        count = self.libc.backtrace(self.frames, MAX_FRAMES)
        addresses = " ".join(str(self.frames[i] or 0) for i in range(count))
        os.write(self.descriptor, f"{addresses}\n".encode())
        os._exit(128 + number)


def registers(context: int) -> tuple[int, int]:
    """Program counter and stack pointer out of a `ucontext_t` (Linux x86-64 and aarch64), else zeros."""
    machine = os.uname().machine
    offsets = {"x86_64": (40 + 8 * 16, 40 + 8 * 15), "aarch64": (176 + 8 + 8 * 32, 176 + 8 + 8 * 31)}.get(machine)
    if offsets is None or not context:
        return 0, 0
    pc, sp = (ctypes.c_uint64.from_address(context + o).value for o in offsets)
    return pc, sp


def executable_maps() -> list[list[Any]]:
    """`[start, end, file offset, path]` of every executable mapping of a file."""
    rows: list[list[Any]] = []
    with pathlib.Path("/proc/self/maps").open() as maps:
        for line in maps:
            fields = line.split(maxsplit=5)
            if len(fields) == 6 and "x" in fields[1] and fields[5].startswith("/"):
                start, end = (int(x, 16) for x in fields[0].split("-"))
                rows.append([start, end, int(fields[2], 16), fields[5].rstrip("\n")])
    return rows


# --- child --------------------------------------------------------------------------------------------------


def receive_exactly(sock: socket.socket, size: int) -> bytes | None:
    """`size` bytes, or None at the end of the stream."""
    data = bytearray()
    while len(data) < size:
        chunk = sock.recv(min(size - len(data), 1 << 20))
        if not chunk:
            return None
        data += chunk
    return bytes(data)


def receive_descriptors(sock: socket.socket, count: int) -> list[int]:
    """`count` descriptors sent in messages of one byte."""
    found: list[int] = []
    while len(found) < count:
        _, ancillary, _, _ = sock.recvmsg(1, socket.CMSG_SPACE(FD_BATCH * 4))
        for _level, _type, data in ancillary:
            batch = array.array("i")
            batch.frombytes(data[: len(data) - len(data) % batch.itemsize])
            found.extend(batch)
    return found


def status_kib(field: str) -> int:
    """A size of this process out of /proc/self/status, in KiB."""
    with pathlib.Path("/proc/self/status").open() as status:
        for line in status:
            if line.startswith(field):
                return int(line.split()[1])
    return 0


def set_timer(seconds: float) -> None:
    """Limit a case: `seconds` of processor time (a busy machine is no hang), four times that on the clock."""
    signal.setitimer(signal.ITIMER_PROF, seconds)
    signal.setitimer(signal.ITIMER_REAL, 4 * seconds)


def run_case(kind: Kind, request: Request, output: int, stages: list[int]) -> Answer:
    """Answer one request with its environment, its timer, and a clean stderr and output file."""
    for descriptor in (2, output):
        os.ftruncate(descriptor, 0)
    saved = {name: os.environ.get(name) for name in request.get("env", {})}
    started = time.process_time()
    set_timer(float(request.get("timeout", 20.0)))
    try:
        os.environ.update(request.get("env", {}))
        answer = kind.handle(request, output, stages)
    finally:
        set_timer(0)
        for name, value in saved.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
    answer["cpu_seconds"] = time.process_time() - started
    return answer


def serve(kind: Kind, sock: socket.socket, output: int) -> None:
    """Answer requests until the parent closes the socket."""
    while (header := receive_exactly(sock, 4)) is not None:
        body = receive_exactly(sock, struct.unpack(">I", header)[0])
        if body is None:
            return
        request = json.loads(body)
        stages = receive_descriptors(sock, int(request.get("stages", 0)))
        answer = run_case(kind, request, output, stages)
        for descriptor in stages:
            os.close(descriptor)
        answer["rss_kib"] = status_kib("VmRSS")
        data = json.dumps(answer).encode()
        sock.sendall(struct.pack(">I", len(data)) + data)


def child_main(kind: Kind, recorder: CrashRecorder, descriptors: list[int], limits: Request, zygote: int) -> None:
    """Set limits up, then serve. Never returns."""
    code = 1
    try:
        recorder.libc.prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL))
        if os.getppid() != zygote:
            os._exit(1)
        sock = socket.socket(fileno=descriptors[0])
        os.dup2(descriptors[1], 2)
        os.close(descriptors[1])
        recorder.descriptor = descriptors[2]
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_SIZE_LIMIT, FILE_SIZE_LIMIT))
        memory = limits.get("memory_kib")
        if memory:
            bound = (status_kib("VmSize") + int(memory)) * 1024
            resource.setrlimit(resource.RLIMIT_AS, (bound, bound))
        serve(kind, sock, descriptors[3])
        code = 0
    except (ConnectionError, KeyboardInterrupt):
        code = 0
    except BaseException as error:
        os.write(2, f"worker: {type(error).__name__}: {error}\n".encode())
    finally:
        os._exit(code)


# --- zygote -------------------------------------------------------------------------------------------------


def zygote_main(control: socket.socket, kind: Kind, recorder: CrashRecorder) -> None:
    """Fork and reap on request until the parent goes away."""
    me = os.getpid()
    alive: set[int] = set()
    while True:
        data, descriptors, _, _ = socket.recv_fds(control, 1 << 16, 8)
        if not data:
            break
        request = json.loads(data)
        if request["op"] == "fork":
            pid = os.fork()
            if pid == 0:
                control.close()
                child_main(kind, recorder, list(descriptors), request, me)
            alive.add(pid)
            for descriptor in descriptors:
                os.close(descriptor)
            reply: Answer = {"pid": pid}
        else:
            pid = int(request["pid"])
            reply = {"status": os.waitpid(pid, 0)[1] if pid in alive else -1}
            alive.discard(pid)
        control.sendall(json.dumps(reply).encode())
    for pid in alive:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def load(kind: str, library: str) -> Kind:
    """The kind that was asked for, loaded: enzyme is here, others are a file `worker_<kind>.py` beside this one."""
    if kind == "enzyme":
        return EnzymeKind(library)
    path = pathlib.Path(__file__).with_name(f"worker_{kind}.py")
    sys.modules["worker"] = sys.modules["__main__"]
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"no worker kind {kind}")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    made: Kind = module.Kind(library)
    return made


def main() -> None:
    """Start as a zygote."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--kind", required=True)
    parser.add_argument("--library", default="", help="the extension module, or the handler of kind python")
    parser.add_argument("--fd", type=int, required=True)
    parser.add_argument("--parent", type=int, default=0, help="die with this process (given by its main thread only)")
    arguments = parser.parse_args()
    control = socket.socket(fileno=arguments.fd)
    recorder = CrashRecorder()
    if arguments.parent:
        recorder.libc.prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL))
        if os.getppid() != arguments.parent:
            return
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    try:
        kind = load(arguments.kind, arguments.library)
    except BaseException as error:
        control.sendall(json.dumps({"error": f"{type(error).__name__}: {error}"}).encode())
        return
    hello: Answer = {"ready": True, "vm_kib": status_kib("VmSize"), "maps": executable_maps()}
    hello["threads"] = len(list(pathlib.Path("/proc/self/task").iterdir()))
    control.sendall(json.dumps(hello).encode())
    zygote_main(control, kind, recorder)


if __name__ == "__main__":
    main()

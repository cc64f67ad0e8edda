"""`opt:PATH`: any `*-opt` binary (mlir-opt, enzymexlamlir-opt, assertion and sanitizer builds), one process a case.

Its stack dumps, assertion texts and sanitizer reports become the same signatures as those of the other targets.
Stages are runs of the pipeline's prefixes: slower than dumps between passes, but exact for every pipeline element.
"""

from __future__ import annotations

import dataclasses
import mmap
import os
import re
import resource
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from difftest.errors import ReadError, UsageError
from difftest.ir import spelling
from difftest.ir.spelling import SpellingError
from difftest.model import Artifact, CompileFailure, CompileResult, FailureKind, Frame, Pipeline, Stage
from difftest.targets import classify, pipelines
from difftest.targets.base import DEFAULT_TIMEOUT, Availability
from difftest.targets.crash import frame_at, match_pass, pass_class, strip_name
from difftest.targets.native import BLAMABLE, normalise
from difftest.targets.promises import broken_promise
from difftest.targets.protocol import MEMORY_LIMIT_KIB, Reply

SCHEME = "opt"
_OPTIONS = ("--mlir-print-op-generic", "--allow-unregistered-dialect", "--mlir-disable-threading")
_PRETTY = ("--allow-unregistered-dialect", "--mlir-disable-threading")
_STARTED_BY_SHELL = 128
_DEATHS = frozenset({FailureKind.CRASH, FailureKind.HANG, FailureKind.MEMORY, FailureKind.STACK_OVERFLOW})


class ExternalTarget:
    """An external opt-like tool."""

    def __init__(self, label: str, *, path: Path) -> None:
        self._label = label
        self._path = path

    @property
    def label(self) -> str:
        """The target's label."""
        return self._label

    def availability(self) -> Availability:
        """Usable when the file is an executable program."""
        if not self._path.is_file() or not os.access(self._path, os.X_OK):
            return Availability(usable=False, reason=f"{self._path} is not an executable file")
        return Availability(usable=True, version=_version(str(self._path)))

    def lower(
        self, text: str, pipeline: Pipeline, *, stages: bool = False, timeout: float = DEFAULT_TIMEOUT
    ) -> CompileResult:
        """See `Target.lower`."""
        elements = pipelines.split(pipeline.text)
        try:
            spelled = spelling.from_house(text, target=self._label)
        except (ReadError, SpellingError) as error:
            return CompileResult(failure=classify.of_unreadable(error))
        reply = self._run(spelled, elements, env=pipeline.env, timeout=timeout)
        failure = _failure(reply)
        kept = self._stages(spelled, elements, pipeline.env, timeout) if stages else ()
        if failure is None:
            output = self._to_house(reply.output)
            refusal = self.verify_spelled(reply.output, timeout)
            broken = broken_promise(pipeline, text, output)
            if refusal is not None:
                failure = dataclasses.replace(refusal, kind=FailureKind.INVALID_IR)
            elif broken is not None:
                failure = CompileFailure(kind=FailureKind.INCOMPLETE, diagnostic=broken, stderr=reply.stderr)
            else:
                artifact = Artifact(text=output, stages=kept, stderr=reply.stderr)
                return CompileResult(artifact=artifact, stages=kept, seconds=reply.seconds)
        elif (refusal := self.verify_spelled(spelled, timeout)) is not None and failure.kind not in _DEATHS:
            failure = refusal
        elif failure.kind in BLAMABLE:
            failure = dataclasses.replace(failure, pass_name=self._blame(spelled, pipeline, failure, timeout))
        return CompileResult(failure=failure, stages=kept, seconds=reply.seconds)

    def to_generic(self, text: str) -> CompileResult:
        """See `Target.to_generic`."""
        reply = self._run(text, (), env={}, timeout=DEFAULT_TIMEOUT)
        failure = _refused(_failure(reply))
        if failure is not None:
            return CompileResult(failure=failure, seconds=reply.seconds)
        return CompileResult(artifact=Artifact(text=self._to_house(reply.output)), seconds=reply.seconds)

    def print_pretty(self, text: str) -> str:
        """See `Target.print_pretty`."""
        spelled = spelling.from_house(text, target=self._label)
        reply = self._run(spelled, (), env={}, timeout=DEFAULT_TIMEOUT, options=_PRETTY)
        failure = _failure(reply)
        if failure is not None:
            raise UsageError(f"{self._label} does not read this program: {failure.diagnostic or failure.kind}")
        return reply.output

    def verify(self, text: str) -> CompileFailure | None:
        """See `Target.verify`."""
        try:
            spelled = spelling.from_house(text, target=self._label)
        except (ReadError, SpellingError) as error:
            return classify.of_unreadable(error)
        return self.verify_spelled(spelled, DEFAULT_TIMEOUT)

    def verify_spelled(self, text: str, timeout: float) -> CompileFailure | None:
        """`verify` of text that is already in this compiler's spelling."""
        return _refused(_failure(self._run(text, (), env={}, timeout=timeout)))

    def close(self) -> None:
        """Nothing runs between cases."""

    def _to_house(self, text: str) -> str:
        return spelling.to_house(normalise(text), source=self._label)

    def _stages(
        self, spelled: str, elements: Sequence[str], env: Mapping[str, str], timeout: float
    ) -> tuple[Stage, ...]:
        found: list[Stage] = []
        for count in range(1, len(elements) + 1):
            reply = self._run(spelled, elements[:count], env=env, timeout=timeout)
            if _failure(reply) is not None:
                break
            found.append(Stage(after=elements[count - 1], text=self._to_house(reply.output)))
        return tuple(found)

    def _blame(self, spelled: str, pipeline: Pipeline, failure: CompileFailure, timeout: float) -> str | None:
        """The pass of the shortest failing prefix, found by bisection; the stack's own answer when it has one."""
        named = match_pass(pass_class(failure.frames) or "", pipelines.all_pass_names(pipeline.text))
        if named is not None:
            return named
        leaves = [leaf for element in pipelines.split(pipeline.text) for leaf in pipelines.unnest(element)]

        def fails(count: int) -> bool:
            again = _failure(self._run(spelled, leaves[:count], env=pipeline.env, timeout=timeout))
            return again is not None and again.kind is failure.kind

        if not leaves or not fails(len(leaves)):
            return None
        good, bad = 0, len(leaves)
        while bad - good > 1:
            middle = (good + bad) // 2
            good, bad = (good, middle) if fails(middle) else (middle, bad)
        return pipelines.pass_name(leaves[bad - 1])

    def _run(
        self,
        text: str,
        elements: Sequence[str],
        *,
        env: Mapping[str, str],
        timeout: float,
        options: Sequence[str] = _OPTIONS,
    ) -> Reply:
        command = [str(self._path), f"--pass-pipeline=builtin.module({','.join(elements)})", *options, "-"]
        return run_limited(command, text, env=env, timeout=timeout, limit_memory=not _is_sanitized(str(self._path)))


def run_limited(
    command: Sequence[str], text: str, *, env: Mapping[str, str], timeout: float, limit_memory: bool
) -> Reply:
    """Run a program on `text` with limits on processor time, memory and wall clock; how it ended as a Reply."""
    started = time.monotonic()
    environment = {**os.environ, **env}
    with tempfile.TemporaryFile() as source, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        source.write(text.encode("utf-8", "surrogateescape"))
        source.seek(0)
        try:
            process = subprocess.Popen(
                command, stdin=source, stdout=out, stderr=err, env=environment, start_new_session=True
            )
        except OSError as error:
            raise UsageError(f"cannot run {command[0]}: {error.strerror}") from None
        late = _watch(process, timeout=timeout, limit_memory=limit_memory)
        output, stderr = (_contents(file.fileno()) for file in (out, err))
    code = process.returncode
    # A shell wrapper reports a signal as 128 + its number.
    number = -code if code < 0 else code - _STARTED_BY_SHELL if code > _STARTED_BY_SHELL else 0
    return Reply(
        answer={"ok": True} if code == 0 else None,
        output=output,
        stderr=stderr,
        signal=number,
        exit_code=max(0, code),
        timed_out=late,
        seconds=time.monotonic() - started,
    )


def _watch(process: subprocess.Popen[bytes], *, timeout: float, limit_memory: bool) -> bool:
    """Wait for the end; kill after `timeout` seconds of processor time or four times that on the clock.

    No signal asks first: LLVM's handlers would print a stack from wherever the program is, and often crash there. The
    kernel's own limit only ends what outlives us. Whether it was killed.
    """
    deadline = time.monotonic() + 4 * timeout + 1
    try:
        outlived = int(4 * timeout) + 10
        resource.prlimit(process.pid, resource.RLIMIT_CPU, (outlived, outlived))
        resource.prlimit(process.pid, resource.RLIMIT_CORE, (0, 0))
        if limit_memory:
            bound = (MEMORY_LIMIT_KIB + (1 << 20)) * 1024
            resource.prlimit(process.pid, resource.RLIMIT_AS, (bound, bound))
        handle = os.pidfd_open(process.pid)
    except ProcessLookupError:
        process.wait()
        return False
    poll = select.poll()
    poll.register(handle, select.POLLIN)
    try:
        while not poll.poll(100):
            if time.monotonic() > deadline or _processor_seconds(process.pid) > timeout:
                return True
    finally:
        os.close(handle)
        process.kill()
        process.wait()
    return False


def _processor_seconds(pid: int) -> float:
    """User and system time of a process so far (proc(5), fields 14 and 15 of stat)."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _contents(descriptor: int) -> str:
    return os.pread(descriptor, os.fstat(descriptor).st_size, 0).decode("utf-8", "replace")


def _failure(reply: Reply) -> CompileFailure | None:
    if reply.answer is not None:
        return classify.of_answer(reply, reply.answer)
    if reply.signal == 0 and not reply.timed_out and not _SANITIZER.search(reply.stderr):
        return _refusal(reply)
    failure = classify.of_death(reply, ())
    return dataclasses.replace(failure, frames=parse_frames(reply.stderr), stderr=_without_addresses(failure.stderr))


def _refused(failure: CompileFailure | None) -> CompileFailure | None:
    """The failure of a run without passes: what does not die there was refused by the parser or the verifier."""
    if failure is None or failure.kind in _DEATHS:
        return failure
    return dataclasses.replace(failure, kind=classify.refusal_kind(failure.diagnostic))


def _refusal(reply: Reply) -> CompileFailure:
    """An exit with a diagnostic, of a run with passes."""
    errors = classify.errors_in(reply.stderr)
    diagnostic = classify.message_of(errors[0]) if errors else ""
    kept = reply.stderr[-classify.STDERR_KEPT :]
    if classify.is_pipeline_error(reply.stderr):
        text = classify.pipeline_error(reply.stderr)
        return CompileFailure(kind=FailureKind.BAD_PIPELINE, diagnostic=text, stderr=kept)
    return CompileFailure(kind=classify.pipeline_kind(diagnostic), diagnostic=diagnostic, stderr=kept)


_SANITIZER = re.compile(r"ERROR: (?:Address|Leak|Thread)Sanitizer|WARNING: MemorySanitizer|runtime error: ")
_LLVM_FRAME = re.compile(r"^\s*#\d+ 0x[0-9a-f]+ (?P<name>.*?)\s*\((?P<path>/[^()]*)\+0x(?P<offset>[0-9a-f]+)\)\s*$")
_BARE_FRAME = re.compile(r"^\d+\s+(?P<path>\S+)\s+0x[0-9a-f]+(?:\s+(?P<name>.+?) \+ \d+)?\s*$")  # no llvm-symbolizer
_ASAN_FRAME = re.compile(
    r"^\s*#\d+ 0x[0-9a-f]+ (?:in )?(?P<name>.*?)\s*(?:\((?P<path>/[^()+]*)\+0x(?P<offset>[0-9a-f]+)\)"
    r"|(?P<place>\S+:\d+(?::\d+)?))?(?:\s+\(BuildId: \w+\))?$"
)
_C_LIBRARY = re.compile(r"libc[.-]|libpthread")
_OWN = re.compile(
    r"llvm::sys::(PrintStackTrace|RunSignalHandlers|.*SignalHandler)|^SignalHandler|__interceptor|__asan|__sanitizer"
)


def parse_frames(stderr: str) -> tuple[Frame, ...]:
    """The frames of an LLVM stack dump or a sanitizer report, innermost first, without those of the handler."""
    found: list[Frame] = []
    for line in stderr.splitlines():
        match = _LLVM_FRAME.match(line) or _BARE_FRAME.match(line) or _ASAN_FRAME.match(line)
        if match is None:
            if found and not line.strip():
                break  # a sanitizer report goes on with where memory was allocated
            continue
        parts = match.groupdict()
        name = strip_name(parts["name"]) if parts["name"] else ""
        if not name and parts["path"] and parts.get("offset"):
            name = frame_at(parts["path"], int(parts["offset"], 16)) or "?"
        if not _OWN.search(name):
            found.append(Frame(symbol=name or "?", module=Path(parts["path"] or "?").name))
    return tuple(_below_handler(found))


def _below_handler(frames: list[Frame]) -> list[Frame]:
    """Without the signal handler's frames: all up to the C library's, which the signal or the abort went through."""
    first = next((i for i, frame in enumerate(frames[:8]) if _C_LIBRARY.match(frame.module)), None)
    if first is None:
        return frames
    while first < len(frames) and _C_LIBRARY.match(frames[first].module):
        first += 1
    return frames[first:] or frames


def _without_addresses(stderr: str) -> str:
    return re.sub(r"0x[0-9a-f]{6,}", "0x…", stderr)


@cache
def _is_sanitized(path: str) -> bool:
    """Sanitizer builds reserve terabytes of address space, which a limit on it would forbid."""
    try:
        with Path(path).open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return any(data.find(name) >= 0 for name in (b"__asan_init", b"__msan_init", b"__tsan_init"))
    except (OSError, ValueError):
        return False


@cache
def _version(path: str) -> str:
    try:
        done = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    lines = [line.strip() for line in done.stdout.splitlines() if line.strip()]
    return next((line for line in lines if "version" in line.lower()), lines[0] if lines else "")


def labels() -> tuple[str, ...]:
    """None by itself: the path is the user's to name."""
    return ()


def open(label: str) -> ExternalTarget:
    """The target of `opt:PATH`; a bare name is looked up on PATH."""
    given = label.removeprefix(f"{SCHEME}:")
    if not label.startswith(f"{SCHEME}:") or not given:
        raise UsageError(f"'{label}' does not name a program: expected opt:PATH")
    found = shutil.which(given)
    path = Path(found) if found else Path(given)
    if not path.is_file():
        raise UsageError(f"there is no program {given}")
    return ExternalTarget(label, path=path.absolute())

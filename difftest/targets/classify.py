"""How a compiler's behaviour becomes a `CompileFailure`: one reading of replies for every kind of worker.

PIPELINES §7 lists the shapes. Success is not believed: `error:` on stderr is a failure even when the status says
otherwise.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Mapping, Sequence
from typing import Any

from difftest.errors import ReadError
from difftest.ir.spelling import SpellingError
from difftest.model import CompileFailure, FailureKind
from difftest.targets.crash import frames_of
from difftest.targets.protocol import OUTSIDE_SIGNALS, Reply, Segment

STDERR_KEPT = 20_000

_ERROR = re.compile(r"(?:^|[\s:])error: ")
_FATAL = re.compile(
    r"LLVM ERROR: .*|.*Assertion [`'].*failed.*|.*UNREACHABLE executed.*|terminate called.*|fatal error: .*"
    r"|.*(?:ERROR: AddressSanitizer|runtime error|WARNING: MemorySanitizer|ERROR: LeakSanitizer).*"
)
_NO_MEMORY = re.compile(r"LLVM ERROR: out of memory|bad_alloc|Cannot allocate memory|allocation failed", re.IGNORECASE)
# A refusal of well-formed generic text for one of these reasons is version skew (BINDINGS 3), not the program's fault.
_SKEW = re.compile(
    r"is unknown \(tried|unregistered (?:operation|dialect)|Dialect `.*' not found|invalid kind of attribute"
    r"|unknown (?:attribute|property|type|.* attribute)|failed to (?:parse|convert) .*(?:propert|attribute)"
    r"|expected key entry for|invalid properties|isn't known in this MLIRContext|not a registered"
    r"|expected (?:valid|string|integer) (?:keyword|attribute)|unexpected (?:decimal|properties)",
    re.IGNORECASE,
)
# What the verifier says after a pass, as against what a pass says about its own input.
_VERIFIER = re.compile(
    r"does not dominate this use|null operand found|operand #\d+|result #\d+|region #\d+|expects? |requires? "
    r"|must (?:be|have)|cast incompatible"
    r"|created with unregistered dialect|empty block: expect|block with no terminator|redefinition of symbol"
    r"|op attribute|op symbol|does not reference|number of (?:operands|results|operand)|incorrect number of"
    r"|op type mismatch|parent op|using value defined outside|type of .* (?:does not|doesn't) match|op failed to verify"
)
# What passes say when they give up: never the verifier's words, whatever else the text contains.
_PASS_TEXT = re.compile(
    r"failed to legalize|failed to (?:convert|lower|materialize)|could not compute|couldn't (?:find|compute)"
    r"|not supported|unsupported|unhandled|not (?:yet )?implemented|cannot (?:be converted|convert)"
    r"|can't (?:be|handle)|option must be|explicitly marked illegal|expected perfectly nested|not handled|no rule"
    r"|unable to",
    re.IGNORECASE,
)


def errors_in(stderr: str) -> list[str]:
    """The `error:` diagnostics of a stderr text, without notes; other lines are noise (PIPELINES §7)."""
    return [line.strip() for line in stderr.splitlines() if _ERROR.search(line)]


def message_of(line: str) -> str:
    """`loc("-":4:7): error: text` -> `4:7: text`; a line without a place keeps its text only."""
    text = line[match.end() :] if (match := _ERROR.search(line)) else line
    place = re.search(r'"?:(\d+:\d+)\)?:? ?$', line[: match.start()]) if match else None
    return f"{place.group(1)}: {text}" if place else text


def _with_place(location: str, message: str) -> str:
    place = re.search(r":(\d+:\d+)\)?$", location)
    return f"{place.group(1)}: {message}" if place else message


def of_unreadable(error: ReadError | SpellingError) -> CompileFailure:
    """The failure of a text that our own spelling rules cannot take to or from a toolchain."""
    kind = FailureKind.SPELLING if isinstance(error, SpellingError) else FailureKind.REFUSED_INPUT
    return CompileFailure(kind=kind, diagnostic=str(error))


def of_death(reply: Reply, maps: Sequence[Segment]) -> CompileFailure:
    """The failure of a child that did not answer."""
    frames = frames_of(reply.crash, maps) if reply.crash is not None else ()
    fatal = _FATAL.search(reply.stderr)
    diagnostic = fatal.group().strip() if fatal else ""
    kind = FailureKind.CRASH
    if reply.timed_out:
        kind = FailureKind.HANG
        diagnostic = f"no end after {reply.seconds:.1f} s"
    elif reply.crash is None and reply.signal in OUTSIDE_SIGNALS:
        kind = FailureKind.MEMORY
        diagnostic = f"the compiler process was killed from outside (signal {reply.signal}; out of memory?)"
    elif reply.signal == signal.SIGXFSZ:
        kind = FailureKind.MEMORY
        diagnostic = "the compiler wrote more than the file size limit"
    elif reply.crash is not None and reply.crash.is_stack_overflow:
        kind = FailureKind.STACK_OVERFLOW
    elif _NO_MEMORY.search(reply.stderr):
        kind = FailureKind.MEMORY
    elif reply.signal == 0:
        diagnostic = diagnostic or f"the compiler process left with exit code {reply.exit_code}"
    return CompileFailure(
        kind=kind, diagnostic=diagnostic, frames=frames, stderr=reply.stderr[-STDERR_KEPT:], signal=reply.signal
    )


def of_answer(reply: Reply, answer: Mapping[str, Any]) -> CompileFailure | None:
    """The failure that an answer reports, None for a believable success."""
    lines = [_with_place(*d) for d in answer.get("diagnostics", ())] or [message_of(e) for e in errors_in(reply.stderr)]
    if answer.get("ok"):
        kind, diagnostic = FailureKind.PASS_FAILURE, lines[0] if lines else ""
        return _failure(kind, diagnostic, reply) if lines else None
    text = str(answer.get("error", ""))
    if answer.get("type") == "MemoryError" or _NO_MEMORY.search(text):
        return _failure(FailureKind.MEMORY, text, reply)
    step = str(answer.get("step", ""))
    if is_pipeline_error(f"{text}\n{reply.stderr}") and not _has_run(text):
        return _failure(FailureKind.BAD_PIPELINE, pipeline_error(f"{reply.stderr}\n{text}"), reply)
    diagnostic = lines[0] if lines else _residue(text)
    if step == "parse" or "Failed to parse module" in text:
        return _failure(refusal_kind(diagnostic), diagnostic, reply)
    if step == "verify":
        # The compiler cannot read what it printed, or its verifier refuses what its passes made.
        return _failure(FailureKind.INVALID_IR, diagnostic, reply)
    return _failure(pipeline_kind(diagnostic), diagnostic, reply)


def refusal_kind(diagnostic: str) -> FailureKind:
    """Whether an input was refused for version skew or for what it says."""
    return FailureKind.SPELLING if _SKEW.search(diagnostic) else FailureKind.REFUSED_INPUT


def pipeline_kind(diagnostic: str) -> FailureKind:
    """Whether a pipeline's diagnostic is the verifier's (the IR a pass left is invalid) or a pass's own."""
    if _VERIFIER.search(diagnostic) and not _PASS_TEXT.search(diagnostic):
        return FailureKind.INVALID_IR
    return FailureKind.PASS_FAILURE


def _failure(kind: FailureKind, diagnostic: str, reply: Reply) -> CompileFailure:
    return CompileFailure(kind=kind, diagnostic=diagnostic, stderr=reply.stderr[-STDERR_KEPT:])


_PIPELINE_ERROR = re.compile(
    r"Textual PassPipeline Parser|Pass-Options-Parser|failed to add `.*` with options|[Cc]an't add pass"
    r"|trying to schedule pass '\w+' on an unsupported operation"
)


def is_pipeline_error(text: str) -> bool:
    """Whether the pass manager refused the pipeline before running it: unknown pass, option or nesting."""
    return _PIPELINE_ERROR.search(text) is not None


def pipeline_error(text: str) -> str:
    """The sentence that says what is wrong with the pipeline."""
    lines = [x for x in text.splitlines() if "error: " in x and "Failed to parse pipeline" not in x]
    lines += [x for x in text.splitlines() if is_pipeline_error(x)]
    said = (x.rsplit("error: ", 1)[-1].removeprefix("<Pass-Options-Parser>: ").strip() for x in lines)
    return next(filter(None, said), "")


def _has_run(text: str) -> bool:
    return "Pipeline failed" in text and "trying to schedule pass" not in text


def _residue(text: str) -> str:
    """What the exception says beyond its fixed words: empty for a silent pass failure."""
    noise = ("INVALID_ARGUMENT", "INTERNAL", "Pipeline failed", "Failure while executing pass pipeline")
    lines = [x.strip() for x in text.splitlines() if x.strip() and not x.strip().startswith(noise)]
    return lines[0].removeprefix("error: ") if lines else ""

"""What makes two failures one bug: diagnostics, frames and exit status to a `Signature`.

Never an address, a number, a name of the program or the shape of a type: those change while a program is reduced.
Order of evidence: the diagnostic when there is one, else the innermost compiler frames, else the pass alone (a hang
shows a different stack in every sample). PIPELINES §7, DESIGN §4 (identity).
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from difftest.model import CompileFailure, FailureKind, Frame, Signature

FRAMES = 3
# The detail of a failure that ends differently each time: memory is already corrupt when it shows, as a crash in
# varying places or as a loop over garbage.
UNSTABLE = ("unstable",)
_DEATHS = frozenset({str(FailureKind.CRASH), str(FailureKind.HANG)})

_SYSTEM_MODULES = re.compile(
    r"^(libc|libm|libpthread|ld-linux.*|ld|libgcc_s|libffi|_ctypes|libpython[\d.]*|python[\d.]*|libstdc\+\+|libc\+\+|\[vdso\]|\?)(\.so.*|-.*)?$"
)
# Frames that say how the process died or that any LLVM program has on its stack, not where the fault is.
_NOISE = re.compile(
    r"^(\?|raise|abort|gsignal|pthread_kill|__.*|_start|main|std::.*|"
    r"llvm::report_fatal_error|llvm::llvm_unreachable_internal|llvm::sys::.*|SignalHandler|"
    r"PrintStackTraceSignalHandler|llvm::function_ref.*|CallbackManager.*)$"
)

_NORMAL_FORMS: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r'loc\((?:"[^"]*":\d+:\d+|[^()]*|"[^"]*"\([^()]*\))\)', "LOC"),
        (r"^\d+:\d+: ", ""),
        (r"\S*?:\d+:\d+", "LOC"),
        (r"^(LOC|<unknown>:\d+|[^\s:]+\.mlir|-)?:?\s*(error|warning|note):\s*", ""),
        (r"0x[0-9a-fA-F]+", "N"),
        (r"%[\w$.-]+(:\d+)?(#\d+)?", "%V"),
        (r'@"[^"]*"|@[\w$.-]+', "@S"),
        (r"\^\w+", "^B"),
        (r"\b(memref|tensor|vector)<(?:[^<>]|<(?:[^<>]|<[^<>]*>)*>)*>", r"\1<T>"),
        (r"!llvm\.(struct|array|ptr)<(?:[^<>]|<(?:[^<>]|<[^<>]*>)*>)*>", r"!llvm.\1"),
        (r"\b(?:[su]?i\d+|f\d+|bf16|f8E\w+|index)\b", "T"),
        (r"(?<![\w.])-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?\b", "N"),
        (r"#\d+", "#N"),
        (r":? ?(?:%V, )*%V = .*|: \"[\w.]+\"\(.*| ?\(no type converter specified\)", ""),  # the op at fault, printed
        (r"\bshared_mem_\w+|__wg_\w+", "S"),
        (r"\s+", " "),
    )
)
DIAGNOSTIC_LENGTH = 160


def same_failure(wanted: Signature, found: Signature) -> bool:
    """Whether `found` is the failure called `wanted`: equal, or a death in the same pass when it is unstable."""
    if wanted.detail != UNSTABLE:
        return wanted == found
    passes = {wanted.pass_name, found.pass_name} - {None}
    return found.kind in _DEATHS and len(passes) <= 1


def unstable(signatures: Iterable[Signature]) -> Signature | None:
    """One signature for several different deaths of one run, None when some are not deaths."""
    seen = list(signatures)
    if not seen or any(s.kind not in _DEATHS for s in seen):
        return None
    name = next((s.pass_name for s in seen if s.pass_name is not None), None)
    return Signature(kind=str(FailureKind.CRASH), pass_name=name, detail=UNSTABLE)


def normalise_diagnostic(text: str) -> str:
    """The first line of a diagnostic without places, numbers, SSA and symbol names, and type shapes.

    Op names in quotes are kept: they say what the complaint is about.
    """
    lines = [line for line in text.strip().splitlines() if line.strip() and "see current operation" not in line]
    line = lines[0] if lines else ""
    for pattern, replacement in _NORMAL_FORMS:
        line = pattern.sub(replacement, line)
    return line.strip()[:DIAGNOSTIC_LENGTH]


def compiler_frames(frames: Iterable[Frame], *, count: int = FRAMES) -> tuple[str, ...]:
    """The first `count` frames that belong to the compiler: system libraries and ways of dying are skipped."""
    names: list[str] = []
    for frame in frames:
        is_system = _SYSTEM_MODULES.match(frame.module) or _NOISE.match(frame.symbol)
        if not is_system and frame.symbol not in names[-1:]:  # overloads that call each other show as repeats
            names.append(frame.symbol)
        if len(names) == count:
            break
    return tuple(names)


def of_failure(failure: CompileFailure) -> Signature:
    """The signature of a compiler's failure."""
    return Signature(kind=failure.kind.value, pass_name=failure.pass_name, detail=_detail(failure))


def _detail(failure: CompileFailure) -> tuple[str, ...]:
    if failure.kind in (FailureKind.HANG, FailureKind.MEMORY, FailureKind.STACK_OVERFLOW):
        return ()  # where a resource ran out is chance
    message = normalise_diagnostic(failure.diagnostic)
    if failure.kind is FailureKind.CRASH:
        frames = compiler_frames(failure.frames)
        return (*frames, *((message,) if message else ())) or (f"signal {failure.signal}",)
    return (message,) if message else ()

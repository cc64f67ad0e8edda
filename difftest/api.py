"""For tests of compilers, with pytest or without: run a program, judge it, or assert what it means.

    from difftest.api import assert_agrees, assert_same_meaning, run_program

    assert_agrees(text, target="opt:/path/to/my-opt", pipeline="my-pass")

A program is MLIR text (generic, or pretty syntax that an available compiler reads; its header lines count), a `Path`
to such a file, or a `Program`. Compilers are opened once per process and ended at its exit, or by `close_shared`.
"""

from __future__ import annotations

import os
import re
import shlex
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from corpus.header import input_spec, parse_header, parse_inputs, program_file
from difftest import toolchains
from difftest.errors import ReadError, ToolchainError, UsageError
from difftest.ir.reader import read_module
from difftest.ir.text import is_generic, pretty_enzyme_style
from difftest.model import InputSpec, Outcome, OutcomeKind, Program, Verdict, VerdictKind
from difftest.oracle.compare import compare
from difftest.oracle.judge import Reference, entry_types, first_line
from difftest.oracle.load import default_entry, prepare_sized, read_text
from difftest.report.plain import fault_line
from difftest.session import judge_fully
from difftest.targets import Target, open_target

Source = str | Path | Program
TIMEOUT = 20.0
_BY_PATH = "opt:"
_HEADER = re.compile(r"^[ \t]*//[ \t]*(DIFFTEST|RUN|EXPECT):.*\n?", re.MULTILINE)


class UnavailableError(ToolchainError):
    """A target that exists in principle cannot be had here: not fetched, no interpreter, no such binary."""


_shared: dict[tuple[int, str], Target] = {}


def open_shared(label: str) -> Target:
    """The target of a label, one per process and never forked along.

    Raises UsageError for an unknown label and UnavailableError, in one sentence, when the compiler cannot be had.
    """
    key = (os.getpid(), label)
    if key not in _shared:
        _shared[key] = _open(label)
    return _shared[key]


def _open(label: str) -> Target:
    try:
        target = open_target(label)
        if label.startswith(toolchains.ENZYME):
            toolchains.ensure(target.label)
    except UsageError as error:
        # An unknown name is a mistake; a compiler that is not on this machine is not.
        if not (isinstance(error, ToolchainError) or label.startswith(_BY_PATH)):
            raise
        raise UnavailableError(f"{label} cannot be used: {error}") from None
    availability = target.availability()
    if not availability.usable:
        raise UnavailableError(f"{label} cannot be used: {availability.reason}")
    return target


def close_shared() -> None:
    """End the compilers of this process that `open_shared` opened. They open again when asked for."""
    own = [key for key in _shared if key[0] == os.getpid()]
    for key in own:
        _shared.pop(key).close()


def make_program(source: Source, *, entry: str | None = None, inputs: str | None = None, target: str = "") -> Program:
    """`source` as a program in generic form. `entry` and `inputs` (as in a header) go before its own.

    `target` reads pretty enzyme syntax, before any other compiler is tried. Raises UsageError in one line.
    """
    if isinstance(source, Program):
        return source
    path = str(source) if isinstance(source, Path) else "<text>"
    text = read_text(source) if isinstance(source, Path) else source
    header = parse_header(text, path=path)
    generic = _to_generic(text, path, target)
    try:
        module = read_module(generic)
    except ReadError as error:
        raise UsageError(f"{path}:{error}") from None
    name = entry or header.entry or default_entry(module, path)
    entry_types(module, name)
    spec = input_spec(header, text, name)
    if inputs is not None:
        given = input_spec(parse_inputs(inputs), text, name)
        spec = replace(given, scalars={**spec.scalars, **given.scalars}, shapes={**spec.shapes, **given.shapes})
    stem = source.stem if isinstance(source, Path) else ""
    return Program(text=generic, entry=name, inputs=spec, name=stem)


@lru_cache(maxsize=256)
def _to_generic(text: str, path: str, target: str) -> str:
    if is_generic(text):
        return text
    message = ""
    for label in _readers(text, target):
        result = open_shared(label).to_generic(text)
        if result.artifact is not None:
            return result.artifact.text
        assert result.failure is not None
        message = message or first_line(result.failure.diagnostic) or f"{label}: {result.failure.kind}"
    raise UsageError(f"{path}: {message or 'enzyme syntax is read by an enzyme-ad toolchain only: none is installed'}")


def _readers(text: str, target: str) -> list[str]:
    """Who may know the syntax of `text`, in order of preference."""
    if pretty_enzyme_style(text) is None and "enzyme" not in text:
        return ["mlir"]
    installed = [f"{toolchains.ENZYME}@{t.version}" for t in reversed(toolchains.list_installed())]
    return list(dict.fromkeys([*([target] if target.startswith(toolchains.ENZYME) else []), *installed]))


def run_program(source: Source, *, entry: str | None = None, inputs: str | None = None) -> Outcome:
    """What the reference interpreter says the program does: observed values, or the fault that ended it."""
    return _reference(source, entry=entry, inputs=inputs).outcome


def _reference(source: Source, *, entry: str | None, inputs: str | None, target: str = "") -> Reference:
    return prepare_sized(make_program(source, entry=entry, inputs=inputs, target=target))[0]


def judge_program(
    source: Source,
    *,
    target: str | Target,
    pipeline: str = "",
    entry: str | None = None,
    inputs: str | None = None,
    timeout: float = TIMEOUT,
) -> Verdict:
    """The confirmed verdict on a program, as `difftest run` gives it; the culprit is named when the result is wrong.

    `pipeline` is a named one or a pass list; `timeout` is in seconds per compilation. Raises UsageError for a
    request that makes no sense and UnavailableError when the target cannot be had.
    """
    compiler = open_shared(target) if isinstance(target, str) else target
    reference = _reference(source, entry=entry, inputs=inputs, target=compiler.label)
    return judge_fully(reference, compiler, pipeline, timeout=timeout)


def assert_agrees(
    source: Source,
    *,
    target: str | Target,
    pipeline: str = "",
    entry: str | None = None,
    inputs: str | None = None,
    timeout: float = TIMEOUT,
) -> None:
    """Assert that the compiled program does what the reference interpreter says, bit for bit where it is exact.

    An AssertionError carries the verdict, the pass to blame, the first difference and the program. Anything but
    `agree` fails: a program that is undefined or that cannot be judged proves nothing.
    """
    __tracebackhide__ = True
    compiler = open_shared(target) if isinstance(target, str) else target
    reference = _reference(source, entry=entry, inputs=inputs, target=compiler.label)
    verdict = judge_fully(reference, compiler, pipeline, timeout=timeout)
    if verdict.kind is not VerdictKind.AGREE:
        raise AssertionError("\n".join([*describe(verdict), "", corpus_text(reference.program)]))


def assert_same_meaning(before: Source, after: Source, *, entry: str | None = None, inputs: str | None = None) -> None:
    """Assert that two programs compute the same on the inputs of `before` (its header's, or `inputs`).

    Both must be defined and judged (AssertionError otherwise), and have the same observable buffers and results.
    """
    __tracebackhide__ = True
    first = _reference(before, entry=entry, inputs=inputs)
    program = make_program(after, entry=first.program.entry)
    second = _reference(replace(program, inputs=first.program.inputs), entry=None, inputs=None)
    for name, reference in (("before", first), ("after", second)):
        if reference.outcome.kind is not OutcomeKind.OK:
            raise AssertionError(f"{name}: {reference.outcome.kind}{_fault(reference.outcome)}")
    shapes = [[(o.label, o.data.shape, str(o.data.dtype)) for o in r.outcome.observed] for r in (first, second)]
    if shapes[0] != shapes[1]:
        raise AssertionError(f"they observe different things: {shapes[0]} before, {shapes[1]} after")
    found = compare(first.outcome, second.outcome).difference
    if found is not None:
        place = f"{found.label}{list(found.index)}"
        raise AssertionError(f"{place} is {found.expected} before and {found.actual} after ({found.count} differ)")


def corpus_text(program: Program) -> str:
    """A program as the text of a corpus file, with a header of its own instead of those that its text had."""
    return program_file(replace(program, text=_HEADER.sub("", program.text)))


def _fault(outcome: Outcome) -> str:
    return f": {fault_line(outcome.fault)}" if outcome.fault is not None else ""


def describe(verdict: Verdict) -> list[str]:
    """A verdict as a few lines: kind and culprit, where, what differs, frames of a crash."""
    culprit = f" in {verdict.signature.pass_name}" if verdict.signature and verdict.signature.pass_name else ""
    lines = [f"{verdict.kind}{culprit} on {verdict.target} [{verdict.pipeline}]"]
    lines += [f"  {verdict.message}"] if verdict.message else []
    lines += [f"  {fault_line(verdict.fault)}"] if verdict.fault is not None else []
    if verdict.failure is not None:
        lines += [f"    {frame.symbol}" for frame in verdict.failure.frames[:8]]
    return lines


def run_command(path: str, *, target: str, pipeline: str, entry: str | None = None, inputs: str | None = None) -> str:
    """The options that `difftest run` and `reducer` share, for the commands of a report."""
    words = [path, "--target", target, "--pipeline", pipeline]
    words += ["--entry", entry] if entry else []
    words += ["--inputs", inputs] if inputs else []
    return shlex.join(words)


__all__ = [
    "InputSpec",
    "Outcome",
    "Program",
    "UnavailableError",
    "Verdict",
    "assert_agrees",
    "assert_same_meaning",
    "close_shared",
    "judge_program",
    "make_program",
    "open_shared",
    "run_program",
]

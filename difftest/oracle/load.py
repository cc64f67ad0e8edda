"""From a file to a program: header, entry, inputs, and generic text, with one clear line for everything wrong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from corpus.header import Header, input_spec, parse_header, parse_inputs
from difftest.errors import ReadError, UsageError
from difftest.ir.attributes import parse_string
from difftest.ir.reader import read_module
from difftest.ir.text import is_generic, pretty_enzyme_style
from difftest.ir.tree import Operation
from difftest.ir.types import MemRefType
from difftest.model import InputSpec, Mode, OutcomeKind, Program, Schedule
from difftest.oracle.judge import Reference, entry_types, prepare
from difftest.targets import open_target
from difftest.toolchains import list_installed

MAX_BYTES = 8 << 20
LARGEST_DIMENSION = 4096


def read_text(path: Path, *, limit: int = MAX_BYTES) -> str:
    """The text of a file. Raises UsageError when it is missing, a directory, empty, too large or not text."""
    try:
        if path.is_dir():
            raise UsageError(f"{path} is a directory, not a file")
        size = path.stat().st_size
        if size > limit:
            raise UsageError(f"{path} has {size / 1e6:.1f} MB; the limit is {limit / 1e6:.1f} MB")
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise UsageError(f"{path}: no such file") from None
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8 text (byte {error.start})") from None
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
    if not text.strip():
        raise UsageError(f"{path} is empty")
    return text


def to_generic(text: str, *, path: str, prefer: Sequence[str] = ()) -> str:
    """`text` in generic form; pretty text goes through a compiler that reads it.

    Pretty enzyme syntax needs an enzyme-ad toolchain: `prefer` names those to try first, then the installed ones.
    Raises UsageError with the compiler's location and message when nobody reads it.
    """
    if is_generic(text):
        return text
    labels = _readers(text, prefer)
    if not labels:
        raise UsageError(
            f"{path} is written in enzyme's pretty syntax, which only an enzyme-ad toolchain reads: "
            "run `difftest toolchain install enzyme-ad==0.0.16` or give generic form"
        )
    message = ""
    for label in labels:
        target = open_target(label)
        try:
            result = target.to_generic(text)
        finally:
            target.close()
        if result.artifact is not None:
            return result.artifact.text
        assert result.failure is not None
        message = message or result.failure.diagnostic or f"{label} cannot read it ({result.failure.kind})"
    raise UsageError(f"{path}: {message.strip().splitlines()[0] if message.strip() else 'cannot be read'}")


def _readers(text: str, prefer: Sequence[str]) -> list[str]:
    """The targets to try, in order."""
    if pretty_enzyme_style(text) is None and "enzyme" not in text:
        return ["mlir"]
    installed = [f"enzyme-ad@{t.version}" for t in list_installed()]
    wanted = [label for label in prefer if label.startswith("enzyme-ad@")]
    return list(dict.fromkeys([*wanted, *reversed(installed)]))


def load_program(
    path: Path,
    *,
    entry: str | None = None,
    inputs: str | None = None,
    prefer: Sequence[str] = (),
    limit: int = MAX_BYTES,
) -> Program:
    """The program in a file of at most `limit` bytes. `entry` and `inputs` override its header."""
    text = read_text(path, limit=limit)
    header = parse_header(text, path=str(path))
    generic = to_generic(text, path=str(path), prefer=prefer)
    try:
        module = read_module(generic)
    except ReadError as error:
        raise UsageError(f"{path}:{error}") from None
    name = entry or header.entry or default_entry(module, str(path))
    entry_types(module, name)
    return Program(text=generic, entry=name, inputs=_inputs(header, inputs, text, name), name=path.stem)


def _inputs(header: Header, inputs: str | None, text: str, entry: str) -> InputSpec:
    spec = input_spec(header, text, entry)
    if inputs is None:
        return spec
    given = input_spec(parse_inputs(inputs), text, entry)
    return replace(given, scalars={**spec.scalars, **given.scalars}, shapes={**spec.shapes, **given.shapes})


def default_entry(module: Operation, path: str) -> str:
    """The first public function with a body."""
    for block in module.regions[0].blocks if module.regions else []:
        for op in block.ops:
            name = op.get("sym_name")
            if op.name.endswith(".func") and name and op.regions and op.regions[0].blocks:
                if op.get("sym_visibility") == '"private"':
                    continue
                return parse_string(name)
    raise UsageError(f"{path} has no public function to call; name one with --entry")


def prepare_sized(
    program: Program, *, schedule: Schedule = Schedule.LOCK_STEP, mode: Mode = Mode.SOURCE
) -> tuple[Reference, str]:
    """Execute `program`, with open dynamic dimensions doubled from 2 until no access is out of bounds.

    Returns the reference and a line saying which size was chosen, empty when there was nothing to choose.
    """
    types = entry_types(read_module(program.text), program.entry).inputs
    open_ranks = {
        i: t
        for i, t in enumerate(types)
        if isinstance(t, MemRefType) and None in t.shape and i not in program.inputs.shapes
    }
    reference = prepare(program, schedule=schedule, mode=mode)
    size = 2
    while open_ranks and _too_small(reference) and size < LARGEST_DIMENSION:
        size *= 2
        shapes = {i: tuple(size if d is None else d for d in t.shape) for i, t in open_ranks.items()}
        inputs = replace(program.inputs, shapes={**program.inputs.shapes, **shapes})
        reference = prepare(replace(program, inputs=inputs), schedule=schedule, mode=mode)
    if not open_ranks:
        return reference, ""
    return reference, f"dynamic dimensions of {', '.join(f'argument {i}' for i in open_ranks)} set to {size}"


def _too_small(reference: Reference) -> bool:
    fault = reference.outcome.fault
    return reference.outcome.kind is OutcomeKind.UB and fault is not None and fault.rule == "out-of-bounds"

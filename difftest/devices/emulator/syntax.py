"""What a PTX text says, as plain tuples: operands, instructions, variables, functions, modules.

Chapters cited as "PTX ISA n" are those of NVIDIA's "Parallel Thread Execution ISA".
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from difftest.errors import UsageError


class PtxError(UsageError):
    """Text that is not PTX, with the 1-based line where reading stopped."""

    def __init__(self, message: str, *, line: int) -> None:
        super().__init__(f"line {line}: {message}")
        self.message = message
        self.line = line


class Register(NamedTuple):
    """`%r1`, `%tid.x` (special registers too), or `!%p1` when `negated`."""

    name: str
    negated: bool = False


class Immediate(NamedTuple):
    """A number: `kind` is "i" (an integer), "f" or "d" (the bits of an f32 or f64)."""

    value: int
    kind: str = "i"


class Symbol(NamedTuple):
    """A label, variable or function, perhaps with an offset in bytes."""

    name: str
    offset: int = 0


class Address(NamedTuple):
    """`[base+offset]`; the base is a register, a symbol, or None for an absolute address."""

    base: Register | Symbol | None
    offset: int = 0


class Vector(NamedTuple):
    """`{a, b}`."""

    items: tuple[Operand, ...]


class Pair(NamedTuple):
    """`d|p`: two destinations."""

    first: Operand
    second: Operand


class Group(NamedTuple):
    """`(a, b)`: parameters of a call."""

    items: tuple[Operand, ...]


class Sink(NamedTuple):
    """`_`: a result that nobody wants."""


Operand = Register | Immediate | Symbol | Address | Vector | Pair | Group | Sink


class Instruction(NamedTuple):
    """One instruction; `guard` is its predicate, `line` that of the text."""

    opcode: str
    operands: tuple[Operand, ...]
    guard: Register | None
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    """A variable or parameter in a state space: `type` is `b8` … `f64`, `count` its elements, `size` its bytes.

    `count` is 0 for an extern array of unknown length. `data` is the initial contents, if any.
    """

    name: str
    space: str
    type: str
    align: int
    count: int
    size: int
    data: bytes | None = None
    extern: bool = False
    line: int = 0


@dataclass(slots=True, kw_only=True)
class Function:
    """An `.entry` or `.func`. `body` is None for a declaration; `labels` map to positions in the body.

    `registers` map names to types (`b32`, `pred` …); families such as `%r<5>` are in `families` as prefix -> type.
    """

    name: str
    entry: bool
    parameters: tuple[Variable, ...] = ()
    results: tuple[Variable, ...] = ()
    body: list[Instruction] | None = None
    labels: dict[str, int] = field(default_factory=dict[str, int])
    registers: dict[str, str] = field(default_factory=dict[str, str])
    families: dict[str, tuple[str, int]] = field(default_factory=dict[str, tuple[str, int]])
    variables: dict[str, Variable] = field(default_factory=dict[str, Variable])
    tables: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    directives: dict[str, str] = field(default_factory=dict[str, str])
    line: int = 0


@dataclass(slots=True, kw_only=True)
class Module:
    """A whole PTX text."""

    version: str = ""
    target: str = ""
    functions: dict[str, Function] = field(default_factory=dict[str, Function])
    variables: dict[str, Variable] = field(default_factory=dict[str, Variable])


WIDTHS = {
    **{f"{kind}{width}": width for kind in "bus" for width in (8, 16, 32, 64, 128)},
    "f16": 16,
    "bf16": 16,
    "f32": 32,
    "f64": 64,
    "f16x2": 32,
    "bf16x2": 32,
    "pred": 1,
}
"""Bits of the fundamental types (PTX ISA 5.2)."""

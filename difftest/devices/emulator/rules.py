"""How a rule says what an opcode does. One file per opcode family in `ops/`, found by listing.

A file exports `RULES: dict[str, Rule]`: the first part of an opcode ("add") to a function of all its parts
(`("add", "rn", "f32")`) that returns a `Pure` rule, or a `Build` for what touches more than registers. It raises
`NoRuleError` for modifiers it does not know: then the instruction is unsupported when it is executed.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from difftest.devices.emulator.compile import Compiler
    from difftest.devices.emulator.lanes import Wave
    from difftest.devices.emulator.syntax import Instruction

Step = Callable[["Wave"], None]
Steps = tuple[Step, Step]
"""One instruction for a wave whose lanes are all active, and for one with a mask."""


class NoRuleError(Exception):
    """This opcode, modifier or operand has no rule."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pure:
    """A lane-wise function of registers and constants.

    `sources` are the types of its operands and `result` that of its value ("s32", "f64", "b16", "pred"); `compute`
    takes and returns arrays of `DTYPES`, of one element when a value is the same in all lanes. `second` computes the
    other predicate of a `p|q` pair.
    """

    compute: Callable[..., Any]
    sources: tuple[str, ...]
    result: str
    second: Callable[..., Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Build:
    """An instruction that compiles itself. `types` are those of its register operands, for choosing dtypes."""

    make: Callable[[Compiler, Instruction], Steps]
    types: tuple[str, ...] = ()


Rule = Callable[[tuple[str, ...]], "Pure | Build"]

DTYPES: dict[str, Any] = {
    **{f"{kind}{width}": np.dtype(f"i{width // 8}") for kind in "bs" for width in (8, 16, 32, 64)},
    **{f"u{width}": np.dtype(f"u{width // 8}") for width in (8, 16, 32, 64)},
    **{f"f{width}": np.dtype(f"f{width // 8}") for width in (16, 32, 64)},
    "bf16": np.dtype("u2"),
    "f16x2": np.dtype("u4"),
    "bf16x2": np.dtype("u4"),
    "pred": np.dtype("?"),
}
"""The dtype in which a value of a PTX type is computed. b types take the signed one: sums and logic do not care."""

NARROW = {"f16", "bf16"}


def ints(parts: tuple[str, ...], widths: tuple[int, ...] = (16, 32, 64), kinds: str = "su") -> str:
    """The type of an integer instruction, which is the last part of its opcode."""
    kind = parts[-1]
    if kind[:1] not in kinds or not kind[1:].isdigit() or int(kind[1:]) not in widths:
        raise NoRuleError(f"type {kind}")
    return kind


def only(parts: tuple[str, ...], *known: str) -> None:
    """Refuse modifiers other than `known` between an opcode's name and its type."""
    for part in parts[1:-1]:
        if part not in known:
            raise NoRuleError(f"modifier .{part}")


@cache
def all_rules() -> dict[str, Rule]:
    """Every rule by the first part of the opcode."""
    from difftest.devices.emulator import ops

    found: dict[str, Rule] = {}
    for info in pkgutil.iter_modules(ops.__path__):
        module = importlib.import_module(f"{ops.__name__}.{info.name}")
        found |= getattr(module, "RULES", {})
    return found


_MADE: dict[str, Pure | Build | NoRuleError] = {}


def rule_of(opcode: str) -> Pure | Build | NoRuleError:
    """What an opcode means; a NoRuleError is returned, not raised. Cached by opcode."""
    found = _MADE.get(opcode)
    if found is None:
        parts = tuple(opcode.split("."))
        rule = all_rules().get(parts[0])
        try:
            if rule is None:
                raise NoRuleError(opcode)
            found = rule(parts)
        except NoRuleError as error:
            found = NoRuleError(f"{opcode}: {error}")
        _MADE[opcode] = found
    return found


def opcode_families() -> tuple[str, ...]:
    """The first parts of all opcodes with a rule, control flow included."""
    return tuple(sorted({*all_rules(), "bra", "brx", "ret", "exit", "trap"}))


def is_supported(opcode: str) -> bool:
    """Whether an opcode (with its modifiers) has a rule; calls and loads may still refuse operands."""
    return opcode.split(".", 1)[0] in {"bra", "brx", "ret", "exit", "trap"} or not isinstance(
        rule_of(opcode), NoRuleError
    )

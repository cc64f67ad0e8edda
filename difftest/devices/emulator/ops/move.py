"""Moving data between registers (PTX ISA 9.7.9): mov, cvta, isspacep, mapping of addresses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from difftest.devices.emulator.closures import assign, nothing
from difftest.devices.emulator.memory import ORIGIN
from difftest.devices.emulator.rules import Build, NoRuleError, Rule, Steps
from difftest.devices.emulator.syntax import Immediate, Operand, Register, Sink, Symbol, Vector
from difftest.devices.emulator.typed import np

if TYPE_CHECKING:
    from difftest.devices.emulator.compile import Compiler
    from difftest.devices.emulator.syntax import Instruction

_MOVES = frozenset({"pred", *(f"{kind}{width}" for kind in "bsu" for width in (16, 32, 64)), "f32", "f64"})


def _mov(parts: tuple[str, ...]) -> Build:
    """mov (9.7.9.3, 9.7.9.4): a register, constant, special register or variable's address; packs and unpacks."""
    if len(parts) != 2 or parts[1] not in _MOVES:
        raise NoRuleError("modifiers")
    kind = parts[1]
    if kind[0] not in "fp":
        kind = "b" + kind[1:]

    def make(compiler: Compiler, instruction: Instruction) -> Steps:
        if len(instruction.operands) != 2:
            raise NoRuleError("operands")
        target, source = instruction.operands
        if isinstance(target, Vector):
            return _unpack(compiler, target, source, kind, instruction.line)
        if not isinstance(target, Register):
            raise NoRuleError("destination")
        if isinstance(source, Vector):
            return _pack(compiler, target, source, kind, instruction.line)
        return _move(compiler, target, source, kind, instruction.line)

    return Build(make=make, types=(kind, kind))


def _move(compiler: Compiler, target: Register, source: Operand, kind: str, line: int) -> Steps:
    slot = compiler.slot(target, line)
    have = compiler.dtypes[slot]
    if isinstance(source, Register):
        at, cast, _ = compiler.source(source, kind, line)
        if cast == "narrow" or have.itemsize * 8 < (1 if kind == "pred" else int(kind[1:])):
            raise NoRuleError("widths")
        view = compiler.dtypes[at] != have
    elif isinstance(source, Immediate | Symbol):
        at, _, _ = compiler.source(source, kind, line)
        view = compiler.dtypes[at] != have
    else:
        raise NoRuleError("operand")
    if view and compiler.dtypes[at].itemsize != have.itemsize:
        raise NoRuleError("widths")

    def full(w: Any) -> None:
        r = w.r
        r[slot] = r[at].view(have) if view else r[at]

    if compiler.is_local(target):
        return full, full

    def masked(w: Any) -> None:
        assign(w, slot, w.r[at].view(have) if view else w.r[at])

    return full, masked


def _pack(compiler: Compiler, target: Register, source: Vector, kind: str, line: int) -> Steps:
    part = f"u{int(kind[1:]) // len(source.items)}"
    sources = [compiler.source(item, part, line) for item in source.items]
    if any(cast == "narrow" for _, cast, _ in sources):
        raise NoRuleError("widths")
    slot = compiler.slot(target, line)
    have = compiler.dtypes[slot]
    if have.itemsize * 8 != int(kind[1:]):
        raise NoRuleError("widths")

    def run(w: Any) -> None:
        values = [w.r[at].view(dtype) for at, _, dtype in sources]
        n = max(len(v) for v in values)
        rows = np.stack([np.broadcast_to(v, n) for v in values], axis=1)
        assign(w, slot, np.ascontiguousarray(rows).view(have).reshape(-1))

    return run, run


def _unpack(compiler: Compiler, target: Vector, source: Operand, kind: str, line: int) -> Steps:
    at, cast, dtype = compiler.source(source, kind, line)
    if cast == "narrow":
        raise NoRuleError("widths")
    part = np.dtype(f"i{dtype.itemsize // len(target.items)}")
    slots: list[tuple[int, int, Any]] = []
    for number, item in enumerate(target.items):
        if isinstance(item, Sink):
            continue
        if not isinstance(item, Register):
            raise NoRuleError("destination")
        slot = compiler.slot(item, line)
        if compiler.dtypes[slot].itemsize != part.itemsize:
            raise NoRuleError("widths")
        slots.append((number, slot, compiler.dtypes[slot]))

    def run(w: Any) -> None:
        rows = np.ascontiguousarray(w.r[at]).view(part).reshape(-1, len(target.items))
        for number, slot, have in slots:
            assign(w, slot, np.ascontiguousarray(rows[:, number]).view(have))

    return run, run


def _cvta(parts: tuple[str, ...]) -> Build:
    """cvta (9.7.9.20): global addresses are generic ones; shared and local windows begin per block and per thread."""
    to = "to" in parts
    space = parts[2] if to and len(parts) > 2 else parts[1] if len(parts) > 1 else ""
    if (
        space not in {"global", "const", "shared", "local", "param"}
        or parts[-1:] != ("u64",)
        or len(parts) != (4 if to else 3)
    ):
        raise NoRuleError("modifiers")

    def make(compiler: Compiler, instruction: Instruction) -> Steps:
        if len(instruction.operands) != 2:
            raise NoRuleError("operands")
        target, source = instruction.operands
        if not isinstance(target, Register):
            raise NoRuleError("destination")
        if space in {"global", "const"}:
            return _move(compiler, target, source, "b64", instruction.line)
        at, cast, _ = compiler.source(source, "b64", instruction.line)
        slot = compiler.slot(target, instruction.line)
        have = compiler.dtypes[slot]
        if cast == "narrow" or have.itemsize != 8:
            raise NoRuleError("widths")

        def run(w: Any) -> None:
            start = {"shared": w.shared, "local": w.local}.get(space, w.launch.parameter_window)
            value = w.r[at].view(np.int64)
            assign(w, slot, (value - start if to else value + start).view(have))

        return run, run

    return Build(make=make, types=("b64", "b64"))


def _isspacep(parts: tuple[str, ...]) -> Build:
    """isspacep (9.7.9.19)."""
    space = parts[1] if len(parts) == 2 else ""
    if space not in {"global", "shared", "local", "const"}:
        raise NoRuleError("modifiers")

    def make(compiler: Compiler, instruction: Instruction) -> Steps:
        if len(instruction.operands) != 2 or not isinstance(instruction.operands[0], Register):
            raise NoRuleError("operands")
        at, _, _ = compiler.source(instruction.operands[1], "b64", instruction.line)
        slot = compiler.slot(instruction.operands[0], instruction.line)

        def run(w: Any) -> None:
            place = w.r[at].view(np.int64) - ORIGIN
            assign(w, slot, w.launch.in_space(place, space))

        return run, run

    return Build(make=make, types=("pred", "b64"))


def _ignored(parts: tuple[str, ...]) -> Build:
    """Hints without a meaning for values: prefetch, prefetchu, discard-free cache controls (9.7.9.15-9.7.9.18)."""
    if parts[0] == "discard":
        raise NoRuleError("discard")
    return Build(make=lambda compiler, instruction: (nothing, nothing))


RULES: dict[str, Rule] = {
    "mov": _mov,
    "cvta": _cvta,
    "isspacep": _isspacep,
    "prefetch": _ignored,
    "prefetchu": _ignored,
    "nanosleep": _ignored,
}

"""Loads and stores (PTX ISA 9.7.9.8-9.7.9.13) in every state space."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from difftest.devices.emulator.closures import in_order, nothing
from difftest.devices.emulator.memory import BASE
from difftest.devices.emulator.rules import DTYPES, Build, NoRuleError, Rule, Steps
from difftest.devices.emulator.syntax import WIDTHS, Address, Register, Sink, Symbol, Vector

if TYPE_CHECKING:
    from difftest.devices.emulator.compile import Compiler
    from difftest.devices.emulator.syntax import Instruction, Operand

SPACES = frozenset({"global", "shared", "local", "const", "param"})
# Cache operators, eviction priorities and prefetch sizes do not change values.
_HINTS = frozenset(
    {"ca", "cg", "cs", "lu", "cv", "wb", "wt", "nc", "unified", "weak", "L1::evict_last", "L1::evict_normal",
     "L1::evict_first", "L1::evict_unchanged", "L1::no_allocate", "L2::64B", "L2::128B", "L2::256B", "gpu", "cta",
     "sys", "cluster"}
)  # fmt: skip
# "Strong" accesses may meet other strong ones (8.4): they count as atomic. Volatile ones are relaxed.sys (8.4.1).
_STRONG = frozenset({"relaxed", "acquire", "release", "volatile", "mmio"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """What an ld or st opcode says; `count` elements of `kind`, each 2**`width` bytes."""

    space: str
    kind: str
    width: int
    count: int = 1
    atomic: bool = False


def parse_access(parts: tuple[str, ...]) -> Access:
    """Read the modifiers of ld and st. Raises NoRuleError."""
    space, count, atomic = "generic", 1, False
    for part in parts[1:-1]:
        name = part.split("::", 1)[0] if part.startswith(("shared::cta", "param::")) else part
        if name in SPACES:
            space = name
        elif name in {"v2", "v4"}:
            count = int(name[1])
        elif name in _STRONG:
            atomic = True
        elif name not in _HINTS:
            raise NoRuleError(f"modifier .{part}")
    kind = parts[-1]
    bits = WIDTHS.get(kind, 0)
    if bits not in {8, 16, 32, 64} or kind.endswith("x2"):
        raise NoRuleError(f"type .{kind}")
    return Access(space=space, kind=kind, width=bits.bit_length() - 4, count=count, atomic=atomic)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where an address operand points: a slot with the address, and what to take off it to count in the arena."""

    slot: int
    origin: Any
    space: str
    unsigned: bool

    def of(self, w: Any) -> tuple[Any, Any]:
        """(addresses, origin) of the active lanes."""
        a = w.r[self.slot]
        if self.unsigned:
            a = a.view(np.uint32).astype(np.int64)
        space = self.space
        if space == "shared":
            a = a + w.shared
        elif space == "local":
            a = a + w.local
        elif space == "param":
            a = a + w.launch.parameter_window
        return (a if w.mask is None or len(a) == 1 else a[w.index]), self.origin


def find_place(compiler: Compiler, operand: Operand, space: str, line: int) -> Place:
    """The place of an address operand. Raises NoRuleError for what is none."""
    if not isinstance(operand, Address):
        raise NoRuleError("address")
    base, offset = operand.base, operand.offset
    origin = np.int64(BASE)
    if isinstance(base, Register):
        width = compiler.width(base, line)
        slot = compiler.slot(base, line)
        if width not in {32, 64} or compiler.dtypes[slot].kind == "f":
            raise NoRuleError("address register")
        return Place(slot=slot, origin=np.int64(BASE - offset), space=space, unsigned=width == 32)
    number = offset
    if isinstance(base, Symbol):
        number += compiler.symbol(base, line)
        if compiler.names.spaces.get(base.name, space) != space and space != "generic":
            raise NoRuleError(f"{base.name} is not in .{space}")
        if space == "generic":
            space = compiler.names.spaces.get(base.name, space)
    slot = compiler.constant(number, np.dtype("i8"))
    return Place(slot=slot, origin=origin, space=space, unsigned=False)


def _items(operand: Operand, count: int) -> tuple[Operand, ...]:
    items = operand.items if isinstance(operand, Vector) else (operand,)
    if len(items) != count:
        raise NoRuleError("vector length")
    return items


def _ld(parts: tuple[str, ...]) -> Build:
    """ld, ld.global.nc, ldu (9.7.9.8-9.7.9.10): sign or zero extension up to the register's width."""
    access = parse_access(parts)

    def make(compiler: Compiler, instruction: Instruction) -> Steps:
        if len(instruction.operands) != 2:
            raise NoRuleError("operands")
        target, address = instruction.operands
        line = instruction.line
        if access.space == "param" and not (isinstance(address, Address) and isinstance(address.base, Register)):
            from difftest.devices.emulator.ops.call import load_param

            return load_param(compiler, instruction, access)
        place = find_place(compiler, address, access.space, line)
        _note_width(compiler, access)
        steps: list[Steps] = []
        for number, item in enumerate(_items(target, access.count)):
            if isinstance(item, Sink):
                continue
            shifted = _moved(place, number << access.width)
            steps.append(_load_one(compiler, item, shifted, access, line))
        if access.count == 1:
            return steps[0]
        check = _aligned(place, access, line)
        return in_order([check, *(s[0] for s in steps)]), in_order([check, *(s[1] for s in steps)])

    return Build(make=make, types=(access.kind.replace("f", "b"),))


def _moved(place: Place, offset: int) -> Place:
    return Place(
        slot=place.slot, origin=np.int64(int(place.origin) - offset), space=place.space, unsigned=place.unsigned
    )


def _note_width(compiler: Compiler, access: Access) -> None:
    """The narrowest access to memory that threads share decides how fine races are watched."""
    if access.space != "local":
        compiler.code.granule = min(compiler.code.granule, access.width)


def _aligned(place: Place, access: Access, line: int) -> Any:
    """Vector accesses must be aligned as a whole (9.7.9.8)."""
    low = np.int64((access.count << access.width) - 1)

    def run(w: Any) -> None:
        address, origin = place.of(w)
        wrong = ((address - origin) & low) != 0
        if wrong.any():
            width = access.width + access.count.bit_length() - 1
            raise w.memory.misaligned(w, address - origin, width, line)

    return run


def result_dtype(have: Any, kind: str) -> tuple[Any, Any]:
    """The dtype to load a type as for a register, and the one to widen it to (or None)."""
    want = DTYPES[kind] if kind[0] != "b" else DTYPES["u" + kind[1:]]
    if kind in {"f16", "bf16"}:
        want = np.dtype("i2")
    if want.itemsize == have.itemsize:
        return have, None
    if want.itemsize > have.itemsize or want.kind == "f" or have.kind == "f":
        raise NoRuleError("register width")
    return want, have


def _load_one(compiler: Compiler, target: Operand, place: Place, access: Access, line: int) -> Steps:
    if not isinstance(target, Register):
        raise NoRuleError("destination")
    slot = compiler.slot(target, line)
    dtype, widened = result_dtype(compiler.dtypes[slot], access.kind)
    width, atomic = access.width, access.atomic or target.name in compiler.expected
    private = place.space in {"local", "param"}
    local = compiler.is_local(target)

    def full(w: Any) -> None:
        value = w.memory.load(w, place.of(w), width, dtype, line, private=private, atomic=atomic)
        w.r[slot] = value if widened is None else value.astype(widened)

    def masked(w: Any) -> None:
        mask = w.mask
        if mask is None:
            full(w)
            return
        value = w.memory.load(w, place.of(w), width, dtype, line, private=private, atomic=atomic)
        if widened is not None:
            value = value.astype(widened)
        if len(value) == 1 and w.count > 1 and local:
            w.r[slot] = value
            return
        out = np.zeros(w.n, value.dtype) if local else np.array(w.spread(w.r[slot]))
        out[w.index] = value
        w.r[slot] = out

    return full, masked


def _st(parts: tuple[str, ...]) -> Build:
    """st (9.7.9.11)."""
    access = parse_access(parts)

    def make(compiler: Compiler, instruction: Instruction) -> Steps:
        if len(instruction.operands) != 2:
            raise NoRuleError("operands")
        address, source = instruction.operands
        if access.space == "param":
            from difftest.devices.emulator.ops.call import store_param

            return store_param(compiler, instruction, access)
        line = instruction.line
        place = find_place(compiler, address, access.space, line)
        _note_width(compiler, access)
        steps = [
            _store_one(compiler, item, _moved(place, number << access.width), access, line)
            for number, item in enumerate(_items(source, access.count))
        ]
        if access.count > 1:
            steps.insert(0, _aligned(place, access, line))
        step = steps[0] if len(steps) == 1 else in_order(steps)
        return step, step

    return Build(make=make, types=("b64", access.kind.replace("f", "b")))


def stored_value(compiler: Compiler, source: Operand, kind: str, line: int) -> tuple[int, Any]:
    """The slot of a stored value, and the narrower dtype it is cut to (or None)."""
    bits = WIDTHS[kind]
    if isinstance(source, Register):
        slot = compiler.slot(source, line)
        have = compiler.dtypes[slot]
        if have.kind == "b" or have.itemsize * 8 < bits or (have.kind == "f" and have.itemsize * 8 != bits):
            raise NoRuleError("register width")
        return slot, None if have.itemsize * 8 == bits else DTYPES[f"u{bits}"]
    base = kind if kind in {"f32", "f64"} else f"b{bits}"
    slot, _, _ = compiler.source(source, base, line)
    return slot, None


def _store_one(compiler: Compiler, source: Operand, place: Place, access: Access, line: int) -> Any:
    slot, cut = stored_value(compiler, source, access.kind, line)
    width, atomic = access.width, access.atomic
    private = place.space == "local"

    def run(w: Any) -> None:
        value = w.r[slot]
        if cut is not None:
            value = value.astype(cut)
        if w.mask is not None and len(value) != 1:
            value = value[w.index]
        w.memory.store(w, place.of(w), value, width, line, private=private, atomic=atomic)

    return run


def _fence(parts: tuple[str, ...]) -> Build:
    """membar, fence (9.7.13.5): they order one thread's accesses; races between threads stay races (SEMANTICS §9)."""
    del parts
    return Build(make=lambda compiler, instruction: (nothing, nothing))


RULES: dict[str, Rule] = {"ld": _ld, "ldu": _ld, "st": _st, "membar": _fence, "fence": _fence}

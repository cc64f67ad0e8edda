"""Atomic updates (PTX ISA 9.7.13.6 atom, 9.7.13.7 red): lanes that meet in one cell go one after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from difftest.devices.emulator.ops.access import SPACES, find_place
from difftest.devices.emulator.ops.floating import narrow, widen
from difftest.devices.emulator.rules import DTYPES, NARROW, Build, NoRuleError, Rule, Steps
from difftest.devices.emulator.syntax import WIDTHS, Register, Sink
from difftest.devices.emulator.typed import np, two

if TYPE_CHECKING:
    from difftest.devices.emulator.compile import Compiler
    from difftest.devices.emulator.syntax import Instruction

_ORDERS = frozenset({"relaxed", "acquire", "release", "acq_rel", "cta", "gpu", "sys", "cluster", "noftz"})


def _increment(old: Any, limit: Any) -> Any:
    return np.where(old >= limit, 0, old + old.dtype.type(1)).astype(old.dtype)


def _decrement(old: Any, limit: Any) -> Any:
    return np.where((old == 0) | (old > limit), limit, old - old.dtype.type(1)).astype(old.dtype)


def _exchange(old: Any, new: Any) -> Any:
    del old
    return new


def _compare_and_swap(old: Any, expected: Any, new: Any) -> Any:
    return np.where(old == expected, new, old)


_UPDATES: dict[str, Any] = {
    "add": np.add,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "min": np.minimum,
    "max": np.maximum,
    "inc": _increment,
    "dec": _decrement,
    "exch": _exchange,
    "cas": _compare_and_swap,
}
_INTEGERS = frozenset({"u32", "s32", "u64", "s64"})
_BITS = frozenset({"b32", "b64"})
_ANY = frozenset({"b16", "b32", "b64", "u32", "u64", "s32", "f32"})
_TYPES: dict[str, frozenset[str]] = {
    "add": _INTEGERS | {"f16", "bf16", "f32", "f64", "f16x2", "bf16x2"},
    "and": _BITS,
    "or": _BITS,
    "xor": _BITS,
    "min": _INTEGERS | {"f16", "bf16"},
    "max": _INTEGERS | {"f16", "bf16"},
    "inc": frozenset({"u32"}),
    "dec": frozenset({"u32"}),
    "exch": _ANY,
    "cas": _ANY,
}


def update_cells(cells: Any, index: Any, values: list[Any], compute: Any) -> Any:
    """Apply `compute(old, *values)` to cells `index` (one per lane) in the order of lanes; the old values."""
    order = np.argsort(index, kind="stable")
    ordered = index[order]
    begins = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    lengths = np.diff(np.concatenate([begins, [len(ordered)]]))
    rounds = int(lengths.max())
    if rounds == 1:
        old = cells[index]
        cells[index] = compute(old, *values)
        return old
    old = np.zeros(len(index), cells.dtype)
    if isinstance(compute, np.ufunc) and len(begins) < rounds:
        for begin, length in zip(begins, lengths, strict=True):
            lanes = order[begin : begin + length]
            cell = ordered[begin]
            steps = compute.accumulate(np.concatenate([cells[cell : cell + 1], values[0][lanes]]))
            old[lanes], cells[cell] = steps[:-1], steps[-1]
        return old
    for number in range(rounds):
        lanes = order[begins[lengths > number] + number]
        where = index[lanes]
        before = cells[where]
        old[lanes] = before
        cells[where] = compute(before, *(v[lanes] for v in values))
    return old


def _function(name: str, kind: str) -> tuple[Any, str]:
    """The update as a function of arrays, and the type its arrays have."""
    compute = _UPDATES[name]
    if kind in NARROW:
        if name not in {"add", "min", "max"}:
            raise NoRuleError(f"type .{kind}")
        wide, back = widen(kind), narrow(kind)
        single = {"add": np.add, "min": np.fmin, "max": np.fmax}[name]
        return (two(lambda old, b: back(single(wide(old), wide(b))))), kind
    if kind.endswith("x2"):
        inner, half = _function(name, kind[:-2])
        dtype = DTYPES[half]
        return (
            two(
                lambda old, b: np.ascontiguousarray(
                    inner(np.ascontiguousarray(old).view(dtype), np.ascontiguousarray(b).view(dtype))
                ).view(np.uint32)
            )
        ), "u32"
    return compute, kind


def _parse(parts: tuple[str, ...]) -> tuple[str, str, str]:
    """(space, operation, type)."""
    space, name, kind = "generic", "", parts[-1]
    for part in parts[1:-1]:
        plain = "shared" if part == "shared::cta" else part
        if plain in SPACES - {"param", "const", "local"}:
            space = plain
        elif part in _UPDATES and not name:
            name = part
        elif part not in _ORDERS:
            raise NoRuleError(f"modifier .{part}")
    if kind not in _TYPES.get(name, frozenset[str]()):
        raise NoRuleError(f"{name}.{kind}")
    return space, name, kind


def _atom(parts: tuple[str, ...]) -> Build:
    """atom returns the value before the update, red returns nothing."""
    returns = parts[0] == "atom"
    space, name, kind = _parse(parts)
    compute, kind = _function(name, kind)
    width = WIDTHS[kind].bit_length() - 4
    dtype = DTYPES[kind]
    values_needed = 2 if name == "cas" else 1

    def make(compiler: Compiler, instruction: Instruction) -> Steps:
        operands, line = list(instruction.operands), instruction.line
        target = operands.pop(0) if returns and operands else Sink()
        if len(operands) != 1 + values_needed or not isinstance(target, Register | Sink):
            raise NoRuleError("operands")
        place = find_place(compiler, operands[0], space, line)
        sources = [compiler.source(o, kind, line) for o in operands[1:]]
        if any(cast == "narrow" for _, cast, _ in sources):
            raise NoRuleError("register width")
        slot = -1 if isinstance(target, Sink) else compiler.slot(target, line)
        cast = None if slot < 0 else compiler.result_cast(slot, kind)
        compiler.code.granule = min(compiler.code.granule, width)

        def run(w: Any) -> None:
            values = [w.pick(w.r[at]).view(dtype) for at, _, _ in sources]
            values = [np.broadcast_to(v, w.count) for v in values]
            index = w.memory.atomic(w, place.of(w), width, line)
            old = update_cells(w.memory.cells(dtype), index, values, compute)
            if slot < 0:
                return
            if cast is not None:
                old = old.view(cast[1]) if cast[0] == "view" else old.astype(cast[1])
            if w.mask is None:
                w.r[slot] = old
                return
            out = np.array(w.spread(w.r[slot]))
            out[w.index] = old
            w.r[slot] = out

        return run, run

    types = (kind, "b64", kind) if returns else ("b64", kind)
    return Build(make=make, types=types)


RULES: dict[str, Rule] = {"atom": _atom, "red": _atom}

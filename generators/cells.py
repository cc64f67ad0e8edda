"""Cell indices: which cells may be touched here, and by which index expressions. SEMANTICS §6 and §9.

Disjointness is by construction.  Under parallel frames a written buffer is *claimed*: every iteration vector owns
the cells an injective map gives it, and only owned cells are loaded or stored.  A buffer that is only read in a
parallel nest is *shared* and may be loaded anywhere.  Claims end when the frame above the buffer's home joins.
"""

from __future__ import annotations

from collections.abc import Sequence

from generators.context import Context
from generators.safety import clamp_index
from generators.scope import DIM, NONE, SYMBOL, Buffer, Claim, Value
from generators.types import MAXIMUM, TWO


def inner_ivs(c: Context, buffer: Buffer) -> list[Value]:
    """The parallel induction variables beyond the buffer's home."""
    return [iv for frame in c.frames[buffer.home :] for iv in frame.ivs]


def grouping(c: Context, buffer: Buffer, ivs: Sequence[Value]) -> tuple[int, ...] | None:
    """How many variables index each dimension, or None when the buffer is too small or too flat."""
    extents = [iv.hi - iv.lo + 1 for iv in ivs]
    rank = len(buffer.shape)
    if rank == len(ivs):
        return (1,) * rank if all(e <= s for e, s in zip(extents, buffer.shape, strict=True)) else None
    if rank == 1:
        total = 1
        for extent in extents:
            total *= extent
        return (len(ivs),) if total <= buffer.shape[0] else None
    return None


def cells_of(claim: Claim, c: Context, buffer: Buffer) -> list[Value | None] | None:
    """The variables that index the claimed cell here; None stands for "any value" of a finished child's variable.

    Returns None when the claim's frames are not on one line with the current ones.
    """
    current = c.frames[buffer.home :]
    claimed = claim.frames
    shorter = min(len(current), len(claimed))
    if claimed[:shorter] != current[:shorter]:
        return None
    own: list[Value | None] = []
    for depth, frame in enumerate(claimed):
        own.extend(frame.ivs if depth < shorter else [None] * len(frame.ivs))
    return own


def _term(c: Context, iv: Value | None, claimed: Value, *, flip: bool) -> Value | int:
    """One variable's digit: its distance from its lower (or, flipped, upper) end."""
    extent = claimed.hi - claimed.lo
    if iv is None:
        return c.source.integer(0, extent) if extent < 64 else 0
    if not extent and not c.source.boolean(10):
        return 0
    if flip:
        text = f'"arith.subi"({c.index(claimed.hi)}, {iv.name}){TWO["index"]}'
    elif claimed.lo == 0:
        return iv
    else:
        text = f'"arith.subi"({iv.name}, {c.index(claimed.lo)}){TWO["index"]}'
    digit = c.define("index", text, 0, extent)
    digit.used = True
    return digit


def _combine(c: Context, high: Value | int, extent: int, digit: Value | int) -> Value | int:
    """high * extent + digit."""
    if isinstance(high, int) and isinstance(digit, int):
        return high * extent + digit
    if isinstance(high, int):
        scaled: Value | int = high * extent
    elif extent == 1:
        scaled = high
    else:
        scaled = c.define("index", f'"arith.muli"({high.name}, {c.index(extent)}){TWO["index"]}', 0, high.hi * extent)
        scaled.used = True
    if scaled == 0:
        return digit
    if digit == 0:
        return scaled
    top = (scaled if isinstance(scaled, int) else scaled.hi) + (digit if isinstance(digit, int) else digit.hi)
    total = c.define("index", f'"arith.addi"({name_of(c, scaled)}, {name_of(c, digit)}){TWO["index"]}', 0, top)
    total.used = True
    return total


def name_of(c: Context, index: Value | int) -> str:
    """The SSA name of an index that may be a plain number."""
    return c.index(index) if isinstance(index, int) else index.name


def claimed_indices(c: Context, claim: Claim, own: Sequence[Value | None]) -> list[str]:
    """Emit the index computations of the own cell; one name per dimension."""
    claimed = [iv for frame in claim.frames for iv in frame.ivs]
    names: list[str] = []
    position = 0
    for size in claim.groups:
        total: Value | int = 0
        for k in range(position, position + size):
            digit = _term(c, own[k], claimed[k], flip=bool(claim.flips >> k & 1))
            total = _combine(c, total, claimed[k].hi - claimed[k].lo + 1, digit)
        position += size
        names.append(name_of(c, total))
    return names


def claimed_map(claim: Claim, own: Sequence[Value | None]) -> tuple[str, list[str]] | None:
    """The own cell as (affine map text, operand names), if every variable is a valid dim here."""
    claimed = [iv for frame in claim.frames for iv in frame.ivs]
    results: list[str] = []
    operands: list[str] = []
    position = 0
    for size in claim.groups:
        text, constant = "", 0
        for k in range(position, position + size):
            iv, extent = own[k], claimed[k].hi - claimed[k].lo + 1
            if iv is None or iv.affine == NONE:
                return None
            flip = bool(claim.flips >> k & 1)
            digit = f"d{len(operands)}" if not flip else f"d{len(operands)} * -1"
            operands.append(iv.name)
            constant = constant * extent + (claimed[k].hi if flip else -claimed[k].lo)
            text = f"({text}) * {extent} + {digit}" if text else digit
        position += size
        results.append(_shifted(text, constant) if text else str(constant))
    dims = ", ".join(f"d{i}" for i in range(len(operands)))
    return f"affine_map<({dims}) -> ({', '.join(results)})>", operands


def _shifted(text: str, constant: int) -> str:
    if not constant:
        return text
    return f"{text} + {constant}" if constant > 0 else f"{text} - {-constant}"


def index_within(c: Context, size: int) -> str:
    """An index in 0..size-1: an iteration variable (shifted if needed), another index, clamped, or a constant."""
    if size > 1 and c.iterators and c.source.boolean(75):
        iv = c.iterators[len(c.iterators) - 1 - c.source.recent(len(c.iterators))]
        iv.used = True
        if iv.lo >= 0 and iv.hi < size:
            return iv.name
        if iv.hi - iv.lo < size:
            return _shift(c, iv, c.source.integer(-iv.lo, size - 1 - iv.hi))
    pool = c.pools["index"]
    if pool and size > 1 and c.source.boolean(50):
        value = pool[len(pool) - 1 - c.source.recent(len(pool))]
        if value.lo > -MAXIMUM["index"]:
            return clamp_index(c, value, size).name
    return c.index(c.source.integer(0, size - 1))


def _shift(c: Context, iv: Value, by: int) -> str:
    if by == 0:
        return iv.name
    op = "addi" if by > 0 else "subi"
    shifted = c.define("index", f'"arith.{op}"({iv.name}, {c.index(abs(by))}){TWO["index"]}', iv.lo + by, iv.hi + by)
    shifted.used = True
    return shifted.name


def map_within(c: Context, shape: Sequence[int]) -> tuple[str, list[str]] | None:
    """In-bounds affine subscripts from iteration variables valid in affine maps: (map text, operands), or None."""
    usable = [iv for iv in c.iterators if iv.affine == DIM]
    if not usable:
        return None
    results: list[str] = []
    operands: list[str] = []
    for size in shape:
        iv = usable[len(usable) - 1 - c.source.recent(len(usable))]
        if iv.hi - iv.lo < size and c.source.boolean(85):
            iv.used = True
            lowest, highest = -iv.lo, size - 1 - iv.hi
            by = 0 if lowest <= 0 <= highest and c.source.boolean(60) else c.source.integer(lowest, highest)
            results.append(_shifted(f"d{len(operands)}", by))
            operands.append(iv.name)
        else:
            results.append(str(c.source.integer(0, size - 1)))
    dims = ", ".join(f"d{i}" for i in range(len(operands)))
    return f"affine_map<({dims}) -> ({', '.join(results)})>", operands


def symbol_or_dim(value: Value) -> bool:
    """Whether affine ops may take the value as an operand."""
    return value.affine in {SYMBOL, DIM}

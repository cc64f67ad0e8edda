"""Blocks: fill one with constructs, then let what is still unused reach an observed cell or a result."""

from __future__ import annotations

from collections.abc import Sequence

from generators.arith import boolean, cast_integer, integer
from generators.context import Context
from generators.floating import add, cast_float, choose, floating
from generators.memory import cells, load_text, load_typed, loaded, store_value
from generators.scope import Mark, Value
from generators.source import Weighted
from generators.types import COMPARE, FLOAT_DIGITS, SELECT, TWO

_MERGES = 6
"""Most unused values that one store combines."""


def scalar(c: Context, type: str) -> Value | None:
    """A new scalar of `type`. Loads one first when nothing of the type is in scope; None when nothing can be."""
    if not c.pools[type] and (type == "index" or load_typed(c, "i32" if type == "i1" else type) is None):
        return None
    return floating(c, type) if type in FLOAT_DIGITS else integer(c, type)


def scalar_family(c: Context) -> None:
    """Family: one scalar operation, in differentiated code mostly on the differentiated type."""
    if c.active is not None and c.source.boolean(60):
        scalar(c, c.active.element)
        return
    for _ in range(3):
        if scalar(c, c.source.weighted(c.tables.types)) is not None:
            return


def fill(c: Context, table: Weighted[str], ops: int) -> None:
    """Emit constructs of `table` until about `ops` operations were added."""
    target = c.ops + ops
    for _ in range(ops + 4):
        if c.ops >= target:
            return
        c.families[c.source.weighted(table)](c)


def convert(c: Context, value: Value, type: str) -> Value | None:
    """`value` as `type`, or None when no exact conversion exists."""
    if value.type == type:
        return value
    if type not in FLOAT_DIGITS:
        return cast_integer(c, value, type) if not value.slope else None
    if value.type != "index":
        return cast_float(c, value, type)
    whole = cast_integer(c, value, "i32")
    return None if whole is None else cast_float(c, whole, type)


def merge(c: Context, a: Value, b: Value) -> Value | None:
    """One value that depends on both."""
    type = a.type
    if type in FLOAT_DIGITS:
        return add(c, a, b) or choose(c, a, b, "arith.maximumf")
    op = c.source.choice(("arith.addi", "arith.xori", "arith.subi"))
    a.used = b.used = True
    if type == "i1":
        return c.define(type, f'"arith.xori"({a.name}, {b.name}){TWO[type]}', -1, 0)
    if op == "arith.xori" and type != "index":
        return c.define(type, f'"arith.xori"({a.name}, {b.name}){TWO[type]}', *_span(a, b))
    lo, hi = (a.lo + b.lo, a.hi + b.hi) if op != "arith.subi" else (a.lo - b.hi, a.hi - b.lo)
    op = "arith.addi" if op == "arith.xori" else op
    return c.wrapped(type, f'"{op}"({a.name}, {b.name}){TWO[type]}', lo, hi)


def _span(a: Value, b: Value) -> tuple[int, int]:
    top = max(abs(a.lo), abs(a.hi), abs(b.lo), abs(b.hi))
    bound = (1 << top.bit_length()) - 1
    return (0 if a.lo >= 0 and b.lo >= 0 else -bound - 1), bound


def gather(c: Context, mark: Mark, type: str, *, inactive: bool = False) -> Value:
    """A value of `type` that depends on (up to `_MERGES`) values of this block not used so far."""
    _read_locals(c, mark)
    total: Value | None = None
    flags: list[Value] = []
    merged = 0
    for value in c.unused_since(mark):
        if merged >= _MERGES:
            break
        if value.type == "i1" and type != "i1":
            flags.append(value)
            continue
        if inactive and value.slope:
            continue
        same = convert(c, value, type)
        if same is None or same is total:
            continue
        both = same if total is None else merge(c, total, same)
        total = total if both is None else both
        merged += 1
    if total is None or total.type != type:
        total = _something(c, type, inactive=inactive)
    for flag in flags[:2]:
        total = _guarded(c, flag, total)
    return total


def _something(c: Context, type: str, *, inactive: bool) -> Value:
    pool = [v for v in c.pools[type] if not (inactive and v.slope)]
    if pool:
        return pool[len(pool) - 1 - c.source.recent(len(pool))]
    loaded = None if inactive or type in {"i1", "index"} else load_typed(c, type)
    return c.drawn_constant(type) if loaded is None else loaded


def _guarded(c: Context, flag: Value, value: Value) -> Value:
    """select flag, value, other: the flag reaches what the value reaches."""
    other = c.drawn_constant(value.type)
    flag.used = value.used = True
    text = f'"arith.select"({flag.name}, {value.name}, {other.name}){SELECT[value.type]}'
    if value.type not in FLOAT_DIGITS:
        return c.define(value.type, text, min(value.lo, other.lo), max(value.hi, other.hi))
    frac = max(value.frac, other.frac)
    num = max(value.hi << (frac - value.frac), other.hi << (frac - other.frac))
    chosen = c.exact(value.type, text, (frac, num), (value.slope_frac, value.slope))
    return value if chosen is None else chosen


def result_type(c: Context, mark: Mark) -> str:
    """The type in which this block's unused values are best combined."""
    counts: dict[str, int] = {}
    for value in c.unused_since(mark):
        if value.type not in {"i1", "index"}:
            counts[value.type] = counts.get(value.type, 0) + 1 + (value.slope > 0)
    if counts:
        return max(counts, key=lambda t: counts[t])
    return drawn_type(c)


def drawn_type(c: Context) -> str:
    """A storable type, by the profile's weights."""
    type = c.source.weighted(c.tables.types)
    return "i64" if type in {"index", "i1"} else type


def flush(c: Context, mark: Mark) -> None:
    """Store what the block computed and nothing used, in at most three stores (at least one)."""
    for attempt in range(3):
        if attempt and not any(v.type not in {"i1", "index"} for v in c.unused_since(mark)):
            return
        type = result_type(c, mark)
        value = gather(c, mark, type)
        if store_value(c, value):
            continue
        if c.active is None or not value.slope:
            return
        store_value(c, gather(c, mark, type, inactive=True))
        return


def _read_locals(c: Context, mark: Mark) -> None:
    """Load what this block's local buffers hold and nothing has read yet, cell by cell."""
    for buffer in c.buffers[mark.buffers :]:
        if buffer.position < 0 and not buffer.read:
            buffer.read = True
            for indices in cells(c, buffer):
                loaded(c, buffer, load_text(buffer, indices))


def store_family(c: Context) -> None:
    """Family: store a value of this block (a recent one of the drawn type)."""
    type = drawn_type(c)
    pool = c.pools[type]
    value = pool[len(pool) - 1 - c.source.recent(len(pool))] if pool else scalar(c, type)
    if value is not None and value.type == type:
        store_value(c, value)


def condition(c: Context) -> Value:
    """A branch condition: on an iteration variable, or on data, loaded when nothing comparable is in scope."""
    varying = [iv for iv in c.iterators if iv.hi > iv.lo]
    if varying and c.source.boolean(45):
        iv = varying[len(varying) - 1 - c.source.recent(len(varying))]
        middle, predicate = c.source.integer(iv.lo + 1, iv.hi), c.source.choice((2, 5, 3, 4, 1))
        text = f'"arith.cmpi"({iv.name}, {c.index(middle)}) <{{predicate = {predicate} : i64}}>{COMPARE["index"]}'
        flag = c.define("i1", text, -1, 0)
        flag.used = True
        return flag
    if not any(c.pools[type] for type in ("i1", "i32", "i64", "f64", "f32")):
        load_typed(c, c.source.choice(("i32", "f64", "i64")))
    value = boolean(c)
    value.used = True
    return value


def finish(c: Context, mark: Mark, frees: int) -> None:
    """End a block: free what it allocated since `frees`, forget its values."""
    while len(c.deallocations) > frees:
        c.emit(c.deallocations.pop())
    c.leave(mark)


def names(values: Sequence[Value]) -> str:
    """Operand names, marking the values used."""
    for value in values:
        value.used = True
    return ", ".join([v.name for v in values])


FAMILIES = {"scalar": scalar_family, "store": store_family}

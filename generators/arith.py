"""Scalar code: integer arithmetic with tracked intervals. The rules are SEMANTICS §2 and §4.

Each function of a table emits one operation (and its repairs) on operands in scope and returns its value, or None
when the draw cannot be made valid here; the caller then draws something else.
"""

from __future__ import annotations

from collections.abc import Callable

from generators.context import Context
from generators.safety import positive_divisor, shift_amount
from generators.scope import Value
from generators.types import COMPARE, INTEGER_WIDTH, MAXIMUM, MINIMUM, SELECT, TWO

Emit = Callable[[Context, str], "Value | None"]

_NSW = " <{overflowFlags = #arith.overflow<nsw>}>"
_NUW = " <{overflowFlags = #arith.overflow<nuw>}>"
_BOTH = " <{overflowFlags = #arith.overflow<nsw, nuw>}>"


def _flagged(c: Context, op: str, a: Value, b: Value, *, lo: int, hi: int) -> Value | None:
    """add, sub or mul with result interval lo..hi before wrapping; flags only where the interval honours them."""
    type = a.type
    flags = ""
    if lo >= MINIMUM[type] and hi <= MAXIMUM[type]:
        if c.source.boolean(c.profile.flags):
            unsigned = lo >= 0 and a.lo >= 0 and b.lo >= 0
            flags = c.source.choice((_NSW, _BOTH, _NUW)) if unsigned else _NSW
    elif type == "index":
        return None
    else:
        lo, hi = MINIMUM[type], MAXIMUM[type]
    a.used = b.used = True
    return c.define(type, f'"{op}"({a.name}, {b.name}){flags}{TWO[type]}', lo, hi)


def _addi(c: Context, type: str) -> Value | None:
    a, b = c.pick(type), c.pick(type)
    return _flagged(c, "arith.addi", a, b, lo=a.lo + b.lo, hi=a.hi + b.hi)


def _subi(c: Context, type: str) -> Value | None:
    a, b = c.pick(type), c.pick(type)
    if a.name == b.name:
        return None
    return _flagged(c, "arith.subi", a, b, lo=a.lo - b.hi, hi=a.hi - b.lo)


def _muli(c: Context, type: str) -> Value | None:
    a, b = c.pick(type), c.pick(type)
    corners = (a.lo * b.lo, a.lo * b.hi, a.hi * b.lo, a.hi * b.hi)
    return _flagged(c, "arith.muli", a, b, lo=min(corners), hi=max(corners))


def _mask_above(*values: int) -> int:
    """The least 2^k - 1 that is >= every value and >= the magnitude below 0 of every negative one."""
    return (1 << max(v.bit_length() if v >= 0 else (~v).bit_length() for v in values)) - 1


def _bitwise(op: str) -> Emit:
    def emit(c: Context, type: str) -> Value | None:
        a, b = c.pick(type), c.pick(type)
        if a.name == b.name and op == "xori":
            return None
        top = _mask_above(a.lo, a.hi, b.lo, b.hi)
        if a.lo >= 0 and b.lo >= 0:
            lo, hi = 0, min(a.hi, b.hi) if op == "andi" else top
        elif op == "andi" and (a.lo >= 0 or b.lo >= 0):
            lo, hi = 0, a.hi if a.lo >= 0 else b.hi
        else:
            lo, hi = -top - 1, top
        a.used = b.used = True
        return c.define(type, f'"arith.{op}"({a.name}, {b.name}){TWO[type]}', lo, hi)

    return emit


def _min_max(op: str) -> Emit:
    signed, least = op.endswith("si"), op.startswith("min")

    def emit(c: Context, type: str) -> Value | None:
        a, b = c.pick(type), c.pick(type)
        if a.name == b.name:
            return None
        lo, hi = min(a.lo, b.lo), max(a.hi, b.hi)
        if signed or (a.lo >= 0 and b.lo >= 0):
            lo, hi = (lo, min(a.hi, b.hi)) if least else (max(a.lo, b.lo), hi)
        a.used = b.used = True
        return c.define(type, f'"arith.{op}"({a.name}, {b.name}){TWO[type]}', lo, hi)

    return emit


def _select(c: Context, type: str) -> Value | None:
    a, b = c.pick(type), c.pick(type)
    if a.name == b.name:
        return None
    condition = boolean(c)
    a.used = b.used = condition.used = True
    text = f'"arith.select"({condition.name}, {a.name}, {b.name}){SELECT[type]}'
    return c.define(type, text, min(a.lo, b.lo), max(a.hi, b.hi))


def _shli(c: Context, type: str) -> Value | None:
    a = c.pick(type)
    amount = shift_amount(c, c.pick(type))
    lo, hi = min(a.lo, a.lo << amount.hi), max(a.hi, a.hi << amount.hi)
    if type == "index" and (lo < MINIMUM[type] or hi > MAXIMUM[type]):
        return None
    a.used = True
    return c.wrapped(type, f'"arith.shli"({a.name}, {amount.name}){TWO[type]}', lo, hi)


def _shrsi(c: Context, type: str) -> Value | None:
    a, amount = c.pick(type), shift_amount(c, c.pick(type))
    a.used = True
    return c.define(type, f'"arith.shrsi"({a.name}, {amount.name}){TWO[type]}', min(a.lo, 0), max(a.hi, 0))


def _shrui(c: Context, type: str) -> Value | None:
    a = c.pick(type)
    if a.lo < 0 and type == "index":
        return None
    amount = shift_amount(c, c.pick(type))
    lo, hi = (0, a.hi) if a.lo >= 0 else (MINIMUM[type], MAXIMUM[type])
    a.used = True
    return c.define(type, f'"arith.shrui"({a.name}, {amount.name}){TWO[type]}', lo, hi)


def _division(op: str) -> Emit:
    unsigned, remainder = op.endswith("ui"), op.startswith("rem")

    def emit(c: Context, type: str) -> Value | None:
        a = c.pick(type)
        if type == "index" and unsigned and a.lo < 0:
            return None
        divisor = positive_divisor(c, c.pick(type))
        a.used = True
        if unsigned and a.lo < 0:
            # As an unsigned number the dividend may be anything: so may the quotient.
            lo, hi = (0, divisor.hi - 1) if remainder else (MINIMUM[type], MAXIMUM[type])
        elif remainder:
            lo, hi = max(a.lo, 1 - divisor.hi) if a.lo < 0 else 0, min(max(a.hi, 0), divisor.hi - 1)
        else:
            # Floor division may reach one further down than division towards 0.
            lo, hi = min(a.lo, 0), max(a.hi, 0) + (op == "ceildivsi")
            hi = min(hi, MAXIMUM[type])
        return c.define(type, f'"arith.{op}"({a.name}, {divisor.name}){TWO[type]}', lo, hi)

    return emit


def _integer_cast(c: Context, type: str) -> Value | None:
    """A conversion to `type` from another integer type, index, or a float whose range allows it."""
    origin = c.source.choice(_CAST_FROM[type])
    if not c.pools[origin]:
        return None
    return cast_integer(c, c.pick(origin), type)


def cast_integer(c: Context, value: Value, type: str) -> Value | None:
    """`value` (integer, index, i1 or float) converted to the integer type or index `type`."""
    origin = value.type
    if origin not in INTEGER_WIDTH and origin != "index":
        return _from_float(c, value, type)
    value.used = True
    suffix = f" : ({origin}) -> {type}"
    if type == "index" or origin == "index":
        if type == "i1" or value.lo < MINIMUM["index"] or value.hi > MAXIMUM["index"]:
            return None
        if origin == "i1" or not (value.lo >= 0 and c.source.boolean(30)):
            op = "arith.index_castui" if origin == "i1" else "arith.index_cast"
        else:
            op = "arith.index_castui"
        lo, hi = (0, 1) if origin == "i1" else (value.lo, value.hi)
        if lo < MINIMUM[type] or hi > MAXIMUM[type]:
            lo, hi = MINIMUM[type], MAXIMUM[type]
        return c.define(type, f'"{op}"({value.name}){suffix}', lo, hi)
    if INTEGER_WIDTH[origin] < INTEGER_WIDTH[type]:
        if c.source.boolean(50) and origin != "i1":
            return c.define(type, f'"arith.extsi"({value.name}){suffix}', value.lo, value.hi)
        lo, hi = (value.lo, value.hi) if value.lo >= 0 else (0, (1 << INTEGER_WIDTH[origin]) - 1)
        return c.define(type, f'"arith.extui"({value.name}){suffix}', lo, hi)
    if INTEGER_WIDTH[origin] == INTEGER_WIDTH[type]:
        return value
    return c.wrapped(type, f'"arith.trunci"({value.name}){suffix}', value.lo, value.hi)


def _from_float(c: Context, value: Value, type: str) -> Value | None:
    """fptosi: in range by the value's bound (SEMANTICS §3: poison outside)."""
    most = value.hi >> value.frac
    if type in {"index", "i1"} or most > MAXIMUM[type]:
        return None
    value.used = True
    return c.define(type, f'"arith.fptosi"({value.name}) : ({value.type}) -> {type}', -most, most)


def _bits(c: Context, type: str) -> Value | None:
    """Bit counting: math.ctpop, ctlz, cttz, absi (SEMANTICS §3)."""
    if type == "index":
        return None
    a = c.pick(type)
    a.used = True
    op = c.source.choice(("ctpop", "ctlz", "cttz", "absi"))
    suffix = f'"math.{op}"({a.name}) : ({type}) -> {type}'
    if op != "absi":
        return c.define(type, suffix, 0, INTEGER_WIDTH[type])
    return c.wrapped(type, suffix, 0, max(abs(a.lo), abs(a.hi)))


def _extended(c: Context, type: str) -> Value | None:
    """The high half of a widening multiplication, the low half becoming visible beside it."""
    if type == "index":
        return None
    a, b = c.pick(type), c.pick(type)
    a.used = b.used = True
    op = c.source.choice(("mulsi_extended", "mului_extended"))
    name = c.fresh()
    c.emit(f'{name}:2 = "arith.{op}"({a.name}, {b.name}) : ({type}, {type}) -> ({type}, {type})')
    c.adopt(Value(f"{name}#0", type, MINIMUM[type], MAXIMUM[type]))
    return c.adopt(Value(f"{name}#1", type, MINIMUM[type], MAXIMUM[type]))


INTEGER: dict[str, Emit] = {
    "addi": _addi,
    "subi": _subi,
    "muli": _muli,
    "andi": _bitwise("andi"),
    "ori": _bitwise("ori"),
    "xori": _bitwise("xori"),
    "minsi": _min_max("minsi"),
    "maxsi": _min_max("maxsi"),
    "minui": _min_max("minui"),
    "maxui": _min_max("maxui"),
    "select": _select,
    "shli": _shli,
    "shrsi": _shrsi,
    "shrui": _shrui,
    "divsi": _division("divsi"),
    "divui": _division("divui"),
    "remsi": _division("remsi"),
    "remui": _division("remui"),
    "ceildivsi": _division("ceildivsi"),
    "floordivsi": _division("floordivsi"),
    "cast": _integer_cast,
    "bits": _bits,
    "extended": _extended,
}

_CAST_FROM = {
    "index": ("i32", "i64", "i1", "i16", "i8"),
    "i8": ("i32", "i16", "i1", "i64", "index"),
    "i16": ("i8", "i32", "i64", "i1", "f32"),
    "i32": ("i64", "index", "i8", "i16", "i1", "f32", "f64"),
    "i64": ("i32", "index", "i8", "i16", "i1", "f64", "f32"),
}

_COMPARED = ("i32", "i64", "index", "i8", "i16")


def _cmpi(c: Context) -> Value | None:
    types = [t for t in _COMPARED if c.pools[t]]
    if not types:
        return None
    type = c.source.choice(types)
    a, b = c.pick(type), c.pick(type)
    if a.name == b.name:
        b = c.drawn_constant(type)
    if a.lo == a.hi and b.lo == b.hi:
        return None
    a.used = b.used = True
    predicate = c.source.integer(0, 9)
    return c.define("i1", f'"arith.cmpi"({a.name}, {b.name}) <{{predicate = {predicate} : i64}}>{COMPARE[type]}', -1, 0)


def _cmpf(c: Context) -> Value | None:
    types = [t for t in ("f64", "f32") if c.pools[t]]
    if not types:
        return None
    type = c.source.choice(types)
    a, b = c.pick(type), c.pick(type)
    if a.name == b.name:
        b = c.drawn_constant(type)
    a.used = b.used = True
    # 1..6 and 8..13: ordered and unordered comparisons; the constant predicates add nothing.
    predicate = c.source.choice((4, 2, 1, 6, 3, 5, 11, 9, 8, 13, 10, 12))
    return c.define("i1", f'"arith.cmpf"({a.name}, {b.name}) <{{predicate = {predicate} : i64}}>{COMPARE[type]}', -1, 0)


def _trunc_to_boolean(c: Context) -> Value | None:
    for type in ("i32", "i64", "i8"):
        if c.pools[type]:
            a = c.pick(type)
            a.used = True
            return c.define("i1", f'"arith.trunci"({a.name}) : ({type}) -> i1', -1, 0)
    return None


def _logic(op: str) -> Callable[[Context], Value | None]:
    def emit(c: Context) -> Value | None:
        if len(c.pools["i1"]) < 2:
            return None
        a, b = c.pick("i1"), c.pick("i1")
        if a.name == b.name:
            return None
        a.used = b.used = True
        return c.define("i1", f'"arith.{op}"({a.name}, {b.name}){TWO["i1"]}', -1, 0)

    return emit


BOOLEAN: dict[str, Callable[[Context], Value | None]] = {
    "cmpi": _cmpi,
    "cmpf": _cmpf,
    "trunci": _trunc_to_boolean,
    "andi": _logic("andi"),
    "ori": _logic("ori"),
    "xori": _logic("xori"),
}


def boolean(c: Context) -> Value:
    """A condition: one in scope, a new comparison, or (nothing to compare) a constant."""
    pool = c.pools["i1"]
    if pool and c.source.boolean(30):
        return pool[len(pool) - 1 - c.source.recent(len(pool))]
    for _ in range(3):
        value = BOOLEAN[c.source.weighted(c.tables.boolean)](c)
        if value is not None:
            return value
    return pool[-1] if pool else c.drawn_constant("i1")


def integer(c: Context, type: str) -> Value:
    """A new integer value of `type` (i1 included)."""
    if type == "i1":
        return boolean(c)
    for _ in range(4):
        value = INTEGER[c.source.weighted(c.tables.integer)](c, type)
        if value is not None:
            return value
    return c.pick(type)

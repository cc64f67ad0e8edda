"""Scalar code: float arithmetic that never rounds (DESIGN §4 exact floats; SEMANTICS §3).

Every result's bound is computed before the operation is emitted; a result that could round is not emitted.  In
differentiated code the bound of the derivative is carried along in the same way, so gradients are exact too.
"""

from __future__ import annotations

from collections.abc import Callable

from generators import budget
from generators.arith import boolean
from generators.budget import Bound
from generators.context import Context
from generators.scope import Value
from generators.types import EXACT_LIMIT, FLOAT_DIGITS, INTEGER_WIDTH, ONE, SELECT, THREE, TWO

Emit = Callable[[Context, str], "Value | None"]


def bound_of(value: Value) -> Bound:
    """The value's bound as (frac, num)."""
    return value.frac, value.hi


def _sum_slope(a: Value, b: Value) -> Bound:
    if not (a.slope or b.slope):
        return 0, 0
    return budget.add((a.slope_frac, a.slope), (b.slope_frac, b.slope))


def _product_slope(a: Value, b: Value) -> Bound:
    if not (a.slope or b.slope):
        return 0, 0
    left = budget.multiply(bound_of(a), (b.slope_frac, b.slope))
    frac, num = budget.add(left, budget.multiply(bound_of(b), (a.slope_frac, a.slope)))
    # A factor known to be 0 leaves no derivative, but the product stays active.
    return frac, max(num, 1)


def _used(value: Value | None, *operands: Value) -> Value | None:
    if value is not None:
        for operand in operands:
            operand.used = True
    return value


def add(c: Context, a: Value, b: Value, op: str = "arith.addf") -> Value | None:
    """a + b (or a - b), if exact."""
    text = f'"{op}"({a.name}, {b.name}){TWO[a.type]}'
    return _used(c.exact(a.type, text, budget.add(bound_of(a), bound_of(b)), _sum_slope(a, b)), a, b)


def multiply(c: Context, a: Value, b: Value) -> Value | None:
    """a * b, if exact."""
    text = f'"arith.mulf"({a.name}, {b.name}){TWO[a.type]}'
    return _used(c.exact(a.type, text, (a.frac + b.frac, a.hi * b.hi), _product_slope(a, b)), a, b)


def choose(c: Context, a: Value, b: Value, op: str) -> Value | None:
    """One of a and b: `op` is arith.minimumf or arith.maximumf (None where the profile cannot differentiate it).

    Canonicalisation moves constants to the right, which at a tie is another derivative (SEMANTICS §11, kinks): where
    one operand has a derivative it comes first.
    """
    if c.active is not None and not c.profile.active.get(op.removeprefix("arith.")):
        return None
    if b.slope and not a.slope:
        a, b = b, a
    text = f'"{op}"({a.name}, {b.name}){TWO[a.type]}'
    slope = budget.join((a.slope_frac, a.slope), (b.slope_frac, b.slope)) if a.slope or b.slope else (0, 0)
    return _used(c.exact(a.type, text, budget.join(bound_of(a), bound_of(b)), slope), a, b)


def _addf(c: Context, type: str) -> Value | None:
    return add(c, c.pick(type), c.pick(type))


def _subf(c: Context, type: str) -> Value | None:
    a, b = c.pick(type), c.pick(type)
    return None if a.name == b.name else add(c, a, b, "arith.subf")


def _mulf(c: Context, type: str) -> Value | None:
    return multiply(c, c.pick(type), c.pick(type))


def _unary(op: str) -> Emit:
    def emit(c: Context, type: str) -> Value | None:
        a = c.pick(type)
        value = c.exact(type, f'"{op}"({a.name}){ONE[type]}', bound_of(a), (a.slope_frac, a.slope))
        return _used(value, a)

    return emit


def _rounding(op: str) -> Emit:
    def emit(c: Context, type: str) -> Value | None:
        a = c.pick(type)
        return _used(c.exact(type, f'"math.{op}"({a.name}){ONE[type]}', budget.whole(bound_of(a))), a)

    return emit


def _extremum(op: str) -> Emit:
    def emit(c: Context, type: str) -> Value | None:
        a, b = c.pick(type), c.pick(type)
        return None if a.name == b.name else choose(c, a, b, op)

    return emit


def _copysign(c: Context, type: str) -> Value | None:
    if c.loose_zeros:
        return None
    a, b = c.pick(type), c.pick(type)
    return _used(c.exact(type, f'"math.copysign"({a.name}, {b.name}){TWO[type]}', bound_of(a)), a, b)


def _select(c: Context, type: str) -> Value | None:
    a, b = c.pick(type), c.pick(type)
    if a.name == b.name:
        return None
    condition = boolean(c)
    slope = budget.join((a.slope_frac, a.slope), (b.slope_frac, b.slope)) if a.slope or b.slope else (0, 0)
    text = f'"arith.select"({condition.name}, {a.name}, {b.name}){SELECT[type]}'
    return _used(c.exact(type, text, budget.join(bound_of(a), bound_of(b)), slope), a, b, condition)


def _fma(c: Context, type: str) -> Value | None:
    a, b, d = c.pick(type), c.pick(type), c.pick(type)
    product = budget.multiply(bound_of(a), bound_of(b))
    slope = _product_slope(a, b)
    if d.slope:
        slope = budget.add(slope, (d.slope_frac, d.slope))
    text = f'"math.fma"({a.name}, {b.name}, {d.name}){THREE[type]}'
    return _used(c.exact(type, text, budget.add(product, bound_of(d)), slope), a, b, d)


def _float_cast(c: Context, type: str) -> Value | None:
    origin = c.source.choice(_CAST_FROM[type])
    if not c.pools[origin]:
        return None
    return cast_float(c, c.pick(origin), type)


def cast_float(c: Context, value: Value, type: str) -> Value | None:
    """`value` (integer or float) converted to the float type `type`, if exact; None otherwise."""
    origin = value.type
    suffix = f"({value.name}) : ({origin}) -> {type}"
    if origin in INTEGER_WIDTH:
        most = max(abs(value.lo), abs(value.hi))
        if most > EXACT_LIMIT[type]:
            return None
        unsigned = origin == "i1" or (value.lo >= 0 and c.source.boolean(30))
        op = "arith.uitofp" if unsigned else "arith.sitofp"
        return _used(c.exact(type, f'"{op}"{suffix}', (0, most)), value)
    if origin not in FLOAT_DIGITS or value.slope:
        # extf's adjoint rounds (SEMANTICS §11 rule 7): active values keep their type.
        return None
    if origin == type:
        return value
    if {origin, type} == {"f16", "bf16"}:
        return None
    op = "arith.extf" if FLOAT_DIGITS[origin] < FLOAT_DIGITS[type] else "arith.truncf"
    return _used(c.exact(type, f'"{op}"{suffix}', bound_of(value)), value)


FLOATING: dict[str, Emit] = {
    "addf": _addf,
    "subf": _subf,
    "mulf": _mulf,
    "negf": _unary("arith.negf"),
    "absf": _unary("math.absf"),
    "minimumf": _extremum("arith.minimumf"),
    "maximumf": _extremum("arith.maximumf"),
    "select": _select,
    "fma": _fma,
    "floor": _rounding("floor"),
    "ceil": _rounding("ceil"),
    "trunc": _rounding("trunc"),
    "round": _rounding("round"),
    "roundeven": _rounding("roundeven"),
    "copysign": _copysign,
    "cast": _float_cast,
}

_CAST_FROM = {
    "f64": ("f32", "i32", "i8", "i16", "i1", "i64"),
    "f32": ("f64", "i8", "i16", "i1", "i32", "f16", "bf16"),
    "f16": ("f32", "f64", "i8", "i1"),
    "bf16": ("f32", "f64", "i8", "i1"),
}


def floating(c: Context, type: str) -> Value:
    """A new float value of `type`."""
    table = c.tables.active if c.active is not None else c.tables.floating
    for _ in range(4):
        value = FLOATING[c.source.weighted(table)](c, type)
        if value is not None:
            return value
    a, b = c.pick(type), c.pick(type)
    if a is not b:
        value = choose(c, a, b, "arith.minimumf")
        if value is not None:
            return value
    return a

"""Named repair rules: each removes one way to undefined behaviour, and is counted.

Construction comes first: a rule is used only where no value in scope fits by its bounds.  The counts land in
`Context.repairs` (name -> times), so that a rule that starts to dominate the programs is seen.
"""

from __future__ import annotations

from generators.budget import fits, whole
from generators.context import Context
from generators.scope import Value
from generators.types import CONTRACT, FLOAT_DIGITS, INTEGER_WIDTH, MAXIMUM, ONE, TWO


def positive_divisor(c: Context, value: Value) -> Value:
    """A divisor >= 1 made from `value` (SEMANTICS §2: 0 and INT_MIN/-1 are undefined)."""
    type = value.type
    if value.lo >= 1:
        value.used = True
        return value
    c.repair("divisor-masked")
    mask = min(MAXIMUM[type], 15)
    low = c.define(type, f'"arith.andi"({value.name}, {c.constant(type, str(mask))}){TWO[type]}', 0, mask)
    value.used = low.used = True
    return c.define(type, f'"arith.ori"({low.name}, {c.constant(type, "1")}){TWO[type]}', 1, mask)


def shift_amount(c: Context, value: Value) -> Value:
    """An amount in 0..width-1 made from `value` (SEMANTICS §2: an amount >= width is poison)."""
    type = value.type
    top = INTEGER_WIDTH.get(type, 5) - 1
    value.used = True
    if value.lo >= 0 and value.hi <= top:
        return value
    c.repair("shift-masked")
    # Widths are powers of two; for index the mask keeps results inside 31 bits together with the caller's check.
    mask = top if type != "index" else 3
    return c.define(type, f'"arith.andi"({value.name}, {c.constant(type, str(mask))}){TWO[type]}', 0, mask)


def clamp_index(c: Context, value: Value, size: int) -> Value:
    """An index in 0..size-1 made from `value` (SEMANTICS §6: each dimension in bounds)."""
    value.used = True
    if value.lo >= 0 and value.hi < size:
        return value
    c.repair("index-clamped")
    if value.lo >= 0:
        text = f'"arith.remui"({value.name}, {c.index(size)}){TWO["index"]}'
        clamped = c.define("index", text, 0, min(value.hi, size - 1))
        clamped.used = True
        return clamped
    text = f'"arith.maxsi"({value.name}, {c.index(0)}){TWO["index"]}'
    low = c.define("index", text, 0, max(value.hi, 0))
    low.used = True
    if low.hi < size:
        return low
    text = f'"arith.minsi"({low.name}, {c.index(size - 1)}){TWO["index"]}'
    high = c.define("index", text, 0, size - 1)
    high.used = True
    return high


def fit_float(c: Context, value: Value, contract: tuple[int, int]) -> Value:
    """`value` brought within `contract` (frac, num): rounded down to an integer if too fine, clamped if too large."""
    type = value.type
    value.used = True
    if fits((value.frac, value.hi), contract):
        return value
    if value.frac > contract[0]:
        c.repair("fraction-floored")
        frac, num = whole((value.frac, value.hi))
        value = c.define(type, f'"math.floor"({value.name}){ONE[type]}', 0, num, frac)
        value.used = True
    if fits((value.frac, value.hi), contract):
        return value
    c.repair("magnitude-clamped")
    limit = contract[1] >> contract[0]
    text = f'"arith.minimumf"({value.name}, {c.float_constant(type, limit * 4)}){TWO[type]}'
    low = c.define(type, text, 0, value.hi, value.frac)
    low.used = True
    text = f'"arith.maximumf"({low.name}, {c.float_constant(type, -limit * 4)}){TWO[type]}'
    fitted = c.define(type, text, 0, limit << low.frac, low.frac)
    fitted.used = True
    return fitted


def fit_stored(c: Context, value: Value) -> Value:
    """`value` made fit for any written buffer of its type (the contract of `generators.types.CONTRACT`)."""
    return fit_float(c, value, CONTRACT[value.type]) if value.type in FLOAT_DIGITS else value

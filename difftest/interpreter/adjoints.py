"""Derivative rules, one per op: what operand `i` contributes (SEMANTICS §11, "Kinks and conventions").

A rule is `(terms, i, g) -> value` and is linear in `g`. In reverse mode `g` is the adjoint of the result and the value
what operand `i` gains; in forward mode `g` is the tangent of operand `i` and the value its share of the result's
tangent. The conventions at kinks (which operand of a maximum at ties, what sqrt does at 0) are those of 0.0.16; ops
that no version has a rule for (tan, erf, …) have the mathematical one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from difftest.interpreter.derivative_arithmetic import Arithmetic, bound_of, compared
from difftest.interpreter.values import plain


class Terms:
    """One executed op: operand values `x`, and arithmetic `a` in the operands' type (`types`: operand, result)."""

    __slots__ = ("a", "reverse", "types", "x")

    def __init__(self, a: Arithmetic, x: Sequence[Any], types: tuple[str, str], *, reverse: bool) -> None:
        self.a = a
        self.x = x
        self.types = types
        self.reverse = reverse


Rule = Callable[[Terms, int, Any], Any]


def _same(t: Terms, i: int, g: Any) -> Any:
    del t, i
    return g


def _difference(t: Terms, i: int, g: Any) -> Any:
    return g if i == 0 else t.a.neg(g)


def _negated(t: Terms, i: int, g: Any) -> Any:
    del i
    return t.a.neg(g)


def _product(t: Terms, i: int, g: Any) -> Any:
    return t.a.mul(g, t.x[1 - i])


def _quotient(t: Terms, i: int, g: Any) -> Any:
    a, (x, y) = t.a, t.x
    share = a.div(g, y)
    return share if i == 0 else a.neg(a.mul(share, a.div(x, y)))


def _remainder(t: Terms, i: int, g: Any) -> Any:
    """1, and -trunc(x/y)."""
    a, (x, y) = t.a, t.x
    return g if i == 0 else a.neg(a.mul(g, a.call("math.trunc", a.div(x, y))))


def _fma(t: Terms, i: int, g: Any) -> Any:
    return g if i == 2 else t.a.mul(g, t.x[1 - i])


def _select(t: Terms, i: int, g: Any) -> Any:
    zero = t.a.zero
    condition, bound = plain(t.x[0]), bound_of(t.x[0])
    unsure = None if bound is None else np.greater(bound, 0)
    yes, no = (g, zero) if i == 1 else (zero, g)
    return t.a.where(condition, yes, no, unsure=unsure)


def _extremum(t: Terms, i: int, g: Any, *, largest: bool, signed_zero: bool) -> Any:
    """Maximum: rhs where x < y, else lhs. Minimum: lhs where x < y, else rhs. `signed_zero`: -0 < +0."""
    x, y = t.x
    less, unsure = compared(np.less, x, y)
    if signed_zero:
        a, b = plain(x), plain(y)
        less = less | (np.equal(a, 0) & np.equal(b, 0) & np.signbit(a) & ~np.signbit(b))
    right = less if largest else np.logical_not(less)
    mine = right if i == 1 else np.logical_not(right)
    return t.a.where(mine, g, t.a.zero, unsure=unsure)


def _absolute(t: Terms, i: int, g: Any) -> Any:
    """+1 for x >= 0, -0 included."""
    del i
    positive, unsure = compared(np.greater_equal, t.x[0], t.a.zero)
    return t.a.where(positive, g, t.a.neg(g), unsure=unsure)


def _copysign(t: Terms, i: int, g: Any) -> Any:
    """sign(x) * sign(y), by the sign bits; nothing for y."""
    if i == 1:
        return _step(t, i, g)
    unsure: Any = None
    for z in t.x:
        _, here = compared(np.less, z, t.a.zero)
        unsure = here if unsure is None else unsure | (False if here is None else here)
    flip = np.not_equal(np.signbit(plain(t.x[0])), np.signbit(plain(t.x[1])))
    return t.a.where(flip, t.a.neg(g), g, unsure=unsure)


def _step(t: Terms, i: int, g: Any) -> Any:
    """Piecewise constant functions."""
    del i
    return t.a.where(np.zeros(np.shape(plain(g)), np.bool_), g, t.a.zero)


def _convert(t: Terms, i: int, g: Any) -> Any:
    """extf, truncf: the adjoint goes the other way (and may round), the tangent the same way."""
    del i
    operand, result = t.types
    return Arithmetic(result).convert(g, operand) if t.reverse else Arithmetic(operand).convert(g, result)


def _root(t: Terms, i: int, g: Any) -> Any:
    """0 at 0, else g / (2 sqrt x)."""
    del i
    a = t.a
    at_zero, unsure = compared(np.equal, t.x[0], a.zero)
    share = a.div(g, a.scaled(2.0, a.call("math.sqrt", t.x[0])))
    return a.where(at_zero, a.zero, share, unsure=unsure)


def _square(t: Terms) -> Any:
    return t.a.mul(t.x[0], t.x[0])


def _reciprocal(denominator: Callable[[Terms], Any]) -> Rule:
    def rule(t: Terms, i: int, g: Any) -> Any:
        del i
        return t.a.div(g, denominator(t))

    return rule


def _factor(slope: Callable[[Terms], Any]) -> Rule:
    def rule(t: Terms, i: int, g: Any) -> Any:
        del i
        return t.a.mul(g, slope(t))

    return rule


def _again(name: str, t: Terms) -> Any:
    """The function `name` at x."""
    return t.a.call(f"math.{name}", t.x[0])


def _one_plus(t: Terms, value: Any) -> Any:
    return t.a.add(t.a.constant(1.0), value)


def _one_minus(t: Terms, value: Any) -> Any:
    return t.a.sub(t.a.constant(1.0), value)


def _squared_call(name: str, t: Terms) -> Any:
    value = _again(name, t)
    return t.a.mul(value, value)


def _gauss(scale: float, t: Terms) -> Any:
    return t.a.scaled(scale, t.a.call("math.exp", t.a.neg(_square(t))))


def _power(t: Terms, i: int, g: Any) -> Any:
    """y x^(y-1); for the exponent 0 at x == 0, else x^y log x."""
    a, (x, y) = t.a, t.x
    if i == 0:
        return a.mul(g, a.mul(y, a.call("math.powf", x, a.sub(y, a.constant(1.0)))))
    at_zero, unsure = compared(np.equal, x, a.zero)
    share = a.mul(g, a.mul(a.call("math.powf", x, y), a.call("math.log", x)))
    return a.where(at_zero, a.zero, share, unsure=unsure)


def _integer_power(t: Terms, i: int, g: Any) -> Any:
    """n x^(n-1), 0 for n = 0."""
    del i
    a, (x, n) = t.a, t.x
    exponent = np.asarray(plain(n)).astype(a.kind.dtype)[()]
    share = a.mul(g, a.mul(exponent, a.call("math.powf", x, a.sub(exponent, a.constant(1.0)))))
    return a.where(np.equal(plain(n), 0), a.zero, share)


def _arc_tangent(t: Terms, i: int, g: Any) -> Any:
    a, (y, x) = t.a, t.x
    share = a.div(g, a.add(a.mul(y, y), a.mul(x, x)))
    return a.mul(share, x) if i == 0 else a.neg(a.mul(share, y))


_UNARY: dict[str, Rule] = {
    "sqrt": _root,
    "rsqrt": _factor(lambda t: t.a.scaled(-0.5, t.a.div(_again("rsqrt", t), t.x[0]))),
    "cbrt": _reciprocal(lambda t: t.a.scaled(3.0, _squared_call("cbrt", t))),
    "exp": _factor(partial(_again, "exp")),
    "exp2": _factor(lambda t: t.a.scaled(math.log(2.0), _again("exp2", t))),
    "expm1": _factor(partial(_again, "exp")),
    "log": _reciprocal(lambda t: t.x[0]),
    "log2": _reciprocal(lambda t: t.a.scaled(math.log(2.0), t.x[0])),
    "log10": _reciprocal(lambda t: t.a.scaled(math.log(10.0), t.x[0])),
    "log1p": _reciprocal(lambda t: _one_plus(t, t.x[0])),
    "sin": _factor(partial(_again, "cos")),
    "cos": _factor(lambda t: t.a.neg(_again("sin", t))),
    "tan": _factor(lambda t: _one_plus(t, _squared_call("tan", t))),
    "asin": _reciprocal(lambda t: t.a.call("math.sqrt", _one_minus(t, _square(t)))),
    "acos": _reciprocal(lambda t: t.a.neg(t.a.call("math.sqrt", _one_minus(t, _square(t))))),
    "atan": _reciprocal(lambda t: _one_plus(t, _square(t))),
    "sinh": _factor(partial(_again, "cosh")),
    "cosh": _factor(partial(_again, "sinh")),
    "tanh": _factor(lambda t: _one_minus(t, _squared_call("tanh", t))),
    "asinh": _reciprocal(lambda t: t.a.call("math.sqrt", _one_plus(t, _square(t)))),
    "acosh": _reciprocal(lambda t: t.a.call("math.sqrt", t.a.sub(_square(t), t.a.constant(1.0)))),
    "atanh": _reciprocal(lambda t: _one_minus(t, _square(t))),
    "erf": _factor(partial(_gauss, 2.0 / math.sqrt(math.pi))),
    "erfc": _factor(partial(_gauss, -2.0 / math.sqrt(math.pi))),
    "absf": _absolute,
    **dict.fromkeys(("floor", "ceil", "trunc", "round", "roundeven"), _step),
}
_MAXIMUM = partial(_extremum, largest=True, signed_zero=True)
_MINIMUM = partial(_extremum, largest=False, signed_zero=True)
_MAXNUM = partial(_extremum, largest=True, signed_zero=False)
_MINNUM = partial(_extremum, largest=False, signed_zero=False)

RULES: dict[str, Rule] = {
    "arith.addf": _same,
    "arith.subf": _difference,
    "arith.mulf": _product,
    "arith.divf": _quotient,
    "arith.remf": _remainder,
    "arith.negf": _negated,
    "arith.select": _select,
    "arith.maximumf": _MAXIMUM,
    "arith.minimumf": _MINIMUM,
    "arith.maxnumf": _MAXNUM,
    "arith.minnumf": _MINNUM,
    "arith.extf": _convert,
    "arith.truncf": _convert,
    "math.fma": _fma,
    "math.copysign": _copysign,
    "math.powf": _power,
    "math.fpowi": _integer_power,
    "math.atan2": _arc_tangent,
    **{f"math.{name}": rule for name, rule in _UNARY.items()},
}
_LLVM = {
    "fadd": "arith.addf", "fsub": "arith.subf", "fmul": "arith.mulf", "fdiv": "arith.divf", "frem": "arith.remf",
    "fneg": "arith.negf", "select": "arith.select", "fpext": "arith.extf", "fptrunc": "arith.truncf",
    "intr.maximum": "arith.maximumf", "intr.minimum": "arith.minimumf", "intr.maxnum": "arith.maxnumf",
    "intr.minnum": "arith.minnumf", "intr.fma": "math.fma", "intr.fmuladd": "math.fma", "intr.fabs": "math.absf",
    "intr.copysign": "math.copysign", "intr.pow": "math.powf", "intr.powi": "math.fpowi", "intr.rint": "math.roundeven",
    **{f"intr.{n}": f"math.{n}" for n in ("sqrt", "exp", "exp2", "log", "log2", "log10", "sin", "cos", "tan", "floor",
                                          "ceil", "trunc", "round", "roundeven")},
}  # fmt: skip
RULES.update({f"llvm.{short}": RULES[name] for short, name in _LLVM.items()})

"""Arithmetic on derivatives: the interpreter's own float rules, with the freedom that compilers take (SEMANTICS §11).

0.0.16 puts `fastmath<fast>` on everything it computes for a derivative, so the rules are those of the flagged ops: sums
and products stay exact where nothing rounds, quotients and functions get the allowances of fast math. What the flags
promise (no NaN, no infinity) is not checked here: such results stand as computed, and comparison skips them.

A value is data (a scalar, or lanes), or `Tagged` data with an error bound; poison becomes an unknown bound.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from difftest.interpreter.dialects import arith
from difftest.interpreter.dialects import math as math_dialect
from difftest.interpreter.numerics import FloatKind, float_kind_of
from difftest.interpreter.numerics_float import unwrap
from difftest.interpreter.reductions import lowest_bit
from difftest.interpreter.rules import ElementwiseRule
from difftest.interpreter.values import Tagged, any_true, plain, tagged
from difftest.ir.tree import Block, Operation, Region

ndarray = np.ndarray
FAST = "#arith.fastmath<fast>"


def lanes_of(value: Any) -> int:
    """How many lanes a value's data has; 1 for uniform data."""
    data = plain(value)
    return int(data.shape[0]) if data.__class__ is ndarray and data.ndim else 1


def bound_of(value: Any) -> Any:
    """The error bound of a value: None when exact, infinite where it is poison."""
    if value.__class__ is not Tagged:
        return None
    if value.poison is None:
        return value.bound
    return np.where(value.poison, np.inf, 0.0 if value.bound is None else value.bound)


def stripped(value: Any) -> Any:
    """A value without derivative variable and without licence for signs of zero; poison as an unknown bound."""
    if value.__class__ is not Tagged:
        return value
    return tagged(value.data, bound=bound_of(value))


@lru_cache(maxsize=512)
def _rule(name: str, operands: tuple[str, ...], result: str) -> ElementwiseRule:
    block = Block(Region(Operation("derivative")), list(operands))
    op = Operation(name, operands=block.arguments, result_types=[result], properties={"fastmath": FAST})
    table = arith.ELEMENTWISE if name.startswith("arith.") else math_dialect.ELEMENTWISE
    return table[name](op)


def evaluate(rule: ElementwiseRule, values: Sequence[Any]) -> Any:
    """The result of a float rule with its error bound; promises of flags are not looked at."""
    data = tuple(plain(v) for v in values)
    bounds = tuple(bound_of(v) for v in values)
    result = rule.compute(*data)
    if rule.bound is not None:
        bound = rule.bound(data, bounds, result)
    elif all(b is None for b in bounds):
        bound = None
    elif rule.discrete is not None:
        bound = np.where(rule.discrete(data, bounds), np.inf, 0.0)
    else:
        bound = np.where(np.logical_or.reduce([np.greater(0.0 if b is None else b, 0) for b in bounds]), np.inf, 0.0)
    return tagged(result, bound=_fitted(bound, result))


def _fitted(bound: Any, result: Any) -> Any:
    """A bound with lanes only where the result has them."""
    if bound.__class__ is ndarray and bound.ndim and result.__class__ is not ndarray:
        return float(bound.max())
    return bound


class Arithmetic:
    """The operations of one float type (scalar or vector, by its text), on derivative values."""

    def __init__(self, type_text: str) -> None:
        self.type = type_text
        self.kind: FloatKind = float_kind_of(type_text)
        self.zero: Any = self.kind.dtype.type(0)

    def call(self, name: str, *values: Any) -> Any:
        """The op `name` (`arith.…` or `math.…`) with operands and result of this type."""
        return evaluate(_rule(name, (self.type,) * len(values), self.type), values)

    def add(self, a: Any, b: Any) -> Any:
        """a + b."""
        return self.call("arith.addf", a, b)

    def sub(self, a: Any, b: Any) -> Any:
        """a - b."""
        return self.call("arith.subf", a, b)

    def mul(self, a: Any, b: Any) -> Any:
        """a * b."""
        return self.call("arith.mulf", a, b)

    def div(self, a: Any, b: Any) -> Any:
        """a / b; never exact, since `arcp` may turn it into a product."""
        return self.call("arith.divf", a, b)

    def neg(self, a: Any) -> Any:
        """-a; the sign of a zero is free in derivatives."""
        return self.call("arith.negf", a)

    def constant(self, number: float) -> Any:
        """A number in this type, with a bound of one ulp when it had to be rounded."""
        data = self.kind.dtype.type(number)
        if float(data) == number and number == round(number * 1024) / 1024:
            return data
        return tagged(data, bound=2 * self.kind.unit * abs(number))

    def scaled(self, number: float, a: Any) -> Any:
        """number * a."""
        return self.mul(self.constant(number), a)

    def convert(self, value: Any, target: str) -> Any:
        """A value of this type in another float type (extf or truncf, which rounds)."""
        kind = float_kind_of(target)
        if kind == self.kind:
            return value
        wider = kind.precision >= self.kind.precision and kind.width > self.kind.width
        name = "arith.extf" if wider else "arith.truncf"
        return evaluate(_rule(name, (self.type,), target), [value])

    def where(self, condition: Any, yes: Any, no: Any, *, unsure: Any = None) -> Any:
        """`yes` where the condition holds, else `no`; unknown where it is `unsure`."""
        data = unwrap(np.asarray(np.where(condition, plain(yes), plain(no)), self.kind.dtype))
        bounds = bound_of(yes), bound_of(no)
        bound: Any = None
        if bounds != (None, None):
            bound = np.where(condition, *(0.0 if b is None else b for b in bounds))
        if unsure is not None and any_true(unsure):
            bound = np.where(unsure, np.inf, 0.0 if bound is None else bound)
        return tagged(data, bound=_fitted(None if bound is None else unwrap(np.asarray(bound)), data))


def compared(test: Callable[[Any, Any], Any], a: Any, b: Any) -> tuple[Any, Any]:
    """(`test(a, b)`, where the error bounds leave it open or None)."""
    x, y = plain(a), plain(b)
    bounds = [z for z in (bound_of(a), bound_of(b)) if z is not None]
    if not bounds:
        return test(x, y), None
    spread: Any = sum(bounds)
    distance = np.abs(np.asarray(x, np.float64) - np.asarray(y, np.float64))
    return test(x, y), (np.asarray(spread) > 0) & ~(distance > spread)


def grouped_sum(value: Any, groups: Any, count: int, a: Arithmetic) -> Any:
    """Sums of the lanes of `value` by group (`groups[i]` is lane i's, of `count`); one group gives uniform data.

    No order is specified: exact when every order is exact, else with the bound of section 12.
    """
    data = plain(value)
    terms = np.asarray(data, np.float64)
    shape = (count, *terms.shape[1:])
    total, size = np.zeros(shape), np.zeros(shape)
    np.add.at(total, groups, terms)
    np.add.at(size, groups, np.abs(terms))
    bound: Any = np.zeros(shape)
    terms_known = np.isfinite(terms)
    unit = lowest_bit(terms[terms_known])
    rounds = size > unit * 2.0**a.kind.precision
    if rounds.any():
        number = np.bincount(groups, minlength=count).reshape(count, *[1] * (terms.ndim - 1))
        bound = np.where(rounds & np.isfinite(size), 2.0 * (number + 1) * size * a.kind.unit, 0.0)
    carried = bound_of(value)
    if carried is not None:
        np.add.at(bound, groups, np.broadcast_to(carried, terms.shape))
    with np.errstate(all="ignore"):
        result: Any = total.astype(a.kind.dtype)
    if count == 1 and terms.ndim == 1:
        return tagged(result[0], bound=float(bound[0]))
    return tagged(result, bound=bound)

"""math: elementary functions on floats and integers (dialect documentation "math"; SEMANTICS §3 and §12)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from difftest.interpreter import (
    errors_bound,
    errors_math,
    numerics_bits,
    numerics_checks,
    numerics_float,
    numerics_math,
)
from difftest.interpreter.errors_bound import Bound
from difftest.interpreter.float_rules import fast_flags, float_rule
from difftest.interpreter.numerics import IntKind, float_kind_of, int_kind_of
from difftest.interpreter.rules import Data, ElementwiseRule
from difftest.ir.tree import Operation

Factory = Callable[[Operation], ElementwiseRule]


def _function(name: str, op: Operation) -> ElementwiseRule:
    kind, flags = float_kind_of(op.results[0].type), fast_flags(op)
    bound = errors_math.function_bound(name, kind, flags)
    return float_rule(numerics_math.function(name, kind), flags=flags, bound=bound)


def _sincos(op: Operation) -> ElementwiseRule:
    kind, flags = float_kind_of(op.results[0].type), fast_flags(op)
    sine, cosine = numerics_math.function("sin", kind), numerics_math.function("cos", kind)
    of_sine = errors_math.function_bound("sin", kind, flags)
    of_cosine = errors_math.function_bound("cos", kind, flags)

    def compute(x: Data) -> Data:
        return sine(x), cosine(x)

    def bound(operands: tuple[Data, ...], bounds: tuple[Data, ...], result: Data) -> Data:
        return np.maximum(of_sine(operands, bounds, result[0]), of_cosine(operands, bounds, result[1]))

    return float_rule(compute, flags=flags, bound=bound)


def _power(op: Operation) -> ElementwiseRule:
    kind, flags = float_kind_of(op.results[0].type), fast_flags(op)
    return float_rule(numerics_math.power(kind), flags=flags, bound=errors_math.power_bound(kind, flags))


def _arc_tangent(op: Operation) -> ElementwiseRule:
    kind = float_kind_of(op.results[0].type)
    bound = errors_math.arc_tangent_bound(kind)
    return float_rule(numerics_math.arc_tangent(kind), flags=fast_flags(op), bound=bound)


def _sqrt(op: Operation) -> ElementwiseRule:
    kind, flags = float_kind_of(op.results[0].type), fast_flags(op)
    return float_rule(numerics_float.UNARY["sqrt"], flags=flags, bound=errors_math.root_bound(kind, flags))


def _fma(op: Operation) -> ElementwiseRule:
    kind, flags = float_kind_of(op.results[0].type), fast_flags(op)
    return float_rule(numerics_float.fma(kind), flags=flags, bound=errors_bound.fma_bound(kind, flags))


def _clamp(op: Operation) -> ElementwiseRule:
    """maximumf(minimumf(value, max), min), as the op is named. Its documentation writes min and max the other way
    round, and so do some expansions: docs/semantics.md §3."""
    kind = float_kind_of(op.results[0].type)
    least, most = numerics_float.extremum("minimumf", kind), numerics_float.extremum("maximumf", kind)

    def compute(value: Data, low: Data, high: Data) -> Data:
        return most(least(value, high), low)

    def bound(operands: tuple[Data, ...], bounds: tuple[Data, ...], result: Data) -> Data:
        first = errors_bound.extremum_bound(operands, (bounds[0], bounds[2]), result)
        return errors_bound.extremum_bound(operands, (first, bounds[1]), result)

    return float_rule(compute, flags=fast_flags(op), bound=bound)


def _absf(op: Operation) -> ElementwiseRule:
    float_kind_of(op.results[0].type)
    return float_rule(numerics_float.UNARY["absf"], flags=fast_flags(op), bound=errors_bound.keep_bound)


def _copysign(op: Operation) -> ElementwiseRule:
    float_kind_of(op.results[0].type)
    bound: Bound = errors_bound.uncertain_where(errors_bound.sign_discrete, errors_bound.keep_bound)
    return float_rule(numerics_float.BINARY["copysign"], flags=fast_flags(op), bound=bound)


def _step(name: str, op: Operation) -> ElementwiseRule:
    float_kind_of(op.results[0].type)
    compute = numerics_float.UNARY[name]
    return float_rule(compute, flags=fast_flags(op), discrete=errors_bound.step_discrete(compute))


def _classify(name: str, op: Operation) -> ElementwiseRule:
    float_kind_of(op.operands[0].type)
    return float_rule(numerics_float.classify(name), flags=fast_flags(op), number=False)


def _isnormal(op: Operation) -> ElementwiseRule:
    kind = float_kind_of(op.operands[0].type)
    return float_rule(numerics_float.is_normal(kind), flags=fast_flags(op), number=False)


def _integer(compute: Callable[[IntKind], Callable[..., Data]], op: Operation) -> ElementwiseRule:
    return ElementwiseRule(compute=compute(int_kind_of(op.results[0].type)))


def _ipowi(op: Operation) -> ElementwiseRule:
    return numerics_checks.binary_rule("pow", int_kind_of(op.results[0].type))


ELEMENTWISE: dict[str, Factory] = {
    **{f"math.{name}": partial(_function, name) for name in numerics_math.FUNCTIONS},
    **{f"math.{name}": partial(_step, name) for name in ("floor", "ceil", "trunc", "round", "roundeven")},
    **{f"math.{name}": partial(_classify, name) for name in ("isnan", "isinf", "isfinite")},
    "math.isnormal": _isnormal,
    "math.sincos": _sincos,
    "math.powf": _power,
    "math.fpowi": _power,
    "math.atan2": _arc_tangent,
    "math.sqrt": _sqrt,
    "math.fma": _fma,
    "math.clampf": _clamp,
    "math.absf": _absf,
    "math.copysign": _copysign,
    "math.absi": partial(_integer, numerics_bits.absolute),
    "math.ctlz": partial(_integer, numerics_bits.count_leading_zeros),
    "math.cttz": partial(_integer, numerics_bits.count_trailing_zeros),
    "math.ctpop": partial(_integer, numerics_bits.count_ones),
    "math.ipowi": _ipowi,
}

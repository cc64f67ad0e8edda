"""Derivative rules, one op at a time: against numeric derivatives, and against the table of conventions at kinks."""

import math

import numpy as np
import pytest

from difftest.interpreter.adjoints import RULES
from difftest.interpreter.differentiate import TRANSPARENT
from difftest.interpreter.registry import all_rules

SPECIAL = {"math.fma", "math.copysign", "math.powf", "math.fpowi", "math.atan2"}
UNARY = [*sorted(n for n in RULES if n.startswith("math.") and n not in SPECIAL), "arith.negf"]
BINARY = ["arith.addf", "arith.subf", "arith.mulf", "arith.divf", "arith.remf", "arith.maximumf", "arith.minimumf",
          "arith.maxnumf", "arith.minnumf", "math.powf", "math.atan2", "math.copysign"]  # fmt: skip
STEPS = {"math.floor", "math.ceil", "math.trunc", "math.round", "math.roundeven"}
DOMAIN = {"math.acosh": 1.75, "math.asin": 0.375, "math.acos": 0.375, "math.atanh": 0.375}


def function(op, types, result, more=""):
    """A private function @f that applies one op."""
    names = [f"%x{i}" for i in range(len(types))]
    header = ", ".join(f"{n}: {t}" for n, t in zip(names, types, strict=True))
    return f""""func.func"() <{{function_type = ({", ".join(types)}) -> {result}, sym_name = "f"}}> ({{
^bb0({header}):
%r = "{op}"({", ".join(names)}) {more}: ({", ".join(types)}) -> {result}
"func.return"(%r) : ({result}) -> ()
}}) : () -> ()
"""


def floating(types):
    return [i for i, t in enumerate(types) if not t.startswith("i")]


def gradients(p, op, types, values, *, seed=1.0, result=None, more=""):
    """(value, gradients of the float arguments) in reverse mode; gradients as Observed."""
    result = result or types[-1]
    active = floating(types)
    kinds = ", ".join(f"#enzyme<activity enzyme_{'active' if i in active else 'const'}>" for i in range(len(types)))
    arguments = "; ".join(f"%a{i}: {t}" for i, t in enumerate([*types, result]))
    names = ", ".join(f"%a{i}" for i in range(len(types) + 1))
    results = ", ".join([result, *(types[i] for i in active)])
    body = f"""%r:{len(active) + 1} = enzyme.autodiff({names}) <{{activity = [{kinds}], fn = @f,
ret_activity = [#enzyme<activity enzyme_active>]}}> : ({", ".join([*types, result])}) -> ({results})
"""
    shown = ", ".join(f"%r#{i}" for i in range(len(active) + 1))
    others = function(op, types, result, more)
    found = list(p.ok(arguments, body, *values, seed, returns=f"{shown} : {results}", others=others).values())
    return found[0], found[1:]


def gradient(p, op, *values, kind="f64", seed=1.0):
    """Gradients as floats, of an op whose operands and result have one type."""
    return [float(o.data) for o in gradients(p, op, [kind] * len(values), values, seed=seed)[1]]


def tangent(p, op, values, directions, *, kind="f64"):
    """The result's tangent in forward mode."""
    n = len(values)
    pairs = ", ".join(f"%a{i}, %d{i}" for i in range(n))
    arguments = "; ".join(f"%a{i}: {kind}; %d{i}: {kind}" for i in range(n))
    kinds = ", ".join(["#enzyme<activity enzyme_dup>"] * n)
    body = f"""%t = enzyme.fwddiff({pairs}) <{{activity = [{kinds}], fn = @f,
ret_activity = [#enzyme<activity enzyme_dupnoneed>]}}> : ({", ".join([kind] * 2 * n)}) -> {kind}
"""
    flat = [x for pair in zip(values, directions, strict=True) for x in pair]
    others = function(op, [kind] * n, kind)
    return float(p.data(arguments, body, *flat, returns=f"%t : {kind}", others=others)[0])


def value(p, op, *values, kind="f64"):
    """What the op computes."""
    names = ", ".join(f"%a{i}" for i in range(len(values)))
    arguments = "; ".join(f"%a{i}: {kind}" for i in range(len(values)))
    kinds = ", ".join([kind] * len(values))
    body = f'%r = "{op}"({names}) : ({kinds}) -> {kind}\n'
    return float(p.data(arguments, body, *values, returns=f"%r : {kind}")[0])


def numeric(p, op, values, position):
    """Central difference."""
    h = 2.0**-17
    high, low = ([*values[:position], values[position] + s * h, *values[position + 1 :]] for s in (1, -1))
    return (value(p, op, *high) - value(p, op, *low)) / (2 * h)


@pytest.mark.parametrize("op", UNARY)
@pytest.mark.parametrize("seed", [1.0, -2.5])
def test_a_unary_rule_is_the_numeric_derivative(p, op, seed):
    x = DOMAIN.get(op, 0.7)
    found = gradient(p, op, x, seed=seed)[0]
    assert found == pytest.approx(seed * numeric(p, op, [x], 0), rel=1e-7, abs=1e-9)
    assert (found == 0) == (op in STEPS)


@pytest.mark.parametrize("op", BINARY)
@pytest.mark.parametrize("values", [(1.3, 0.6), (0.4, 2.2)])
def test_a_binary_rule_is_the_numeric_derivative_for_both_operands(p, op, values):
    found = gradient(p, op, *values, seed=1.5)
    for position in (0, 1):
        assert found[position] == pytest.approx(1.5 * numeric(p, op, values, position), rel=1e-7, abs=1e-9)


def test_fma_gives_each_factor_the_other_and_the_addend_one(p):
    assert gradient(p, "math.fma", 3.0, 5.0, 7.0, seed=2.0) == [10.0, 6.0, 2.0]


def test_fpowi_differentiates_its_base_only(p):
    _, found = gradients(p, "math.fpowi", ["f64", "i32"], [3.0, 4], result="f64")
    assert len(found) == 1
    assert float(found[0].data) == pytest.approx(4 * 27.0)
    _, found = gradients(p, "math.fpowi", ["f64", "i32"], [0.0, 0], result="f64")
    assert float(found[0].data) == 0


@pytest.mark.parametrize("chosen", [False, True])
def test_select_gives_everything_to_the_chosen_arm(p, chosen):
    _, found = gradients(p, "arith.select", ["i1", "f64", "f64"], [chosen, 2.0, 3.0], seed=4.0)
    assert [float(o.data) for o in found] == ([4.0, 0.0] if chosen else [0.0, 4.0])


@pytest.mark.parametrize("op", [*UNARY, *BINARY, "math.fma"])
def test_forward_and_reverse_agree(p, op):
    """The tangent in direction v is the gradient times v."""
    count = 3 if op == "math.fma" else 2 if op in BINARY else 1
    values, directions = [DOMAIN.get(op, 0.7), 0.4, 1.2][:count], [0.5, -2.0, 3.0][:count]
    expected = sum(g * v for g, v in zip(gradient(p, op, *values), directions, strict=True))
    assert tangent(p, op, values, directions) == pytest.approx(expected, rel=1e-12, abs=1e-14)


LEFT, RIGHT = [1.0, 0.0], [0.0, 1.0]
KINKS = [
    ("math.absf", (0.0,), [1.0]),
    ("math.absf", (-0.0,), [1.0]),
    ("math.absf", (-2.0,), [-1.0]),
    ("math.sqrt", (0.0,), [0.0]),
    ("math.floor", (1.5,), [0.0]),
    ("math.ceil", (1.5,), [0.0]),
    ("arith.maximumf", (1.0, 2.0), RIGHT),
    ("arith.maximumf", (2.0, 2.0), LEFT),
    ("arith.maximumf", (0.0, -0.0), LEFT),
    ("arith.maximumf", (-0.0, 0.0), RIGHT),
    ("arith.maxnumf", (1.0, 2.0), RIGHT),
    ("arith.maxnumf", (2.0, 2.0), LEFT),
    ("arith.maxnumf", (-0.0, 0.0), LEFT),
    ("arith.minimumf", (1.0, 2.0), LEFT),
    ("arith.minimumf", (2.0, 2.0), RIGHT),
    ("arith.minimumf", (-0.0, 0.0), LEFT),
    ("arith.minimumf", (0.0, -0.0), RIGHT),
    ("math.copysign", (2.0, 3.0), [1.0, 0.0]),
    ("math.copysign", (2.0, -3.0), [-1.0, 0.0]),
    ("math.copysign", (-2.0, -3.0), [1.0, 0.0]),
    ("math.copysign", (0.0, -0.0), [-1.0, 0.0]),
    ("math.copysign", (-0.0, -0.0), [1.0, 0.0]),
    ("math.powf", (0.0, 2.0), [0.0, 0.0]),
    ("arith.remf", (7.5, 2.0), [1.0, -3.0]),
    ("arith.remf", (-7.5, 2.0), [1.0, 3.0]),
]


@pytest.mark.parametrize(("op", "values", "expected"), KINKS)
@pytest.mark.parametrize("kind", ["f32", "f64"])
def test_conventions_at_kinks(p, op, values, expected, kind):
    assert gradient(p, op, *values, kind=kind) == expected
    # The same choice in forward mode.
    for position in range(len(values)):
        direction = [float(i == position) for i in range(len(values))]
        assert tangent(p, op, values, direction, kind=kind) == expected[position]


@pytest.mark.parametrize("kind", ["f16", "bf16", "f32", "f64"])
def test_products_of_small_dyadic_numbers_are_exact_in_every_type(p, kind):
    _, found = gradients(p, "arith.mulf", [kind, kind], [1.5, -2.25], seed=0.5)
    assert [float(o.data) for o in found] == [-1.125, 0.75]
    assert [o.bound for o in found] == [None, None]
    assert all(o.zero is False or o.data != 0 for o in found)


def test_quotients_are_never_exact_because_arcp_may_multiply(p):
    _, found = gradients(p, "arith.divf", ["f32", "f32"], [3.0, 2.0])
    assert [float(o.data) for o in found] == [0.5, -0.75]
    assert all(o.bound is not None and 0 < o.bound < 1e-5 for o in found)


@pytest.mark.parametrize(("op", "source", "result"), [("arith.extf", "f32", "f64"), ("arith.truncf", "f64", "f32")])
def test_conversions_turn_the_adjoint_round(p, op, source, result):
    seed = 1.0 + 2.0**-40
    _, found = gradients(p, op, [source], [0.5], seed=np.float64(seed) if result == "f64" else 1.25, result=result)
    assert found[0].data.dtype == (np.float32 if source == "f32" else np.float64)
    assert float(found[0].data) == (1.0 if result == "f64" else 1.25)


def test_a_zero_gradient_has_no_sign(p):
    _, found = gradients(p, "arith.negf", ["f64"], [1.0], seed=0.0)
    assert found[0].zero


def test_poison_and_inexact_operands_make_the_gradient_uncertain(p):
    """A maximum decided inside the error bound of its operands: nothing is known about either gradient."""
    body = """%s = math.sqrt(%x) : (f64) -> f64
%q = arith.mulf(%s, %s) : (f64, f64) -> f64
%r:2 = enzyme.autodiff(%q, %x, %one) <{activity = [#enzyme<activity enzyme_active>, #enzyme<activity enzyme_active>],
fn = @f, ret_activity = [#enzyme<activity enzyme_activenoneed>]}> : (f64, f64, f64) -> (f64, f64)
"""
    others = function("arith.maximumf", ["f64", "f64"], "f64")
    found = p.ok("%x: f64; %one: f64", body, 2.0, 1.0, returns="%r#0, %r#1 : f64, f64", others=others)
    assert all(o.skip is not None and o.skip.all() for o in found.values())


def test_bounds_cover_the_exact_derivative(p):
    for op, exact in (("math.exp", math.exp(0.7)), ("math.log", 1 / 0.7), ("math.tanh", 1 - math.tanh(0.7) ** 2)):
        _, found = gradients(p, op, ["f64"], [0.7])
        assert 0 < found[0].bound < 1e-13
        assert abs(float(found[0].data) - exact) <= found[0].bound


def test_every_rule_belongs_to_an_op_of_the_interpreter():
    assert set(RULES) <= all_rules().names()
    assert all_rules().names() >= TRANSPARENT


def test_llvm_ops_have_the_rules_of_their_twins(p):
    assert gradient(p, "llvm.fmul", 3.0, 5.0) == [5.0, 3.0]
    assert gradient(p, "llvm.intr.fmuladd", 3.0, 5.0, 7.0) == [5.0, 3.0, 1.0]
    assert gradient(p, "llvm.intr.maximum", -0.0, 0.0) == RIGHT

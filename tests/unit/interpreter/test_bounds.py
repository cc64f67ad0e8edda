"""Error bounds: None exactly when nothing rounded, and never smaller than what licensed evaluations differ by."""

import math
import random
from fractions import Fraction

import numpy as np
import pytest

from difftest.interpreter import errors_bound, errors_math, numerics_float, numerics_math
from difftest.interpreter.numerics import float_kind_of, int_kind
from difftest.interpreter.numerics_cast import from_int

KINDS = ("f16", "bf16", "f32", "f64")
NONE = frozenset()
EXACT = (None, None)


@pytest.fixture(autouse=True)
def quiet():
    with np.errstate(all="ignore"):
        yield


def samples(name, seed, count=200):
    kind = float_kind_of(name)
    rng = random.Random(seed)
    few = [rng.randint(-64, 64) / 8 for _ in range(count // 2)]
    many = [rng.uniform(-4, 4) * 2.0 ** rng.randint(-20, 20) for _ in range(count // 2)]
    found = np.array([*few, *many, 0.0, -0.0, kind.tiny, 2.0**-10]).astype(kind.dtype)
    return np.where(np.isfinite(found), found, kind.dtype.type(1.5))


RULES = {
    "addf": (lambda k: errors_bound.sum_bound(k, NONE, subtract=False), lambda a, b: a + b),
    "subf": (lambda k: errors_bound.sum_bound(k, NONE, subtract=True), lambda a, b: a - b),
    "mulf": (lambda k: errors_bound.product_bound(k, NONE), lambda a, b: a * b),
    "divf": (lambda k: errors_bound.quotient_bound(k, NONE), lambda a, b: a / b if b else None),
}


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("op", RULES)
def test_a_lane_has_no_bound_exactly_when_it_did_not_round(op, name):
    kind = float_kind_of(name)
    a = samples(name, 1)
    b = np.roll(samples(name, 2), 5)
    result = numerics_float.BINARY[op](a, b)
    bound = RULES[op][0](kind)((a, b), EXACT, result)
    assert bound is not None
    inexact = 0
    for x, y, r, e in zip(a, b, result, bound, strict=True):
        exact = RULES[op][1](Fraction(float(x)), Fraction(float(y)))
        if exact is None or not math.isfinite(r):
            continue
        if exact == Fraction(float(r)):
            assert e == 0 or abs(float(r)) < 2.0**-960, (x, y)  # float64 gives up on exactness among tiny products
        else:
            inexact += 1
            assert e >= abs(exact - Fraction(float(r)))
            assert e <= 4 * kind.unit * abs(float(r)) + kind.tiny
        one = RULES[op][0](kind)((x, y), EXACT, r)
        assert (0.0 if one is None else one) == e
    assert inexact > 20


@pytest.mark.parametrize("name", KINDS)
def test_dyadic_programs_stay_exact(name):
    kind = float_kind_of(name)
    rng = random.Random(4)
    a, b = (np.array([rng.randint(-8, 8) / 2 for _ in range(64)]).astype(kind.dtype) for _ in range(2))
    for op in ("addf", "subf", "mulf"):
        result = numerics_float.BINARY[op](a, b)
        assert RULES[op][0](kind)((a, b), EXACT, result) is None
    c = (a * b).astype(kind.dtype)
    quotient = numerics_float.BINARY["divf"](c[b != 0], b[b != 0])
    assert RULES["divf"][0](kind)((c[b != 0], b[b != 0]), EXACT, quotient) is None
    fused = numerics_float.fma(kind)(a, b, a)
    assert errors_bound.fma_bound(kind, NONE)((a, b, a), (None,) * 3, fused) is None


def test_double_products_below_the_normal_range_are_not_called_exact():
    kind = float_kind_of("f64")
    a, b = np.array([2.0**-540 * 1.5, 0.0]), np.array([2.0**-535 * 1.25, 5.0])
    bound = errors_bound.product_bound(kind, NONE)((a, b), EXACT, a * b)
    assert bound[0] > 0
    assert bound[1] == 0


@pytest.mark.parametrize("name", ("f32", "f64"))
def test_reassociated_and_contracted_sums_lie_within_the_bound(name):
    """A dot product in strict order carries a bound; fused, reversed and pairwise orders lie inside it."""
    kind = float_kind_of(name)
    flags = frozenset({"reassoc", "contract"})
    rng = np.random.default_rng(7)
    terms = 64
    x, y = (rng.uniform(-2, 2, (terms, 300)).astype(kind.dtype) for _ in range(2))
    total, total_bound = np.zeros(300, kind.dtype), None
    of_product = errors_bound.product_bound(kind, flags)
    of_sum = errors_bound.sum_bound(kind, flags, subtract=False)
    for left, right in zip(x, y, strict=True):
        product = left * right
        bound = of_product((left, right), EXACT, product)
        before = total
        total = total + product
        total_bound = of_sum((before, product), (total_bound, bound), total)
    fused = np.zeros(300, kind.dtype)
    for left, right in zip(x, y, strict=True):
        fused = numerics_float.fma(kind)(left, right, fused)
    backwards = np.zeros(300, kind.dtype)
    for left, right in zip(x[::-1], y[::-1], strict=True):
        backwards = backwards + left * right
    pairwise = np.sum(x * y, axis=0, dtype=kind.dtype)
    assert np.any(fused != total)
    for other in (fused, backwards, pairwise):
        assert np.all(np.abs(other.astype(np.float64) - total) <= total_bound)
    assert np.median(total_bound) < 1000 * kind.unit * 64  # and it still says something


@pytest.mark.parametrize("op", RULES)
def test_operand_bounds_cover_every_value_they_allow(op):
    kind = float_kind_of("f64")
    rng = np.random.default_rng(3)
    a, b = rng.uniform(1, 4, 400), rng.uniform(-4, -1, 400)
    of_a, of_b = rng.uniform(0, 0.2, 400), rng.uniform(0, 0.2, 400)
    compute = numerics_float.BINARY[op]
    bound = RULES[op][0](kind)((a, b), (of_a, of_b), compute(a, b))
    for s in (-1, 0, 1):
        for t in (-1, 0, 1):
            moved = compute(a + s * of_a, b + t * of_b)  # the ends themselves are rounded here
            assert np.all(np.abs(moved - compute(a, b)) <= bound + 1e-14)
    one_sided = RULES[op][0](kind)((a, b), (None, of_b), compute(a, b))
    assert np.all(one_sided <= bound)


def test_an_exact_operation_on_inexact_operands_rounds_elsewhere():
    kind = float_kind_of("f32")
    one = np.float32(1.0)
    bound = errors_bound.sum_bound(kind, NONE, subtract=False)((one, one), (1e-12, None), np.float32(2.0))
    assert bound >= 2.0**-23


def test_division_by_an_interval_around_zero_is_unknown():
    kind = float_kind_of("f64")
    bound = RULES["divf"][0](kind)((np.float64(1.0), np.float64(0.5)), (None, 0.75), np.float64(2.0))
    assert bound == math.inf


def test_fast_division_is_never_exact_and_unknown_for_huge_divisors():
    kind = float_kind_of("f32")
    for flag in ("arcp", "afn"):
        rule = errors_bound.quotient_bound(kind, frozenset({flag}))
        a, b = np.array([6.0, 1.0], np.float32), np.array([2.0, 2.0**127], np.float32)
        bound = rule((a, b), EXACT, a / b)
        assert bound[0] >= 2 * 2.0**-23 * 3 / 2
        assert bound[1] == math.inf
    assert RULES["divf"][0](kind)((np.float32(6), np.float32(2)), EXACT, np.float32(3)) is None


def test_results_that_are_not_finite_are_exact_from_exact_operands_and_unknown_otherwise():
    kind = float_kind_of("f32")
    rule = errors_bound.sum_bound(kind, NONE, subtract=False)
    inf = np.float32(math.inf)
    assert rule((inf, np.float32(1)), EXACT, inf) == 0
    assert rule((inf, np.float32(1)), (None, 0.5), inf) == math.inf
    nan = rule((np.array([inf, 1]), np.array([-inf, 1])), EXACT, np.array([math.nan, 2.0]))
    assert nan is None or nan.tolist() == [0.0, 0.0]


def test_comparisons_inside_the_bound_are_uncertain():
    a, b = np.array([1.0, 1.0, 1.0, math.nan]), np.array([1.0, 1.1, 2.0, 1.0])
    found = errors_bound.compare_discrete((a, b), (0.2, None))
    assert found.tolist() == [True, True, False, True]
    assert not np.any(errors_bound.compare_discrete((a, b), (np.zeros(4), None)))


def test_steps_inside_the_bound_are_uncertain():
    values, bounds = np.array([1.9, 1.5, 2.0, -0.05]), np.array([0.2, 0.2, 0.1, 0.1])
    assert errors_bound.step_discrete(np.floor)((values,), (bounds,)).tolist() == [True, False, True, True]
    assert errors_bound.step_discrete(np.trunc)((values,), (bounds,)).tolist() == [True, False, True, False]
    assert errors_bound.step_discrete(np.floor)((values,), (np.zeros(4),)).tolist() == [False] * 4


def test_remainders_jump_at_multiples():
    a, b = np.array([5.9, 5.0, 0.05]), np.array([2.0, 2.0, 2.0])
    bound = errors_bound.uncertain_where(errors_bound.remainder_discrete, errors_bound.remainder_bound)
    found = bound((a, b), (0.2, None), np.fmod(a, b))
    assert found[0] == math.inf
    assert found[1] == 0.2
    assert found[2] == math.inf
    assert bound((a, b), EXACT, np.fmod(a, b)) is None
    wider = bound((a, b), (None, 0.01), np.fmod(a, b))
    assert wider[1] >= 0.02


def test_signs_of_values_near_zero_are_unknown():
    bound = errors_bound.uncertain_where(errors_bound.sign_discrete, errors_bound.keep_bound)
    a, b = np.array([1.0, 1.0]), np.array([0.1, -3.0])
    assert bound((a, b), (0.25, 0.5), a).tolist() == [math.inf, 0.25]


def test_narrowing_rounds_once_more():
    rule = errors_bound.narrow_bound(float_kind_of("f16"))
    wide = np.array([1.0, 1.0001], np.float32)
    bound = rule((wide,), (None,), wide.astype(np.float16))
    assert bound[0] == 0
    assert bound[1] >= abs(float(wide[1]) - float(np.float16(wide[1])))
    assert rule((wide[:1],), (None,), wide[:1].astype(np.float16)) is None


def test_integers_convert_exactly_until_they_round():
    i32, f32, f16 = int_kind(32), float_kind_of("f32"), float_kind_of("f16")
    assert errors_bound.from_int_bound(int_kind(16), f32, signed=True) is None
    rule = errors_bound.from_int_bound(i32, f32, signed=True)
    values = np.array([5, (1 << 24) + 1, 1 << 30, -(1 << 24) - 1], np.int32)
    bound = rule((values,), (None,), from_int(i32, f32, signed=True)(values))
    assert [e > 0 for e in bound] == [False, True, False, True]
    assert rule((7,), (None,), np.float32(7)) is None
    narrow = errors_bound.from_int_bound(i32, f16, signed=False)
    assert narrow((2049,), (None,), np.float16(2048)) >= 1
    assert rule((values,), (np.array([0, 0, math.inf, 0]),), values.astype(np.float32))[2] == math.inf


FUNCTIONS = {
    "exp": np.linspace(-8, 8, 81),
    "exp2": np.linspace(-8, 8, 81),
    "expm1": np.linspace(-8, 8, 81),
    "log": np.linspace(0.01, 9, 81),
    "log2": np.linspace(0.01, 9, 81),
    "log10": np.linspace(0.01, 9, 81),
    "log1p": np.linspace(-0.99, 9, 81),
    "sin": np.linspace(-4, 4, 81),
    "cos": np.linspace(-4, 4, 81),
    "tan": np.linspace(-1.5, 1.5, 81),
    "asin": np.linspace(-0.999, 0.999, 81),
    "acos": np.linspace(-0.999, 0.999, 81),
    "atan": np.linspace(-9, 9, 81),
    "sinh": np.linspace(-8, 8, 81),
    "cosh": np.linspace(-8, 8, 81),
    "tanh": np.linspace(-8, 8, 81),
    "asinh": np.linspace(-8, 8, 81),
    "acosh": np.linspace(1.001, 8, 81),
    "atanh": np.linspace(-0.999, 0.999, 81),
    "erf": np.linspace(-4, 4, 81),
    "erfc": np.linspace(-4, 4, 81),
    "cbrt": np.linspace(-8, 8, 82),
    "rsqrt": np.linspace(0.01, 8, 81),
}


def test_every_function_has_a_range_to_be_tested_on():
    assert set(FUNCTIONS) == set(numerics_math.FUNCTIONS)


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("spread", [1e-9, 1e-3, 0.1, 1.0])
def test_function_bounds_cover_moved_arguments_or_give_up(name, spread):
    kind, x = float_kind_of("f64"), FUNCTIONS[name]
    compute = numerics_math.function(name, kind)
    bound = errors_math.function_bound(name, kind, NONE)((x,), (np.full(x.shape, spread),), compute(x))
    known = np.isfinite(bound)
    assert known.any() or spread > 1e-3
    for step in (-1.0, -0.5, 0.5, 1.0):
        moved = compute(x + step * spread)
        assert np.all(np.abs(moved - compute(x))[known] <= bound[known])


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("type_name", ("f16", "f32"))
def test_functions_allow_the_documented_ulps(name, type_name):
    kind = float_kind_of(type_name)
    x = FUNCTIONS[name].astype(kind.dtype)
    result = numerics_math.function(name, kind)(x)
    assert result.dtype == kind.dtype
    bound = errors_math.function_bound(name, kind, NONE)((x,), (None,), result)
    ulp = np.spacing(np.abs(result)).astype(np.float64)
    ulps = 2 if type_name == "f16" else 8
    finite = np.isfinite(result)
    assert np.all(bound[finite] >= ulps * ulp[finite])
    assert np.all(bound[finite] <= 2.01 * ulps * ulp[finite] + 2.0**-126 + 4 * kind.tiny)
    fast = errors_math.function_bound(name, kind, frozenset({"afn"}))((x,), (None,), result)
    assert np.all(fast[finite] >= np.maximum(bound[finite], 2.0**-20))


def test_square_roots_are_exact_only_in_double():
    double, single = float_kind_of("f64"), float_kind_of("f32")
    x = np.array([4.0, 2.0, 0.0])
    bound = errors_math.root_bound(double, NONE)((x,), (None,), np.sqrt(x))
    assert [e > 0 for e in bound] == [False, True, False]
    assert errors_math.root_bound(double, NONE)((np.array([4.0, 9.0]),), (None,), np.array([2.0, 3.0])) is None
    narrow = errors_math.root_bound(single, NONE)((np.float32(4.0),), (None,), np.float32(2.0))
    assert narrow >= 2 * np.spacing(np.float32(2.0))
    moved = errors_math.root_bound(double, NONE)((x,), (np.array([0.5, 0.1, 0.1]),), np.sqrt(x))
    assert moved[0] >= 2 - math.sqrt(3.5)
    assert moved[2] == math.inf


def test_powers_cover_moved_arguments():
    kind = float_kind_of("f64")
    rng = np.random.default_rng(2)
    x, y = rng.uniform(0.2, 5, 300), rng.uniform(-3, 3, 300)
    compute = numerics_math.power(kind)
    bound = errors_math.power_bound(kind, NONE)((x, y), (1e-3, 1e-3), compute(x, y))
    known = np.isfinite(bound)
    assert known.mean() > 0.9
    for s in (-1, 1):
        for t in (-1, 1):
            moved = compute(x + s * 1e-3, y + t * 1e-3)
            assert np.all(np.abs(moved - compute(x, y))[known] <= bound[known])


def test_angles_cover_moved_arguments_and_give_up_at_the_cut():
    kind = float_kind_of("f64")
    angle = np.linspace(-3.1, 3.1, 60)
    a, b = np.sin(angle), np.cos(angle)
    compute = numerics_math.arc_tangent(kind)
    bound = errors_math.arc_tangent_bound(kind)((a, b), (0.01, 0.01), compute(a, b))
    known = np.isfinite(bound)
    assert known.sum() > 50
    for s in (-0.01, 0.01):
        assert np.all(np.abs(compute(a + s, b - s) - compute(a, b))[known] <= bound[known])
    at_cut = errors_math.arc_tangent_bound(kind)((np.float64(0.0), np.float64(-1.0)), (0.01, None), np.float64(math.pi))
    assert at_cut == math.inf

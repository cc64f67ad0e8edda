"""Bounds against exact rationals: a bound never lies."""

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from generators import budget
from generators.types import EXACT_LIMIT


@st.composite
def bounded(draw):
    frac = draw(st.integers(0, 6))
    num = draw(st.integers(0, 64))
    return Fraction(draw(st.integers(-num, num)), 1 << frac), (frac, num)


def within(value, bound):
    frac, num = bound
    scaled = value * (1 << frac)
    return scaled.denominator == 1 and abs(scaled) <= num


@given(bounded(), bounded())
def test_sum_difference_product_and_choice_stay_within_their_bounds(a, b):
    (x, p), (y, q) = a, b
    assert within(x + y, budget.add(p, q))
    assert within(x - y, budget.add(p, q))
    assert within(x * y, budget.multiply(p, q))
    assert within(x, budget.join(p, q))
    assert within(y, budget.join(p, q))


@given(bounded(), st.integers(1, 9))
def test_repeated_sums_and_rounding_stay_within_their_bounds(a, times):
    value, bound = a
    assert within(value * times, budget.scale(bound, times))
    for rounded in (value.__floor__(), value.__ceil__(), value.__trunc__(), value.__round__()):
        assert within(Fraction(rounded), budget.whole(bound))


@given(bounded(), st.integers(0, 6), st.integers(0, 64))
def test_fits_means_every_value_obeys_the_contract(a, frac, num):
    value, bound = a
    if budget.fits(bound, (frac, num)):
        assert within(value, (frac, num))


def test_exactness_ends_where_the_significand_does():
    assert budget.is_exact("f32", (4, EXACT_LIMIT["f32"]))
    assert not budget.is_exact("f32", (4, EXACT_LIMIT["f32"] + 1))
    assert budget.is_exact("f64", (4, EXACT_LIMIT["f32"] + 1))


@given(st.integers(-20, 20), st.integers(0, 20), st.integers(1, 5))
def test_trip_counts_equal_python_ranges(low, width, step):
    assert budget.trips(low, low + width, step) == len(range(low, low + width, step))

"""What counts as equal, and what as a difference."""

import ml_dtypes
import numpy as np
import pytest

from difftest.errors import HarnessError
from difftest.model import Observed, Outcome, OutcomeKind
from difftest.oracle.compare import compare


def outcome(*values, **extra):
    return Outcome(
        kind=OutcomeKind.OK,
        observed=tuple(Observed(label=f"arg{i}", data=np.asarray(v), **extra) for i, v in enumerate(values)),
    )


def differs(a, b, **extra):
    return compare(outcome(a, **extra), outcome(b)).difference


def test_equal_bits_agree_for_every_element_type():
    for dtype in (np.bool_, np.int8, np.int64, np.float16, np.float32, np.float64, ml_dtypes.bfloat16):
        values = np.array([0, 1, 1], dtype=dtype)
        assert differs(values, values.copy()) is None


def test_one_ulp_is_a_difference_without_a_bound_and_none_within_it():
    a = np.array([1.0, 2.0], dtype=np.float32)
    b = np.array([1.0, np.nextafter(np.float32(2), np.float32(3))], dtype=np.float32)
    found = differs(a, b)
    assert found is not None and found.index == (1,) and found.count == 1
    assert differs(a, b, bound=np.array([0.0, 3e-7])) is None
    assert differs(a, b, bound=np.array([3e-7, 0.0])) is not None


def test_any_nan_equals_any_nan_but_no_number():
    quiet = np.array([np.nan], dtype=np.float32)
    assert differs(quiet, -quiet) is None
    assert differs(quiet, np.array([1.0], dtype=np.float32)) is not None


def test_signed_zeros_differ_unless_a_rule_licenses_it():
    plus, minus = np.array([0.0]), np.array([-0.0])
    assert differs(plus, minus) is not None
    assert differs(plus, minus, zero=True) is None
    assert differs(plus, np.array([1e-300]), zero=True) is not None


def test_skipped_elements_are_not_compared_and_counted():
    a, b = np.array([1, 2]), np.array([1, 3])
    result = compare(outcome(a, skip=np.array([False, True])), outcome(b))
    assert result.difference is None
    assert (result.compared, result.skipped) == (1, 1)


def test_an_undefined_element_where_the_reference_is_defined_is_a_difference():
    a = np.array([1, 2])
    found = compare(outcome(a), outcome(a, skip=np.array([True, False]))).difference
    assert found is not None and found.actual == "undefined"


def test_undefined_is_licensed_where_the_reference_is_not_finite():
    a = np.array([np.inf, 2.0])
    assert compare(outcome(a), outcome(a, skip=np.array([True, False]))).difference is None
    assert compare(outcome(a), outcome(a, skip=np.array([False, True]))).difference is not None


def test_a_bound_larger_than_an_eighth_of_the_value_compares_nothing():
    result = compare(outcome(np.array([1.0]), bound=np.array([0.2])), outcome(np.array([50.0])))
    assert result.difference is None and result.skipped == 1


def test_infinities_need_the_same_sign_whatever_the_bound():
    assert differs(np.array([np.inf]), np.array([-np.inf]), bound=np.array([1.0])) is not None


def test_scalars_and_empty_buffers_compare():
    assert differs(np.int64(3), np.int64(4)) is not None
    assert differs(np.zeros((0, 3)), np.zeros((0, 3))) is None


def test_different_shapes_are_a_fault_of_the_harness():
    with pytest.raises(HarnessError):
        compare(outcome(np.zeros(2)), outcome(np.zeros(3)))

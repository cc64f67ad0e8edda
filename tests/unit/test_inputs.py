"""Arguments come from the seed alone."""

import hashlib

import numpy as np
import pytest

from difftest.errors import UsageError
from difftest.inputs import make_arguments
from difftest.ir.types import parse_type
from difftest.model import InputSpec


def arguments(*types, **spec):
    return make_arguments([parse_type(t) for t in types], InputSpec(**spec))


def test_the_same_seed_gives_the_same_bytes_for_ever():
    arrays = arguments("memref<7xf32>", "memref<3x5xi16>", "memref<4xbf16>", "memref<9xi1>", seed=3)
    digest = hashlib.sha256(b"".join(a.tobytes() for a in arrays)).hexdigest()
    assert digest == "6805807acbccd645fc4d7566be3592adf0e7cd4ba3ba747b1410f60ea167a775"


def test_an_argument_does_not_depend_on_the_others_shapes():
    first = arguments("memref<?xf64>", "memref<4xf64>", shapes={0: (3,)})
    second = arguments("memref<?xf64>", "memref<4xf64>", shapes={0: (30,)})
    assert (first[1] == second[1]).all()
    assert (first[0] == second[0][:3]).all()


def test_exact_floats_are_quarters_between_minus_four_and_four():
    (array,) = arguments("memref<1000xf32>")
    assert array.dtype == np.float32
    assert (np.abs(array) <= 4).all() and (array * 4 == np.round(array * 4)).all()
    assert len(np.unique(array)) == 33


def test_integers_stay_in_their_width_and_use_both_signs():
    for width in (1, 2, 3, 4, 8, 16, 32, 64):
        (array,) = arguments(f"memref<500xi{width}>")
        low, high = (0, 1) if width == 1 else (max(-8, -(1 << (width - 1))), min(8, (1 << (width - 1)) - 1))
        assert (array.min(), array.max()) == (low, high)


def test_scalars_default_to_two_and_dynamic_sizes_too():
    n, array = arguments("index", "memref<?x3xf32>")
    assert n == 2 and array.shape == (2, 3)


def test_given_values_and_shapes_are_used():
    n, x, flag, array = arguments("i32", "f64", "i1", "memref<?xf32>", scalars={0: -3, 1: 0.5, 2: 1}, shapes={3: (0,)})
    assert (n, x, flag, array.shape) == (-3, 0.5, True, (0,))


@pytest.mark.parametrize(
    ("types", "spec", "message"),
    [
        (["memref<4xf32>"], {"shapes": {0: (5,)}}, "does not fit argument 0, which is 4"),
        (["memref<?xf32>"], {"shapes": {0: (5, 2)}}, "does not fit"),
        (["index"], {"scalars": {3: 1}}, "there is no argument 3"),
        (["i32"], {"scalars": {0: 1.5}}, "is an integer"),
        (["tensor<4xf32>"], {}, "no input can be made"),
        (["memref<2xf32>"], {"profile": "odd"}, "unknown input profile 'odd'"),
    ],
)
def test_what_does_not_fit_is_refused(types, spec, message):
    with pytest.raises(UsageError, match=message):
        arguments(*types, **spec)


def test_the_special_profile_has_signed_zeros_nan_and_extremes():
    floats, ints = arguments("memref<2000xf32>", "memref<2000xi32>", profile="special")
    assert np.isnan(floats).any() and np.isinf(floats).any()
    assert (np.signbit(floats) & (floats == 0)).any()
    assert ints.max() == 2**31 - 1 and ints.min() == -(2**31)

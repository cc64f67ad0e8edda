"""The order is total, antisymmetric and prefers what its documentation says."""

from itertools import pairwise, product

import pytest

from difftest.model import InputSpec
from reducer.order import Size
from reducer.problem import Candidate


def size(text="", *, ops=1, structure=1, passes=0, pipeline=None, scalars=None):
    inputs = InputSpec(scalars=scalars or {})
    return Size(
        ops=ops, structure=structure, passes=passes, candidate=Candidate(text=text, pipeline=pipeline, inputs=inputs)
    )


LADDER = [
    size("zzz", ops=0, structure=9),
    size("zzz", structure=0, passes=9),
    size("zzz", passes=0),
    size("aaaa", passes=0, pipeline="a"),
    size("aaaa", passes=0, pipeline="aa"),
    size("a i32 1", passes=0),
    size("a i64 1", passes=0),
    size("a i64 1", scalars={0: 5}, passes=0),
    size("a i64 1", scalars={0: 7}, passes=0),
    size("b i64 1", scalars={0: 7}, passes=0),
    size("a", passes=1),
    size("a", structure=2),
    size("a", ops=2),
]


@pytest.mark.parametrize(("smaller", "larger"), list(pairwise(LADDER)))
def test_each_rung_is_below_the_next(smaller, larger):
    assert smaller < larger
    assert not larger < smaller
    assert smaller != larger


def test_the_order_is_total_and_transitive():
    for a, b, c in product(LADDER, repeat=3):
        assert (a < b) + (b < a) + (a == b) == 1
        assert not (a < b < c) or a < c


def test_names_of_values_weigh_nothing():
    assert size('%12 = "a"(%3)').tail[0] == size('%99 = "a"(%0)').tail[0] == 0
    assert size("^bb7: 2").tail[0] == 2

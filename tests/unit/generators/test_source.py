"""The draw interface: stable, in range, weighted, and shrinkable."""

from collections import Counter

import pytest
from hypothesis import find, given, settings
from hypothesis import strategies as st

from generators.source import HypothesisSource, SeededSource, TracingSource, Weighted


def test_same_seed_draws_the_same_values_forever():
    source = SeededSource(7)
    table = Weighted([("a", 3), ("b", 1)])
    drawn = [source.integer(0, 99), source.choice("xyz"), source.weighted(table), source.boolean(50), source.recent(9)]
    # Pinned: these bytes must not change without raising FORMAT_VERSION.
    assert drawn == [32, "x", "a", True, 2]


@given(st.integers(0, 2**32), st.integers(-50, 50), st.integers(0, 50))
def test_integers_stay_in_range(seed, low, width):
    assert low <= SeededSource(seed).integer(low, low + width) <= low + width


def test_every_end_of_a_range_is_drawn():
    source = SeededSource(1)
    assert {source.integer(-1, 1) for _ in range(100)} == {-1, 0, 1}


def test_weights_are_honoured_and_zero_weights_never_drawn():
    table = Weighted([("rare", 1), ("never", 0), ("often", 9)])
    source = SeededSource(3)
    counts = Counter(source.weighted(table) for _ in range(4000))
    assert set(counts) == {"rare", "often"}
    assert 200 < counts["rare"] < 600


@pytest.mark.parametrize(("percent", "low", "high"), [(0, 0, 0), (100, 1000, 1000), (30, 230, 370)])
def test_booleans_follow_their_percentage(percent, low, high):
    source = SeededSource(5)
    assert low <= sum(source.boolean(percent) for _ in range(1000)) <= high


def test_recent_prefers_the_newest():
    source = SeededSource(2)
    counts = Counter(source.recent(10) for _ in range(2000))
    assert counts[0] > counts[5] > 0
    assert max(counts) <= 9


@settings(max_examples=50)
@given(st.data())
def test_hypothesis_source_obeys_the_same_contract(data):
    source = HypothesisSource(data.draw)
    assert -3 <= source.integer(-3, 4) <= 4
    assert source.choice(("p", "q")) in {"p", "q"}
    assert source.weighted(Weighted([("a", 2), ("b", 0), ("c", 1)])) in {"a", "c"}
    assert source.boolean(50) in {True, False}
    assert 0 <= source.recent(3) < 3


def test_hypothesis_shrinks_towards_the_first_choice():
    @st.composite
    def words(draw):
        source = HypothesisSource(draw)
        return [source.choice("abc") for _ in range(source.integer(1, 6))]

    assert find(words(), lambda word: len(word) >= 2) == ["a", "a"]


def test_tracing_records_each_choice_and_changes_none():
    traced = TracingSource(SeededSource(7))
    plain = SeededSource(7)
    assert [traced.integer(0, 9), traced.boolean(50), traced.choice("ab"), traced.recent(4)] == [
        plain.integer(0, 9),
        plain.boolean(50),
        plain.choice("ab"),
        plain.recent(4),
    ]
    assert len(traced.choices) == 4
    assert traced.choices[0].startswith("integer 0..9: ")

"""Affine maps and sets against an independent evaluation, and their texts against themselves."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from difftest.ir.affine import (
    AffineBinary,
    AffineConstant,
    AffineDim,
    AffineMap,
    AffineSymbol,
    evaluate,
    parse_affine_map,
    parse_affine_set,
    strides_of,
)
from difftest.ir.lexer import AttributeTextError

LEAVES = st.one_of(
    st.builds(AffineConstant, st.integers(-9, 9)), st.builds(AffineDim, st.integers(0, 1)), st.just(AffineSymbol(0))
)
POSITIVE = st.builds(AffineConstant, st.integers(1, 7))
EXPRESSIONS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds(AffineBinary, st.sampled_from(["add", "mul"]), inner, inner),
        st.builds(AffineBinary, st.sampled_from(["mod", "floordiv", "ceildiv"]), inner, POSITIVE),
    ),
    max_leaves=8,
)


@given(EXPRESSIONS, st.integers(-20, 20), st.integers(-20, 20), st.integers(-20, 20))
def test_printing_and_parsing_keep_the_value(expression, first, second, symbol):
    printed = str(AffineMap(2, 1, (expression,)))
    parsed = parse_affine_map(printed)
    assert (parsed.dims, parsed.symbols) == (2, 1)
    expected = evaluate(expression, [first, second], [symbol])
    assert evaluate(parsed.results[0], [first, second], [symbol]) == expected
    assert str(parse_affine_map(str(parsed))) == str(parsed)


@pytest.mark.parametrize("divisor", [1, 2, 3, 7])
def test_division_follows_the_rules_for_every_sign(divisor):
    text = f"affine_map<(d0) -> (d0 floordiv {divisor}, d0 ceildiv {divisor}, d0 mod {divisor})>"
    floor, ceiling, modulo = parse_affine_map(text).results
    values = np.arange(-21, 22)
    for value, low, high, rest in zip(
        values.tolist(),
        evaluate(floor, [values], []).tolist(),
        evaluate(ceiling, [values], []).tolist(),
        evaluate(modulo, [values], []).tolist(),
        strict=True,
    ):
        assert low * divisor <= value < (low + 1) * divisor
        assert (high - 1) * divisor < value <= high * divisor
        assert 0 <= rest < divisor and (value - rest) % divisor == 0
        assert [evaluate(e, [value], []) for e in (floor, ceiling, modulo)] == [low, high, rest]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("affine_map<(d0, d1)[s0] -> (d0 floordiv 4 + s0 * 2)>", 5 // 4 + 14),
        ("affine_map<(i, j)[N] -> (i - j * 2 - -N)>", 5 - 6 + 7),
        ("affine_map<(d0, d1)[s0] -> (-(d0 + d1) mod 5)>", -8 % 5),
        ("affine_map<(d0, d1)[s0] -> (d0 * 2 + d1 * 3 mod 4)>", 10 + 9 % 4),
        ("affine_map<(d0, d1)[s0] -> (d0 - (d1 - s0))>", 5 - (3 - 7)),
        ("affine_map<(d0, d1)[s0] -> (symbol(s0) + 1)>", 8),
    ],
)
def test_precedence_and_names(text, value):
    assert evaluate(parse_affine_map(text).results[0], [5, 3], [7]) == value


def test_maps_without_operands_and_results():
    assert parse_affine_map("affine_map<() -> ()>") == AffineMap(0, 0, ())
    assert parse_affine_map("affine_map<() -> (-3)>").results == (AffineConstant(-3),)
    assert str(parse_affine_map("affine_map<(d0)[s0] -> (d0 - s0, d0 - 2, -d0)>")) == (
        "affine_map<(d0)[s0] -> (d0 - s0, d0 - 2, -d0)>"
    )


def test_sets_normalise_their_relations():
    text = "affine_set<(d0, d1)[s0] : (d0 >= 0, s0 - d0 - 1 >= 0, d1 == 3, d1 <= s0)>"
    found = parse_affine_set(text)
    assert found.equalities == (False, False, True, False)

    def holds(d0, d1, s0):
        values = [evaluate(e, [d0, d1], [s0]) for e in found.constraints]
        return all(v == 0 if equal else v >= 0 for v, equal in zip(values, found.equalities, strict=True))

    for d0, d1, s0 in itertools.product(range(-1, 5), repeat=3):
        assert holds(d0, d1, s0) == (0 <= d0 < s0 and d1 == 3 and d1 <= s0)
    assert parse_affine_set(str(found)) == found


@pytest.mark.parametrize(
    "text",
    [
        "affine_map<(d0) -> (d1)>",
        "affine_map<(d0) -> (d0 +)>",
        "affine_map<(d0) -> (d0)> x",
        "affine_map<(d0, d0) -> (d0)>",
        "affine_map<(d0) -> (d0 $ 1)>",
        "affine_set<(d0) : (d0)>",
        "affine_map<(d0) : (d0 >= 0)>",
        "affine_map<() -> (" + "(" * 5000 + "1" + ")" * 5000 + ")>",
        "affine_map<(d0) -> (" + "d0 + " * 5000 + "1)>",
        "",
    ],
)
def test_malformed_texts_are_refused(text):
    parse = parse_affine_set if text.startswith("affine_set") else parse_affine_map
    with pytest.raises(AttributeTextError):
        parse(text)


@given(EXPRESSIONS)
def test_a_strided_form_is_the_map(expression):
    form = strides_of(AffineMap(2, 1, (expression,)))
    if form is None:
        return
    strides, offset = form
    for first, second, symbol in itertools.product((-3, 0, 4), repeat=3):
        at_origin = evaluate(expression, [0, 0], [symbol])
        assert offset is None or offset == at_origin
        if None not in strides:
            linear = at_origin + strides[0] * first + strides[1] * second
            assert evaluate(expression, [first, second], [symbol]) == linear

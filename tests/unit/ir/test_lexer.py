"""Brackets, strings, lists and aliases of MLIR text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from difftest.ir.lexer import (
    LexError,
    collapse_blank,
    line_end,
    quote,
    scan,
    skip_blank,
    split_list,
    substitute_aliases,
    unquote,
)


@given(st.text())
def test_quoting_is_undone_by_unquoting(value):
    literal = quote(value)
    assert unquote(literal) == value
    assert literal.isascii() and "\n" not in literal
    assert scan(literal + ")", 0, ")") == len(literal)


@given(st.binary())
def test_bytes_survive_as_surrogate_escapes(data):
    value = data.decode("utf-8", "surrogateescape")
    assert unquote(quote(value)).encode("utf-8", "surrogateescape") == data


def test_lists_split_at_their_own_commas_only():
    assert split_list('a, [b, c], "d, \\", e", (f) -> g<h, i>, affine_set<(x) : (x >= 0, x <= 3)>') == (
        "a",
        "[b, c]",
        '"d, \\", e"',
        "(f) -> g<h, i>",
        "affine_set<(x) : (x >= 0, x <= 3)>",
    )
    assert split_list("  ") == ()
    for text in ("a)", "(a", 'a, "b', "a]"):
        with pytest.raises(LexError):
            split_list(text)


def test_blanks_and_comments_collapse_outside_strings():
    assert collapse_blank('[1,  // one\n  "a  // b",\t2]\n') == '[1, "a  // b", 2]'
    assert skip_blank(" \n// x\n  y", 0) == 9


def test_line_ends_inside_brackets_do_not_count():
    assert line_end("[1,\n 2]\nx", 0) == 7
    assert line_end("abc", 0) == 3


def test_aliases_are_names_without_dots_outside_strings():
    aliases = {"#map": "affine_map<() -> (0)>", "!t": "f32"}
    text = '[#map, "#map", #map.x<1>, #gpu<dim x>, tensor<2x!t>]'
    assert substitute_aliases(text, aliases) == (
        '[affine_map<() -> (0)>, "#map", #map.x<1>, #gpu<dim x>, tensor<2xf32>]'
    )
    with pytest.raises(LexError, match="#other"):
        substitute_aliases("#other", aliases)

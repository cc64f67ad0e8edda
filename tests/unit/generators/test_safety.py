"""Each repair rule: the text it emits does what its bounds say, and it is counted only when it is needed."""

import re

import pytest

from generators import PROFILES, SeededSource
from generators.budget import fits
from generators.context import Context, tables_for
from generators.floating import choose
from generators.program import FAMILIES
from generators.safety import clamp_index, fit_float, positive_divisor, shift_amount
from generators.scope import Value
from generators.types import CONTRACT


@pytest.fixture
def context():
    profile = PROFILES["default"]
    return Context(SeededSource(0), profile, tables_for(profile), FAMILIES)


OPS = {
    "arith.andi": lambda a, b: a & b,
    "arith.ori": lambda a, b: a | b,
    "arith.maxsi": max,
    "arith.minsi": min,
    "arith.remui": lambda a, b: a % b,
}


def evaluate(context, start, number):
    """Run the emitted integer lines on one value."""
    known = {start: number}
    for line in context.prologue:
        name, value = re.search(r"(%\d+) = .*value = (-?\d+) :", line).groups()
        known[name] = int(value)
    result = number
    for line in context.lines:
        name, op, a, b = re.search(r'(%\d+) = "([\w.]+)"\((%\w+), (%\w+)\)', line).groups()
        result = known[name] = OPS[op](known[a], known[b])
    return result


@pytest.mark.parametrize("number", [-128, -1, 0, 1, 7, 16, 127])
def test_a_divisor_becomes_positive(context, number):
    fixed = positive_divisor(context, Value("%v", "i8", -128, 127))
    assert 1 <= fixed.lo <= evaluate(context, "%v", number) <= fixed.hi
    assert context.repairs == {"divisor-masked": 1}


@pytest.mark.parametrize("number", [-32768, -1, 0, 15, 16, 32767])
def test_a_shift_amount_becomes_smaller_than_the_width(context, number):
    fixed = shift_amount(context, Value("%v", "i16", -32768, 32767))
    assert 0 <= evaluate(context, "%v", number) <= fixed.hi < 16
    assert context.repairs == {"shift-masked": 1}


@pytest.mark.parametrize("low", [-9, 0, 2])
@pytest.mark.parametrize("size", [1, 3, 8])
def test_an_index_lands_inside_the_dimension(context, low, size):
    fixed = clamp_index(context, Value("%v", "index", low, 40), size)
    assert fixed.hi < size
    for number in range(low, 41):
        assert 0 <= evaluate(context, "%v", number) <= fixed.hi


def test_values_already_proven_safe_are_left_alone(context):
    proven = Value("%v", "i32", 1, 5)
    assert positive_divisor(context, proven) is proven
    assert shift_amount(context, proven) is proven
    index = Value("%i", "index", 0, 3)
    assert clamp_index(context, index, 4) is index
    small = Value("%f", "f32", 0, 16, 2)
    assert fit_float(context, small, CONTRACT["f32"]) is small
    assert context.repairs == {}
    assert context.lines == []


@pytest.mark.parametrize(("frac", "num"), [(2, 1 << 20), (9, 1 << 10), (12, 1 << 24)])
def test_a_float_is_brought_within_its_contract(context, frac, num):
    fixed = fit_float(context, Value("%f", "f32", 0, num, frac), CONTRACT["f32"])
    assert fits((fixed.frac, fixed.hi), CONTRACT["f32"])
    assert context.repairs


@pytest.mark.parametrize("op", ["arith.minimumf", "arith.maximumf"])
def test_the_operand_with_a_derivative_comes_first(context, op):
    """Canonicalisation moves constants to the right; at a tie that would be another derivative (SEMANTICS §11)."""
    active, constant = Value("%v", "f64", 0, 4), context.drawn_constant("f64")
    active.slope = 1
    for a, b in ((active, constant), (constant, active)):
        choose(context, a, b, op)
        assert f'"{op}"(%v, {constant.name})' in context.lines[-1]

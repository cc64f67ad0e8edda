"""Integer rules against plain Python integers, for every representation."""

import itertools
import random
from fractions import Fraction
from math import ceil, floor

import numpy as np
import pytest

from difftest.interpreter import numerics_bits, numerics_cast, numerics_checks, numerics_int
from difftest.interpreter.numerics import INDEX, IntKind, int_kind

WIDTHS = (1, 2, 3, 7, 8, 13, 16, 31, 32, 33, 40, 63, 64, 65, 128)


@pytest.fixture(autouse=True)
def quiet():
    with np.errstate(all="ignore"):
        yield


def signed(value, n):
    value %= 1 << n
    return value - (1 << n) if value >> (n - 1) else value


def edges(n):
    low, high = -(1 << (n - 1)), (1 << (n - 1)) - 1
    rng = random.Random(n)
    points = {low, low + 1, -2, -1, 0, 1, 2, 3, high - 1, high, n - 1, n, low // 2, high // 3}
    points |= {rng.randint(low, high) for _ in range(6)} | {signed(rng.randint(0, 2 * n), n) for _ in range(3)}
    return sorted(p for p in points if low <= p <= high)


def pairs(n):
    points = range(-(1 << (n - 1)), 1 << (n - 1)) if n <= 3 else edges(n)
    return list(itertools.product(points, repeat=2))


def data(kind, values):
    """Values as uniform data, one by one, and as an array."""
    if kind.width == 1:
        return [bool(v) for v in values], np.array([bool(v) for v in values])
    return values, np.array(values, kind.dtype)


def trunc_div(a, b):
    q = Fraction(a, b)
    return ceil(q) if q < 0 else floor(q)


def unsigned(value, n):
    return value % (1 << n)


# The mathematics, on (a, b) signed and (x, y) unsigned readings; None: undefined or poison, not compared.
MEANING = {
    "add": lambda a, b, x, y, n: a + b,
    "sub": lambda a, b, x, y, n: a - b,
    "mul": lambda a, b, x, y, n: a * b,
    "and": lambda a, b, x, y, n: x & y,
    "or": lambda a, b, x, y, n: x | y,
    "xor": lambda a, b, x, y, n: x ^ y,
    "divs": lambda a, b, x, y, n: None if b == 0 else trunc_div(a, b),
    "divu": lambda a, b, x, y, n: None if y == 0 else floor(Fraction(x, y)),
    "floordivs": lambda a, b, x, y, n: None if b == 0 else floor(Fraction(a, b)),
    "ceildivs": lambda a, b, x, y, n: None if b == 0 else ceil(Fraction(a, b)),
    "ceildivu": lambda a, b, x, y, n: None if y == 0 else ceil(Fraction(x, y)),
    "rems": lambda a, b, x, y, n: None if b == 0 else a - b * trunc_div(a, b),
    "remu": lambda a, b, x, y, n: None if y == 0 else x - y * floor(Fraction(x, y)),
    "shl": lambda a, b, x, y, n: None if y >= n else a * 2**y,
    "shrs": lambda a, b, x, y, n: None if y >= n else floor(Fraction(a, 2**y)),
    "shru": lambda a, b, x, y, n: None if y >= n else floor(Fraction(x, 2**y)),
    "mins": lambda a, b, x, y, n: min(a, b),
    "maxs": lambda a, b, x, y, n: max(a, b),
    "minu": lambda a, b, x, y, n: min(x, y),
    "maxu": lambda a, b, x, y, n: max(x, y),
    "pow": lambda a, b, x, y, n: power(a, b, n),
}


def power(a, b, n):
    if b < 0:
        return None if a == 0 else (a if b % 2 else 1) if abs(a) == 1 else 0
    return pow(a, b, 1 << n)


def agree(kind, function, expected, operands, *, boolean=False):
    """`function` equals `expected` on uniform data, on arrays, and on arrays mixed with uniform data."""
    wanted = [e if e is None or boolean else signed(e, kind.width) for e in expected]
    columns = list(zip(*operands, strict=True))
    uniform = [data(kind, list(c))[0] for c in columns]
    arrays = [data(kind, list(c))[1] for c in columns]

    def check(found, at):
        if wanted[at] is None:
            return
        value = int(found)
        if kind.width == 1 and not boolean:
            value = -value
        assert value == wanted[at], (operands[at], value, wanted[at])

    for at, values in enumerate(zip(*uniform, strict=True)):
        found = function(*values)
        assert type(found) is (bool if boolean or kind.width == 1 else int)
        check(found, at)
    whole = function(*arrays)
    assert whole.dtype == (np.bool_ if boolean else kind.dtype)
    for at, found in enumerate(whole):
        check(found, at)
    for fixed in {0, len(operands) - 1, len(operands) // 2} if len(columns) > 1 else ():
        mixed = function(arrays[0], uniform[1][fixed])
        for at, (_, right) in enumerate(operands):
            if right == operands[fixed][1]:
                check(mixed if np.ndim(mixed) == 0 else mixed[at], at)
        mixed = function(uniform[0][fixed], arrays[1])
        for at, (left, _) in enumerate(operands):
            if left == operands[fixed][0]:
                check(mixed if np.ndim(mixed) == 0 else mixed[at], at)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", numerics_int.BINARY)
def test_binary_ops_equal_big_integers(name, width):
    kind = int_kind(width)
    operands = pairs(width)
    n = width
    expected = [MEANING[name](a, b, unsigned(a, n), unsigned(b, n), n) for a, b in operands]
    agree(kind, numerics_int.binary(name, kind), expected, operands)


def test_every_pair_of_bytes():
    kind = int_kind(8)
    a, b = (np.repeat(np.arange(-128, 128), 256), np.tile(np.arange(-128, 128), 256))
    for name in numerics_int.BINARY:
        found = numerics_int.binary(name, kind)(a.astype(np.int8), b.astype(np.int8)).tolist()
        for x, y, value in zip(a.tolist(), b.tolist(), found, strict=True):
            wanted = MEANING[name](x, y, x % 256, y % 256, 8)
            assert wanted is None or signed(wanted, 8) == value, (name, x, y)


PREDICATES = {
    "eq": lambda a, b, x, y: a == b,
    "ne": lambda a, b, x, y: a != b,
    "slt": lambda a, b, x, y: a < b,
    "sle": lambda a, b, x, y: a <= b,
    "sgt": lambda a, b, x, y: a > b,
    "sge": lambda a, b, x, y: a >= b,
    "ult": lambda a, b, x, y: x < y,
    "ule": lambda a, b, x, y: x <= y,
    "ugt": lambda a, b, x, y: x > y,
    "uge": lambda a, b, x, y: x >= y,
}


@pytest.mark.parametrize("width", WIDTHS)
def test_comparisons_read_the_top_bit_as_their_predicate_says(width):
    kind, operands = int_kind(width), pairs(width)
    for name in numerics_int.PREDICATES:
        expected = [PREDICATES[name](a, b, unsigned(a, width), unsigned(b, width)) for a, b in operands]
        agree(kind, numerics_int.compare(name, kind), expected, operands, boolean=True)


FLAGS = {
    ("add", "nsw"): lambda a, b, x, y, n: a + b != signed(a + b, n),
    ("add", "nuw"): lambda a, b, x, y, n: x + y >= 1 << n,
    ("sub", "nsw"): lambda a, b, x, y, n: a - b != signed(a - b, n),
    ("sub", "nuw"): lambda a, b, x, y, n: x < y,
    ("mul", "nsw"): lambda a, b, x, y, n: a * b != signed(a * b, n),
    ("mul", "nuw"): lambda a, b, x, y, n: x * y >= 1 << n,
    ("shl", "nsw"): lambda a, b, x, y, n: y >= n or a * 2**y != signed(a * 2**y, n),
    ("shl", "nuw"): lambda a, b, x, y, n: y >= n or x * 2**y >= 1 << n,
    ("shrs", "exact"): lambda a, b, x, y, n: y >= n or a % 2**y != 0,
    ("shru", "exact"): lambda a, b, x, y, n: y >= n or x % 2**y != 0,
    ("divs", "exact"): lambda a, b, x, y, n: None if b == 0 else a % b != 0,
    ("divu", "exact"): lambda a, b, x, y, n: None if b == 0 else x % y != 0,
    ("or", "disjoint"): lambda a, b, x, y, n: x & y != 0,
}


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("case", FLAGS, ids="-".join)
def test_broken_flags_are_poison_exactly_where_the_mathematics_says(case, width):
    name, flag = case
    kind, operands = int_kind(width), pairs(width)
    rule = numerics_checks.binary_rule(name, kind, frozenset({flag}))
    expected = [FLAGS[case](a, b, unsigned(a, width), unsigned(b, width), width) for a, b in operands]
    agree(kind, rule.poison, expected, operands, boolean=True)


@pytest.mark.parametrize("width", [8, 32, 64, 128])
def test_products_near_the_limit(width):
    """The float shortcut of the overflow check decides right next to the border."""
    kind = int_kind(width)
    rng = random.Random(5)
    operands = []
    for _ in range(300):
        a = rng.randint(2, (1 << (width // 2 + rng.randint(-2, 2))) + 2) % (1 << (width - 1)) or 3
        for limit in ((1 << (width - 1)) - 1, 1 << (width - 1), (1 << width) - 1, 1 << width):
            b = limit // a + rng.randint(-1, 1)
            operands += [(signed(a, width), signed(b, width)), (signed(-a, width), signed(b, width))]
    for flag in ("nsw", "nuw"):
        rule = numerics_checks.binary_rule("mul", kind, frozenset({flag}))
        meaning = FLAGS["mul", flag]
        expected = [meaning(a, b, unsigned(a, width), unsigned(b, width), width) for a, b in operands]
        agree(kind, rule.poison, expected, operands, boolean=True)


@pytest.mark.parametrize("width", WIDTHS)
def test_undefined_divisions(width):
    kind, operands = int_kind(width), pairs(width)
    low = -(1 << (width - 1))
    for name in ("divs", "rems", "ceildivs", "floordivs"):
        rule = numerics_checks.binary_rule(name, kind)
        agree(kind, rule.undefined, [b == 0 or (a == low and b == -1) for a, b in operands], operands, boolean=True)
    for name in ("divu", "remu", "ceildivu"):
        rule = numerics_checks.binary_rule(name, kind)
        agree(kind, rule.undefined, [b == 0 for _, b in operands], operands, boolean=True)


def test_the_broken_rule_is_named():
    i32 = int_kind(32)
    division = numerics_checks.binary_rule("divs", i32, frozenset({"exact"}))
    assert division.broken((1, 0)) == "division-by-zero"
    assert division.broken((i32.low, -1)) == "signed-division-overflow"
    assert division.broken((7, 2)) == "exact"
    shift = numerics_checks.binary_rule("shl", i32, frozenset({"nsw", "nuw"}))
    left = np.array([1, 1 << 30, -1], np.int32)
    assert shift.broken((left, np.array([32, 1, 1], np.int32)), 0) == "shift-amount"
    assert shift.broken((left, np.array([32, 1, 1], np.int32)), 1) == "nsw"
    assert shift.broken((left, np.array([32, 1, 1], np.int32)), 2) == "nuw"


@pytest.mark.parametrize("width", WIDTHS)
def test_extended_products_and_sums(width):
    kind, operands = int_kind(width), pairs(width)
    for is_signed in (True, False):
        product = numerics_int.extended_product(kind, signed=is_signed)
        values = [a * b if is_signed else unsigned(a, width) * unsigned(b, width) for a, b in operands]
        agree(kind, lambda a, b, f=product: f(a, b)[0], values, operands)
        agree(kind, lambda a, b, f=product: f(a, b)[1], [v >> width for v in values], operands)
    total = numerics_int.extended_sum(kind)
    agree(kind, lambda a, b: total(a, b)[0], [a + b for a, b in operands], operands)
    carries = [unsigned(a, width) + unsigned(b, width) >= 1 << width for a, b in operands]
    agree(kind, lambda a, b: total(a, b)[1], carries, operands, boolean=True)


def test_one_bit_signed_product_is_the_documented_pair():
    assert numerics_int.extended_product(int_kind(1), signed=True)(True, True) == (True, False)


@pytest.mark.parametrize("width", WIDTHS)
def test_bit_counts_and_absolute(width):
    kind = int_kind(width)
    operands = [(v,) for v in (edges(width) if width > 3 else range(-(1 << (width - 1)), 1 << (width - 1)))]
    bits = [format(unsigned(v, width), f"0{width}b") for (v,) in operands]
    agree(kind, numerics_bits.count_ones(kind), [b.count("1") for b in bits], operands)
    agree(kind, numerics_bits.count_leading_zeros(kind), [width - len(b.lstrip("0")) for b in bits], operands)
    agree(kind, numerics_bits.count_trailing_zeros(kind), [width - len(b.rstrip("0")) for b in bits], operands)
    agree(kind, numerics_bits.absolute(kind), [abs(v) for (v,) in operands], operands)


@pytest.mark.parametrize("source", [*map(int_kind, WIDTHS), INDEX], ids=lambda k: f"i{k.width}{k.index or ''}")
def test_resizing_keeps_or_drops_bits(source: IntKind):
    width = source.width
    operands = [(v,) for v in (edges(width) if width > 3 else range(-(1 << (width - 1)), 1 << (width - 1)))]
    uniform, array = data(source, [v for (v,) in operands])
    for target in (*map(int_kind, WIDTHS), INDEX):
        for is_signed in (True, False):
            cast = numerics_cast.resize(source, target, signed=is_signed)
            wanted = [signed(v if is_signed else unsigned(v, width), target.width) for (v,) in operands]
            whole = cast(array)
            assert whole.dtype == target.dtype
            for value, element, expected in zip(uniform, whole, wanted, strict=True):
                one = cast(value)
                assert type(one) is (bool if target.width == 1 else int)
                assert expected in (int(one), -int(one) if target.width == 1 else int(one))
                assert int(element) == int(one)
            if target.width < width:
                lost = numerics_cast.outside(source, target, signed=is_signed)
                reading = [(v if is_signed else unsigned(v, width)) for (v,) in operands]
                expected = [r != (signed(r, target.width) if is_signed else unsigned(r, target.width)) for r in reading]
                agree(source, lost, expected, operands, boolean=True)


def test_index_results_outside_31_bits_break_a_promise_only():
    rule = numerics_checks.binary_rule("add", INDEX)
    assert rule.poison is None
    assert rule.promise_rule == "index-width"
    top = (1 << 31) - 1
    assert rule.promise(top, top, 0) is False
    assert rule.promise(top + 1, top, 1) is True
    assert rule.promise(-(1 << 31), -(1 << 31), 0) is False
    assert rule.promise(-(1 << 31) - 1, -(1 << 31), -1) is True
    lanes = np.array([top, -top - 1, 5])
    assert rule.promise(rule.compute(lanes, 1), lanes, 1).tolist() == [True, False, False]
    assert rule.promise(rule.compute(lanes, -1), lanes, -1).tolist() == [False, True, False]
    product = numerics_checks.binary_rule("mul", INDEX)
    assert product.promise(product.compute(1 << 62, 4), 1 << 62, 4) is True  # wraps to 0, which looks harmless
    assert numerics_checks.binary_rule("and", INDEX).promise is None
    assert numerics_checks.binary_rule("add", int_kind(64)).promise is None

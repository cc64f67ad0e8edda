"""Float rules against exact rational arithmetic, rounded once."""

import math
import random
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from difftest.interpreter import numerics_cast, numerics_float
from difftest.interpreter.numerics import float_kind_of, int_kind

KINDS = ("f16", "bf16", "f32", "f64")
TOP_EXPONENT = {"f16": 15, "bf16": 127, "f32": 127, "f64": 1023}
BITS = {"f16": np.uint16, "bf16": np.uint16, "f32": np.uint32, "f64": np.uint64}


@pytest.fixture(autouse=True)
def quiet():
    with np.errstate(all="ignore"):
        yield


def rounded(exact, name):
    """The nearest number of the type, ties to even, as a Fraction or an infinite float."""
    kind = float_kind_of(name)
    if exact == 0:
        return Fraction(0)
    size = abs(exact)
    exponent = math.floor(math.log2(size.numerator)) - math.floor(math.log2(size.denominator))
    while Fraction(2) ** exponent > size:
        exponent -= 1
    while Fraction(2) ** (exponent + 1) <= size:
        exponent += 1
    unit = Fraction(2) ** max(exponent - kind.precision + 1, kind.tiny_exponent)
    value = round(size / unit) * unit
    if value >= Fraction(2) ** (TOP_EXPONENT[name] + 1):
        return math.inf if exact > 0 else -math.inf
    return value if exact > 0 else -value


def numbers(name, seed=1, count=60):
    """Finite numbers of the type: edges, random bit patterns, and neighbours in size."""
    kind = float_kind_of(name)
    rng = random.Random(seed)
    width = kind.width
    raw = np.array([rng.getrandbits(width) for _ in range(count)], BITS[name]).view(kind.dtype)
    near = [rng.choice((1, -1)) * rng.getrandbits(kind.precision) * 2.0 ** rng.randint(-12, 3) for _ in range(count)]
    special = [0.0, -0.0, 1.0, -1.0, kind.tiny, -kind.tiny, 2.0 ** TOP_EXPONENT[name], 1 + 2.0 ** (1 - kind.precision)]
    values = np.concatenate([raw, np.array([*near, *special]).astype(kind.dtype)])
    return values[np.isfinite(values)]


def same(found, expected):
    value = float(found)
    if isinstance(expected, float):
        return value == expected
    return math.isfinite(value) and Fraction(value) == expected


OPERATIONS = {
    "addf": lambda a, b: a + b,
    "subf": lambda a, b: a - b,
    "mulf": lambda a, b: a * b,
    "divf": lambda a, b: a / b if b else None,
}


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_arithmetic_rounds_once(name, operation):
    a = numbers(name, 1)
    b = np.roll(numbers(name, 1), 7)
    b = np.resize(b, a.shape)
    compute = numerics_float.BINARY[operation]
    whole = compute(a, b)
    assert whole.dtype == a.dtype
    for x, y, found in zip(a, b, whole, strict=True):
        exact = OPERATIONS[operation](Fraction(float(x)), Fraction(float(y)))
        assert exact is None or same(found, rounded(exact, name)), (x, y, found)
        one = compute(x, y)
        assert one.dtype == a.dtype
        assert float(one) == float(found) or exact is None


@pytest.mark.parametrize("name", KINDS)
def test_fma_rounds_once(name):
    kind = float_kind_of(name)
    rng = random.Random(3)
    a, b, c = numbers(name, 2, 120), numbers(name, 3, 120), numbers(name, 4, 120)
    size = min(len(a), len(b), len(c))
    a, b, c = a[:size].copy(), b[:size].copy(), c[:size].copy()
    # Cancelling and nearly tying sums are where two roundings differ from one.
    for at in range(0, size, 3):
        a[at], b[at] = (kind.dtype.type(1 + rng.getrandbits(kind.precision - 1) * kind.unit * 2) for _ in range(2))
        c[at] = -(a[at] * b[at]) if at % 2 else a[at] * b[at] * kind.dtype.type(2.0 ** rng.choice((-8, 1, 8)))
    whole = numerics_float.fma(kind)(a, b, c)
    assert whole.dtype == kind.dtype
    for x, y, z, found in zip(a, b, c, whole, strict=True):
        exact = Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z))
        assert same(found, rounded(exact, name)), (x, y, z, found)
    for at in range(0, size, 11):
        assert float(numerics_float.fma(kind)(a[at], b[at], c[at])) == float(whole[at])


def test_fma_of_extreme_doubles():
    fma = numerics_float.fma(float_kind_of("f64"))
    big, tiny = 1.5 * 2.0**1000, 2.0**-1074
    assert fma(np.float64(big), np.float64(big), np.float64(-1.0)) == math.inf
    assert fma(np.float64(2.0**600), np.float64(2.0**600), np.float64(-math.inf)) == -math.inf
    assert fma(np.float64(2.0**600), np.float64(2.0**423), np.float64(-(2.0**1023))) == 0.0
    assert fma(np.float64(2.0**-600), np.float64(2.0**-600), np.float64(1.0)) == 1.0
    assert fma(np.float64(2.0**-600), np.float64(2.0**-475), np.float64(tiny)) == 2 * tiny
    assert fma(np.float64(1 + 2.0**-52), np.float64(1 + 2.0**-52), np.float64(-1.0)) == 2.0**-51 + 2.0**-104
    assert math.isnan(fma(np.float64(math.inf), np.float64(0.0), np.float64(1.0)))
    assert math.copysign(1, fma(np.float64(-0.0), np.float64(1.0), np.float64(-0.0))) == -1
    assert math.copysign(1, fma(np.float64(1.0), np.float64(1.0), np.float64(-1.0))) == 1


def test_single_fma_avoids_double_rounding():
    """a*b + c lies just above a tie of float32 by less than a double can say beside it."""
    a, b, c = np.float32(1 + 2.0**-23), np.float32(2.0**-24), np.float32(1.0)
    found = numerics_float.fma(float_kind_of("f32"))(a, b, c)
    assert found == np.float32(1 + 2.0**-23)
    low = numerics_float.fma(float_kind_of("f32"))(
        np.float32(-(2.0**-24)), np.float32(1 + 2.0**-23), np.float32(1 + 2.0**-22)
    )
    exact = -(Fraction(2) ** -24) * (1 + Fraction(2) ** -23) + 1 + Fraction(2) ** -22
    assert same(low, rounded(exact, "f32"))


@pytest.mark.parametrize("source", KINDS)
@pytest.mark.parametrize("target", KINDS)
def test_float_conversions_round_once(source, target):
    kind, into = float_kind_of(source), float_kind_of(target)
    values = numbers(source, 9, 200)
    ties = [1 + 2.0**-into.precision * (1 + e) for e in (0.0, 2.0**-30, -(2.0**-30), 2.0**-12, -(2.0**-12))]
    values = np.concatenate([values, np.array([*ties, *(-t for t in ties)]).astype(kind.dtype)])
    found = numerics_float.convert(kind, into)(values)
    assert found.dtype == into.dtype
    for value, result in zip(values, found, strict=True):
        assert same(result, rounded(Fraction(float(value)), target)), (value, result)
        assert math.copysign(1, result) == math.copysign(1, value)
        assert float(numerics_float.convert(kind, into)(value)) == float(result)
    special = numerics_float.convert(kind, into)(np.array([math.inf, -math.inf, math.nan], kind.dtype))
    assert special[:2].tolist() == [math.inf, -math.inf]
    assert np.isnan(special[2])


@pytest.mark.parametrize("width", [1, 2, 7, 8, 16, 31, 32, 33, 64, 65, 128])
@pytest.mark.parametrize("target", KINDS)
def test_integers_convert_with_one_rounding(width, target):
    source, into = int_kind(width), float_kind_of(target)
    rng = random.Random(width)
    values = [source.wrap(rng.getrandbits(width) >> rng.randint(0, width - 1)) for _ in range(60)]
    # Ties of the target with a one far below.
    for place in range(into.precision + 1, width - 1):
        for tail in (0, 1, -1):
            values.append(source.wrap((1 << place) + (1 << (place - into.precision)) + tail))
    values += [source.low, source.high, 0, -1]
    for is_signed in (True, False):
        compute = numerics_cast.from_int(source, into, signed=is_signed)
        array = np.array([bool(v) for v in values] if width == 1 else values, source.dtype)
        whole = compute(array)
        assert whole.dtype == into.dtype
        for value, found in zip(values, whole, strict=True):
            exact = Fraction(value if is_signed else value % (1 << width))
            assert same(found, rounded(exact, target)), (value, is_signed)
            assert float(compute(bool(value) if width == 1 else value)) == float(found)


@pytest.mark.parametrize("width", [1, 2, 7, 8, 16, 32, 33, 64, 65, 128])
@pytest.mark.parametrize("name", KINDS)
def test_floats_convert_towards_zero_and_say_what_does_not_fit(width, name):
    kind, target = float_kind_of(name), int_kind(width)
    limit = 2.0 ** (width - 1)
    near = [
        s * limit * f for s in (1, -1) for f in (0.5, 1 - 2 * kind.unit, 1, 1 + 2 * kind.unit, 2, 2 - 4 * kind.unit)
    ]
    raw = [*near, -0.5, -0.99, 0.5, 0.99, -1.0, -1.5, 0.0, -0.0, math.nan, math.inf, -math.inf]
    values = np.concatenate([np.array(raw).astype(kind.dtype), numbers(name, 5, 20)])
    for is_signed in (True, False):
        low, high = (target.low, target.high) if is_signed else (0, target.mask)
        compute, misfit = (
            numerics_cast.to_int(target, signed=is_signed),
            numerics_cast.does_not_fit(target, signed=is_signed),
        )
        whole, bad = compute(values), misfit(values)
        assert whole.dtype == target.dtype
        for value, found, wrong in zip(values, whole, bad, strict=True):
            number = float(value)
            fits = math.isfinite(number) and low <= math.trunc(number) <= high
            assert bool(wrong) != fits, value
            assert misfit(value) is not fits
            one = compute(value)
            assert type(one) is (bool if width == 1 else int)
            assert int(one) == int(found)
            if fits:
                assert int(found) % (1 << width) == math.trunc(number) % (1 << width)


@pytest.mark.parametrize("name", KINDS)
def test_extrema_order_zeros_and_treat_nan_as_documented(name):
    dtype = float_kind_of(name).dtype
    zero, minus, nan, one = (dtype.type(v) for v in (0.0, -0.0, math.nan, 1.0))
    values = [zero, minus, nan, one, -one]
    for op, sign_bit in (("maximumf", False), ("minimumf", True)):
        compute = numerics_float.extremum(op, float_kind_of(name))
        for a in values:
            for b in values:
                found = compute(a, b)
                array = compute(np.array([a], dtype), b)
                assert array.dtype == dtype
                assert np.array_equal(np.array([found], dtype).view(BITS[name]), array.view(BITS[name])) or np.isnan(
                    a + b
                )
                if np.isnan(a) or np.isnan(b):
                    assert np.isnan(found)
                elif a == b == 0:
                    both = bool(np.signbit(a)) and bool(np.signbit(b))
                    either = bool(np.signbit(a)) or bool(np.signbit(b))
                    assert bool(np.signbit(found)) == (either if sign_bit else both)
                else:
                    assert found == (min(a, b) if sign_bit else max(a, b))
    for op, choose in (("maxnumf", max), ("minnumf", min)):
        compute = numerics_float.extremum(op, float_kind_of(name))
        assert compute(nan, one) == one
        assert compute(one, nan) == one
        assert np.isnan(compute(nan, nan))
        assert compute(one, -one) == choose(one, -one)


PREDICATES = {
    "oeq": lambda c: c == 0,
    "ogt": lambda c: c == 1,
    "oge": lambda c: c in (0, 1),
    "olt": lambda c: c == -1,
    "ole": lambda c: c in (0, -1),
    "one": lambda c: c in (1, -1),
    "ord": lambda c: c is not None,
    "ueq": lambda c: c in (0, None),
    "ugt": lambda c: c in (1, None),
    "uge": lambda c: c != -1,
    "ult": lambda c: c in (-1, None),
    "ule": lambda c: c != 1,
    "une": lambda c: c != 0,
    "uno": lambda c: c is None,
    "true": lambda c: True,
    "false": lambda c: False,
}


@pytest.mark.parametrize("name", KINDS)
def test_comparisons_with_nan(name):
    dtype = float_kind_of(name).dtype
    values = np.array([0.0, -0.0, 1.0, -1.0, math.nan, math.inf, -math.inf], dtype)
    left, right = np.repeat(values, len(values)), np.tile(values, len(values))
    for predicate in numerics_float.PREDICATES:
        compute = numerics_float.compare(predicate)
        whole = compute(left, right)
        assert whole.dtype == np.bool_
        for a, b, found in zip(left, right, whole, strict=True):
            order = None if np.isnan(a) or np.isnan(b) else int(a > b) - int(a < b)
            assert bool(found) == PREDICATES[predicate](order), (predicate, a, b)
            assert compute(a, b) is bool(found)


@pytest.mark.parametrize("name", KINDS)
def test_rounding_functions_keep_the_sign_of_zero(name):
    kind = float_kind_of(name)
    halves = np.array([0.5, -0.5, 1.5, -1.5, 2.5, -2.5, 0.25, -0.25, 0.0, -0.0, 0.75, -0.75, 3.0, -3.0])
    below = np.array([0.5 - kind.unit / 2, -(0.5 - kind.unit / 2)])
    values = np.concatenate([np.concatenate([halves, below]).astype(kind.dtype), numbers(name, 6, 40)])
    meaning = {
        "floor": math.floor,
        "ceil": math.ceil,
        "trunc": math.trunc,
        "roundeven": round,
        "round": lambda f: math.floor(f + Fraction(1, 2)) if f >= 0 else math.ceil(f - Fraction(1, 2)),
    }
    for op, function in meaning.items():
        whole = numerics_float.UNARY[op](values)
        assert whole.dtype == kind.dtype
        for value, found in zip(values, whole, strict=True):
            assert float(found) == function(Fraction(float(value))), (op, value)
            assert math.copysign(1, found) == math.copysign(1, value) or found != 0
            one = numerics_float.UNARY[op](value)
            assert one.dtype == kind.dtype
            assert float(one) == float(found)


@pytest.mark.parametrize("name", KINDS)
def test_remainder_is_exact_with_the_dividends_sign(name):
    a, b = numbers(name, 7, 50), numbers(name, 8, 50)
    size = min(len(a), len(b))
    found = numerics_float.BINARY["remf"](a[:size], b[:size])
    for x, y, r in zip(a, b, found, strict=False):
        if y == 0:
            assert np.isnan(r)
            continue
        quotient = Fraction(float(x)) / Fraction(float(y))
        assert same(r, Fraction(float(x)) - math.trunc(quotient) * Fraction(float(y)))
        assert r != 0 or math.copysign(1, r) == math.copysign(1, x)


@pytest.mark.parametrize("name", KINDS)
def test_square_roots_are_the_nearest(name):
    values = np.abs(numbers(name, 10, 50))
    for value, found in zip(values, numerics_float.UNARY["sqrt"](values), strict=True):
        low, high = (Fraction(float(np.nextafter(found, found.dtype.type(t)))) for t in (0, math.inf))
        exact, root = Fraction(float(value)), Fraction(float(found))
        assert exact == 0 or ((low + root) / 2) ** 2 <= exact <= ((high + root) / 2) ** 2
    minus = numerics_float.UNARY["sqrt"](float_kind_of(name).dtype.type(-0.0))
    assert minus == 0
    assert np.signbit(minus)


def test_classification():
    for name in KINDS:
        kind = float_kind_of(name)
        least = 2.0 ** (kind.tiny_exponent + kind.precision - 1)
        raw = [0.0, kind.tiny, least, -least, 1.0, math.inf, -math.inf, math.nan]
        values = np.array(raw).astype(kind.dtype)
        expected = {
            "isnormal": [False, False, True, True, True, False, False, False],
            "isinf": [False] * 5 + [True, True, False],
            "isnan": [False] * 7 + [True],
            "isfinite": [True] * 5 + [False] * 3,
        }
        for op, wanted in expected.items():
            compute = numerics_float.is_normal(kind) if op == "isnormal" else numerics_float.classify(op)
            assert compute(values).tolist() == wanted
            assert [compute(v) for v in values] == wanted


def test_bits_read_as_another_type():
    i32, f32, i16, bf16 = int_kind(32), float_kind_of("f32"), int_kind(16), float_kind_of("bf16")
    there, back = numerics_cast.reinterpret(f32, i32), numerics_cast.reinterpret(i32, f32)
    assert there is not None
    assert back is not None
    assert there(np.float32(-0.0)) == -(1 << 31)
    assert there(np.array([1.0], np.float32)).tolist() == [0x3F800000]
    assert back(0x3F800000) == np.float32(1.0)
    narrow = numerics_cast.reinterpret(i16, bf16)
    assert narrow is not None
    assert narrow(np.array([0x3FC0], np.int16))[0] == ml_dtypes.bfloat16(1.5)
    assert numerics_cast.reinterpret(i16, f32) is None


def test_select_takes_uniform_and_lane_conditions():
    choose = numerics_cast.choose(int_kind(32))
    assert choose(True, 1, 2) == 1
    assert choose(np.array([True, False]), 1, np.array([5, 6], np.int32)).tolist() == [1, 6]
    assert choose(np.array([True, False]), 1, 2).dtype == np.int32
    vectors = choose(np.array([True, False]), np.array([[1, 2]], np.int32), np.array([[3, 4], [5, 6]], np.int32))
    assert vectors.tolist() == [[1, 2], [5, 6]]

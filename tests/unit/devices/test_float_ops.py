"""Floating-point instructions against exact rationals and numpy."""

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from tests.unit.devices.running import compute

RNG = np.random.default_rng(11)
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, np.inf, -np.inf, np.nan, 3.0, 1e30, -1e-30, 1e-40]


def samples(dtype, count=128):
    with np.errstate(all="ignore"):
        random = (
            RNG.standard_normal(count - len(SPECIAL)) * 2.0 ** RNG.integers(-12, 12, count - len(SPECIAL))
        ).astype(dtype)
        return np.concatenate([np.array(SPECIAL).astype(dtype), random])


def same(found, expected):
    bits = f"u{expected.dtype.itemsize}"
    nan = np.isnan(expected.astype(np.float64))
    assert (np.isnan(found.astype(np.float64)) == nan).all()
    assert (found[~nan].view(bits) == expected[~nan].view(bits)).all()


@pytest.mark.parametrize("kind", ["f32", "f64"])
@pytest.mark.parametrize(
    ("opcode", "ufunc"), [("add", np.add), ("sub", np.subtract), ("mul", np.multiply), ("div", np.divide)]
)
def test_arithmetic_rounds_to_nearest(kind, opcode, ufunc):
    dtype = np.dtype(f"f{int(kind[1:]) // 8}")
    a, b = samples(dtype), samples(dtype)[::-1].copy()
    with np.errstate(all="ignore"):
        same(compute(f"{opcode}.rn.{kind} %d, %s0, %s1;", dtype, [a, b]), ufunc(a, b))


def neighbours(value, dtype):
    """The largest number of the format that is not above the rational, and the smallest not below."""
    near = dtype(float(value)) if dtype is np.float64 else dtype(np.float64(float(value)))
    down = up = near
    while Fraction(float(down)) > value:
        down = np.nextafter(down, dtype(-np.inf))
    while Fraction(float(np.nextafter(down, dtype(np.inf)))) <= value:
        down = np.nextafter(down, dtype(np.inf))
    while Fraction(float(up)) < value:
        up = np.nextafter(up, dtype(np.inf))
    while Fraction(float(np.nextafter(up, dtype(-np.inf)))) >= value:
        up = np.nextafter(up, dtype(-np.inf))
    return down, up


@pytest.mark.parametrize("kind", ["f32", "f64"])
@pytest.mark.parametrize("mode", ["rz", "rm", "rp"])
@pytest.mark.parametrize("opcode", ["add", "sub", "mul", "div", "fma"])
def test_directed_rounding_is_exact(kind, mode, opcode):
    dtype = np.dtype(f"f{int(kind[1:]) // 8}").type
    a, b, c = ((RNG.standard_normal(40) * 3).astype(dtype) for _ in range(3))
    args = "%s0, %s1, %s2" if opcode == "fma" else "%s0, %s1"
    found = compute(f"{opcode}.{mode}.{kind} %d, {args};", np.dtype(dtype), [a, b, c] if opcode == "fma" else [a, b])
    for x, y, z, f in zip(a, b, c, found, strict=True):
        p, q, r = (Fraction(float(v)) for v in (x, y, z))
        exact = {"add": p + q, "sub": p - q, "mul": p * q, "div": p / q, "fma": p * q + r}[opcode]
        down, up = neighbours(exact, dtype)
        assert f == {"rm": down, "rp": up, "rz": down if exact > 0 else up}[mode]


@pytest.mark.parametrize("kind", ["f32", "f64"])
def test_fma_rounds_once(kind):
    dtype = np.dtype(f"f{int(kind[1:]) // 8}")
    a, b = ((RNG.standard_normal(120) * 2.0 ** RNG.integers(-4, 4, 120)).astype(dtype) for _ in range(2))
    # Near cancellation is where rounding twice shows.
    c = np.where(np.arange(120) % 2 == 0, -(a * b), RNG.standard_normal(120)).astype(dtype)
    found = compute(f"fma.rn.{kind} %d, %s0, %s1, %s2;", dtype, [a, b, c])
    for x, y, z, f in zip(a, b, c, found, strict=True):
        exact = Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z))
        error = abs(Fraction(float(f)) - exact)
        for other in (np.nextafter(f, dtype.type(np.inf)), np.nextafter(f, dtype.type(-np.inf))):
            assert error <= abs(Fraction(float(other)) - exact)


def test_fma_of_extreme_and_special_operands():
    a = np.array([1e300, 1e-300, np.inf, 0.0, 1e-200, 3e-308, -0.0])
    b = np.array([1e300, 1e-300, 0.0, 5.0, 1e-200, 0.5, 2.0])
    c = np.array([-np.inf, 1e-320, 1.0, -0.0, 1e-300, 1e-308, -0.0])
    found = compute("fma.rn.f64 %d, %s0, %s1, %s2;", "f8", [a, b, c])
    assert np.isnan(found[2])
    assert found[0] == -np.inf and found[1] == 1e-320 and found[4] == 1e-300
    assert found[3] == 0 and not np.signbit(found[3])
    assert found[5] == float(Fraction(3e-308) * Fraction(0.5) + Fraction(1e-308))
    assert found[6] == 0 and np.signbit(found[6])


@pytest.mark.parametrize(("kind", "dtype"), [("f16", np.dtype(np.float16)), ("bf16", np.dtype(ml_dtypes.bfloat16))])
@pytest.mark.parametrize("opcode", ["add", "sub", "mul"])
def test_half_precision_rounds_once(kind, dtype, opcode):
    with np.errstate(all="ignore"):
        a, b = (RNG.standard_normal(100).astype(dtype) for _ in range(2))
        expected = {"add": np.add, "sub": np.subtract, "mul": np.multiply}[opcode](
            a.astype(np.float32), b.astype(np.float32)
        ).astype(dtype)
    found = compute(f"{opcode}.rn.{kind} %d, %s0, %s1;", "u2", [a.view("u2"), b.view("u2")])
    assert (found == expected.view("u2")).all()


def test_half_fma_and_signs():
    a, b, c = (RNG.standard_normal(100).astype(np.float16) for _ in range(3))
    found = compute("fma.rn.f16 %d, %s0, %s1, %s2;", "u2", [v.view("u2") for v in (a, b, c)]).view(np.float16)
    exact = a.astype(np.float64) * b.astype(np.float64) + c.astype(np.float64)
    assert (found == exact.astype(np.float16)).all()
    assert (compute("neg.f16 %d, %s0;", "u2", [a.view("u2")]).view(np.float16) == -a).all()
    assert (compute("abs.bf16 %d, %s0;", "u2", [a.view("u2")]) == (a.view("u2") & 0x7FFF)).all()


def test_packed_halves():
    a, b = (RNG.standard_normal(64).astype(np.float16) for _ in range(2))
    found = compute("add.rn.f16x2 %d, %s0, %s1;", "u4", [a.view("u4"), b.view("u4")]).view(np.float16)
    assert (found == a + b).all()


def test_min_and_max_order_zeros_and_drop_nans():
    a = np.array([0.0, -0.0, np.nan, 1.0, np.nan, -2.0], np.float32)
    b = np.array([-0.0, 0.0, 4.0, np.nan, np.nan, 3.0], np.float32)
    same(compute("max.f32 %d, %s0, %s1;", "f4", [a, b]), np.array([0.0, 0.0, 4.0, 1.0, np.nan, 3.0], np.float32))
    same(compute("min.f32 %d, %s0, %s1;", "f4", [a, b]), np.array([-0.0, -0.0, 4.0, 1.0, np.nan, -2.0], np.float32))
    found = compute("max.NaN.f32 %d, %s0, %s1;", "f4", [a, b])
    assert np.isnan(found).tolist() == [False, False, True, True, True, False]


def test_ftz_and_sat():
    a = np.array([1e-40, -1e-40, 2.0, -3.0, 0.25, np.nan], np.float32)
    one = np.ones(6, np.float32)
    same(
        compute("mul.rn.ftz.f32 %d, %s0, %s1;", "f4", [a, one]),
        np.array([0.0, -0.0, 2.0, -3.0, 0.25, np.nan], np.float32),
    )
    found = compute("mul.rn.sat.f32 %d, %s0, %s1;", "f4", [a, one])
    same(found, np.array([1e-40, 0.0, 1.0, 0.0, 0.25, 0.0], np.float32))
    same(compute("mul.rn.f32 %d, %s0, %s1;", "f4", [a, one]), a)


@pytest.mark.parametrize(
    ("opcode", "function"),
    [
        ("ex2.approx.f32", np.exp2), ("lg2.approx.f32", np.log2), ("sin.approx.f32", np.sin),
        ("cos.approx.f32", np.cos), ("tanh.approx.f32", np.tanh), ("rsqrt.approx.f32", lambda x: 1 / np.sqrt(x)),
        ("rcp.approx.ftz.f32", lambda x: 1 / x), ("sqrt.approx.f32", np.sqrt), ("sqrt.rn.f32", np.sqrt),
        ("rcp.rn.f32", lambda x: 1 / x),
    ],
)  # fmt: skip
def test_functions_are_within_one_ulp(opcode, function):
    a = (np.abs(RNG.standard_normal(100)) + 0.1).astype(np.float32)
    expected = function(a.astype(np.float64))
    found = compute(f"{opcode} %d, %s0;", "f4", [a]).astype(np.float64)
    assert (np.abs(found - expected) <= np.spacing(np.abs(expected).astype(np.float32))).all()


COMPARISONS = {
    "eq": lambda a, b: a == b, "ne": lambda a, b: (a < b) | (a > b), "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b, "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b,
}  # fmt: skip


@pytest.mark.parametrize("name", [*COMPARISONS, *(f"{n}u" for n in COMPARISONS), "num", "nan"])
@pytest.mark.parametrize("kind", ["f32", "f64"])
def test_float_comparisons_with_nans(name, kind):
    dtype = np.dtype(f"f{int(kind[1:]) // 8}")
    a, b = samples(dtype), samples(dtype)
    RNG.shuffle(b)
    b[:20] = a[:20]
    unordered = np.isnan(a) | np.isnan(b)
    if name in {"num", "nan"}:
        expected = unordered == (name == "nan")
    elif name in COMPARISONS:
        expected = COMPARISONS[name](a, b)
    else:
        expected = COMPARISONS[name[:-1]](a, b) | unordered
    found = compute(f"setp.{name}.{kind} %q, %s0, %s1; selp.b32 %d, 1, 0, %q;", "u4", [a, b])
    assert (found == expected).all()


@pytest.mark.parametrize("test", ["finite", "infinite", "number", "notanumber", "normal", "subnormal"])
def test_testp(test):
    a = samples(np.dtype("f4"))
    tiny = np.finfo(np.float32).tiny
    expected = {
        "finite": np.isfinite(a), "infinite": np.isinf(a), "number": ~np.isnan(a), "notanumber": np.isnan(a),
        "normal": np.isfinite(a) & (np.abs(a) >= tiny), "subnormal": (a != 0) & (np.abs(a) < tiny),
    }[test]  # fmt: skip
    found = compute(f"testp.{test}.f32 %q, %s0; selp.b32 %d, 1, 0, %q;", "u4", [a])
    assert (found == expected).all()


def test_copysign_takes_the_sign_of_its_first_operand():
    a, b = np.array([-1.0, 2.0], np.float32), np.array([3.0, -4.0], np.float32)
    assert compute("copysign.f32 %d, %s0, %s1;", "f4", [a, b]).tolist() == [-3.0, 4.0]

"""cvt, mov, selp and loads of every width."""

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from tests.unit.devices.running import compute, kernel, launch

RNG = np.random.default_rng(3)
INTS = [f"{k}{w}" for w in (8, 16, 32, 64) for k in "su"]


def dtype_of(kind):
    if kind[0] == "f":
        return np.dtype(f"f{int(kind[1:]) // 8}")
    return np.dtype(f"{'i' if kind[0] == 's' else 'u'}{int(kind[1:]) // 8}")


def integers(kind, count=64):
    info = np.iinfo(dtype_of(kind))
    random = RNG.integers(info.min, info.max, count - 4, dtype=dtype_of(kind), endpoint=True)
    return np.concatenate([np.array([0, 1, info.max, info.min], dtype_of(kind)), random])


@pytest.mark.parametrize("source", [k for k in INTS if k[1:] != "8"])
@pytest.mark.parametrize("target", [k for k in INTS if k[1:] != "8"])
def test_integers_truncate_and_extend(source, target):
    a = integers(source)
    found = compute(f"cvt.{target}.{source} %d, %s0;", dtype_of(target), [a])
    assert (found == a.astype(dtype_of(target))).all()


@pytest.mark.parametrize(
    ("target", "source"), [("u16", "s32"), ("s16", "s64"), ("u32", "s64"), ("s32", "u32"), ("s8", "s32")]
)
def test_sat_clamps_integers(target, source):
    a = integers(source)
    info = np.iinfo(dtype_of(target))
    out = np.dtype("i2") if target == "s8" else dtype_of(target)
    found = compute(f"cvt.sat.{target}.{source} %d, %s0;", out, [a])
    assert found.tolist() == [min(max(int(x), int(info.min)), int(info.max)) for x in a]


@pytest.mark.parametrize(("kind", "out"), [("s8", "i2"), ("u8", "u2"), ("s8", "i4"), ("s8", "i8"), ("u8", "u8")])
def test_bytes_in_wide_registers_are_extended(kind, out):
    a = RNG.integers(-(2**31), 2**31, 50).astype(np.int32)
    found = compute(f"cvt.{kind[0]}{8 * np.dtype(out).itemsize}.{kind} %d, %s0;", out, [a])
    assert (found == a.astype(dtype_of(kind)).astype(out)).all()


@pytest.mark.parametrize("target", ["s16", "u16", "s32", "u32", "s64", "u64"])
@pytest.mark.parametrize("source", ["f32", "f64"])
@pytest.mark.parametrize("mode", ["rni", "rzi", "rmi", "rpi"])
def test_floats_round_and_clamp_to_integers(target, source, mode):
    a = np.array([0.5, -0.5, 1.5, 2.5, -2.5, 1e30, -1e30, np.nan, np.inf, -np.inf, 3.75, -7.25], dtype_of(source))
    info = np.iinfo(dtype_of(target))
    rounded = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}[mode](a.astype(float))
    whole = [0 if np.isnan(x) else int(np.clip(x, -1e20, 1e20)) for x in rounded]
    expected = [min(max(x, int(info.min)), int(info.max)) for x in whole]
    assert compute(f"cvt.{mode}.{target}.{source} %d, %s0;", dtype_of(target), [a]).tolist() == expected


@pytest.mark.parametrize("source", ["s16", "s32", "u32", "s64", "u64"])
@pytest.mark.parametrize("target", ["f32", "f64"])
def test_integers_round_to_floats(source, target):
    a = integers(source)
    found = compute(f"cvt.rn.{target}.{source} %d, %s0;", dtype_of(target), [a])
    assert (found == a.astype(dtype_of(target))).all()


@pytest.mark.parametrize("mode", ["rz", "rm", "rp"])
@pytest.mark.parametrize("source", ["s32", "u64", "s64"])
def test_integers_round_to_floats_in_a_direction(source, mode):
    a = integers(source)
    for x, f in zip(a, compute(f"cvt.{mode}.f32.{source} %d, %s0;", "f4", [a]), strict=True):
        exact, got = Fraction(int(x)), Fraction(float(f))
        toward_zero = abs(got) <= abs(exact)
        assert {"rz": toward_zero, "rm": got <= exact, "rp": got >= exact}[mode]
        assert abs(got - exact) < Fraction(float(np.spacing(np.float32(abs(int(x)) or 1))))


@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
def test_f64_narrows_to_f32(mode):
    a = np.concatenate([RNG.standard_normal(60), [1e300, -1e300, 1e-50, np.inf, 0.0]])
    found = compute(f"cvt.{mode}.f32.f64 %d, %s0;", "f4", [a])
    with np.errstate(over="ignore"):
        nearest = a.astype(np.float32)
    if mode == "rn":
        assert (found == nearest).all()
        return
    assert (found.astype(float) <= a).all() or mode != "rm"
    assert (found.astype(float) >= a).all() or mode != "rp"
    assert (np.abs(found.astype(float)) <= np.abs(a)).all() or mode != "rz"


@pytest.mark.parametrize(("kind", "dtype"), [("f16", np.float16), ("bf16", ml_dtypes.bfloat16)])
@pytest.mark.parametrize("source", ["f32", "f64"])
def test_floats_narrow_to_halves_with_one_rounding(kind, dtype, source):
    exact = RNG.standard_normal(200)
    # Just beside the middle between two halves: rounding through f32 first would go wrong.
    middle = (1 + 2.0**-11 if kind == "f16" else 1 + 2.0**-8) * (1 + np.array([1, -1]) * 2.0**-40)
    a = np.concatenate([exact, middle]).astype(dtype_of(source))
    found = compute(f"cvt.rn.{kind}.{source} %d, %s0;", "u2", [a]).view(dtype)
    if source == "f64":
        assert found[-2].astype(float) > found[-1].astype(float)
        found, a = found[:-2], a[:-2]
    assert (found.astype(float) == a.astype(dtype).astype(float)).all()


def test_halves_widen_exactly_and_round_to_whole_numbers():
    a = RNG.standard_normal(100).astype(np.float16)
    assert (compute("cvt.f32.f16 %d, %s0;", "f4", [a.view("u2")]) == a.astype(np.float32)).all()
    assert (compute("cvt.rzi.s32.f16 %d, %s0;", "i4", [a.view("u2")]) == a.astype(np.int32)).all()
    b = a.astype(np.float32) * 5
    assert (compute("cvt.rmi.f32.f32 %d, %s0;", "f4", [b]) == np.floor(b)).all()
    assert (compute("cvt.sat.f32.f32 %d, %s0;", "f4", [b]) == np.clip(b, 0, 1)).all()


def test_selection():
    a, b = integers("s32"), integers("s32")
    c = RNG.standard_normal(64).astype(np.float32)
    found = compute("setp.lt.s32 %q, %s0, %s1; selp.b32 %d, %s0, %s1, %q;", "i4", [a, b])
    assert (found == np.minimum(a, b)).all()
    assert (compute("slct.s32.f32 %d, %s0, %s1, %s2;", "i4", [a, b, c]) == np.where(c >= 0, a, b)).all()
    assert (compute("set.gt.u32.s32 %d, %s0, %s1;", "i4", [a, b]) == np.where(a > b, -1, 0)).all()
    assert (compute("set.gt.f32.s32 %d, %s0, %s1;", "f4", [a, b]) == (a > b)).all()


@pytest.mark.parametrize(
    ("name", "ufunc"), [("lt", np.less), ("lo", np.less), ("hs", np.greater_equal), ("eq", np.equal)]
)
def test_unsigned_comparisons(name, ufunc):
    a, b = integers("u32"), integers("u32")
    found = compute(f"setp.{name}.u32 %q, %s0, %s1; selp.b32 %d, 1, 0, %q;", "u4", [a, b])
    assert (found == ufunc(a, b)).all()


def test_setp_combines_and_gives_both_results():
    a, b = integers("s32"), integers("s32")
    text = (
        "setp.gt.s32 %p3, %s0, 0; setp.lt.and.s32 %p1|%p2, %s0, %s1, %p3;"
        "selp.b32 %r5, 1, 0, %p1; selp.b32 %r6, 2, 0, %p2; add.s32 %d, %r5, %r6;"
    )
    expected = ((a < b) & (a > 0)) * 1 + (~(a < b) & (a > 0)) * 2
    assert (compute(text, "i4", [a, b]) == expected).all()


def test_vectors_pack_and_unpack():
    a, b = integers("u32"), integers("u32")
    found = compute("mov.b64 %d, {%s0, %s1};", "u8", [a, b])
    assert (found == a.astype(np.uint64) | b.astype(np.uint64) << np.uint64(32)).all()
    wide = integers("u64")
    assert (compute("mov.b64 {_, %d}, %s0;", "u4", [wide]) == (wide >> np.uint64(32))).all()
    assert (compute("mov.b32 {%rs1, %rs2}, %s0; mov.b32 %d, {%rs2, %rs1};", "u4", [a])
            == (a >> np.uint32(16) | a << np.uint32(16))).all()  # fmt: skip


def test_float_constants_are_bits_in_any_register():
    one = np.ones(4, np.float32)
    assert (compute("add.f32 %d, %s0, 0f40000000;", "f4", [one]) == 3).all()
    assert (compute("mov.b32 %d, 0f3F800000;", "f4", [one]) == 1).all()
    assert (compute("cvt.f64.f32 %rd5, %s0; add.rn.f64 %d, %rd5, 0d4000000000000000;", "f8", [one]) == 3).all()
    assert (compute("add.f32 %d, %s0, 0.5;", "f4", [one]) == 1.5).all()


def test_vector_loads_and_stores():
    data = np.arange(64, dtype=np.float32)
    body = """
    ld.param.u64 %rd1, [p0]; ld.param.u64 %rd2, [p1]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd3, %r1, 16;
    add.s64 %rd4, %rd1, %rd3; add.s64 %rd5, %rd2, %rd3;
    ld.global.v4.f32 {%r2, %r3, %r4, %r5}, [%rd4]; st.global.v2.b32 [%rd5], {%r5, %r4};
    st.global.v2.b32 [%rd5+8], {%r3, %r2};
    """
    outcome, arrays = launch(kernel(body, ["u64", "u64"]), [data, np.zeros_like(data)], block=16)
    assert outcome.kind == "ok"
    assert (arrays[1] == data.reshape(-1, 4)[:, ::-1].reshape(-1)).all()
    shifted = body.replace("v4.f32 {%r2, %r3, %r4, %r5}, [%rd4]", "v4.f32 {%r2, %r3, %r4, %r5}, [%rd4+4]")
    outcome, _ = launch(kernel(shifted, ["u64", "u64"]), [data, np.zeros_like(data)], block=4)
    assert outcome.kind == "fault" and outcome.fault.rule == "misaligned-access"


def test_loads_extend_by_their_type():
    data = np.array([-1, 5, -128, 127], np.int8)
    for kind, expected in (("s8", data.astype(np.int64)), ("u8", data.view(np.uint8).astype(np.int64))):
        body = f"""
        ld.param.u64 %rd1, [p0]; ld.param.u64 %rd2, [p1]; mov.u32 %r1, %tid.x; cvt.u64.u32 %rd3, %r1;
        add.s64 %rd4, %rd1, %rd3; ld.global.{kind} %rd5, [%rd4];
        shl.b64 %rd6, %rd3, 3; add.s64 %rd7, %rd2, %rd6; st.global.b64 [%rd7], %rd5;
        """
        _, arrays = launch(kernel(body, ["u64", "u64"]), [data, np.zeros(4, np.int64)], block=4)
        assert (arrays[1] == expected).all()

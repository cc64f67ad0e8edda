"""Integer, logic and bit-field instructions against Python integers."""

import numpy as np
import pytest

from tests.unit.devices.running import compute

RNG = np.random.default_rng(7)


def samples(dtype, count=96):
    info = np.iinfo(dtype)
    edge = [0, 1, 2, 3, info.max, info.max - 1, info.min, info.min + 1, 5, 100]
    edge += [-1, -2, -7] if info.min < 0 else [info.max // 2, info.max // 2 + 1, 9]
    random = RNG.integers(info.min, info.max, size=count - len(edge), dtype=dtype, endpoint=True)
    return np.concatenate([np.array(edge, dtype), random])


def pairs(dtype):
    a, b = samples(dtype), samples(dtype)
    RNG.shuffle(b)
    return a, b


def wrap(value, dtype):
    bits = np.iinfo(dtype).bits
    value &= (1 << bits) - 1
    return value - (1 << bits) if np.iinfo(dtype).min < 0 and value >> (bits - 1) else value


def trunc_div(a, b):
    q = abs(a) // abs(b)
    return q if (a < 0) == (b < 0) else -q


TYPES = ["s16", "u16", "s32", "u32", "s64", "u64"]


def dtype_of(kind):
    return np.dtype(f"{'i' if kind[0] in 'sb' else 'u'}{int(kind[1:]) // 8}")


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize(
    ("opcode", "meaning"),
    [
        ("add", lambda a, b, w: a + b),
        ("sub", lambda a, b, w: a - b),
        ("mul.lo", lambda a, b, w: a * b),
        ("mul.hi", lambda a, b, w: (a * b) >> w),
        ("min", lambda a, b, w: min(a, b)),
        ("max", lambda a, b, w: max(a, b)),
        ("div", lambda a, b, w: trunc_div(a, b)),
        ("rem", lambda a, b, w: a - b * trunc_div(a, b)),
    ],
)
def test_arithmetic_is_that_of_integers_wrapped(kind, opcode, meaning):
    dtype = dtype_of(kind)
    a, b = pairs(dtype)
    if opcode in {"div", "rem"}:
        b = np.where(b == 0, dtype.type(3), b)
    found = compute(f"{opcode}.{kind} %d, %s0, %s1;", dtype, [a, b])
    width = 8 * dtype.itemsize
    assert found.tolist() == [wrap(meaning(int(x), int(y), width), dtype) for x, y in zip(a, b, strict=True)]


@pytest.mark.parametrize(("kind", "wide"), [("s16", "i4"), ("u16", "u4"), ("s32", "i8"), ("u32", "u8")])
def test_wide_products_are_exact(kind, wide):
    dtype = dtype_of(kind)
    a, b = pairs(dtype)
    c = samples(np.dtype(wide))
    assert compute(f"mul.wide.{kind} %d, %s0, %s1;", wide, [a, b]).tolist() == [
        int(x) * int(y) for x, y in zip(a, b, strict=True)
    ]
    found = compute(f"mad.wide.{kind} %d, %s0, %s1, %s2;", wide, [a, b, c])
    expected = [wrap(int(x) * int(y) + int(z), np.dtype(wide)) for x, y, z in zip(a, b, c, strict=True)]
    assert found.tolist() == expected


@pytest.mark.parametrize("kind", ["s32", "u32", "s64", "u64"])
def test_mad_adds_to_the_low_or_high_half(kind):
    dtype = dtype_of(kind)
    a, b = pairs(dtype)
    c, width = samples(dtype), 8 * dtype.itemsize
    rows = list(zip(a.tolist(), b.tolist(), c.tolist(), strict=True))
    low = compute(f"mad.lo.{kind} %d, %s0, %s1, %s2;", dtype, [a, b, c])
    high = compute(f"mad.hi.{kind} %d, %s0, %s1, %s2;", dtype, [a, b, c])
    assert low.tolist() == [wrap(x * y + z, dtype) for x, y, z in rows]
    assert high.tolist() == [wrap(((x * y) >> width) + z, dtype) for x, y, z in rows]


def test_24_bit_products_take_the_low_24_bits():
    a, b = pairs(np.dtype("i4"))

    def low(x):
        return ((x & 0xFFFFFF) ^ 0x800000) - 0x800000

    rows = list(zip(a.tolist(), b.tolist(), strict=True))
    assert compute("mul24.lo.s32 %d, %s0, %s1;", "i4", [a, b]).tolist() == [
        wrap(low(x) * low(y), np.int32) for x, y in rows
    ]
    assert compute("mul24.hi.s32 %d, %s0, %s1;", "i4", [a, b]).tolist() == [
        wrap((low(x) * low(y)) >> 16, np.int32) for x, y in rows
    ]


def test_add_sat_clamps_and_sad_sums():
    a, b = pairs(np.dtype("i4"))
    rows = list(zip(a.tolist(), b.tolist(), strict=True))
    assert compute("add.sat.s32 %d, %s0, %s1;", "i4", [a, b]).tolist() == [
        max(-(2**31), min(2**31 - 1, x + y)) for x, y in rows
    ]
    assert compute("sad.s32 %d, %s0, %s1, 5;", "i4", [a, b]).tolist() == [
        wrap(5 + abs(x - y), np.int32) for x, y in rows
    ]


def test_division_of_the_most_negative_number_by_minus_one_wraps():
    a, b = np.array([-(2**31), 7], np.int32), np.array([-1, -2], np.int32)
    assert compute("div.s32 %d, %s0, %s1;", "i4", [a, b]).tolist() == [-(2**31), -3]
    assert compute("rem.s32 %d, %s0, %s1;", "i4", [a, b]).tolist() == [0, 1]


@pytest.mark.parametrize("kind", ["s16", "s32", "s64"])
def test_abs_and_neg_wrap(kind):
    dtype = dtype_of(kind)
    a = samples(dtype)
    assert compute(f"abs.{kind} %d, %s0;", dtype, [a]).tolist() == [wrap(abs(int(x)), dtype) for x in a]
    assert compute(f"neg.{kind} %d, %s0;", dtype, [a]).tolist() == [wrap(-int(x), dtype) for x in a]


@pytest.mark.parametrize("width", [16, 32, 64])
def test_shifts_clamp_their_amount(width):
    unsigned, signed = np.dtype(f"u{width // 8}"), np.dtype(f"i{width // 8}")
    amounts = np.array([0, 1, 5, width - 1, width, width + 3, 255, 2**32 - 1] * 12, np.uint32)
    a = samples(unsigned)
    rows = [(int(x), min(int(n), width)) for x, n in zip(a, amounts, strict=True)]
    mask = (1 << width) - 1
    assert compute(f"shl.b{width} %d, %s0, %s1;", unsigned, [a, amounts]).tolist() == [(x << n) & mask for x, n in rows]
    assert compute(f"shr.u{width} %d, %s0, %s1;", unsigned, [a, amounts]).tolist() == [x >> n for x, n in rows]
    found = compute(f"shr.s{width} %d, %s0, %s1;", signed, [a, amounts])
    assert found.tolist() == [wrap(x, signed) >> n for x, n in rows]


@pytest.mark.parametrize("amount", [0, 7, 31, 32, 40])
def test_shifts_by_a_constant_clamp_too(amount):
    a = samples(np.dtype("u4"))
    n = min(amount, 32)
    assert compute(f"shl.b32 %d, %s0, {amount};", "u4", [a]).tolist() == [(int(x) << n) & 0xFFFFFFFF for x in a]
    assert compute(f"shr.u32 %d, %s0, {amount};", "u4", [a]).tolist() == [int(x) >> n for x in a]
    assert compute(f"shr.s32 %d, %s0, {amount};", "i4", [a]).tolist() == [wrap(int(x), np.int32) >> n for x in a]


@pytest.mark.parametrize("mode", ["wrap", "clamp"])
def test_funnel_shift(mode):
    a, b = pairs(np.dtype("u4"))
    c = np.array([0, 1, 31, 32, 33, 70, 5, 16] * 12, np.uint32)
    left = compute(f"shf.l.{mode}.b32 %d, %s0, %s1, %s2;", "u4", [a, b, c])
    right = compute(f"shf.r.{mode}.b32 %d, %s0, %s1, %s2;", "u4", [a, b, c])
    for x, y, n, found_left, found_right in zip(a, b, c, left, right, strict=True):
        pair, amount = int(y) << 32 | int(x), int(n) & 31 if mode == "wrap" else min(int(n), 32)
        assert found_left == ((pair << amount) >> 32) & 0xFFFFFFFF
        assert found_right == (pair >> amount) & 0xFFFFFFFF


@pytest.mark.parametrize("table", [0x00, 0x80, 0xFE, 0x96, 0x1A, 0xC3])
def test_lop3_is_its_table(table):
    a, b = pairs(np.dtype("u4"))
    c = samples(np.dtype("u4"))
    found = compute(f"lop3.b32 %d, %s0, %s1, %s2, {table};", "u4", [a, b, c])
    for x, y, z, f in zip(a.tolist(), b.tolist(), c.tolist(), found.tolist(), strict=True):
        rows = [(x >> i & 1) << 2 | (y >> i & 1) << 1 | (z >> i & 1) for i in range(32)]
        assert f == sum((table >> row & 1) << i for i, row in enumerate(rows))


@pytest.mark.parametrize("width", [32, 64])
def test_counting_and_reversing_bits(width):
    dtype = np.dtype(f"u{width // 8}")
    a = samples(dtype)
    assert compute(f"popc.b{width} %d, %s0;", "u4", [a]).tolist() == [int(x).bit_count() for x in a]
    assert compute(f"clz.b{width} %d, %s0;", "u4", [a]).tolist() == [width - int(x).bit_length() for x in a]
    found = compute(f"brev.b{width} %d, %s0;", dtype, [a])
    assert found.tolist() == [int(f"{int(x):0{width}b}"[::-1], 2) for x in a]
    found = compute(f"bfind.u{width} %d, %s0;", "u4", [a])
    assert found.tolist() == [(int(x).bit_length() - 1) & 0xFFFFFFFF for x in a]
    signed = a.view(f"i{width // 8}")
    found = compute(f"bfind.s{width} %d, %s0;", "u4", [signed])
    assert found.tolist() == [((~int(x) if x < 0 else int(x)).bit_length() - 1) & 0xFFFFFFFF for x in signed]


@pytest.mark.parametrize("kind", ["u32", "s32", "u64", "s64"])
def test_bit_field_extract(kind):
    width, dtype = int(kind[1:]), dtype_of(kind)
    a = samples(dtype)
    position = RNG.integers(0, width + 10, len(a)).astype(np.uint32)
    length = RNG.integers(0, width + 5, len(a)).astype(np.uint32)
    found = compute(f"bfe.{kind} %d, %s0, %s1, %s2;", dtype, [a, position, length])
    for x, p, n, f in zip(a.tolist(), position.tolist(), length.tolist(), found.tolist(), strict=True):
        bits = x & ((1 << width) - 1)
        sign = 0 if kind[0] == "u" or n == 0 else bits >> min(p + n - 1, width - 1) & 1
        field = [(bits >> (p + i) & 1) if i < n and p + i < width else sign for i in range(width)]
        assert f == wrap(sum(b << i for i, b in enumerate(field)), dtype)


@pytest.mark.parametrize("width", [32, 64])
def test_bit_field_insert(width):
    dtype = np.dtype(f"u{width // 8}")
    a, b = pairs(dtype)
    position = RNG.integers(0, width + 10, len(a)).astype(np.uint32)
    length = RNG.integers(0, width + 5, len(a)).astype(np.uint32)
    found = compute(f"bfi.b{width} %d, %s0, %s1, %s2, %s3;", dtype, [a, b, position, length])
    for x, y, p, n, f in zip(*(v.tolist() for v in (a, b, position, length, found)), strict=True):
        mask = (((1 << n) - 1) << p) & ((1 << width) - 1)
        assert f == (y & ~mask) | ((x << p) & mask)


def test_prmt_picks_bytes_and_copies_signs():
    a, b = np.array([0x80112233], np.uint32), np.array([0x44F56677], np.uint32)
    assert compute("prmt.b32 %d, %s0, %s1, 0x7610;", "u4", [a, b])[0] == 0x44F52233
    assert compute("prmt.b32 %d, %s0, %s1, 0xB3E0;", "u4", [a, b])[0] == 0xFF80FF33
    assert compute("prmt.b32.f4e %d, %s0, %s1, 1;", "u4", [a, b])[0] == 0x77801122
    assert compute("prmt.b32.rc16 %d, %s0, %s1, 1;", "u4", [a, b])[0] == 0x80118011


@pytest.mark.parametrize(("opcode", "meaning"), [("and", "&"), ("or", "|"), ("xor", "^")])
def test_logic_on_bits_and_predicates(opcode, meaning):
    a, b = pairs(np.dtype("u4"))
    assert (compute(f"{opcode}.b32 %d, %s0, %s1;", "u4", [a, b]) == eval(f"a {meaning} b")).all()
    text = f"setp.lt.u32 %p1, %s0, 1000; setp.lt.u32 %p2, %s1, 2000; {opcode}.pred %q, %p1, %p2; selp.b32 %d, 1, 0, %q;"
    assert (compute(text, "u4", [a, b]) == eval(f"(a < 1000) {meaning} (b < 2000)")).all()


def test_not_cnot_and_dot_products():
    a, b = pairs(np.dtype("u4"))
    assert (compute("not.b32 %d, %s0;", "u4", [a]) == ~a).all()
    assert (compute("cnot.b32 %d, %s0;", "u4", [a]) == (a == 0)).all()
    found = compute("dp4a.s32.u32 %d, %s0, %s1, 9;", "i4", [a, b])
    for x, y, f in zip(a, b, found, strict=True):
        xs, ys = np.frombuffer(x.tobytes(), np.int8), np.frombuffer(y.tobytes(), np.uint8)
        assert f == 9 + int((xs.astype(int) * ys.astype(int)).sum())

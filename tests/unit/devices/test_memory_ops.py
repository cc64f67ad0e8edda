"""Atomics, generic addresses, dynamic shared memory, parameters, the device heap, libdevice."""

import math

import ml_dtypes
import numpy as np
import pytest

from difftest.devices.emulator import libdevice
from tests.unit.devices.running import ALL_SCHEDULES, kernel, launch

START = """
ld.param.u64 %rd1, [p0]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd2, %r1, 4; add.s64 %rd3, %rd1, %rd2;
"""
schedules = pytest.mark.parametrize("schedule", ALL_SCHEDULES)

UPDATES = {
    "add.u32": (lambda old, v: (old + v) & 0xFFFFFFFF, np.uint32),
    "add.s32": (lambda old, v: old + v, np.int32),
    "and.b32": (lambda old, v: old & v, np.uint32),
    "or.b32": (lambda old, v: old | v, np.uint32),
    "xor.b32": (lambda old, v: old ^ v, np.uint32),
    "min.s32": (min, np.int32),
    "max.u32": (max, np.uint32),
    "inc.u32": (lambda old, v: 0 if old >= v else old + 1, np.uint32),
    "dec.u32": (lambda old, v: v if old == 0 or old > v else old - 1, np.uint32),
    "exch.b32": (lambda old, v: v, np.uint32),
}


@pytest.mark.parametrize("name", UPDATES)
@pytest.mark.parametrize("lanes_per_cell", [1, 3, 32])
def test_atomics_go_one_after_the_other(name, lanes_per_cell):
    update, dtype = UPDATES[name]
    body = f"""
    ld.param.u64 %rd5, [p1]; ld.param.u64 %rd6, [p2]; add.s64 %rd7, %rd5, %rd2; ld.global.b32 %r5, [%rd7];
    div.u32 %r6, %r1, {lanes_per_cell}; mul.wide.u32 %rd8, %r6, 4; add.s64 %rd9, %rd6, %rd8;
    atom.global.{name} %r7, [%rd9], %r5; st.global.b32 [%rd3], %r7;
    """
    values = np.random.default_rng(1).integers(0, 50, 32).astype(dtype)
    cells = np.arange(32).astype(dtype) + 3
    outcome, arrays = launch(kernel(START + body, ["u64"] * 3), [np.zeros(32, dtype), values, cells.copy()])
    assert outcome.kind == "ok", outcome.fault
    expected = cells.tolist()
    olds = []
    for lane, value in enumerate(values.tolist()):
        olds.append(expected[lane // lanes_per_cell])
        expected[lane // lanes_per_cell] = update(expected[lane // lanes_per_cell], value)
    assert arrays[0].tolist() == olds and arrays[2].tolist() == expected


@pytest.mark.parametrize(("kind", "dtype"), [("f32", np.float32), ("f64", np.float64), ("u64", np.uint64)])
@schedules
def test_atomic_sums_of_wide_types(schedule, kind, dtype):
    word, register = ("b32", "%r5") if dtype is np.float32 else ("b64", "%rd5")
    convert = f"cvt.rn.{kind}.u32 {register}, %r1" if kind[0] == "f" else "cvt.u64.u32 %rd5, %r1"
    body = f"{convert}; red.relaxed.gpu.global.add.{kind} [%rd1], {register};"
    outcome, arrays = launch(kernel(START + body, ["u64"]), [np.zeros(2, dtype)], schedule=schedule)
    assert outcome.kind == "ok" and arrays[0][0] == 496 and word


@pytest.mark.parametrize(("kind", "dtype"), [("f16", np.dtype(np.float16)), ("bf16", np.dtype(ml_dtypes.bfloat16))])
def test_atomic_sums_of_halves(kind, dtype):
    body = f"mov.b16 %rs1, {0x3C00 if kind == 'f16' else 0x3F80}; atom.global.add.noftz.{kind} %rs2, [%rd1], %rs1;"
    _, arrays = launch(kernel(START + body, ["u64"]), [np.zeros(4, np.uint16)])
    assert arrays[0].view(dtype)[0] == 32


@schedules
def test_compare_and_swap_lets_one_lane_win(schedule):
    body = "add.s32 %r5, %r1, 100; atom.global.cas.b32 %r6, [%rd1+128], 0, %r5; st.global.b32 [%rd3], %r6;"
    outcome, arrays = launch(kernel(START + body, ["u64"]), [np.zeros(33, np.int32)], schedule=schedule, seed=3)
    assert outcome.kind == "ok"
    won = np.flatnonzero(arrays[0][:32] == 0)
    assert len(won) == 1 and arrays[0][32] == 100 + won[0]


@schedules
def test_generic_addresses_reach_every_space(schedule):
    body = """
    .local .align 4 .b8 depot[8]; .shared .align 4 .b8 sh[128];
    mov.u64 %rd5, depot; cvta.local.u64 %rd6, %rd5; st.b32 [%rd6+4], %r1; ld.local.b32 %r5, [depot+4];
    mov.u64 %rd7, sh; cvta.shared.u64 %rd8, %rd7; add.s64 %rd9, %rd8, %rd2; st.b32 [%rd9], %r5;
    cvta.to.shared.u64 %rd10, %rd9; ld.shared.b32 %r6, [%rd10]; isspacep.shared %p1, %rd9; isspacep.global %p2, %rd9;
    isspacep.local %p3, %rd6; selp.b32 %r7, 100, 0, %p1; selp.b32 %r8, 1000, 0, %p2; selp.b32 %r9, 10000, 0, %p3;
    add.s32 %r6, %r6, %r7; add.s32 %r6, %r6, %r8; add.s32 %r6, %r6, %r9; st.b32 [%rd3], %r6;
    """
    outcome, arrays = launch(kernel(START + body, ["u64"]), [np.zeros(32, np.int32)], schedule=schedule)
    assert outcome.kind == "ok", outcome.fault
    assert (arrays[0] == np.arange(32) + 10100).all()


@schedules
def test_dynamic_shared_memory_follows_the_static_one(schedule):
    extra = ".extern .shared .align 16 .b8 dyn[];\n.shared .align 4 .b8 fixed[4];\n"
    body = """
    mov.u64 %rd5, dyn; add.s64 %rd6, %rd5, %rd2; st.shared.b32 [%rd6], %r1; ld.shared.b32 %r5, [%rd6];
    st.global.b32 [%rd3], %r5;
    """
    text = kernel(START + body, ["u64"], extra)
    outcome, arrays = launch(text, [np.zeros(32, np.int32)], shared=128, schedule=schedule)
    assert outcome.kind == "ok" and (arrays[0] == np.arange(32)).all()
    outcome, _ = launch(text, [np.zeros(32, np.int32)], shared=124, schedule=schedule)
    assert outcome.fault.rule == "out-of-bounds" and outcome.fault.iteration == (0, 0, 0, 31, 0, 0)


def test_parameters_of_every_width_and_their_addresses():
    body = """
    ld.param.u8 %r5, [p1]; ld.param.s8 %r6, [p1]; ld.param.u16 %r7, [p2]; ld.param.f32 %r8, [p3];
    mov.b64 %rd5, p2; mov.b64 %rd6, p4; setp.eq.s32 %p1, %r1, 1; selp.b64 %rd7, %rd6, %rd5, %p1;
    ld.param.u16 %r9, [%rd7];
    st.global.b32 [%rd1], %r5; st.global.b32 [%rd1+4], %r6; st.global.b32 [%rd1+8], %r7; st.global.b32 [%rd1+12], %r8;
    st.global.b32 [%rd1+16], %r9;
    """
    text = kernel(START + body, ["u64", "u8", "u16", "f32", "u16"])
    outcome, arrays = launch(text, [np.zeros(5, np.int32)], [-2, 7, np.float32(1.5).tobytes(), 9], block=1)
    assert outcome.kind == "ok", outcome.fault
    assert arrays[0].tolist() == [254, -2, 7, int(np.float32(1.5).view(np.int32)), 7]


HEAP = """
.extern .func (.param .b64 r) malloc(.param .b64 n);
.extern .func free(.param .b64 p);
"""


@schedules
def test_each_lane_has_its_own_heap_objects(schedule):
    body = """
    { .param .b64 a; .param .b64 r; st.param.b64 [a], 8; call.uni (r), malloc, (a); ld.param.b64 %rd5, [r]; }
    st.b32 [%rd5+4], %r1; ld.b32 %r5, [%rd5+4]; st.global.b32 [%rd3], %r5;
    { .param .b64 a; st.param.b64 [a], %rd5; call.uni free, (a); }
    """
    text = kernel(START + body, ["u64"], HEAP)
    outcome, arrays = launch(text, [np.zeros(32, np.int32)], schedule=schedule)
    assert outcome.kind == "ok", outcome.fault
    assert (arrays[0] == np.arange(32)).all()
    late = text.replace("call.uni free, (a); }", "call.uni free, (a); } ld.b32 %r6, [%rd5+4];")
    assert launch(late, [np.zeros(32, np.int32)], schedule=schedule)[0].fault.rule == "use-after-free"
    twice = text.replace("call.uni free, (a); }", "call.uni free, (a); call.uni free, (a); }")
    assert launch(twice, [np.zeros(32, np.int32)], schedule=schedule)[0].fault.rule == "bad-free"


def test_printf_is_noted_and_assertions_are_faults():
    extra = """
    .extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 a); .extern .func __assertfail(.param .b64 m);
    """
    body = "{ .param .b64 f; .param .b64 a; .param .b32 r; call.uni (r), vprintf, (f, a); ld.param.b32 %r5, [r]; }"
    outcome, _ = launch(kernel(body, (), extra), block=8)
    assert outcome.kind == "ok" and outcome.notes == {"printf": 8}
    outcome, _ = launch(kernel("{ .param .b64 m; call.uni __assertfail, (m); }", (), extra))
    assert outcome.fault.rule == "assert"


def call(name, argument_kinds, result, arrays):
    """Run a libdevice function on arrays through a PTX call."""
    widths = {"f32": 4, "f64": 8, "b32": 4}
    parameters = ", ".join(f".param .{'b' + k[1:]} x{i}" for i, k in enumerate(argument_kinds))
    extra = f".extern .func (.param .b{widths[result] * 8} r) {name}({parameters});\n"
    lines = [START]
    for i, kind in enumerate(argument_kinds):
        size = widths[kind]
        register = f"%{'r' if size == 4 else 'rd'}{20 + i}"
        lines.append(f"ld.param.u64 %rd10, [p{i + 1}]; mad.wide.u32 %rd11, %r1, {size}, %rd10;")
        word = f"b{8 * size}"
        lines.append(f"ld.global.{word} {register}, [%rd11];")
        lines.append(f".param .{word} a{i}; st.param.{word} [a{i}], {register};")
    size = widths[result]
    register = "%r9" if size == 4 else "%rd9"
    names = ", ".join(f"a{i}" for i in range(len(argument_kinds)))
    lines.append(f".param .b{8 * size} v; call.uni (v), {name}, ({names}); ld.param.b{8 * size} {register}, [v];")
    lines.append(f"mad.wide.u32 %rd12, %r1, {size}, %rd1; st.global.b{8 * size} [%rd12], {register};")
    out = np.zeros(len(arrays[0]), f"f{size}" if result[0] == "f" else "i4")
    text = kernel("\n".join(lines), ["u64"] * (1 + len(arrays)), extra)
    outcome, found = launch(text, [out, *arrays], block=len(out))
    assert outcome.kind == "ok", outcome.fault
    return found[0]


@pytest.mark.parametrize(
    ("name", "function"),
    [("exp", math.exp), ("log", math.log), ("sin", math.sin), ("cos", math.cos), ("tanh", math.tanh), ("erf", math.erf),
     ("sqrt", math.sqrt), ("expm1", math.expm1), ("atan", math.atan), ("cbrt", lambda x: x ** (1 / 3)),
     ("floor", math.floor), ("ceil", math.ceil), ("trunc", math.trunc), ("rsqrt", lambda x: x**-0.5)],
)  # fmt: skip
def test_libdevice_is_close_to_the_real_function(name, function):
    x = np.linspace(0.3, 3.7, 40)
    expected = np.array([function(v) for v in x], float)
    assert np.allclose(call(f"__nv_{name}", ["f64"], "f64", [x]), expected, rtol=1e-15, atol=0)
    single = x.astype(np.float32)
    expected = np.array([function(float(v)) for v in single])
    found = call(f"__nv_{name}f", ["f32"], "f32", [single])
    assert (np.abs(found - expected) <= np.spacing(np.abs(expected).astype(np.float32))).all()


def test_exact_libdevice_functions():
    a, b = np.array([2.5, -2.5, 0.49999999999999994, -0.5]), np.array([-1.0, 1.0, -0.0, 3.0])
    assert call("__nv_round", ["f64"], "f64", [a]).tolist() == [3.0, -3.0, 0.0, -1.0]
    assert call("__nv_rint", ["f64"], "f64", [a]).tolist() == [2.0, -2.0, 0.0, -0.0]
    assert call("__nv_copysign", ["f64", "f64"], "f64", [a, b]).tolist() == [-2.5, 2.5, -0.49999999999999994, 0.5]
    assert call("__nv_fma", ["f64"] * 3, "f64", [a, b, b]).tolist() == (a * b + b).tolist()
    assert call("__nv_isnand", ["f64"], "b32", [np.array([1.0, np.nan])]).tolist() == [0, 1]


def test_every_libdevice_rule_states_its_error_and_unknown_names_have_none():
    assert len(libdevice.names()) > 120
    for name in libdevice.names():
        function = libdevice.find(name)
        assert function is not None and 0 <= function.ulp <= 8
    assert libdevice.find("__nv_nothing") is None and libdevice.find("sinf") is None


@pytest.mark.parametrize(
    "statement",
    ["tex.2d.v4.f32.f32 {%r1, %r2, %r3, %r4}, [t, {%r5, %r6}];",
     "wmma.load.a.sync.aligned.row.m16n16k16.f16 {%r1}, [%rd1];",
     "addc.u32 %r1, %r2, %r3;", "add.f128 %rd1, %rd2, %rd3;", "call.uni somewhere, ();", "ld.global.b128 %rd1, [%rd2];",
     "cvt.rn.s32.f32 %r1, %r2;", "frobnicate.b32 %r1, %r2;"],
)  # fmt: skip
def test_what_has_no_rule_is_unsupported_with_its_line_when_reached(statement):
    text = kernel(f"\n{statement}\n")
    outcome, _ = launch(text)
    assert outcome.kind == "unsupported" and text.splitlines()[outcome.fault.line - 1] == statement
    outcome, _ = launch(kernel(f"bra.uni END;\n{statement}\nEND:"))
    assert outcome.kind == "ok"

"""arith, math and index ops as the factories build them from op texts: flags, attributes, types, refusals."""

import math

import numpy as np
import pytest

from difftest.interpreter.dialects import arith, index
from difftest.interpreter.dialects import math as math_dialect
from difftest.interpreter.rules import NoRuleError
from difftest.ir.tree import Block, Operation, Region

RULES = {**arith.ELEMENTWISE, **math_dialect.ELEMENTWISE, **index.ELEMENTWISE}


@pytest.fixture(autouse=True)
def quiet():
    with np.errstate(all="ignore"):
        yield


def rule(name, operands, results, **properties):
    block = Block(Region(Operation("t.holder")), list(operands))
    op = Operation(name, operands=block.arguments, result_types=list(results), properties=properties)
    return RULES[name](op)


def binary(name, type_text, **properties):
    return rule(name, [type_text, type_text], [type_text], **properties)


def test_every_documented_op_is_present():
    names = """addf addi addui_extended andi bitcast ceildivsi ceildivui cmpf cmpi constant divf divsi divui extf extsi
    extui floordivsi fptosi fptoui index_cast index_castui maximumf maxnumf maxsi maxui minimumf minnumf minsi minui
    mulf muli mulsi_extended mului_extended negf ori remf remsi remui select shli shrsi shrui sitofp subf subi truncf
    trunci uitofp xori"""
    assert {f"arith.{n}" for n in names.split()} <= set(RULES)
    names = """absf absi acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh ctlz ctpop cttz erf erfc exp
    exp2 expm1 floor fma fpowi ipowi isfinite isinf isnan isnormal log log10 log1p log2 powf round roundeven rsqrt sin
    sinh sqrt tan tanh trunc"""
    assert {f"math.{n}" for n in names.split()} <= set(RULES)
    names = """add and bool.constant casts castu ceildivs ceildivu cmp constant divs divu floordivs maxs maxu mins minu
    mul or rems remu shl shrs shru sizeof sub xor"""
    assert {f"index.{n}" for n in names.split()} == set(index.ELEMENTWISE)


@pytest.mark.parametrize(
    ("text", "type_text", "value"),
    [
        ("-5 : i32", "i32", -5),
        ("true", "i1", True),
        ("200 : i8", "i8", -56),
        ("-1 : index", "index", -1),
        ("170141183460469231731687303715884105727 : i128", "i128", (1 << 127) - 1),
        ("1.500000e+00 : f32", "f32", 1.5),
        ("0x7F800000 : f32", "f32", math.inf),
        ("-0.000000e+00 : f64", "f64", -0.0),
        ("1.500000e+00 : bf16", "bf16", 1.5),
    ],
)
def test_constants(text, type_text, value):
    found = rule("arith.constant", [], [type_text], value=text).compute()
    assert found == value
    assert math.copysign(1, found) == math.copysign(1, value)
    if isinstance(value, float):
        assert found.dtype.itemsize * 8 == int("".join(c for c in type_text if c.isdigit()))
    else:
        assert type(found) is type(value)


def test_dense_constants_have_one_lane():
    text = "dense<[[1, 2], [3, -4]]> : vector<2x2xi8>"
    found = rule("arith.constant", [], ["vector<2x2xi8>"], value=text).compute()
    assert found.tolist() == [[[1, 2], [3, -4]]]
    assert found.dtype == np.int8
    with pytest.raises(NoRuleError):
        rule("arith.constant", [], ["tensor<2xi8>"], value="dense<1> : tensor<2xi8>")


def test_flags_are_read_from_every_spelling():
    plain = binary("arith.addi", "i32", overflowFlags="#arith.overflow<none>")
    assert plain.poison is None
    assert binary("arith.addi", "i32").poison is None
    nsw = binary("arith.addi", "i32", overflowFlags="#arith<overflow nsw>")
    assert nsw.rule == "nsw"
    assert nsw.poison((1 << 31) - 1, 1) is True
    assert nsw.compute((1 << 31) - 1, 1) == -(1 << 31)
    both = binary("arith.muli", "i64", overflowFlags="#arith.overflow<nsw, nuw>")
    assert [name for name, _ in both.causes] == ["nsw", "nuw"]
    exact = binary("arith.divsi", "i32", isExact="")
    assert exact.poison(7, 2) is True
    assert exact.poison(8, 2) is False
    wide = rule("arith.extui", ["i8"], ["i32"], nonNeg="")
    assert wide.rule == "nneg"
    assert wide.poison(np.array([1, -1], np.int8)).tolist() == [False, True]
    assert wide.compute(-1) == 255
    narrow = rule("arith.trunci", ["i32"], ["i8"], overflowFlags="#arith.overflow<nsw>")
    assert narrow.poison(300) is True
    assert narrow.compute(300) == 44
    disjoint = binary("arith.ori", "i8", isDisjoint="")
    assert disjoint.rule == "disjoint"
    assert disjoint.poison(6, 3) is True
    assert disjoint.poison(4, 3) is False
    unsigned = rule("arith.uitofp", ["i8"], ["f32"], nonNeg="")
    assert unsigned.poison(-1) is True


def test_documented_edges_of_integer_ops():
    low = -(1 << 31)
    assert binary("arith.ceildivsi", "i32").compute(low, 7) == -306783378
    assert binary("arith.ceildivsi", "i32").compute(np.array([low], np.int32), 7).tolist() == [-306783378]
    assert binary("arith.floordivsi", "i32").compute(-5, 3) == -2
    assert binary("arith.remsi", "i32").undefined(low, -1) is True
    assert binary("arith.shli", "i32").rule == "shift-amount"
    assert binary("arith.shli", "i32").poison(1, 32) is True
    assert binary("arith.shrui", "i32").compute(-1, 31) == 1
    assert binary("arith.maxsi", "i1").compute(True, False) is False
    assert rule("arith.cmpi", ["i1", "i1"], ["i1"], predicate="2 : i64").compute(True, False) is True
    assert rule("arith.index_cast", ["i1"], ["index"]).compute(True) == -1
    assert rule("arith.index_castui", ["i1"], ["index"]).compute(True) == 1
    assert rule("arith.index_cast", ["index"], ["i8"]).compute(300) == 44
    assert rule("arith.index_cast", ["i64"], ["index"]).promise(1 << 40, 1 << 40) is True
    assert rule("arith.index_cast", ["i32"], ["index"]).promise is None


def test_vectors_use_their_element_type():
    add = binary("arith.addi", "vector<2xi8>")
    found = add.compute(np.array([[100, 1]], np.int8), np.array([[100, 1], [1, 1]], np.int8))
    assert found.tolist() == [[-56, 2], [101, 2]]


def test_fast_math_flags():
    fast = binary("arith.addf", "f32", fastmath="#arith.fastmath<fast>")
    assert fast.zero_sign_free
    assert [name for name, _ in fast.causes] == ["nnan", "ninf"]
    inf = np.float32(math.inf)
    assert fast.poison(np.float32(1), inf) is True
    assert fast.poison(np.array([1, inf], np.float32), np.float32(1)).tolist() == [False, True]
    assert fast.broken((inf, np.float32(1))) == "ninf"
    assert fast.broken((inf, -inf)) == "nnan"
    assert binary("arith.addf", "f32", fastmath="#arith.fastmath<none>").poison is None
    overflow = binary("arith.mulf", "f32", fastmath="#arith.fastmath<ninf>")
    assert overflow.poison(np.float32(1e30), np.float32(1e30)) is True
    assert binary("arith.maxnumf", "f32").zero_sign_free
    assert not binary("arith.maximumf", "f32").zero_sign_free
    compare = rule("arith.cmpf", ["f32", "f32"], ["i1"], predicate="1 : i64", fastmath="#arith.fastmath<nnan>")
    assert compare.poison(np.float32(math.nan), np.float32(1)) is True
    assert compare.poison(np.float32(2), np.float32(1)) is False
    power = rule("math.fpowi", ["f32", "i32"], ["f32"], fastmath="#arith.fastmath<fast>")
    assert power.poison(np.float32(2), 3) is False
    assert power.poison(np.float32(0), -3) is True


def test_what_has_no_meaning_here_is_refused():
    refused = [
        ("arith.addf", ["f80", "f80"], ["f80"], {}),
        ("arith.addf", ["f8E4M3FN", "f8E4M3FN"], ["f8E4M3FN"], {}),
        ("arith.addi", ["tensor<4xi32>", "tensor<4xi32>"], ["tensor<4xi32>"], {}),
        ("arith.truncf", ["f32"], ["f16"], {"roundingmode": "1 : i32"}),
        ("arith.select", ["i1", "memref<4xf32>", "memref<4xf32>"], ["memref<4xf32>"], {}),
        ("arith.bitcast", ["f32"], ["i64"], {}),
        ("arith.bitcast", ["i64"], ["index"], {}),
        ("arith.cmpi", ["i32", "i32"], ["i1"], {"predicate": "12 : i64"}),
        ("arith.cmpi", ["i32", "i32"], ["i1"], {}),
    ]
    for name, operands, results, properties in refused:
        with pytest.raises(NoRuleError):
            rule(name, operands, results, **properties)
    assert rule("arith.truncf", ["f32"], ["f16"], roundingmode="0 : i32").compute(np.float32(1)) == 1


def test_conversions_and_bits():
    assert rule("arith.fptosi", ["f32"], ["i32"]).rule == "fptosi-range"
    assert rule("arith.fptosi", ["f32"], ["i32"]).poison(np.float32(3e9)) is True
    assert rule("arith.fptoui", ["f32"], ["i32"]).poison(np.float32(-0.5)) is False
    assert rule("arith.fptoui", ["f32"], ["i32"]).compute(np.float32(3e9)) == 3000000000 - (1 << 32)
    assert rule("arith.sitofp", ["i1"], ["f32"]).compute(True) == -1.0
    assert rule("arith.uitofp", ["i1"], ["f32"]).compute(True) == 1.0
    assert float(rule("arith.sitofp", ["i32"], ["f16"]).compute(2049)) == 2048
    assert float(rule("arith.sitofp", ["i32"], ["bf16"]).compute(257)) == 256
    bits = rule("arith.bitcast", ["f32"], ["i32"])
    assert bits.compute(np.float32(-0.0)) == -(1 << 31)
    assert np.any(bits.discrete((np.float32(1),), (0.1,)))
    narrow = rule("arith.truncf", ["f32"], ["f16"])
    assert narrow.bound((np.float32(1.5),), (None,), np.float16(1.5)) is None
    widen = rule("arith.extf", ["f16"], ["f32"])
    assert widen.bound((np.float16(1.5),), (0.25,), np.float32(1.5)) == 0.25


def test_minus_zero_survives_where_documented():
    for name, value in (("ceil", -0.25), ("trunc", -0.5), ("round", -0.4), ("sqrt", -0.0), ("roundeven", -0.5)):
        found = rule(f"math.{name}", ["f32"], ["f32"]).compute(np.float32(value))
        assert found == 0
        assert np.signbit(found), name
    assert rule("math.round", ["f32"], ["f32"]).compute(np.float32(-2.5)) == -3
    assert rule("math.roundeven", ["f32"], ["f32"]).compute(np.float32(2.5)) == 2


def test_functions_follow_the_special_values_of_c():
    def at(name, value, type_text="f32"):
        return rule(f"math.{name}", [type_text], [type_text]).compute(
            np.dtype(f"f{int(type_text[1:]) // 8}").type(value)
        )

    assert at("exp", -math.inf) == 0
    assert at("exp", 1000) == math.inf
    assert at("log", 0.0) == -math.inf
    assert np.isnan(at("log", -1.0))
    assert np.isnan(at("sin", math.inf))
    assert at("atan", math.inf) == np.float32(math.pi / 2)
    assert at("tanh", -math.inf) == -1
    assert at("erf", math.inf) == 1
    assert np.isnan(at("erfc", math.nan))
    assert at("cbrt", -8.0) == -2
    assert at("rsqrt", 0.0) == math.inf
    assert np.isnan(at("sqrt", -1.0))
    power = rule("math.powf", ["f32", "f32"], ["f32"])
    assert power.compute(np.float32(math.nan), np.float32(0)) == 1
    assert np.isnan(power.compute(np.float32(-2), np.float32(0.5)))
    assert rule("math.fpowi", ["f32", "i32"], ["f32"]).compute(np.float32(0), 0) == 1
    assert rule("math.fpowi", ["f32", "i32"], ["f32"]).compute(np.float32(2), np.array([-1, 3], np.int32)).tolist() == [
        0.5,
        8,
    ]
    assert rule("math.atan2", ["f32", "f32"], ["f32"]).compute(np.float32(-0.0), np.float32(-1)) == np.float32(-math.pi)
    sine, cosine = rule("math.sincos", ["f32"], ["f32", "f32"]).compute(np.float32(0))
    assert (float(sine), float(cosine)) == (0.0, 1.0)


def test_functions_are_the_nearest_to_the_true_value():
    values = np.linspace(0.1, 0.9, 50).astype(np.float32)
    for name, true in (
        ("exp", math.exp),
        ("log", math.log),
        ("tanh", math.tanh),
        ("erf", math.erf),
        ("acos", math.acos),
    ):
        found = rule(f"math.{name}", ["f32"], ["f32"]).compute(values)
        assert found.tolist() == [float(np.float32(true(float(v)))) for v in values]


def test_integer_functions():
    assert rule("math.ctlz", ["i8"], ["i8"]).compute(0) == 8
    assert rule("math.cttz", ["i8"], ["i8"]).compute(np.array([0, 8, -128], np.int8)).tolist() == [8, 3, 7]
    assert rule("math.ctpop", ["i8"], ["i8"]).compute(-1) == 8
    assert rule("math.absi", ["i8"], ["i8"]).compute(-128) == -128
    power = binary("math.ipowi", "i32")
    assert power.compute(3, 4) == 81
    assert power.compute(-1, -3) == -1
    assert power.compute(2, -1) == 0
    assert power.undefined(0, -1) is True
    assert power.undefined(np.array([0, 1], np.int32), -1).tolist() == [True, False]


def test_index_ops():
    assert rule("index.constant", [], ["index"], value="7 : index").compute() == 7
    assert rule("index.bool.constant", [], ["i1"], value="true").compute() is True
    assert rule("index.sizeof", [], ["index"]).compute() == 64
    compare = rule("index.cmp", ["index", "index"], ["i1"], pred="#index<cmp_predicate ult>")
    assert compare.compute(-1, 1) is False
    assert rule("index.cmp", ["index", "index"], ["i1"], pred="#index<cmp_predicate slt>").compute(-1, 1) is True
    with pytest.raises(NoRuleError):
        rule("index.cmp", ["index", "index"], ["i1"], pred="#index<cmp_predicate weird>")
    assert rule("index.casts", ["index"], ["i32"]).compute((1 << 32) + 5) == 5
    assert rule("index.castu", ["i32"], ["index"]).compute(-1) == (1 << 32) - 1
    assert binary("index.add", "index").promise_rule == "index-width"
    assert binary("index.divs", "index").undefined(1, 0) is True
    assert binary("index.shl", "index").poison(1, 64) is True
    assert binary("index.ceildivs", "index").compute(-5, 3) == -1
    assert binary("index.remu", "index").compute(-1, 10) == ((1 << 64) - 1) % 10

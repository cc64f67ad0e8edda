"""Types: structure, strides, LLVM's short inner spellings, and that nothing raises."""

import random

import pytest

from difftest.ir.types import (
    FloatType,
    FunctionType,
    IndexType,
    IntegerType,
    LLVMArrayType,
    MemRefType,
    NoneType,
    OpaqueType,
    PointerType,
    StructType,
    TensorType,
    TokenType,
    VectorType,
    parse_type,
    row_major,
    same_type,
)

F32 = FloatType("f32")
I64 = IntegerType(64)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("i1", IntegerType(1)),
        ("si8", IntegerType(8, "s")),
        ("ui32", IntegerType(32, "u")),
        ("i128", IntegerType(128)),
        ("index", IndexType()),
        ("bf16", FloatType("bf16")),
        ("f8E4M3FN", FloatType("f8E4M3FN")),
        ("none", NoneType()),
        ("!gpu.async.token", TokenType()),
        ("vector<4x8xf32>", VectorType((4, 8), F32)),
        ("vector<f32>", VectorType((), F32)),
        ("tensor<2x?xi64>", TensorType((2, None), I64)),
        ("!llvm.ptr", PointerType()),
        ("!llvm.ptr<3>", PointerType(3)),
        ("!llvm.array<4 x f32>", LLVMArrayType(4, F32)),
        ("!llvm.array<2 x array<3 x ptr<1>>>", LLVMArrayType(2, LLVMArrayType(3, PointerType(1)))),
        ("!llvm.struct<(ptr, i64, array<2 x i64>)>", StructType((PointerType(), I64, LLVMArrayType(2, I64)))),
        ("!llvm.struct<packed (i64, vector<2xf32>)>", StructType((I64, VectorType((2,), F32)), packed=True)),
        ('!llvm.struct<"pair, of", (i64, i64)>', StructType((I64, I64), name="pair, of")),
        ("!llvm.struct<()>", StructType(())),
        ("(f32, index) -> i64", FunctionType((F32, IndexType()), (I64,))),
        ("() -> ()", FunctionType((), ())),
        ("(i64) -> (f32, i64)", FunctionType((I64,), (F32, I64))),
        ("() -> (() -> f32)", FunctionType((), (FunctionType((), (F32,)),))),
    ],
)
def test_types_have_their_structure_and_print_back(text, expected):
    assert parse_type(text) == expected
    assert parse_type(str(expected)) == expected


@pytest.mark.parametrize(
    ("text", "shape", "strides", "offset"),
    [
        ("memref<f32>", (), (), 0),
        ("memref<2x3x4xf32>", (2, 3, 4), (12, 4, 1), 0),
        ("memref<?x4xf32>", (None, 4), (4, 1), 0),
        ("memref<4x?xf32>", (4, None), (None, 1), 0),
        ("memref<4x8xf32, strided<[16, 1], offset: ?>>", (4, 8), (16, 1), None),
        ("memref<4x8xf32, strided<[?, 1]>>", (4, 8), (None, 1), 0),
        ("memref<4x8xf32, strided<[-8, 1], offset: 24>>", (4, 8), (-8, 1), 24),
        ("memref<4x8xf32, affine_map<(d0, d1) -> (d0, d1)>>", (4, 8), (8, 1), 0),
        ("memref<4x8xf32, affine_map<(d0, d1) -> (d1 * 4 + d0 + 3)>>", (4, 8), (1, 4), 3),
        ("memref<4x8xf32, affine_map<(d0, d1)[s0, s1] -> (d0 * s1 + s0 + d1)>>", (4, 8), (None, 1), None),
        ("memref<4x8xf32, affine_map<(d0, d1) -> (d1, d0)>>", (4, 8), None, None),
        ("memref<8xf32, affine_map<(d0) -> (d0 floordiv 2)>>", (8,), None, None),
        ("memref<8xf32, affine_map<(d0) -> (d0 * d0)>>", (8,), None, None),
        ("memref<8xf32, affine_map<(d0) -> (d0 + 7 mod 4)>>", (8,), (1,), 3),
        ("memref<8xf32, strided<[1, 1]>>", (8,), None, None),
    ],
)
def test_memrefs_know_their_strides(text, shape, strides, offset):
    found = parse_type(text)
    assert isinstance(found, MemRefType)
    assert (found.shape, found.strides, found.offset) == (shape, strides, offset)
    assert parse_type(str(found)) == found


def test_memref_spaces_and_nested_elements():
    found = parse_type("memref<2xmemref<?xi8, 3>, strided<[1]>, #gpu.address_space<workgroup>>")
    assert isinstance(found, MemRefType)
    assert (found.space, found.layout) == ("#gpu.address_space<workgroup>", "strided<[1]>")
    assert isinstance(found.element, MemRefType) and found.element.space == "3"
    assert parse_type("memref<4xf32, 1 : i32>").space == "1 : i32"


@pytest.mark.parametrize(
    "text",
    [
        "vector<[4]xf32>",
        "vector<?xf32>",
        "tensor<4xf32, #enc>",
        "memref<*xf32>",
        "complex<f32>",
        "!llvm.void",
        "!llvm.func<void (ptr, i64)>",
        '!llvm.struct<"s", opaque>',
        "ptr",
        "struct<(i64)>",
        "i0",
        "",
        "(f32",
        "memref<",
        "memref<4xf32, 1, 2, 3>",
        "tuple<" * 5000 + ">" * 5000,
        "!llvm.array<1 x array<1 x" * 3000,
        "vector<4x" * 3000 + "f32" + ">" * 3000,
    ],
)
def test_what_is_not_known_keeps_its_text(text):
    found = parse_type(text)
    assert str(found) == text
    assert isinstance(found, OpaqueType) or text.startswith("vector<4x")


def test_parsing_never_raises():
    rng = random.Random(0)
    pieces = ["memref<", "vector<", "!llvm.struct<", "(", ")", ">", "4x", "?x", "f32", ", ", "strided<[1]>", '"', "->"]
    for _ in range(3000):
        text = "".join(rng.choices(pieces, k=rng.randrange(1, 9)))
        assert parse_type(text) == parse_type(str(parse_type(text)))


def test_spellings_of_one_type_are_the_same():
    assert same_type("!llvm.struct<(ptr, i64)>", "!llvm.struct<(!llvm.ptr<0>,i64)>")
    assert same_type("memref< 4xf32 >", "memref<4xf32>")
    assert same_type("!foo.bar<a, b>", "!foo.bar<a,b>")
    assert not same_type("memref<4xf32>", "memref<4xf64>")
    assert not same_type("!foo.bar<a>", "!foo.bar<b>")


def test_row_major_stops_at_dynamic_extents():
    assert row_major((2, None, 3)) == (None, 3, 1)
    assert row_major(()) == ()

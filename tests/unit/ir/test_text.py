"""Whole texts: generic or pretty, enzyme's spellings, debug locations, several inputs, hashes."""

from pathlib import Path

import pytest

from difftest.ir.reader import read_module
from difftest.ir.text import canonical_hash, is_generic, pretty_enzyme_style, split_inputs, strip_debug

STAGES = sorted((Path(__file__).parents[2] / "data" / "stages").glob("*.mlir"))


@pytest.mark.parametrize("path", STAGES, ids=lambda p: p.stem)
def test_stage_programs_are_generic(path):
    assert is_generic(path.read_text())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('// c\n#m = affine_map<() -> (0)>\n%0, %1 = "t.a"() : () -> (f32, f32)', True),
        ('{-# x: {} #-}\n"t.a"() {s = "func.func @k"} : () -> ()', True),
        ('"t.a"() {\n  llvm.x = 1 : i32\n} : () -> ()', True),
        ("module {\n}", False),
        ("func.func @k() { return }", False),
        ('"builtin.module"() ({\n  %c = arith.constant 1 : i32\n}) : () -> ()', False),
        ('module {\n  "t.a"() : () -> ()\n}', False),
        ("", False),
        ("not MLIR", False),
    ],
)
def test_generic_form_is_told_from_pretty_form(text, expected):
    assert is_generic(text) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("enzyme.autodiff_region(%x) {\n} attributes {activity = [#enzyme<activity enzyme_dup>]} : () -> ()", "house"),
        ("enzyme.autodiff_region(%x) {\n} <{activity = [#enzyme.activity<enzyme_dup>]}> : () -> ()", "0.0.16"),
        ("gpu.all_reduce x {op = #gpu.all_reduce_op<add>}", "0.0.16"),
        ('%r = "enzymexla.gpu_wrapper"(%n) ({', "house"),
        ('func.func @k() { "t.a"() {s = "#enzyme.activity<x> enzyme.yield"} }', None),
        ("memref<4xf32, #gpu.address_space<workgroup>>", None),
    ],
)
def test_enzyme_spellings_are_recognised(text, expected):
    assert pretty_enzyme_style(text) == expected


def test_debug_locations_go_and_the_rest_stays():
    text = (
        '#loc = loc(unknown)\n%0 = memref.alloc() {a = "loc(x)", b = loc("y")} : memref<4xf32> loc(#loc) // loc(a)\n'
        '^bb0(%a: f32 loc("a(":1:2)):\n#loc1 = loc("x")\nend'
    )
    assert strip_debug(text) == (
        '%0 = memref.alloc() {a = "loc(x)", b = loc("y")} : memref<4xf32> // loc(a)\n^bb0(%a: f32):\nend'
    )
    assert strip_debug("x loc(") == "x loc("


def test_inputs_are_split_at_separator_lines():
    assert split_inputs("a\n// -----\n\n// ----- more\nb // ----- c\n") == ("a\n", "b // ----- c\n")


def test_hashes_ignore_names_and_order_only():
    first = read_module('%a = "t.a"() <{x, y}> : () -> f32\n"t.b"(%a) : (f32) -> ()')
    same = read_module('\n%b = "t.a"() <{y, x}> : () -> f32\n"t.b"(%b) : (f32) -> () loc("z")')
    other = read_module('%a = "t.a"() <{x}> : () -> f32\n"t.b"(%a) : (f32) -> ()')
    assert canonical_hash(first) == canonical_hash(same)
    assert canonical_hash(first) != canonical_hash(other)

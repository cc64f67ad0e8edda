"""The printer: canonical names, a fixpoint, and that invalid trees print something that does not read."""

from pathlib import Path

import pytest

from difftest.errors import ReadError
from difftest.ir.printer import print_dictionary, print_module
from difftest.ir.reader import read_module
from difftest.ir.tree import Block, Operation, Region, clone

STAGES = sorted((Path(__file__).parents[2] / "data" / "stages").glob("*.mlir"))


@pytest.mark.parametrize("path", STAGES, ids=lambda p: p.stem)
def test_canonical_text_is_a_fixpoint(path):
    text = path.read_text()
    assert print_module(read_module(text)) == text
    assert print_module(clone(read_module(text))) == text


def test_values_are_numbered_like_mlir_does():
    text = (
        '"m.m"() ({\n^x(%p: i1, %q: i1):\n%one:2 = "t.a"(%q) : (i1) -> (f32, f32)\n"t.r"() ({\n%in = "t.b"(%one#1) : '
        '(f32) -> f32\n}, {\n^y(%z: i1):\n%in = "t.b"(%one#0) : (f32) -> f32\n}) : () -> ()\n^late(%w: i1):\n'
        '%end = "t.c"(%w) : (i1) -> i1\n}) : () -> ()'
    )
    lines = [line.strip() for line in print_module(read_module(text)).splitlines()]
    assert lines[2:-2] == [
        "^bb0(%arg0: i1, %arg1: i1):",
        '%0:2 = "t.a"(%arg1) : (i1) -> (f32, f32)',
        '"t.r"() ({',
        '%3 = "t.b"(%0#1) : (f32) -> f32',
        "}, {",
        "^bb0(%arg2: i1):",
        '%3 = "t.b"(%0#0) : (f32) -> f32',
        "}) : () -> ()",
        "^bb1(%1: i1):",
        '%2 = "t.c"(%1) : (i1) -> i1',
    ]


def test_names_and_order_of_the_input_do_not_matter():
    first = read_module('%a = "t.a"() <{y = 1 : i32, x}> : () -> f32\n"t.b"(%a) : (f32) -> ()')
    second = read_module('%zz = "t.a"()   <{x, y = 1 : i32}> : () -> (f32)\n\n"t.b"(%zz) : (f32) -> () loc("here")')
    assert print_module(first) == print_module(second)


def test_dictionaries_are_sorted_and_odd_names_quoted():
    assert (
        print_dictionary({"b": "", "a": "1 : i32", "two words": "2 : i8"}) == '{a = 1 : i32, b, "two words" = 2 : i8}'
    )


def test_a_function_type_result_keeps_its_parentheses():
    text = '%0 = "t.a"() : () -> ((f32) -> f32)\n'
    assert text.strip() in print_module(read_module(text))


def test_a_value_out_of_scope_is_never_printed_as_another_one():
    module = read_module(
        '"t.r"() ({\n%a = "t.a"() : () -> f32\n}, {\n%b = "t.a"() : () -> f32\n"t.use"(%b) : (f32) -> ()\n}) : () -> ()'
    )
    region_op = module.regions[0].blocks[0].ops[0]
    inner = region_op.regions[0].blocks[0].ops[0].results[0]
    region_op.regions[1].blocks[0].ops[1].operands = [inner, inner]
    printed = print_module(module)
    assert '"t.use"(%undef0, %undef0)' in printed
    with pytest.raises(ReadError, match="undefined value %undef0"):
        read_module(printed)


def test_a_successor_out_of_its_region_prints_and_does_not_read():
    module = read_module('"t.r"() ({\n"t.a"() : () -> ()\n}) : () -> ()')
    inner = module.regions[0].blocks[0].ops[0].regions[0].blocks[0].ops[0]
    inner.successors = [Block(Region(Operation("t.x")))]
    with pytest.raises(ReadError, match="undefined block"):
        read_module(print_module(module))


def test_an_entry_block_that_is_jumped_to_keeps_its_label():
    text = '"t.r"() ({\n^a:\n"t.br"()[^a] : () -> ()\n}) : () -> ()'
    printed = print_module(read_module(text))
    assert print_module(read_module(printed)) == printed

"""The reader: what it accepts, what it builds, and that every malformed text is a ReadError with a place."""

import random
import re
from pathlib import Path

import pytest

from difftest.errors import ReadError
from difftest.ir.printer import print_module
from difftest.ir.reader import read_module
from difftest.ir.tree import count_ops

STAGES = Path(__file__).parents[2] / "data" / "stages"
SAMPLE = """// a comment
#map = affine_map<(d0) -> (d0 + 1)>
#wide = [#map, "say #map"]
!t = memref<4xf32, #map>
#loc1 = loc("file.mlir":1:2)
"builtin.module"() ({
  "func.func"() <{function_type = (!t, i1) -> (), sym_name = "k"}> ({
  ^bb0(%a: !t loc("x"), %c: i1 loc(#loc1)):
    %0:2 = "test.two"(%a) <{maps = #wide, "odd key" = unit, flag}> {n = "}\\"> // {"} : (!t) -> (index, f32) loc(#loc1)
    "cf.cond_br"(%c)[^bb1, ^bb2] <{operandSegmentSizes = array<i32: 1, 0, 0>}> : (i1) -> ()
  ^bb1:  // pred: ^bb0
    %1 = "test.use"(%0#1, %0) : (f32, index) -> (() -> (f32, f32))
    "cf.br"()[^bb2] : () -> ()
  ^bb2:
    "func.return"() : () -> ()
  }) : () -> ()
}) {
  a = 1 : i32,   // spread over lines
  b
} : () -> ()
{-#
  dialect_resources: { builtin: { x: "0x08000000#-}" } }
#-}
#loc2 = loc(unknown)
"""


def wrap(body, arguments=""):
    return f'"test.region"() ({{\n^entry({arguments}):\n{body}\n}}) : () -> ()\n'


def test_a_module_with_everything_is_read():
    module = read_module(SAMPLE)
    assert module.name == "builtin.module"
    assert module.attributes == {"a": "1 : i32", "b": ""}
    function = module.regions[0].blocks[0].ops[0]
    entry, second, third = function.regions[0].blocks
    two, branch = entry.ops
    assert function.properties["function_type"] == "(memref<4xf32, affine_map<(d0) -> (d0 + 1)>>, i1) -> ()"
    assert [v.type for v in entry.arguments] == ["memref<4xf32, affine_map<(d0) -> (d0 + 1)>>", "i1"]
    assert two.properties == {"maps": '[affine_map<(d0) -> (d0 + 1)>, "say #map"]', "odd key": "", "flag": ""}
    assert two.attributes == {"n": '"}\\"> // {"'}
    assert [v.type for v in two.results] == ["index", "f32"]
    assert branch.successors == [second, third]
    assert second.ops[0].operands == [two.results[1], two.results[0]]
    assert second.ops[0].results[0].type == "() -> (f32, f32)"
    assert two.line == 9
    assert second.ops[0].parent_op is function


def test_several_top_level_operations_and_none_are_wrapped():
    assert [op.name for op in read_module('"a.b"() : () -> ()\n"c.d"() : () -> ()').walk()] == [
        "builtin.module",
        "a.b",
        "c.d",
    ]
    assert count_ops(read_module("  // nothing\n")) == 0
    assert len(read_module("").regions[0].blocks) == 1


def test_a_use_may_precede_its_definition():
    module = read_module(
        wrap('"t.a"(%x) : (f32) -> ()\n"t.r"() ({\n"t.b"(%x#0) : (f32) -> ()\n}) : () -> ()\n%x = "t.c"() : () -> f32')
    )
    by_name = {op.name: op for op in module.walk()}
    assert by_name["t.a"].operands == by_name["t.c"].results
    assert by_name["t.b"].operands == by_name["t.c"].results


def test_names_end_with_their_region():
    text = wrap(
        '"t.r"() ({\n%x = "t.c"() : () -> f32\n}) : () -> ()\n%x = "t.d"() : () -> i32\n"t.e"(%x) : (i32) -> ()'
    )
    assert "i32" in print_module(read_module(text))


def test_a_use_is_not_satisfied_by_a_sibling_region():
    text = wrap('"t.r"() ({\n"t.a"(%x) : (f32) -> ()\n}, {\n%x = "t.c"() : () -> f32\n}) : () -> ()')
    with pytest.raises(ReadError, match="undefined value %x"):
        read_module(text)


def test_isolated_operations_start_a_fresh_scope():
    function = '"func.func"() ({\n^bb0(%x: i1):\n"t.a"(%x) : (i1) -> ()\n}) : () -> ()'
    assert count_ops(read_module(f'%x = "t.c"() : () -> f32\n{function}')) == 3
    with pytest.raises(ReadError, match="undefined value %y"):
        read_module('%y = "t.c"() : () -> f32\n' + function.replace("(%x) :", "(%y) :"))


def test_line_breaks_and_comments_may_stand_anywhere_between_tokens():
    text = '%a , // c\n%b\n=\n"t.a"( ) // c\n<{ x\n= 1 : i32 }>\n(\n{ }\n)\n{ y }\n:\n( )\n->\n( f32\n, f32 )'
    op = read_module(text).regions[0].blocks[0].ops[0]
    assert (op.properties, op.attributes) == ({"x": "1 : i32"}, {"y": ""})
    assert [v.type for v in op.results] == ["f32", "f32"]
    assert len(op.regions) == 1 and not op.regions[0].blocks


def test_the_same_line_means_the_same_under_other_aliases():
    line = '"t.a"() <{m = #m}> : () -> ()'
    first = read_module(f"#m = affine_map<() -> (1)>\n{line}\n{line}")
    second = read_module(f"#m = affine_map<() -> (2)>\n{line}")
    assert [op.get("m") for op in first.walk()][1:] == ["affine_map<() -> (1)>"] * 2
    assert [op.get("m") for op in second.walk()][1:] == ["affine_map<() -> (2)>"]


def test_cached_lines_do_not_share_dictionaries():
    first, second = read_module('"t.a"() <{m}> {n} : () -> ()\n"t.a"() <{m}> {n} : () -> ()').regions[0].blocks[0].ops
    first.properties["m"] = "changed"
    first.attributes.clear()
    assert (second.properties, second.attributes) == ({"m": ""}, {"n": ""})
    assert read_module('"t.a"() <{m}> {n} : () -> ()').regions[0].blocks[0].ops[0].get("m") == ""


def test_deep_nesting_needs_no_recursion():
    depth = 5000
    text = '"t.r"() ({\n' * depth + '"t.leaf"() : () -> ()\n' + "}) : () -> ()\n" * depth
    printed = print_module(read_module(text))
    assert printed.count("t.r") == depth
    assert print_module(read_module(printed)) == printed


@pytest.mark.parametrize(
    ("text", "line", "column", "message"),
    [
        ('"t.a"(%x) : (f32) -> ()', 1, 7, "undefined value %x"),
        ('\n  %x = "t.a"() : () -> f32\n  %x = "t.a"() : () -> f32', 3, 8, "redefinition of %x"),
        ('%x = "t.a"() : () -> f32\n"t.b"(%x) : (f64) -> ()', 2, 7, "has type f32, used as f64"),
        ('%x = "t.a"() : () -> f32\n"t.b"(%x, %x) : (f32) -> ()', 2, 1, "2 operands but 1 operand types"),
        ('%x:2 = "t.a"() : () -> f32', 1, 8, "names for 2 results, types for 1"),
        ('%x = "t.a"() : () -> ()', 1, 6, "names for 1 results, types for 0"),
        ('"t.b"(%x) : (f64) -> ()\n%x = "t.a"() : () -> f32', 1, 7, "has type f32, used as f64"),
        ('%x:2 = "t.a"() : () -> (f32, f32)\n"t.b"(%x#2) : (f32) -> ()', 2, 7, "undefined value %x#2"),
        ('"t.r"() ({\n"cf.br"()[^b] : () -> ()\n}) : () -> ()', 2, 11, "undefined block ^b"),
        ('"t.r"() ({\n^b:\n^b:\n}) : () -> ()', 3, 1, "redefinition of block ^b"),
        ('^b:\n"t.a"() : () -> ()', 1, 1, "unexpected block"),
        ('"t.a"() {a = #m} : () -> ()', 1, 14, "undefined alias '#m'"),
        ('"t.a"() {a = } : () -> ()', 1, 13, "expected a value for 'a'"),
        ('"t.a"() {a, a} : () -> ()', 1, 12, "repeated attribute name 'a'"),
        ('"t.a"() {a = "open} : () -> ()', 1, 14, "unterminated string"),
        ('"t.a"() {a = [1)} : () -> ()', 1, 16, "mismatched ')'"),
        ('"t.a"()', 1, 8, "expected ':', found the end of the text"),
        ('"t.r"() ({\n"t.a"() : () -> ()\n', 3, 1, "unexpected end of text inside a region"),
        ("func.func @k() {\n  return\n}", 1, 1, "expected an operation in generic form, found 'func.func'"),
        ('"t.a"() : () -> () }', 1, 20, "unexpected '}'"),
        ("#m = affine_map<() -> (0)>\n#m = affine_map<() -> (0)>\n", 2, 1, "redefinition of #m"),
    ],
)
def test_malformed_texts_are_reported_where_they_break(text, line, column, message):
    with pytest.raises(ReadError, match=re.escape(message)) as caught:
        read_module(text)
    assert (caught.value.line, caught.value.column) == (line, column)


def outcome(text):
    """The canonical print, or None for a ReadError that points into the text; anything else is raised."""
    try:
        module = read_module(text)
    except ReadError as error:
        assert 1 <= error.line <= text.count("\n") + 1
        assert 1 <= error.column <= len(text.split("\n")[error.line - 1]) + 1
        return None
    printed = print_module(module)
    assert print_module(read_module(printed)) == printed
    return printed


def test_every_truncation_is_an_error_or_reads():
    texts = [outcome(SAMPLE[:end]) for end in range(len(SAMPLE) + 1)]
    assert texts[-1] is not None
    opened, closed = SAMPLE.index('"builtin.module"'), SAMPLE.index("{-#")
    assert not any(texts[opened + 1 : closed - 1])


@pytest.mark.parametrize("seed", range(6))
def test_random_token_replacements_never_escape(seed):
    rng = random.Random(seed)
    names = sorted(STAGES.glob("*.mlir"))
    text = rng.choice(names).read_text() if seed else SAMPLE
    tokens = re.findall(r'"[^"\n]*"|[\w.#%^!@$]+|\s+|.', text)
    strange = [
        '"',
        "{",
        "}",
        "<",
        ">",
        "(",
        ")",
        "[",
        "]",
        "//",
        "%0",
        "^bb0",
        "#map",
        "loc(",
        "{-#",
        "\\",
        "é",
        "\x00",
        "9" * 5000,
    ]
    refused = 0
    for _ in range(150):
        changed = list(tokens)
        for _ in range(rng.choice([1, 1, 2, 5])):
            at = rng.randrange(len(changed))
            changed[at] = rng.choice([rng.choice(tokens), "", changed[at] + rng.choice(strange)])
        refused += outcome("".join(changed)) is None
    assert refused > 50

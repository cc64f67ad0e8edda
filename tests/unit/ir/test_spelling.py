"""Text rules between toolchains: what is rewritten, what is refused, and that strings are left alone."""

from pathlib import Path

import pytest

from difftest.ir.printer import print_module
from difftest.ir.reader import read_module
from difftest.ir.spelling import (
    ENUMS,
    SpellingError,
    bindings_dialect,
    bindings_terminators,
    from_house,
    to_house,
    unwrap_from_bindings,
    wrap_for_bindings,
)

STAGES = sorted((Path(__file__).parents[2] / "data" / "stages").glob("*.mlir"))
OLD, MIDDLE, NEW, BINDINGS = "enzyme-ad@0.0.14", "enzyme-ad@0.0.15", "enzyme-ad@0.0.16", "mlir"
LABELS = (OLD, MIDDLE, NEW, BINDINGS, "opt:/usr/bin/mlir-opt")
LAUNCH = '"gpu.launch"(%0) <{{operandSegmentSizes = array<i32: 0, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0{}>}}> ({{'


@pytest.mark.parametrize("label", LABELS)
@pytest.mark.parametrize("path", STAGES, ids=lambda p: p.stem)
def test_there_and_back_is_the_same_program(path, label):
    text = path.read_text()
    there = from_house(text, target=label)
    assert print_module(read_module(to_house(there, source=label))) == text


@pytest.mark.parametrize(("dialect", "name"), [(d, n) for d, names in ENUMS.items() for n in sorted(names)])
def test_enum_attributes_have_two_spellings(dialect, name):
    house, dotted = (
        f'"t.a"() {{x = [#{dialect}<{name} v>]}} : () -> ()',
        f'"t.a"() {{x = [#{dialect}.{name}<v>]}} : () -> ()',
    )
    assert from_house(house, target=NEW) == dotted
    assert to_house(dotted, source=NEW) == house
    for label in (OLD, MIDDLE, BINDINGS):
        assert from_house(house, target=label) == house


@pytest.mark.parametrize(
    "attribute",
    [
        "#gpu.address_space<workgroup>",
        '#gpu.object<#nvvm.target, bin = "">',
        "#gpu.thread<x>",
        "#nvvm.mma_layout<row>",
        "#arith.overflow<nsw>",
        "#stablehlo<comparison_direction EQ>",
        "#enzymexla.uplo<L>",
        "#gpu.loop_dim_map<processor = block_x>",
    ],
)
def test_other_attributes_are_the_same_everywhere(attribute):
    text = f'"t.a"() {{x = {attribute}}} : () -> ()'
    assert from_house(text, target=NEW) == text
    assert to_house(text, source=NEW) == text


def test_strings_and_comments_are_left_alone():
    text = '"t.a"() {x = "#gpu<dim x> \\22gpu.barrier\\22", y = #gpu<dim x>} : () -> () // #gpu<dim y>\n'
    dotted = text.replace("y = #gpu<dim x>", "y = #gpu.dim<x>")
    assert from_house(text, target=NEW) == dotted
    assert to_house(dotted, source=NEW) == text
    comment = '// "gpu.barrier"() <{scope = #gpu.barrier_scope<workgroup>\n"t.a"() : () -> ()\n'
    assert to_house(comment, source=NEW) == comment


def test_barriers():
    plain = '"gpu.barrier"() : () -> ()'
    scoped = '"gpu.barrier"() <{scope = #gpu.barrier_scope<workgroup>}> : () -> ()'
    other = '"gpu.barrier"() <{scope = #gpu.barrier_scope<cluster>}> : () -> ()'
    assert to_house(scoped, source=NEW) == plain
    assert to_house(other, source=NEW) == other
    assert from_house(other, target=NEW) == other
    for label in (OLD, BINDINGS):
        assert from_house(plain, target=label) == plain
        with pytest.raises(SpellingError) as caught:
            from_house(other, target=label)
        assert caught.value.op == "gpu.barrier"


def test_launch_segments():
    house, new = LAUNCH.format(""), LAUNCH.format(", 0")
    assert from_house(house, target=NEW) == new
    assert to_house(new, source=NEW) == house
    assert from_house(house, target=MIDDLE) == house
    used = LAUNCH.format(", 1")
    assert to_house(used, source=NEW) == used
    with pytest.raises(SpellingError, match="twelfth operand segment"):
        from_house(used, target=BINDINGS)


def test_nvvm_barriers():
    house = '"nvvm.barrier"() <{operandSegmentSizes = array<i32: 0, 0, 0>}> : () -> ()'
    new = '"nvvm.barrier"() <{aligned = true, operandSegmentSizes = array<i32: 0, 0>}> : () -> ()'
    assert to_house(new, source=NEW) == house
    assert from_house(house, target=NEW) == new.replace("aligned = true, ", "")
    assert from_house(house, target=OLD) == house
    unaligned = to_house(new.replace("true", "false"), source=NEW)
    assert "aligned = false" in from_house(unaligned, target=MIDDLE)
    with pytest.raises(SpellingError, match="unaligned"):
        from_house(unaligned, target=BINDINGS)
    with pytest.raises(SpellingError, match="third operand segment"):
        from_house(house.replace("0, 0, 0", "0, 0, 1"), target=NEW)


def test_the_name_of_a_kernel_moves_behind_its_region():
    new = (
        '"gpu.func"() <{function_type = () -> (), kernel, sym_name = "f"}> ({\n  "t.a"() {s = "})"} : () -> ()\n'
        '  "gpu.return"() : () -> ()\n}) {a = 1 : i32} : () -> ()\n'
    )
    house = to_house(new, source=NEW)
    assert house == new.replace(', sym_name = "f"', "").replace("{a = 1 : i32}", '{a = 1 : i32, sym_name = "f"}')
    assert to_house(house, source=MIDDLE) == house


def test_hints_that_only_some_toolchains_print():
    load = '%0 = "memref.load"(%m) <{{invariant = {}, nontemporal = false}}> : (memref<f32>) -> f32'
    assert to_house(load.format("false"), source=NEW) == load.format("").replace("invariant = , ", "")
    assert to_house(load.format("true"), source=NEW) == load.format("true")
    assert from_house(load.format("true"), target=MIDDLE) == load.format("true")
    with pytest.raises(SpellingError, match="invariant"):
        from_house(load.format("true"), target=BINDINGS)
    tls = '"llvm.mlir.global"() <{{tls_mode = {} : i64}}> ({{\n}}) : () -> ()'
    assert to_house(tls.format(0), source=NEW) == '"llvm.mlir.global"() ({\n}) : () -> ()'
    assert from_house(tls.format(2), target=NEW) == tls.format(2)
    with pytest.raises(SpellingError, match="tls_mode"):
        from_house(tls.format(2), target=MIDDLE)


def test_index_constants_of_lowered_code_take_their_result_type():
    text = '%0 = "llvm.mlir.constant"() <{value = 5 : index}> : () -> i64'
    assert from_house(text, target=NEW) == text.replace("5 : index", "5 : i64")
    assert from_house(text, target=MIDDLE) == text


def test_alignment_of_masked_accesses():
    house = (
        '"llvm.intr.masked.store"(%v, %p, %m) <{alignment = 4 : i32}> : (vector<2xf32>, !llvm.ptr, vector<2xi1>) -> ()'
    )
    new = house.replace("i32}", "i64}")
    assert from_house(house, target=NEW) == new
    assert to_house(new, source=NEW) == house


@pytest.mark.parametrize(
    ("text", "label", "accepting"),
    [
        ('%0 = "index.constant"() <{value = 1 : index}> : () -> index', NEW, BINDINGS),
        ('"enzyme.atomic_rmw"(%v) : (f32) -> ()', OLD, MIDDLE),
        ('"enzymexla.temp_alloc"() : () -> ()', MIDDLE, NEW),
        ('"enzyme.load"(%c) <{static_sizes = array<i64: 4>}> : (memref<4xf32>) -> f32', OLD, MIDDLE),
        ('"enzyme.autodiff"() <{atomic_add = true}> : () -> ()', OLD, NEW),
    ],
)
def test_what_a_toolchain_does_not_have_is_refused(text, label, accepting):
    with pytest.raises(SpellingError) as caught:
        from_house(text, target=label)
    assert caught.value.op in text
    assert label in str(caught.value)
    assert from_house(text, target=accepting) == text


REGION = """"builtin.module"() ({
  "enzyme.autodiff_region"() <{activity = [#enzyme<activity enzyme_dup>], width = 1 : i64}> ({
    %0 = "enzymexla.gpu_wrapper"() ({
      "enzymexla.polygeist_yield"() : () -> ()
    }) {kept = "dtx."} : () -> index
    "enzymexla.alternatives"() ({
      "enzymexla.polygeist_yield"() : () -> ()
    }, {
      "enzymexla.polygeist_yield"() : () -> ()
    }) : () -> ()
    "enzymexla.barrier"() : () -> ()
    "enzyme.yield"() : () -> ()
  }) : () -> ()
}) : () -> ()
"""


def test_region_operations_travel_in_disguise_and_come_back():
    wrapped = wrap_for_bindings(REGION)
    assert '"enzymexla.barrier"' in wrapped
    for name in ("autodiff_region", "gpu_wrapper", "alternatives_2", "polygeist_yield", "yield"):
        assert f'"dtx.{name}"' in wrapped
        assert f"@{name} " in bindings_dialect()
    assert "dtx.activity = [#enzyme<activity enzyme_dup>]" in wrapped
    module = read_module(wrapped)
    assert not any(op.properties for op in module.walk() if op.name.startswith("dtx."))
    assert unwrap_from_bindings(wrapped) == REGION
    assert from_house(REGION, target=BINDINGS) == wrapped
    assert to_house(wrapped, source=BINDINGS) == REGION
    assert set(bindings_terminators()) == {"dtx.polygeist_yield", "dtx.yield"}


def test_a_region_operation_with_too_many_regions_is_refused():
    text = '"enzymexla.gpu_wrapper"() ({\n}, {\n}) : () -> ()'
    with pytest.raises(SpellingError, match="2 regions"):
        wrap_for_bindings(text)


def test_texts_without_region_operations_are_untouched():
    text = '"enzyme.yield"() : () -> ()'
    assert wrap_for_bindings(text) is text
    assert unwrap_from_bindings(text) is text

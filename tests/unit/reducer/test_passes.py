"""Each pass makes the edits it promises, and only those."""

import pytest

from difftest.errors import HarnessError
from difftest.model import InputSpec
from reducer import schedule
from reducer.trees import split_list

PARALLEL = """
%0 = "arith.constant"() <{value = 0 : index}> : () -> index
%4 = "arith.constant"() <{value = 4 : index}> : () -> index
%1 = "arith.constant"() <{value = 1 : index}> : () -> index
"scf.parallel"(%0, %0, %4, %4, %1, %1) <{operandSegmentSizes = array<i32: 2, 2, 2, 0>}> ({
^bb0(%i: index, %j: index):
  "test.use"(%i, %j) : (index, index) -> ()
  "scf.reduce"() : () -> ()
}) : (index, index, index, index, index, index) -> ()
"""
LOOP = """
%0 = "arith.constant"() <{value = 0 : index}> : () -> index
%9 = "arith.constant"() <{value = 9 : index}> : () -> index
%3 = "arith.constant"() <{value = 3 : index}> : () -> index
%f = "arith.constant"() <{value = 2.500000e+00 : f32}> : () -> f32
%r = "scf.for"(%0, %9, %3, %f) ({
^bb0(%i: index, %a: f32):
  %b = "arith.addf"(%a, %f) <{fastmath = #arith.fastmath<nnan, contract>}> : (f32, f32) -> f32
  "scf.yield"(%b) : (f32) -> ()
}) {tag = "x"} : (index, index, index, f32) -> f32
"test.use"(%r) : (f32) -> ()
"""


def contains(candidates, *pieces):
    return [c for c in candidates if all(piece in c.text for piece in pieces)]


def test_every_pass_is_scheduled_once():
    names = [name for tiers in (schedule.TREE, schedule.TEXT, schedule.PIPELINE) for tier in tiers for name in tier]
    assert sorted(names) == sorted(schedule.discover())


def test_a_pass_without_a_place_is_a_harness_fault(monkeypatch):
    monkeypatch.setattr(schedule, "TEXT", ())
    schedule.discover.cache_clear()
    with pytest.raises(HarnessError, match="text-lines"):
        schedule.discover()
    schedule.discover.cache_clear()


def test_every_proposal_of_every_tree_pass_prints_well(lab):
    for body in (PARALLEL, LOOP):
        for tier in schedule.TREE:
            for name in tier:
                for candidate in lab.proposals(name, lab.module(body, "%m: memref<?x4xf64>", "memref<?x4xf64>")):
                    assert "undef" not in candidate.text, (name, candidate.text)
                    assert lab.snapshot(candidate.text).candidate.text == candidate.text


def test_functions_go_with_their_calls(lab):
    text = lab.module('"func.call"() <{callee = @g}> : () -> ()').replace(
        "}) : () -> ()\n}) : () -> ()\n",
        '}) : () -> ()\n"func.func"() <{function_type = () -> (), sym_name = "g"}> ({\n'
        '"func.return"() : () -> ()\n}) : () -> ()\n}) : () -> ()\n',
    )
    (only,) = lab.proposals("functions", text, entry="f")
    assert lab.names(only) == ["func.func", "func.return"]
    assert len(lab.proposals("functions", text)) == 2
    (without,) = lab.proposals("entry", text, entry="f")
    assert (lab.names(without), without.entry) == (["func.func", "func.return"], "")
    assert lab.proposals("entry", text) == []
    assert lab.proposals("entry", only.text, entry="f") == []


def test_erase_offers_everything_but_terminators_and_functions(lab):
    everything = lab.proposals("erase", lab.module(PARALLEL))
    assert len(everything) == 5
    assert [len(lab.names(c)) for c in lab.proposals("erase-outer", lab.module(PARALLEL))] == [5, 4, 4, 4]


def test_unused_finds_chains_at_once(lab):
    text = lab.module(
        """%a = "test.a"() : () -> i32
        %b = "test.b"(%a) : (i32) -> i32
        %c = "test.c"(%b) : (i32) -> i32"""
    )
    snapshot = lab.snapshot(text)
    assert len(schedule.discover()["unused"].propose(snapshot)) == 3


def test_a_loop_is_unwrapped_at_its_lower_bound(lab):
    (only,) = lab.proposals("unwrap", lab.module(LOOP))
    assert lab.names(only)[-3:] == ["arith.addf", "test.use", "func.return"]
    (flat,) = lab.proposals("unwrap", lab.module(PARALLEL))
    assert '"test.use"(%0, %0)' in flat.text


def test_affine_loops_reductions_and_launches_are_unwrapped(lab):
    affine = """%f = "test.f"() : () -> f32
    %r = "affine.for"(%f) <{lowerBoundMap = affine_map<() -> (3)>, operandSegmentSizes = array<i32: 0, 0, 1>,
      step = 2 : index, upperBoundMap = affine_map<() -> (9)>}> ({
    ^bb0(%i: index, %a: f32):
      "affine.yield"(%a) : (f32) -> ()
    }) : (f32) -> f32
    "test.use"(%r) : (f32) -> ()"""
    (only,) = lab.proposals("unwrap", lab.module(affine))
    assert "value = 3 : index" in only.text
    assert '"test.use"(%1) : (f32) -> ()' in only.text
    reduction = """%z = "test.z"() : () -> index
    %f = "test.f"() : () -> f32
    %r = "scf.parallel"(%z, %z, %z, %f) <{operandSegmentSizes = array<i32: 1, 1, 1, 1>}> ({
    ^bb0(%i: index):
      "scf.reduce"(%f) ({
      ^bb0(%x: f32, %y: f32):
        "scf.reduce.return"(%x) : (f32) -> ()
      }) : (f32) -> ()
    }) : (index, index, index, f32) -> f32
    "test.use"(%r) : (f32) -> ()"""
    flat = lab.proposals("unwrap", lab.module(reduction))[0]
    assert '"test.use"(%1) : (f32) -> ()' in flat.text
    (kept,) = lab.proposals("carried", lab.module(reduction))
    assert '"scf.reduce"() : () -> ()' in kept.text
    assert "operandSegmentSizes = array<i32: 1, 1, 1, 0>" in kept.text
    launch = """%n = "test.n"() : () -> index
    "gpu.launch"(%n, %n, %n, %n, %n, %n) <{operandSegmentSizes = array<i32: 0, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0>}> ({
    ^bb0(%a: index, %b: index, %c: index, %d: index, %e: index, %f: index,
         %g: index, %h: index, %i: index, %j: index, %k: index, %l: index):
      "test.use"(%a, %g) : (index, index) -> ()
      "gpu.terminator"() : () -> ()
    }) : (index, index, index, index, index, index) -> ()"""
    (inside,) = lab.proposals("unwrap", lab.module(launch))
    assert '"test.use"(%0, %1) : (index, index) -> ()' in inside.text
    assert "value = 0 : index" in inside.text


def test_a_while_loop_runs_its_condition_once(lab):
    body = """%i = "test.i"() : () -> i32
    %r = "scf.while"(%i) ({
    ^bb0(%a: i32):
      %c = "test.c"(%a) : (i32) -> i1
      "scf.condition"(%c, %a) : (i1, i32) -> ()
    }, {
    ^bb0(%b: i32):
      "scf.yield"(%b) : (i32) -> ()
    }) : (i32) -> i32
    "test.use"(%r) : (i32) -> ()"""
    before, after = lab.proposals("unwrap", lab.module(body))
    assert lab.names(before) == ["func.func", "test.i", "test.c", "test.use", "func.return"]
    assert lab.names(after) == ["func.func", "test.i", "test.use", "func.return"]


def test_users_of_an_unwrapped_result_that_has_no_zero_go(lab):
    body = """%t = "gpu.launch"() ({
      "test.inside"() : () -> ()
    }) : () -> !gpu.async.token
    "gpu.wait"(%t) : (!gpu.async.token) -> ()"""
    (only,) = lab.proposals("unwrap", lab.module(body))
    assert lab.names(only) == ["func.func", "test.inside", "func.return"]


def test_both_sides_of_a_branch_are_offered(lab):
    body = """%c = "test.c"() : () -> i1
    %r = "scf.if"(%c) ({
      %x = "test.then"() : () -> i32
      "scf.yield"(%x) : (i32) -> ()
    }, {
      %y = "test.else"() : () -> i32
      "scf.yield"(%y) : (i32) -> ()
    }) : (i1) -> i32
    "test.use"(%r) : (i32) -> ()"""
    then, other = lab.proposals("unwrap", lab.module(body))
    assert "test.then" in then.text
    assert "test.else" not in then.text
    assert "test.else" in other.text
    (dropped,) = lab.proposals("branch-results", lab.module(body))
    assert '"scf.yield"() : () -> ()' in dropped.text


def test_an_autodiff_region_is_unwrapped_onto_its_primals(lab):
    body = """%a = "test.a"() : () -> f32
    %b = "test.b"() : () -> f32
    "enzyme.autodiff_region"(%a, %b, %a) <{activity = [#enzyme<activity enzyme_dup>, #enzyme<activity enzyme_const>],
      ret_activity = []}> ({
    ^bb0(%x: f32, %y: f32):
      "test.use"(%x, %y) : (f32, f32) -> ()
      "enzyme.yield"() : () -> ()
    }) : (f32, f32, f32) -> ()"""
    (only,) = lab.proposals("unwrap", lab.module(body))
    assert '"test.use"(%0, %0)' in only.text
    last, first = lab.proposals("region-inputs", lab.module(body))
    assert "activity = [#enzyme<activity enzyme_dup>]" in last.text
    assert "activity = [#enzyme<activity enzyme_const>]" in first.text
    assert '"enzyme.autodiff_region"(%0)' in first.text


def test_a_dimension_goes_with_its_bounds(lab):
    last, first = lab.proposals("dimensions", lab.module(PARALLEL))
    for candidate in (last, first):
        assert '"scf.parallel"(%0, %1, %2) <{operandSegmentSizes = array<i32: 1, 1, 1, 0>}>' in candidate.text
    assert '"test.use"(%arg0, %0)' in last.text
    assert '"test.use"(%0, %arg0)' in first.text


def test_an_affine_dimension_goes_with_its_maps(lab):
    body = """"affine.parallel"() <{lowerBoundsGroups = dense<1> : tensor<2xi32>,
      lowerBoundsMap = affine_map<() -> (0, 0)>, reductions = [], steps = [1, 2],
      upperBoundsGroups = dense<1> : tensor<2xi32>,
      upperBoundsMap = affine_map<() -> (4, 5)>}> ({
    ^bb0(%i: index, %j: index):
      "test.use"(%j) : (index) -> ()
      "affine.yield"() : () -> ()
    }) : () -> ()"""
    last, first = lab.proposals("dimensions", lab.module(body))
    assert "affine_map<() -> (4)>" in last.text
    assert "steps = [1]" in last.text
    assert "affine_map<() -> (5)>" in first.text
    assert "dense<1> : tensor<1xi32>" in first.text


def test_a_carried_value_goes_everywhere(lab):
    (only,) = lab.proposals("carried", lab.module(LOOP))
    assert '"scf.yield"() : () -> ()' in only.text
    assert '"arith.addf"(%3, %3)' in only.text
    assert '"test.use"(%3)' in only.text


def test_bounds_move_toward_one_run(lab):
    found = lab.proposals("bounds", lab.module(LOOP))
    assert contains(found, '"scf.for"(%0, %1, %1,', "value = 1 : index")
    assert contains(found, "value = 2 : index")
    assert lab.proposals("bounds", lab.module(PARALLEL.replace("value = 4", "value = 1"))) == []


def test_affine_bounds_move_toward_one_run(lab):
    body = """%n = "test.n"() : () -> index
    "affine.for"(%n) <{lowerBoundMap = affine_map<() -> (3)>, operandSegmentSizes = array<i32: 0, 1, 0>,
      step = 2 : index, upperBoundMap = affine_map<()[s0] -> (s0)>}> ({
    ^bb0(%i: index):
      "affine.yield"() : () -> ()
    }) : (index) -> ()"""
    first = lab.proposals("bounds", lab.module(body))[0]
    assert "operandSegmentSizes = array<i32: 0, 0, 0>" in first.text
    assert "lowerBoundMap = affine_map<() -> (0)>" in first.text
    assert "upperBoundMap = affine_map<() -> (1)>" in first.text
    assert "step = 1 : index" in first.text


def test_bounds_of_affine_parallel_move_one_by_one(lab):
    body = """%n = "test.n"() : () -> index
    "affine.parallel"(%n) <{lowerBoundsGroups = dense<1> : tensor<2xi32>, lowerBoundsMap = affine_map<() -> (0, 3)>,
      reductions = [], steps = [1, 2], upperBoundsGroups = dense<1> : tensor<2xi32>,
      upperBoundsMap = affine_map<()[s0] -> (s0, 5)>}> ({
    ^bb0(%i: index, %j: index):
      "affine.yield"() : () -> ()
    }) : (index) -> ()"""
    found = lab.proposals("bounds", lab.module(body))
    assert len(found) == 6
    assert contains(found, "lowerBoundsMap = affine_map<() -> (0, 0)>")
    assert contains(found, "steps = [1, 1]")
    assert contains(found, "upperBoundsMap = affine_map<()[s0] -> (1, 5)>")
    assert contains(found, "upperBoundsMap = affine_map<()[s0] -> (s0, 2)>")


def test_affine_maps_and_sets_lose_their_operands(lab):
    body = """%n = "test.n"() : () -> index
    %v = "affine.load"(%m, %n, %n) <{map = affine_map<(d0)[s0] -> (d0 + s0)>}> : (memref<4xf32>, index, index) -> f32
    "affine.if"(%n) <{condition = affine_set<(d0) : (d0 - 1 >= 0)>}> ({
      "affine.yield"() : () -> ()
    }, {
    }) : (index) -> ()"""
    load, holds, fails = lab.proposals("maps", lab.module(body, "%m: memref<4xf32>", "memref<4xf32>"))
    assert '"affine.load"(%arg0) <{map = affine_map<() -> (0)>}> : (memref<4xf32>) -> f32' in load.text
    assert '"affine.if"() <{condition = affine_set<() : (0 == 0)>}>' in holds.text
    assert '"affine.if"() <{condition = affine_set<() : (1 == 0)>}>' in fails.text
    assert lab.proposals("maps", load.text) == lab.proposals("maps", load.text)[-2:]


def test_active_inputs_of_a_region_become_constant_and_lose_their_gradient(lab):
    body = """%a = "test.a"() : () -> f32
    %g:2 = "enzyme.autodiff_region"(%a, %a, %a, %a) <{activity = [#enzyme<activity enzyme_active>,
      #enzyme<activity enzyme_dup>], ret_activity = [#enzyme<activity enzyme_active>]}> ({
    ^bb0(%x: f32, %y: f32):
      "enzyme.yield"(%x) : (f32) -> ()
    }) : (f32, f32, f32, f32) -> (f32, f32)
    "test.use"(%g#0, %g#1) : (f32, f32) -> ()"""
    duplicated, active = lab.proposals("activities", lab.module(body))
    assert "activity = [#enzyme<activity enzyme_active>, #enzyme<activity enzyme_const>]" in duplicated.text
    assert '"enzyme.autodiff_region"(%0, %0, %0)' in duplicated.text
    assert "activity = [#enzyme<activity enzyme_const>, #enzyme<activity enzyme_dup>]" in active.text
    assert '"test.use"(%2, %0)' in active.text
    last, first = lab.proposals("region-inputs", lab.module(body))
    assert '"enzyme.autodiff_region"(%0, %0)' in last.text
    assert '"enzyme.yield"(%1)' in first.text


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("9 : i32", ["0 : i32", "1 : i32", "2 : i32", "4 : i32"]),
        ("1 : i32", ["0 : i32"]),
        ("0 : i32", []),
        ("-1 : i8", ["0 : i8", "1 : i8"]),
        ("2.500000e+00 : f32", ["0.000000e+00 : f32", "1.000000e+00 : f32"]),
        ("1.000000e+00 : f32", ["0.000000e+00 : f32"]),
        ("0.000000e+00 : f32", []),
        ("dense<3> : vector<4xi8>", ["dense<0> : vector<4xi8>"]),
        ("dense<0> : vector<4xi8>", []),
        ("true", []),
    ],
)
def test_constants_move_toward_zero(lab, before, after):
    body = f'%c = "arith.constant"() <{{value = {before}}}> : () -> i32'
    found = lab.proposals("constants", lab.module(body))
    assert len(found) == len(after)
    assert all(f"value = {text}}}" in c.text for text, c in zip(after, found, strict=True))


def test_types_change_over_the_whole_module(lab):
    body = """%c = "arith.constant"() <{value = 1.000000e+00 : f64}> : () -> f64
    "memref.store"(%c, %m) : (f64, memref<f64>) -> ()"""
    found = lab.proposals("types", lab.module(body, "%m: memref<f64>", "memref<f64>"))
    narrow = contains(found, "f32")
    assert len(narrow) == 1
    assert "f64" not in narrow[0].text
    assert "function_type = (memref<f32>) -> ()" in narrow[0].text


def test_shapes_shrink_and_become_static(lab):
    kind = "memref<?x9xf32, strided<[9, 1]>>"
    found = lab.proposals("types", lab.module("", f"%m: {kind}", kind))
    shapes = {c.text.partition("memref<")[2].partition("xf32")[0] for c in contains(found, "memref")}
    assert {"1x9", "2x9", "?x1", "?x2"} <= shapes


def test_an_axis_goes_with_its_indices_and_sizes(lab):
    body = """%n = "test.n"() : () -> index
    %i = "test.i"() : () -> index
    %a = "memref.alloc"(%n) <{operandSegmentSizes = array<i32: 1, 0>}> : (index) -> memref<4x?xf32>
    %v = "memref.load"(%a, %i, %n) : (memref<4x?xf32>, index, index) -> f32
    "memref.store"(%v, %m, %i, %n) : (f32, memref<4x?xf32>, index, index) -> ()"""
    text = lab.module(body, "%m: memref<4x?xf32>", "memref<4x?xf32>")
    first, last = lab.proposals("ranks", text, inputs=InputSpec(shapes={0: (4, 7)}), entry="f")
    assert '"memref.store"(%3, %arg0, %0) : (f32, memref<?xf32>, index)' in first.text
    assert first.inputs.shapes == {0: (7,)}
    assert '"memref.load"(%2, %1) : (memref<4xf32>, index)' in last.text
    assert '"memref.alloc"() <{operandSegmentSizes = array<i32: 0, 0>}> : () -> memref<4xf32>' in last.text
    assert last.inputs.shapes == {0: (4,)}
    assert "function_type = (memref<4xf32>) -> ()" in last.text


def test_an_affine_access_loses_a_result_of_its_map(lab):
    body = """%v = "affine.load"(%m, %x, %y) <{map = affine_map<(d0, d1) -> (d0, d1 + 1)>}>
      : (memref<4x5xf32>, index, index) -> f32"""
    text = lab.module(body, "%m: memref<4x5xf32>, %x: index, %y: index", "memref<4x5xf32>, index, index")
    first, _ = lab.proposals("ranks", text)
    assert "map = affine_map<(d0, d1) -> (d1 + 1)>" in first.text
    assert "memref<5xf32>" in first.text


def test_a_static_shape_needs_no_size(lab):
    body = """%n = "test.n"() : () -> index
    %a = "memref.alloc"(%n) <{operandSegmentSizes = array<i32: 1, 0>}> : (index) -> memref<?xf32>"""
    found = lab.proposals("types", lab.module(body))
    assert contains(found, '"memref.alloc"() <{operandSegmentSizes = array<i32: 0, 0>}> : () -> memref<1xf32>')


def test_attributes_and_flags_go(lab):
    found = lab.proposals("attributes", lab.module(LOOP))
    assert len(found) == len(contains(found, "scf.for"))
    assert [c for c in found if "tag" not in c.text]
    (only,) = lab.proposals("flags", lab.module(LOOP))
    assert "fastmath = #arith.fastmath<none>" in only.text


def test_unused_arguments_go_with_their_inputs(lab):
    body = '"test.use"(%b) : (i64) -> ()'
    text = lab.module(body, "%a: index, %b: i64, %m: memref<?xf32>", "index, i64, memref<?xf32>")
    inputs = InputSpec(scalars={0: 3, 1: 4}, shapes={2: (5,)})
    last, first = lab.proposals("arguments", text, inputs=inputs, entry="f")
    assert "function_type = (index, i64) -> ()" in last.text
    assert (last.inputs.scalars, last.inputs.shapes) == ({0: 3, 1: 4}, {})
    assert "function_type = (i64, memref<?xf32>) -> ()" in first.text
    assert (first.inputs.scalars, first.inputs.shapes) == ({0: 4}, {1: (5,)})


def test_arguments_and_results_go_at_callers_too(lab):
    text = """"builtin.module"() ({
    "func.func"() <{arg_attrs = [{test.a}, {test.b}], function_type = (i32, i32) -> i32, sym_name = "g"}> ({
    ^bb0(%x: i32, %y: i32):
      "func.return"(%y) : (i32) -> ()
    }) : () -> ()
    "func.func"() <{function_type = (i32) -> (), sym_name = "f"}> ({
    ^bb0(%x: i32):
      %r = "func.call"(%x, %x) <{callee = @g}> : (i32, i32) -> i32
      "test.use"(%r) : (i32) -> ()
      "func.return"() : () -> ()
    }) : () -> ()
    }) : () -> ()"""
    (only,) = lab.proposals("arguments", text)
    assert '"func.call"(%arg0) <{callee = @g}> : (i32) -> i32' in only.text
    assert "arg_attrs = [{test.b}]" in only.text
    (result,) = lab.proposals("results", text)
    assert '"func.call"(%arg0, %arg0) <{callee = @g}> : (i32, i32) -> ()' in result.text
    assert "function_type = (i32, i32) -> ()" in result.text


def test_operands_become_constants_and_first_values(lab):
    body = """%a = "test.a"() : () -> index
    %b = "test.b"() : () -> index
    "test.use"(%b) : (index) -> ()"""
    zero, one = lab.proposals("operands-to-constants", lab.module(body))
    assert "value = 0 : index" in zero.text
    assert "value = 1 : index" in one.text
    (first,) = lab.proposals("operands-to-first", lab.module(body))
    assert '"test.use"(%0)' in first.text


def test_results_become_earlier_values_or_constants(lab):
    body = """%a = "test.a"() : () -> index
    %b = "test.b"(%a) : (index) -> index
    "test.use"(%b) : (index) -> ()"""
    (value,) = lab.proposals("substitute-values", lab.module(body))
    assert lab.names(value) == ["func.func", "test.a", "test.use", "func.return"]
    assert len(lab.proposals("substitute-constants", lab.module(body))) == 4
    induction = lab.proposals("substitute-arguments", lab.module(PARALLEL))
    assert contains(induction, '"test.use"(%0, %arg1)')
    assert contains(induction, '"test.use"(%arg0, %0)')


def test_branches_are_taken_and_blocks_merged(lab):
    body = """%c = "test.c"() : () -> i1
    "cf.cond_br"(%c)[^bb1, ^bb2] <{operandSegmentSizes = array<i32: 1, 0, 0>}> : (i1) -> ()
    ^bb1:
    "test.left"() : () -> ()
    "cf.br"()[^bb3] : () -> ()
    ^bb2:
    "test.right"() : () -> ()
    "cf.br"()[^bb3] : () -> ()
    ^bb3:"""
    left, right = lab.proposals("branches", lab.module(body))
    assert "test.right" not in left.text
    assert "test.left" not in right.text
    merged = lab.proposals("branches", left.text)
    assert [c.text.count("^bb") for c in merged] == [2, 2]


def test_inputs_shrink(lab):
    inputs = InputSpec(scalars={0: 7}, shapes={1: (8,)})
    text = lab.module("", "%a: index, %m: memref<?xf32>", "index, memref<?xf32>")
    found = lab.proposals("inputs", text, inputs=inputs, entry="f")
    assert [c.inputs.scalars.get(0) for c in found if c.inputs.shapes == {1: (8,)}] == [None, 0, 1, 2, 3]
    assert [c.inputs.shapes.get(1) for c in found if c.inputs.scalars == {0: 7}] == [None, (1,), (2,), (4,)]


def test_lists_split_at_top_level_only():
    assert split_list('(a, b) -> c, memref<2xf32, 1 : i32>, "x,\\",y", {k = [1, 2]}') == [
        "(a, b) -> c",
        "memref<2xf32, 1 : i32>",
        '"x,\\",y"',
        "{k = [1, 2]}",
    ]
    assert split_list("") == []

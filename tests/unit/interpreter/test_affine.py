"""affine ops, run through the interpreter on programs as toolchains print them."""

import itertools

import numpy as np
import pytest

from difftest.interpreter import interpret
from difftest.interpreter.affine_code import compile_expressions
from difftest.ir.affine import evaluate
from difftest.ir.attributes import parse_affine_map
from difftest.ir.reader import read_module
from difftest.model import Mode, OutcomeKind, Schedule


def program(body, arguments, results="", aliases=""):
    inputs = ", ".join(t for _, t in arguments)
    header = ", ".join(f"%{n}: {t}" for n, t in arguments)
    return read_module(
        f"""{aliases}
        "builtin.module"() ({{
          "func.func"() <{{function_type = ({inputs}) -> ({results}), sym_name = "f"}}> ({{
          ^bb0({header}):
            {body}
          }}) : () -> ()
        }}) : () -> ()"""
    )


def run(body, arguments, values, results="", aliases="", **options):
    return interpret(program(body, arguments, results, aliases), entry="f", arguments=values, **options)


def scalars(outcome):
    assert outcome.kind is OutcomeKind.OK, outcome.fault
    return [o.data[()].item() for o in outcome.observed]


RETURN = '"func.return"() : () -> ()'


def index_op(text, count, values, **options):
    """Run one op on index arguments %a %b %c and return its results."""
    names = ", ".join(f"%r#{i}" for i in range(count))
    types = ", ".join(["index"] * count)
    body = f'%r:{count} = {text} "func.return"({names}) : ({types}) -> ()'
    arguments = [(n, "index") for n, _ in zip("abc", values, strict=False)]
    return run(body, arguments, values, results=types, **options)


@pytest.mark.parametrize(("a", "b"), [(7, 2), (-7, 2), (-8, 4), (0, 5), (-1, 3), (13, 5)])
def test_division_and_mod_follow_floor_and_ceiling(a, b):
    for kind, expected in (("floordiv", a // b), ("ceildiv", -((-a) // b)), ("mod", a % b)):
        literal = f'"affine.apply"(%a) <{{map = affine_map<(d0) -> (d0 {kind} {b})>}}> : (index) -> index'
        assert scalars(index_op(literal, 1, [a])) == [expected]
        symbolic = (
            f'"affine.apply"(%a, %b) <{{map = affine_map<(d0)[s0] -> (d0 {kind} s0)>}}> : (index, index) -> index'
        )
        assert scalars(index_op(symbolic, 1, [a, b])) == [expected]


def test_min_and_max_are_signed():
    for name, expected in (("min", -5), ("max", 31)):
        text = f'"affine.{name}"(%a, %b) <{{map = affine_map<(d0)[s0] -> (d0, s0 + 1, 31)>}}> : (index, index) -> index'
        assert scalars(index_op(text, 1, [-5, 7])) == [expected]


def test_divisors_must_be_positive():
    text = '"affine.apply"(%a, %b) <{map = affine_map<(d0)[s0] -> (d0 mod s0)>}> : (index, index) -> index'
    for divisor in (0, -2):
        outcome = index_op(text, 1, [5, divisor])
        assert outcome.kind is OutcomeKind.UB
        assert outcome.fault.rule == "affine-divisor"
    literal = '"affine.apply"(%a) <{map = affine_map<(d0) -> (d0 mod 0)>}> : (index) -> index'
    assert index_op(literal, 1, [5]).kind is OutcomeKind.UNSUPPORTED
    nested = (
        '"affine.apply"(%a, %b) <{map = affine_map<(d0)[s0] -> (d0 mod (7 floordiv s0))>}> : (index, index) -> index'
    )
    assert index_op(nested, 1, [5, 0]).fault.rule == "affine-divisor"


def test_overflow_is_undefined_and_wide_values_break_the_index_promise():
    text = '"affine.apply"(%a, %b) <{map = affine_map<(d0)[s0] -> (d0 * s0)>}> : (index, index) -> index'
    assert index_op(text, 1, [1 << 40, 1 << 40]).fault.rule == "affine-overflow"
    assert index_op(text, 1, [1 << 40, 1 << 40], mode=Mode.INTERMEDIATE).fault.rule == "affine-overflow"
    assert index_op(text, 1, [1 << 20, 1 << 20]).fault.rule == "index-width"
    assert scalars(index_op(text, 1, [1 << 20, 1 << 20], mode=Mode.INTERMEDIATE)) == [1 << 40]


LANES = """
"affine.parallel"() <{lowerBoundsGroups = dense<1> : tensor<1xi32>, lowerBoundsMap = affine_map<() -> (0)>,
  reductions = [], steps = [1], upperBoundsGroups = dense<1> : tensor<1xi32>,
  upperBoundsMap = affine_map<() -> (64)>}> ({
^bb0(%i: index):
  %x = "memref.load"(%in, %i) : (memref<64xindex>, index) -> index
  %r = "affine.apply"(%x, %n) <{map = MAP}> : (index, index) -> index
  "memref.store"(%r, %out, %i) : (index, memref<64xindex>, index) -> ()
  "affine.yield"() : () -> ()
}) : () -> ()
"func.return"() : () -> ()"""


def lanes(mapping, inputs, symbol, **options):
    arguments = [("in", "memref<64xindex>"), ("out", "memref<64xindex>"), ("n", "index")]
    values = [np.resize(np.array(inputs, np.int64), 64), np.zeros(64, np.int64), symbol]
    return run(LANES.replace("MAP", mapping), arguments, values, **options)


def test_lanes_agree_with_plain_integers():
    mapping = "affine_map<(d0)[s0] -> (d0 * 3 + (d0 mod 5) * s0 - (d0 floordiv s0) + (d0 ceildiv 4) - 7)>"
    inputs = list(range(-32, 32))
    found = lanes(mapping, inputs, 6).observed[1].data
    expected = [d * 3 + (d % 5) * 6 - d // 6 + -(-d // 4) - 7 for d in inputs]
    assert found.tolist() == expected


def test_lanes_overflow_where_a_partial_product_does():
    product = "affine_map<(d0)[s0] -> (d0 * s0 - d0 * s0)>"
    outcome = lanes(product, [1, 1 << 33], 1 << 31, mode=Mode.INTERMEDIATE)
    assert outcome.fault.rule == "affine-overflow"
    assert outcome.fault.iteration == (1,)
    assert lanes(product, [1, 1 << 30], 1 << 31, mode=Mode.INTERMEDIATE).kind is OutcomeKind.OK
    outcome = lanes("affine_map<(d0)[s0] -> (d0 * s0)>", [1, 1 << 30], 4)
    assert outcome.fault.rule == "index-width"


def test_compiled_expressions_equal_the_evaluator():
    texts = [
        "affine_map<(d0, d1)[s0] -> (d0 * 2 - d1 + s0, (d0 + 3) mod 7, -d1 ceildiv 3, d0 floordiv 2 + d1 * s0, 9)>",
        "affine_map<(d0, d1)[s0] -> (-(-d0), (d0 mod 4) * (s0 - 2), d1 - s0 * 3)>",
        f"affine_map<(d0, d1)[s0] -> ({' + '.join(['d0 * 2'] * 90)})>",
    ]
    points = [np.array([-9, -1, 0, 4, 11]), 5, -6]
    for text in texts:
        parsed = parse_affine_map(text)
        compiled = compile_expressions(parsed.results, parsed.dims, parsed.symbols)
        for values in itertools.permutations(points):
            found = compiled.run(*values)
            for expression, result in zip(parsed.results, found, strict=True):
                assert np.array_equal(result, evaluate(expression, values[:2], values[2:]))


def test_loops_take_the_greatest_lower_and_least_upper_bound():
    body = """
    %zero = "arith.constant"() <{value = 0 : i32}> : () -> i32
    %one = "arith.constant"() <{value = 1 : i32}> : () -> i32
    %s = "affine.for"(%a, %b, %a, %zero) <{lowerBoundMap = affine_map<(d0)[s0] -> (0, d0 - s0)>,
      operandSegmentSizes = array<i32: 2, 1, 1>, step = 2 : index, upperBoundMap = affine_map<(d0) -> (d0, 8)>}> ({
    ^bb0(%i: index, %c: i32):
      %n = "arith.addi"(%c, %one) : (i32, i32) -> i32
      "affine.yield"(%n) : (i32) -> ()
    }) : (index, index, index, i32) -> i32
    "func.return"(%s) : (i32) -> ()"""
    for a, b in [(10, 5), (3, 5), (0, 0), (-4, 2), (20, 1), (8, 8)]:
        found = scalars(run(body, [("a", "index"), ("b", "index")], [a, b], results="i32"))
        assert found == [len(range(max(0, a - b), min(a, 8), 2))]


def test_conditions_are_conjunctions_per_lane():
    body = """
    "affine.parallel"() <{lowerBoundsGroups = dense<1> : tensor<1xi32>, lowerBoundsMap = affine_map<() -> (0)>,
      reductions = [], steps = [1], upperBoundsGroups = dense<1> : tensor<1xi32>,
      upperBoundsMap = affine_map<() -> (8)>}> ({
    ^bb0(%i: index):
      %t = "arith.constant"() <{value = 1 : i32}> : () -> i32
      %e = "arith.constant"() <{value = 2 : i32}> : () -> i32
      %r = "affine.if"(%i, %n) <{condition = affine_set<(d0)[s0] : (d0 - 2 >= 0, s0 - d0 >= 0, d0 mod 2 == 0)>}> ({
        "affine.yield"(%t) : (i32) -> ()
      }, {
        "affine.yield"(%e) : (i32) -> ()
      }) : (index, index) -> i32
      "affine.store"(%r, %m, %i) <{map = affine_map<(d0) -> (d0)>}> : (i32, memref<8xi32>, index) -> ()
      "affine.if"(%i) <{condition = affine_set<(d0) : (d0 - 7 == 0)>}> ({
        "affine.store"(%t, %m, %i) <{map = affine_map<(d0) -> (-d0 + 7)>}> : (i32, memref<8xi32>, index) -> ()
        "affine.yield"() : () -> ()
      }, {
      }) : (index) -> ()
      "affine.yield"() : () -> ()
    }) : () -> ()
    "func.return"() : () -> ()"""
    outcome = run(body, [("m", "memref<8xi32>"), ("n", "index")], [np.zeros(8, np.int32), 5])
    assert outcome.kind is OutcomeKind.RACE  # lane 7 writes lane 0's cell
    alone = body.replace("-d0 + 7", "d0")
    for schedule in Schedule:
        outcome = run(alone, [("m", "memref<8xi32>"), ("n", "index")], [np.zeros(8, np.int32), 5], schedule=schedule)
        expected = [1 if 2 <= i <= 5 and i % 2 == 0 else 2 for i in range(7)]
        assert outcome.observed[0].data.tolist() == [*expected, 1]


def test_accesses_outside_a_dimension_are_reported():
    body = """
    %v = "affine.load"(%m, %a) <{map = affine_map<(d0) -> (d0 floordiv 4, d0 mod 4)>}> : (memref<2x4xi32>, index) -> i32
    "func.return"(%v) : (i32) -> ()"""
    arguments = [("m", "memref<2x4xi32>"), ("a", "index")]
    data = np.arange(8, dtype=np.int32).reshape(2, 4)
    for place in range(8):
        assert run(body, arguments, [data, place], results="i32").observed[1].data == place
    for place in (8, -1):
        assert run(body, arguments, [data, place], results="i32").fault.rule == "out-of-bounds"


def parallel_sum(kind, dtype, values, count, mapping="affine_map<(d0) -> (d0)>"):
    body = f"""
    %r = "affine.parallel"(%n) <{{lowerBoundsGroups = dense<1> : tensor<1xi32>, lowerBoundsMap = affine_map<() -> (0)>,
      reductions = [{kind}], steps = [1], upperBoundsGroups = dense<1> : tensor<1xi32>,
      upperBoundsMap = {mapping}}}> ({{
    ^bb0(%i: index):
      %x = "affine.load"(%m, %i) <{{map = affine_map<(d0) -> (d0)>}}> : (memref<?x{dtype}>, index) -> {dtype}
      "affine.yield"(%x) : ({dtype}) -> ()
    }}) : (index) -> {dtype}
    "func.return"(%r) : ({dtype}) -> ()"""
    return run(body, [("m", f"memref<?x{dtype}>"), ("n", "index")], [values, count], results=dtype)


def test_reductions_start_from_the_identity_of_their_kind():
    floats, ints = np.array([1.5, -2.0, 4.0], np.float32), np.array([6, 3, -5], np.int32)
    cases = [
        (0, "f32", floats, 3.5, 0.0),
        (12, "f32", floats, -12.0, 1.0),
        (4, "f32", floats, 4.0, -np.inf),
        (8, "f32", floats, -2.0, np.inf),
        (1, "i32", ints, 4, 0),
        (13, "i32", ints, -90, 1),
        (2, "i32", ints, 6 & 3 & -5, -1),
        (14, "i32", ints, 6 | 3 | -5, 0),
        (6, "i32", ints, 6, -(1 << 31)),
        (10, "i32", ints, -5, (1 << 31) - 1),
        (7, "i32", ints, -5, 0),
        (11, "i32", ints, 3, -1),
    ]
    for kind, dtype, values, folded, identity in cases:
        assert parallel_sum(kind, dtype, values, 3).observed[1].data == folded
        assert parallel_sum(kind, dtype, values, 0).observed[1].data == identity
        assert parallel_sum(kind, dtype, values, 1).observed[1].data == values[0]


def test_kinds_that_no_verifier_accepts_are_unsupported():
    for kind, dtype in ((3, "f32"), (5, "f32"), (6, "f32"), (10, "f32"), (15, "i32"), (0, "i32"), (1, "f32")):
        values = np.zeros(2, np.float32 if dtype == "f32" else np.int32)
        assert parallel_sum(kind, dtype, values, 2).kind is OutcomeKind.UNSUPPORTED


def test_inexact_sums_carry_a_bound():
    values = np.array([1e8, 1.0, -1e8, 0.3], np.float32)
    observed = parallel_sum(0, "f32", values, 4).observed[1]
    assert observed.bound is not None
    assert observed.bound > 1
    exact = parallel_sum(0, "f32", np.array([1.5, 2.0], np.float32), 2).observed[1]
    assert exact.bound is None


def test_parallel_dimensions_have_grouped_bounds_and_steps():
    body = """
    "affine.parallel"(%n, %n) <{lowerBoundsGroups = dense<[1, 2]> : tensor<2xi32>,
      lowerBoundsMap = affine_map<(d0) -> (1, 0, d0 - 4)>, reductions = [], steps = [3, 2],
      upperBoundsGroups = dense<[1, 2]> : tensor<2xi32>, upperBoundsMap = affine_map<()[s0] -> (8, 6, s0)>}> ({
    ^bb0(%i: index, %j: index):
      %one = "arith.constant"() <{value = 1 : i32}> : () -> i32
      "affine.store"(%one, %m, %i, %j) <{map = affine_map<(d0, d1) -> (d0, d1)>}>
        : (i32, memref<8x8xi32>, index, index) -> ()
      "affine.yield"() : () -> ()
    }) : (index, index) -> ()
    "func.return"() : () -> ()"""
    for n in (0, 3, 5, 9):
        expected = np.zeros((8, 8), np.int32)
        for i in range(1, 8, 3):
            for j in range(max(0, n - 4), min(6, n), 2):
                expected[i, j] = 1
        for schedule in Schedule:
            outcome = run(
                body, [("m", "memref<8x8xi32>"), ("n", "index")], [np.zeros((8, 8), np.int32), n], schedule=schedule
            )
            assert np.array_equal(outcome.observed[0].data, expected)


def test_inner_parallel_loops_may_have_bounds_that_vary():
    body = """
    "affine.parallel"() <{lowerBoundsGroups = dense<1> : tensor<1xi32>, lowerBoundsMap = affine_map<() -> (0)>,
      reductions = [], steps = [1], upperBoundsGroups = dense<1> : tensor<1xi32>,
      upperBoundsMap = affine_map<() -> (6)>}> ({
    ^bb0(%i: index):
      %s = "affine.parallel"(%i) <{lowerBoundsGroups = dense<1> : tensor<1xi32>, lowerBoundsMap = affine_map<() -> (0)>,
        reductions = [1], steps = [1], upperBoundsGroups = dense<1> : tensor<1xi32>,
        upperBoundsMap = affine_map<(d0) -> (d0)>}> ({
      ^bb0(%j: index):
        %x = "arith.index_cast"(%j) : (index) -> i32
        "affine.yield"(%x) : (i32) -> ()
      }) : (index) -> i32
      "affine.store"(%s, %m, %i) <{map = affine_map<(d0) -> (d0)>}> : (i32, memref<6xi32>, index) -> ()
      "affine.yield"() : () -> ()
    }) : () -> ()
    "func.return"() : () -> ()"""
    outcome = run(body, [("m", "memref<6xi32>")], [np.full(6, -1, np.int32)])
    assert outcome.observed[0].data.tolist() == [sum(range(i)) for i in range(6)]


def test_delinearize_and_linearize_are_inverse():
    full = '"affine.delinearize_index"(%a) <{static_basis = array<i64: 8, 4, 3>}> : (index) -> (index, index, index)'
    open_ended = full.replace("8, 4, 3", "4, 3")
    dynamic = (
        '"affine.delinearize_index"(%a, %b) <{static_basis = array<i64: 8, -9223372036854775808, 3>}> '
        ": (index, index) -> (index, index, index)"
    )
    for value in (0, 1, 11, 12, 95, -1, -13):
        expected = [value // 12, value % 12 // 3, value % 12 % 3]
        assert scalars(index_op(full, 3, [value])) == expected
        assert scalars(index_op(open_ended, 3, [value])) == expected
        assert scalars(index_op(dynamic, 3, [value, 4])) == expected
        if value >= 0:
            back = (
                '"affine.linearize_index"(%a, %b, %c) <{disjoint, operandSegmentSizes = array<i32: 3, 0>, '
                "static_basis = array<i64: 8, 4, 3>}> : (index, index, index) -> index"
            )
            assert scalars(index_op(back, 1, expected)) == [value]
    assert index_op(dynamic, 3, [5, 0]).fault.rule == "affine-basis"


def test_linearize_promises():
    text = (
        '"affine.linearize_index"(%a, %b) <{FLAG, operandSegmentSizes = array<i32: 2, 0>, '
        "static_basis = array<i64: 8, 4>}> : (index, index) -> index"
    )
    disjoint, free = text.replace("FLAG", "disjoint"), text.replace("FLAG", "disjoint = false")
    assert scalars(index_op(free, 1, [1, 5])) == [9]
    assert scalars(index_op(disjoint, 1, [-1, 3])) == [-1]
    for values in ([1, 5], [1, -1], [8, 0]):
        outcome = index_op(disjoint, 1, values)
        assert outcome.kind is OutcomeKind.UB
        assert outcome.fault.rule == "disjoint"


def test_poison_passes_through_pure_ops_and_is_undefined_as_an_index():
    shift = '%p = "arith.shli"(%a, %b) <{overflowFlags = #arith.overflow<none>}> : (index, index) -> index\n'
    apply = '%q = "affine.apply"(%p) <{map = affine_map<(d0) -> (d0 + 1)>}> : (index) -> index\n'
    arguments = [("m", "memref<4xi32>"), ("a", "index"), ("b", "index")]
    values = [np.zeros(4, np.int32), 1, 64]
    unused = run(shift + apply + RETURN, arguments, values, mode=Mode.INTERMEDIATE)
    assert unused.kind is OutcomeKind.OK
    load = '%v = "affine.load"(%m, %q) <{map = affine_map<(d0) -> (d0)>}> : (memref<4xi32>, index) -> i32\n'
    used = run(shift + apply + load + RETURN, arguments, values, mode=Mode.INTERMEDIATE)
    assert used.fault.rule == "poison-sink"
    source = run(shift + apply + RETURN, arguments, values)
    assert source.fault.rule == "shift-amount"


def test_mismatched_maps_are_unsupported():
    text = '"affine.apply"(%a) <{map = affine_map<(d0, d1) -> (d0 + d1)>}> : (index) -> index'
    assert index_op(text, 1, [1]).kind is OutcomeKind.UNSUPPORTED

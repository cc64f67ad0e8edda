"""enzyme ops: operand and result layouts, forms that are refused, and what Enzyme's passes leave behind."""

import numpy as np
import pytest

from difftest.interpreter import interpret
from difftest.ir.reader import read_module
from difftest.model import Mode

ACTIVE, NONEED, CONST, CONST_NONEED, DUP, DUP_NONEED = (
    f"#enzyme<activity enzyme_{n}>" for n in ("active", "activenoneed", "const", "constnoneed", "dup", "dupnoneed")
)
ARGUMENTS = "%a: f64; %b: f64; %s: f64; %t: f64"
F = """"func.func"() <{function_type = (f64, f64) -> (f64, f64), sym_name = "f"}> ({
^bb0(%x: f64, %y: f64):
%m = "arith.mulf"(%x, %y) : (f64, f64) -> f64
%n = "arith.addf"(%m, %x) : (f64, f64) -> f64
"func.return"(%m, %n) : (f64, f64) -> ()
}) : () -> ()
"""


def call(op, operands, activity, *, returns, count, more=""):
    types = ", ".join(["f64"] * operands.count("%"))
    results = ", ".join(["f64"] * count)
    left = f"%r:{count} = " if count else ""
    return f"""{left}{op}({operands}) <{{activity = [{", ".join(activity)}], fn = @f{more},
ret_activity = [{", ".join(returns)}]}}> : ({types}) -> ({results})
"""


def values(p, op, operands, activity, *, returns, count):
    """Results of a derivative of f(x, y) = (x y, x y + x) at x = 3, y = 5, with s = 2 and t = 7."""
    shown = ", ".join(f"%r#{i}" for i in range(count))
    body = call(op, operands, activity, returns=returns, count=count)
    found = p.data(ARGUMENTS, body, 3.0, 5.0, 2.0, 7.0, returns=f"{shown} : {', '.join(['f64'] * count)}", others=F)
    return [float(v) for v in found]


REVERSE = [
    # d = seed of m, e = seed of n: dx = (d + e) y + e, dy = (d + e) x
    ("%a, %b, %s, %t", [ACTIVE, ACTIVE], [ACTIVE, ACTIVE], [15, 18, 9 * 5 + 7, 9 * 3]),
    ("%a, %b, %s, %t", [ACTIVE, ACTIVE], [ACTIVE, NONEED], [15, 52, 27]),
    ("%a, %b, %s, %t", [ACTIVE, ACTIVE], [NONEED, NONEED], [52, 27]),
    ("%a, %b, %s", [ACTIVE, ACTIVE], [CONST, ACTIVE], [15, 18, 12, 6]),
    ("%a, %b, %s", [ACTIVE, ACTIVE], [CONST_NONEED, ACTIVE], [18, 12, 6]),
    ("%a, %b, %s", [ACTIVE, CONST], [ACTIVE, CONST], [15, 18, 10]),
    ("%a, %b, %s", [CONST, ACTIVE], [NONEED, CONST_NONEED], [6]),
    ("%a, %b", [CONST, CONST], [CONST, CONST], [15, 18]),
]


@pytest.mark.parametrize(("operands", "activity", "returns", "expected"), REVERSE)
def test_reverse_mode_takes_seeds_and_gives_primals_then_gradients(p, operands, activity, returns, expected):
    assert values(p, "enzyme.autodiff", operands, activity, returns=returns, count=len(expected)) == expected


FORWARD = [
    # x' = s = 2, y' = t = 7: m' = 2 * 5 + 3 * 7 = 31, n' = 33
    ("%a, %s, %b, %t", [DUP, DUP], [DUP, DUP], [15, 31, 18, 33]),
    ("%a, %s, %b, %t", [DUP, DUP], [DUP_NONEED, DUP_NONEED], [31, 33]),
    ("%a, %s, %b, %t", [DUP, DUP], [CONST, DUP], [15, 18, 33]),
    ("%a, %s, %b", [DUP, CONST], [DUP_NONEED, CONST_NONEED], [10]),
    ("%a, %b, %t", [CONST, DUP], [DUP_NONEED, CONST], [21, 18]),
    ("%a, %b", [CONST, CONST], [DUP_NONEED, DUP], [0, 18, 0]),
]


@pytest.mark.parametrize(("operands", "activity", "returns", "expected"), FORWARD)
def test_forward_mode_pairs_primals_and_tangents(p, operands, activity, returns, expected):
    assert values(p, "enzyme.fwddiff", operands, activity, returns=returns, count=len(expected)) == expected


def test_both_spellings_of_activities_are_read(p):
    renamed = [a.replace("<activity ", ".activity<") for a in (ACTIVE, CONST)]
    assert values(p, "enzyme.autodiff", "%a, %b, %s", renamed, returns=[NONEED, CONST_NONEED], count=1) == [10]


REFUSED = [
    ("enzyme.autodiff", "%a, %s, %b, %t", [DUP, DUP], [CONST, CONST], 2, ""),  # dup scalar in reverse mode
    ("enzyme.autodiff", "%a, %b, %s", [ACTIVE, CONST], [DUP, CONST], 2, ""),  # dup return in reverse mode
    ("enzyme.fwddiff", "%a, %b", [ACTIVE, CONST], [DUP, CONST], 2, ""),
    ("enzyme.fwddiff", "%a, %s, %b", [DUP, CONST], [ACTIVE, CONST], 2, ""),
    ("enzyme.autodiff", "%a, %b", [ACTIVE, CONST], [ACTIVE, CONST], 2, ""),  # a seed is missing
    ("enzyme.autodiff", "%a, %s", [ACTIVE], [NONEED], 1, ""),  # an activity is missing
    ("enzyme.autodiff", "%a, %b, %s", [ACTIVE, CONST], [NONEED, CONST_NONEED], 1, ", width = 2 : i64"),
    ("enzyme.autodiff", "%a, %b, %s", [ACTIVE, CONST], [NONEED, CONST_NONEED], 1, ", strong_zero = true"),
    ("enzyme.autodiff", "%a, %b, %s", [ACTIVE, CONST], [NONEED], 1, ""),  # a return activity is missing
]


@pytest.mark.parametrize("form", REFUSED)
def test_forms_without_a_meaning_are_unsupported(p, form):
    op, operands, activity, returns, count, more = form
    body = call(op, operands, activity, returns=returns, count=count, more=more)
    assert p.fault(ARGUMENTS, body, 3.0, 5.0, 2.0, 7.0, others=F)[:2] == ("unsupported", "unsupported-op")


@pytest.mark.parametrize("count", [0, 2])
def test_results_that_disagree_with_the_activities_are_undefined(p, count):
    body = call("enzyme.autodiff", "%a, %b, %s", [ACTIVE, CONST], returns=[NONEED, CONST_NONEED], count=count)
    assert p.fault(ARGUMENTS, body, 3.0, 5.0, 2.0, 7.0, others=F)[:2] == ("ub", "malformed-derivative")


def scalar_region(p, body, yielded="%m"):
    return f"""%r = enzyme.autodiff_region(%a, %s) <{{activity = [{ACTIVE}], ret_activity = [{NONEED}]}}> ({{
^bb0(%x: f64):
{p.expand(body)}"enzyme.yield"({yielded}) : (f64) -> ()
}}) : (f64, f64) -> f64
"""


def test_an_op_without_a_rule_is_unsupported_only_when_active_data_meets_it(p):
    inactive = "%i = math.isnan(%x) : (f64) -> i1\n%m = arith.uitofp(%i) : (i1) -> f64\n"
    assert float(p.data("%a: f64; %s: f64", scalar_region(p, inactive), 3.0, 1.0, returns="%r : f64")[0]) == 0
    sincos = "%m, %n = math.sincos(%x) : (f64) -> (f64, f64)\n"
    found = p.run("%a: f64; %s: f64", scalar_region(p, sincos), 3.0, 1.0).fault
    assert found.rule == "unsupported-op"
    assert "no derivative rule for math.sincos" in found.message
    elsewhere = sincos.replace("%x", "%a").replace("%m,", "%o,") + "%m = arith.mulf(%x, %n) : (f64, f64) -> f64\n"
    assert p.run("%a: f64; %s: f64", scalar_region(p, elsewhere), 3.0, 1.0).fault is None


def test_ops_that_could_hide_derivatives_are_unsupported(p):
    body = "%v = vector.broadcast(%x) : (f64) -> vector<2xf64>\n%m = arith.mulf(%x, %x) : (f64, f64) -> f64\n"
    found = p.run("%a: f64; %s: f64", scalar_region(p, body), 3.0, 1.0).fault
    assert (found.rule, "vector.broadcast" in found.message) == ("unsupported-op", True)


def test_a_derivative_of_a_derivative_is_unsupported(p):
    inner = scalar_region(p, "%m = arith.mulf(%x, %x) : (f64, f64) -> f64\n").replace("%", "%i_").replace("%i_a", "%x")
    inner = inner.replace("%i_s", "%s")
    assert p.fault("%a: f64; %s: f64", scalar_region(p, inner, "%i_r"), 3.0, 1.0)[:2] == (
        "unsupported",
        "unsupported-op",
    )


def test_an_inactive_region_may_hold_benign_writes(p):
    """The documented case: everything in the region is const or captured."""
    inner = "%v = const 1.0 : f64\nmemref.store(%v, %g, %c0) : (f64, memref<1xf64>, index) -> ()\n"
    region = f"""enzyme.autodiff_region(%a) <{{activity = [{CONST}], ret_activity = []}}> ({{
^bb0(%x: f64):
{p.expand(p.parallel("%i=%c0:%c4:%c1", inner))}"enzyme.yield"() : () -> ()
}}) : (f64) -> ()
"""
    found = p.run("%a: f64; %g: memref<1xf64>", "%c4 = const 4 : index\n" + region, 3.0, np.zeros(1))
    assert found.fault is None
    assert found.observed[0].data.tolist() == [1]
    assert found.notes["benign"]


def test_every_lane_of_a_parallel_loop_has_its_own_gradient(p, schedule):
    """Also where all lanes share the argument's value."""
    body = p.parallel(
        "%i=%c0:%c4:%c1",
        "%s = memref.load(%seeds, %i) : (memref<4xf64>, index) -> f64\n"
        + scalar_region(p, "%m = arith.mulf(%x, %x) : (f64, f64) -> f64\n")
        + "memref.store(%r, %out, %i) : (f64, memref<4xf64>, index) -> ()\n",
    )
    arguments = "%a: f64; %seeds: memref<4xf64>; %out: memref<4xf64>"
    seeds = np.array([1.0, 2, 4, -1])
    found = p.data(arguments, "%c4 = const 4 : index\n" + body, 3.0, seeds, np.zeros(4), schedule=schedule)
    assert found[1].tolist() == (6 * seeds).tolist()


# --- leftovers ------------------------------------------------------------------------------------------------


def cache(name, kind):
    return f'%{name} = "enzyme.init"() : () -> !enzyme.{kind}<f64>\n'


PUSH = "enzyme.push(%k, %{}) : (!enzyme.Cache<f64>, f64) -> ()\n"
POP = "%{} = enzyme.pop(%k) : (!enzyme.Cache<f64>) -> f64\n"
GET = "%{} = enzyme.get(%g) : (!enzyme.Gradient<f64>) -> f64\n"
SET = "enzyme.set(%g, %{}) : (!enzyme.Gradient<f64>, f64) -> ()\n"
M4 = "memref<4xf64>"


def test_a_cache_is_a_stack_per_iteration_under_every_schedule(p, schedule):
    """Forward: x and x + 1 are pushed, the latter only by some lanes; backward: sums of what each lane left."""
    forward = p.parallel(
        "%i=%c0:%c4:%c1",
        f"%x = memref.load(%in, %i) : ({M4}, index) -> f64\n"
        + PUSH.format("x")
        + "%one = const 1.0 : f64\n%y = arith.addf(%x, %one) : (f64, f64) -> f64\n"
        + "%big = arith.cmpf(%x, %one) <{predicate = 2 : i64}> : (f64, f64) -> i1\n"
        + "scf.if(%big) ({\n"
        + PUSH.format("y")
        + "scf.yield() : () -> ()\n}, {\n}) : (i1) -> ()\n",
    )
    backward = p.parallel(
        "%i=%c0:%c4:%c1",
        f"%x = memref.load(%in, %i) : ({M4}, index) -> f64\n%one = const 1.0 : f64\n"
        + "%big = arith.cmpf(%x, %one) <{predicate = 2 : i64}> : (f64, f64) -> i1\n"
        + "%y = scf.if(%big) ({\n"
        + POP.format("z")
        + "scf.yield(%z) : (f64) -> ()\n}, {\nscf.yield(%one) : (f64) -> ()\n}) : (i1) -> f64\n"
        + POP.format("w")
        + "%s = arith.mulf(%y, %w) : (f64, f64) -> f64\n"
        + f"memref.store(%s, %out, %i) : (f64, {M4}, index) -> ()\n",
    )
    body = "%c4 = const 4 : index\n" + cache("k", "Cache") + forward + backward
    found = p.data(f"%in: {M4}; %out: {M4}", body, np.array([1.0, 2, 3, 0]), np.zeros(4), schedule=schedule)
    assert found[1].tolist() == [1, 6, 12, 0]


def test_nested_loops_find_their_own_values_whatever_the_groups(p, schedule):
    def nest(inner):
        return p.parallel(
            "%i=%c0:%c2:%c1",
            p.parallel(
                "%j=%c0:%c2:%c1",
                "%t = arith.muli(%i, %c2) : (index, index) -> index\n"
                "%n = arith.addi(%t, %j) : (index, index) -> index\n" + inner,
            ),
        )

    forward = nest(f"%x = memref.load(%in, %n) : ({M4}, index) -> f64\n" + PUSH.format("x"))
    backward = nest(POP.format("x") + f"memref.store(%x, %out, %n) : (f64, {M4}, index) -> ()\n")
    body = "%c2 = const 2 : index\n" + cache("k", "Cache") + forward + backward
    found = p.data(f"%in: {M4}; %out: {M4}", body, np.arange(4.0), np.zeros(4), schedule=schedule, seed=3)
    assert found[1].tolist() == [0, 1, 2, 3]


def test_a_cache_popped_too_often_is_undefined(p):
    body = cache("k", "Cache") + PUSH.format("a") + POP.format("x") + POP.format("y")
    assert p.fault("%a: f64", body, 1.0)[:2] == ("ub", "empty-cache")


def test_iterations_add_to_a_gradient_from_outside(p, schedule):
    """get, add, set in a parallel loop: Enzyme's next pass makes a reduction of it."""
    loop = p.parallel(
        "%i=%c0:%c4:%c1",
        f"%x = memref.load(%in, %i) : ({M4}, index) -> f64\n"
        + GET.format("b")
        + "%s = arith.addf(%b, %x) : (f64, f64) -> f64\n"
        + SET.format("s"),
    )
    body = (
        "%c4 = const 4 : index\n" + cache("g", "Gradient") + SET.format("a") + loop + loop_again(loop) + GET.format("r")
    )
    found = p.data(f"%a: f64; %in: {M4}", body, 10.0, np.array([1.0, 2, 3, 4]), returns="%r : f64", schedule=schedule)
    assert float(found[1]) == 30


def loop_again(loop):
    return (
        loop.replace("%b", "%b2").replace("%s", "%s2").replace("%x", "%x2").replace("%i", "%i2").replace("%i2n", "%in")
    )


def test_a_gradient_set_anew_outside_forgets_the_iterations(p):
    loop = p.parallel("%i=%c0:%c4:%c1", SET.format("a"))
    body = (
        "%c4 = const 4 : index\n" + cache("g", "Gradient") + SET.format("a") + loop + SET.format("b") + GET.format("r")
    )
    assert float(p.data("%a: f64; %b: f64", body, 1.0, 2.0, returns="%r : f64")[0]) == 2


def test_a_gradient_is_undefined_until_it_is_set(p):
    assert p.fault("", cache("g", "Gradient") + GET.format("r"))[:2] == ("ub", "uninitialised-read")


def test_sized_accesses_are_those_of_memref(p):
    body = """%v = enzyme.load(%m, %c1, %n) <{operandSegmentSizes = array<i32: 1, 1, 1>,
static_sizes = array<i64: -9223372036854775808>}> : (memref<?xf64>, index, index) -> f64
enzyme.store(%v, %m, %c0, %n) <{operandSegmentSizes = array<i32: 1, 1, 1, 1>,
static_sizes = array<i64: -9223372036854775808>}> : (f64, memref<?xf64>, index, index) -> ()
"""
    assert p.data("%m: memref<?xf64>; %n: index", body, np.array([1.0, 2, 3]), 3)[0].tolist() == [2, 2, 3]
    assert p.fault("%m: memref<?xf64>; %n: index", body, np.array([1.0]), 1)[:2] == ("ub", "out-of-bounds")


@pytest.mark.parametrize("through", ["", "affine_"])
def test_atomic_updates_return_the_old_value(p, through):
    extra = ", map = affine_map<(d0) -> (d0 + 1)>" if through else ""
    body = f"""%o = enzyme.{through}atomic_rmw(%a, %m, %c0) <{{kind = 0 : i64, ordering = 2 : i32{extra}}}> :
(f64, memref<2xf64>, index) -> f64
"""
    found = p.data("%a: f64; %m: memref<2xf64>", body, 5.0, np.array([1.0, 2.0]), returns="%o : f64")
    assert (found[0].tolist(), float(found[1])) == (([1, 7], 2.0) if through else ([6, 2], 1.0))


def test_fill_zero_writes_every_element(p, schedule):
    body = "%c2 = const 2 : index\n" + p.parallel(
        "%i=%c0:%c2:%c1",
        """%s = memref.alloca() <{operandSegmentSizes = array<i32: 0, 0>}> : () -> memref<2x2xf32>
enzyme.fill_zero(%s) : (memref<2x2xf32>) -> ()
%v = memref.load(%s, %c1, %c1) : (memref<2x2xf32>, index, index) -> f32
memref.store(%v, %m, %i) : (f32, memref<2xf32>, index) -> ()
""",
    )
    assert p.data("%m: memref<2xf32>", body, np.ones(2, np.float32), schedule=schedule)[0].tolist() == [0, 0]


def test_a_placeholder_may_not_be_accessed(p):
    make = '%s = "enzyme.placeholder"() : () -> memref<1xf64>\n'
    assert p.run("", make).fault is None
    body = make + "%v = memref.load(%s, %c0) : (memref<1xf64>, index) -> f64\n"
    assert p.fault("", body)[:2] == ("ub", "null-access")


def test_linalg_fill_writes_the_value_of_each_lane(p, schedule):
    region = "({\n^bb0(%v: f32, %o: f32):\nlinalg.yield(%v) : (f32) -> ()\n})"
    body = "%c2 = const 2 : index\n" + p.parallel(
        "%i=%c0:%c2:%c1",
        f"""%s = memref.alloca() <{{operandSegmentSizes = array<i32: 0, 0>}}> : () -> memref<3xf32>
%x = memref.load(%m, %i) : (memref<2xf32>, index) -> f32
linalg.fill(%x, %s) <{{operandSegmentSizes = array<i32: 1, 1>}}> {region} : (f32, memref<3xf32>) -> ()
%w = memref.load(%s, %c2) : (memref<3xf32>, index) -> f32
memref.store(%w, %n, %i) : (f32, memref<2xf32>, index) -> ()
""",
    )
    found = p.data(
        "%m: memref<2xf32>; %n: memref<2xf32>", body, np.float32([3, 4]), np.zeros(2, np.float32), schedule=schedule
    )
    assert found[1].tolist() == [3, 4]
    other = region.replace("linalg.yield(%v)", "linalg.yield(%o)")
    body = f"linalg.fill(%a, %m) <{{operandSegmentSizes = array<i32: 1, 1>}}> {other} : (f32, memref<2xf32>) -> ()\n"
    assert p.fault("%a: f32; %m: memref<2xf32>", body, 1.0, np.zeros(2, np.float32))[0] == "unsupported"


def test_the_zero_gradient_of_an_unused_argument_has_no_sign_either(p):
    body = scalar_region(p, "%m = const 1.0 : f64\n")
    found = p.ok("%a: f64; %s: f64", body, 3.0, 1.0, returns="%r : f64")["result0"]
    assert (float(found.data), found.zero) == (0, True)


def region_text(captured):
    """A region over a buffer with a shadow that also touches the captured buffer `captured`."""
    return f"""\
"builtin.module"() ({{
  "func.func"() <{{function_type = (memref<1xf32>, memref<1xf32>, memref<1xf32>) -> (), sym_name = "k"}}> ({{
  ^bb0(%x: memref<1xf32>, %dx: memref<1xf32>, %other: memref<1xf32>):
    %c0 = "arith.constant"() <{{value = 0 : index}}> : () -> index
    %one = "arith.constant"() <{{value = 1.000000e+00 : f32}}> : () -> f32
    "enzyme.autodiff_region"(%x, %dx) <{{activity = [#enzyme<activity enzyme_dup>], ret_activity = []}}> ({{
    ^bb0(%inner: memref<1xf32>):
      "memref.store"(%one, {captured}, %c0) : (f32, memref<1xf32>, index) -> ()
      "enzyme.yield"() : () -> ()
    }}) : (memref<1xf32>, memref<1xf32>) -> ()
    "func.return"() : () -> ()
  }}) : () -> ()
}}) : () -> ()
"""


@pytest.mark.parametrize(
    ("captured", "rule"), [("%x", "derivative-aliasing"), ("%dx", "derivative-aliasing"), ("%other", None)]
)
def test_a_buffer_with_a_shadow_may_not_be_captured_too(captured, rule):
    arguments = [np.ones(1, np.float32) for _ in range(3)]
    outcome = interpret(read_module(region_text(captured)), entry="k", arguments=arguments)
    assert (outcome.fault.rule if outcome.fault else None) == rule


def test_compiled_code_may_capture_what_it_was_given():
    arguments = [np.ones(1, np.float32) for _ in range(3)]
    module = read_module(region_text("%x"))
    outcome = interpret(module, entry="k", arguments=arguments, mode=Mode.INTERMEDIATE)
    assert outcome.fault is None

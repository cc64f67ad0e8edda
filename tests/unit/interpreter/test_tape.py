"""Memory and lanes under a derivative: shadows, what is const, what is undefined."""

import ml_dtypes
import numpy as np
import pytest

DUP = "#enzyme<activity enzyme_dup>"
NONEED = "#enzyme<activity enzyme_dupnoneed>"
CONST = "#enzyme<activity enzyme_const>"
M4 = "memref<4xf64>"


def array(*values):
    return np.array(values, np.float64)


def region(p, code, *, activities=(DUP, DUP)):
    """An autodiff region on %p/%dp and %q/%dq (const: without shadow), with block arguments %x and %y."""
    operands = []
    for name, activity in zip(("p", "q"), activities, strict=True):
        operands += [f"%{name}"] if activity == CONST else [f"%{name}", f"%d{name}"]
    types = ", ".join([M4] * len(operands))
    return f"""enzyme.autodiff_region({", ".join(operands)}) <{{activity = [{", ".join(activities)}],
ret_activity = []}}> ({{
^bb0(%x: {M4}, %y: {M4}):
{p.expand(code)}"enzyme.yield"() : () -> ()
}}) : ({types}) -> ()
"""


BUFFERS = "; ".join(f"%{n}: {M4}" for n in ("p", "dp", "q", "dq"))
X, DX, Y, DY = array(1, 2, 3, 4), array(0.5, 0.5, 0.5, 0.5), array(7, 7, 7, 7), array(1, 2, 4, 8)


def outcome(p, code, *, values=(X, DX, Y, DY), others="", arguments=BUFFERS, **options):
    activities = options.pop("activities", (DUP, DUP))
    return p.run(arguments, region(p, code, activities=activities), *values, others=others, **options)


def after(p, code, **options):
    """x, dx, y, dy after differentiating `code`."""
    found = outcome(p, code, **options)
    assert found.fault is None, found.fault
    return [o.data.tolist() for o in found.observed]


def load(name, buffer, index):
    return f"%{name} = memref.load(%{buffer}, %{index}) : ({M4}, index) -> f64\n"


def store(name, buffer, index):
    return f"memref.store(%{name}, %{buffer}, %{index}) : (f64, {M4}, index) -> ()\n"


def multiply(result, a, b):
    return f"%{result} = arith.mulf(%{a}, %{b}) : (f64, f64) -> f64\n"


def test_a_load_adds_and_a_store_clears_and_the_rest_stays(p):
    x, dx, y, dy = after(p, load("a", "x", "c0") + multiply("m", "a", "a") + store("m", "y", "c1"))
    assert dx == [0.5 + 2 * 1 * 2, 0.5, 0.5, 0.5]
    assert dy == [1, 0, 4, 8]
    assert (x, y) == ([1, 2, 3, 4], [7, 1, 7, 7])


def test_a_constant_that_overwrites_a_cell_takes_the_gradient_of_what_was_there(p):
    code = load("a", "x", "c0") + store("a", "y", "c0") + "%z = const 5.0 : f64\n" + store("z", "y", "c0")
    _, dx, y, dy = after(p, code)
    assert (dx, y[0], dy[0]) == ([0.5] * 4, 5, 0)


def test_a_copy_in_the_buffer_moves_the_shadow(p):
    _, _, _, dy = after(p, load("a", "y", "c0") + store("a", "y", "c1"))
    assert dy == [3, 0, 4, 8]


def test_const_memory_has_no_shadow_and_takes_writes(p):
    code = (
        load("a", "x", "c0")
        + multiply("m", "a", "a")
        + store("m", "y", "c0")
        + load("b", "y", "c0")
        + store("b", "x", "c1")
    )
    x, dx, y, dq = after(p, code, activities=(DUP, CONST))
    assert x == [1, 1, 3, 4]
    assert dx == [0.5, 0, 0.5, 0.5]
    assert (y[0], dq) == (1, DY.tolist())


def test_captured_memory_is_const(p):
    code = (
        load("a", "x", "c0")
        + load("b", "g", "c0")
        + multiply("m", "a", "b")
        + store("m", "y", "c0")
        + store("m", "g", "c1")
    )
    found = after(p, code, arguments=BUFFERS + f"; %g: {M4}", values=(X, DX, Y, DY, array(3, 0, 0, 0)))
    assert found[1][0] == 0.5 + 3
    assert found[4] == [3, 3, 0, 0]


def test_dupnoneed_buffers_are_not_observed(p):
    found = outcome(p, load("a", "x", "c0") + store("a", "y", "c0"), activities=(DUP, NONEED))
    skips = [o.skip is not None and bool(o.skip.all()) for o in found.observed]
    assert skips == [False, False, True, False]
    assert found.observed[1].data[0] == 1.5


def test_integers_carry_no_derivative(p):
    code = (
        load("a", "x", "c0")
        + "%i = arith.fptosi(%a) : (f64) -> i64\n%f = arith.sitofp(%i) : (i64) -> f64\n"
        + "%b = arith.bitcast(%a) : (f64) -> i64\n%g = arith.bitcast(%b) : (i64) -> f64\n"
        + "%s = arith.addf(%f, %g) : (f64, f64) -> f64\n"
        + store("s", "y", "c0")
    )
    _, dx, y, dy = after(p, code)
    assert (dx, y[0], dy[0]) == ([0.5] * 4, 2, 0)


def test_memref_copy_moves_adjoints(p):
    _, dx, y, dy = after(p, f"memref.copy(%x, %y) : ({M4}, {M4}) -> ()\n")
    assert dx == (DX + DY).tolist()
    assert (y, dy) == ([1, 2, 3, 4], [0] * 4)


def test_private_memory_of_lanes_starts_with_zero_shadows(p, schedule):
    inner = (
        "%s = memref.alloc() <{operandSegmentSizes = array<i32: 0, 0>}> : () -> memref<1xf64>\n"
        + load("a", "x", "i")
        + "memref.store(%a, %s, %c0) : (f64, memref<1xf64>, index) -> ()\n"
        + "%b = memref.load(%s, %c0) : (memref<1xf64>, index) -> f64\n"
        + multiply("m", "b", "b")
        + store("m", "y", "i")
    )
    code = "%c4 = const 4 : index\n" + p.parallel("%i=%c0:%c4:%c1", inner)
    assert after(p, code, schedule=schedule)[1] == (DX + 2 * X * DY).tolist()


def test_a_parallel_loop_adds_all_its_reads_of_one_cell(p, schedule):
    inner = load("a", "x", "c0") + multiply("m", "a", "a") + store("m", "y", "i")
    code = "%c4 = const 4 : index\n" + p.parallel("%i=%c0:%c4:%c1", inner)
    _, dx, _, dy = after(p, code, schedule=schedule)
    assert (dx, dy) == ([0.5 + 2 * 15, 0.5, 0.5, 0.5], [0] * 4)


def test_a_value_from_outside_the_loop_gains_from_every_lane(p, schedule):
    inner = load("b", "x", "i") + multiply("m", "a", "b") + store("m", "y", "i")
    code = "%c4 = const 4 : index\n" + load("a", "x", "c0") + p.parallel("%i=%c0:%c4:%c1", inner)
    _, dx, _, _ = after(p, code, schedule=schedule)
    assert dx == [0.5 + float(DY @ X) + 1, 2.5, 4.5, 8.5]


def test_lanes_that_part_in_a_control_flow_graph_meet_again(p):
    """The branch is in a callee, so lanes carry their block number."""
    others = p.expand(""""func.func"() <{function_type = (f64) -> f64, sym_name = "f"}> ({
^bb0(%a: f64):
%two = const 2.0 : f64
%g = arith.cmpf(%a, %two) <{predicate = 2 : i64}> : (f64, f64) -> i1
"cf.cond_br"(%g)[^bb1, ^bb2] <{operandSegmentSizes = array<i32: 1, 0, 0>}> : (i1) -> ()
^bb1:
%m = arith.mulf(%a, %a) : (f64, f64) -> f64
"cf.br"(%m)[^bb3] : (f64) -> ()
^bb2:
"cf.br"(%a)[^bb3] : (f64) -> ()
^bb3(%r: f64):
%s = arith.addf(%r, %a) : (f64, f64) -> f64
"func.return"(%s) : (f64) -> ()
}) : () -> ()
""")
    inner = load("a", "x", "i") + "%m = func.call(%a) <{callee = @f}> : (f64) -> f64\n" + store("m", "y", "i")
    code = "%c4 = const 4 : index\n" + p.parallel("%i=%c0:%c4:%c1", inner)
    _, dx, y, _ = after(p, code, others=others)
    assert y == [2, 4, 12, 20]
    assert dx == (DX + np.array([2, 2, 7, 9]) * DY).tolist()


def test_an_atomic_sum_keeps_the_shadow(p, schedule):
    atomic = f"%old = memref.atomic_rmw(%m, %y, %c0) <{{kind = 0 : i64}}> : (f64, {M4}, index) -> f64\n"
    inner = load("a", "x", "i") + multiply("m", "a", "a") + atomic
    code = "%c4 = const 4 : index\n" + p.parallel("%i=%c0:%c4:%c1", inner)
    _, dx, y, dy = after(p, code, schedule=schedule)
    assert (y[0], dy) == (37, DY.tolist())
    assert dx == (DX + 2 * X).tolist()


def test_another_atomic_on_active_memory_has_no_rule(p):
    atomic = f"%old = memref.atomic_rmw(%a, %y, %c0) <{{kind = 3 : i64}}> : (f64, {M4}, index) -> f64\n"
    found = outcome(p, load("a", "x", "c0") + atomic).fault
    assert (found.rule, "no derivative rule for atomic" in found.message) == ("unsupported-op", True)


@pytest.mark.parametrize(("kind", "dtype"), [("f16", np.float16), ("bf16", ml_dtypes.bfloat16), ("f32", np.float32)])
def test_narrow_adjoints_are_summed_exactly_and_rounded_to_their_type(p, kind, dtype, schedule):
    code = "%c4 = const 4 : index\n" + p.parallel(
        "%i=%c0:%c4:%c1", load("a", "x", "c0") + multiply("m", "a", "a") + store("m", "y", "i")
    )
    body, arguments = (t.replace("f64", kind) for t in (region(p, code), BUFFERS))
    found = p.ok(arguments, body, *(v.astype(dtype) for v in (X, DX, Y, DY)), schedule=schedule)
    assert found["arg1"].data.astype(np.float64).tolist() == [30.5, 0.5, 0.5, 0.5]
    assert found["arg1"].bound is None
    # 3 * 129 in bf16 has to round; the bound says so.
    lone = p.ok(arguments, body, *(v.astype(dtype) for v in (X * 129, DX, Y, array(1, 1, 1, 0))), schedule=schedule)
    exact = 0.5 + 2 * 129 * 3
    error = abs(float(lone["arg1"].data[0]) - exact)
    assert error <= (0 if lone["arg1"].bound is None else lone["arg1"].bound[0])
    assert (error > 0) is (kind == "bf16")


# --- what is undefined ----------------------------------------------------------------------------------------


def test_several_lanes_may_not_store_one_value_to_one_active_cell(p, schedule):
    inner = "%v = const 1.0 : f64\n" + store("v", "y", "c0")
    code = "%c4 = const 4 : index\n" + p.parallel("%i=%c0:%c4:%c1", inner)
    found = outcome(p, code, schedule=schedule)
    assert found.kind.value == "race"
    # In memory that is not differentiated the same stores are tolerated, and counted.
    tolerated = outcome(p, code, schedule=schedule, activities=(DUP, CONST))
    assert tolerated.fault is None
    assert tolerated.notes["benign"]


def test_private_memory_shared_by_lanes_is_watched_too(p, schedule):
    inner = "%v = const 1.0 : f64\nmemref.store(%v, %s, %c0) : (f64, memref<1xf64>, index) -> ()\n"
    code = (
        "%c4 = const 4 : index\n%s = memref.alloca() <{operandSegmentSizes = array<i32: 0, 0>}> : () -> memref<1xf64>\n"
    ) + p.parallel("%i=%c0:%c4:%c1", inner)
    assert outcome(p, code, schedule=schedule).kind.value == "race"


def outer_parallel(p, code):
    return "%c4 = const 4 : index\n" + p.parallel("%i=%c0:%c4:%c1", region(p, code))


def test_regions_of_parallel_iterations_may_touch_shadows_of_their_own_cells(p, schedule):
    code = load("a", "x", "i") + multiply("m", "a", "a") + store("m", "y", "i")
    found = p.data(BUFFERS, outer_parallel(p, code), X, DX, Y, DY, schedule=schedule)
    assert found[1].tolist() == (DX + 2 * X * DY).tolist()


def test_regions_of_parallel_iterations_that_read_one_cell_race_on_its_shadow(p, schedule):
    code = load("a", "x", "c0") + multiply("m", "a", "a") + store("m", "y", "i")
    assert p.fault(BUFFERS, outer_parallel(p, code), X, DX, Y, DY, schedule=schedule)[:2] == ("race", "race")


@pytest.mark.parametrize("operands", ["%p, %p, %q, %dq", "%p, %dp, %p, %dq"])
def test_memory_with_itself_or_two_buffers_as_shadow_is_undefined(p, operands):
    body = region(p, load("a", "x", "c0")).replace("%p, %dp, %q, %dq", operands)
    assert p.fault(BUFFERS, body, X, DX, Y, DY)[:2] == ("ub", "shadow-alias")


@pytest.mark.parametrize("operands", ["%p, %dp, %q, %dp", "%p, %q, %q, %dq", "%p, %dp, %dp, %dq"])
def test_a_shadow_is_neither_primal_memory_nor_the_shadow_of_another_buffer(p, operands):
    body = region(p, load("a", "x", "c0")).replace("%p, %dp, %q, %dq", operands)
    assert p.fault(BUFFERS, body, X, DX, Y, DY)[:2] == ("ub", "shadow-alias")


def pointer_region(p, code):
    """The same with pointers as arguments."""
    names = ("p", "dp", "q", "dq")
    casts = "".join(f'%l{n} = "enzymexla.memref2pointer"(%{n}) : (memref<?xf64>) -> !llvm.ptr\n' for n in names)
    views = "".join(f'%{n} = "enzymexla.pointer2memref"(%l{n}) : (!llvm.ptr) -> memref<?xf64>\n' for n in ("x", "y"))
    return f"""{casts}enzyme.autodiff_region(%lp, %ldp, %lq, %ldq) <{{activity = [{DUP}, {DUP}],
ret_activity = []}}> ({{
^bb0(%lx: !llvm.ptr, %ly: !llvm.ptr):
{views}{p.expand(code.replace(M4, "memref<?xf64>"))}"enzyme.yield"() : () -> ()
}}) : (!llvm.ptr, !llvm.ptr, !llvm.ptr, !llvm.ptr) -> ()
"""


def test_pointers_have_shadows_too(p):
    code = load("a", "x", "c1") + multiply("m", "a", "a") + store("m", "y", "c0")
    arguments = BUFFERS.replace(M4, "memref<?xf64>")
    found = p.data(arguments, pointer_region(p, code), X, DX, Y, DY)
    assert [v.tolist() for v in found] == [[1, 2, 3, 4], [0.5, 4.5, 0.5, 0.5], [4, 7, 7, 7], [0, 2, 4, 8]]
    # A shadow that is too small matters where it is missed.
    assert p.run(arguments, pointer_region(p, code), X, array(0, 0), Y, DY).fault is None
    assert p.fault(arguments, pointer_region(p, code), X, array(0), Y, DY)[:2] == ("ub", "out-of-bounds")


def test_scratch_memory_of_parallel_iterations_can_be_a_dup_argument(p, schedule):
    inner = (
        "%s = memref.alloca() <{operandSegmentSizes = array<i32: 0, 0>}> : () -> memref<4xf64>\n"
        "%ds = memref.alloca() <{operandSegmentSizes = array<i32: 0, 0>}> : () -> memref<4xf64>\n"
        + load("v", "q", "i")
        + load("w", "dq", "i")
        + store("v", "s", "c0")
        + store("w", "ds", "c0")
        + f"""enzyme.autodiff_region(%s, %ds) <{{activity = [{DUP}], ret_activity = []}}> ({{
^bb0(%x: {M4}):
"""
        + p.expand(load("a", "x", "c0") + multiply("m", "a", "a") + store("m", "x", "c0"))
        + f'"enzyme.yield"() : () -> ()\n}}) : ({M4}, {M4}) -> ()\n'
        + load("g", "ds", "c0")
        + store("g", "dp", "i")
    )
    body = "%c4 = const 4 : index\n" + p.parallel("%i=%c0:%c4:%c1", inner)
    found = p.data(BUFFERS, body, X, DX, array(1, 2, 3, 4), DY, schedule=schedule)
    assert found[1].tolist() == [2, 8, 24, 64]


def test_one_buffer_passed_twice_with_one_shadow_is_fine(p):
    body = region(p, load("a", "x", "c0") + store("a", "y", "c1")).replace("%p, %dp, %q, %dq", "%p, %dp, %p, %dp")
    assert p.data(BUFFERS, body, X, DX, Y, DY)[1].tolist() == [1, 0, 0.5, 0.5]


def test_a_shadow_of_another_shape_is_undefined(p):
    body = region(p, load("a", "x", "c0")).replace(M4, "memref<?xf64>")
    arguments = BUFFERS.replace(M4, "memref<?xf64>")
    assert p.fault(arguments, body, X, array(0, 0), Y, DY)[:2] == ("ub", "shadow-shape")


def test_an_uninitialised_shadow_is_read_by_the_reverse_sweep(p):
    prelude = f"%dp = memref.alloc() <{{operandSegmentSizes = array<i32: 0, 0>}}> : () -> {M4}\n"
    body = prelude + region(p, load("a", "x", "c0") + store("a", "y", "c0"))
    arguments = "; ".join(f"%{n}: {M4}" for n in ("p", "q", "dq"))
    assert p.fault(arguments, body, X, Y, DY)[:2] == ("ub", "uninitialised-read")
    assert p.run(arguments, body, X, Y, DY, mode=p.intermediate).fault is None


def test_halves_of_one_buffer_can_have_different_shadows(p):
    view = (
        "<{operandSegmentSizes = array<i32: 1, 0, 0, 0>, static_offsets = array<i64: OFF>, "
        "static_sizes = array<i64: 2>, static_strides = array<i64: 1>}> : (memref<4xf64>) -> "
    )
    low, high = "memref<2xf64, strided<[1]>>", "memref<2xf64, strided<[1], offset: 2>>"
    body = f"""%h0 = memref.subview(%p) {view.replace("OFF", "0")}{low}
%h1 = memref.subview(%p) {view.replace("OFF", "2")}{high}
%d1 = memref.subview(%dp) {view.replace("OFF", "2")}{high}
enzyme.autodiff_region(%h0, %s, %h1, %d1) <{{activity = [{DUP}, {DUP}], ret_activity = []}}> ({{
^bb0(%x: {low}, %y: {high}):
%a = memref.load(%x, %c0) : ({low}, index) -> f64
memref.store(%a, %y, %c1) : (f64, {high}, index) -> ()
enzyme.yield() : () -> ()
}}) : ({low}, memref<2xf64, strided<[1]>>, {high}, {high}) -> ()
"""
    arguments = f"%p: {M4}; %dp: {M4}; %s: memref<2xf64, strided<[1]>>"
    found = p.data(arguments, body, X, array(1, 2, 3, 4), array(10, 20))
    assert found[0].tolist() == [1, 2, 3, 1]
    assert found[1].tolist() == [1, 2, 3, 0]
    assert found[2].tolist() == [14, 20]


def test_inexact_sums_of_adjoints_get_a_bound(p):
    inner = load("a", "x", "c0") + load("b", "y", "i") + multiply("m", "a", "b") + store("m", "y", "i")
    code = "%c4 = const 4 : index\n" + p.parallel("%i=%c0:%c4:%c1", inner)
    found = outcome(p, code, values=(X, DX, array(0.1, 0.2, 0.3, 0.4), array(1, 1, 1, 1)))
    dx = found.observed[1]
    assert dx.bound is not None
    assert 0 < dx.bound[0] < 1e-14
    assert abs(dx.data[0] - 1.5) <= dx.bound[0]
    assert (dx.bound[1:] == 0).all()

"""Derivatives of whole programs: hand-derived gradients, in every order of parallel iterations, both modes."""

import numpy as np
import pytest

DUP = "#enzyme<activity enzyme_dup>"
LOAD = "%a = memref.load(%x, %i) : (memref<?xf64>, index) -> f64\n"
STORE = "memref.store(%m, %y, %i) : (f64, memref<?xf64>, index) -> ()\n"
SQUARE = "%m = arith.mulf(%a, %a) : (f64, f64) -> f64\n"
CONSTANTS = "\n".join(f"%n{k} = const {k} : index" for k in range(9)) + "\n"
CALLEE = """"func.func"() <{function_type = (f64) -> f64, sym_name = "sqr", sym_visibility = "private"}> ({
^bb0(%q: f64):
%m = "arith.mulf"(%q, %q) : (f64, f64) -> f64
"func.return"(%m) : (f64) -> ()
}) : () -> ()
"""


def serial(bounds, body, results="", inits="", kind="index"):
    """scf.for from `lower:upper:step`; `inits` is `%acc = %init` of type f64."""
    lower, upper, step = bounds.split(":")
    name, _, init = inits.partition(" = ")
    carried = f", {name}: f64" if inits else ""
    operands = f"%n{lower}, %n{upper}, %n{step}" + (f", {init}" if inits else "")
    types = f"{kind}, {kind}, {kind}" + (", f64" if inits else "")
    left = f"{results} = " if results else ""
    tail = "" if inits else "scf.yield() : () -> ()\n"
    return f"""{left}scf.for({operands}) ({{
^bb0(%i: {kind}{carried}):
{body}{tail}}}) : ({types}) -> ({"f64" if inits else ""})
"""


def parallel(p, bounds, body, **options):
    lower, upper, step = bounds.split(":")
    return p.parallel(f"%i=%n{lower}:%n{upper}:%n{step}", body, **options)


def derive(p, code, buffers, *, mode="reverse", others="", **options):
    """Differentiate `code`, which reads %x and writes %y (both memref<?xf64>); x, dx, y, dy before and after."""
    kinds = "(memref<?xf64>, memref<?xf64>, memref<?xf64>, memref<?xf64>) -> ()"
    arguments = "; ".join(f"%{n}: memref<?xf64>" for n in ("p", "dp", "q", "dq"))
    body = p.expand(CONSTANTS + code)
    if mode == "reverse":
        op = f"""enzyme.autodiff_region(%p, %dp, %q, %dq) <{{activity = [{DUP}, {DUP}], ret_activity = []}}> ({{
^bb0(%x: memref<?xf64>, %y: memref<?xf64>):
{body}enzyme.yield() : () -> ()
}}) : {kinds}
"""
    else:
        op = f"enzyme.fwddiff(%p, %dp, %q, %dq) <{{activity = [{DUP}, {DUP}], fn = @f, ret_activity = []}}> : {kinds}\n"
        others += f""""func.func"() <{{function_type = (memref<?xf64>, memref<?xf64>) -> (), sym_name = "f"}}> ({{
^bb0(%x: memref<?xf64>, %y: memref<?xf64>):
{p.expand(p.prelude) + body}"func.return"() : () -> ()
}}) : () -> ()
"""
    values = [np.asarray(v, np.float64) for v in buffers]
    return [v.tolist() for v in p.data(arguments, op, *values, others=others, **options)]


def iota(n):
    return np.arange(1.0, n + 1)


def if_greater(then, otherwise, limit="2.5"):
    return f"""%lim = const {limit} : f64
%g = arith.cmpf(%a, %lim) <{{predicate = 2 : i64}}> : (f64, f64) -> i1
%m = scf.if(%g) ({{
{then}scf.yield(%u) : (f64) -> ()
}}, {{
{otherwise}scf.yield(%u) : (f64) -> ()
}}) : (i1) -> f64
"""


CUBE = """%w = arith.mulf(%a, %a) : (f64, f64) -> f64
%u = arith.mulf(%w, %a) : (f64, f64) -> f64
"""
DOUBLE = "%u = arith.addf(%a, %a) : (f64, f64) -> f64\n"
POWER = """%f1 = const 1.0 : f64
%m = scf.for(%n0, %n3, %n1, %f1) ({
^bb0(%k: index, %r: f64):
%t = arith.mulf(%r, %a) : (f64, f64) -> f64
scf.yield(%t) : (f64) -> ()
}) : (index, index, index, f64) -> f64
"""
SCRATCH = """%s = memref.alloca() <{operandSegmentSizes = array<i32: 0, 0>}> : () -> memref<1xf64>
memref.store(%a, %s, %n0) : (f64, memref<1xf64>, index) -> ()
%b = memref.load(%s, %n0) : (memref<1xf64>, index) -> f64
%c = arith.mulf(%b, %a) : (f64, f64) -> f64
memref.store(%c, %s, %n0) : (f64, memref<1xf64>, index) -> ()
%m = memref.load(%s, %n0) : (memref<1xf64>, index) -> f64
"""
SUBVIEW = """%s = memref.subview(%x, %i) <{operandSegmentSizes = array<i32: 1, 1, 0, 0>, static_offsets = array<i64:
-9223372036854775808>, static_sizes = array<i64: 1>, static_strides = array<i64: 1>}> : (memref<?xf64>, index) ->
memref<1xf64, strided<[1], offset: ?>>
%a = memref.load(%s, %n0) : (memref<1xf64, strided<[1], offset: ?>>, index) -> f64
"""
WHILE = """%f0 = const 0.0 : f64
scf.while(%n0) ({
^bb0(%i: index):
%t = arith.cmpi(%i, %n4) <{predicate = 2 : i64}> : (index, index) -> i1
scf.condition(%t, %i) : (i1, index) -> ()
}, {
^bb0(%i: index):
""" + LOAD + SQUARE + STORE + """%j = arith.addi(%i, %n1) : (index, index) -> index
scf.yield(%j) : (index) -> ()
}) : (index) -> index
"""  # fmt: skip
PREFIX = """%a0 = memref.load(%x, %n0) : (memref<?xf64>, index) -> f64
memref.store(%a0, %y, %n0) : (f64, memref<?xf64>, index) -> ()
""" + serial("1:4:1", """%h = arith.subi(%i, %n1) : (index, index) -> index
%b = memref.load(%y, %h) : (memref<?xf64>, index) -> f64
""" + LOAD + """%m = arith.mulf(%b, %a) : (f64, f64) -> f64
""" + STORE)  # fmt: skip
SWITCH = """%v = scf.index_switch(%i) <{cases = array<i64: 0, 2>}> ({
%u = arith.addf(%a, %a) : (f64, f64) -> f64
scf.yield(%u) : (f64) -> ()
}, {
scf.yield(%a) : (f64) -> ()
}, {
%u = arith.mulf(%a, %a) : (f64, f64) -> f64
scf.yield(%u) : (f64) -> ()
}) : (index) -> f64
memref.store(%v, %y, %i) : (f64, memref<?xf64>, index) -> ()
"""
VARYING = """%u = arith.addi(%i, %n1) : (index, index) -> index
%f1 = const 1.0 : f64
%m = scf.for(%n0, %u, %n1, %f1) ({
^bb0(%k: index, %r: f64):
%t = arith.mulf(%r, %a) : (f64, f64) -> f64
scf.yield(%t) : (f64) -> ()
}) : (index, index, index, f64) -> f64
"""


def programs(p):
    """(code, cells, gradient of the sum of y by x for x = 1, 2, 3 …)."""
    reduce = p.reduce(("%m", "f64", '"arith.addf"'))
    total = parallel(p, "0:4:1", LOAD + SQUARE, results="%s", inits="%z : f64", tail=reduce)
    product = p.reduce(("%a", "f64", '"arith.mulf"'))
    all_of = parallel(p, "0:4:1", LOAD, results="%s", inits="%z : f64", tail=product)
    put = "memref.store(%s, %y, %n0) : (f64, memref<?xf64>, index) -> ()\n"
    nested = p.parallel(
        "%o=%n0:%n2:%n1",
        p.parallel(
            "%j=%n0:%n2:%n1",
            "%r2 = arith.muli(%o, %n2) : (index, index) -> index\n%i = arith.addi(%r2, %j) : (index, index) -> index\n"
            + LOAD
            + POWER
            + STORE,
        ),
    )
    call = "%m = func.call(%a) <{callee = @sqr}> : (f64) -> f64\n"
    once = "memref.store(%m, %y, %n0) : (f64, memref<?xf64>, index) -> ()\n"
    carried = "%m = arith.mulf(%acc, %a) : (f64, f64) -> f64\nscf.yield(%m) : (f64) -> ()\n"
    every_other = serial("1:6:2", LOAD + carried, "%s", "%acc = %one")
    return {
        "a loop of squares": (serial("0:4:1", LOAD + SQUARE + STORE), 4, [2, 4, 6, 8]),
        "a step that does not divide the range": (serial("1:6:2", LOAD + SQUARE + STORE), 6, [0, 4, 0, 8, 0, 12]),
        "the same with step one": (serial("1:6:1", LOAD + SQUARE + STORE), 6, [0, 4, 6, 8, 10, 12]),
        "a loop that never runs": (serial("4:2:1", LOAD + SQUARE + STORE), 4, [0, 0, 0, 0]),
        "a carried product": (f"%one = const 1.0 : f64\n{every_other}{put}", 6, [0, 24, 0, 12, 0, 8]),
        "a parallel loop": (parallel(p, "0:4:1", LOAD + SQUARE + STORE), 4, [2, 4, 6, 8]),
        "a parallel loop from one in steps of three": (
            parallel(p, "1:8:3", LOAD + SQUARE + STORE),
            8,
            [0, 4, 0, 0, 10, 0, 0, 16],
        ),
        "two parallel loops and a serial one": (nested, 4, [3, 12, 27, 48]),
        "a branch in a serial loop": (serial("0:4:1", LOAD + if_greater(CUBE, DOUBLE) + STORE), 4, [2, 2, 27, 48]),
        "a branch in a parallel loop": (
            parallel(p, "0:4:1", LOAD + if_greater(CUBE, DOUBLE) + STORE),
            4,
            [2, 2, 27, 48],
        ),
        "a switch in a parallel loop": (parallel(p, "0:4:1", LOAD + SWITCH), 4, [1, 2, 6, 2]),
        "loops of different lengths": (parallel(p, "0:4:1", LOAD + VARYING + STORE), 4, [1, 4, 27, 256]),
        "scratch memory in a serial loop": (serial("0:4:1", LOAD + SCRATCH + STORE), 4, [2, 4, 6, 8]),
        "scratch memory in a parallel loop": (parallel(p, "0:4:1", LOAD + SCRATCH + STORE), 4, [2, 4, 6, 8]),
        "a view of one cell": (serial("0:4:1", SUBVIEW + SQUARE + STORE), 4, [2, 4, 6, 8]),
        "a call": (parallel(p, "0:4:1", LOAD + call + STORE), 4, [2, 4, 6, 8]),
        "a while loop": (WHILE, 4, [2, 4, 6, 8]),
        "a recurrence through memory": (PREFIX, 4, [33, 16, 10, 6]),
        "one cell stored again and again": (serial("0:4:1", LOAD + SQUARE + once), 4, [0, 0, 0, 8]),
        "a parallel sum": (f"%z = const 5.0 : f64\n{total}{put}", 4, [2, 4, 6, 8]),
        "a parallel product": (f"%z = const 1.0 : f64\n{all_of}{put}", 4, [24, 12, 8, 6]),
    }


NAMES = (
    "a loop of squares", "a step that does not divide the range", "the same with step one", "a loop that never runs",
    "a carried product", "a parallel loop", "a parallel loop from one in steps of three",
    "two parallel loops and a serial one", "a branch in a serial loop", "a branch in a parallel loop",
    "a switch in a parallel loop", "loops of different lengths", "scratch memory in a serial loop",
    "scratch memory in a parallel loop", "a view of one cell", "a call", "a while loop", "a recurrence through memory",
    "one cell stored again and again", "a parallel sum", "a parallel product",
)  # fmt: skip


def test_every_program_is_named(p):
    assert tuple(programs(p)) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_the_gradient_is_the_one_derived_by_hand(p, schedule, name):
    code, n, expected = programs(p)[name]
    x, dx, _, dy = derive(p, code, (iota(n), [0.0] * n, [0.0] * n, [1.0] * n), others=CALLEE, schedule=schedule)
    assert dx == expected
    assert x == iota(n).tolist()
    assert set(dy) <= {0.0, 1.0}


@pytest.mark.parametrize("name", NAMES)
def test_forward_mode_sees_the_same_derivative(p, name):
    """<dy, J dx> = <J' dy, dx>, exactly: all numbers here are small integers."""
    code, n, _ = programs(p)[name]
    direction = [float((5 * k) % 7 - 3) for k in range(n)]
    seed = [float((3 * k) % 5 - 2) for k in range(n)]
    zeros = [0.0] * n
    _, pulled, _, _ = derive(p, code, (iota(n), zeros, zeros, seed), others=CALLEE)
    _, _, _, pushed = derive(p, code, (iota(n), direction, zeros, zeros), others=CALLEE, mode="forward")
    assert np.dot(pulled, direction) == np.dot(seed, pushed)


@pytest.mark.parametrize("number", range(12))
def test_a_random_polynomial_program_has_the_numeric_gradient(p, number):
    random = np.random.default_rng(number)
    n = 4
    lines, known = [], [f"%v{k}" for k in range(n)]
    for k in range(n):
        lines.append(f"%v{k} = memref.load(%x, %n{k}) : (memref<?xf64>, index) -> f64")
    for k in range(10):
        op = random.choice(["addf", "subf", "mulf"])
        a, b = random.choice(known, 2)
        known.append(f"%t{k}")
        lines.append(f"%t{k} = arith.{op}({a}, {b}) : (f64, f64) -> f64")
        if random.random() < 0.4:
            lines.append(f"memref.store(%t{k}, %x, %n{random.integers(n)}) : (f64, memref<?xf64>, index) -> ()")
        if random.random() < 0.4:
            lines.append(f"%w{k} = memref.load(%x, %n{random.integers(n)}) : (memref<?xf64>, index) -> f64")
            known.append(f"%w{k}")
    lines.append(f"memref.store({known[-1]}, %y, %n0) : (f64, memref<?xf64>, index) -> ()")
    code = "\n".join(lines) + "\n"
    start = random.integers(-2, 3, n) / 2.0
    zeros, seed = np.zeros(n), np.array([1.0, 0, 0, 0])

    def value(x):
        return derive(p, code, (x, zeros, zeros, zeros))[2][0]

    _, found, _, _ = derive(p, code, (start, zeros, zeros, seed))
    for k in range(n):
        h = np.eye(n)[k] * 2.0**-16
        assert found[k] == pytest.approx((value(start + h) - value(start - h)) / 2.0**-15, rel=1e-6, abs=1e-5)

"""memref: bounds, initialisation, lifetimes, views, copies, globals, atomics."""

import numpy as np
import pytest

from difftest.interpreter import atomics
from difftest.model import Mode

LOAD = "memref.load(%{m}, %{i}) : (memref<{t}>, index) -> i32"
STORE = "memref.store(%{v}, %{m}, %{i}) : (i32, memref<{t}>, index) -> ()"
ALLOC = "<{operandSegmentSizes = array<i32: 0, 0>}> : () -> "
DYNAMIC = -(2**63)


@pytest.mark.parametrize("index", [-1, 3, 2**40])
def test_index_outside_its_dimension_is_undefined(p, ints, index):
    for body in (
        "%v = " + LOAD.format(m="A", i="i", t="?xi32"),
        "%x = const 1 : i32\n" + STORE.format(v="x", m="A", i="i", t="?xi32"),
    ):
        assert p.fault("%A: memref<?xi32>; %i: index", body, ints(3), index)[:2] == ("ub", "out-of-bounds")


def test_each_dimension_is_checked_even_when_the_sum_is_inside(p, ints):
    body = "%v = memref.load(%A, %c0, %i) : (memref<2x3xi32>, index, index) -> i32"
    assert p.fault("%A: memref<2x3xi32>; %i: index", body, ints(6).reshape(2, 3), 4)[1] == "out-of-bounds"


def test_out_of_bounds_names_the_first_lane(p, ints):
    body = "%n = const 9 : index\n" + p.parallel("%i=%c0:%n:%c1", "%v = " + LOAD.format(m="A", i="i", t="?xi32"))
    assert p.fault("%A: memref<?xi32>", body, ints(5)) == ("ub", "out-of-bounds", (5,))


def test_reading_fresh_memory(p):
    body = f"%m = memref.alloca() {ALLOC}memref<4xi32>\n%v = " + LOAD.format(m="m", i="c0", t="4xi32")
    assert p.fault("", body, returns="%v : i32")[:2] == ("ub", "uninitialised-read")
    found = p.ok("", body, returns="%v : i32", mode=Mode.INTERMEDIATE)["result0"]
    assert found.skip


def test_uninitialised_value_stored_stays_poison_in_intermediate_mode(p, ints):
    body = f"%m = memref.alloca() {ALLOC}memref<4xi32>\n%v = " + LOAD.format(m="m", i="c0", t="4xi32")
    body += "\n" + STORE.format(v="v", m="A", i="c1", t="?xi32")
    found = p.ok("%A: memref<?xi32>", body, ints(3), mode=Mode.INTERMEDIATE)["arg0"]
    assert found.skip.tolist() == [False, True, False]
    again = body + "\n%x = const 5 : i32\n" + STORE.format(v="x", m="A", i="c1", t="?xi32")
    found = p.ok("%A: memref<?xi32>", again, ints(3), mode=Mode.INTERMEDIATE)["arg0"]
    assert found.skip is None and found.data[1] == 5


LIFETIME = """%x = const 1 : i32
%m = memref.alloc() <{operandSegmentSizes = array<i32: 0, 0>}> : () -> memref<4xi32>
memref.store(%x, %m, %c0) : (i32, memref<4xi32>, index) -> ()
"""
FREE = "memref.dealloc(%m) : (memref<4xi32>) -> ()\n"


def test_lifetime_of_heap_memory(p):
    use = "%v = " + LOAD.format(m="m", i="c0", t="4xi32")
    assert p.data("", LIFETIME + use + "\n" + FREE, returns="%v : i32") == [1]
    assert p.fault("", LIFETIME + FREE + use)[:2] == ("ub", "use-after-free")
    assert p.fault("", LIFETIME + FREE + FREE)[:2] == ("ub", "double-free")


def test_freeing_what_was_not_allocated_is_undefined(p, ints):
    assert p.fault("%m: memref<4xi32>", FREE, ints(4))[:2] == ("ub", "bad-free")


def test_alloca_of_a_loop_body_is_fresh_each_time(p):
    body = f"""%x = const 1 : i32
%n = const 3 : index
scf.for(%c0, %n, %c1) ({{
^bb0(%i: index):
%m = memref.alloca() {ALLOC}memref<4xi32>
%z = arith.cmpi(%i, %c1) <{{predicate = 2 : i64}}> : (index, index) -> i1
scf.if(%z) ({{
memref.store(%x, %m, %c0) : (i32, memref<4xi32>, index) -> ()
scf.yield() : () -> ()
}}, {{
}}) : (i1) -> ()
%v = {LOAD.format(m="m", i="c0", t="4xi32")}
scf.yield() : () -> ()
}}) : (index, index, index) -> ()"""
    assert p.fault("", body) == ("ub", "uninitialised-read", (1,))


def test_alloca_of_an_if_lives_on_and_ends_with_its_scope(p):
    inner = f"""%m = scf.if(%t) ({{
%a = memref.alloca() {ALLOC}memref<4xi32>
memref.store(%x, %a, %c0) : (i32, memref<4xi32>, index) -> ()
scf.yield(%a) : (memref<4xi32>) -> ()
}}, {{
%b = memref.alloca() {ALLOC}memref<4xi32>
scf.yield(%b) : (memref<4xi32>) -> ()
}}) : (i1) -> memref<4xi32>
"""
    head = "%t = const true : i1\n%x = const 3 : i32\n"
    use = "%v = " + LOAD.format(m="m", i="c0", t="4xi32") + "\n"
    assert p.data("", head + inner + use, returns="%v : i32") == [3]
    scope = f"""%m = memref.alloca_scope() ({{
{inner.replace("%m =", "%w =")}memref.alloca_scope.return(%w) : (memref<4xi32>) -> ()
}}) : () -> memref<4xi32>
"""
    assert p.fault("", head + scope + use)[:2] == ("ub", "use-after-free")


def test_alloca_and_alloc_per_lane_are_private(p, schedule):
    for name in ("alloca", "alloc"):
        inner = f"""%m = memref.{name}() {ALLOC}memref<4xi32>
%v = arith.index_cast(%i) : (index) -> i32
memref.store(%v, %m, %c1) : (i32, memref<4xi32>, index) -> ()
%w = {LOAD.format(m="m", i="c1", t="4xi32")}
memref.store(%w, %A, %i) : (i32, memref<?xi32>, index) -> ()"""
        if name == "alloc":
            inner += "\n" + FREE
        body = p.parallel("%i=%c0:%n:%c1", inner)
        found = p.data("%A: memref<?xi32>; %n: index", body, np.zeros(9, np.int32), 9, schedule=schedule)
        assert found[0].tolist() == list(range(9))


def test_memory_of_ended_scopes_is_used_again(p):
    body = f"""%n = const 2000 : index
scf.for(%c0, %n, %c1) ({{
^bb0(%i: index):
%m = memref.alloca() {ALLOC}memref<1000xi32>
scf.yield() : () -> ()
}}) : (index, index, index) -> ()"""
    p.ok("", body, memory=1 << 16)


def subview(source, result, offsets, sizes, strides):
    parts = [
        f"static_{n} = array<i64: {', '.join(map(str, v))}>"
        for n, v in (("offsets", offsets), ("sizes", sizes), ("strides", strides))
    ]
    segments = "operandSegmentSizes = array<i32: 1, 0, 0, 0>"
    return f"%w = memref.subview(%A) <{{{segments}, {', '.join(parts)}}}> : (memref<{source}>) -> memref<{result}>\n"


def test_subview_is_relative_to_its_source(p, ints):
    body = subview("4x6xi32", "2x2xi32, strided<[12, 2], offset: 7>", (1, 1), (2, 2), (2, 2))
    body += "%v = memref.load(%w, %c1, %c1) : (memref<2x2xi32, strided<[12, 2], offset: 7>>, index, index) -> i32"
    assert p.data("%A: memref<4x6xi32>", body, ints(24).reshape(4, 6), returns="%v : i32")[1] == 3 * 6 + 3


def test_subview_may_drop_unit_dimensions(p, ints):
    body = subview("4x6xi32", "6xi32, strided<[1], offset: 12>", (2, 0), (1, 6), (1, 1))
    body += "%n = const 5 : index\n%v = memref.load(%w, %n) : (memref<6xi32, strided<[1], offset: 12>>, index) -> i32"
    assert p.data("%A: memref<4x6xi32>", body, ints(24).reshape(4, 6), returns="%v : i32")[1] == 17


def test_subview_outside_its_source_is_undefined(p, ints):
    body = subview("4x6xi32", "2x2xi32, strided<[12, 2], offset: 20>", (3, 2), (2, 2), (2, 2))
    assert p.fault("%A: memref<4x6xi32>", body, ints(24).reshape(4, 6))[:2] == ("ub", "out-of-bounds")


def reinterpret(offset, sizes, strides, result):
    fields = (("offsets", [offset]), ("sizes", sizes), ("strides", strides))
    parts = [f"static_{n} = array<i64: {', '.join(map(str, v))}>" for n, v in fields]
    properties = f"operandSegmentSizes = array<i32: 1, 0, 0, 0>, {', '.join(parts)}"
    kinds = f"(memref<2xi32, strided<[1], offset: 3>>) -> memref<{result}>"
    return f"%w = memref.reinterpret_cast(%s) <{{{properties}}}> : {kinds}\n"


def test_reinterpret_cast_goes_back_to_the_base_and_checks_accesses_only(p, ints):
    view = subview("8xi32", "2xi32, strided<[1], offset: 3>", (3,), (2,), (1,)).replace("%w =", "%s =")
    result = "20xi32, strided<[1], offset: 1>"
    body = view + reinterpret(1, (20,), (1,), result) + f"%v = memref.load(%w, %i) : (memref<{result}>, index) -> i32"
    args = "%A: memref<8xi32>; %i: index"
    assert p.data(args, body, ints(8), 6, returns="%v : i32")[1] == 7
    assert p.fault(args, body, ints(8), 7)[:2] == ("ub", "out-of-bounds")


def test_expand_collapse_and_transpose_keep_the_elements(p, ints):
    body = """%e = memref.expand_shape(%A) <{reassociation = [[0, 1], [2]], static_output_shape = array<i64: 2,
2, 6>}> : (memref<4x6xi32>) -> memref<2x2x6xi32>
%t = memref.transpose(%e) <{permutation = affine_map<(d0, d1, d2) -> (d2, d0, d1)>}> : (memref<2x2x6xi32>) ->
memref<6x2x2xi32, strided<[1, 12, 6]>>
%c = memref.collapse_shape(%e) <{reassociation = [[0, 1, 2]]}> : (memref<2x2x6xi32>) -> memref<24xi32>
%n = const 5 : index
%v = memref.load(%t, %n, %c1, %c0) : (memref<6x2x2xi32, strided<[1, 12, 6]>>, index, index, index) -> i32
%k = const 17 : index
%u = memref.load(%c, %k) : (memref<24xi32>, index) -> i32"""
    found = p.data("%A: memref<4x6xi32>", body, ints(24).reshape(4, 6), returns="%v, %u : i32, i32")
    assert found[1:] == [17, 17]


def test_collapsing_rows_that_are_not_contiguous_is_undefined(p):
    body = (
        "%c = memref.collapse_shape(%A) <{reassociation = [[0, 1]]}> : (memref<2x3xi32, strided<[4, "
        "1]>>) -> memref<6xi32>"
    )
    assert p.fault("%A: memref<2x3xi32, strided<[4, 1]>>", body, np.zeros((2, 3), np.int32))[:2] == ("ub", "shape")


def test_cast_to_a_wrong_static_size_is_undefined(p, ints):
    body = "%c = memref.cast(%A) : (memref<?xi32>) -> memref<4xi32>"
    p.ok("%A: memref<?xi32>", body, ints(4))
    assert p.fault("%A: memref<?xi32>", body, ints(5))[:2] == ("ub", "memref-cast")


def test_view_reads_bytes_as_elements_and_keeps_them_aligned(p):
    body = """%w = memref.view(%A, %i, %c1) : (memref<12xi8>, index, index) -> memref<?xi32>
%v = memref.load(%w, %c0) : (memref<?xi32>, index) -> i32"""
    given = np.arange(12, dtype=np.int8)
    args = "%A: memref<12xi8>; %i: index"
    assert p.data(args, body, given, 4, returns="%v : i32")[1] == 0x07060504
    assert p.fault(args, body, given, 2)[:2] == ("ub", "misaligned")
    assert p.fault(args, body, given, 12)[:2] == ("ub", "out-of-bounds")


def test_dim_and_rank(p, ints):
    body = (
        "%d = memref.dim(%A, %i) : (memref<?x3xi32>, index) -> index\n%r = memref.rank(%A) : (memref<?x3xi32>) -> index"
    )
    args = "%A: memref<?x3xi32>; %i: index"
    assert p.data(args, body, ints(6).reshape(2, 3), 0, returns="%d, %r : index, index")[1:] == [2, 2]
    assert p.fault(args, body, ints(6).reshape(2, 3), 2)[:2] == ("ub", "out-of-bounds")


def test_strided_metadata(p, ints):
    view = subview("4x6xi32", "2x2xi32, strided<[12, 2], offset: 7>", (1, 1), (2, 2), (2, 2))
    body = view + (
        "%b:6 = memref.extract_strided_metadata(%w) : (memref<2x2xi32, strided<[12, 2], offset: 7>>) -> "
        "(memref<i32>, index, index, index, index, index)"
    )
    found = p.data(
        "%A: memref<4x6xi32>",
        body,
        ints(24).reshape(4, 6),
        returns="%b#1, %b#2, %b#3, %b#4, %b#5 : index, index, index, index, index",
    )
    assert found[1:] == [7, 2, 2, 12, 2]


COPY = "memref.copy(%A, %B) : (memref<?xi32>, memref<?xi32>) -> ()"


def test_copy_moves_all_elements_and_needs_equal_shapes(p, ints):
    args = "%A: memref<?xi32>; %B: memref<?xi32>"
    assert p.data(args, COPY, ints(3), np.zeros(3, np.int32))[1].tolist() == [0, 1, 2]
    assert p.fault(args, COPY, ints(3), np.zeros(4, np.int32))[:2] == ("ub", "shape")


def test_copy_between_overlapping_views_is_undefined(p, ints):
    first = subview("8xi32", "4xi32", (0,), (4,), (1,)).replace("%w =", "%x =")
    for start, bad in ((2, True), (4, False)):
        kind = f"4xi32, strided<[1], offset: {start}>"
        second = subview("8xi32", kind, (start,), (4,), (1,))
        body = first + second + f"memref.copy(%x, %w) : (memref<4xi32>, memref<{kind}>) -> ()"
        if bad:
            assert p.fault("%A: memref<8xi32>", body, ints(8))[:2] == ("ub", "overlap")
        else:
            assert p.data("%A: memref<8xi32>", body, ints(8))[0].tolist() == [0, 1, 2, 3, 0, 1, 2, 3]


def test_copy_of_uninitialised_cells(p, ints):
    body = f"%m = memref.alloc() {ALLOC}memref<3xi32>\nmemref.copy(%m, %A) : (memref<3xi32>, memref<3xi32>) -> ()"
    assert p.fault("%A: memref<3xi32>", body, ints(3))[1] == "uninitialised-read"
    assert p.ok("%A: memref<3xi32>", body, ints(3), mode=Mode.INTERMEDIATE)["arg0"].skip.all()


def test_copy_in_lanes(p, schedule):
    kind = "3xi32, strided<[1], offset: ?>"
    row = f"""%w = memref.subview(%A, %i) <{{operandSegmentSizes = array<i32: 1, 1, 0, 0>, static_offsets =
array<i64: {DYNAMIC}, 0>, static_sizes = array<i64: 1, 3>, static_strides = array<i64: 1, 1>}}>
: (memref<?x3xi32>, index) -> memref<{kind}>
%m = memref.alloca() {ALLOC}memref<3xi32>
memref.copy(%w, %m) : (memref<{kind}>, memref<3xi32>) -> ()
%v = memref.load(%m, %c1) : (memref<3xi32>, index) -> i32
memref.store(%v, %w, %c0) : (i32, memref<{kind}>, index) -> ()"""
    body = p.parallel("%i=%c0:%n:%c1", row)
    given = np.arange(12, dtype=np.int32).reshape(4, 3)
    found = p.data("%A: memref<?x3xi32>; %n: index", body, given, 4, schedule=schedule)
    assert found[0][:, 0].tolist() == [1, 4, 7, 10]


def test_globals_keep_their_state_and_constant_ones_may_not_be_written(p):
    text = (
        'memref.global() <{{{flag}initial_value = dense<[1, 2]> : tensor<2xi32>, sym_name = "g", type = '
        "memref<2xi32>}}> : () -> ()"
    )
    body = """%g = memref.get_global() <{name = @g}> : () -> memref<2xi32>
%x = const 9 : i32
memref.store(%x, %g, %c0) : (i32, memref<2xi32>, index) -> ()
%h = memref.get_global() <{name = @g}> : () -> memref<2xi32>
%v = memref.load(%h, %c0) : (memref<2xi32>, index) -> i32
%u = memref.load(%h, %c1) : (memref<2xi32>, index) -> i32"""
    assert p.data("", body, returns="%v, %u : i32, i32", others=text.format(flag="")) == [9, 2]
    assert p.fault("", body, others=text.format(flag="constant, "))[:2] == ("ub", "constant-write")


def atomic(kind, element, value):
    number = atomics.KINDS.index(kind)
    return (
        f"%o = memref.atomic_rmw(%{value}, %A, %z) <{{kind = {number} : i64}}> : ({element}, "
        f"memref<2x{element}>, index) -> {element}\n"
    )


ATOMS = [
    ("addi", 10, lambda xs: 10 + sum(xs)),
    ("maxs", -2, lambda xs: max(-2, *xs)),
    ("maxu", -2, lambda xs: -2),
    ("mins", 3, lambda xs: min(3, *xs)),
    ("minu", 3, lambda xs: 0),
    ("ori", 64, lambda xs: 64 | 3),
    ("andi", 7, lambda xs: 0),
    ("xori", 64, lambda xs: 64 ^ 0 ^ 1 ^ 2 ^ 3),
    ("muli", 3, lambda xs: 0),
]


@pytest.mark.parametrize(("kind", "start", "expected"), ATOMS, ids=[a[0] for a in ATOMS])
def test_atomic_update_by_all_lanes(p, schedule, kind, start, expected):
    inner = "%v = arith.index_cast(%i) : (index) -> i32\n" + atomic(kind, "i32", "v").replace("%z", "%c1")
    body = p.parallel("%i=%c0:%n:%c1", inner)
    given = np.array([7, start], np.int32)
    found = p.data("%A: memref<2xi32>; %n: index", body, given, 4, schedule=schedule)
    assert found[0].tolist() == [7, expected([0, 1, 2, 3])]


def test_atomic_returns_the_old_value(p):
    body = "%x = const 5 : i32\n" + atomic("addi", "i32", "x").replace("%z", "%c0")
    assert p.data("%A: memref<2xi32>", body, np.array([5, 0], np.int32), returns="%o : i32")[1] == 5


def test_old_value_that_depends_on_the_order_is_not_compared(p):
    inner = "%v = const 1 : i32\n" + atomic("addi", "i32", "v").replace("%z", "%c0")
    inner += "memref.store(%o, %B, %i) : (i32, memref<?xi32>, index) -> ()"
    body = p.parallel("%i=%c0:%n:%c1", inner)
    args = "%A: memref<2xi32>; %B: memref<?xi32>; %n: index"
    found = p.ok(args, body, np.zeros(2, np.int32), np.zeros(3, np.int32), 3)
    assert found["arg0"].data.tolist() == [3, 0] and found["arg0"].skip is None
    assert found["arg1"].skip.all()


def test_float_atomic_sum_is_exact_or_bounded(p, schedule):
    inner = "%v = memref.load(%B, %i) : (memref<?xf32>, index) -> f32\n" + atomic("addf", "f32", "v").replace(
        "%z", "%c0"
    )
    body = p.parallel("%i=%c0:%n:%c1", inner)
    args = "%A: memref<2xf32>; %B: memref<?xf32>; %n: index"
    exact = p.ok(args, body, np.zeros(2, np.float32), np.arange(8, dtype=np.float32) / 4, 8, schedule=schedule)["arg0"]
    assert exact.data[0] == 7.0 and exact.bound is None
    terms = np.array([1.0, 2.0**-24, 2.0**-24], np.float32)
    rounded = p.ok(args, body, np.zeros(2, np.float32), terms, 3, schedule=schedule)["arg0"]
    assert abs(float(rounded.data[0]) - (1 + 2.0**-23)) <= rounded.bound[0] and rounded.bound[1] == 0


def test_generic_atomic_runs_its_region_on_the_old_value(p, schedule):
    inner = """%v = arith.index_cast(%i) : (index) -> i32
%o = memref.generic_atomic_rmw(%A, %c0) ({
^bb0(%old: i32):
%new = arith.addi(%old, %v) : (i32, i32) -> i32
memref.atomic_yield(%new) : (i32) -> ()
}) : (memref<2xi32>, index) -> i32"""
    body = p.parallel("%i=%c0:%n:%c1", inner)
    found = p.data("%A: memref<2xi32>; %n: index", body, np.array([100, 7], np.int32), 5, schedule=schedule)
    assert found[0].tolist() == [110, 7]


def test_alignment_promise(p, ints):
    text = (
        "%w = memref.view(%A, %i, %c1) : (memref<12xi8>, index, index) -> "
        "memref<?xi32>\nmemref.assume_alignment(%w) <{{alignment = {} : i32}}> : (memref<?xi32>) -> ()"
    )
    args = "%A: memref<12xi8>; %i: index"
    p.ok(args, text.format(4), np.zeros(12, np.int8), 4)
    assert p.fault(args, text.format(8), np.zeros(12, np.int8), 4)[:2] == ("ub", "alignment")


@pytest.mark.parametrize("element", ["i1", "i4", "i8", "i16", "i64", "index", "f16", "bf16", "f64"])
def test_every_element_type_round_trips(p, element):
    body = f"""%v = memref.load(%A, %c1) : (memref<2x{element}>, index) -> {element}
memref.store(%v, %A, %c0) : ({element}, memref<2x{element}>, index) -> ()"""
    from difftest.interpreter.values import dtype_of_text

    found = p.data(f"%A: memref<2x{element}>", body, np.array([0, 1]).astype(dtype_of_text(element)))[0]
    assert found.astype(float).tolist() == [1, 1]


def test_memrefs_chosen_per_lane(p, schedule):
    inner = """%c = arith.cmpi(%i, %c1) <{predicate = 2 : i64}> : (index, index) -> i1
%m = arith.select(%c, %A, %B) : (i1, memref<?xi32>, memref<?xi32>) -> memref<?xi32>
%v = memref.load(%m, %i) : (memref<?xi32>, index) -> i32
memref.store(%v, %C, %i) : (i32, memref<?xi32>, index) -> ()"""
    body = p.parallel("%i=%c0:%n:%c1", inner)
    args = "%A: memref<?xi32>; %B: memref<?xi32>; %C: memref<?xi32>; %n: index"
    given = [np.array([1, 2, 3], np.int32), np.array([10, 20, 30], np.int32), np.zeros(3, np.int32), 3]
    assert p.data(args, body, *given, schedule=schedule)[2].tolist() == [1, 20, 30]

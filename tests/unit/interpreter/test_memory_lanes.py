"""Memory whose place or object differs by lane, vector elements, tags in memory, and the rarer atomics."""

import numpy as np
import pytest

from difftest.interpreter import atomics
from difftest.interpreter.access import all_positions
from difftest.interpreter.cells import cell_of
from difftest.interpreter.values import MemRef, Pointer, Tagged, gather, merge, select, tagged
from difftest.ir.types import parse_type
from difftest.model import Mode, OutcomeKind

ARGS = "%A: memref<?xi32>; %B: memref<?xi32>; %C: memref<?xi32>; %n: index"
PICK = """%c = arith.cmpi(%i, %c1) <{predicate = 2 : i64}> : (index, index) -> i1
%m = scf.if(%c) ({
scf.yield(%A) : (memref<?xi32>) -> ()
}, {
scf.yield(%B) : (memref<?xi32>) -> ()
}) : (i1) -> memref<?xi32>
%v = arith.index_cast(%i) : (index) -> i32
"""


def arrays(n=3):
    return [np.full(n, 10, np.int32), np.full(n, 20, np.int32), np.zeros(n, np.int32), n]


def test_stores_go_to_each_lanes_object(p, schedule):
    body = p.parallel("%i=%c0:%n:%c1", PICK + "memref.store(%v, %m, %i) : (i32, memref<?xi32>, index) -> ()")
    found = p.data(ARGS, body, *arrays(), schedule=schedule)
    assert found[0].tolist() == [0, 10, 10] and found[1].tolist() == [20, 1, 2]


def test_stores_through_chosen_memrefs_still_race(p, schedule):
    body = p.parallel("%i=%c0:%n:%c1", PICK + "memref.store(%v, %m, %c0) : (i32, memref<?xi32>, index) -> ()")
    assert p.run(ARGS, body, *arrays(4), schedule=schedule).kind is OutcomeKind.RACE


def test_atomics_go_to_each_lanes_object(p, schedule):
    update = "%o = memref.atomic_rmw(%v, %m, %c0) <{kind = 1 : i64}> : (i32, memref<?xi32>, index) -> i32"
    found = p.data(ARGS, p.parallel("%i=%c0:%n:%c1", PICK + update), *arrays(4), schedule=schedule)
    assert found[0].tolist() == [10] * 4 and found[1].tolist() == [26, 20, 20, 20]


def test_bounds_of_reinterpreted_memory_are_each_lanes_own(p):
    view = """%w = memref.reinterpret_cast(%m, %i) <{operandSegmentSizes = array<i32: 1, 1, 0, 0>,
static_offsets = array<i64: -9223372036854775808>, static_sizes = array<i64: 2>, static_strides = array<i64: 1>}>
: (memref<?xi32>, index) -> memref<2xi32, strided<[1], offset: ?>>
%x = memref.load(%w, %c1) : (memref<2xi32, strided<[1], offset: ?>>, index) -> i32"""
    body = p.parallel("%i=%c0:%k:%c1", PICK + view)
    args = ARGS + "; %k: index"
    assert p.run(args, body, *arrays(3), 2).kind is OutcomeKind.OK
    assert p.fault(args, body, *arrays(3), 3) == ("ub", "out-of-bounds", (2,))


def test_allocations_of_lanes_end_and_are_freed_once(p, schedule):
    new = "%m = memref.alloc() <{operandSegmentSizes = array<i32: 0, 0>}> : () -> memref<2xi32>\n"
    free = "memref.dealloc(%m) : (memref<2xi32>) -> ()\n"
    assert (
        p.fault("%n: index", p.parallel("%i=%c0:%n:%c1", new + free + free), 3, schedule=schedule)[1] == "double-free"
    )
    outer = new + p.parallel("%i=%c0:%n:%c1", free)
    assert p.fault("%n: index", outer, 3, schedule=schedule)[1] == "double-free"


VECTOR = "memref<3xvector<2xf32>>"


def test_vector_elements(p, schedule):
    body = f"""%v = memref.load(%A, %i) : ({VECTOR}, index) -> vector<2xf32>
%w = arith.addf(%v, %v) : (vector<2xf32>, vector<2xf32>) -> vector<2xf32>
memref.store(%w, %A, %i) : (vector<2xf32>, {VECTOR}, index) -> ()"""
    given = np.arange(6, dtype=np.float32).reshape(3, 2)
    found = p.data(f"%A: {VECTOR}; %n: index", p.parallel("%i=%c0:%n:%c1", body), given, 3, schedule=schedule)
    assert np.array_equal(found[0], 2 * given)
    host = body.replace("%i", "%c1")
    assert p.data(f"%A: {VECTOR}", host, given)[0].tolist() == [[0, 1], [4, 6], [4, 5]]


def test_vector_elements_race_by_part(p):
    body = f"""%v = memref.load(%A, %i) : ({VECTOR}, index) -> vector<2xf32>
memref.store(%v, %A, %c0) : (vector<2xf32>, {VECTOR}, index) -> ()"""
    given = np.arange(6, dtype=np.float32).reshape(3, 2)
    assert p.run(f"%A: {VECTOR}; %n: index", p.parallel("%i=%c0:%n:%c1", body), given, 3).kind is OutcomeKind.RACE


def test_uninitialised_vector_is_poison_in_its_parts(p):
    body = f"""%m = memref.alloc() <{{operandSegmentSizes = array<i32: 0, 0>}}> : () -> {VECTOR}
%v = memref.load(%m, %c1) : ({VECTOR}, index) -> vector<2xf32>
memref.store(%v, %A, %c1) : (vector<2xf32>, {VECTOR}, index) -> ()"""
    given = np.zeros((3, 2), np.float32)
    found = p.ok(f"%A: {VECTOR}", body, given, mode=Mode.INTERMEDIATE)["arg0"]
    assert found.skip.tolist() == [[False, False], [True, True], [False, False]]


FLOATS = [
    ("maximumf", 1.0, 3.0),
    ("minimumf", 1.0, 0.0),
    ("maxnumf", 1.0, 3.0),
    ("minnumf", 1.0, 0.0),
    ("mulf", 2.0, 0.0),
]


@pytest.mark.parametrize(("kind", "start", "expected"), FLOATS, ids=[f[0] for f in FLOATS])
def test_float_atomics(p, schedule, kind, start, expected):
    number = atomics.KINDS.index(kind)
    update = f"""%k = arith.index_cast(%i) : (index) -> i32
%v = arith.sitofp(%k) : (i32) -> f32
%o = memref.atomic_rmw(%v, %A, %c0) <{{kind = {number} : i64}}> : (f32, memref<1xf32>, index) -> f32"""
    body = p.parallel("%i=%c0:%n:%c1", update)
    found = p.ok("%A: memref<1xf32>; %n: index", body, np.array([start], np.float32), 4, schedule=schedule)["arg0"]
    assert found.data[0] == expected and found.bound is None


def test_product_that_rounds_in_some_order_is_bounded(p):
    update = """%v = memref.load(%B, %i) : (memref<?xf32>, index) -> f32
%o = memref.atomic_rmw(%v, %A, %c0) <{kind = 12 : i64}> : (f32, memref<1xf32>, index) -> f32"""
    body = p.parallel("%i=%c0:%n:%c1", update)
    factors = np.array([1 + 2.0**-20, 1 + 2.0**-19, 3.0], np.float32)
    args = "%A: memref<1xf32>; %B: memref<?xf32>; %n: index"
    found = p.ok(args, body, np.ones(1, np.float32), factors, 3)["arg0"]
    assert abs(float(found.data[0]) - np.prod(factors.astype(np.float64))) <= found.bound[0]


def test_exchange_by_several_lanes_leaves_an_unknown_value(p):
    update = """%v = arith.index_cast(%i) : (index) -> i32
%o = memref.atomic_rmw(%v, %A, %c0) <{kind = 3 : i64}> : (i32, memref<1xi32>, index) -> i32"""
    body = p.parallel("%i=%c0:%n:%c1", update)
    args = "%A: memref<1xi32>; %n: index"
    assert p.ok(args, body, np.zeros(1, np.int32), 3)["arg0"].skip.all()
    assert p.ok(args, body, np.zeros(1, np.int32), 1)["arg0"].skip is None


def test_atomic_on_fresh_memory(p):
    body = """%m = memref.alloc() <{operandSegmentSizes = array<i32: 0, 0>}> : () -> memref<1xi32>
%v = const 1 : i32
%o = memref.atomic_rmw(%v, %m, %c0) <{kind = 1 : i64}> : (i32, memref<1xi32>, index) -> i32"""
    assert p.fault("", body, returns="%m : memref<1xi32>")[1] == "uninitialised-read"
    assert p.ok("", body, returns="%m : memref<1xi32>", mode=Mode.INTERMEDIATE)["result0"].skip.all()


def test_unsigned_and_narrow_kinds():
    old, new = np.array([-8, 7], np.int8), np.array([3, 3], np.int8)
    assert atomics.named_kind("maxu", "i4").apply(old, new).tolist() == [-8, 7]
    assert atomics.named_kind("minu", "i4").apply(old, new).tolist() == [3, 3]
    assert atomics.named_kind("addi", "i4").apply(old, new).tolist() == [-5, -6]


def test_turns_keep_lanes_of_one_cell_in_order():
    where = np.array([5, 3, 5, 5, 3])
    turns = [t.tolist() for t in atomics.rounds(where)]
    assert [sorted(t) for t in turns] == [[0, 1], [2, 4], [3]]


@pytest.mark.parametrize("varying", ["origin", "stride", "both"])
def test_positions_of_all_elements(varying):
    offset = np.array([0, 40]) if varying != "stride" else 0
    outer = np.array([3, 6]) if varying != "origin" else 3
    cell = cell_of(parse_type("i32"))
    memref = MemRef(base=1, address=64, offset=offset, sizes=(2, 3), strides=(outer, 1), cell=cell, safe=True)
    found, total = all_positions(memref, 2)
    assert total == 6
    for lane in range(2):
        first, stride = gather(memref.origin, lane, 1), gather(memref.strides[0], lane, 1)
        assert found[lane].tolist() == [first + stride * i + j for i in range(2) for j in range(3)]


def test_moving_values_keeps_every_tag():
    lanes = np.array([1, 2])
    value = Tagged(
        np.array([1.0, 2.0, 3.0]),
        poison=np.array([False, True, False]),
        bound=np.array([0.5, 0.0, 0.0]),
        zero=np.array([False, False, True]),
    )
    part = gather(value, lanes, 2)
    assert part.data.tolist() == [2, 3] and part.poison.tolist() == [True, False] and part.bound is None
    assert gather(value, 0, 1).bound == 0.5
    back = merge([(part, np.array([0, 2])), (9.0, np.array([1]))], 3, np.dtype(np.float64))
    assert back.data.tolist() == [2, 9, 3] and back.poison.tolist() == [True, False, False]
    assert back.zero.tolist() == [False, False, True]
    clean = gather(tagged(np.array([1, 2]), poison=np.array([False, True])), np.array([0, 0]), 2)
    assert clean.tolist() == [1, 1]


def test_merging_pointers_and_selecting_values():
    a, b = Pointer(base=1, address=64), Pointer(base=2, address=np.array([128, 132]))
    found = merge([(a, np.array([0])), (gather(b, 1, 1), np.array([1]))], 2, None)
    assert found.base.tolist() == [1, 2] and found.address.tolist() == [64, 132]
    assert select(True, a, b, 2, None) is a
    assert select(np.array([False, True]), 1, np.array([5, 6]), 2, np.dtype(np.int64)).tolist() == [5, 1]
    mask = np.array([[True, False]])
    chosen = select(mask, np.array([[1, 2]]), Tagged(np.array([[3, 4]]), poison=np.array([[True, True]])), 1, None)
    assert chosen.data.tolist() == [[1, 4]] and chosen.poison.tolist() == [[False, True]]


def test_zeros_of_free_sign_stay_marked_in_memory(p):
    body = """%z = arith.subf(%x, %x) <{fastmath = #arith.fastmath<nsz>}> : (f32, f32) -> f32
memref.store(%z, %A, %c0) : (f32, memref<1xf32>, index) -> ()
%y = memref.load(%A, %c0) : (memref<1xf32>, index) -> f32
%one = const 1.0 : f32
%q = arith.divf(%one, %y) : (f32, f32) -> f32"""
    found = p.ok("%A: memref<1xf32>; %x: f32", body, np.ones(1, np.float32), 2.0, returns="%y, %q : f32, f32")
    assert found["arg0"].zero and found["result0"].zero
    assert found["result1"].skip

"""bufferization: what deallocation passes leave between memref p."""

import numpy as np

DEALLOC = """%a = memref.alloc() <{operandSegmentSizes = array<i32: 0, 0>}> : () -> memref<2xi32>
%b = memref.alloc() <{operandSegmentSizes = array<i32: 0, 0>}> : () -> memref<2xi32>
memref.store(%seven, %a, %c0) : (i32, memref<2xi32>, index) -> ()
memref.store(%seven, %b, %c0) : (i32, memref<2xi32>, index) -> ()
%kept = bufferization.dealloc(LEFT, RIGHT, %p, %q, RETAINED) <{operandSegmentSizes = array<i32: 2, 2, 1>}>
  : (memref<2xi32>, memref<2xi32>, i1, i1, memref<2xi32>) -> i1
%x = memref.load(%LOOK, %c0) : (memref<2xi32>, index) -> i32
memref.store(%kept, %m, %c0) : (i1, memref<2xi1>, index) -> ()
"""
ARGUMENTS = "%m: memref<2xi1>; %p: i1; %q: i1; %seven: i32"


def dealloc(left="%a", right="%b", retained="%b", look="b"):
    names = {"LEFT": left, "RIGHT": right, "RETAINED": retained, "LOOK": look}
    text = DEALLOC
    for key, name in names.items():
        text = text.replace(key, name)
    return text


def values(first, second):
    return np.zeros(2, np.bool_), first, second, 7


def test_a_retained_alias_is_not_freed_and_its_ownership_is_returned(p):
    for first in (0, 1):
        for second in (0, 1):
            assert p.data(ARGUMENTS, dealloc(), *values(first, second))[0][0] == second


def test_what_is_owned_and_not_retained_is_freed(p):
    found = p.fault(ARGUMENTS, dealloc(look="a"), *values(1, 0))
    assert found[:2] == ("ub", "use-after-free")
    p.ok(ARGUMENTS, dealloc(look="a"), *values(0, 0))


def test_aliases_are_freed_once(p):
    p.ok(ARGUMENTS, dealloc(right="%a"), *values(1, 1))


def test_freeing_what_is_freed_is_undefined(p):
    free = "memref.dealloc(%a) : (memref<2xi32>) -> ()\n"
    twice = dealloc().replace("%kept =", free + "%kept =")
    assert p.fault(ARGUMENTS, twice, *values(1, 0))[:2] == ("ub", "double-free")


def test_arguments_are_never_owned(p):
    body = """%t = const true : i1
bufferization.dealloc(%m, %t) <{operandSegmentSizes = array<i32: 1, 1, 0>}> : (memref<2xi1>, i1) -> ()
"""
    assert p.fault("%m: memref<2xi1>", body, np.zeros(2, np.bool_))[:2] == ("ub", "bad-free")


def test_each_iteration_frees_its_own(p):
    body = p.parallel(
        "%i=%c0:%c4:%c1",
        """%a = memref.alloc() <{operandSegmentSizes = array<i32: 0, 0>}> : () -> memref<1xindex>
memref.store(%i, %a, %c0) : (index, memref<1xindex>, index) -> ()
%x = memref.load(%a, %c0) : (memref<1xindex>, index) -> index
%odd = arith.trunci(%seven) : (i32) -> i1
bufferization.dealloc(%a, %odd) <{operandSegmentSizes = array<i32: 1, 1, 0>}> : (memref<1xindex>, i1) -> ()
memref.store(%x, %m, %i) : (index, memref<4xindex>, index) -> ()
""",
    )
    body = "%c4 = const 4 : index\n" + body
    assert p.data("%m: memref<4xindex>; %seven: i32", body, np.zeros(4, np.int64), 7)[0].tolist() == [0, 1, 2, 3]


def test_a_clone_has_memory_of_its_own(p):
    body = """%n = bufferization.clone(%m) : (memref<2xi32>) -> memref<2xi32>
%x = memref.load(%n, %c1) : (memref<2xi32>, index) -> i32
memref.dealloc(%n) : (memref<2xi32>) -> ()
memref.store(%x, %m, %c0) : (i32, memref<2xi32>, index) -> ()
"""
    assert p.data("%m: memref<2xi32>", body, np.array([3, 5], np.int32))[0].tolist() == [5, 5]

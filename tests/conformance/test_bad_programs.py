"""One bad program per rule, each rejected under its rule's name, each with a legal near miss that is accepted.

A row is (rule, arguments, bad, good): `bad` and `good` are `(values, body)`; most pairs differ in one number. The
rules are those of docs/semantics.md §1 to §10; the kinds of races come last.
"""

import numpy as np
import pytest

from difftest.model import OutcomeKind
from tests.conformance.conftest import Semantics

P = Semantics()
M = "memref<?xi32>"
M4 = "memref<4xi32>"
INDEX2 = "(index, index) -> index"
MIN = -(2**31)
PAIR = "%x: i32; %y: i32"
A = f"%A: {M}"


def a(n=8):
    return np.arange(n, dtype=np.int32)


def binary(op, flags=""):
    more = f" <{{{flags}}}>" if flags else ""
    return f"%r = arith.{op}(%x, %y){more} : (i32, i32) -> i32\n"


def overflow(flag):
    return f"overflowFlags = #arith.overflow<{flag}>"


def numbers(arguments, body, bad, good):
    """A row in which only the arguments differ."""
    return arguments, (bad, body), (good, body)


def bodies(arguments, values, bad, good):
    """A row in which only the program differs."""
    return arguments, (values, bad), (values, good)


FILLED = "%seven = const 7 : i32\n" + P.alloc("m", M4) + P.store("%seven", "%m", "%c0", M4)
FREE = f"memref.dealloc(%m) : ({M4}) -> ()\n"
LANE = "%x = arith.index_cast(%i) : (index) -> i32\n%next = arith.addi(%i, %c1) : (index, index) -> index\n"
FOUR = "%c4 = const 4 : index\n"
WARP = "%c32 = const 32 : index\n"
ATOMIC = f"%o = memref.atomic_rmw(%x, %A, %c0) <{{kind = 1 : i64}}> : (i32, {M}, index) -> i32\n"
BARRIER = "gpu.barrier() : () -> ()\n"


def par(body):
    return FOUR + P.parallel("%i=%c0:%c4:%c1", LANE + body)


def kernel(body, *, block="%c4", grid="%c1"):
    return FOUR + WARP + P.launch("%x = arith.index_cast(%tx) : (index) -> i32\n" + body, block=block, grid=grid)


def subview(offset):
    kind = f"memref<4xi32, strided<[1], offset: {offset}>>"
    static = f"static_offsets = array<i64: {offset}>, static_sizes = array<i64: 4>, static_strides = array<i64: 1>"
    segments = "operandSegmentSizes = array<i32: 1, 0, 0, 0>"
    return f"%w = memref.subview(%A) <{{{segments}, {static}}}> : (memref<8xi32>) -> {kind}\n", kind


def copy(source, target):
    (first, one), (second, two) = subview(source), subview(target)
    return first.replace("%w", "%f") + second.replace("%w", "%t") + f"memref.copy(%f, %t) : ({one}, {two}) -> ()\n"


def scoped(uses):
    """An alloca whose scope is one iteration of a loop; with `uses` it is read after its end."""
    carried = "%z = " + f"scf.for(%c0, %c4, %c1, %start) ({{\n^bb0(%i: index, %was: {M4}):\n"
    inner = P.alloc("n", M4, op="memref.alloca") + "%one = const 1 : i32\n" + P.store("%one", "%n", "%c0", M4)
    last = "%n" if uses else "%was"
    end = f"scf.yield({last}) : ({M4}) -> ()\n}}) : (index, index, index, {M4}) -> {M4}\n"
    start = P.alloc("start", M4) + "%s = const 5 : i32\n" + P.store("%s", "%start", "%c0", M4)
    return FOUR + start + carried + inner + end + P.load("r", "%z", "%c0", M4)


def shuffled(width):
    moved = f"%o = const 1 : i32\n%w = const {width} : i32\n%s, %ok = gpu.shuffle(%x, %o, %w) "
    moved += "<{mode = #gpu<shuffle_mode xor>}> : (i32, i32, i32) -> (i32, i1)\n"
    return kernel(moved + P.store("%s", "%A", "%tx"), block="%c32")


def llvm(access):
    """An access of i32 at byte %x of an object of 16 bytes."""
    head = f'%p = "enzymexla.memref2pointer"(%A) : ({M}) -> !llvm.ptr\n%q = llvm.getelementptr(%p, %x) '
    head += "<{elem_type = i8, rawConstantIndices = array<i32: -2147483648>}> : (!llvm.ptr, i32) -> !llvm.ptr\n"
    return head + access


LOAD32 = "%r = llvm.load(%q) : (!llvm.ptr) -> i32\n"
NULL = "%null = llvm.mlir.zero() : () -> !llvm.ptr\n%r = llvm.load(%null) : (!llvm.ptr) -> i32\n"
LAST = P.load("v", "%A", "%c0")
TEST = "%ok = arith.cmpi(%x, %y) <{predicate = 0 : i64}> : (i32, i32) -> i1\n"
UNREACHABLE = TEST + "scf.if(%ok) ({\nub.unreachable() : () -> ()\n}, {\n}) : (i1) -> ()\n"
CAST = f"%r = memref.cast(%A) : ({M}) -> memref<4xi32>\n"
ASSERT = TEST + 'cf.assert(%ok) <{msg = "no"}> : (i1) -> ()\n'
NEGATIVE = P.alloc("m", M, sizes="%n")
DISTANT = P.load("v", "%A", "%n")


def chosen(yes, no):
    """A load whose index is one of a constant and poison."""
    choice = f"%i = arith.select(%k, %{yes}, %{no}) : (i1, index, index) -> index\n"
    return "%p = ub.poison() : () -> index\n" + choice + P.load("r", "%A", "%i")


def divergent(limit):
    """A barrier of those of four work items whose number is below `limit`."""
    few = f"%few = arith.cmpi(%tx, %c{limit}) <{{predicate = 6 : i64}}> : (index, index) -> i1\n"
    return kernel(few + P.guarded("%few", BARRIER))


def device(more):
    """A host store to memory of gpu.alloc."""
    made = P.alloc("m", M4, op="gpu.alloc").replace("array<i32: 0, 0>", f"array<i32: 0, 0, 0>{more}")
    return made + "%one = const 1 : i32\n" + P.store("%one", "%m", "%c0", M4)


def blocks(cell, block):
    """Four blocks, each of which stores its number to `cell`."""
    return kernel("%b = arith.index_cast(%bx) : (index) -> i32\n" + P.store("%b", "%A", cell), grid="%c4", block=block)


def asynchronous(*, ordered):
    """Two memsets of one buffer, the second after the first or after nothing."""
    token = "!gpu.async.token"
    start = f"%t0 = gpu.wait() : () -> {token}\n%u = const 1 : i32\n%w = const 2 : i32\n"
    first = f"%t1 = gpu.memset(%t0, %A, %u) : ({token}, {M}, i32) -> {token}\n"
    after = "%t1" if ordered else "%t0"
    second = f"%t2 = gpu.memset({after}, %A, %w) : ({token}, {M}, i32) -> {token}\n"
    return start + first + second + f"gpu.wait(%t1, %t2) : ({token}, {token}) -> ()\n"


def a_global(more):
    value = f"{more}initial_value = dense<[1, 2, 3, 4]> : tensor<4xi32>"
    return f'memref.global() <{{{value}, sym_name = "g", type = {M4}}}> : () -> ()\n'


GLOBAL = f"%g = memref.get_global() <{{name = @g}}> : () -> {M4}\n%one = const 1 : i32\n"
WRITE = GLOBAL + P.store("%one", "%g", "%c0", M4)
OTHERS = {"constant-write": (a_global("constant, "), a_global(""))}

ROWS = {
    "division-by-zero": numbers(PAIR, binary("divui"), (5, 0), (5, -1)),
    "signed-division-overflow": numbers(PAIR, binary("divsi"), (MIN, -1), (MIN + 1, -1)),
    "nsw": numbers(PAIR, binary("addi", overflow("nsw")), (2**31 - 1, 1), (2**31 - 1, 0)),
    "nuw": numbers(PAIR, binary("subi", overflow("nuw")), (3, 4), (4, 4)),
    "exact": numbers(PAIR, binary("divsi", "isExact"), (7, 2), (8, 2)),
    "shift-amount": numbers(PAIR, binary("shrui"), (1, 32), (1, 31)),
    "nneg": numbers("%x: i32", "%r = arith.extui(%x) <{nonNeg}> : (i32) -> i64\n", (-1,), (1,)),
    "disjoint": numbers(
        "%x: i32; %y: i32", "%r = llvm.or(%x, %y) <{isDisjoint}> : (i32, i32) -> i32\n", (3, 6), (1, 6)
    ),
    "fptosi-range": numbers(
        "%x: f32", "%r = arith.fptosi(%x) : (f32) -> i8\n", (np.float32(128),), (np.float32(127.9),)
    ),
    "nnan": numbers(
        "%x: f32",
        "%r = arith.negf(%x) <{fastmath = #arith.fastmath<nnan>}> : (f32) -> f32\n",
        (np.float32(np.nan),),
        (np.float32(np.inf),),
    ),
    "ninf": numbers(
        "%x: f32",
        "%r = arith.addf(%x, %x) <{fastmath = #arith.fastmath<ninf>}> : (f32, f32) -> f32\n",
        (np.float32(3e38),),
        (np.float32(1e38),),
    ),
    "index-width": numbers("%n: index", f"%r = arith.muli(%n, %n) : {INDEX2}\n", (2**16,), (46340,)),
    "out-of-bounds": numbers(f"{A}; %n: index", DISTANT, (a(), 8), (a(), 7)),
    "out-of-bounds below": numbers(f"{A}; %n: index", DISTANT, (a(), -1), (a(), 0)),
    "out-of-bounds subview": numbers(
        "%A: memref<8xi32>; %n: index",
        "%w = memref.subview(%A, %n) <{operandSegmentSizes = array<i32: 1, 1, 0, 0>, "
        "static_offsets = array<i64: -9223372036854775808>, static_sizes = array<i64: 4>, "
        "static_strides = array<i64: 1>}> : (memref<8xi32>, index) -> memref<4xi32, strided<[1], offset: ?>>\n",
        (a(), 5),
        (a(), 4),
    ),
    "out-of-bounds pointer": numbers(f"{A}; %x: i32", llvm(LOAD32), (a(4), 16), (a(4), 12)),
    "negative-size": numbers("%n: index", NEGATIVE, (-1,), (0,)),
    "uninitialised-read": bodies("", (), FILLED + P.load("r", "%m", "%c1", M4), FILLED + P.load("r", "%m", "%c0", M4)),
    "use-after-free": bodies(
        "", (), FILLED + FREE + P.load("r", "%m", "%c0", M4), FILLED + P.load("r", "%m", "%c0", M4) + FREE
    ),
    "use-after-free scope": bodies("", (), scoped(uses=True), scoped(uses=False)),
    "double-free": bodies("", (), FILLED + FREE + FREE, FILLED + FREE),
    "bad-free": bodies("", (), FILLED.replace("memref.alloc(", "memref.alloca(") + FREE, FILLED + FREE),
    "misaligned": numbers(f"{A}; %x: i32", llvm(LOAD32), (a(4), 2), (a(4), 4)),
    "null-access": bodies(f"{A}; %x: i32", (a(4), 0), NULL, llvm(LOAD32)),
    "overlap": bodies("%A: memref<8xi32>", (a(),), copy(0, 2), copy(0, 4)),
    "memref-cast": numbers(A, CAST, (a(5),), (a(4),)),
    "loop-step": numbers("%n: index", FOUR + P.loop("%i", "%c4", "", step="%n"), (0,), (1,)),
    "loop-end": numbers(
        "%n: i32; %s: i32; %l: i32",
        P.loop("%i", "%n", "", lower="%l", step="%s", kind="i32"),
        (2**31 - 1, 4, 2**31 - 3),
        (2**31 - 1, 2, 2**31 - 3),
    ),
    "assertion": numbers(PAIR, ASSERT, (2, 1), (2, 2)),
    "unreachable": numbers(PAIR, UNREACHABLE, (3, 3), (3, 4)),
    "constant-write": bodies("", (), WRITE, WRITE + LAST.replace("%A", "%g").replace(M, M4)),
    "poison-sink": bodies(f"{A}; %k: i1", (a(), True), chosen("p", "c1"), chosen("c1", "p")),
    "barrier-divergence": bodies(A, (a(),), divergent(1), divergent(4)),
    "shuffle-width": bodies(A, (a(32),), shuffled(33), shuffled(32)),
    "host-access": bodies("", (), device(""), device(", hostShared")),
    "race writes": bodies(A, (a(),), par(P.store("%x", "%A", "%c0")), par(P.store("%x", "%A", "%i"))),
    "race read and write": bodies(
        A,
        (a(),),
        par(P.load("v", "%A", "%next") + P.store("%x", "%A", "%i")),
        par(P.load("v", "%A", "%i") + P.store("%x", "%A", "%i")),
    ),
    "race shared sum": bodies(
        A,
        (a(),),
        par(P.load("v", "%A", "%c0") + "%s = arith.addi(%v, %x) : (i32, i32) -> i32\n" + P.store("%s", "%A", "%c0")),
        par(ATOMIC),
    ),
    "race atomic and plain": bodies(A, (a(),), par(ATOMIC + LAST), par(ATOMIC) + LAST),
    "race across a missing barrier": bodies(
        A,
        (a(),),
        kernel(P.store("%x", "%A", "%tx") + LAST),
        kernel(P.store("%x", "%A", "%tx") + BARRIER + LAST),
    ),
    "race between blocks": bodies(A, (a(),), blocks("%tx", "%c4"), blocks("%bx", "%c1")),
    "race of asynchronous operations": bodies(A, (a(),), asynchronous(ordered=False), asynchronous(ordered=True)),
}


@pytest.mark.parametrize("row", ROWS)
def test_a_bad_program_is_rejected_under_its_rule_and_its_near_miss_is_not(row, schedule):
    arguments, bad, good = ROWS[row]
    rule = row.split(" ")[0]
    kind = OutcomeKind.RACE if rule == "race" else OutcomeKind.UB
    wrong, right = OTHERS.get(row, ("", ""))
    found = P.run(arguments, bad[1], *bad[0], others=wrong, schedule=schedule)
    assert (found.kind, found.fault and found.fault.rule) == (kind, rule), found.fault
    assert found.fault.op and found.fault.line, "a verdict names its place"
    fine = P.run(arguments, good[1], *good[0], others=right, schedule=schedule)
    assert fine.kind is OutcomeKind.OK, fine.fault


def test_there_are_at_least_thirty_rows_and_no_two_test_one_pair():
    assert len(ROWS) >= 30
    assert len({repr(r) for r in ROWS.values()}) == len(ROWS)

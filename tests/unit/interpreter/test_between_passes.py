"""Forms that only passes leave: reallocations, casts of index width, pointers, constants of structs, choices "
"of memory."""

import numpy as np
import pytest

from difftest.model import Mode, OutcomeKind

M = "memref<?xi32>"
P = "!llvm.ptr"
A = f"%A: {M}"
ALLOC = f"%m = memref.alloc(%n) <{{operandSegmentSizes = array<i32: 1, 0>}}> : (index) -> {M}\n"


def load(name, memref, index="c0", kind=M):
    return f"%{name} = memref.load(%{memref}, %{index}) : ({kind}, index) -> i32\n"


def store(value, memref, index="c0", kind=M):
    return f"memref.store(%{value}, %{memref}, %{index}) : (i32, {kind}, index) -> ()\n"


# --- realloc --------------------------------------------------------------------------------------------------

GROW = f"%r = memref.realloc(%m, %k) : ({M}, index) -> {M}\n"
REALLOC = "%n: index; %k: index"


def test_a_reallocation_keeps_the_beginning_and_ends_the_old_memory(p):
    fill = ALLOC + "%x = const 7 : i32\n" + store("x", "m") + store("x", "m", "c1")
    assert p.data(REALLOC, fill + GROW + load("v", "r", "c1"), 2, 4, returns="%v : i32")[0] == 7
    assert p.data(REALLOC, fill + GROW + load("v", "r"), 2, 1, returns="%v : i32")[0] == 7
    assert p.fault(REALLOC, fill + GROW + load("v", "r", "c1"), 2, 1)[1] == "out-of-bounds"
    assert p.fault(REALLOC, fill + GROW + load("v", "m"), 2, 4)[1] == "use-after-free"
    assert p.fault(REALLOC, fill + GROW + GROW.replace("%r", "%q"), 2, 4)[1] == "use-after-free"
    later = "%c3 = const 3 : index\n" + load("v", "r", "c3")
    assert p.fault(REALLOC, fill + GROW + later, 2, 4)[1] == "uninitialised-read"
    poison = ALLOC + "%u = ub.poison() : () -> i32\n" + store("u", "m") + GROW + load("v", "r")
    assert p.ok(REALLOC, poison, 1, 2, returns="%v : i32", mode=Mode.INTERMEDIATE)["result0"].skip


def test_only_heap_memory_is_reallocated(p):
    body = ALLOC.replace("memref.alloc(", "memref.alloca(") + GROW
    assert p.fault(REALLOC, body, 2, 4)[:2] == ("ub", "bad-free")
    strided = GROW.replace(f"-> {M}", "-> memref<?xi32, strided<[2]>>")
    assert p.fault(REALLOC, ALLOC + strided, 2, 4)[0] == "unsupported"


def test_reallocation_per_lane_and_of_shared_memory(p, ints):
    own = (
        ALLOC
        + "%x = arith.index_cast(%i) : (index) -> i32\n"
        + store("x", "m")
        + GROW
        + load("v", "r")
        + store("v", "A", "i")
    )
    loop = "%c3 = const 3 : index\n" + p.parallel("%i=%c0:%c3:%c1", own)
    assert p.data(f"{A}; {REALLOC}", loop, ints(3) + 5, 1, 2)[0].tolist() == [0, 1, 2]
    shared = ALLOC + p.parallel("%i=%c0:%c1:%c1", GROW)
    assert p.run(REALLOC, shared, 2, 4).kind is OutcomeKind.UNSUPPORTED


# --- numbers --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("x", "expected"), [(0.5, 0.5), (-3, -1), (9, 1), (np.nan, np.nan)])
def test_clampf_is_what_its_name_says(p, x, expected):
    body = "%lo = const -1.0 : f32\n%hi = const 1.0 : f32\n%r = math.clampf(%x, %lo, %hi) : (f32, f32, f32) -> f32\n"
    found = p.data("%x: f32", body, np.float32(x), returns="%r : f32")[0]
    assert np.array_equal(found, np.float32(expected), equal_nan=True)


def test_clampf_keeps_the_bound_of_what_it_clamps(p):
    body = (
        "%t = const 3.0 : f32\n%q = arith.divf(%x, %t) : (f32, f32) -> f32\n%lo = const -1.0 : f32\n%hi = "
        "const 1.0 : f32\n"
    )
    body += "%r = math.clampf(%q, %lo, %hi) : (f32, f32, f32) -> f32\n"
    assert p.ok("%x: f32", body, np.float32(1), returns="%r : f32")["result0"].bound > 0


def test_index_at_32_bits_between_conversions(p):
    body = "%a = builtin.unrealized_conversion_cast(%x) : (index) -> i32\n"
    body += "%b = builtin.unrealized_conversion_cast(%a) : (i32) -> index\n"
    assert [int(v) for v in p.data("%x: index", body, -5, returns="%a, %b : i32, index")] == [-5, -5]
    refused = "%a = builtin.unrealized_conversion_cast(%x) : (index) -> i16\n"
    assert p.fault("%x: index", refused, 1)[0] == "unsupported"
    several = "%a = builtin.unrealized_conversion_cast(%x, %x) : (index, index) -> i64\n"
    assert p.fault("%x: index", several, 1)[0] == "unsupported"


def test_addresses_as_numbers(p, ints):
    body = f'%p = "enzymexla.memref2pointer"(%A) : ({M}) -> {P}\n%q = llvm.getelementptr(%p) '
    body += f"<{{elem_type = i32, rawConstantIndices = array<i32: 3>}}> : ({P}) -> {P}\n"
    body += f"%a = llvm.ptrtoint(%p) : ({P}) -> i32\n%b = llvm.ptrtoint(%q) : ({P}) -> i32\n"
    body += "%d = arith.subi(%b, %a) : (i32, i32) -> i32\n"
    body += f"%e = llvm.icmp(%p, %q) <{{predicate = 6 : i64}}> : ({P}, {P}) -> i1\n"
    assert [int(v) for v in p.data(A, body, ints(4), returns="%d, %e : i32, i1")[1:]] == [12, 1]
    wrong = body.replace("predicate = 6", "predicate = 60")
    assert p.fault(A, wrong, ints(4))[0] == "unsupported"
    same = (
        f"%q = llvm.bitcast(%p) : ({P}) -> {P}\n%e = llvm.icmp(%p, %q) <{{predicate = 0 : i64}}> : ({P}, {P}) -> i1\n"
    )
    first = body.split("\n")[0] + "\n"
    assert p.data(A, first + same, ints(1), returns="%e : i1")[1]


def test_floats_as_llvm_bits(p):
    body = "%b = llvm.bitcast(%x) : (f32) -> i32\n"
    assert p.data("%x: f32", body, np.float32(1), returns="%b : i32") == [0x3F800000]


# --- constants and choices ------------------------------------------------------------------------------------


def test_constants_of_arrays_and_structs(p):
    body = '%s = llvm.mlir.constant() <{value = "ab\\FF"}> : () -> !llvm.array<3 x i8>\n'
    body += "%d = llvm.mlir.constant() <{value = dense<[1.5, 2.5]> : tensor<2xf32>}> : () -> !llvm.array<2 x f32>\n"
    body += "%t = llvm.mlir.constant() <{value = [3 : i32, 4.0 : f64]}> : () -> !llvm.struct<(i32, f64)>\n"
    get = "%{0} = llvm.extractvalue(%{1}) <{{position = array<i64: {2}>}}> : ({3}) -> {4}\n"
    body += get.format("a", "s", 2, "!llvm.array<3 x i8>", "i8") + get.format(
        "b", "d", 1, "!llvm.array<2 x f32>", "f32"
    )
    body += get.format("c", "t", 0, "!llvm.struct<(i32, f64)>", "i32") + get.format(
        "e", "t", 1, "!llvm.struct<(i32, f64)>", "f64"
    )
    assert p.data("", body, returns="%a, %b, %c, %e : i8, f32, i32, f64") == [-1, 2.5, 3, 4.0]
    for bad in ("%s = llvm.mlir.constant() <{value = 3 : i32}> : () -> !llvm.array<3 x i8>\n",
                "%s = llvm.mlir.constant() <{value = 3 : i64}> : () -> !llvm.ptr\n"):  # fmt: skip
        assert p.fault("", bad)[0] == "unsupported"


PICK = "%u = ub.poison() : () -> i1\n%r = llvm.select(%{0}, %a, %b) : (i1, {1}, {1}) -> {1}\n"


def test_choices_by_poison_are_poison(p, ints):
    number = PICK.format("u", "i32")
    assert p.ok("%a: i32; %b: i32", number, 1, 2, returns="%r : i32")["result0"].skip
    pair = "!llvm.struct<(i32, i32)>"
    make = (
        f"%z = llvm.mlir.zero() : () -> {pair}\n%a = llvm.insertvalue(%z, %x) <{{position = array<i64: 1>}}> "
        f": ({pair}, i32) -> {pair}\n"
    )
    take = f"%v = llvm.extractvalue(%r) <{{position = array<i64: 1>}}> : ({pair}) -> i32\n"
    chosen = make + f"%b = llvm.mlir.zero() : () -> {pair}\n" + PICK.format("u", pair)
    assert p.ok("%x: i32", chosen + take, 5, returns="%v : i32")["result0"].skip
    frozen = chosen + f"%f = llvm.freeze(%r) : ({pair}) -> {pair}\n" + take.replace("%r", "%f")
    assert p.ok("%x: i32", frozen, 5, returns="%v : i32")["result0"].skip
    pointers = f'%a = "enzymexla.memref2pointer"(%A) : ({M}) -> {P}\n%b = llvm.mlir.zero() : () -> {P}\n' + PICK.format(
        "u", P
    )
    assert p.fault(A, pointers + f"%v = llvm.load(%r) : ({P}) -> i32\n", ints(2))[:2] == ("ub", "null-access")


def test_choices_by_an_uncertain_comparison_are_not_compared(p):
    body = (
        "%t = const 3.0 : f32\n%q = arith.divf(%x, %t) : (f32, f32) -> f32\n%w = arith.mulf(%q, %t) : (f32, "
        "f32) -> f32\n"
    )
    body += "%u = arith.cmpf(%w, %x) <{predicate = 1 : i64}> : (f32, f32) -> i1\n"
    number = body + "%r = llvm.select(%u, %a, %b) : (i1, i32, i32) -> i32\n"
    assert p.ok("%x: f32; %a: i32; %b: i32", number, np.float32(1), 1, 2, returns="%r : i32")["result0"].skip
    pointer = body + f'%a = "enzymexla.memref2pointer"(%A) : ({M}) -> {P}\n%b = llvm.mlir.zero() : () -> {P}\n'
    pointer += f"%r = llvm.select(%u, %a, %b) : (i1, {P}, {P}) -> {P}\n%v = llvm.load(%r) : ({P}) -> i32\n"
    assert p.run(f"%x: f32; {A}", pointer, np.float32(1), np.zeros(2, np.int32)).kind is OutcomeKind.OK


@pytest.mark.parametrize("name", ["sadd", "umul"])
def test_overflow_intrinsics(p, name):
    pair = "!llvm.struct<(i8, i1)>"
    body = f"%s = llvm.intr.{name}.with.overflow(%x, %y) : (i8, i8) -> {pair}\n"
    body += f"%v = llvm.extractvalue(%s) <{{position = array<i64: 0>}}> : ({pair}) -> i8\n"
    body += f"%o = llvm.extractvalue(%s) <{{position = array<i64: 1>}}> : ({pair}) -> i1\n"
    found = p.data("%x: i8; %y: i8", body, 100, 100, returns="%v, %o : i8, i1")
    assert int(found[0]) == ((200 if name == "sadd" else 10000) + 128) % 256 - 128 and found[1]
    assert not p.data("%x: i8; %y: i8", body, 3, 4, returns="%v, %o : i8, i1")[1]
    poison = "%x = ub.poison() : () -> i8\n" + body
    assert p.fault("%y: i8", poison, 1)[:2] == ("ub", "poison-sink")
    plain = f"%s = llvm.intr.{name}.with.overflow(%x, %x) : (i8, i8) -> i8\n"
    assert p.fault("%x: i8", plain, 1)[0] == "unsupported"


def test_promises_of_intrinsics(p):
    body = "%ok = arith.cmpi(%x, %y) <{predicate = 0 : i64}> : (i32, i32) -> i1\nllvm.intr.assume(%ok) : (i1) -> ()\n"
    assert p.run("%x: i32; %y: i32", body, 1, 1).kind is OutcomeKind.OK
    assert p.fault("%x: i32; %y: i32", body, 1, 2)[:2] == ("ub", "assumption")
    assert p.fault("", "llvm.unreachable() : () -> ()\n")[:2] == ("ub", "unreachable")
    lowest = "%r = llvm.intr.abs(%x) <{is_int_min_poison = true}> : (i32) -> i32\n"
    assert p.fault("%x: i32", lowest, -(2**31))[1] == "abs-of-minimum"
    zero = "%r = llvm.intr.ctlz(%x) <{is_zero_poison = true}> : (i32) -> i32\n"
    assert p.fault("%x: i32", zero, 0)[1] == "zero-count"
    assert p.data("%x: i32", zero.replace("true", "false").replace("ctlz", "cttz"), 0, returns="%r : i32") == [32]
    summed = "%r = llvm.intr.fmuladd(%x, %x, %x) : (f32, f32, f32) -> f32\n"
    assert p.data("%x: f32", summed, np.float32(3), returns="%r : f32") == [12]


# --- memory ---------------------------------------------------------------------------------------------------


def test_casts_that_change_nothing(p, ints):
    body = f"%m = memref.memory_space_cast(%A) : ({M}) -> memref<?xi32, 1>\n" + load("v", "m", "c1", "memref<?xi32, 1>")
    assert p.data(A, body, ints(2), returns="%v : i32")[1] == 1
    two = f"%x, %y = memref.distinct_objects(%A, %B) : ({M}, {M}) -> ({M}, {M})\n" + load("v", "y", "c1")
    assert p.data(f"{A}; %B: {M}", two, ints(2), ints(2) + 5, returns="%v : i32")[2] == 6


def test_promised_alignment(p, ints):
    body = f"%m = memref.assume_alignment(%A) <{{alignment = 16 : i32}}> : ({M}) -> {M}\n" + load("v", "m")
    assert p.data(A, body, ints(2), returns="%v : i32")[1] == 0
    static = "static_offsets = array<i64: 1>, static_sizes = array<i64: 2>, static_strides = array<i64: 1>"
    kind = "memref<2xi32, strided<[1], offset: 1>>"
    view = f"%w = memref.subview(%A) <{{operandSegmentSizes = array<i32: 1, 0, 0, 0>, {static}}}> : ({M}) -> {kind}\n"
    moved = view + f"%m = memref.assume_alignment(%w) <{{alignment = 16 : i32}}> : ({kind}) -> {kind}\n"
    assert p.fault(A, moved, ints(4))[:2] == ("ub", "alignment")


def test_the_pointer_of_a_buffer_is_a_number(p, ints):
    body = f"%a = memref.extract_aligned_pointer_as_index(%A) : ({M}) -> index\n"
    assert int(p.data(A, body, ints(2), returns="%a : index")[1]) % 64 == 0


def test_layouts_that_permute(p):
    kind = "memref<2x3xi32, affine_map<(d0, d1) -> (d1, d0)>>"
    body = f"%m = memref.alloc() <{{operandSegmentSizes = array<i32: 0, 0>}}> : () -> {kind}\n%x = const 9 : i32\n"
    body += f"memref.store(%x, %m, %c1, %c0) : (i32, {kind}, index, index) -> ()\n%c3 = const 3 : index\n"
    body += (
        f"%b:6 = memref.extract_strided_metadata(%m) : ({kind}) -> (memref<i32>, index, index, index, index, index)\n"
    )
    body += f"%v = memref.load(%m, %c1, %c0) : ({kind}, index, index) -> i32\n"
    found = p.data("", body, returns="%v, %b#4, %b#5 : i32, index, index")
    assert [int(x) for x in found] == [9, 1, 2]
    strange = kind.replace("(d1, d0)>", "(d0 + d1, d0)>")
    refused = f"%m = memref.alloc() <{{operandSegmentSizes = array<i32: 0, 0>}}> : () -> {strange}\n"
    assert p.fault("", refused)[0] == "unsupported"


def test_negative_sizes_are_undefined(p):
    assert p.fault("%n: index", ALLOC, -2)[:2] == ("ub", "negative-size")


# --- calls ----------------------------------------------------------------------------------------------------

TWICE = """func.func() <{function_type = (i32) -> i32, sym_name = "twice"}> ({
^bb0(%q: i32):
%w = arith.addi(%q, %q) : (i32, i32) -> i32
func.return(%w) : (i32) -> ()
}) : () -> ()
"""


def test_calls_through_a_known_reference(p):
    body = "%f = func.constant() <{value = @twice}> : () -> ((i32) -> i32)\n"
    body += "%r = func.call_indirect(%f, %x) : ((i32) -> i32, i32) -> i32\n"
    assert p.data("%x: i32", body, 4, returns="%r : i32", others=TWICE) == [8]
    assert p.fault("%x: i32", body.replace("@twice", "@other"), 4, others=TWICE)[0] == "unsupported"
    bare = body.replace(" <{value = @twice}>", "")
    assert p.fault("%x: i32", bare, 4, others=TWICE)[0] == "unsupported"
    unknown = "%r = func.call(%x) <{callee = @nowhere}> : (i32) -> i32\n"
    assert p.fault("%x: i32", unknown, 4)[0] == "unsupported"


# --- enzymexla ------------------------------------------------------------------------------------------------


def barrier(value):
    return f'"enzymexla.barrier"(%{value}) : (index) -> ()\n'


TILE = "%s = arith.addi(%i, %j) : (index, index) -> index\n%t = arith.muli(%i, %four) : (index, index) -> index\n"
TILE += "%at = arith.addi(%t, %j) : (index, index) -> index\n%x = arith.index_cast(%at) : (index) -> i32\n"


def tiled(p, meet):
    """Two nested loops write A, meet, and read the mirrored cell."""
    last = "%k = const 7 : index\n%b = arith.subi(%k, %at) : (index, index) -> index\n"
    inner = TILE + store("x", "A", "at") + meet + last + load("v", "A", "b") + store("v", "B", "at")
    loops = p.parallel("%i=%c0:%two:%c1", p.parallel("%j=%c0:%four:%c1", inner))
    return "%two = const 2 : index\n%four = const 4 : index\n" + loops


@pytest.mark.parametrize("listed", ["s", "at"])
def test_a_barrier_on_a_sum_of_induction_variables_meets_all_of_them(p, schedule, listed):
    arguments = f"{A}; %B: {M}"
    given = np.zeros(8, np.int32), np.zeros(8, np.int32)
    found = p.data(arguments, tiled(p, barrier(listed)), *given, schedule=schedule)
    assert found[1].tolist() == list(range(8))[::-1]
    assert p.run(arguments, tiled(p, barrier("j")), *given, schedule=schedule).kind is OutcomeKind.RACE


def test_barriers_on_other_values(p, ints):
    body = "%n = const 2 : index\n%d = memref.dim(%A, %c0) : (memref<?xi32>, index) -> index\n"
    assert p.fault(A, body + p.parallel("%i=%c0:%n:%c1", barrier("d")), ints(2))[0] == "unsupported"


def test_wrappers_yield_success_and_others_their_values(p, ints):
    yields = '"enzymexla.polygeist_yield"(%c1) : (index) -> ()\n'
    error = f'%r = "enzymexla.gpu_error"() ({{\n{yields}}}) : () -> index\n'
    assert p.data("", error, returns="%r : index") == [1]
    assert p.fault("", error.replace("gpu_error", "gpu_wrapper"))[0] == "unsupported"


def test_parts_of_memory_by_enzymexla(p, ints):
    kind = "memref<?x3xi32>"
    row = f'%s = "enzymexla.subindex"(%A, %n) : ({kind}, index) -> memref<3xi32>\n' + load(
        "v", "s", "c1", "memref<3xi32>"
    )
    assert p.data(f"%A: {kind}; %n: index", row, ints(6).reshape(2, 3), 1, returns="%v : i32")[1] == 4
    assert p.fault(f"%A: {kind}; %n: index", row, ints(6).reshape(2, 3), 2)[:2] == ("ub", "out-of-bounds")
    rest = (
        f'%s = "enzymexla.subindex"(%A, %n) : ({M}, index) -> {M}\n%d = memref.dim(%s, %c0) : ({M}, index) -> index\n'
    )
    assert p.data(f"{A}; %n: index", rest, ints(5), 2, returns="%d : index")[1] == 3
    both = f'%s = "enzymexla.subindex"(%A, %n) : ({kind}, index) -> memref<i32>\n'
    assert p.fault(f"%A: {kind}; %n: index", both, ints(6).reshape(2, 3), 1)[0] == "unsupported"


def test_bytes_by_enzymexla(p, ints):
    body = f'"enzymexla.memset"(%A, %b, %n) : ({M}, i8, index) -> ()\n'
    assert p.data(f"{A}; %b: i8; %n: index", body, ints(2), 1, 4)[0].tolist() == [0x01010101, 1]
    move = f'"enzymexla.memcpy"(%A, %B, %n) : ({M}, {M}, index) -> ()\n'
    assert p.data(f"{A}; %B: {M}; %n: index", move, ints(2), ints(2) + 5, 4)[0].tolist() == [5, 1]
    wide = f'"enzymexla.memset"(%A, %b, %n) : ({M}, i32, index) -> ()\n'
    assert p.fault(f"{A}; %b: i32; %n: index", wide, ints(2), 1, 4)[0] == "unsupported"
    token = f'%t = "enzymexla.memcpy"(%A, %B, %n) : ({M}, {M}, index) -> !gpu.async.token\n'
    assert p.fault(f"{A}; %B: {M}; %n: index", token, ints(2), ints(2), 4)[0] == "unsupported"


def test_a_form_that_only_values_show_to_have_no_rule_is_unsupported(p):
    body = f"%x = const 1 : i32\n%o = llvm.atomicrmw(%p, %q) <{{bin_op = 0 : i64}}> : ({P}, {P}) -> {P}\n"
    made = f'%p = "enzymexla.memref2pointer"(%A) : ({M}) -> {P}\n%q = llvm.mlir.zero() : () -> {P}\n'
    assert p.fault(A, made + body, np.zeros(4, np.int32))[0] == "unsupported"


EXCHANGE = """scf.execute_region() ({
%p = llvm.mlir.zero() : () -> !llvm.ptr
%q = "enzymexla.memref2pointer"(%A) : (memref<?xi32>) -> !llvm.ptr
%f = llvm.load(%q) : (!llvm.ptr) -> f32
%v = llvm.bitcast(%f) : (f32) -> i32
"llvm.br"(%v)[^bb1] : (i32) -> ()
^bb1(%want: i32):
%new = llvm.add(%want, %x) : (i32, i32) -> i32
%both = llvm.cmpxchg(%q, %want, %new) <{failure_ordering = 4 : i64, success_ordering = 5 : i64}>
    : (!llvm.ptr, i32, i32) -> !llvm.struct<(i32, i1)>
%old = llvm.extractvalue(%both) <{position = array<i64: 0>}> : (!llvm.struct<(i32, i1)>) -> i32
%ok = llvm.extractvalue(%both) <{position = array<i64: 1>}> : (!llvm.struct<(i32, i1)>) -> i1
"llvm.cond_br"(%ok, %old)[^bb2, ^bb1] <{operandSegmentSizes = array<i32: 1, 0, 1>}> : (i1, i32) -> ()
^bb2:
{more}scf.yield() : () -> ()
}) : () -> ()
"""


def test_an_exchange_loop_is_an_atomic_update(p, schedule):
    loop = "%n = const 5 : index\n%x = const 3 : i32\n" + p.parallel("%i=%c0:%n:%c1", EXCHANGE.replace("{more}", ""))
    assert p.data(A, loop, np.ones(2, np.int32), schedule=schedule)[0].tolist() == [16, 1]
    plain = f"%u = llvm.load(%q) : ({P}) -> i32\n"
    racy = "%n = const 5 : index\n%x = const 3 : i32\n" + p.parallel("%i=%c0:%n:%c1", EXCHANGE.replace("{more}", plain))
    assert p.run(A, racy, np.ones(2, np.int32), schedule=schedule).kind is OutcomeKind.RACE

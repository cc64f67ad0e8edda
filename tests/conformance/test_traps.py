"""The 25 ways in which a naive oracle reports a false bug (docs/semantics.md §13).

Each test shows that the report is not made, by the interpreter and `oracle.compare` together, and where a near twin
is a real bug, that it is made. `Case.reference` runs in source mode, `Case.compiled` in intermediate mode; `nudged`
stands for a compiler or device whose result is some units in the last place away.
"""

from dataclasses import dataclass, replace

import numpy as np
import pytest

from difftest.model import Mode, OutcomeKind
from difftest.oracle.compare import compare

DUP, NONEED = "#enzyme<activity enzyme_dup>", "#enzyme<activity enzyme_dupnoneed>"
CONST = "#enzyme<activity enzyme_const>"
FAST = "<{fastmath = #arith.fastmath<fast>}>"


@dataclass(frozen=True, kw_only=True)
class Case:
    """Programs over the same arguments."""

    p: object
    arguments: str
    values: tuple
    returns: str = ""

    def reference(self, body, **options):
        return self.p.run(self.arguments, body, *self.values, returns=self.returns, **options)

    def compiled(self, body, **options):
        return self.reference(body, mode=Mode.INTERMEDIATE, **options)

    def rule(self, body):
        """The broken rule that keeps the program from being judged."""
        outcome = self.reference(body)
        assert outcome.kind is not OutcomeKind.OK
        return outcome.fault.rule

    def difference(self, before, after):
        """What is reported when `before` is compiled to `after`; both must run."""
        return self.report(self.reference(before), self.compiled(after))

    @staticmethod
    def report(expected, actual):
        assert expected.kind is OutcomeKind.OK, expected.fault
        assert actual.kind is OutcomeKind.OK, actual.fault
        return compare(expected, actual).difference


@pytest.fixture
def case(p):
    def make(arguments, *values, returns=""):
        return Case(p=p, arguments=arguments, values=values, returns=returns)

    return make


def nudged(outcome, ulps, *, label="result0"):
    """`outcome` with one observed value moved by `ulps` units in the last place of each element."""

    def move(observed):
        if observed.label != label:
            return observed
        bits = observed.data.view(np.dtype(f"i{observed.data.dtype.itemsize}")) + ulps
        return replace(observed, data=bits.view(observed.data.dtype), bound=None)

    return replace(outcome, observed=tuple(move(o) for o in outcome.observed))


def value(outcome, label):
    return next(o.data for o in outcome.observed if o.label == label)


def test_01_oversized_shift_is_poison_so_there_is_nothing_to_compare(case):
    """The device gives 0, x86 gives x << (k & 31)."""
    k = case("%x: i32; %k: i32", 5, 33, returns="%r : i32")
    shift = "%r = arith.shli(%x, %k) : (i32, i32) -> i32"
    assert k.rule(shift) == "shift-amount"
    assert k.compiled(shift).observed[0].skip.all()
    legal = case("%x: i32; %k: i32", 5, 31, returns="%r : i32")
    assert legal.difference(shift, "%r = const 0 : i32") is not None


def test_02_float_out_of_the_integer_range_is_poison(case):
    """PTX saturates, x86 gives INT_MIN."""
    convert = "%r = arith.fptosi(%x) : (f32) -> i32"
    for wrong in (3e9, -3e9, np.nan, np.inf):
        k = case("%x: f32", np.float32(wrong), returns="%r : i32")
        assert k.rule(convert) == "fptosi-range"
        assert k.compiled(convert).observed[0].skip.all()
    unsigned = "%r = arith.fptoui(%x) : (f32) -> i32"
    fine = case("%x: f32", np.float32(-0.5), returns="%r : i32")
    assert fine.difference(unsigned, "%r = const 0 : i32") is None
    assert fine.difference(unsigned, "%r = const -1 : i32") is not None


def test_03_a_truncation_that_breaks_its_promise_may_fold_to_anything(case):
    k = case("%x: i32", 300, returns="%r : i8")
    promised = "%r = arith.trunci(%x) <{overflowFlags = #arith.overflow<nsw>}> : (i32) -> i8"
    assert k.rule(promised) == "nsw"
    assert k.compiled(promised).observed[0].skip.all()
    plain = "%r = arith.trunci(%x) : (i32) -> i8"
    assert k.difference(plain, "%r = const 44 : i8") is None
    assert k.difference(plain, "%r = const 45 : i8") is not None


GUARDED = "%ok = arith.cmpi(%k, %n) <{predicate = 2 : i64}> : (i32, i32) -> i1\n"


def test_04_poison_above_its_guard_is_fine_a_division_above_it_is_a_bug(case, p, ints):
    k = case("%A: memref<?xi32>; %k: i32; %n: i32", ints(2), 40, 32)
    for op, flag in (("shli", ""), ("addi", " <{overflowFlags = #arith.overflow<nsw, nuw>}>")):
        big = case("%A: memref<?xi32>; %k: i32; %n: i32", ints(2), 2**31 - 1, 32)
        work = f"%s = arith.{op}(%k, %k){flag} : (i32, i32) -> i32\n"
        use = p.store("%s", "%A", "%c0")
        for given in (k, big) if op == "shli" else (big,):
            assert (
                given.difference(GUARDED + p.guarded("%ok", work + use), work + GUARDED + p.guarded("%ok", use)) is None
            )
    zero = case("%A: memref<?xi32>; %k: i32; %n: i32", ints(2), 0, -1)
    divide = "%s = arith.divsi(%n, %k) : (i32, i32) -> i32\n"
    use = p.store("%s", "%A", "%c0")
    assert zero.reference(GUARDED + p.guarded("%ok", divide + use)).kind is OutcomeKind.OK
    hoisted = zero.compiled(divide + GUARDED + p.guarded("%ok", use))
    assert (hoisted.kind, hoisted.fault.rule) == (OutcomeKind.UB, "division-by-zero")


def test_05_uninitialised_cells_may_be_copied_but_not_observed(case, p, ints):
    k = case("%A: memref<?xi32>", ints(3))
    fill = "%x = const 7 : i32\n" + p.store("%x", "%A", "%c0")
    cache = p.alloc("m", "memref<4xi32>") + p.alloc("n", "memref<4xi32>")
    copied = cache + "memref.copy(%m, %n) : (memref<4xi32>, memref<4xi32>) -> ()\n"
    read = p.load("u", "%n", "%c1", "memref<4xi32>")
    assert k.rule(copied + read) == "uninitialised-read"
    assert k.difference(fill, fill + copied + read + "%d = arith.addi(%u, %u) : (i32, i32) -> i32") is None
    found = k.difference(fill, fill + copied + read + p.store("%u", "%A", "%c1"))
    assert (found.label, found.index, found.actual) == ("arg0", (1,), "undefined")
    branch = "%b = arith.cmpi(%u, %u) <{predicate = 0 : i64}> : (i32, i32) -> i1\n" + p.guarded("%b", "")
    assert k.compiled(fill + copied + read + branch).fault.rule == "poison-sink"


def test_06_nans_of_any_sign_and_payload_are_equal(case):
    k = case("%x: f32; %y: f32", np.float32(np.nan), np.float32(1), returns="%r : f32")
    add = "%r = arith.addf(%x, %y) : (f32, f32) -> f32"
    for bits in ("0x7FC00000", "0xFFC00000", "0x7FC12345"):
        assert k.difference(add, f"%r = const {bits} : f32") is None
    assert k.difference(add, "%r = const 0x7F800000 : f32") is not None


def test_07_maxnum_may_return_either_zero_maximum_may_not(case):
    k = case("%x: f32; %y: f32", np.float32(-0.0), np.float32(0.0), returns="%r : f32")
    for op in ("maxnumf", "minnumf"):
        for zero in ("0.0", "-0.0"):
            assert k.difference(f"%r = arith.{op}(%x, %y) : (f32, f32) -> f32", f"%r = const {zero} : f32") is None
    maximum = "%r = arith.maximumf(%x, %y) : (f32, f32) -> f32"
    assert k.difference(maximum, "%r = const 0.0 : f32") is None
    assert k.difference(maximum, "%r = const -0.0 : f32") is not None


def test_08_the_remainder_of_the_smallest_integer_and_minus_one_is_undefined(case):
    """A fold gives 0, x86 traps."""
    rest = "%r = arith.remsi(%x, %y) : (i32, i32) -> i32"
    assert case("%x: i32; %y: i32", -(2**31), -1, returns="%r : i32").rule(rest) == "signed-division-overflow"
    fine = case("%x: i32; %y: i32", -(2**31) + 1, -1, returns="%r : i32")
    assert fine.difference(rest, "%r = const 0 : i32") is None
    assert fine.difference(rest, "%r = const 1 : i32") is not None


def test_09_library_functions_agree_within_a_derived_bound(case):
    k = case("%x: f32", np.float32(0.3), returns="%r : f32")
    expected = k.reference("%r = math.exp(%x) : (f32) -> f32")
    assert k.report(expected, nudged(expected, 1)) is None
    assert k.report(expected, nudged(expected, 1000)) is not None


def test_10_the_single_square_root_is_approximate_the_double_one_is_not(case):
    root = "%r = math.sqrt(%x) : ({0}) -> {0}"
    single = case("%x: f32", np.float32(9), returns="%r : f32").reference(root.format("f32"))
    assert single.observed[0].data == 3
    assert Case.report(single, nudged(single, 1)) is None
    assert Case.report(single, nudged(single, 40)) is not None
    double = case("%x: f64", 9.0, returns="%r : f64").reference(root.format("f64"))
    assert Case.report(double, nudged(double, 1)) is not None


def test_11_fast_division_in_a_gradient_is_off_by_some_units(case):
    k = case("%x: f32; %y: f32", np.float32(1), np.float32(3), returns="%r : f32")
    strict = k.reference("%r = arith.divf(%x, %y) : (f32, f32) -> f32")
    fast = k.compiled(f"%r = arith.divf(%x, %y) {FAST} : (f32, f32) -> f32")
    device = replace(fast, observed=(replace(nudged(fast, 3).observed[0], bound=fast.observed[0].bound),))
    assert k.report(strict, device) is None
    assert k.report(strict, nudged(strict, 3)) is not None


def test_12_infinities_under_fast_flags_are_poison(case):
    values = (np.float32(0), np.float32(np.inf))
    k = case("%x: f32; %y: f32", *values, returns="%r : f32")
    plain = "%r = arith.mulf(%x, %y) : (f32, f32) -> f32"
    fast = f"%r = arith.mulf(%x, %y) {FAST} : (f32, f32) -> f32"
    assert k.difference(plain, fast) is None
    assert k.difference(plain, "%r = const 0.0 : f32") is not None
    finite = "%r = arith.mulf(%x, %x) : (f32, f32) -> f32"
    assert k.difference(finite, fast).actual == "undefined"


def test_13_the_sign_of_zero_is_free_where_a_flag_says_so(case):
    k = case("%x: f32; %y: f32", np.float32(0), np.float32(0), returns="%r : f32")
    negated = "%r = arith.negf(%x) : (f32) -> f32"
    assert k.difference(negated, f"%r = arith.subf(%x, %y) {FAST} : (f32, f32) -> f32") is None
    assert k.difference(negated, "%r = arith.subf(%x, %y) : (f32, f32) -> f32") is not None


KIND = "memref<2xf64>"


def gradient(case, activities=(DUP, DUP)):
    values = tuple(np.array(v, np.float64) for v in ((3, 4), (0, 0), (8, 8), (1, 1)))
    return case("; ".join(f"%{n}: {KIND}" for n in ("x", "dx", "y", "dy")), *values), activities


def square(p, activities=(DUP, DUP)):
    """q[0] = p[0] * p[0]."""
    body = p.load("a", "%p", "%c0", KIND, "f64") + "%m = arith.mulf(%a, %a) : (f64, f64) -> f64\n"
    return p.region(body + p.store("%m", "%q", "%c0", KIND, "f64"), kind=KIND, activities=activities)


def by_hand(p, *, primal=True, seed="%z"):
    """What a compiler makes of `square`: dx[0] += 2 x dy; dy[0] = `seed`."""
    body = "%z = const 0.0 : f64\n" + p.load("a", "%x", "%c0", KIND, "f64") + p.load("s", "%dy", "%c0", KIND, "f64")
    if primal:
        body += "%m = arith.mulf(%a, %a) : (f64, f64) -> f64\n" + p.store("%m", "%y", "%c0", KIND, "f64")
    body += p.store(seed, "%dy", "%c0", KIND, "f64") + p.load("d", "%dx", "%c0", KIND, "f64")
    body += "%t = arith.mulf(%s, %a) : (f64, f64) -> f64\n%u = arith.addf(%t, %t) : (f64, f64) -> f64\n"
    return body + "%w = arith.addf(%d, %u) : (f64, f64) -> f64\n" + p.store("%w", "%dx", "%c0", KIND, "f64")


def test_14_a_dupnoneed_output_may_hold_its_old_contents(case, p):
    k, _ = gradient(case)
    assert k.difference(square(p, (DUP, NONEED)), by_hand(p, primal=False)) is None
    found = k.difference(square(p), by_hand(p, primal=False))
    assert (found.label, found.index) == ("arg2", (0,))


def test_15_the_shadow_of_an_overwritten_output_is_zero_after_the_call(case, p):
    k, _ = gradient(case)
    assert k.difference(square(p), by_hand(p)) is None
    assert value(k.reference(square(p)), "arg3").tolist() == [0, 1]
    assert k.difference(square(p), by_hand(p, seed="%s")).label == "arg3"


def test_16_shadows_accumulate_over_calls_scalar_gradients_do_not(case, p):
    k, _ = gradient(case)
    again = "%one = const 1.0 : f64\n" + p.store("%one", "%dy", "%c0", KIND, "f64")
    twice = k.reference(square(p) + again + square(p).replace("%a", "%a2").replace("%m", "%m2"))
    assert value(twice, "arg1").tolist() == [12, 0]
    scalar = """%g{0} = enzyme.autodiff_region(%v, %s) <{{activity = [#enzyme<activity enzyme_active>],
ret_activity = [#enzyme<activity enzyme_activenoneed>]}}> ({{
^bb0(%i: f64):
%m = arith.mulf(%i, %i) : (f64, f64) -> f64
enzyme.yield(%m) : (f64) -> ()
}}) : (f64, f64) -> f64
"""
    once = case("%v: f64; %s: f64", 3.0, 1.0, returns="%g0, %g1 : f64, f64")
    found = once.reference(scalar.format(0) + scalar.format(1))
    assert [float(o.data) for o in found.observed] == [6, 6]
    assert once.report(found, nudged(found, 1 << 52, label="result1")) is not None


ZERO_TRIPS = """%r = affine.parallel() <{lowerBoundsGroups = dense<1> : tensor<1xi32>,
lowerBoundsMap = affine_map<() -> (0)>, reductions = [1 : i64], steps = [1],
upperBoundsGroups = dense<1> : tensor<1xi32>, upperBoundsMap = affine_map<() -> (0)>}> ({
^bb0(%i: index):
%v = arith.index_cast(%i) : (index) -> i32
affine.yield(%v) : (i32) -> ()
}) : () -> i32
"""


def test_17_an_empty_affine_reduction_gives_the_identity_an_scf_one_its_init(case, p):
    k = case("%x: i32", 5, returns="%r : i32")
    assert k.difference(ZERO_TRIPS, "%r = const 0 : i32") is None
    assert k.difference(ZERO_TRIPS, "%r = const 5 : i32") is not None
    reduce = p.reduce(("%v", "i32", "arith.addi"))
    body = "%v = arith.index_cast(%i) : (index) -> i32"
    loop = p.parallel("%i=%c0:%c0:%c1", body, results="%r", inits="%x : i32", tail=reduce)
    assert k.difference(loop, "%r = const 5 : i32") is None
    assert k.difference(loop, "%r = const 0 : i32") is not None


@pytest.mark.parametrize(("values", "exact"), [([0.1, 0.7, 1e5, -0.3], False), ([0.25, 0.5, 8, -3], True)])
def test_18_the_order_of_a_float_reduction_may_show_only_where_sums_round(case, p, values, exact):
    data = np.array(values, np.float32)
    k = case("%A: memref<?xf32>; %n: index", data, len(data), returns="%r : f32")
    body = p.load("v", "%A", "%i", "memref<?xf32>", "f32")
    loop = "%init = const 0.0 : f32\n" + p.parallel(
        "%i=%c0:%n:%c1", body, results="%r", inits="%init : f32", tail=p.reduce(("%v", "f32", "arith.addf"))
    )
    expected = k.reference(loop)
    assert (k.report(expected, nudged(expected, 1)) is not None) is exact
    assert k.report(expected, nudged(expected, 1 << 12)) is not None


def test_19_an_atomic_update_returns_the_old_value(case, p):
    k = case("%A: memref<?xi32>; %x: i32", np.array([5], np.int32), 5, returns="%o : i32")
    update = "%o = memref.atomic_rmw(%x, %A, %c0) <{kind = 1 : i64}> : (i32, memref<?xi32>, index) -> i32\n"
    plain = p.load("o", "%A", "%c0") + "%s = arith.addi(%o, %x) : (i32, i32) -> i32\n" + p.store("%s", "%A", "%c0")
    assert k.difference(update, plain) is None
    latest = plain.replace("%o", "%before").replace("%s", "%o")
    assert k.difference(update, latest).label == "result0"


def test_20_one_past_the_last_iteration_must_be_representable(case, p, ints):
    top = 2**31 - 1
    body = p.loop("%i", "%n", p.store("%i", "%A", "%c0"), lower="%l", step="%s", kind="i32")
    arguments = "%A: memref<?xi32>; %l: i32; %n: i32; %s: i32"
    assert case(arguments, ints(1), top - 3, top, 2).rule(body) == "loop-end"
    fine = case(arguments, ints(1), top - 4, top, 2)
    last = p.store("%v", "%A", "%c0")
    assert fine.difference(body, f"%v = const {top - 2} : i32\n" + last) is None
    assert fine.difference(body, f"%v = const {top - 4} : i32\n" + last) is not None


def test_21_index_arithmetic_outside_31_bits_is_not_judged(case):
    k = case("%i: index", 2**20, returns="%r : index")
    product = "%r = arith.muli(%i, %i) : (index, index) -> index"
    assert k.rule(product) == "index-width"
    assert k.compiled(product).kind is OutcomeKind.OK
    small = case("%i: index", 2**15, returns="%r : index")
    assert small.difference(product, "%r = const 1073741824 : index") is None
    assert small.difference(product, "%r = const 0 : index") is not None


def window(name, offset):
    kind = f"memref<3xi32, strided<[1], offset: {offset}>>"
    segments = "operandSegmentSizes = array<i32: 1, 0, 0, 0>"
    static = f"static_offsets = array<i64: {offset}>, static_sizes = array<i64: 3>, static_strides = array<i64: 1>"
    return f"%{name} = memref.subview(%A) <{{{segments}, {static}}}> : (memref<8xi32>) -> {kind}\n", kind


@pytest.mark.parametrize(("target", "legal"), [(1, False), (2, False), (0, True), (3, True)])
def test_22_overlapping_copies_are_undefined_unless_equal(case, ints, target, legal):
    first, kind = window("f", 0)
    second, other = window("t", target)
    k = case("%A: memref<8xi32>", ints(8))
    body = first + second + f"memref.copy(%f, %t) : ({kind}, {other}) -> ()"
    if legal:
        expected = ints(8)
        expected[target : target + 3] = ints(3)
        assert value(k.reference(body), "arg0").tolist() == expected.tolist()
    else:
        assert k.rule(body) == "overlap"


def shuffle(p, *, width, use):
    at = p.load("v", "%A", "%tx") + f"%o = const 2 : i32\n%w = const {width} : i32\n"
    moved = "%s, %ok = gpu.shuffle(%v, %o, %w) <{mode = #gpu<shuffle_mode up>}> : (i32, i32, i32) -> (i32, i1)\n"
    return "%c32 = const 32 : index\n" + p.launch(at + moved + use + p.store("%r", "%A", "%tx"), block="%c32")


def test_23_a_shuffled_value_counts_only_where_it_is_valid(case, p, ints):
    k = case("%A: memref<?xi32>", ints(32))
    chosen = shuffle(p, width=32, use="%r = arith.select(%ok, %s, %w) : (i1, i32, i32) -> i32\n")
    expected = np.concatenate(([32, 32], np.arange(30)))
    assert value(k.reference(chosen), "arg0").tolist() == expected.tolist()
    raw = k.reference(shuffle(p, width=32, use="%r = arith.addi(%s, %o) : (i32, i32) -> i32\n"))
    assert raw.observed[0].skip.tolist() == [True] * 2 + [False] * 30
    wrong = replace(
        raw, observed=(replace(raw.observed[0], data=np.where(np.arange(32) < 2, 99, raw.observed[0].data)),)
    )
    assert k.report(raw, wrong) is None
    assert k.report(raw, nudged(raw, 1, label="arg0")) is not None
    narrow = k.reference(shuffle(p, width=8, use="%r = arith.addi(%s, %v) : (i32, i32) -> i32\n"))
    # 32 lanes execute it but 8 are named: nothing is promised to the others.
    assert narrow.observed[0].skip[8:].all()


def exchange(p, *, barrier, reads="%other"):
    """Each of four lanes writes its cell, then reads another lane's (or its own)."""
    body = "%x = arith.index_cast(%i) : (index) -> i32\n%three = const 3 : index\n"
    body += "%other = arith.subi(%three, %i) : (index, index) -> index\n"
    body += p.store("%x", "%A", "%i") + barrier + p.load("v", "%A", reads) + p.store("%v", "%B", "%i")
    return "%c4 = const 4 : index\n" + p.parallel("%i=%c0:%c4:%c1", body)


def test_24_a_removed_barrier_is_judged_by_the_conflicts_it_ordered(case, p):
    arrays = np.zeros(4, np.int32), np.zeros(4, np.int32)
    k = case("%A: memref<?xi32>; %B: memref<?xi32>", *arrays)
    meet = "enzymexla.barrier(%i) : (index) -> ()\n"
    assert value(k.reference(exchange(p, barrier=meet)), "arg1").tolist() == [3, 2, 1, 0]
    assert k.compiled(exchange(p, barrier="")).kind is OutcomeKind.RACE
    assert k.difference(exchange(p, barrier=meet, reads="%i"), exchange(p, barrier="", reads="%i")) is None
    nothing = "enzymexla.barrier(%c0) : (index) -> ()\n"
    assert k.rule(exchange(p, barrier=nothing)) == "race"
    assert k.difference(exchange(p, barrier=nothing, reads="%i"), exchange(p, barrier="", reads="%i")) is None


def test_25_a_launch_of_no_blocks_writes_nothing_and_is_noted(case, p, ints):
    fill = "%x = const 9 : i32\n" + p.launch(p.store("%x", "%A", "%bx"), grid="%n")
    k = case("%A: memref<?xi32>; %n: index", ints(4), 0)
    expected = k.reference(fill)
    assert expected.notes["zero-launch"] == 1
    assert k.report(expected, k.compiled("")) is None
    two = case("%A: memref<?xi32>; %n: index", ints(4), 2)
    assert two.difference(fill, "").count == 2

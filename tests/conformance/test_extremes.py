"""Extreme but legal programs get the right answer, or are unsupported: never a traceback."""

import ml_dtypes
import numpy as np
import pytest

from difftest.interpreter import interpret
from difftest.ir.reader import read_module
from difftest.model import OutcomeKind, Schedule
from difftest.oracle.compare import compare
from difftest.oracle.judge import prepare
from generators import program_for_seed


@pytest.mark.parametrize("kind", ["if", "for", "parallel"])
def test_two_hundred_levels_of_nesting(p, ints, kind):
    body = p.load("v", "%A", "%c0") + "%one = const 1 : i32\n"
    body += "%s = arith.addi(%v, %one) : (i32, i32) -> i32\n" + p.store("%s", "%A", "%c0")
    for level in range(200):
        body = {
            "if": lambda b, _: p.guarded("%yes", b),
            "for": lambda b, n: p.loop(f"%i{n}", "%c1", b),
            "parallel": lambda b, n: p.parallel(f"%i{n}=%c0:%c1:%c1", b),
        }[kind](body, level)
    found = p.data("%A: memref<?xi32>; %yes: i1", body, ints(1) + 4, True)
    assert found[0].tolist() == [5]


def test_ten_thousand_ops(p):
    lines = ["%s0 = arith.addi(%x, %x) : (i32, i32) -> i32"]
    lines += [f"%s{n} = arith.addi(%s{n - 1}, %x) : (i32, i32) -> i32" for n in range(1, 10_000)]
    assert p.data("%x: i32", "\n".join(lines) + "\n", 3, returns="%s9999 : i32") == [3 * 10_001]


@pytest.mark.parametrize(("lower", "upper", "trips"), [(0, 0, 0), (5, 2, 0), (-3, 2, 5), (2, -(2**30), 0)])
def test_bounds_that_are_empty_or_negative(p, schedule, lower, upper, trips):
    count = "%one = const 1 : i32\n%o = memref.atomic_rmw(%one, %A, %c0) <{kind = 1 : i64}> : "
    count += "(i32, memref<?xi32>, index) -> i32\n"
    for loop in (p.parallel("%i=%l:%u:%c1", count), p.loop("%i", "%u", count, lower="%l")):
        arguments = "%A: memref<?xi32>; %l: index; %u: index"
        assert p.data(arguments, loop, np.zeros(1, np.int32), lower, upper, schedule=schedule)[0][0] == trips


def test_memrefs_without_dimensions_and_without_cells(p):
    body = "%v = memref.load(%Z) : (memref<f32>) -> f32\nmemref.store(%v, %Z) : (f32, memref<f32>) -> ()\n"
    body += "%d = memref.dim(%E, %c0) : (memref<0x3xf32>, index) -> index\n"
    body += "memref.copy(%E, %E) : (memref<0x3xf32>, memref<0x3xf32>) -> ()\n"
    arguments = "%Z: memref<f32>; %E: memref<0x3xf32>"
    found = p.data(arguments, body, np.full((), 2.5, np.float32), np.zeros((0, 3), np.float32), returns="%d : index")
    assert (found[0].item(), found[1].size, found[2]) == (2.5, 0, 0)
    load = "%v = memref.load(%E, %c0, %c0) : (memref<0x3xf32>, index, index) -> f32\n"
    assert p.fault(arguments, load, np.full((), 1, np.float32), np.zeros((0, 3), np.float32))[1] == "out-of-bounds"


@pytest.mark.parametrize("width", [1, 2, 7, 31, 33, 63, 64, 65, 128])
def test_integers_of_every_width_against_python(p, width):
    kind = f"i{width}"
    low, mask = -(1 << width - 1), (1 << width) - 1

    def wrapped(value):
        return value & 1 if width == 1 else (value - low & mask) + low

    x, y = wrapped(low + 5), wrapped(3 * low // 2 + 1)
    body = f"%x = arith.constant() <{{value = {x} : {kind}}}> : () -> {kind}\n"
    body += f"%y = arith.constant() <{{value = {y} : {kind}}}> : () -> {kind}\n"
    for name, op in (("s", "addi"), ("d", "subi"), ("m", "muli"), ("z", "xori")):
        body += f"%{name} = arith.{op}(%x, %y) : ({kind}, {kind}) -> {kind}\n"
    body += f"%q = arith.cmpi(%x, %y) <{{predicate = 6 : i64}}> : ({kind}, {kind}) -> i1\n"
    found = p.run("", body, returns=f"%s, %d, %m, %z, %q : {kind}, {kind}, {kind}, {kind}, i1")
    assert found.kind is OutcomeKind.OK, found.fault
    expected = [wrapped(x + y), wrapped(x - y), wrapped(x * y), wrapped(x ^ y), (x & mask) < (y & mask)]
    if width <= 64:
        assert [int(o.data) for o in found.observed] == [int(e) for e in expected]
    else:
        assert [int(o.data.item()) for o in found.observed] == [int(e) for e in expected]


def test_wide_integers_in_memory_are_unsupported(p):
    body = p.alloc("m", "memref<2xi128>") + "%x = arith.constant() <{value = 1 : i128}> : () -> i128\n"
    found = p.fault("", body + p.store("%x", "%m", "%c0", "memref<2xi128>", "i128"))
    assert found[:2] == ("unsupported", "unsupported-op")


def test_runaway_loops_end_as_inconclusive(p):
    forever = "scf.while() ({\nscf.condition(%yes) : (i1) -> ()\n}, {\nscf.yield() : () -> ()\n}) : () -> ()\n"
    found = p.run("%yes: i1", forever, True, fuel=10_000)
    assert (found.kind, found.fault.rule) == (OutcomeKind.INCONCLUSIVE, "fuel")
    large = p.alloc("m", "memref<?xi64>", sizes="%n")
    found = p.run("%n: index", large, 2**30)
    assert (found.kind, found.fault.rule) == (OutcomeKind.INCONCLUSIVE, "memory")


@pytest.mark.parametrize("profile", ["parallel", "kernel", "autodiff", "integer", "scalar-float"])
def test_schedules_give_identical_bytes_for_generated_programs(profile):
    for seed in range(25):
        first = prepare(program_for_seed(seed, profile))
        assert first.outcome.kind is OutcomeKind.OK, first.outcome.fault
        for schedule in (Schedule.SEQUENTIAL, Schedule.SHUFFLED):
            other = interpret(
                first.module,
                entry=first.program.entry,
                arguments=first.arguments,
                schedule=schedule,
                seed=seed,
            )
            assert other.kind is OutcomeKind.OK, (seed, schedule, other.fault)
            assert compare(first.outcome, other).difference is None, (seed, schedule)
            for mine, theirs in zip(first.outcome.observed, other.observed, strict=True):
                if mine.bound is None and mine.skip is None:
                    assert mine.data.tobytes() == theirs.data.tobytes(), (seed, schedule, mine.label)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32, np.float64])
def test_every_float_type_goes_through_memory(dtype):
    name = {"float16": "f16", "bfloat16": "bf16", "float32": "f32", "float64": "f64"}[np.dtype(dtype).name]
    text = f""""builtin.module"() ({{
"func.func"() <{{function_type = (memref<3x{name}>) -> (), sym_name = "k"}}> ({{
^bb0(%a: memref<3x{name}>):
%i = "arith.constant"() <{{value = 1 : index}}> : () -> index
%v = "memref.load"(%a, %i) : (memref<3x{name}>, index) -> {name}
%n = "arith.negf"(%v) : ({name}) -> {name}
"memref.store"(%n, %a, %i) : ({name}, memref<3x{name}>, index) -> ()
"func.return"() : () -> ()
}}) : () -> ()
}}) : () -> ()
"""
    values = np.array([1, 2.5, -3], dtype)
    found = interpret(read_module(text), entry="k", arguments=[values]).observed[0].data
    assert found.dtype == values.dtype and found.astype(np.float64).tolist() == [1, -2.5, -3]

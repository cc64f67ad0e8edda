"""llvm: pointers, structs, arithmetic and calls (SEMANTICS §7)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from difftest.interpreter.layout import alignment_of, parts_of, size_of
from difftest.interpreter.run import interpret
from difftest.ir.reader import read_module
from difftest.ir.types import parse_type
from difftest.model import Mode, Outcome, OutcomeKind, Schedule

M = "memref<?xi64>"
P = "!llvm.ptr"


def module(body: str, more: str = "") -> str:
    """`@k(%a, %n)` whose body defines %r, stored to a[0]; %p is a's pointer."""
    return f"""
"builtin.module"() ({{
  "func.func"() <{{function_type = ({M}, i64) -> (), sym_name = "k"}}> ({{
  ^bb0(%a: {M}, %n: i64):
    %z = "arith.constant"() <{{value = 0 : index}}> : () -> index
    %one = "llvm.mlir.constant"() <{{value = 1 : i64}}> : () -> i64
    %two = "llvm.mlir.constant"() <{{value = 2 : i32}}> : () -> i32
    %p = "enzymexla.memref2pointer"(%a) : ({M}) -> {P}
    {body}
    "memref.store"(%r, %a, %z) : (i64, {M}, index) -> ()
    "func.return"() : () -> ()
  }}) : () -> ()
  {more}
}}) : () -> ()
"""


def run(text: str, n: int = 3, *, mode: Mode = Mode.SOURCE, schedule: Schedule = Schedule.LOCK_STEP) -> Outcome:
    arguments = [np.arange(8, dtype=np.int64) + 100, n]
    return interpret(read_module(text), entry="k", arguments=arguments, mode=mode, schedule=schedule, seed=1)


def value(body: str, n: int = 3, *, more: str = "", mode: Mode = Mode.SOURCE) -> Any:
    outcome = run(module(body, more), n, mode=mode)
    assert outcome.kind is OutcomeKind.OK, outcome.fault
    assert outcome.observed[0].skip is None
    return outcome.observed[0].data[0]


def rule(body: str, n: int = 3, *, mode: Mode = Mode.SOURCE, more: str = "") -> str:
    outcome = run(module(body, more), n, mode=mode)
    assert outcome.fault is not None, outcome
    return outcome.fault.rule


def binary(name: str, flags: str = "", left: str = "%n", right: str = "%one") -> str:
    return f'%r = "llvm.{name}"({left}, {right}){flags} : (i64, i64) -> i64'


def gep(into: str, base: str, indices: str, kind: str, *, dynamic: str = "", flags: str = "") -> str:
    names = f"{base}{', ' + dynamic if dynamic else ''}"
    types = f"{P}{', i64' * len(dynamic.split(','))}" if dynamic else P
    return (
        f'{into} = "llvm.getelementptr"({names}) <{{elem_type = {kind}, rawConstantIndices = array<i32: {indices}>'
        f"{flags}}}> : ({types}) -> {P}"
    )


def load(into: str, pointer: str, kind: str = "i64", more: str = "") -> str:
    return f'{into} = "llvm.load"({pointer}){more} : ({P}) -> {kind}'


def store(data: str, pointer: str, kind: str = "i64") -> str:
    return f'"llvm.store"({data}, {pointer}) : ({kind}, {P}) -> ()'


DYNAMIC = "-2147483648"


@pytest.mark.parametrize(
    ("name", "n", "expected"),
    [("add", 41, 42), ("sub", 0, -1), ("mul", -7, -7), ("shl", 3, 6), ("lshr", -2, 2**63 - 1), ("ashr", -3, -2),
     ("sdiv", -9, -9), ("urem", 5, 0), ("xor", 3, 2), ("intr.smax", -4, 1), ("intr.umax", -4, -4)],
)  # fmt: skip
def test_arithmetic_means_what_arith_means(name: str, n: int, expected: int) -> None:
    assert value(binary(name), n) == expected


def test_flags_in_llvm_spelling() -> None:
    assert rule(binary("add", " <{overflowFlags = #llvm.overflow<nsw>}>"), 2**63 - 1) == "nsw"
    assert rule(binary("lshr", " <{isExact}>"), 3) == "exact"
    assert rule(binary("or", " <{isDisjoint}>"), 3) == "disjoint"
    assert value(binary("add"), 2**63 - 1) == -(2**63)


def test_division_by_zero_is_undefined() -> None:
    assert rule('%o = "llvm.mlir.zero"() : () -> i64\n' + binary("sdiv", right="%o")) == "division-by-zero"


def test_select_takes_the_sound_arm() -> None:
    body = """
    %u = "llvm.mlir.poison"() : () -> i64
    %c = "llvm.icmp"(%n, %one) <{predicate = 4 : i64}> : (i64, i64) -> i1
    %r = "llvm.select"(%c, %n, %u) : (i1, i64, i64) -> i64
    """
    assert value(body, 9) == 9
    outcome = run(module(body), -9)
    assert outcome.observed[0].skip is not None
    assert outcome.observed[0].skip[0]


def test_undef_is_skipped_and_frozen_undef_too() -> None:
    for body in (
        '%r = "llvm.mlir.undef"() : () -> i64',
        '%u = "llvm.mlir.undef"() : () -> i64\n%r = "llvm.freeze"(%u) : (i64) -> i64',
    ):
        outcome = run(module(body))
        assert outcome.kind is OutcomeKind.OK
        assert outcome.observed[0].skip is not None
        assert np.array_equal(outcome.observed[0].skip, np.arange(8) < 1)
    assert value('%r = "llvm.freeze"(%n) : (i64) -> i64', 6) == 6


def test_overflow_intrinsics_give_the_wrapped_result_and_the_flag() -> None:
    kind = "!llvm.struct<(i64, i1)>"
    for name, n, flag in (
        ("sadd", 2**63 - 1, 1),
        ("uadd", -1, 1),
        ("uadd", 2**63 - 1, 0),
        ("sadd", 5, 0),
        ("usub", 0, 1),
    ):
        body = f"""
        %s = "llvm.intr.{name}.with.overflow"(%n, %one) : (i64, i64) -> {kind}
        %f = "llvm.extractvalue"(%s) <{{position = array<i64: 1>}}> : ({kind}) -> i1
        %r = "llvm.zext"(%f) : (i1) -> i64
        """
        assert value(body, n) == flag, (name, n)


def test_structs_keep_their_members() -> None:
    kind = "!llvm.struct<(i64, array<2 x i64>, ptr)>"
    body = f"""
    %u = "llvm.mlir.undef"() : () -> {kind}
    %s = "llvm.insertvalue"(%u, %n) <{{position = array<i64: 1, 1>}}> : ({kind}, i64) -> {kind}
    %t = "llvm.insertvalue"(%s, %p) <{{position = array<i64: 2>}}> : ({kind}, {P}) -> {kind}
    %q = "llvm.extractvalue"(%t) <{{position = array<i64: 2>}}> : ({kind}) -> {P}
    {load("%l", "%q")}
    %e = "llvm.extractvalue"(%t) <{{position = array<i64: 1, 1>}}> : ({kind}) -> i64
    %r = "llvm.add"(%l, %e) : (i64, i64) -> i64
    """
    assert value(body, 7) == 107


def test_structs_differ_between_lanes_and_merge() -> None:
    kind = "!llvm.struct<(i64, ptr)>"
    text = f"""
"builtin.module"() ({{
  "func.func"() <{{function_type = ({M}, i64) -> (), sym_name = "k"}}> ({{
  ^bb0(%a: {M}, %n: i64):
    %z = "arith.constant"() <{{value = 0 : index}}> : () -> index
    %o = "arith.constant"() <{{value = 1 : index}}> : () -> index
    %e = "arith.constant"() <{{value = 8 : index}}> : () -> index
    %p = "enzymexla.memref2pointer"(%a) : ({M}) -> {P}
    %u = "llvm.mlir.zero"() : () -> {kind}
    %s = "llvm.insertvalue"(%u, %p) <{{position = array<i64: 1>}}> : ({kind}, {P}) -> {kind}
    "scf.parallel"(%z, %e, %o) <{{operandSegmentSizes = array<i32: 1, 1, 1, 0>}}> ({{
    ^bb0(%i: index):
      %j = "arith.index_cast"(%i) : (index) -> i64
      %c = "arith.cmpi"(%j, %n) <{{predicate = 2 : i64}}> : (i64, i64) -> i1
      %t = "scf.if"(%c) ({{
        {gep("%q", "%p", DYNAMIC, "i64", dynamic="%j")}
        %x = "llvm.insertvalue"(%s, %q) <{{position = array<i64: 1>}}> : ({kind}, {P}) -> {kind}
        %y = "llvm.insertvalue"(%x, %j) <{{position = array<i64: 0>}}> : ({kind}, i64) -> {kind}
        "scf.yield"(%y) : ({kind}) -> ()
      }}, {{
        %l = "llvm.alloca"(%n) <{{elem_type = i64}}> : (i64) -> {P}
        %x = "llvm.insertvalue"(%s, %l) <{{position = array<i64: 1>}}> : ({kind}, {P}) -> {kind}
        "scf.yield"(%x) : ({kind}) -> ()
      }}) : (i1) -> {kind}
      %w = "llvm.extractvalue"(%t) <{{position = array<i64: 1>}}> : ({kind}) -> {P}
      %v = "llvm.extractvalue"(%t) <{{position = array<i64: 0>}}> : ({kind}) -> i64
      "llvm.store"(%v, %w) : (i64, {P}) -> ()
      "scf.reduce"() : () -> ()
    }}) : (index, index, index) -> ()
    "func.return"() : () -> ()
  }}) : () -> ()
}}) : () -> ()
"""
    for schedule in Schedule:
        outcome = run(text, 3, schedule=schedule)
        assert outcome.kind is OutcomeKind.OK, outcome.fault
        assert np.array_equal(outcome.observed[0].data, [0, 1, 2, 103, 104, 105, 106, 107])


def test_getelementptr_walks_types() -> None:
    nested = "!llvm.struct<(i8, i32, array<3 x struct<(i16, i64)>>)>"
    body = f"""
    {gep("%q", "%p", f"0, 2, {DYNAMIC}, 1", nested, dynamic="%one")}
    %x = "llvm.ptrtoint"(%q) : ({P}) -> i64
    %y = "llvm.ptrtoint"(%p) : ({P}) -> i64
    %r = "llvm.sub"(%x, %y) : (i64, i64) -> i64
    """
    assert value(body) == 8 + 16 + 8


def test_sizes_and_offsets_of_types() -> None:
    for text, size, alignment in (
        ("i1", 1, 1), ("i24", 4, 4), ("f64", 8, 8), ("!llvm.ptr", 8, 8), ("vector<3xf32>", 12, 16),
        ("!llvm.struct<(i8, i64, i16)>", 24, 8), ("!llvm.struct<packed (i8, i64, i16)>", 11, 1),
        ("!llvm.array<3 x struct<(i32, i8)>>", 24, 4), ("!llvm.struct<()>", 0, 1),
    ):  # fmt: skip
        assert (size_of(parse_type(text)), alignment_of(parse_type(text))) == (size, alignment), text
    assert [at for at, _ in parts_of(parse_type("!llvm.struct<(i8, i64, i16)>"))] == [0, 8, 16]


def test_an_inbounds_pointer_that_leaves_its_object() -> None:
    for flags in (", inbounds", ", noWrapFlags = 3 : i32"):
        past = gep("%q", "%p", "8", "i64", flags=flags) + '\n%r = "llvm.ptrtoint"(%q) : (!llvm.ptr) -> i64'
        assert run(module(past)).kind is OutcomeKind.OK
        beyond = past.replace("array<i32: 8>", "array<i32: 9>")
        assert rule(beyond) == "inbounds"
        assert run(module(beyond), mode=Mode.INTERMEDIATE).kind is OutcomeKind.OK
        used = gep("%q", "%p", "-1", "i64", flags=flags) + "\n" + load("%r", "%q")
        assert rule(used, mode=Mode.INTERMEDIATE) == "null-access"
    plain = gep("%q", "%p", "9", "i64") + "\n" + gep("%s", "%q", "-8", "i64") + "\n" + load("%r", "%s")
    assert value(plain) == 101


def test_accesses_outside_of_the_object_are_undefined() -> None:
    assert rule(gep("%q", "%p", "8", "i64") + "\n" + load("%r", "%q")) == "out-of-bounds"
    assert rule('%q = "llvm.mlir.zero"() : () -> !llvm.ptr\n' + load("%r", "%q")) == "null-access"
    off = gep("%q", "%p", "4", "i8") + "\n"
    assert rule(off + load("%r", "%q")) == "misaligned"
    assert rule(load("%x", "%p", "i32") + "\n" + off + load("%r", "%q", more=" <{alignment = 8 : i64}>")) == "alignment"


def test_memory_puns_by_bits() -> None:
    body = f"""
    %f = "llvm.mlir.constant"() <{{value = 1.000000e+00 : f64}}> : () -> f64
    %m = "llvm.alloca"(%one) <{{elem_type = f64}}> : (i64) -> {P}
    {store("%f", "%m", "f64")}
    {load("%r", "%m")}
    """
    assert value(body) == 0x3FF0000000000000


def test_stack_memory_is_uninitialised_and_ends_with_its_function() -> None:
    assert (
        rule(f'%m = "llvm.alloca"(%one) <{{elem_type = i64}}> : (i64) -> {P}\n' + load("%r", "%m"))
        == "uninitialised-read"
    )
    callee = f"""
  "llvm.func"() <{{function_type = !llvm.func<ptr ()>, sym_name = "f"}}> ({{
    %c = "llvm.mlir.constant"() <{{value = 1 : i64}}> : () -> i64
    %m = "llvm.alloca"(%c) <{{elem_type = i64}}> : (i64) -> {P}
    "llvm.store"(%c, %m) : (i64, {P}) -> ()
    "llvm.return"(%m) : ({P}) -> ()
  }}) : () -> ()"""
    assert (
        rule(f'%m = "llvm.call"() <{{callee = @f}}> : () -> {P}\n' + load("%r", "%m"), more=callee) == "use-after-free"
    )


def test_structs_go_through_memory_member_by_member() -> None:
    kind = "!llvm.struct<(i8, ptr, i64)>"
    body = f"""
    %u = "llvm.mlir.zero"() : () -> {kind}
    %s = "llvm.insertvalue"(%u, %p) <{{position = array<i64: 1>}}> : ({kind}, {P}) -> {kind}
    %t = "llvm.insertvalue"(%s, %n) <{{position = array<i64: 2>}}> : ({kind}, i64) -> {kind}
    %m = "llvm.alloca"(%one) <{{elem_type = {kind}}}> : (i64) -> {P}
    %c = "llvm.alloca"(%one) <{{elem_type = {kind}}}> : (i64) -> {P}
    {store("%t", "%m", kind)}
    %w = "llvm.mlir.constant"() <{{value = 8 : i64}}> : () -> i64
    {gep("%from", "%m", "0, 1", kind)}
    {gep("%to", "%c", "0, 1", kind)}
    %l = "llvm.add"(%w, %w) : (i64, i64) -> i64
    "llvm.intr.memcpy"(%to, %from, %l) <{{isVolatile = false}}> : ({P}, {P}, i64) -> ()
    {load("%q", "%to", P)}
    {load("%x", "%q")}
    {gep("%last", "%c", "0, 2", kind)}
    {load("%y", "%last")}
    %r = "llvm.add"(%x, %y) : (i64, i64) -> i64
    """
    assert value(body, 5) == 105


def test_memset_memcpy_and_memmove() -> None:
    def copy(name: str, count: int) -> str:
        return f"""
        {gep("%q", "%p", "1", "i64")}
        %l = "llvm.mlir.constant"() <{{value = {count} : i64}}> : () -> i64
        "llvm.intr.{name}"(%q, %p, %l) <{{isVolatile = false}}> : ({P}, {P}, i64) -> ()
        {gep("%t", "%p", "3", "i64")}
        {load("%r", "%t")}
        """

    assert value(copy("memmove", 24)) == 102
    assert rule(copy("memcpy", 24)) == "overlap"
    assert value(copy("memcpy", 8)) == 103
    assert value(copy("memcpy", 0)) == 103
    assert rule(copy("memmove", 64)) == "out-of-bounds"
    body = f"""
    %b = "llvm.mlir.constant"() <{{value = -1 : i8}}> : () -> i8
    %l = "llvm.mlir.constant"() <{{value = 8 : i64}}> : () -> i64
    "llvm.intr.memset"(%p, %b, %l) <{{isVolatile = false}}> : ({P}, i8, i64) -> ()
    {load("%r", "%p")}
    """
    assert value(body) == -1


def test_addresses_become_pointers_again() -> None:
    body = f"""
    %i = "llvm.ptrtoint"(%p) : ({P}) -> i64
    %e = "llvm.mlir.constant"() <{{value = 16 : i64}}> : () -> i64
    %j = "llvm.add"(%i, %e) : (i64, i64) -> i64
    %q = "llvm.inttoptr"(%j) : (i64) -> {P}
    {load("%r", "%q")}
    """
    assert value(body) == 102
    assert rule(f'%q = "llvm.inttoptr"(%n) : (i64) -> {P}\n' + load("%r", "%q")) == "null-access"


def test_intrinsics_obey_their_poison_flags() -> None:
    def count(flag: str) -> str:
        return f'%r = "llvm.intr.ctlz"(%n) <{{is_zero_poison = {flag}}}> : (i64) -> i64'

    assert value(count("false"), 0) == 64
    assert value(count("true"), 1) == 63
    assert rule(count("true"), 0) == "zero-count"
    absolute = '%r = "llvm.intr.abs"(%n) <{is_int_min_poison = FLAG}> : (i64) -> i64'
    assert value(absolute.replace("FLAG", "false"), -(2**63)) == -(2**63)
    assert rule(absolute.replace("FLAG", "true"), -(2**63)) == "abs-of-minimum"
    assert value(absolute.replace("FLAG", "true"), -3) == 3


def test_overflow_flags_as_a_bit_mask() -> None:
    assert rule(binary("add", " <{overflowFlags = 1 : i32}>"), 2**63 - 1) == "nsw"
    assert rule(binary("add", " <{overflowFlags = 2 : i32}>"), -1) == "nuw"
    assert value(binary("add", " <{overflowFlags = 0 : i32}>"), 2**63 - 1) == -(2**63)


def test_a_memref_becomes_its_descriptor_and_back() -> None:
    kind = "!llvm.struct<(ptr, ptr, i64, array<1 x i64>, array<1 x i64>)>"
    body = f"""
    %c2 = "arith.constant"() <{{value = 2 : index}}> : () -> index
    %v = "enzymexla.subindex"(%a, %c2) : ({M}, index) -> {M}
    %s = "builtin.unrealized_conversion_cast"(%v) : ({M}) -> {kind}
    %l = "llvm.extractvalue"(%s) <{{position = array<i64: 3, 0>}}> : ({kind}) -> i64
    %m = "builtin.unrealized_conversion_cast"(%s) : ({kind}) -> {M}
    %x = "memref.load"(%m, %c2) : ({M}, index) -> i64
    %r = "llvm.mul"(%x, %l) : (i64, i64) -> i64
    """
    assert value(body) == 104 * 6


def test_the_struct_that_an_entry_returns_is_observed_as_its_members():
    text = """
"builtin.module"() ({
  "llvm.func"() <{function_type = !llvm.func<struct<(i8, f64)> (i8)>, sym_name = "k"}> ({
  ^bb0(%a: i8):
    %x = "llvm.mlir.constant"() <{value = 2.5 : f64}> : () -> f64
    %u = "llvm.mlir.undef"() : () -> !llvm.struct<(i8, f64)>
    %v = "llvm.insertvalue"(%u, %a) <{position = array<i64: 0>}>
      : (!llvm.struct<(i8, f64)>, i8) -> !llvm.struct<(i8, f64)>
    %w = "llvm.insertvalue"(%v, %x) <{position = array<i64: 1>}>
      : (!llvm.struct<(i8, f64)>, f64) -> !llvm.struct<(i8, f64)>
    "llvm.return"(%w) : (!llvm.struct<(i8, f64)>) -> ()
  }) : () -> ()
}) : () -> ()"""
    outcome = interpret(read_module(text), entry="k", arguments=[5])
    assert [(o.label, o.data.item()) for o in outcome.observed] == [("result0", 5), ("result1", 2.5)]
    assert all(o.skip is None for o in outcome.observed)


@pytest.mark.parametrize("name", ["fadd", "fmul", "intr.maximum", "intr.minnum"])
@pytest.mark.parametrize("constant", ["", '%c = "llvm.mlir.constant"() <{value = 1.0 : f32}> : () -> f32'])
def test_exact_reductions_stay_exact_when_their_combiner_is_lowered(name, constant):
    outcome = run(
        module(f"""
    %n1 = "llvm.mlir.constant"() <{{value = 1.0 : f32}}> : () -> f32
    %i0 = "arith.constant"() <{{value = 0 : index}}> : () -> index
    %i1 = "arith.constant"() <{{value = 1 : index}}> : () -> index
    %i4 = "arith.constant"() <{{value = 4 : index}}> : () -> index
    %s = "scf.parallel"(%i0, %i4, %i1, %n1) <{{operandSegmentSizes = array<i32: 1, 1, 1, 1>}}> ({{
    ^bb1(%i: index):
      "scf.reduce"(%n1) ({{
      ^bb2(%x: f32, %y: f32):
        {constant}
        %q = "llvm.{name}"(%x, %y) : (f32, f32) -> f32
        "scf.reduce.return"(%q) : (f32) -> ()
      }}) : (f32) -> ()
    }}) : (index, index, index, f32) -> f32
    %r = "llvm.fptosi"(%s) : (f32) -> i64""")
    )
    assert outcome.observed[0].skip is None
    assert outcome.observed[0].data[0] == (5 if name == "fadd" else 1)

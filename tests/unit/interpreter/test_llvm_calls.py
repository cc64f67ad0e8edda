"""llvm: calls, globals, branches and atomics (SEMANTICS §7)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from difftest.interpreter.run import interpret
from difftest.ir.reader import read_module
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


def test_malloc_and_free() -> None:
    more = """
  "llvm.func"() <{function_type = !llvm.func<ptr (i64)>, sym_name = "malloc"}> ({
  }) : () -> ()
  "llvm.func"() <{function_type = !llvm.func<void (ptr)>, sym_name = "free"}> ({
  }) : () -> ()"""
    new = f"""
    %e = "llvm.mlir.constant"() <{{value = 8 : i64}}> : () -> i64
    %m = "llvm.call"(%e) <{{callee = @malloc}}> : (i64) -> {P}"""
    free = f'"llvm.call"(%m) <{{callee = @free}}> : ({P}) -> ()'
    good = f"{new}\n{store('%n', '%m')}\n{load('%r', '%m')}\n{free}"
    assert value(good, 12, more=more) == 12
    assert rule(f"{good}\n{free}", more=more) == "double-free"
    assert rule(f"{new}\n{load('%r', '%m')}", more=more) == "uninitialised-read"
    assert rule(f"{new}\n{free}\n{load('%r', '%m')}", more=more) == "use-after-free"
    assert rule(good.replace("(%m) <{callee = @free}", "(%p) <{callee = @free}"), more=more) == "bad-free"


def test_a_function_without_body_or_model_has_no_rule() -> None:
    more = '"llvm.func"() <{function_type = !llvm.func<i64 (i64)>, sym_name = "g"}> ({\n}) : () -> ()'
    body = '%r = "llvm.call"(%n) <{callee = @g}> : (i64) -> i64'
    assert run(module(body, more)).kind is OutcomeKind.UNSUPPORTED


def test_math_functions_of_libraries() -> None:
    more = '"llvm.func"() <{function_type = !llvm.func<f32 (f32)>, sym_name = "NAME"}> ({\n}) : () -> ()'
    body = """
    %f = "llvm.mlir.constant"() <{value = 6.250000e+00 : f32}> : () -> f32
    %s = "llvm.call"(%f) <{callee = @NAME}> : (f32) -> f32
    %r = "llvm.fptosi"(%s) : (f32) -> i64
    """
    for name, expected in (("floorf", 6), ("__nv_ceilf", 7), ("fabsf", 6)):
        assert value(body.replace("NAME", name), more=more.replace("NAME", name)) == expected


def test_globals_keep_their_state_and_constants_may_not_be_written() -> None:
    more = """
  "llvm.mlir.global"() <{addr_space = 0 : i32, global_type = !llvm.array<3 x i64>, linkage = #llvm.linkage<internal>,
      sym_name = "g", value = dense<[7, 8, 9]> : tensor<3xi64>FLAG}> ({
  }) : () -> ()"""
    where = f'%g = "llvm.mlir.addressof"() <{{global_name = @g}}> : () -> {P}\n' + gep(
        "%q", "%g", "0, 1", "!llvm.array<3 x i64>"
    )
    read = f"{where}\n{load('%r', '%q')}"
    assert value(read, more=more.replace("FLAG", "")) == 8
    again = where.replace("%g", "%h").replace("%q", "%s")
    assert value(f"{where}\n{store('%n', '%q')}\n{again}\n{load('%r', '%s')}", 5, more=more.replace("FLAG", "")) == 5
    constant = more.replace("FLAG", ", constant")
    assert rule(f"{where}\n{store('%n', '%q')}\n{load('%r', '%q')}", more=constant) == "constant-write"
    assert value(read, more=constant) == 8


def test_branches_carry_their_arguments() -> None:
    more = """
  "llvm.func"() <{function_type = !llvm.func<i64 (i64)>, sym_name = "f"}> ({
  ^bb0(%x: i64):
    %z = "llvm.mlir.constant"() <{value = 0 : i64}> : () -> i64
    %o = "llvm.mlir.constant"() <{value = 1 : i64}> : () -> i64
    "llvm.br"(%z, %x)[^bb1] : (i64, i64) -> ()
  ^bb1(%s: i64, %i: i64):
    %c = "llvm.icmp"(%i, %z) <{predicate = 4 : i64}> : (i64, i64) -> i1
    "llvm.cond_br"(%c, %s)[^bb2, ^bb3] <{operandSegmentSizes = array<i32: 1, 0, 1>}> : (i1, i64) -> ()
  ^bb2:
    %t = "llvm.add"(%s, %i) : (i64, i64) -> i64
    %j = "llvm.sub"(%i, %o) : (i64, i64) -> i64
    "llvm.br"(%t, %j)[^bb1] : (i64, i64) -> ()
  ^bb3(%e: i64):
    "llvm.return"(%e) : (i64) -> ()
  }) : () -> ()"""
    assert value('%r = "llvm.call"(%n) <{callee = @f}> : (i64) -> i64', 10, more=more) == 55


@pytest.mark.parametrize(
    ("operation", "n", "after"),
    [(0, 5, 5), (1, 5, 105), (3, 6, 4), (5, 3, 103), (6, 1, 101), (7, 101, 101), (8, -5, -5), (9, -1, -1), (10, 7, 7)],
)
def test_atomics_return_the_old_value(operation: int, n: int, after: int) -> None:
    body = f"""
    %r = "llvm.atomicrmw"(%p, %n) <{{bin_op = {operation} : i64, ordering = 2 : i64}}> : ({P}, i64) -> i64
    {load("%x", "%p")}
    {gep("%q", "%p", "1", "i64")}
    {store("%x", "%q")}
    """
    outcome = run(module(body), n)
    assert outcome.kind is OutcomeKind.OK, outcome.fault
    assert np.array_equal(outcome.observed[0].data[:2], [100, after])


def test_cmpxchg_replaces_what_it_expects() -> None:
    kind = "!llvm.struct<(i64, i1)>"
    body = f"""
    %s = "llvm.cmpxchg"(%p, %n, %one) <{{success_ordering = 4 : i64, failure_ordering = 4 : i64}}>
        : ({P}, i64, i64) -> {kind}
    %o = "llvm.extractvalue"(%s) <{{position = array<i64: 1>}}> : ({kind}) -> i1
    %f = "llvm.zext"(%o) : (i1) -> i64
    {load("%x", "%p")}
    %t = "llvm.mlir.constant"() <{{value = 1000 : i64}}> : () -> i64
    %m = "llvm.mul"(%f, %t) : (i64, i64) -> i64
    %r = "llvm.add"(%x, %m) : (i64, i64) -> i64
    """
    assert value(body, 100) == 1001
    assert value(body, 99) == 100


def test_places_that_must_not_be_reached() -> None:
    assert rule('"ub.unreachable"() : () -> ()\n%r = "llvm.add"(%n, %n) : (i64, i64) -> i64') == "unreachable"
    body = """
    %c = "llvm.icmp"(%n, %one) <{predicate = 0 : i64}> : (i64, i64) -> i1
    "llvm.intr.assume"(%c) : (i1) -> ()
    %r = "llvm.add"(%n, %n) : (i64, i64) -> i64
    """
    assert rule(body, 3) == "assumption"
    assert value(body, 1) == 2


@pytest.mark.parametrize("name", ["aligned_alloc", "_mlir_memref_to_llvm_aligned_alloc"])
def test_aligned_allocations_are_freed_like_others(name):
    free = "free" if name == "aligned_alloc" else "_mlir_memref_to_llvm_free"
    body = f"""
    %align = "llvm.mlir.constant"() <{{value = 16 : i64}}> : () -> i64
    %mem = "llvm.call"(%align, %align) <{{callee = @{name}}}> : (i64, i64) -> {P}
    "llvm.store"(%n, %mem) : (i64, {P}) -> ()
    %r = "llvm.load"(%mem) : ({P}) -> i64
    "llvm.call"(%mem) <{{callee = @{free}}}> : ({P}) -> ()"""
    assert value(body, 7) == 7
    again = f'{body}\n"llvm.call"(%mem) <{{callee = @{free}}}> : ({P}) -> ()'
    assert rule(again) == "double-free"

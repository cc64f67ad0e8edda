"""gpu: kernels as functions, tokens, and device memory (SEMANTICS §8 and §9)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from difftest.interpreter.run import interpret
from difftest.ir.reader import read_module
from difftest.model import Mode, Outcome, OutcomeKind

M = "memref<8xi32>"
TOKEN = "!gpu.async.token"


def module(host: str, *, attributes: str = "", kernels: str = "") -> str:
    """`@k(%a, %b)` with `host` between constants and return, and kernels `@m::@add` (x += v) and `@m::@copy`."""
    return f"""
"builtin.module"() ({{
  "func.func"() <{{function_type = ({M}, {M}) -> (), sym_name = "k"}}> ({{
  ^bb0(%a: {M}, %b: {M}):
    %c0 = "arith.constant"() <{{value = 0 : index}}> : () -> index
    %c1 = "arith.constant"() <{{value = 1 : index}}> : () -> index
    %c4 = "arith.constant"() <{{value = 4 : index}}> : () -> index
    %c8 = "arith.constant"() <{{value = 8 : index}}> : () -> index
    %v = "arith.constant"() <{{value = 5 : i32}}> : () -> i32
    {host}
    "func.return"() : () -> ()
  }}) : () -> ()
  "gpu.module"() <{{sym_name = "m"}}> ({{
    "gpu.func"() <{{function_type = ({M}, i32) -> (), kernel, workgroup_attributions = 0 : i64{attributes}}}> ({{
    ^bb0(%x: {M}, %s: i32):
      %t = "gpu.thread_id"() <{{dimension = #gpu<dim x>}}> : () -> index
      %o = "memref.load"(%x, %t) : ({M}, index) -> i32
      %n = "arith.addi"(%o, %s) : (i32, i32) -> i32
      "memref.store"(%n, %x, %t) : (i32, {M}, index) -> ()
      "gpu.return"() : () -> ()
    }}) {{sym_name = "add"}} : () -> ()
    "gpu.func"() <{{function_type = ({M}, {M}) -> (), kernel, workgroup_attributions = 0 : i64}}> ({{
    ^bb0(%from: {M}, %to: {M}):
      %t = "gpu.thread_id"() <{{dimension = #gpu<dim x>}}> : () -> index
      %o = "memref.load"(%from, %t) : ({M}, index) -> i32
      "memref.store"(%o, %to, %t) : (i32, {M}, index) -> ()
      "gpu.return"() : () -> ()
    }}) {{sym_name = "copy"}} : () -> ()
    {kernels}
  }}) : () -> ()
}}) {{gpu.container_module}} : () -> ()
"""


def add(memref: str, *, after: str = "", gives: str = "", block: str = "%c8", grid: str = "%c1") -> str:
    return _launch("add", f"{memref}, %v", f"{M}, i32", (after, gives), (grid, block))


def copy(source: str, target: str, *, after: str = "", gives: str = "") -> str:
    return _launch("copy", f"{source}, {target}", f"{M}, {M}", (after, gives), ("%c1", "%c8"))


def _launch(name: str, operands: str, types: str, tokens: tuple[str, str], sizes: tuple[str, str]) -> str:
    after, gives = tokens
    waited = after.split()
    grid, block = sizes
    segments = f"array<i32: {len(waited)}, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 2, 0>"
    given = "".join(f"{t}, " for t in waited)
    kinds = f"{TOKEN}, " * len(waited) + "index, " * 6 + types
    return (
        f'{gives + " = " if gives else ""}"gpu.launch_func"({given}{grid}, %c1, %c1, {block}, %c1, %c1, {operands})'
        f" <{{kernel = @m::@{name}, operandSegmentSizes = {segments}}}> : ({kinds}) -> {TOKEN if gives else '()'}"
    )


def wait(tokens: str, gives: str = "") -> str:
    names = tokens.split()
    result = f"{gives} = " if gives else ""
    return f'{result}"gpu.wait"({", ".join(names)}) : ({", ".join([TOKEN] * len(names))}) -> {TOKEN if gives else "()"}'


def alloc(gives: str, *, shared: bool = False, after: str = "", token: str = "") -> str:
    flag = ", hostShared" if shared else ""
    count = len(after.split())
    names = f"{gives}, {token}" if token else gives
    return (
        f'{names} = "gpu.alloc"({after}) <{{operandSegmentSizes = array<i32: {count}, 0, 0>{flag}}}> : '
        f"({TOKEN if after else ''}) -> {f'({M}, {TOKEN})' if token else M}"
    )


def run(text: str, *, mode: Mode = Mode.SOURCE) -> Outcome:
    arguments = [np.arange(8, dtype=np.int32), np.zeros(8, np.int32)]
    return interpret(read_module(text), entry="k", arguments=arguments, mode=mode)


def results(text: str, *, mode: Mode = Mode.SOURCE) -> tuple[Any, Any]:
    outcome = run(text, mode=mode)
    assert outcome.kind is OutcomeKind.OK, outcome.fault
    return outcome.observed[0].data, outcome.observed[1].data


def rule(outcome: Outcome) -> str:
    assert outcome.fault is not None, outcome
    return outcome.fault.rule


def test_a_kernel_runs_with_its_operands() -> None:
    a, b = results(module(f"{add('%a')}\n{copy('%a', '%b')}"))
    assert np.array_equal(a, np.arange(8) + 5)
    assert np.array_equal(b, a)


def test_a_kernel_that_is_not_there_or_compiled_has_no_rule() -> None:
    compiled = '"gpu.binary"() <{objects = [], sym_name = "bin"}> : () -> ()'
    for name in ("@m::@gone", "@bin::@add", "@nowhere::@add"):
        text = module(add("%a").replace("@m::@add", name)).replace('"gpu.module"()', f'{compiled}\n"gpu.module"()')
        assert run(text).kind is OutcomeKind.UNSUPPORTED, name


@pytest.mark.parametrize(
    ("attributes", "good"),
    [
        (", known_block_size = array<i32: 8, 1, 1>", True),
        (", known_block_size = array<i32: 4, 1, 1>", False),
        (", known_grid_size = array<i32: 1, 1, 1>", True),
        (", known_grid_size = array<i32: 2, 1, 1>", False),
        (", nvvm.maxntid = array<i32: 16>", True),
        (", nvvm.maxntid = array<i32: 7, 1, 1>", False),
        (", nvvm.maxntid = array<i32: 1, 4, 2>", True),
        (", nvvm.reqntid = array<i32: 16, 1, 1>", False),
    ],
)
def test_promises_about_the_sizes_of_a_launch(attributes: str, good: bool) -> None:
    outcome = run(module(add("%a"), attributes=attributes))
    assert (outcome.kind is OutcomeKind.OK) is good
    assert good or rule(outcome) == "known-size"


def test_tokens_order_operations() -> None:
    chain = "\n".join(
        [wait("", "%t0"), add("%a", after="%t0", gives="%t1"), copy("%a", "%b", after="%t1", gives="%t2"), wait("%t2")]
    )
    a, b = results(module(chain))
    assert np.array_equal(a, np.arange(8) + 5)
    assert np.array_equal(b, a)


def test_conflicting_operations_without_a_token_between_them_race() -> None:
    host = "\n".join(
        [
            wait("", "%t0"),
            add("%a", after="%t0", gives="%t1"),
            copy("%a", "%b", after="%t0", gives="%t2"),
            wait("%t1 %t2"),
        ]
    )
    outcome = run(module(host), mode=Mode.INTERMEDIATE)
    assert (outcome.kind, rule(outcome)) == (OutcomeKind.RACE, "race")


def test_independent_operations_may_run_at_once_and_a_join_orders_what_follows() -> None:
    host = "\n".join(
        [
            wait("", "%t0"),
            add("%a", after="%t0", gives="%t1"),
            add("%b", after="%t0", gives="%t2"),
            wait("%t1 %t2", "%t3"),
            copy("%a", "%b", after="%t3", gives="%t4"),
            wait("%t4"),
        ]
    )
    assert np.array_equal(results(module(host))[1], np.arange(8) + 5)
    late = host.replace(
        '"gpu.wait"(%t1, %t2) : (!gpu.async.token, !gpu.async.token)', '"gpu.wait"(%t1) : (!gpu.async.token)'
    )
    assert late != host
    assert run(module(late)).kind is OutcomeKind.RACE


def test_reading_the_same_memory_at_once_is_no_race() -> None:
    host = "\n".join(
        [
            alloc("%d"),
            wait("", "%t0"),
            copy("%a", "%b", after="%t0", gives="%t1"),
            copy("%a", "%d", after="%t0", gives="%t2"),
            wait("%t1 %t2"),
            f'"gpu.dealloc"(%d) : ({M}) -> ()',
        ]
    )
    assert np.array_equal(results(module(host))[1], np.arange(8))


HOST_ACCESS = {
    "load": f'%x = "memref.load"(%b, %c0) : ({M}, index) -> i32',
    "store": f'"memref.store"(%v, %b, %c0) : (i32, {M}, index) -> ()',
    "atomic": f'%x = "memref.atomic_rmw"(%v, %b, %c0) <{{kind = 1 : i64}}> : (i32, {M}, index) -> i32',
    "loop": f"""
    "scf.parallel"(%c0, %c8, %c1) <{{operandSegmentSizes = array<i32: 1, 1, 1, 0>}}> ({{
    ^bb0(%i: index):
      "memref.store"(%v, %b, %i) : (i32, {M}, index) -> ()
      "scf.reduce"() : () -> ()
    }}) : (index, index, index) -> ()""",
    "synchronous launch": add("%b"),
    "copy": f'"memref.copy"(%a, %b) : ({M}, {M}) -> ()',
}


@pytest.mark.parametrize("name", HOST_ACCESS)
def test_the_host_must_wait_before_it_touches_what_an_operation_wrote(name: str) -> None:
    before = [wait("", "%t0"), copy("%a", "%b", after="%t0", gives="%t1")]
    unordered = run(module("\n".join([*before, HOST_ACCESS[name], wait("%t1")])))
    assert (unordered.kind, rule(unordered)) == (OutcomeKind.RACE, "race")
    ordered = run(module("\n".join([*before, wait("%t1"), HOST_ACCESS[name]])))
    assert ordered.kind is OutcomeKind.OK, ordered.fault


def test_the_host_may_read_what_a_pending_operation_reads() -> None:
    read = f'%x = "memref.load"(%a, %c0) : ({M}, index) -> i32'
    start = [wait("", "%t0"), copy("%a", "%b", after="%t0", gives="%t1")]
    assert run(module("\n".join([*start, read, wait("%t1")]))).kind is OutcomeKind.OK
    write = f'"memref.store"(%v, %a, %c0) : (i32, {M}, index) -> ()'
    assert run(module("\n".join([*start, write, wait("%t1")]))).kind is OutcomeKind.RACE


def test_device_memory_is_not_the_hosts() -> None:
    touch = f'"memref.store"(%v, %d, %c0) : (i32, {M}, index) -> ()'
    outcome = run(module(f"{alloc('%d')}\n{touch}"))
    assert (outcome.kind, rule(outcome)) == (OutcomeKind.UB, "host-access")
    assert run(module(f"{alloc('%d', shared=True)}\n{touch}")).kind is OutcomeKind.OK
    assert run(module(f"{alloc('%d')}\n{touch}"), mode=Mode.INTERMEDIATE).kind is OutcomeKind.OK


def test_memcpy_and_memset_run_on_the_device() -> None:
    host = "\n".join(
        [
            alloc("%d"),
            f'"gpu.memset"(%d, %v) : ({M}, i32) -> ()',
            add("%d"),
            f'"gpu.memcpy"(%b, %d) : ({M}, {M}) -> ()',
            f'"gpu.dealloc"(%d) : ({M}) -> ()',
        ]
    )
    assert np.array_equal(results(module(host))[1], np.full(8, 10))


def test_device_memory_is_uninitialised_and_freed_once() -> None:
    assert rule(run(module(f"{alloc('%d')}\n{copy('%d', '%b')}"))) == "uninitialised-read"
    free = f'"gpu.dealloc"(%d) : ({M}) -> ()'
    assert rule(run(module(f"{alloc('%d')}\n{free}\n{free}"))) == "double-free"
    assert rule(run(module(f"{alloc('%d')}\n{free}\n{add('%d')}"))) == "use-after-free"
    assert rule(run(module(f'"gpu.dealloc"(%a) : ({M}) -> ()'))) == "bad-free"


def test_an_allocation_may_not_be_used_before_its_token_nor_after_its_end_is_due() -> None:
    start = [wait("", "%t0"), alloc("%d", after="%t0", token="%t1")]
    good = [*start, copy("%a", "%d", after="%t1", gives="%t2")]
    free = f'%t3 = "gpu.dealloc"(%t2, %d) : ({TOKEN}, {M}) -> {TOKEN}'
    assert run(module("\n".join([*good, free, wait("%t3")]))).kind is OutcomeKind.OK
    early = [*start, copy("%a", "%d", after="%t0", gives="%t2"), wait("%t1 %t2")]
    assert run(module("\n".join(early))).kind is OutcomeKind.RACE
    late = [*good, free.replace("%t2,", "%t1,"), wait("%t2 %t3")]
    assert run(module("\n".join(late))).kind is OutcomeKind.RACE


def test_a_shared_global_of_the_kernels_module_is_one_per_block() -> None:
    kernel = f"""
    "memref.global"() <{{initial_value, sym_name = "s", type = memref<8xi32, 3>}}> : () -> ()
    "gpu.func"() <{{function_type = ({M}, i32) -> (), kernel, workgroup_attributions = 0 : i64}}> ({{
    ^bb0(%x: {M}, %s: i32):
      %t = "gpu.thread_id"() <{{dimension = #gpu<dim x>}}> : () -> index
      %b = "gpu.block_id"() <{{dimension = #gpu<dim x>}}> : () -> index
      %bi = "arith.index_cast"(%b) : (index) -> i32
      %g = "memref.get_global"() <{{name = @s}}> : () -> memref<8xi32, 3>
      "memref.store"(%bi, %g, %t) : (i32, memref<8xi32, 3>, index) -> ()
      "gpu.barrier"() : () -> ()
      %four = "arith.constant"() <{{value = 2 : index}}> : () -> index
      %from = "arith.muli"(%b, %four) : (index, index) -> index
      %at = "arith.addi"(%from, %t) : (index, index) -> index
      %one = "arith.constant"() <{{value = 1 : index}}> : () -> index
      %n = "arith.xori"(%t, %one) : (index, index) -> index
      %o = "memref.load"(%g, %n) : (memref<8xi32, 3>, index) -> i32
      "memref.store"(%o, %x, %at) : (i32, {M}, index) -> ()
      "gpu.return"() : () -> ()
    }}) {{sym_name = "shared"}} : () -> ()"""
    two = '%c2 = "arith.constant"() <{value = 2 : index}> : () -> index\n'
    host = two + add("%a", block="%c2", grid="%c4").replace("@m::@add", "@m::@shared")
    assert np.array_equal(results(module(host, kernels=kernel))[0], [0, 0, 1, 1, 2, 2, 3, 3])


def test_a_kernel_calls_functions_of_its_module_and_they_know_their_work_item() -> None:
    kernel = f"""
    "func.func"() <{{function_type = () -> index, sym_name = "where"}}> ({{
      %t = "gpu.thread_id"() <{{dimension = #gpu<dim x>}}> : () -> index
      "gpu.barrier"() : () -> ()
      "func.return"(%t) : (index) -> ()
    }}) : () -> ()
    "gpu.func"() <{{function_type = ({M}, i32) -> (), kernel, workgroup_attributions = 0 : i64}}> ({{
    ^bb0(%x: {M}, %s: i32):
      %t = "func.call"() <{{callee = @where}}> : () -> index
      "memref.store"(%s, %x, %t) : (i32, {M}, index) -> ()
      "gpu.return"() : () -> ()
    }}) {{sym_name = "calls"}} : () -> ()"""
    host = add("%a").replace("@m::@add", "@m::@calls")
    assert np.array_equal(results(module(host, kernels=kernel))[0], np.full(8, 5))


def test_a_kernel_in_llvm_takes_the_parts_of_memrefs_and_shares_globals_per_block() -> None:
    pointer = "!llvm.ptr"
    kernel = f"""
    "llvm.mlir.global"() <{{addr_space = 3 : i32, global_type = !llvm.array<2 x i32>, linkage = #llvm.linkage<internal>,
        sym_name = "s"}}> ({{
    }}) : () -> ()
    "llvm.func"() <{{function_type = !llvm.func<void (ptr, ptr, i64, i64, i64, i32)>, sym_name = "low"}}> ({{
    ^bb0(%p: {pointer}, %q: {pointer}, %offset: i64, %size: i64, %stride: i64, %s: i32):
      %two = "llvm.mlir.constant"() <{{value = 2 : i32}}> : () -> i32
      %one = "llvm.mlir.constant"() <{{value = 1 : i32}}> : () -> i32
      %t = "nvvm.read.ptx.sreg.tid.x"() : () -> i32
      %b = "nvvm.read.ptx.sreg.ctaid.x"() : () -> i32
      %g = "llvm.mlir.addressof"() <{{global_name = @s}}> : () -> {pointer}
      %mine = "llvm.getelementptr"(%g, %t) <{{elem_type = i32, rawConstantIndices = array<i32: -2147483648>}}>
          : ({pointer}, i32) -> {pointer}
      "llvm.store"(%b, %mine) : (i32, {pointer}) -> ()
      "nvvm.barrier0"() : () -> ()
      %n = "llvm.xor"(%t, %one) : (i32, i32) -> i32
      %other = "llvm.getelementptr"(%g, %n) <{{elem_type = i32, rawConstantIndices = array<i32: -2147483648>}}>
          : ({pointer}, i32) -> {pointer}
      %v = "llvm.load"(%other) : ({pointer}) -> i32
      %row = "llvm.mul"(%b, %two) : (i32, i32) -> i32
      %at = "llvm.add"(%row, %t) : (i32, i32) -> i32
      %cell = "llvm.getelementptr"(%q, %at) <{{elem_type = i32, rawConstantIndices = array<i32: -2147483648>}}>
          : ({pointer}, i32) -> {pointer}
      %sum = "llvm.add"(%v, %s) : (i32, i32) -> i32
      "llvm.store"(%sum, %cell) : (i32, {pointer}) -> ()
      "llvm.return"() : () -> ()
    }}) {{nvvm.kernel}} : () -> ()"""
    two = '%c2 = "arith.constant"() <{value = 2 : index}> : () -> index\n'
    host = two + add("%a", block="%c2", grid="%c4").replace("@m::@add", "@m::@low")
    assert np.array_equal(results(module(host, kernels=kernel))[0], [5, 5, 6, 6, 7, 7, 8, 8])

"""enzymexla: wrappers, barriers over induction variables, pointers as memrefs (SEMANTICS §10)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from difftest.interpreter.run import interpret
from difftest.ir.reader import read_module
from difftest.model import Mode, Outcome, OutcomeKind, Schedule

M = "memref<?xi32>"
SCHEDULES = (Schedule.LOCK_STEP, Schedule.SEQUENTIAL, Schedule.SHUFFLED)
PARALLEL = "operandSegmentSizes = array<i32: {0}, {0}, {0}, 0>"


def module(body: str) -> str:
    constants = "\n".join(
        f'%c{n} = "arith.constant"() <{{value = {n} : index}}> : () -> index' for n in (0, 1, 2, 3, 4, 8, 12)
    )
    return f"""
"builtin.module"() ({{
  "func.func"() <{{function_type = ({M}, {M}) -> index, sym_name = "k"}}> ({{
  ^bb0(%a: {M}, %b: {M}):
    {constants}
    {body}
  }}) : () -> ()
}}) : () -> ()
"""


def parallel(ivs: str, uppers: str, body: str) -> str:
    names, ends = ivs.split(), uppers.split()
    n = len(names)
    operands = ", ".join(["%c0"] * n + ends + ["%c1"] * n)
    arguments = ", ".join(f"{i}: index" for i in names)
    return f"""
    "scf.parallel"({operands}) <{{{PARALLEL.format(n)}}}> ({{
    ^bb0({arguments}):
      {body}
      "scf.reduce"() : () -> ()
    }}) : ({", ".join(["index"] * 3 * n)}) -> ()"""


def wrapper(body: str, name: str = "gpu_wrapper") -> str:
    return f"""
    %w = "enzymexla.{name}"() ({{
      {body}
      "enzymexla.polygeist_yield"() : () -> ()
    }}) : () -> index"""


RETURN = '"func.return"(%c0) : (index) -> ()'


def run(text: str, *, schedule: Schedule = Schedule.LOCK_STEP, mode: Mode = Mode.SOURCE, size: int = 64) -> Outcome:
    arguments = [np.arange(size, dtype=np.int32), np.full(size, -1, np.int32)]
    return interpret(read_module(text), entry="k", arguments=arguments, schedule=schedule, mode=mode, seed=2)


def result(text: str, *, schedule: Schedule = Schedule.LOCK_STEP) -> Any:
    outcome = run(text, schedule=schedule)
    assert outcome.kind is OutcomeKind.OK, outcome.fault
    return outcome.observed[1].data


def rule(outcome: Outcome) -> str:
    assert outcome.fault is not None, outcome
    return outcome.fault.rule


def barrier(ivs: str) -> str:
    names = ivs.split()
    return f'"enzymexla.barrier"({", ".join(names)}) : ({", ".join(["index"] * len(names))}) -> ()'


def number(at: str, *terms: tuple[str, int]) -> str:
    """`%at` = the sum of iv * factor."""
    lines: list[str] = []
    total = "%c0"
    for i, (iv, factor) in enumerate(terms):
        product, following = f"{at}p{i}", at if i + 1 == len(terms) else f"{at}s{i}"
        lines.extend(
            (
                f'{product} = "arith.muli"({iv}, %c{factor}) : (index, index) -> index',
                f'{following} = "arith.addi"({total}, {product}) : (index, index) -> index',
            )
        )
        total = following
    return "\n".join(lines)


def exchange(ivs: str, mine: str, other: str) -> str:
    """Write b[mine] = mine, barrier over `ivs`, read b[other], and after it another barrier write it back."""
    return f"""
      %x = "arith.index_cast"({mine}) : (index) -> i32
      "memref.store"(%x, %b, {mine}) : (i32, {M}, index) -> ()
      {barrier(ivs)}
      %y = "memref.load"(%b, {other}) : ({M}, index) -> i32
      {barrier(ivs)}
      "memref.store"(%y, %b, {mine}) : (i32, {M}, index) -> ()
    """


def flipped(of: str, into: str) -> str:
    return f'{into} = "arith.subi"(%c3, {of}) : (index, index) -> index'


def test_a_wrapper_runs_its_region_once_and_succeeds() -> None:
    body = """
      %o = "memref.load"(%b, %c0) : (memref<?xi32>, index) -> i32
      %n = "arith.addi"(%o, %o) : (i32, i32) -> i32
      "memref.store"(%n, %b, %c0) : (i32, memref<?xi32>, index) -> ()
    """
    for name in ("gpu_wrapper", "gpu_error"):
        outcome = run(module(wrapper(body, name) + '\n"func.return"(%w) : (index) -> ()'))
        assert outcome.kind is OutcomeKind.OK, outcome.fault
        assert outcome.observed[1].data[0] == -2
        assert outcome.observed[2].data == 0


def test_alternatives_run_the_first_region() -> None:
    def store(value: str) -> str:
        return f'"memref.store"({value}, %b, %c0) : (i32, {M}, index) -> ()\n"enzymexla.polygeist_yield"() : () -> ()'

    body = f"""
    %x = "arith.constant"() <{{value = 7 : i32}}> : () -> i32
    %y = "arith.constant"() <{{value = 8 : i32}}> : () -> i32
    "enzymexla.alternatives"() ({{
      {store("%x")}
    }}, {{
      {store("%y")}
    }}) : () -> ()
    {RETURN}"""
    assert result(module(body))[0] == 7


def test_an_alloca_at_block_level_is_shared_by_the_block() -> None:
    for space in ("", ", 5"):
        kind = f"memref<4xi32{space}>"
        inner = f"""
        {number("%g", ("%i", 4), ("%j", 1))}
        %x = "arith.index_cast"(%g) : (index) -> i32
        "memref.store"(%x, %s, %j) : (i32, {kind}, index) -> ()
        {barrier("%j")}
        {flipped("%j", "%r")}
        %y = "memref.load"(%s, %r) : ({kind}, index) -> i32
        "memref.store"(%y, %b, %g) : (i32, {M}, index) -> ()
        """
        block = f'%s = "memref.alloca"() <{{operandSegmentSizes = array<i32: 0, 0>}}> : () -> {kind}'
        text = module(wrapper(parallel("%i", "%c3", block + parallel("%j", "%c4", inner))) + RETURN)
        for schedule in SCHEDULES:
            want = np.arange(12).reshape(3, 4)[:, ::-1].reshape(-1)
            assert np.array_equal(result(text, schedule=schedule)[:12], want)
        assert run(text.replace(barrier("%j"), "")).kind is not OutcomeKind.OK


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_barrier_over_all_variables_of_one_loop(schedule: Schedule) -> None:
    body = f"""
    {flipped("%j", "%q")}
    {number("%g", ("%i", 4), ("%j", 1))}
    %p = "arith.subi"(%c1, %i) : (index, index) -> index
    {number("%h", ("%p", 4), ("%q", 1))}
    {exchange("%i %j", "%g", "%h")}
    """
    text = module(parallel("%i %j", "%c2 %c4", body) + RETURN)
    assert np.array_equal(result(text, schedule=schedule)[:8], np.arange(8)[::-1])


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_barrier_over_the_variables_of_two_loops(schedule: Schedule) -> None:
    body = f"""
    {flipped("%j", "%q")}
    {number("%g", ("%i", 4), ("%j", 1))}
    %p = "arith.subi"(%c1, %i) : (index, index) -> index
    {number("%h", ("%p", 4), ("%q", 1))}
    {exchange("%i %j", "%g", "%h")}
    """
    text = module(parallel("%i", "%c2", parallel("%j", "%c4", body)) + RETURN)
    assert np.array_equal(result(text, schedule=schedule)[:8], np.arange(8)[::-1])
    inner_only = text.replace(barrier("%i %j"), barrier("%j"))
    assert run(inner_only, schedule=schedule).kind is OutcomeKind.RACE


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_barrier_over_some_variables_orders_only_within_their_groups(schedule: Schedule) -> None:
    def text(other: str, ivs: str = "%j") -> str:
        body = f"""
        {flipped("%j", "%q")}
        %p = "arith.subi"(%c2, %i) : (index, index) -> index
        {number("%g", ("%i", 4), ("%j", 1))}
        {number("%h", (other, 4), ("%q", 1))}
        {exchange(ivs, "%g", "%h")}
        """
        return module(wrapper(parallel("%i %j", "%c3 %c4", body)) + RETURN)

    want = np.arange(12).reshape(3, 4)[:, ::-1].reshape(-1)
    assert np.array_equal(result(text("%i"), schedule=schedule)[:12], want)
    assert run(text("%p"), schedule=schedule).kind is OutcomeKind.RACE
    assert np.array_equal(result(text("%p", "%i %j"), schedule=schedule)[:12], np.arange(12)[::-1])


def test_a_barrier_under_a_condition_on_an_unlisted_variable_is_fine_and_on_a_listed_one_undefined() -> None:
    def text(on: str) -> str:
        body = f"""
        {flipped("%j", "%q")}
        {number("%g", ("%i", 4), ("%j", 1))}
        {number("%h", ("%i", 4), ("%q", 1))}
        %c = "arith.cmpi"({on}, %c1) <{{predicate = 0 : i64}}> : (index, index) -> i1
        "scf.if"(%c) ({{
          {exchange("%j", "%g", "%h")}
          "scf.yield"() : () -> ()
        }}, {{
        }}) : (i1) -> ()
        """
        return module(wrapper(parallel("%i %j", "%c3 %c4", body)) + RETURN)

    want = np.full(12, -1)
    want[4:8] = [7, 6, 5, 4]
    assert np.array_equal(result(text("%i"))[:12], want)
    assert rule(run(text("%j"))) == "barrier-divergence"


def test_accesses_of_groups_are_still_compared_after_a_barrier_of_each() -> None:
    body = f"""
    %x = "arith.index_cast"(%i) : (index) -> i32
    %first = "arith.cmpi"(%j, %c0) <{{predicate = 0 : i64}}> : (index, index) -> i1
    "scf.if"(%first) ({{
      "memref.store"(%x, %b, %c0) : (i32, {M}, index) -> ()
      "scf.yield"() : () -> ()
    }}, {{
    }}) : (i1) -> ()
    {barrier("%j")}
    """
    assert run(module(wrapper(parallel("%i %j", "%c3 %c4", body)) + RETURN)).kind is OutcomeKind.RACE
    assert run(module(wrapper(parallel("%i %j", "%c1 %c4", body)) + RETURN)).kind is OutcomeKind.OK


def test_what_a_loop_with_groups_did_is_handed_on_to_the_loop_around() -> None:
    inner = f"""
    {number("%g", ("%i", 4), ("%j", 1))}
    %x = "arith.index_cast"(%o) : (index) -> i32
    "memref.store"(%x, %b, %g) : (i32, {M}, index) -> ()
    {barrier("%j")}
    """
    assert run(module(parallel("%o", "%c2", parallel("%i %j", "%c3 %c4", inner)) + RETURN)).kind is OutcomeKind.RACE


def test_a_barrier_that_lists_outer_variables_only_has_no_rule() -> None:
    body = f"{number('%g', ('%i', 4), ('%j', 1))}\n{exchange('%i', '%g', '%g')}"
    for text in (parallel("%i %j", "%c3 %c4", body), parallel("%i", "%c3", parallel("%j", "%c4", body))):
        assert run(module(text + RETURN)).kind is OutcomeKind.UNSUPPORTED


def test_a_barrier_without_induction_variables_does_nothing() -> None:
    body = exchange("", "%i", "%i")
    assert np.array_equal(result(module(parallel("%i", "%c4", body) + RETURN))[:4], np.arange(4))
    other = f"{flipped('%i', '%r')}\n{exchange('%c0', '%i', '%r')}"
    assert run(module(parallel("%i", "%c4", other) + RETURN)).kind is OutcomeKind.RACE


def test_the_barrier_of_a_serial_loop_does_nothing() -> None:
    body = f"""
    "scf.for"(%c0, %c4, %c1) ({{
    ^bb0(%i: index):
      {exchange("%i", "%i", "%i")}
      "scf.yield"() : () -> ()
    }}) : (index, index, index) -> ()
    {RETURN}"""
    assert np.array_equal(result(module(body))[:4], np.arange(4))


POINTER = '%p = "enzymexla.memref2pointer"(%a) : (memref<?xi32>) -> !llvm.ptr'


def test_a_pointer_as_a_memref_reaches_to_the_end_of_its_object() -> None:
    def text(at: str) -> str:
        return module(f"""
        {POINTER}
        %q = "llvm.getelementptr"(%p) <{{elem_type = i32, rawConstantIndices = array<i32: 60>}}>
            : (!llvm.ptr) -> !llvm.ptr
        %m = "enzymexla.pointer2memref"(%q) : (!llvm.ptr) -> memref<?xi32>
        %x = "memref.load"(%m, {at}) : (memref<?xi32>, index) -> i32
        "memref.store"(%x, %b, %c0) : (i32, {M}, index) -> ()
        {RETURN}""")

    assert result(text("%c3"))[0] == 63
    assert rule(run(text("%c4"))) == "out-of-bounds"


def test_a_pointer_as_a_matrix_and_as_other_elements() -> None:
    body = f"""
    {POINTER}
    %m = "enzymexla.pointer2memref"(%p) : (!llvm.ptr) -> memref<?x4xi32>
    %d = "memref.dim"(%m, %c0) : (memref<?x4xi32>, index) -> index
    %x = "memref.load"(%m, %c2, %c3) : (memref<?x4xi32>, index, index) -> i32
    "memref.store"(%x, %b, %c0) : (i32, {M}, index) -> ()
    %w = "enzymexla.pointer2memref"(%p) : (!llvm.ptr) -> memref<?xi64>
    %y = "memref.load"(%w, %c1) : (memref<?xi64>, index) -> i64
    %h = "arith.constant"() <{{value = 32 : i64}}> : () -> i64
    %s = "arith.shrui"(%y, %h) : (i64, i64) -> i64
    %t = "arith.trunci"(%s) : (i64) -> i32
    "memref.store"(%t, %b, %c1) : (i32, {M}, index) -> ()
    "func.return"(%d) : (index) -> ()"""
    outcome = run(module(body))
    assert outcome.kind is OutcomeKind.OK, outcome.fault
    assert np.array_equal(outcome.observed[1].data[:2], [11, 3])
    assert outcome.observed[2].data == 16


def test_an_unaligned_pointer_is_no_memref() -> None:
    body = f"""
    {POINTER}
    %q = "llvm.getelementptr"(%p) <{{elem_type = i8, rawConstantIndices = array<i32: 2>}}> : (!llvm.ptr) -> !llvm.ptr
    %m = "enzymexla.pointer2memref"(%q) : (!llvm.ptr) -> memref<?xi32>
    {RETURN}"""
    assert rule(run(module(body))) == "misaligned"


def test_subindex_is_a_view() -> None:
    body = f"""
    %v = "enzymexla.subindex"(%a, %c8) : ({M}, index) -> {M}
    %x = "memref.load"(%v, %c3) : ({M}, index) -> i32
    "memref.store"(%x, %b, %c0) : (i32, {M}, index) -> ()
    {RETURN}"""
    assert result(module(body))[0] == 11


def test_memcpy_counts_bytes_and_refuses_overlap() -> None:
    def text(target: str, source: str) -> str:
        return module(f"""
        %u = "enzymexla.subindex"(%b, %c1) : ({M}, index) -> {M}
        "enzymexla.memcpy"({target}, {source}, %c12) : ({M}, {M}, index) -> ()
        {RETURN}""")

    assert np.array_equal(result(text("%b", "%a"))[:4], [0, 1, 2, -1])
    assert rule(run(text("%b", "%u"))) == "overlap"
    assert run(text("%b", "%b")).kind is OutcomeKind.OK


def test_memset_sets_bytes() -> None:
    body = f"""
    %x = "arith.constant"() <{{value = 1 : i8}}> : () -> i8
    "enzymexla.memset"(%b, %x, %c8) : ({M}, i8, index) -> ()
    {RETURN}"""
    assert np.array_equal(result(module(body))[:3], [0x01010101, 0x01010101, -1])


def test_space_five_in_a_launch_of_enzymexla_is_the_blocks_buffer() -> None:
    def text(outer: str) -> str:
        kind = "memref<4xi32, 5>"
        ids = ", ".join(f"%{a}{x}: index" for a in ("b", "t", "g", "d") for x in "xyz")
        launch = f"""
        "gpu.launch"(%c3, %c1, %c1, %c4, %c1, %c1)
            <{{operandSegmentSizes = array<i32: 0, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0>}}> ({{
        ^bb0({ids}):
          %s = "memref.alloca"() <{{operandSegmentSizes = array<i32: 0, 0>}}> : () -> {kind}
          {number("%g", ("%bx", 4), ("%tx", 1))}
          %x = "arith.index_cast"(%g) : (index) -> i32
          "memref.store"(%x, %s, %tx) : (i32, {kind}, index) -> ()
          "gpu.barrier"() : () -> ()
          {flipped("%tx", "%r")}
          %y = "memref.load"(%s, %r) : ({kind}, index) -> i32
          "memref.store"(%y, %b, %g) : (i32, {M}, index) -> ()
          "gpu.terminator"() : () -> ()
        }}) : (index, index, index, index, index, index) -> ()
        """
        return module((wrapper(launch, outer) if outer else launch) + RETURN)

    want = np.arange(12).reshape(3, 4)[:, ::-1].reshape(-1)
    assert np.array_equal(result(text("gpu_error"))[:12], want)
    assert rule(run(text(""))) == "uninitialised-read"

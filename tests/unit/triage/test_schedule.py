"""Launch schedules: what orders launches, what has to, and the races between them."""

from xml.etree import ElementTree

import pytest

from difftest.ir.reader import read_module
from difftest.model import OutcomeKind, Program
from difftest.oracle.judge import prepare
from difftest.triage.concurrent import concurrent_form, hoist_allocations
from difftest.triage.launches import watch_launches
from difftest.triage.schedule import schedule_of
from difftest.triage.schedule_text import schedule_lines, schedule_svg

LAUNCH = (
    '%{name} = "gpu.launch_func"({token}%c1, %c1, %c1, %c8, %c1, %c1, {args}) <{{kernel = @k::@k, '
    "operandSegmentSizes = array<i32: {count}, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 2, 0>}}> : "
    "({token_type}index, index, index, index, index, index, memref<8xi32>, memref<8xi32>) -> !gpu.async.token"
)
PROGRAM = """
"builtin.module"() ({{
  "func.func"() <{{function_type = (memref<8xi32>, memref<8xi32>, memref<8xi32>) -> (), sym_name = "main"}}> ({{
  ^bb0(%a: memref<8xi32>, %b: memref<8xi32>, %c: memref<8xi32>):
    %c0 = "arith.constant"() <{{value = 0 : index}}> : () -> index
    %c8 = "arith.constant"() <{{value = 8 : index}}> : () -> index
    %c1 = "arith.constant"() <{{value = 1 : index}}> : () -> index
    {host}
    "func.return"() : () -> ()
  }}) : () -> ()
  "gpu.module"() <{{sym_name = "k"}}> ({{
    "gpu.func"() <{{function_type = (memref<8xi32>, memref<8xi32>) -> ()}}> ({{
    ^bb0(%x: memref<8xi32>, %y: memref<8xi32>):
      %i = "gpu.thread_id"() <{{dimension = #gpu<dim x>}}> : () -> index
      %v = "memref.load"(%x, %i) : (memref<8xi32>, index) -> i32
      "memref.store"(%v, %y, %i) : (i32, memref<8xi32>, index) -> ()
      "gpu.return"() : () -> ()
    }}) {{gpu.kernel, sym_name = "k"}} : () -> ()
  }}) : () -> ()
}}) {{gpu.container_module}} : () -> ()
"""
READY = '%ready = "gpu.wait"() : () -> !gpu.async.token'
ALLOC = '%m = "memref.alloc"() <{operandSegmentSizes = array<i32: 0, 0>}> : () -> memref<8xi32>'


def launch(name, token, args):
    """A launch that copies its first argument to its second."""
    given = f"%{token}, " if token else ""
    kind = "!gpu.async.token, " if token else ""
    return LAUNCH.format(name=name, token=given, token_type=kind, count=1 if token else 0, args=args)


def wait(*tokens):
    names = ", ".join(f"%{t}" for t in tokens)
    return f'"gpu.wait"({names}) : ({", ".join(["!gpu.async.token"] * len(tokens))}) -> ()'


def watched(*host):
    text = PROGRAM.format(host="\n    ".join(host))
    arguments = prepare(Program(text=text, entry="main")).arguments
    return watch_launches(read_module(text), entry="main", arguments=arguments)


def schedule(*host):
    return schedule_of(watched(*host))


def test_two_launches_that_read_one_buffer_may_run_at_once():
    found = schedule(READY, launch("t1", "ready", "%a, %b"), launch("t2", "ready", "%a, %c"), wait("t1", "t2"))
    assert not found.races and not found.needless
    assert [x.after for x in found.launches] == [(), ()]
    assert (found.actual.steps, found.actual.widest, found.possible.widest) == (1, 2, 2)


def test_a_dropped_token_is_a_race_in_the_buffer_that_both_touch():
    found = schedule(READY, launch("t1", "ready", "%a, %b"), launch("t2", "ready", "%b, %c"), wait("t1", "t2"))
    assert [(r.first, r.second, r.buffer) for r in found.races] == [(1, 2, "arg1")]
    assert found.possible.steps == 2 and found.launches[1].needs == (1,)


def test_the_same_program_with_the_token_has_no_race():
    found = schedule(READY, launch("t1", "ready", "%a, %b"), launch("t2", "t1", "%b, %c"), wait("t2"))
    assert not found.races and not found.needless and found.launches[1].after == (1,)


def test_the_host_reading_before_it_waits_is_a_race():
    load = '%v = "memref.load"(%b, %c0) : (memref<8xi32>, index) -> i32'
    found = schedule(READY, launch("t1", "ready", "%a, %b"), load, wait("t1"))
    assert [(r.first, r.second, r.op) for r in found.races] == [(1, None, "memref.load")]


def test_a_wait_between_independent_launches_is_needless_and_says_what_broke_the_chain():
    found = schedule(
        READY, launch("t1", "ready", "%a, %b"), wait("t1"), ALLOC, launch("t2", "ready", "%a, %m"), wait("t2")
    )
    (needless,) = found.needless
    assert (needless.first, needless.second, needless.op) == (1, 2, "gpu.wait")
    assert len(needless.reasons) == 1 and needless.reasons[0].startswith("memref.alloc at line ")
    assert (found.actual.widest, found.possible.widest) == (1, 2)


def test_a_wait_whose_result_the_host_reads_is_needed():
    load = '%v = "memref.load"(%b, %c0) : (memref<8xi32>, index) -> i32'
    found = schedule(
        READY, launch("t1", "ready", "%a, %b"), wait("t1"), load, launch("t2", "ready", "%a, %c"), wait("t2")
    )
    assert not found.needless and found.launches[1].needs == (1,)


def test_a_token_chain_of_independent_launches_is_needless():
    found = schedule(READY, launch("t1", "ready", "%a, %b"), launch("t2", "t1", "%a, %c"), wait("t2"))
    assert [(n.first, n.second, n.op) for n in found.needless] == [(1, 2, "gpu.launch_func")]


def test_an_order_that_follows_from_two_conflicts_is_needed():
    found = schedule(
        READY,
        launch("t1", "ready", "%a, %b"),
        launch("t2", "t1", "%b, %c"),
        launch("t3", "t2", "%c, %a"),
        wait("t3"),
    )
    assert not found.needless and found.launches[2].needs == (1, 2)


def test_read_and_write_sets_name_buffers_and_bytes():
    found = schedule(READY, launch("t1", "ready", "%a, %b"), wait("t1"))
    assert [(a.buffer, a.how, a.size) for a in found.launches[0].accesses] == [
        ("arg0", "read", 32),
        ("arg1", "write", 32),
    ]


def test_the_concurrent_form_orders_only_what_conflicts_and_computes_the_same():
    before = watched(
        READY, launch("t1", "ready", "%a, %b"), wait("t1"), ALLOC, launch("t2", "ready", "%a, %m"), wait("t2")
    )
    form = concurrent_form(before)
    assert form is not None
    arguments = prepare(Program(text=form, entry="main")).arguments
    after = watch_launches(read_module(form), entry="main", arguments=arguments)
    found = schedule_of(after)
    assert found.outcome.kind is OutcomeKind.OK and not found.races and not found.needless
    assert found.actual.widest == 2
    same = zip(before.outcome.observed, after.outcome.observed, strict=True)
    assert all((a.data == b.data).all() for a, b in same)


def test_there_is_no_concurrent_form_where_the_host_needs_a_wait():
    load = '%v = "memref.load"(%b, %c0) : (memref<8xi32>, index) -> i32'
    assert (
        concurrent_form(
            watched(
                READY, launch("t1", "ready", "%a, %b"), wait("t1"), load, launch("t2", "ready", "%a, %c"), wait("t2")
            )
        )
        is None
    )


def test_allocations_are_hoisted_only_when_they_are_late():
    late = PROGRAM.format(host=f"{READY}\n{ALLOC}")
    hoisted = hoist_allocations(late, "main")
    assert hoisted is not None
    first = read_module(hoisted).regions[0].blocks[0].ops[0].regions[0].blocks[0].ops[0]
    assert first.name == "memref.alloc"
    assert hoist_allocations(hoisted, "main") is None


@pytest.mark.parametrize("second", ["ready", "t1"])
def test_text_and_picture_tell_every_launch_and_race(second):
    found = schedule(READY, launch("t1", "ready", "%a, %b"), launch("t2", second, "%b, %c"), wait("t1", "t2"))
    text = "\n".join(schedule_lines(found))
    assert ("RACE" in text) == (second == "ready")
    picture = ElementTree.fromstring(schedule_svg(found, title="a < b & c"))
    space = "{http://www.w3.org/2000/svg}"
    assert len(picture.findall(f"{space}g")) == 2
    red = [line for line in picture.findall(f"{space}line") if line.get("stroke") == "red"]
    assert len(red) == (1 if second == "ready" else 0)

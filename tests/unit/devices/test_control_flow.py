"""Divergence, loops, calls, barriers, warp operations: the same under every schedule."""

import numpy as np
import pytest

from difftest.model import Schedule
from tests.unit.devices.running import ALL_SCHEDULES, kernel, launch

START = """
ld.param.u64 %rd1, [p0]; mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x;
mad.lo.s32 %r4, %r2, %r3, %r1; mul.wide.u32 %rd2, %r4, 4; add.s64 %rd3, %rd1, %rd2;
"""
FINISH = "st.global.b32 [%rd3], %r9;"
schedules = pytest.mark.parametrize("schedule", ALL_SCHEDULES)


def run(body, expected, schedule, *, block=64, grid=2, extra="", finish=FINISH, seed=0):
    n = block * grid
    text = kernel(START + body + finish, ["u64"], extra)
    outcome, arrays = launch(text, [np.zeros(n, np.int32)], grid=grid, block=block, schedule=schedule, seed=seed)
    assert outcome.kind == "ok", outcome.fault
    assert (arrays[0] == expected(np.arange(n) % block, np.arange(n) // block)).all()
    return outcome


@schedules
def test_a_branch_runs_each_side_for_its_lanes(schedule):
    body = """
    mov.b32 %r9, 1; setp.lt.s32 %p1, %r1, 20; @%p1 bra THEN; add.s32 %r9, %r9, 100; bra.uni END;
    THEN: add.s32 %r9, %r9, %r1; END: add.s32 %r9, %r9, 1000;
    """
    run(body, lambda t, b: np.where(t < 20, 1001 + t, 1101), schedule)


@schedules
def test_lanes_leave_a_loop_one_by_one_and_keep_their_values(schedule):
    body = """
    mov.b32 %r9, 0; mov.b32 %r5, 0; and.b32 %r6, %r1, 7;
    LOOP: setp.ge.s32 %p1, %r5, %r6; @%p1 bra DONE; add.s32 %r7, %r5, %r1; add.s32 %r9, %r9, %r7;
    add.s32 %r5, %r5, 1; bra.uni LOOP;
    DONE: add.s32 %r9, %r9, %r5;
    """
    run(body, lambda t, b: sum(np.where(i < t % 8, i + t, 0) for i in range(8)) + t % 8, schedule)


@schedules
def test_nested_divergence_meets_again(schedule):
    body = """
    mov.b32 %r9, 0; and.b32 %r5, %r1, 1; setp.eq.s32 %p1, %r5, 0; @%p1 bra A;
    setp.lt.s32 %p2, %r1, 32; @%p2 bra B; add.s32 %r9, %r9, 1; bra.uni C; B: add.s32 %r9, %r9, 2;
    C: add.s32 %r9, %r9, 10; bra.uni END;
    A: add.s32 %r9, %r9, 4;
    END: add.s32 %r9, %r9, 100;
    """
    run(body, lambda t, b: np.where(t % 2 == 0, 104, np.where(t < 32, 112, 111)), schedule)


@schedules
def test_a_loop_inside_a_divergent_branch(schedule):
    body = """
    mov.b32 %r9, 5; setp.gt.s32 %p1, %r1, 40; @!%p1 bra END; mov.b32 %r5, %r1;
    L: add.s32 %r9, %r9, 1; add.s32 %r5, %r5, -1; setp.gt.s32 %p2, %r5, 40; @%p2 bra L;
    END: add.s32 %r9, %r9, 1;
    """
    run(body, lambda t, b: 6 + np.where(t > 40, t - 40, 0), schedule)


@schedules
def test_lanes_that_return_early_stay_out(schedule):
    body = """
    mov.b32 %r9, 7; st.global.b32 [%rd3], %r9; setp.lt.s32 %p1, %r1, 10; @%p1 ret; setp.gt.s32 %p2, %r1, 50; @%p2 bra X;
    mov.b32 %r9, 8; bra.uni END; X: exit; END:
    """
    run(body, lambda t, b: np.where((t < 10) | (t > 50), 7, 8), schedule)


@schedules
def test_predicated_instructions_keep_old_values(schedule):
    body = "mov.b32 %r9, 3; setp.eq.s32 %p1, %r1, 5; @%p1 add.s32 %r9, %r9, 100; @!%p1 sub.s32 %r9, %r9, 1;"
    run(body, lambda t, b: np.where(t == 5, 103, 2), schedule)


@schedules
def test_brx_idx_goes_by_a_table(schedule):
    body = """
    and.b32 %r5, %r1, 3; TS: .branchtargets A, B, C, B; mov.b32 %r9, 0; brx.idx %r5, TS;
    A: add.s32 %r9, %r9, 1; bra.uni END; B: add.s32 %r9, %r9, 2; bra.uni END; C: add.s32 %r9, %r9, 3;
    END: add.s32 %r9, %r9, 10;
    """
    run(body, lambda t, b: np.array([11, 12, 13, 12])[t % 4], schedule)


DEVICE_FUNCTION = """
.func (.param .b32 out) twice(.param .b32 x, .param .b32 limit) {
.reg .pred %p<3>; .reg .b32 %r<6>;
ld.param.b32 %r1, [x]; ld.param.b32 %r2, [limit]; setp.lt.s32 %p1, %r1, %r2; @%p1 bra SMALL;
mov.b32 %r3, -1; st.param.b32 [out], %r3; ret;
SMALL: add.s32 %r3, %r1, %r1; st.param.b32 [out], %r3; ret;
}
"""
CALL = """
{ .param .b32 a0; .param .b32 a1; .param .b32 r0; st.param.b32 [a0], %r1; st.param.b32 [a1], 40;
call.uni (r0), twice, (a0, a1); ld.param.b32 %r9, [r0]; }
"""


@schedules
def test_calls_of_functions_that_diverge(schedule):
    run(CALL, lambda t, b: np.where(t < 40, 2 * t, -1), schedule, extra=DEVICE_FUNCTION)


@schedules
def test_calls_under_a_mask(schedule):
    body = f"mov.b32 %r9, 9; setp.gt.s32 %p1, %r1, 30; @!%p1 bra END; {CALL} END: add.s32 %r9, %r9, 1;"
    run(body, lambda t, b: np.where(t > 30, np.where(t < 40, 2 * t, -1), 9) + 1, schedule, extra=DEVICE_FUNCTION)


def test_endless_recursion_overflows_the_stack():
    extra = ".func f() { call.uni f, (); ret; }\n"
    outcome, _ = launch(kernel("call.uni f, ();", (), extra))
    assert outcome.kind == "fault" and outcome.fault.rule == "stack-overflow"


def test_endless_loops_run_out_of_fuel():
    outcome, _ = launch(kernel("L: bra.uni L;"), fuel=5000)
    assert outcome.kind == "inconclusive" and outcome.fault.rule == "fuel"


SHARED = ".shared .align 4 .b8 sh[256];\n"
REVERSE = """
mov.u64 %rd5, sh; mul.wide.u32 %rd6, %r1, 4; add.s64 %rd7, %rd5, %rd6; st.shared.b32 [%rd7], %r4;
{barrier}
xor.b32 %r5, %r1, 63; mul.wide.u32 %rd8, %r5, 4; add.s64 %rd9, %rd5, %rd8; ld.shared.b32 %r9, [%rd9];
"""


@schedules
@pytest.mark.parametrize(
    "barrier", ["bar.sync 0;", "barrier.sync.aligned 0;", "bar.sync 3, 64;", "barrier.cta.sync 0;"]
)
def test_shared_memory_through_a_barrier(schedule, barrier):
    body = REVERSE.replace("{barrier}", barrier)
    run(body, lambda t, b: b * 64 + (63 - t), schedule, extra=SHARED)


@schedules
def test_barriers_in_uniform_loops(schedule):
    body = """
    mov.u64 %rd5, sh; mul.wide.u32 %rd6, %r1, 4; add.s64 %rd7, %rd5, %rd6; mov.b32 %r9, %r1; mov.b32 %r5, 0;
    add.s32 %r6, %r1, 1; and.b32 %r6, %r6, 63; mul.wide.u32 %rd8, %r6, 4; add.s64 %rd9, %rd5, %rd8;
    L: st.shared.b32 [%rd7], %r9; bar.sync 0; ld.shared.b32 %r9, [%rd9]; bar.sync 0;
    add.s32 %r5, %r5, 1; setp.lt.s32 %p1, %r5, 5; @%p1 bra L;
    """
    outcome = run(body, lambda t, b: (t + 5) % 64, schedule, extra=SHARED)
    assert outcome.notes == {}


@schedules
def test_reducing_barriers(schedule):
    body = "setp.lt.s32 %p1, %r1, 21; bar.red.popc.u32 %r9, 0, %p1;"
    run(body, lambda t, b: np.full(len(t), 21), schedule)
    body = "setp.lt.s32 %p1, %r1, 64; bar.red.and.pred %p2, 0, %p1; selp.b32 %r9, 1, 0, %p2;"
    run(body, lambda t, b: np.ones(len(t)), schedule)


@schedules
def test_named_barriers_of_half_the_block(schedule):
    """Warp 0 writes and arrives, warp 1 waits for it: bar.arrive orders without blocking."""
    body = """
    mov.u64 %rd5, sh; and.b32 %r6, %r1, 31; mul.wide.u32 %rd6, %r6, 4; add.s64 %rd7, %rd5, %rd6; mov.b32 %r9, -1;
    setp.lt.s32 %p1, %r1, 32; @!%p1 bra CONSUME;
    st.shared.b32 [%rd7], %r4; bar.arrive 1, 64; bra.uni END;
    CONSUME: bar.sync 1, 64; ld.shared.b32 %r9, [%rd7];
    END:
    """
    n = 64
    text = kernel(START + body + FINISH, ["u64"], SHARED)
    outcome, arrays = launch(text, [np.zeros(n, np.int32)], block=64, schedule=schedule, races=False)
    assert outcome.kind == "ok", outcome.fault
    assert (arrays[0] == np.where(np.arange(n) < 32, -1, np.arange(n) - 32)).all()


@schedules
def test_a_barrier_that_some_lanes_miss_is_a_fault(schedule):
    body = "setp.lt.s32 %p1, %r1, 20; mov.b32 %r9, 0; @%p1 bra END; bar.sync 0; END:"
    outcome, _ = launch(kernel(START + body + FINISH, ["u64"]), [np.zeros(64, np.int32)], block=64, schedule=schedule)
    assert outcome.kind == "fault" and outcome.fault.rule == "barrier-divergence"
    body = "setp.lt.s32 %p1, %r1, 32; mov.b32 %r9, 0; @%p1 bra END; bar.sync 0; END:"
    outcome, _ = launch(kernel(START + body + FINISH, ["u64"]), [np.zeros(64, np.int32)], block=64, schedule=schedule)
    assert outcome.kind == "fault" and outcome.fault.rule == "barrier-divergence"


@schedules
def test_whole_warps_may_wait_at_different_instructions(schedule):
    body = """
    setp.lt.s32 %p1, %r1, 32; @%p1 bra A; mov.b32 %r9, 1; bar.sync 0; bra.uni END; A: mov.b32 %r9, 2; bar.sync 0; END:
    """
    run(body, lambda t, b: np.where(t < 32, 2, 1), schedule)


SHUFFLES = {
    "down": ("down.b32 %r9|%p3, %r1, 3, 31", lambda lane: np.where(lane + 3 < 32, lane + 3, lane)),
    "up": ("up.b32 %r9|%p3, %r1, 5, 0", lambda lane: np.where(lane >= 5, lane - 5, lane)),
    "bfly": ("bfly.b32 %r9|%p3, %r1, 9, 31", lambda lane: lane ^ 9),
    "idx": ("idx.b32 %r9|%p3, %r1, 7, 31", lambda lane: np.full(len(lane), 7)),
    "idx in segments of 8": ("idx.b32 %r9|%p3, %r1, 2, 6175", lambda lane: lane // 8 * 8 + 2),
}


@schedules
@pytest.mark.parametrize("name", SHUFFLES)
def test_shuffles_follow_the_pseudo_code(schedule, name):
    text, source = SHUFFLES[name]
    body = f"shfl.sync.{text}, 0xffffffff;"
    run(body, lambda t, b: t // 32 * 32 + source(t % 32), schedule)


@schedules
def test_shuffle_predicate_and_full_reduction(schedule):
    run("shfl.sync.down.b32 %r8|%p3, %r1, 3, 31, -1; selp.b32 %r9, 1, 0, %p3;", lambda t, b: t % 32 < 29, schedule)
    body = "mov.b32 %r9, %r1;" + "".join(
        f"shfl.sync.bfly.b32 %r8, %r9, {d}, 31, -1; add.s32 %r9, %r9, %r8;" for d in (16, 8, 4, 2, 1)
    )
    run(body, lambda t, b: t // 32 * 32 * 32 + 496, schedule)


@schedules
def test_votes_and_matches(schedule):
    run(
        "setp.lt.s32 %p1, %r1, 40; vote.sync.ballot.b32 %r9, %p1, -1;", lambda t, b: np.where(t < 32, -1, 255), schedule
    )
    run(
        "setp.lt.s32 %p1, %r1, 40; vote.sync.any.pred %p2, %p1, -1; selp.b32 %r9, 1, 0, %p2;",
        lambda t, b: t * 0 + 1,
        schedule,
    )
    run(
        "setp.lt.s32 %p1, %r1, 40; vote.sync.all.pred %p2, %p1, -1; selp.b32 %r9, 1, 0, %p2;",
        lambda t, b: t < 32,
        schedule,
    )
    odd = np.array([0x55555555, 0xAAAAAAAA], np.uint32).view(np.int32)
    run("and.b32 %r5, %r1, 1; match.any.sync.b32 %r9, %r5, -1;", lambda t, b: odd[t % 2], schedule)
    run("redux.sync.add.s32 %r9, %r1, -1;", lambda t, b: np.where(t < 32, 496, 496 + 1024), schedule)
    run("activemask.b32 %r9;", lambda t, b: t * 0 - 1, schedule)


@schedules
def test_a_shuffle_whose_members_are_absent_is_a_fault(schedule):
    body = "mov.b32 %r9, 0; setp.lt.s32 %p1, %r1, 16; @!%p1 bra END; shfl.sync.idx.b32 %r9, %r1, 20, 31, -1; END:"
    outcome, _ = launch(kernel(START + body + FINISH, ["u64"]), [np.zeros(32, np.int32)], schedule=schedule)
    assert outcome.kind == "fault"
    assert outcome.fault.rule == "inactive-lane"


def test_traps_and_assertions_end_the_launch():
    outcome, _ = launch(kernel("mov.u32 %r1, %tid.x; setp.eq.s32 %p1, %r1, 9; @%p1 trap;"))
    assert outcome.kind == "fault" and outcome.fault.rule == "trap" and outcome.fault.iteration == (0, 0, 0, 9, 0, 0)


def test_special_registers_name_the_place_of_a_lane():
    body = """
    ld.param.u64 %rd1, [p0]; mov.u32 %r1, %tid.x; mov.u32 %r2, %tid.y; mov.u32 %r3, %tid.z; mov.u32 %r4, %ctaid.y;
    mov.u32 %r5, %ntid.x; mov.u32 %r6, %ntid.y; mov.u32 %r7, %nctaid.y; mov.u32 %r8, %laneid; mov.u32 %r10, %ctaid.x;
    mad.lo.s32 %r11, %r3, %r6, %r2; mad.lo.s32 %r11, %r11, %r5, %r1; mad.lo.s32 %r12, %r4, 2, %r10;
    mad.lo.s32 %r13, %r12, 48, %r11; mul.wide.u32 %rd2, %r13, 4; add.s64 %rd3, %rd1, %rd2;
    shl.b32 %r14, %r8, 8; add.s32 %r14, %r14, %r13; mad.lo.s32 %r14, %r7, 65536, %r14; st.global.b32 [%rd3], %r14;
    """
    outcome, arrays = launch(
        kernel(body, ["u64"]), [np.zeros(288, np.int32)], grid=(2, 3, 1), block=(4, 6, 2), schedule=Schedule.SHUFFLED
    )
    assert outcome.kind == "ok"
    n = np.arange(288)
    assert (arrays[0] == 3 * 65536 + (n % 48 % 32) * 256 + n).all()

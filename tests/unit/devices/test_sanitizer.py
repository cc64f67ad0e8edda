"""Every broken rule is found under every schedule, with its line, lane and address; clean kernels are not accused."""

import numpy as np
import pytest

from difftest.devices import EmulatorDevice
from difftest.model import Schedule
from tests.unit.devices.running import ALL_SCHEDULES, kernel, launch

START = """
ld.param.u64 %rd1, [p0]; mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x;
mad.lo.s32 %r4, %r2, %r3, %r1; mul.wide.u32 %rd2, %r4, 4; add.s64 %rd3, %rd1, %rd2; mul.wide.u32 %rd4, %r1, 4;
"""
schedules = pytest.mark.parametrize("schedule", ALL_SCHEDULES)
# A race may show as the read of a cell that is not written yet when threads run one by one.
RACES = {"race", "uninitialised-read"}


def faulty(body, schedule, *, n=64, grid=1, block=64, extra="", array=None):
    array = np.zeros(n, np.int32) if array is None else array
    outcome, _ = launch(kernel(START + body, ["u64"], extra), [array], grid=grid, block=block, schedule=schedule)
    assert outcome.kind == "fault"
    return outcome.fault


def clean(body, schedule, *, n=64, grid=1, block=64, extra="", array=None):
    array = np.zeros(n, np.int32) if array is None else array
    outcome, arrays = launch(kernel(START + body, ["u64"], extra), [array], grid=grid, block=block, schedule=schedule)
    assert outcome.kind == "ok", outcome.fault
    return outcome, arrays[0]


@schedules
@pytest.mark.parametrize("offset", [256, -4, 1 << 20, -(1 << 40), 1 << 45])
def test_accesses_outside_of_objects(schedule, offset):
    for access in (f"ld.global.b32 %r9, [%rd3+{offset}];", f"st.global.b32 [%rd3+{offset}], %r1;"):
        fault = faulty(access, schedule)
        assert fault.rule == "out-of-bounds" and fault.op == "k" and fault.line > 0 and len(fault.iteration) == 6


def test_one_lane_past_the_end_is_named():
    fault = faulty("st.global.b32 [%rd3+4], %r1;", Schedule.LOCK_STEP)
    assert fault.iteration == (0, 0, 0, 63, 0, 0) and "0 bytes past an object of 256 bytes" in fault.message


def test_an_address_cut_to_32_bits_points_nowhere():
    body = "cvt.u32.u64 %r9, %rd3; cvt.u64.u32 %rd9, %r9; st.global.b32 [%rd9], %r1;"
    assert faulty(body, Schedule.LOCK_STEP).rule == "out-of-bounds"


@schedules
def test_misaligned_accesses(schedule):
    assert faulty("ld.global.b32 %r9, [%rd3+2];", schedule).rule == "misaligned-access"
    assert faulty("st.global.b64 [%rd3], %rd1;", schedule, n=130).rule == "misaligned-access"
    assert faulty("atom.global.add.u32 %r9, [%rd3+1], 1;", schedule).rule == "misaligned-access"


@schedules
def test_reading_what_was_never_written(schedule):
    outcome, _ = launch(kernel(START + "ld.global.b32 %r9, [%rd3];", ["u64"]), [256], block=64, schedule=schedule)
    assert outcome.fault.rule == "uninitialised-read"
    shared = ".shared .align 4 .b8 sh[256];\n"
    assert faulty("ld.shared.b32 %r9, [sh+8];", schedule, extra=shared).rule == "uninitialised-read"
    local = ".local .align 4 .b8 depot[16]; ld.local.b32 %r9, [depot+4];"
    assert faulty(local, schedule).rule == "uninitialised-read"


def test_reading_half_written_cells():
    body = "st.global.b8 [%rd3], %r1; ld.global.b32 %r9, [%rd3];"
    outcome, _ = launch(kernel(START + body, ["u64"]), [256], block=64)
    assert outcome.fault.rule == "uninitialised-read"
    outcome, _ = launch(kernel(START + body.replace("ld.global.b32", "ld.global.b8"), ["u64"]), [256], block=64)
    assert outcome.kind == "ok"


def test_uninitialised_reads_can_be_noted_only():
    text = kernel(START + "ld.global.b32 %r9, [%rd3];", ["u64"])
    outcome, _ = launch(text, [256], block=64, strict=False)
    assert outcome.kind == "ok" and outcome.notes["uninitialised-read"] == 64


def test_shared_and_local_memory_end():
    shared = ".shared .align 4 .b8 sh[64];\n.shared .align 4 .b8 other[64];\n"
    assert faulty("st.shared.b32 [sh+64], %r1;", Schedule.LOCK_STEP, extra=shared).rule == "out-of-bounds"
    local = ".local .align 4 .b8 depot[16]; st.local.b32 [depot+16], %r1;"
    assert faulty(local, Schedule.LOCK_STEP).rule == "out-of-bounds"


def test_memory_that_was_freed():
    device = EmulatorDevice()
    k = device.load(kernel(START + "ld.global.b32 %r9, [%rd3];", ["u64"]))["k"]
    address = device.allocate(256)
    device.upload(address, np.zeros(256, np.uint8))
    device.free(address)
    outcome = device.launch(k, grid=(1, 1, 1), block=(4, 1, 1), arguments=[address])
    assert outcome.fault is not None and outcome.fault.rule == "use-after-free"


def test_constants_are_read_only():
    extra = ".const .align 4 .b32 table[2] = {7, 9};\n"
    _, out = clean("ld.const.b32 %r9, [table+4]; st.global.b32 [%rd3], %r9;", Schedule.LOCK_STEP, extra=extra)
    assert (out == 9).all()
    body = "mov.u64 %rd9, table; cvta.const.u64 %rd9, %rd9; st.b32 [%rd9], %r1;"
    assert faulty(body, Schedule.LOCK_STEP, extra=extra).rule == "constant-write"


# --- races ------------------------------------------------------------------------------------------------------

SHARED = ".shared .align 8 .b8 sh[4096];\n"


@schedules
def test_a_lost_barrier_is_a_race_and_a_kept_one_is_not(schedule):
    body = """
    mov.u64 %rd5, sh; add.s64 %rd6, %rd5, %rd4; st.shared.b32 [%rd6], %r1; {barrier}
    xor.b32 %r5, %r1, 1; mul.wide.u32 %rd7, %r5, 4; add.s64 %rd8, %rd5, %rd7; ld.shared.b32 %r9, [%rd8];
    st.global.b32 [%rd3], %r9;
    """
    assert faulty(body.replace("{barrier}", ""), schedule, extra=SHARED).rule in RACES
    _, out = clean(body.replace("{barrier}", "bar.sync 0;"), schedule, extra=SHARED)
    assert (out == np.arange(64) ^ 1).all()


@schedules
def test_a_read_before_a_write_of_another_thread_is_a_race(schedule):
    body = "ld.global.b32 %r9, [%rd1]; {barrier} setp.eq.s32 %p1, %r1, 33; @%p1 st.global.b32 [%rd1], %r1;"
    assert faulty(body.replace("{barrier}", ""), schedule).rule == "race"
    clean(body.replace("{barrier}", "bar.sync 0;"), schedule)


@schedules
def test_barriers_do_not_order_blocks(schedule):
    start = "add.s64 %rd5, %rd1, %rd4;"
    body = f"{start} setp.eq.s32 %p1, %r2, 0; @%p1 st.global.b32 [%rd5], %r1; bar.sync 0; ld.global.b32 %r9, [%rd5];"
    assert faulty(body, schedule, grid=2).rule == "race"
    clean(body, schedule, grid=1)
    later = f"{start} ld.global.b32 %r9, [%rd5]; bar.sync 0; setp.eq.s32 %p1, %r2, 1; @%p1 st.global.b32 [%rd5], %r1;"
    assert faulty(later, schedule, grid=2).rule == "race"


@schedules
def test_writes_of_different_values_race_and_of_one_value_are_benign(schedule):
    assert faulty("st.global.b32 [%rd1], %r1;", schedule).rule == "race"
    outcome, out = clean("st.global.b32 [%rd1], 7;", schedule)
    assert out[0] == 7 and outcome.notes["benign"] > 0
    assert faulty("st.global.b32 [%rd1], 7; ld.global.b32 %r9, [%rd1];", schedule).rule == "race"
    clean("st.global.b32 [%rd1], 7; bar.sync 0; ld.global.b32 %r9, [%rd1];", schedule)
    assert faulty("st.global.b32 [%rd1], 7; bar.sync 0; ld.global.b32 %r9, [%rd1];", schedule, grid=2).rule == "race"
    assert faulty("and.b32 %r5, %r2, 1; st.global.b32 [%rd1], %r5;", schedule, grid=2).rule == "race"


@schedules
def test_own_cells_and_shared_reads_are_no_races(schedule):
    body = """
    ld.global.b32 %r9, [%rd1+300]; st.global.b32 [%rd3], %r9; ld.global.b32 %r8, [%rd3]; ld.global.b32 %r9, [%rd1+300];
    add.s32 %r8, %r8, %r9; st.global.b32 [%rd3], %r8;
    """
    outcome, _ = clean(body, schedule, n=128, block=32, grid=2)
    assert outcome.notes == {}


@schedules
@pytest.mark.parametrize("kind", ["b8", "b16", "b32", "b64"])
def test_neighbouring_cells_of_any_width_do_not_collide(schedule, kind):
    size = int(kind[1:]) // 8
    register = {1: "%rs1", 2: "%rs1", 4: "%r1", 8: "%rd2"}[size]
    body = f"""
    cvt.u16.u32 %rs1, %r1; mad.wide.u32 %rd5, %r4, {size}, %rd1;
    st.global.{kind} [%rd5], {register}; ld.global.{kind} {register}, [%rd5];
    """
    outcome, _ = clean(body, schedule, n=256, block=32, grid=2)
    assert outcome.notes == {}
    overlapping = body.replace(f"ld.global.{kind} {register}, [%rd5]", f"ld.global.{kind} {register}, [%rd5+{size}]")
    assert faulty(overlapping, schedule, n=256, block=32).rule == "race"


@schedules
def test_accesses_of_different_widths_meet(schedule):
    body = """
    setp.eq.s32 %p1, %r1, 0; cvt.u16.u32 %rs1, %r1; @%p1 st.global.b64 [%rd1], %rd2; setp.eq.s32 %p2, %r1, 40;
    @%p2 st.global.b8 [%rd1+{at}], %rs1;
    """
    assert faulty(body.replace("{at}", "7"), schedule).rule == "race"
    clean(body.replace("{at}", "8"), schedule)


@schedules
def test_atomics_may_meet_atomics_only(schedule):
    _, out = clean("atom.global.add.u32 %r9, [%rd1], 1;", schedule, grid=2)
    assert out[0] == 128
    assert faulty("red.global.add.u32 [%rd1], 1; ld.global.b32 %r9, [%rd1];", schedule).rule == "race"
    assert faulty("ld.global.b32 %r9, [%rd1]; red.global.add.u32 [%rd1], 1;", schedule).rule == "race"
    assert faulty("st.global.b32 [%rd1], 0; red.global.add.u32 [%rd1], 1;", schedule).rule == "race"
    clean("red.global.add.u32 [%rd1], 1; bar.sync 0; ld.global.b32 %r9, [%rd1];", schedule)
    clean("red.global.add.u32 [%rd1], 1; ld.relaxed.sys.global.b32 %r9, [%rd1];", schedule)


@schedules
def test_a_swap_loop_begins_with_a_plain_load(schedule):
    """What LLVM makes of an atomic without an instruction: here a product."""
    body = """
    ld.global.b32 %r10, [%rd1];
    L: mov.b32 %r11, %r10; mul.lo.s32 %r12, %r11, 3; atom.global.cas.b32 %r10, [%rd1], %r11, %r12;
    setp.ne.s32 %p1, %r10, %r11; @%p1 bra L;
    """
    _, out = clean(body, schedule, block=16, array=np.ones(4, np.int32))
    assert out[0] == 3**16 & 0xFFFFFFFF or out[0] == 3**16


def test_a_race_in_a_large_grid_is_found_across_chunks():
    body = "setp.eq.s32 %p1, %r4, 20000; st.global.b32 [%rd3], %r4; @%p1 st.global.b32 [%rd1], %r1;"
    fault = faulty(body, Schedule.LOCK_STEP, n=32768, grid=128, block=256)
    assert fault.rule == "race"


def test_launches_are_ordered():
    device = EmulatorDevice()
    k = device.load(kernel(START + "st.global.b32 [%rd3], %r2; st.global.b32 [%rd1+256], 5;", ["u64"]))["k"]
    address = device.allocate(512)
    for _ in range(3):
        assert device.launch(k, grid=(1, 1, 1), block=(64, 1, 1), arguments=[address]).kind == "ok"


def test_schedules_give_the_same_bytes_to_race_free_kernels():
    body = "mul.lo.s32 %r9, %r4, 7; st.global.b32 [%rd3], %r9; atom.global.max.s32 %r8, [%rd1+1024], %r9;"
    results = []
    for schedule in ALL_SCHEDULES:
        for seed in (0, 1):
            text = kernel(START + body, ["u64"])
            outcome, arrays = launch(text, [np.zeros(260, np.int32)], grid=4, block=64, schedule=schedule, seed=seed)
            assert outcome.kind == "ok"
            results.append(arrays[0].tobytes())
    assert len(set(results)) == 1


def test_shuffled_lanes_decide_which_benign_order_atomics_see():
    text = kernel(START + "atom.global.add.u32 %r9, [%rd1+256], 1; st.global.b32 [%rd3], %r9;", ["u64"])
    first, second = (
        launch(text, [np.zeros(65, np.int32)], block=64, schedule=Schedule.SHUFFLED, seed=s)[1][0] for s in (1, 2)
    )
    assert sorted(first[:64]) == sorted(second[:64]) == list(range(64))
    assert (first != second).any()


def test_kernels_that_promise_block_sizes_are_held_to_them():
    text = kernel("mov.u32 %r1, %tid.x;").replace(".visible .entry k()", ".visible .entry k()\n.maxntid 32, 1, 1")
    assert launch(text, block=32)[0].kind == "ok"
    assert launch(text, block=64)[0].fault.rule == "known-size"
    assert launch(text, block=2048)[0].kind == "inconclusive"
    assert launch(text, grid=0)[0].notes == {"zero-launch": 1}


@schedules
@pytest.mark.parametrize("meeting", ["bar.warp.sync -1;", "shfl.sync.idx.b32 %r8, %r1, 0, 31, -1;"])
def test_lanes_of_a_warp_that_met_are_ordered_and_warps_are_not(schedule, meeting):
    body = """
    mov.u64 %rd5, sh; add.s64 %rd6, %rd5, %rd4; st.shared.b32 [%rd6], %r1; {meeting}
    xor.b32 %r5, %r1, {other}; mul.wide.u32 %rd7, %r5, 4; add.s64 %rd8, %rd5, %rd7; ld.shared.b32 %r9, [%rd8];
    st.global.b32 [%rd3], %r9;
    """.replace("{meeting}", meeting)
    _, out = clean(body.replace("{other}", "5"), schedule, extra=SHARED)
    assert (out == np.arange(64) ^ 5).all()
    assert faulty(body.replace("{other}", "37"), schedule, extra=SHARED).rule in RACES


@schedules
@pytest.mark.parametrize("bits", [32, 18])
def test_many_barriers_and_meetings_use_up_no_tags(schedule, bits, monkeypatch):
    monkeypatch.setattr("difftest.devices.emulator.shadow.BITS", bits)
    body = """
    mov.u64 %rd5, sh; add.s64 %rd6, %rd5, %rd4; xor.b32 %r5, %r1, 1; mul.wide.u32 %rd7, %r5, 4;
    add.s64 %rd8, %rd5, %rd7; mov.b32 %r6, 0; mov.b32 %r9, %r1;
    L: st.shared.b32 [%rd6], %r9; {meeting} ld.shared.b32 %r9, [%rd8]; {meeting}
    add.s32 %r6, %r6, 1; setp.lt.s32 %p1, %r6, 41; @%p1 bra L; {late}
    st.global.b32 [%rd3], %r9;
    """
    for meeting in ("bar.sync 0;", "bar.warp.sync -1;"):
        loop = body.replace("{meeting}", meeting)
        text = kernel(START + loop.replace("{late}", ""), ["u64"], SHARED)
        grid, block = (1, 64) if bits < 32 or schedule is Schedule.SEQUENTIAL else (4, 1024)
        out = np.zeros(grid * block, np.int32)
        outcome, arrays = launch(text, [out], grid=grid, block=block, schedule=schedule)
        assert outcome.kind == "ok", outcome.fault
        assert (arrays[0] % 64 == (np.arange(len(arrays[0])) ^ 1) % 64).all()
        late = loop.replace(
            "{late}",
            "xor.b32 %r5, %r1, 33; mul.wide.u32 %rd7, %r5, 4; add.s64 %rd8, %rd5, %rd7; "
            "st.shared.b32 [%rd6], %r1; ld.shared.b32 %r8, [%rd8];",
        )
        assert faulty(late, schedule, extra=SHARED).rule == "race"

"""The emulator as a device: memory, modules, arguments."""

from pathlib import Path

import numpy as np
import pytest

from difftest.devices import EmulatorDevice
from difftest.devices.emulator import is_supported, opcode_families
from difftest.errors import UsageError
from tests.unit.devices.running import kernel


def test_memory_remembers_what_was_written():
    device = EmulatorDevice()
    address = device.allocate(10)
    assert address % 256 == 0
    device.upload(address, np.arange(10, dtype=np.uint8), np.arange(10) % 2 == 0)
    data, initialised = device.download(address, 10)
    assert data.tolist() == list(range(10)) and (initialised == (np.arange(10) % 2 == 0)).all()
    device.free(address)
    with pytest.raises(UsageError):
        device.free(address)


def test_memory_ends_and_is_used_again():
    device = EmulatorDevice(memory=1 << 20)
    with pytest.raises(UsageError, match="bytes of device memory"):
        device.allocate(1 << 21)
    for _ in range(1000):
        first, second = device.allocate(100_000), device.allocate(5)
        device.free(second)
        device.free(first)


def test_objects_keep_their_distance():
    device = EmulatorDevice()
    first, second = device.allocate(8), device.allocate(8)
    assert second - first >= 256


def test_kernels_of_two_modules_may_share_a_name():
    device = EmulatorDevice()
    one = device.load(kernel("ld.param.u64 %rd1, [p0]; st.global.b32 [%rd1], 1;", ["u64"]))["k"]
    two = device.load(kernel("ld.param.u64 %rd1, [p0]; st.global.b32 [%rd1], 2;", ["u64"]))["k"]
    address = device.allocate(4)
    for k, value in ((one, 1), (two, 2), (one, 1)):
        assert device.launch(k, grid=(1, 1, 1), block=(1, 1, 1), arguments=[address]).kind == "ok"
        assert device.download(address, 4)[0].view(np.int32)[0] == value


def test_variables_of_a_module_keep_their_values_between_launches():
    extra = ".global .align 4 .u32 counter = 40;\n.global .align 4 .b8 zeros[4];\n"
    body = """
    ld.param.u64 %rd1, [p0]; mov.u64 %rd2, counter; ld.global.u32 %r1, [%rd2]; add.s32 %r1, %r1, 1;
    st.global.u32 [counter], %r1;
    ld.global.u32 %r2, [zeros]; add.s32 %r1, %r1, %r2; st.global.u32 [%rd1], %r1;
    """
    device = EmulatorDevice()
    k = device.load(kernel(body, ["u64"], extra))["k"]
    address = device.allocate(4)
    for expected in (41, 42):
        assert device.launch(k, grid=(1, 1, 1), block=(1, 1, 1), arguments=[address]).kind == "ok"
        assert device.download(address, 4)[0].view(np.int32)[0] == expected
    other = EmulatorDevice()
    again = other.load(kernel(body, ["u64"], extra))["k"]
    place = other.allocate(4)
    other.launch(again, grid=(1, 1, 1), block=(1, 1, 1), arguments=[place])
    assert other.download(place, 4)[0].view(np.int32)[0] == 41


def test_arguments_must_fit():
    device = EmulatorDevice()
    k = device.load(kernel("", ["u64", "u8"]))["k"]
    assert k.parameters == (8, 1)
    for arguments in ([1], [1, b"12"]):
        with pytest.raises(UsageError):
            device.launch(k, grid=(1, 1, 1), block=(1, 1, 1), arguments=arguments)


def test_a_failed_launch_leaves_the_device_usable():
    device = EmulatorDevice()
    bad = device.load(kernel(".shared .b8 sh[64]; st.shared.b32 [sh+64], %r1;"))["k"]
    good = device.load(kernel(".shared .b8 sh[64]; st.shared.b32 [sh+60], %r1;"))["k"]
    for _ in range(3):
        assert device.launch(bad, grid=(1, 1, 1), block=(1, 1, 1), arguments=[]).kind == "fault"
        assert device.launch(good, grid=(1, 1, 1), block=(1, 1, 1), arguments=[]).kind == "ok"
    device.close()


def test_the_instructions_that_compilers_produce_have_rules():
    """The opcodes of 1,185 kernels that enzyme-ad 0.0.16 and MLIR made of generated programs."""
    opcodes = (Path(__file__).parent / "data" / "opcodes.txt").read_text().split()
    assert len(opcodes) > 190
    assert [opcode for opcode in opcodes if not is_supported(opcode)] == []
    assert {"ld", "st", "atom", "shfl", "bra", "cvt", "bar"} <= set(opcode_families())
    assert not is_supported("frobnicate.b32")

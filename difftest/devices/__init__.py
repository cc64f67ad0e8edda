"""Devices that run compiled kernels: the PTX emulator by default."""

from difftest.devices.base import Device, Kernel, LaunchKind, LaunchOutcome
from difftest.devices.emulator import EmulatorDevice, PtxError

__all__ = ["Device", "EmulatorDevice", "Kernel", "LaunchKind", "LaunchOutcome", "PtxError"]

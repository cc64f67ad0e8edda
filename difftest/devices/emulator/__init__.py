"""The PTX emulator: parses PTX text, runs all lanes as numpy arrays, and checks every access."""

from difftest.devices.emulator.device import EmulatorDevice
from difftest.devices.emulator.parser import parse_module
from difftest.devices.emulator.rules import is_supported, opcode_families
from difftest.devices.emulator.syntax import PtxError

__all__ = ["EmulatorDevice", "PtxError", "is_supported", "opcode_families", "parse_module"]

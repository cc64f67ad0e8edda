"""The rules of PTX opcodes, one file per family, found by listing (`difftest.devices.emulator.rules`)."""

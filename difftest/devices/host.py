"""A compiled program on a device: the host function is interpreted, its kernels run on the device (DESIGN §4).

Memory that the host made is unified: what a launch is given is copied to the device before it and back after it, with
what is known of its initialisation. Kernel arguments are bound by position (PIPELINES §4): a memref is its expanded
descriptor, or its bare pointer when the kernel has as many parameters as the launch has operands.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np

from difftest.devices.base import Device, Kernel, LaunchKind, LaunchOutcome, Sizes
from difftest.errors import UsageError
from difftest.interpreter.faults import Stop, inconclusive, unsupported
from difftest.interpreter.pointers import descriptor_parts, pointer_of
from difftest.interpreter.run import interpret
from difftest.interpreter.values import MemRef, Pointer, plain
from difftest.ir.attributes import parse_string
from difftest.ir.tree import Operation
from difftest.model import Fault, Mode, Outcome, OutcomeKind

_ASSEMBLY = re.compile(r'\b(?:assembly|bin) = ("(?:[^"\\]|\\.)*")')
_INTEGERS = frozenset({np.bool_, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64})
_KINDS: Mapping[LaunchKind, OutcomeKind] = {
    LaunchKind.FAULT: OutcomeKind.UB,
    LaunchKind.UNSUPPORTED: OutcomeKind.UNSUPPORTED,
    LaunchKind.INCONCLUSIVE: OutcomeKind.INCONCLUSIVE,
}


def kernel_texts(module: Operation) -> dict[str, str]:
    """The device code of each `gpu.binary`, by symbol name. Raises UsageError for one without text (an object file)."""
    found: dict[str, str] = {}
    for op in module.walk():
        if op.name != "gpu.binary":
            continue
        name = parse_string(op.get("sym_name") or '""')
        match = _ASSEMBLY.search(op.get("objects") or "")
        text = "" if match is None else parse_string(match.group(1))
        if ".version" not in text:
            raise UsageError(f"gpu.binary @{name} holds no PTX text")
        found[name] = text.rstrip("\0")
    return found


def run_on_device(
    module: Operation, *, entry: str, arguments: Sequence[Any], device: Device, mode: Mode = Mode.INTERMEDIATE
) -> Outcome:
    """Run `entry` of a compiled module: host ops by the interpreter, launches on `device`.

    The outcome is `interpret`'s; what goes wrong in a kernel is its fault (rule, kernel, line of the PTX, block and
    thread). `notes` counts launches as `kernels`. Raises UsageError as `interpret` does, and for unreadable PTX.
    """
    host = Host(kernel_texts(module), device)
    outcome = interpret(module, entry=entry, arguments=arguments, mode=mode, launch=host.launch)
    return replace(outcome, notes={**outcome.notes, **host.notes})


class Host:
    """Serves `Machine.launch`. `texts` is the device code by the name of its `gpu.binary`."""

    def __init__(self, texts: Mapping[str, str], device: Device) -> None:
        self.device = device
        self.kernels = {name: device.load(text) for name, text in texts.items()}
        # Production hosts name a kernel by a stub, `<module>_<kernel>`: where the module's name ends is not said.
        self.stubs = {f"{m}_{k}": kernel for m, found in self.kernels.items() for k, kernel in found.items()}
        self.notes: dict[str, int] = {}

    def launch(self, memory: Any, op: Operation, path: Sequence[str], *launch: Any) -> None:
        """Run one kernel for one lane of the host; `launch` is (operands, sizes, shared bytes)."""
        values, sizes, shared = launch
        kernel = self.kernels.get(path[0], {}).get(path[-1]) or self.stubs.get("_".join(path))
        if kernel is None:
            raise unsupported(op, f"there is no kernel {'::'.join(path)} in the device code")
        numbers = [_number(s) for s in sizes]
        if min(numbers) < 0:
            raise inconclusive(op, "launch-limit", f"a launch of sizes {tuple(numbers)}")
        grid: Sizes = (numbers[0], numbers[1], numbers[2])
        block: Sizes = (numbers[3], numbers[4], numbers[5])
        mirror = _Mirror(memory, self.device)
        arguments = _arguments(op, kernel, values, mirror)
        mirror.upload()
        outcome = self.device.launch(kernel, grid=grid, block=block, arguments=arguments, shared=_number(shared))
        self._count(outcome)
        if outcome.kind is not LaunchKind.OK:
            raise _stop(outcome, op)
        mirror.download()

    def _count(self, outcome: LaunchOutcome) -> None:
        for name, number in {"kernels": 1, **outcome.notes}.items():
            self.notes[name] = self.notes.get(name, 0) + number
        self.notes["instructions"] = self.notes.get("instructions", 0) + outcome.instructions


def _number(value: Any) -> int:
    return int(value[0]) if isinstance(value, np.ndarray) else int(value)


def _stop(outcome: LaunchOutcome, op: Operation) -> Stop:
    fault = outcome.fault or Fault(rule="launch", message="the launch failed", op=op.name, line=op.line)
    kind = OutcomeKind.RACE if fault.rule == "race" else _KINDS[outcome.kind]
    return Stop(kind, fault)


class _Mirror:
    """The host's allocations that a launch is given, on the device."""

    def __init__(self, memory: Any, device: Device) -> None:
        self.memory = memory
        self.device = device
        self.addresses: dict[int, int] = {}

    def translate(self, pointer: Pointer) -> int:
        """The device address of a host pointer; that of a dead or null one is 0."""
        number, address = _number(pointer.base), _number(pointer.address)
        allocation = self.memory.table[number]
        if not allocation.alive:
            return 0
        if number not in self.addresses:
            self.addresses[number] = self.device.allocate(max(1, allocation.size))
        return self.addresses[number] + address - allocation.start

    def upload(self) -> None:
        """Copy contents to the device."""
        memory = self.memory
        for number, address in self.addresses.items():
            allocation = memory.table[number]
            end = allocation.start + allocation.size
            self.device.upload(
                address, memory.data[allocation.start : end], memory.init[allocation.start : end].astype(bool)
            )

    def download(self) -> None:
        """Copy contents back, and end the copies."""
        memory = self.memory
        for number, address in reversed(self.addresses.items()):
            allocation = memory.table[number]
            end = allocation.start + allocation.size
            data, initialised = self.device.download(address, allocation.size)
            memory.data[allocation.start : end] = data
            memory.init[allocation.start : end] = initialised
            self.device.free(address)


def _arguments(op: Operation, kernel: Kernel, values: Sequence[Any], mirror: _Mirror) -> list[bytes | int]:
    """Kernel parameters from the operands of a launch."""
    expanded: list[Any] = []
    for value in values:
        expanded += descriptor_parts(value) if isinstance(value, MemRef) else [value]
    if len(expanded) != len(kernel.parameters):
        expanded = [pointer_of(v) if isinstance(v, MemRef) else v for v in values]
    if len(expanded) != len(kernel.parameters):
        raise unsupported(op, f"{kernel.name} has {len(kernel.parameters)} parameters, {len(expanded)} are given")
    return [_parameter(op, value, mirror) for value in expanded]


def _parameter(op: Operation, value: Any, mirror: _Mirror) -> bytes | int:
    if isinstance(value, Pointer):
        return mirror.translate(value)
    data: Any = plain(value)
    if data.__class__ is np.ndarray:
        data = data.reshape(-1)[0]
    if isinstance(data, int) or data.__class__ in _INTEGERS:
        return int(data)
    if isinstance(data, float):
        return np.float64(data).tobytes()
    if isinstance(data, np.floating | ml_dtypes.bfloat16):
        return data.tobytes()
    raise unsupported(op, f"a kernel argument of type {value.__class__.__name__}")

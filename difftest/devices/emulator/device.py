"""The emulator as a `Device`: modules, memory, launches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from difftest.devices.base import Kernel, LaunchKind, LaunchOutcome, Sizes
from difftest.devices.emulator.compile import Code, Compiler, Names
from difftest.devices.emulator.faults import Stop, inconclusive
from difftest.devices.emulator.memory import BASE, CONSTANT, INITIALISED, VALID, Arena
from difftest.devices.emulator.parser import parse_module
from difftest.devices.emulator.run import DEFAULT_FUEL, DEFAULT_LANE_FUEL, Launch
from difftest.devices.emulator.schedule import NeedWarpsError, narrow, plan, wide
from difftest.devices.emulator.syntax import Function, Module, Variable
from difftest.errors import UsageError
from difftest.model import Fault, Schedule

# CUDA, compute capability 5.0 and later ("Technical Specifications per Compute Capability").
GRID_LIMITS = (2**31 - 1, 65535, 65535)
BLOCK_LIMITS = (1024, 1024, 64)
BLOCK_THREADS = 1024
SHARED_LIMIT = 227 << 10
LOCAL_GAP = 16
NARROW_FUEL = 8


class _Windows:
    """Where the variables of a module lie in the windows of a block and a thread: name -> (offset, size)."""

    def __init__(self, module: Module) -> None:
        self.shared: dict[str, tuple[int, int]] = {}
        self.local: dict[str, tuple[int, int]] = {}
        self.shared_size = self.local_size = 0
        self.dynamic: list[str] = []
        for variable in _all_variables(module):
            if variable.space == "shared" and variable.count == 0:
                self.dynamic.append(variable.name)
            elif variable.space == "shared":
                self.shared_size = _place(self.shared, variable, self.shared_size)
            elif variable.space == "local":
                self.local_size = _place(self.local, variable, self.local_size)
        # Dynamic shared memory begins after the static one; all its arrays are the same memory.
        self.dynamic_offset = -(-self.shared_size // 16) * 16

    def offsets(self) -> dict[str, int]:
        """Offsets by name."""
        found = {name: start for name, (start, _) in (self.shared | self.local).items()}
        return found | dict.fromkeys(self.dynamic, self.dynamic_offset)

    def spaces(self) -> dict[str, str]:
        """State spaces by name."""
        return {**dict.fromkeys((*self.shared, *self.dynamic), "shared"), **dict.fromkeys(self.local, "local")}


def _place(table: dict[str, tuple[int, int]], variable: Variable, at: int) -> int:
    """Put a variable after what is there, with a gap between: a walk past an end must not meet the next one."""
    align = max(variable.align, 1)
    gap = LOCAL_GAP if table else 0
    start = -(-(at + gap) // align) * align
    table[variable.name] = start, variable.size
    return start + variable.size


def _all_variables(module: Module) -> list[Variable]:
    inner = [v for f in module.functions.values() for v in f.variables.values()]
    return [*module.variables.values(), *inner]


class _Loaded:
    """A module in the memory of a device."""

    def __init__(self, module: Module, memory: Arena) -> None:
        self.module = module
        self.windows = _Windows(module)
        addresses: dict[str, int] = {}
        spaces = self.windows.spaces()
        for variable in _all_variables(module):
            if variable.space in {"global", "const"}:
                addresses[variable.name] = _make_global(variable, memory)
                spaces[variable.name] = variable.space
        names = Names(addresses=addresses, offsets=self.windows.offsets(), spaces=spaces, functions=module.functions)
        self.codes = {name: Compiler(f, names).compile() for name, f in module.functions.items() if f.body is not None}
        self.granule = min((code.granule for code in self.codes.values()), default=2)
        self.meets = any(b.barrier is not None for code in self.codes.values() for b in code.blocks)


def _load(text: str, memory: Arena) -> _Loaded:
    """A module, compiled once per text when it has no memory of its own."""
    module = parse_module(text)
    if any(v.space in {"global", "const"} for v in _all_variables(module)):
        return _Loaded(module, memory)
    return _load_anywhere(text)


@lru_cache(maxsize=64)
def _load_anywhere(text: str) -> _Loaded:
    return _Loaded(parse_module(text), Arena())


def _make_global(variable: Variable, memory: Arena) -> int:
    address, _ = memory.allocate(variable.size, align=max(variable.align, 256))
    if variable.data is not None or variable.space == "const":
        data = variable.data or bytes(variable.size)
        memory.write_bytes(address, np.frombuffer(data, np.uint8))
    elif not variable.extern:
        # "Variables in .global and .const without an initializer are zero" (PTX ISA 5.4.4).
        memory.write_bytes(address, np.zeros(variable.size, np.uint8))
    if variable.space == "const":
        start = address - BASE
        memory.state[start : start + variable.size] |= CONSTANT
    return address


class EmulatorDevice:
    """Runs PTX text on numpy lanes, and watches it. See `difftest.devices.base.Device`.

    `schedule` and `seed` choose the order of lanes, `strict` whether reading what was never written is a fault, `races`
    whether races are looked for, `memory` how many bytes there are, `fuel` and `lane_fuel` how long a launch may run
    (instructions of a wave, and of single lanes).
    """

    label = "emulator"

    def __init__(
        self,
        *,
        schedule: Schedule = Schedule.LOCK_STEP,
        seed: int = 0,
        strict: bool = True,
        races: bool = True,
        memory: int = 1 << 30,
        fuel: int = DEFAULT_FUEL,
        lane_fuel: int = DEFAULT_LANE_FUEL,
    ) -> None:
        self.schedule = schedule
        self.memory = Arena(limit=memory, strict=strict, races=races)
        self._seed = seed
        self._random = np.random.default_rng(seed)
        self._fuel = fuel, lane_fuel
        self._modules: list[_Loaded] = []
        self._texts: dict[str, Mapping[str, Kernel]] = {}

    def load(self, text: str) -> Mapping[str, Kernel]:
        """Load PTX text; its kernels by name. Raises PtxError (a UsageError) with the line. Loading again is free."""
        kernels = self._texts.get(text)
        if kernels is not None:
            return kernels
        try:
            loaded = _load(text, self.memory)
        except Stop as stop:
            raise UsageError(stop.message) from None
        self._modules.append(loaded)
        number = len(self._modules) - 1
        kernels = self._texts[text] = {
            name: Kernel(name=name, parameters=tuple(p.size for p in f.parameters), module=number)
            for name, f in loaded.module.functions.items()
            if f.entry and f.body is not None
        }
        return kernels

    def allocate(self, size: int) -> int:
        """Fresh memory."""
        try:
            return self.memory.allocate(size)[0]
        except Stop as stop:
            raise UsageError(stop.message) from None

    def free(self, address: int) -> None:
        """Give memory back; later accesses to it are faults."""
        try:
            self.memory.free(address)
        except KeyError:
            raise UsageError(f"{address:#x} is not the address of an allocation") from None

    def upload(self, address: int, data: NDArray[Any], initialised: NDArray[Any] | None = None) -> None:
        """Write bytes from the host."""
        self.memory.write_bytes(address, data, initialised)

    def download(self, address: int, size: int) -> tuple[NDArray[Any], NDArray[Any]]:
        """Read bytes, and which were ever written."""
        return self.memory.read_bytes(address, size)

    def close(self) -> None:
        """Forget all modules and memory."""
        self._modules.clear()
        self._texts.clear()
        old = self.memory
        self.memory = Arena(limit=old.limit, strict=old.strict, races=old.races)

    # --- launches -------------------------------------------------------------------------------------------------

    def launch(
        self,
        kernel: Kernel,
        *,
        grid: Sizes,
        block: Sizes,
        arguments: Sequence[bytes | int],
        shared: int = 0,
        stream: int = 0,
    ) -> LaunchOutcome:
        """Run a kernel, synchronously whatever its `stream`. A grid or block without threads is noted."""
        del stream
        loaded = self._modules[kernel.module]
        code = loaded.codes[kernel.name]
        parameters = _parameters(code.function, arguments)
        if 0 in (*grid, *block):
            return LaunchOutcome(kind=LaunchKind.OK, notes={"zero-launch": 1})
        memory = self.memory
        memory.notes = {}
        launch: Launch | None = None
        top = memory.top
        try:
            with np.errstate(all="ignore"):
                _check_sizes(code.function, grid, block, loaded.windows.shared_size + shared)
                launch = self._prepare(loaded, code, parameters, (grid, block, shared))
                self._run(loaded, launch)
            outcome, fault = LaunchKind.OK, None
        except Stop as stop:
            outcome, fault = _KINDS[stop.kind], _as_fault(stop, kernel.name)
        finally:
            memory.release(top)
        notes = dict(memory.notes)
        if memory.shadow.benign:
            notes["benign"] = memory.shadow.benign
        return LaunchOutcome(
            kind=outcome,
            fault=fault,
            notes=notes,
            instructions=0 if launch is None else launch.instructions,
            lane_instructions=0 if launch is None else launch.lane_instructions,
        )

    def _prepare(
        self, loaded: _Loaded, code: Code, parameters: dict[str, bytes], sizes: tuple[Sizes, Sizes, int]
    ) -> Launch:
        grid, block, shared = sizes
        fuel, lane_fuel = self._fuel
        return Launch(
            memory=self.memory,
            kernel=code,
            functions=loaded.codes,
            parameters=parameters,
            grid=grid,
            block=block,
            shared=shared,
            fuel=fuel,
            lane_fuel=lane_fuel,
        )

    def _run(self, loaded: _Loaded, launch: Launch) -> None:
        memory = self.memory
        if launch.kernel.parameters_addressed:
            launch.parameter_window = np.array([_parameter_window(launch, memory)], np.int64)
        saved = (memory.data[: memory.top].copy(), memory.state[: memory.top].copy()) if loaded.meets else None
        width = 1 if self.schedule is Schedule.SEQUENTIAL else None
        top = memory.top
        try:
            self._run_all(loaded, launch, width)
        except NeedWarpsError:
            assert saved is not None
            memory.release(top)
            memory.data[:top], memory.state[:top] = saved
            launch.arrivals.clear()
            self._run_all(loaded, launch, 32)

    def _run_all(self, loaded: _Loaded, launch: Launch, width: int | None) -> None:
        memory = self.memory
        memory.shadow.start(launch.layout, granule=loaded.granule, size=len(memory.data), top=memory.top)
        top = memory.top
        # Threads one by one go in order of their numbers, unless a seed asks for another one.
        if width is not None:
            # Waves one after the other need more instructions in all; how long a launch may take stays bounded.
            launch.fuel = self._fuel[0] * min(NARROW_FUEL, -(-launch.blocks * launch.threads // width))
        shuffled = self.schedule is Schedule.SHUFFLED or (self.schedule is Schedule.SEQUENTIAL and self._seed != 0)
        random = self._random if shuffled else None
        schedule = self.schedule if width is None else Schedule.SEQUENTIAL
        for blocks in plan(launch, schedule, self._random):
            shared, local = self._windows(loaded, launch, len(blocks))
            try:
                if width is None:
                    wide(launch, blocks, shared, local, random)
                else:
                    narrow(launch, int(blocks[0]), shared, local, width=width, random=random)
            finally:
                memory.release(top)

    def _windows(self, loaded: _Loaded, launch: Launch, blocks: int) -> tuple[Any, Any]:
        """Fresh .shared windows of `blocks` blocks and .local ones of their threads: where each begins."""
        memory, windows = self.memory, loaded.windows
        shared_size = windows.dynamic_offset + launch.dynamic if launch.dynamic else windows.shared_size
        parts = [*windows.shared.values(), (windows.dynamic_offset, launch.dynamic)]
        shared = self._window("shared", launch, (shared_size, blocks), parts)
        local = self._window("local", launch, (windows.local_size, blocks * launch.threads), [*windows.local.values()])
        memory.shadow.cover(len(memory.data), memory.top)
        return shared, local

    def _window(self, name: str, launch: Launch, sizes: tuple[int, int], parts: list[tuple[int, int]]) -> Any:
        size, pieces = sizes
        if size == 0:
            return np.array([BASE], np.int64)
        memory = self.memory
        start, stride = memory.allocate(size, align=16, pieces=pieces, gap=LOCAL_GAP)
        at = start - BASE
        launch.regions[name] = at, at + stride * pieces
        memory.objects.pop(start, None)
        if len(parts) > 1:
            region = memory.state[at : at + stride * pieces].reshape(pieces, stride)
            inside = np.zeros(stride, bool)
            for offset, length in parts:
                inside[offset : offset + length] = True
            region[:, ~inside] = 0
        return start + stride * np.arange(pieces, dtype=np.int64)


def _parameter_window(launch: Launch, memory: Arena) -> int:
    """The kernel's parameters as read-only memory, for code that takes their addresses; where it begins."""
    offsets = launch.kernel.parameters
    size = max((at + len(launch.parameters[name]) for name, at in offsets.items()), default=1)
    start, _ = memory.allocate(size)
    memory.objects.pop(start)
    at = start - BASE
    memory.state[at : at + size] = 0
    for name, offset in offsets.items():
        data = np.frombuffer(launch.parameters[name], np.uint8)
        memory.write_bytes(start + offset, data)
        memory.state[at + offset : at + offset + len(data)] = VALID | INITIALISED | CONSTANT
    return start


_KINDS = {
    "fault": LaunchKind.FAULT,
    "unsupported": LaunchKind.UNSUPPORTED,
    "inconclusive": LaunchKind.INCONCLUSIVE,
}


def _parameters(function: Function, arguments: Sequence[bytes | int]) -> dict[str, bytes]:
    if len(arguments) != len(function.parameters):
        raise UsageError(
            f"kernel {function.name} has {len(function.parameters)} parameters, {len(arguments)} are given"
        )
    found: dict[str, bytes] = {}
    for parameter, argument in zip(function.parameters, arguments, strict=True):
        size = parameter.size
        data = argument
        if isinstance(data, int):
            data = (data & ((1 << 8 * size) - 1)).to_bytes(size, "little")
        if len(data) > size:
            raise UsageError(f"parameter {parameter.name} has {size} bytes, {len(data)} are given")
        found[parameter.name] = data.ljust(size, b"\0")
    return found


def _check_sizes(function: Function, grid: Sizes, block: Sizes, shared: int) -> None:
    """What a device refuses to launch is inconclusive; a broken promise of the kernel is a fault."""
    within = all(0 < s <= m for s, m in zip((*grid, *block), GRID_LIMITS + BLOCK_LIMITS, strict=True))
    threads = block[0] * block[1] * block[2]
    if not within or threads > BLOCK_THREADS or shared > SHARED_LIMIT:
        raise inconclusive("launch-limit", f"grid {grid} with blocks of {block} and {shared} bytes is too large")
    for name, exact in (("reqntid", True), ("maxntid", False)):
        text = function.directives.get(name)
        if text is None:
            continue
        promised = [int(part) for part in text.replace(",", " ").split() if part.isdigit()]
        most = int(np.prod(promised))
        wrong = threads > most if not exact else list(block) != [*promised, 1, 1, 1][:3]
        if wrong:
            message = f"the kernel promises .{name} {text}, it is launched with blocks of {block}"
            raise Stop("fault", "known-size", message, line=function.line)


def _as_fault(stop: Stop, kernel: str) -> Fault:
    message = stop.message
    return Fault(rule=stop.rule, message=message, op=kernel, line=stop.line, iteration=stop.place)

"""One launch: waves of whole blocks in lock step, or every warp or thread for itself.

Diverged lanes meet again at the immediate post-dominator of their branch (a stack of (block, mask, meeting block) per
frame). Waves that hold whole blocks pass barriers at once; narrow waves stop there until `schedule` lets them go on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from difftest.devices.emulator.cfg import EXIT
from difftest.devices.emulator.faults import fault, inconclusive, unsupported
from difftest.devices.emulator.lanes import Frame, Wave
from difftest.devices.emulator.memory import BASE
from difftest.devices.emulator.ops.barrier import NeedWarpsError, check_arrival
from difftest.devices.emulator.ops.call import call_parts
from difftest.devices.emulator.rules import NoRuleError
from difftest.devices.emulator.shadow import Layout
from difftest.devices.emulator.special import special_value

if TYPE_CHECKING:
    from difftest.devices.emulator.compile import Code, CodeBlock
    from difftest.devices.emulator.memory import Arena

count_nonzero: Any = np.count_nonzero
DEFAULT_FUEL = 2_000_000
DEFAULT_LANE_FUEL = 2_000_000_000
MAXIMUM_DEPTH = 100


class Launch:
    """What all waves of a launch share. `parameters` are the kernel's, by name, as bytes."""

    def __init__(
        self,
        *,
        memory: Arena,
        kernel: Code,
        functions: Mapping[str, Code],
        parameters: Mapping[str, bytes],
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        shared: int,
        fuel: int = DEFAULT_FUEL,
        lane_fuel: int = DEFAULT_LANE_FUEL,
    ) -> None:
        self.memory = memory
        self.kernel = kernel
        self.functions = functions
        self.parameters = parameters
        self.grid = grid
        self.block = block
        self.blocks = grid[0] * grid[1] * grid[2]
        self.threads = block[0] * block[1] * block[2]
        self.dynamic = shared
        self.fuel = fuel
        self.lane_fuel = lane_fuel
        self.instructions = 0
        self.lane_instructions = 0
        self.layout = Layout(blocks=self.blocks, threads=self.threads)
        self.arrivals: dict[tuple[int, int], int] = {}
        self.parameter_window = np.array([BASE], np.int64)
        self.regions: dict[str, tuple[int, int]] = {}

    def spend(self, cost: int, lanes: int) -> None:
        """Count instructions; running out is inconclusive."""
        self.instructions += cost
        self.lane_instructions += cost * lanes
        if self.instructions > self.fuel or self.lane_instructions > self.lane_fuel:
            raise inconclusive("fuel", f"the kernel runs longer than {self.fuel} instructions")

    def parameter(self, wave: Wave, key: tuple[str, int, int], line: int) -> Any:
        """The value of a kernel parameter in its raw bits, remembered by the wave."""
        name, offset, size = key
        data = self.parameters.get(name)
        if data is None or len(wave.frames) > 1 or not 0 <= offset <= len(data) - size:
            raise unsupported(f"parameter [{name}+{offset}] of {size} bytes is read, but never written so", line=line)
        value = np.frombuffer(data[offset : offset + size], f"i{size}")
        wave.params[key] = value
        return value

    def in_space(self, place: Any, space: str) -> Any:
        """Where places of the arena are in the shared or local windows, else in global memory."""
        found = np.zeros(place.shape, bool)
        for name, (start, end) in self.regions.items():
            inside = (place >= start) & (place < end)
            if name == space:
                return inside
            found |= inside
        return ~found if space == "global" else np.zeros(place.shape, bool)


def start(wave: Wave, code: Code) -> None:
    """Put a wave at the beginning of a kernel."""
    frame = Frame(code, registers_of(wave, code), {})
    wave.enter(frame)


def registers_of(wave: Wave, code: Code) -> list[Any]:
    """Fresh registers: constants and special registers are filled in, the others are zero."""
    registers = list(code.template)
    for slot, name in code.specials:
        registers[slot] = special_value(wave, name)
    return registers


def run(wave: Wave) -> bool:
    """Run until the wave ends (True), or must wait for others (False, `wave.blocked` is the block it stands at)."""
    launch = wave.launch
    while True:
        frame = wave.frames[-1]
        if frame.pc == EXIT:
            if _return(wave, frame):
                return True
            continue
        block = frame.code.blocks[frame.pc]
        launch.spend(block.cost, wave.count)
        for step in block.full if wave.mask is None else block.masked:
            step(wave)
        ending = block.ending
        if not ending:
            go(wave, frame, block.successors[0])
        elif ending == "bra":
            if block.guard is None:
                go(wave, frame, block.successors[0])
            else:
                _branch(wave, frame, block)
        elif ending == "meet":
            if wave.waits(block):
                wave.blocked = block
                return False
            meet(wave, block)
            go(wave, frame, block.successors[0])
        elif _ENDINGS[ending](wave, frame, block):
            return True


def go(wave: Wave, frame: Frame, target: int) -> None:
    """Continue at a block, after meeting the lanes that were left behind when it is their meeting point."""
    frame.pc = target
    while frame.pc == frame.reconvergence and frame.pc != EXIT:
        if not _pop(wave, frame):
            raise AssertionError("a meeting point without waiting lanes")


def _pop(wave: Wave, frame: Frame) -> bool:
    """Take the next waiting lanes; False when there are none."""
    while frame.stack:
        pc, mask, reconvergence = frame.stack.pop()
        if frame.done is not None:
            mask = ~frame.done if mask is None else mask & ~frame.done
        count = wave.n if mask is None else int(count_nonzero(mask))
        if count == 0:
            continue
        wave.set_mask(None if count == wave.n else mask, count)
        frame.pc, frame.reconvergence = pc, reconvergence
        return True
    return False


def guard_lanes(wave: Wave, guard: tuple[int, bool]) -> tuple[Any, int]:
    """The active lanes whose guard holds: (None, all or 0) when that is all or none of them, else (mask, count)."""
    slot, negated = guard
    p = wave.r[slot]
    if len(p) == 1:
        return None, wave.count if bool(p[0]) != negated else 0
    if negated:
        p = ~p
    mask = p if wave.mask is None else p & wave.mask
    count = int(count_nonzero(mask))
    return (None, count) if count in {0, wave.count} else (mask, count)


def _branch(wave: Wave, frame: Frame, block: CodeBlock) -> None:
    assert block.guard is not None
    taken, fall = block.successors[0], block.successors[-1]
    mask, count = guard_lanes(wave, block.guard)
    if mask is None:
        go(wave, frame, taken if count else fall)
        return
    others = ~mask if wave.mask is None else wave.mask & ~mask
    _diverge(wave, frame, block.meeting, [(taken, mask, count), (fall, others, wave.count - count)])


def _diverge(wave: Wave, frame: Frame, meeting: int, sides: Sequence[tuple[int, Any, int]]) -> None:
    """Run the sides one after the other up to their meeting point."""
    if meeting not in {EXIT, frame.reconvergence}:
        frame.stack.append((meeting, wave.mask, frame.reconvergence))
    # A side that leads straight to the meeting point is there already.
    away = [side for side in sides if side[0] != meeting or meeting == EXIT]
    for target, mask, _ in away[1:]:
        frame.stack.append((target, mask, meeting))
    target, mask, count = away[0]
    wave.set_mask(mask, count)
    frame.pc, frame.reconvergence = target, meeting


def _switch(wave: Wave, frame: Frame, block: CodeBlock) -> bool:
    """brx.idx (PTX ISA 9.7.12.2)."""
    last = block.last
    assert last is not None
    if block.guard is not None:
        raise unsupported("a predicated brx.idx", line=last.line)
    number = wave.pick(wave.r[block.selector])
    if ((number < 0) | (number >= len(block.successors))).any():
        raise fault("branch-index", "brx.idx beyond its list of targets", line=last.line, lane=wave.lane_of_active(0))
    chosen = np.unique(number)
    if len(chosen) == 1:
        go(wave, frame, block.successors[int(chosen[0])])
        return False
    number = wave.spread(wave.r[block.selector])
    targets = np.asarray(block.successors)[np.clip(number, 0, len(block.successors) - 1)]
    sides: list[tuple[int, Any, int]] = []
    for target in np.unique(targets[wave.index]):
        mask = targets == target
        mask = mask if wave.mask is None else mask & wave.mask
        sides.append((int(target), mask, int(count_nonzero(mask))))
    if len(sides) == 1:
        go(wave, frame, sides[0][0])
    else:
        _diverge(wave, frame, block.meeting, sides)
    return False


def _leave(wave: Wave, frame: Frame, block: CodeBlock) -> bool:
    """ret and exit (9.7.12.5, 9.7.12.6), also of some lanes only."""
    everywhere = block.ending == "exit"
    if block.guard is not None:
        mask, count = guard_lanes(wave, block.guard)
        if count == 0:
            go(wave, frame, block.successors[-1])
            return False
        if mask is not None:
            rest = ~mask if wave.mask is None else wave.mask & ~mask
            wave.retire(mask, everywhere=everywhere)
            wave.set_mask(rest, wave.count - count)
            go(wave, frame, block.successors[-1])
            return False
    if everywhere and len(wave.frames) > 1:
        wave.retire(wave.active_mask(), everywhere=True)
    return _return(wave, frame)


def _return(wave: Wave, frame: Frame) -> bool:
    """The active lanes leave the frame; True when the wave has nothing left to do."""
    if frame.stack or len(wave.frames) > 1:
        wave.retire(wave.active_mask(), everywhere=False)
    if _pop(wave, frame):
        if frame.pc == frame.reconvergence and frame.pc != EXIT:
            go(wave, frame, frame.pc)
        return False
    if len(wave.frames) == 1:
        return True
    caller = wave.leave()
    mask = frame.base
    if wave.exited is not None:
        mask = ~wave.exited if mask is None else mask & ~wave.exited
    count = wave.n if mask is None else int(count_nonzero(mask))
    wave.set_mask(mask, count)
    block = caller.code.blocks[caller.pc]
    if count == 0:
        return _return(wave, caller)
    if frame.results is not None:
        for (name, offset, size), value in frame.params.items():
            if name == frame.results[0]:
                caller.params[frame.results[1], offset, size] = value
    go(wave, caller, block.successors[0])
    return False


def _trap(wave: Wave, frame: Frame, block: CodeBlock) -> bool:
    """trap (9.7.19.4) ends the launch."""
    del frame
    last = block.last
    assert last is not None
    lane = wave.lane_of_active(0)
    if block.guard is not None:
        mask, count = guard_lanes(wave, block.guard)
        if count == 0:
            go(wave, wave.frames[-1], block.successors[-1])
            return False
        lane = lane if mask is None else int(np.flatnonzero(mask)[0])
    raise fault("trap", "the kernel traps", line=last.line, lane=lane)


def _call(wave: Wave, frame: Frame, block: CodeBlock) -> bool:
    """call (9.7.12.4) of a function of the module."""
    last = block.last
    assert last is not None
    base = wave.mask
    if block.guard is not None:
        mask, count = guard_lanes(wave, block.guard)
        if count == 0:
            go(wave, frame, block.successors[0])
            return False
        if mask is not None:
            wave.set_mask(mask, count)
    if len(wave.frames) >= MAXIMUM_DEPTH:
        raise fault(
            "stack-overflow", f"calls nest deeper than {MAXIMUM_DEPTH}", line=last.line, lane=wave.lane_of_active(0)
        )
    code = wave.launch.functions[block.callee]
    try:
        results, _, arguments = call_parts(last)
    except NoRuleError as error:
        raise unsupported(str(error), line=last.line) from None
    parameters = code.function.parameters
    if len(parameters) != len(arguments) or len(results) != len(code.function.results):
        raise unsupported(f"a call of {block.callee} with other parameters than it has", line=last.line)
    names = {a: p.name for a, p in zip(arguments, parameters, strict=True)}
    given = {(names[n], o, s): v for (n, o, s), v in frame.params.items() if n in names}
    callee = Frame(code, registers_of(wave, code), given)
    callee.base = base
    if results:
        callee.results = code.function.results[0].name, results[0]
    wave.enter(callee)
    return False


_ENDINGS: dict[str, Any] = {"brx": _switch, "ret": _leave, "exit": _leave, "trap": _trap, "call": _call}


def meet(wave: Wave, block: CodeBlock) -> None:
    """Run the instruction that a block ends with, now that its lanes are together."""
    full, masked = block.meet
    if block.guard is None:
        (full if wave.mask is None else masked)(wave)
        return
    mask, count = guard_lanes(wave, block.guard)
    if count == 0:
        return
    old, before = wave.mask, wave.count
    if mask is not None:
        wave.set_mask(mask, count)
    (full if wave.mask is None else masked)(wave)
    wave.set_mask(old, before)


def arrive_together(wave: Wave, name: int, count: int, line: int, kind: str) -> None:
    """A wave of whole blocks at a barrier."""
    del name
    if kind == "arrive":
        raise NeedWarpsError
    check_arrival(wave, line, count)
    wave.next_epoch()

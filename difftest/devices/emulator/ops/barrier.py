"""Barriers of a block (PTX ISA 9.7.13.1): bar and barrier, .sync, .arrive, .red, with names and counts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from difftest.devices.emulator.closures import assign
from difftest.devices.emulator.faults import fault, first
from difftest.devices.emulator.rules import Build, NoRuleError, Rule, Steps
from difftest.devices.emulator.syntax import Register

if TYPE_CHECKING:
    from difftest.devices.emulator.compile import Compiler
    from difftest.devices.emulator.syntax import Instruction


class NeedWarpsError(Exception):
    """Lanes of a block wait at different barrier instructions: run the launch again, warp by warp."""


def _bar(parts: tuple[str, ...]) -> Build:
    """bar.sync, bar.arrive, bar.red.{popc,and,or}, bar.warp.sync and barrier (without .cta or with)."""
    rest = [p for p in parts[1:] if p not in {"cta", "aligned"}]
    if rest == ["warp", "sync"]:
        return Build(make=lambda compiler, instruction: (_warp_sync, _warp_sync))
    kind = rest[0] if rest else ""
    operation = rest[1] if kind == "red" and len(rest) == 3 else ""
    if kind not in {"sync", "arrive", "red"} or (kind != "red" and len(rest) > 1) or (kind == "red" and not operation):
        raise NoRuleError("modifiers")

    def make(compiler: Compiler, instruction: Instruction) -> Steps:
        operands, line = list(instruction.operands), instruction.line
        slot, predicate = -1, None
        if kind == "red":
            target = operands.pop(0) if len(operands) >= 3 else None
            if not isinstance(target, Register):
                raise NoRuleError("operands")
            slot = compiler.slot(target, line)
            last = operands.pop()
            negated = isinstance(last, Register) and last.negated
            plain = Register(last.name) if isinstance(last, Register) else last
            predicate = compiler.source(plain, "pred", line)[0], negated
        if not 1 <= len(operands) <= 2:
            raise NoRuleError("operands")
        name = compiler.source(operands[0], "u32", line)[0]
        count = compiler.source(operands[1], "u32", line)[0] if len(operands) == 2 else -1

        def run(w: Any) -> None:
            value = None
            if predicate is not None:
                value = w.r[predicate[0]]
                value = ~value if predicate[1] else value
            w.arrive(_uniform(w, name, line), _uniform(w, count, line) if count >= 0 else 0, line, kind)
            if value is not None:
                assign(w, slot, _reduce(w, operation, w.spread(value), compiler.dtypes[slot]))

        return run, run

    return Build(make=make)


def _uniform(w: Any, slot: int, line: int) -> int:
    value = w.pick(w.r[slot])
    if (value != value[0]).any():
        raise fault(
            "barrier-divergence", "lanes wait at barriers of different names", line=line, lane=w.lane_of_active(0)
        )
    return int(value[0])


def _reduce(w: Any, operation: str, value: Any, dtype: Any) -> Any:
    """The number of true predicates of each block, or whether all or any are."""
    active = w.active_mask()
    _, block = np.unique(w.blocks, return_inverse=True)
    ones = np.bincount(block, weights=value & active)
    total = np.bincount(block, weights=active)
    found = {"popc": ones, "and": ones == total, "or": ones > 0}[operation]
    return found[block].astype(dtype)


def _warp_sync(w: Any) -> None:
    """bar.warp.sync: in a wave all lanes of a warp are together already; their accesses before are ordered."""
    w.next_step()


def check_arrival(w: Any, line: int, count: int) -> None:
    """Every block with an active lane must be there with all its threads (or `count` of them)."""
    launch = w.launch
    if w.mask is None and w.exited is None and not count:
        return
    active = w.active_mask()
    blocks, inverse = np.unique(w.blocks, return_inverse=True)
    arrived = np.bincount(inverse, weights=active, minlength=len(blocks))
    wanted = count or launch.threads
    short = (arrived > 0) & (arrived != wanted)
    if not short.any():
        return
    absent = ~active & short[inverse]
    gone = absent if w.exited is None else absent & ~w.exited
    warps, table = w.slots()
    # Warps that are here only in part: no schedule can bring the others to this instruction.
    present = np.bincount(warps, weights=active, minlength=len(table))
    size = np.bincount(warps, minlength=len(table))
    if ((present > 0) & (present < size)).any() or not gone.any():
        lane = first(absent)
        message = (
            f"barrier reached by {int(arrived[inverse[lane]])} of {wanted} threads of the block; this one is missing"
        )
        raise fault("barrier-divergence", message, line=line, lane=lane)
    raise NeedWarpsError


RULES: dict[str, Rule] = {"bar": _bar, "barrier": _bar}

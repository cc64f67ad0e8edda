"""Exchange among the lanes of a warp (PTX ISA 9.7.9.6 shfl.sync, 9.7.13.9-9.7.13.13 vote, match, activemask, redux)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from difftest.devices.emulator.closures import assign
from difftest.devices.emulator.faults import fault, first
from difftest.devices.emulator.rules import Build, NoRuleError, Rule, Steps
from difftest.devices.emulator.syntax import Pair, Register, Sink
from difftest.devices.emulator.typed import np, one, two

if TYPE_CHECKING:
    from difftest.devices.emulator.compile import Compiler
    from difftest.devices.emulator.syntax import Instruction, Operand

U32 = np.uint32


def members(w: Any, mask: Any, line: int) -> Any:
    """The lane of the wave for each (warp, lane in warp), -1 where not active; checks the member masks of the lanes.

    All lanes that a mask names must be there, and the executing one must be named (9.7.9.6: otherwise undefined).
    """
    warps, table = w.slots()
    active = w.active_mask()
    here = np.where((table >= 0) & active[table], table, -1)
    bits = ((here >= 0).astype(np.uint64) << np.arange(32, dtype=np.uint64)).sum(axis=1).astype(U32)
    known = ((table >= 0).astype(np.uint64) << np.arange(32, dtype=np.uint64)).sum(axis=1).astype(U32)
    own = U32(1) << w.warp_lane.astype(U32)
    mask = w.spread(mask)
    unnamed = active & ((mask & own) == 0)
    missing = active & ((mask & known[warps] & ~bits[warps]) != 0)
    if w.exited is not None and missing.any():
        # Threads that have returned count as arrived.
        gone = (table >= 0) & w.exited[table]
        left = (gone.astype(np.uint64) << np.arange(32, dtype=np.uint64)).sum(axis=1).astype(U32)
        missing = active & ((mask & known[warps] & ~bits[warps] & ~left[warps]) != 0)
    for wrong, what in ((unnamed, "is not in its own member mask"), (missing, "names lanes that are not here")):
        if wrong.any():
            lane = first(wrong)
            message = f"a lane {what} ({int(mask[lane]):#x})"
            raise fault("inactive-lane", message, line=line, lane=lane)
    w.next_step()
    return here


def source_lanes(mode: str, lane: Any, b: Any, c: Any) -> tuple[Any, Any]:
    """The lane each lane reads, and whether it is in its segment (the pseudo-code of 9.7.9.6)."""
    amount, clamp, segment = b & 31, c & 31, (c >> 8) & 31
    largest = (lane & segment) | (clamp & ~segment)
    smallest = lane & segment
    if mode == "up":
        j = lane - amount
        valid = j >= largest
    elif mode == "down":
        j = lane + amount
        valid = j <= largest
    elif mode == "bfly":
        j = lane ^ amount
        valid = j <= largest
    else:
        j = smallest | (amount & ~segment)
        valid = j <= largest
    return np.where(valid, j, lane), valid


def _shfl(parts: tuple[str, ...]) -> Build:
    """shfl.sync.{up,down,bfly,idx}.b32 d|p, a, b, c, membermask."""
    if len(parts) != 4 or parts[1] != "sync" or parts[2] not in {"up", "down", "bfly", "idx"} or parts[3] != "b32":
        raise NoRuleError("modifiers")
    mode = parts[2]

    def make(compiler: Compiler, instruction: Instruction) -> Steps:
        operands, line = instruction.operands, instruction.line
        if len(operands) != 5:
            raise NoRuleError("operands")
        target = operands[0]
        value_target, flag_target = (target.first, target.second) if isinstance(target, Pair) else (target, Sink())
        a = compiler.source(operands[1], "b32", line)
        numbers = [compiler.source(o, "s32", line)[0] for o in operands[2:4]]
        mask_slot = compiler.source(operands[4], "u32", line)[0]
        put_value, put_flag = _target(compiler, value_target, line), _target(compiler, flag_target, line)

        def run(w: Any) -> None:
            here = members(w, w.r[mask_slot].view(U32), line)
            b, c = (w.r[slot].view(np.int32).astype(np.int64) for slot in numbers)
            j, valid = source_lanes(mode, w.warp_lane, b, c)
            warps, _ = w.slots()
            found = here[warps, np.clip(j, 0, 31)]
            lost = w.active_mask() & (found < 0)
            if lost.any():
                lane = first(lost)
                message = f"a shuffle reads lane {int(j[lane])} of the warp, which is not active"
                raise fault("inactive-lane", message, line=line, lane=lane)
            put_flag(w, np.broadcast_to(valid, w.n))
            put_value(w, w.spread(w.r[a[0]])[found])

        return run, run

    return Build(make=make)


def _target(compiler: Compiler, operand: Operand, line: int) -> Any:
    """What puts a value into a destination, whatever its dtype."""
    if isinstance(operand, Sink):
        return two(lambda w, value: None)
    if not isinstance(operand, Register):
        raise NoRuleError("destination")
    slot = compiler.slot(operand, line)
    have = compiler.dtypes[slot]

    def put(w: Any, value: Any) -> None:
        if value.dtype != have:
            value = (
                np.ascontiguousarray(value).view(have) if value.dtype.itemsize == have.itemsize else value.astype(have)
            )
        assign(w, slot, value)

    return put


def ballot(w: Any, here: Any, value: Any) -> Any:
    """For each warp a mask of the active lanes whose `value` is true."""
    true = (here >= 0) & w.spread(value)[here]
    return (true.astype(np.uint64) << np.arange(32, dtype=np.uint64)).sum(axis=1).astype(U32)


def _predicate(compiler: Compiler, operand: Operand, line: int) -> Any:
    negated = isinstance(operand, Register) and operand.negated
    plain = Register(operand.name) if isinstance(operand, Register) else operand
    slot = compiler.source(plain, "pred", line)[0]
    return one(lambda w: ~w.r[slot] if negated else w.r[slot])


def _vote(parts: tuple[str, ...]) -> Build:
    """vote.sync.{all,any,uni,ballot} (9.7.13.10)."""
    if len(parts) != 4 or parts[1] != "sync" or (parts[2], parts[3]) not in {
        ("all", "pred"), ("any", "pred"), ("uni", "pred"), ("ballot", "b32")
    }:  # fmt: skip
        raise NoRuleError("modifiers")
    mode = parts[2]

    def make(compiler: Compiler, instruction: Instruction) -> Steps:
        operands, line = instruction.operands, instruction.line
        if len(operands) != 3:
            raise NoRuleError("operands")
        put = _target(compiler, operands[0], line)
        predicate = _predicate(compiler, operands[1], line)
        mask_slot = compiler.source(operands[2], "u32", line)[0]

        def run(w: Any) -> None:
            mask = w.spread(w.r[mask_slot].view(U32))
            here = members(w, mask, line)
            warps, _ = w.slots()
            votes = ballot(w, here, predicate(w))[warps] & mask
            voters = ballot(w, here, np.ones(1, bool))[warps] & mask
            found = {
                "ballot": votes,
                "all": votes == voters,
                "any": votes != 0,
                "uni": (votes == voters) | (votes == 0),
            }[mode]
            put(w, found)

        return run, run

    return Build(make=make)


def _activemask(parts: tuple[str, ...]) -> Build:
    """activemask.b32 (9.7.13.12): the lanes that execute it together here, one of the allowed answers."""
    if parts != ("activemask", "b32"):
        raise NoRuleError("modifiers")

    def make(compiler: Compiler, instruction: Instruction) -> Steps:
        put = _target(compiler, instruction.operands[0], instruction.line)

        def run(w: Any) -> None:
            warps, table = w.slots()
            here = np.where((table >= 0) & w.active_mask()[table], table, -1)
            put(w, ballot(w, here, np.ones(1, bool))[warps])

        return run, run

    return Build(make=make)


def _match(parts: tuple[str, ...]) -> Build:
    """match.{any,all}.sync (9.7.13.11)."""
    if len(parts) != 4 or parts[1] not in {"any", "all"} or parts[2] != "sync" or parts[3] not in {"b32", "b64"}:
        raise NoRuleError("modifiers")
    kind = parts[3]

    def make(compiler: Compiler, instruction: Instruction) -> Steps:
        operands, line = instruction.operands, instruction.line
        if len(operands) != 3:
            raise NoRuleError("operands")
        target = operands[0]
        first_target, second = (target.first, target.second) if isinstance(target, Pair) else (target, Sink())
        put, put_flag = _target(compiler, first_target, line), _target(compiler, second, line)
        a, _, dtype = compiler.source(operands[1], kind, line)
        mask_slot = compiler.source(operands[2], "u32", line)[0]

        def run(w: Any) -> None:
            mask = w.spread(w.r[mask_slot].view(U32))
            here = members(w, mask, line)
            warps, _ = w.slots()
            values = w.spread(w.r[a].view(dtype))
            rows = here[warps]
            equal = (rows >= 0) & (values[rows] == values[:, None])
            bits = (equal.astype(np.uint64) << np.arange(32, dtype=np.uint64)).sum(axis=1).astype(U32) & mask
            if parts[1] == "any":
                put(w, bits)
                return
            all_equal = bits == (ballot(w, here, np.ones(1, bool))[warps] & mask)
            put(w, np.where(all_equal, bits, U32(0)))
            put_flag(w, all_equal)

        return run, run

    return Build(make=make)


_REDUCTIONS: dict[str, Any] = {
    "add": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and, "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}  # fmt: skip


def _redux(parts: tuple[str, ...]) -> Build:
    """redux.sync (9.7.13.13): a reduction over the member lanes."""
    if len(parts) != 4 or parts[1] != "sync" or parts[2] not in _REDUCTIONS or parts[3] not in {"s32", "u32", "b32"}:
        raise NoRuleError("modifiers")
    reduction, kind = _REDUCTIONS[parts[2]], parts[3]

    def make(compiler: Compiler, instruction: Instruction) -> Steps:
        operands, line = instruction.operands, instruction.line
        if len(operands) != 3:
            raise NoRuleError("operands")
        put = _target(compiler, operands[0], line)
        a, _, dtype = compiler.source(operands[1], kind, line)
        mask_slot = compiler.source(operands[2], "u32", line)[0]

        def run(w: Any) -> None:
            mask = w.spread(w.r[mask_slot].view(U32))
            here = members(w, mask, line)
            warps, _ = w.slots()
            values = w.spread(w.r[a].view(dtype))
            found = np.zeros(w.n, dtype)
            for lane in w.index:
                row = here[warps[lane]]
                named = (row >= 0) & ((mask[lane] >> np.arange(32, dtype=U32)) & U32(1)).astype(bool)
                found[lane] = reduction.reduce(values[row[named]], dtype=dtype)
            put(w, found)

        return run, run

    return Build(make=make)


RULES: dict[str, Rule] = {
    "shfl": _shfl,
    "vote": _vote,
    "match": _match,
    "activemask": _activemask,
    "redux": _redux,
}

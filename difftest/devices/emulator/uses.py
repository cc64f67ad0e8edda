"""Which registers an instruction reads and writes."""

from __future__ import annotations

from typing import Any

from difftest.devices.emulator.cfg import family
from difftest.devices.emulator.syntax import Address, Group, Instruction, Pair, Register, Vector

_NO_DESTINATION = frozenset(
    {"st", "bar", "barrier", "membar", "fence", "red", "call", "bra", "brx", "ret", "exit", "trap", "prefetch"}
)


def _names(operand: Any) -> list[str]:
    kind = operand.__class__
    if kind is Register:
        return [operand.name]
    if kind is Address:
        return [operand.base.name] if operand.base.__class__ is Register else []
    if kind is Vector or kind is Group:
        return [name for item in operand.items for name in _names(item)]
    if kind is Pair:
        return _names(operand.first) + _names(operand.second)
    return []


def written(instruction: Instruction) -> list[str]:
    """The names of the registers an instruction writes."""
    operands = instruction.operands
    if not operands or family(instruction) in _NO_DESTINATION:
        return []
    return [] if operands[0].__class__ is Address else _names(operands[0])


def read(instruction: Instruction, writes: list[str]) -> list[str]:
    """The names of the registers it reads, its guard included; `writes` are those it writes."""
    operands = instruction.operands[1:] if writes else instruction.operands
    found = [name for operand in operands for name in _names(operand)]
    if instruction.guard is not None:
        found.append(instruction.guard.name)
    return found


def expected_by_swaps(body: list[Instruction]) -> frozenset[str]:
    """Registers whose value ends, through moves, as what an atom.cas compares with.

    LLVM's loops around atom.cas begin with a plain load of the cell. Its value is only a guess that the swap checks:
    such a load counts as atomic, or every such loop would be a race.
    """
    wanted = {
        name
        for instruction in body
        if instruction.opcode.startswith("atom.") and ".cas." in instruction.opcode and len(instruction.operands) == 4
        for name in _names(instruction.operands[2])
    }
    if not wanted:
        return frozenset()
    moves = [i for i in body if i.opcode.startswith("mov.")]
    before = -1
    while before != len(wanted):
        before = len(wanted)
        for move in moves:
            if any(name in wanted for name in _names(move.operands[0])):
                wanted.update(name for operand in move.operands[1:] for name in _names(operand))
    return frozenset(wanted)

"""Basic blocks of a function and where diverged lanes meet again: immediate post-dominators.

A block ends with a branch, a return, a call of a function of the module, or an instruction at which lanes wait for
each other (a barrier; a warp operation, when the lanes of a warp run apart).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from difftest.devices.emulator.syntax import Function, Instruction, PtxError, Symbol

EXIT = -1
MEETING = frozenset({"bar", "barrier", "shfl", "vote", "match", "activemask", "redux"})
ENDING = frozenset({"bra", "brx", "ret", "exit", "trap"})


@dataclass(slots=True)
class Block:
    """Instructions `start` to `end` (the last one included when it ends the block); `last` is that one, or None."""

    number: int
    start: int
    end: int
    last: Instruction | None = None
    successors: list[int] = field(default_factory=list[int])
    meeting: int = EXIT


def family(instruction: Instruction) -> str:
    """The first part of an opcode."""
    return instruction.opcode.split(".", 1)[0]


def is_local_call(instruction: Instruction, functions: frozenset[str]) -> bool:
    """Whether an instruction calls a function with a body in the module."""
    if family(instruction) != "call":
        return False
    return any(isinstance(o, Symbol) and o.name in functions for o in instruction.operands[:2])


def build_blocks(function: Function, functions: frozenset[str]) -> list[Block]:
    """The blocks of a function with a body, in order of the text. Raises PtxError for a jump to nowhere."""
    body = function.body or []
    starts = {0, *function.labels.values()}
    for at, instruction in enumerate(body):
        name = family(instruction)
        if name in ENDING or name in MEETING or is_local_call(instruction, functions):
            starts.add(at + 1)
    order = sorted(s for s in starts if s < len(body))
    number_of = {start: number for number, start in enumerate(order)}
    blocks: list[Block] = []
    for number, start in enumerate(order):
        end = order[number + 1] if number + 1 < len(order) else len(body)
        last = body[end - 1]
        name = family(last)
        ends = name in ENDING or name in MEETING or is_local_call(last, functions)
        block = Block(number, start, end, last if ends else None)
        following = number + 1 if number + 1 < len(order) else EXIT
        block.successors = _successors(function, block, following, number_of)
        blocks.append(block)
    _post_dominators(blocks)
    return blocks


def _successors(function: Function, block: Block, following: int, number_of: dict[int, int]) -> list[int]:
    last = block.last
    name = "" if last is None else family(last)
    if last is None or name not in ENDING:
        return [following]
    rest = [] if last.guard is None else [following]
    if name in {"ret", "exit", "trap"}:
        return [EXIT, *rest]
    if name == "brx":
        table = next((o for o in reversed(last.operands) if isinstance(o, Symbol)), None)
        targets = function.tables.get(table.name if table else "")
        if targets is None:
            raise PtxError("brx.idx without a list of targets", line=last.line)
    else:
        target = last.operands[0] if len(last.operands) == 1 else None
        if not isinstance(target, Symbol):
            raise PtxError("a branch needs one label", line=last.line)
        targets = (target.name,)
    return [*(_target(function, t, number_of, last.line) for t in targets), *rest]


def _target(function: Function, label: str, number_of: dict[int, int], line: int) -> int:
    at = function.labels.get(label)
    if at is None:
        raise PtxError(f"unknown label {label}", line=line)
    return number_of.get(at, EXIT)


def _post_dominators(blocks: Sequence[Block]) -> None:
    """Cooper, Harvey and Kennedy, "A simple, fast dominance algorithm", on the reversed graph.

    Blocks from which no path leads to the end (endless loops) keep EXIT.
    """
    order = _reverse_order(blocks)
    rank = {number: position for position, number in enumerate(order)}
    immediate: dict[int, int] = {EXIT: EXIT}
    changed = True
    while changed:
        changed = False
        for number in order[1:]:
            found: int | None = None
            for successor in blocks[number].successors:
                if successor in immediate:
                    found = successor if found is None else _meet(successor, found, immediate, rank)
            if found is not None and immediate.get(number) != found:
                immediate[number] = found
                changed = True
    for block in blocks:
        block.meeting = immediate.get(block.number, EXIT)


def _meet(a: int, b: int, immediate: dict[int, int], rank: dict[int, int]) -> int:
    while a != b:
        while rank[a] > rank[b]:
            a = immediate[a]
        while rank[b] > rank[a]:
            b = immediate[b]
    return a


def _reverse_order(blocks: Sequence[Block]) -> list[int]:
    """Reverse postorder of the reversed graph, from EXIT."""
    before: dict[int, list[int]] = {EXIT: []}
    for block in blocks:
        before.setdefault(block.number, [])
        for successor in block.successors:
            before.setdefault(successor, []).append(block.number)
    seen = {EXIT}
    post: list[int] = []
    stack: list[tuple[int, int]] = [(EXIT, 0)]
    while stack:
        number, at = stack.pop()
        if at < len(before[number]):
            stack.append((number, at + 1))
            following = before[number][at]
            if following not in seen:
                seen.add(following)
                stack.append((following, 0))
        else:
            post.append(number)
    return post[::-1]

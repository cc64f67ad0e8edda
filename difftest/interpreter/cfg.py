"""Regions of several blocks: lanes carry a block number each, and lanes in one block run together.

While all lanes agree the region runs in its own frame, like straight code. Once they part, the pending block that is
earliest in reverse post-order runs next, for the lanes that stand there; so lanes meet again where control flow joins.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from difftest.interpreter.values import UNDEFINED, gather, merge
from difftest.ir.tree import Block, Operation, Region

if TYPE_CHECKING:
    from difftest.interpreter.core import Body, Context
    from difftest.interpreter.frames import Frame, Step

ndarray: Any = np.ndarray


class Branch:
    """A terminator with successors: `choose(frame)` is the number of the successor taken, an int or one per lane.

    `arguments` are, per successor, the slots of the values passed to its block.
    """

    __slots__ = ("arguments", "choose")

    def __init__(self, *, choose: Callable[[Frame], Any], arguments: Sequence[Sequence[int]]) -> None:
        self.choose = choose
        self.arguments = [tuple(a) for a in arguments]


class _Node:
    """One compiled block."""

    def __init__(self, run: Step, arguments: tuple[int, ...]) -> None:
        self.run = run
        self.arguments = arguments
        self.used: set[int] = set()
        self.defined: set[int] = set()
        self.captures: tuple[int, ...] = ()
        self.live: tuple[int, ...] = ()
        self.branch: Branch | None = None
        self.targets: list[int] = []
        self.exit: tuple[int, ...] = ()


def compile_region(region: Region, body: Body, context: Context) -> None:
    """Fill `body` for a region of several blocks. Unreachable blocks are not compiled."""
    order = _reverse_post_order(region.blocks[0])
    numbers = {block: i for i, block in enumerate(order)}
    nodes = [_compile_block(block, numbers, context) for block in order]
    everything: set[int] = set[int]().union(*(n.used for n in nodes))
    for node in nodes:
        elsewhere: set[int] = set[int]().union(*(n.used for n in nodes if n is not node))
        node.live = tuple(sorted(node.defined & elsewhere))
        node.captures = tuple(sorted(node.used - node.defined | (node.used & set(node.arguments))))
        context.defined |= node.defined | set(node.arguments)
    context.used |= everything
    exits = [n for n in nodes if n.branch is None]
    # Some exits, such as unreachable, have no operands.
    first = max((n.exit for n in exits), key=len, default=())
    body.results = tuple(context.fresh(context.dtypes[s]) for s in first)
    context.defined.update(body.results)
    body.arguments = nodes[0].arguments
    body.run = _Runner(nodes, body.results, context.dtypes).run


def _compile_block(block: Block, numbers: dict[Block, int], context: Context) -> _Node:
    outer = context.used, context.defined
    context.used, context.defined = set(), set()
    last: Operation = block.ops[-1]
    arguments = tuple(context.slot(a) for a in block.arguments)
    factory = context.rules.branches.get(last.name) if last.successors else None
    if factory is None:
        node = _Node(context.block(block), arguments)
        node.exit = tuple(context.slot(v) for v in last.operands)
    else:
        steps = tuple([s for s in map(context.op, block.ops[:-1]) if s is not None])
        node = _Node(context.sequence(steps, len(block.ops)), arguments)
        context.used.update(context.slot(v) for v in last.operands)
        node.branch = factory(last, context)
        node.targets = [numbers[b] for b in last.successors]
    node.used, node.defined = context.used, context.defined
    context.used, context.defined = outer
    return node


def _reverse_post_order(entry: Block) -> list[Block]:
    """Reachable blocks, each before its successors except along back edges."""
    done: list[Block] = []
    seen = {entry}
    stack: list[tuple[Block, list[Block]]] = [(entry, _successors(entry))]
    while stack:
        block, rest = stack[-1]
        following = next((b for b in rest if b not in seen), None)
        if following is None:
            done.append(block)
            stack.pop()
        else:
            seen.add(following)
            stack.append((following, _successors(following)))
    return done[::-1]


def _successors(block: Block) -> list[Block]:
    # Reversed, so that the first successor comes first in the reverse post-order.
    return list(reversed(block.ops[-1].successors)) if block.ops else []


class _Runner:
    """Runs the blocks of one region."""

    def __init__(self, nodes: list[_Node], results: tuple[int, ...], dtypes: list[Any]) -> None:
        self.nodes = nodes
        self.results = results
        self.dtypes = dtypes

    def run(self, frame: Frame) -> None:
        """All lanes of `frame`, from the entry block to a terminator without successors."""
        v = frame.v
        at = 0
        while True:
            node = self.nodes[at]
            node.run(frame)
            branch = node.branch
            if branch is None:
                for slot, source in zip(self.results, node.exit, strict=False):
                    v[slot] = v[source]
                return
            choice = branch.choose(frame)
            if choice.__class__ is ndarray:
                if (choice != choice[0]).any():
                    self._part(frame, at, choice)
                    return
                choice = int(choice[0])
            target = node.targets[choice]
            passed = [v[s] for s in branch.arguments[choice]]
            for slot, value in zip(self.nodes[target].arguments, passed, strict=True):
                v[slot] = value
            at = target

    def _part(self, frame: Frame, at: int, choice: Any) -> None:
        """Lanes part after block `at`."""
        n = frame.n
        place: Any = np.full(n, at, np.int64)
        everyone = np.arange(n)
        self._move(frame, (frame, everyone), self.nodes[at], choice, place)
        while True:
            pending = place[place >= 0]
            if not pending.size:
                return
            number = int(pending.min())
            index = np.flatnonzero(place == number)
            node = self.nodes[number]
            inner = frame if len(index) == n else frame.subset(index, node.captures)
            node.run(inner)
            if inner is not frame:
                for slot in node.live:
                    self._write(frame, slot, inner.v[slot], index)
            if node.branch is None:
                for slot, source in zip(self.results, node.exit, strict=False):
                    self._write(frame, slot, inner.v[source], index)
                place[index] = -1
            else:
                self._move(frame, (inner, index), node, node.branch.choose(inner), place)

    def _move(self, frame: Frame, group: tuple[Frame, Any], node: _Node, choice: Any, place: Any) -> None:
        """Send the lanes of a group to the successors they chose, with their arguments."""
        inner, index = group
        branch = node.branch
        if branch is None:
            return
        taken = [choice] if choice.__class__ is not ndarray else [int(c) for c in np.unique(choice)]
        moves: list[tuple[int, Any, Any]] = []
        for number in taken:
            chosen = np.flatnonzero(choice == number) if choice.__class__ is ndarray else np.arange(len(index))
            target = node.targets[number]
            place[index[chosen]] = target
            for slot, source in zip(self.nodes[target].arguments, branch.arguments[number], strict=True):
                moves.append((slot, gather(inner.v[source], chosen, len(chosen)), index[chosen]))
        for slot, value, where in moves:
            self._write(frame, slot, value, where)

    def _write(self, frame: Frame, slot: int, value: Any, index: Any) -> None:
        old = frame.v[slot]
        if len(index) == frame.n or (old is UNDEFINED and value.__class__ is not ndarray and self.dtypes[slot] is None):
            frame.v[slot] = value
            return
        parts = [(old, np.arange(frame.n)), (value, index)]
        frame.v[slot] = merge(parts if old is not UNDEFINED else parts[1:], frame.n, self.dtypes[slot])

"""Edits as data: what a pass proposes on an immutable snapshot, and how a set of them becomes a new candidate.

An `Edit` names operations and values by their number in the snapshot, so it can be printed, compared and combined
with others.  Applying clones the tree, performs the edits in order on the `Draft`, and sweeps once: users of what
was erased go too, terminators get stand-ins.  An edit whose operation has gone is skipped, so any subset of a
pass's edits can be applied together and the outcome depends only on the subset and its order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

from difftest.ir.printer import print_module
from difftest.ir.reader import read_module
from difftest.ir.tree import Block, Operation, Value, clone, uses
from difftest.model import InputSpec
from reducer.order import Size
from reducer.problem import Candidate
from reducer.trees import (
    CONSTANTS,
    constant_text,
    enclosing_function,
    is_function,
    is_terminator,
    make_constant,
    values_of,
)


class Subject(Protocol):
    """Something a pass looks at and edits are applied to. Never changed after it is made."""

    @property
    def candidate(self) -> Candidate:
        """What the predicate is asked about."""
        ...

    @property
    def size(self) -> Size:
        """The candidate's place in the order."""
        ...

    def apply(self, edits: Sequence[Any]) -> Subject | None:
        """A new subject with `edits` performed, None when they contradict each other or change nothing."""
        ...


class Edit(Protocol):
    """One change to a tree."""

    def apply(self, draft: Draft) -> None:
        """Perform the change, or nothing when what it speaks of has gone."""
        ...


@dataclass(frozen=True, kw_only=True)
class Pass:
    """A named source of edits, most wanted first. `propose` is pure, cheap (linear) and never asks the predicate.

    `form` says which subjects it reads: `"tree"` (a `Snapshot`) or `"text"`. A `whole` pass is one whose edits are
    also tried all at once and in halves; without it they are tried one by one, as alternatives.
    """

    name: str
    propose: Callable[[Any], Sequence[Any]]
    form: str = "tree"
    whole: bool = True


class Conflict(Exception):
    """The edits of a draft cannot stand together."""


class Snapshot:
    """A module tree that is never edited, with its operations and values numbered in textual order."""

    def __init__(self, module: Operation, candidate: Candidate, *, passes: int = 0) -> None:
        self.module = module
        self.candidate = candidate
        self.passes = passes

    @classmethod
    def read(cls, candidate: Candidate, *, passes: int = 0) -> Snapshot:
        """Read generic text and print it canonically; raises `ReadError`."""
        module = read_module(candidate.text)
        return cls(module, with_text(candidate, print_module(module)), passes=passes)

    @cached_property
    def ops(self) -> list[Operation]:
        """Every operation, the module first."""
        return list(self.module.walk())

    @cached_property
    def number(self) -> dict[Operation, int]:
        """Operation -> its position in `ops`."""
        return {op: number for number, op in enumerate(self.ops)}

    @cached_property
    def value_number(self) -> dict[Value, int]:
        """Value -> its position in `values_of(ops)`."""
        return {value: number for number, value in enumerate(values_of(self.ops))}

    @cached_property
    def uses(self) -> dict[Value, list[tuple[Operation, int]]]:
        """Value -> its uses."""
        return uses(self.module)

    @property
    def size(self) -> Size:
        """See `Subject.size`."""
        return self._size

    @cached_property
    def _size(self) -> Size:
        """See `Subject.size`; the module op is not counted, as in `count_ops`."""
        structure = 0
        for op in self.ops:
            for region in op.regions:
                structure += 1 + len(region.blocks) + sum(len(b.arguments) for b in region.blocks)
        count = sum(1 for op in self.ops if op.name != "builtin.module")
        return Size(ops=count, structure=structure, passes=self.passes, candidate=self.candidate)

    def apply(self, edits: Sequence[Edit]) -> Snapshot | None:
        """See `Subject.apply`."""
        draft = Draft(self)
        try:
            for edit in edits:
                edit.apply(draft)
            draft.sweep()
        except Conflict:
            return None
        candidate = Candidate(
            text=print_module(draft.module),
            pipeline=self.candidate.pipeline,
            inputs=draft.inputs,
            entry=draft.entry,
        )
        return None if candidate.key == self.candidate.key else Snapshot(draft.module, candidate, passes=self.passes)


class Draft:
    """A clone of a snapshot's tree while edits are performed on it."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.module = clone(snapshot.module)
        self.inputs: InputSpec = snapshot.candidate.inputs
        self.entry = snapshot.candidate.entry
        self._ops = list(self.module.walk())
        self._values: list[Value] | None = None
        self._erased: set[Operation] = set()
        self._hoisted: set[Operation] = set()
        self._dead: set[Value] = set()
        self._replaced: dict[Value, Value] = {}
        self._front: dict[Block, list[Operation]] = {}

    # --- what edits may do ----------------------------------------------------------------------------------

    def op(self, number: int) -> Operation | None:
        """The clone of the snapshot's operation, None when it has gone."""
        op: Operation | None = self._ops[number]
        while op is not None:
            if op in self._erased:
                return None
            op = op.parent_op
        return self._ops[number]

    @property
    def live_ops(self) -> list[Operation]:
        """Every operation that has not gone, in the snapshot's order."""
        return [op for number, op in enumerate(self._ops) if self.op(number) is not None]

    def value(self, number: int) -> Value:
        """The clone of the snapshot's value, or what stands for it by now."""
        if self._values is None:
            self._values = values_of(self._ops)
        return self._resolve(self._values[number])

    def erase(self, op: Operation) -> None:
        """Remove `op`, all inside it, and (when sweeping) all users of its results."""
        self._erased.add(op)

    def replace(self, value: Value, by: Value) -> None:
        """Let `by` stand for `value` everywhere."""
        target = self._resolve(by)
        if target is not value:
            self._replaced[value] = target

    def splice(self, op: Operation, body: list[Operation]) -> None:
        """Put `body` where `op` stands and erase `op`."""
        block = op.parent
        if block is None:
            raise Conflict
        for inner in body:
            inner.parent = block
        at = block.ops.index(op)
        block.ops[at : at + 1] = body
        self.erase(op)
        # The sweep will not meet `op` again.
        self._dead.update(op.results)

    def constant(self, near: Operation, type_text: str, number: int) -> Value | None:
        """A constant visible to `near`: one of its function's, moved to the front, or a new one. None: no such type."""
        function = enclosing_function(near)
        if function is None or not function.regions or not function.regions[0].blocks:
            return None
        block = function.regions[0].blocks[0]
        text = constant_text(type_text, number)
        front = self._front.setdefault(block, [])
        for op in (*front, *block.ops):
            same = op.name in CONSTANTS and op.get("value") == text and op.results[0].type == type_text
            if same and op not in self._erased and op.results[0] not in self._replaced:
                if op not in front:
                    self._hoisted.add(op)
                    front.append(op)
                return op.results[0]
        return self._fresh(block, type_text, number)

    def stand_in(self, near: Operation, type_text: str) -> Value:
        """A zero of `type_text`; raises `Conflict` when the type has none."""
        value = self.constant(near, type_text, 0)
        if value is None:
            raise Conflict
        return value

    # --- making it whole ------------------------------------------------------------------------------------

    def sweep(self) -> None:
        """Resolve replacements and remove what was erased with its users, until nothing dangles."""
        while True:
            dead = len(self._dead)
            for region in self.module.regions:
                for block in region.blocks:
                    self._sweep_block(block)
            # A use may stand before its definition only where control flow jumps back.
            if len(self._dead) == dead or not self._has_branches():
                break
        for block, ops in self._front.items():
            block.ops[:0] = ops

    def _has_branches(self) -> bool:
        return any(len(region.blocks) > 1 for op in self.module.walk() for region in op.regions)

    def _sweep_block(self, block: Block) -> None:
        front = self._front.pop(block, [])
        kept: list[Operation] = []
        for op in (*front, *(o for o in block.ops if o not in self._hoisted)):
            if op not in self._erased:
                self._sweep_op(op)
            if op in self._erased:
                self._dead.update(op.results)
            else:
                op.parent = block
                kept.append(op)
        self._hoisted.difference_update(front)
        block.ops = self._front.pop(block, []) + kept

    def _sweep_op(self, op: Operation) -> None:
        if self._replaced:
            op.operands = [self._resolve(v) for v in op.operands]
        if self._dead and any(v in self._dead for v in op.operands):
            self._mend(op)
        if op not in self._erased:
            for region in op.regions:
                for block in region.blocks:
                    self._sweep_block(block)

    def _mend(self, op: Operation) -> None:
        """A user of a dead value goes; a terminator gets stand-ins, or its parent goes."""
        parent = op.parent_op
        if not is_terminator(op) or parent is None:
            self.erase(op)
            return
        function = enclosing_function(op)
        for position, value in enumerate(op.operands):
            if value in self._dead and function is not None and function.regions[0].blocks:
                fresh = self._fresh(function.regions[0].blocks[0], value.type, 0)
                if fresh is None:
                    self._give_up(parent)
                    return
                op.operands[position] = fresh

    def _give_up(self, parent: Operation) -> None:
        if is_function(parent) or len(parent.regions[0].blocks) > 1:
            raise Conflict
        self.erase(parent)

    def _fresh(self, block: Block, type_text: str, number: int) -> Value | None:
        op = make_constant(type_text, number)
        if op is None:
            return None
        op.parent = block
        self._front.setdefault(block, []).append(op)
        return op.results[0]

    def _resolve(self, value: Value) -> Value:
        while value in self._replaced:
            value = self._replaced[value]
        return value


def with_text(candidate: Candidate, text: str) -> Candidate:
    """`candidate` with another module text."""
    return Candidate(text=text, pipeline=candidate.pipeline, inputs=candidate.inputs, entry=candidate.entry)


def with_pipeline(candidate: Candidate, pipeline: str) -> Candidate:
    """`candidate` with another pipeline."""
    return Candidate(text=candidate.text, pipeline=pipeline, inputs=candidate.inputs, entry=candidate.entry)

"""Generic MLIR text -> our op tree.

One pass, an explicit stack instead of recursion, and two caches that make it fast: generic print has one op a
line, and what follows the operands (`<{…}> {…} : (…) -> …`) repeats a lot, so it is parsed once per distinct text.
Types and attributes are kept as texts with aliases substituted; only their brackets and strings are checked here.

Names follow MLIR's rules (Language Reference, "Value scoping"): a name is visible in the region that defines it and in
regions nested there, blocks are named per region, ops that are isolated from above start a fresh scope, and a
use may precede its definition.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from difftest.ir import types
from difftest.ir.fragments import Fragments, Tail, Tails
from difftest.ir.lexer import LexError, collapse_blank, skip_blank
from difftest.ir.tree import Block, Operation, Region, Value

_GAP = r"(?:\s++|//[^\n]*+)*+"
_NAME = r"%(?:\d++|[A-Za-z_$.\-][\w$.\-]*+)"
_OP = re.compile(
    rf"{_GAP}(?:({_NAME}(?::\d{{1,9}}+)?(?:{_GAP},{_GAP}{_NAME}(?::\d{{1,9}}+)?)*){_GAP}={_GAP})?"
    rf"\"([^\"\\\n]++)\"{_GAP}\(([^()\"<>{{}}]*+)\)",
    re.ASCII,
)
_USE = re.compile(rf"{_NAME}(?:#\d{{1,9}}+)?", re.ASCII)
_GROUP = re.compile(rf"({_NAME})(?::(\d{{1,9}}+))?", re.ASCII)
_LABEL = re.compile(r"\^(?:\d++|[A-Za-z_$.\-][\w$.\-]*+)", re.ASCII)
_ARGUMENT = re.compile(rf"{_GAP}({_NAME}){_GAP}:", re.ASCII)
_TAILS: dict[str, Tail] = {}
_ENDS: dict[str, Tail] = {}
_ISOLATED = frozenset({"func", "module", "global", "named_sequence"})


@dataclass(slots=True)
class _Scope:
    """The names of one isolated region nest: what is defined, and uses that wait for a definition."""

    values: dict[str, Value] = field(default_factory=dict[str, Value])
    waiting: dict[str, list[tuple[Operation, int, str, int]]] = field(
        default_factory=dict[str, "list[tuple[Operation, int, str, int]]"]
    )


@dataclass(slots=True)
class _Head:
    """The part of an op before its regions; names are resolved once its types are known."""

    op: Operation
    results: str
    operands: str
    start: int
    operands_at: int


@dataclass(slots=True)
class _Frame:
    """A region being read. `head` is the op that holds it, None for the top level."""

    head: _Head | None
    region: Region
    scope: _Scope
    names: list[str] = field(default_factory=list[str])
    labels: dict[str, Block] = field(default_factory=dict[str, Block])
    missing: dict[str, int] = field(default_factory=dict[str, int])
    block: Block | None = None


def read_module(text: str) -> Operation:
    """Read generic text and return its `builtin.module`, made up when the text has none or several top-level ops.

    Aliases are substituted; locations, comments and resource metadata are dropped. Raises ReadError (1-based line
    and column) for anything that is not generic MLIR, including undefined or redefined values, operand counts or
    types that contradict the signature, and unknown blocks.
    """
    return _Reader(text).read()


class _Reader(Fragments):
    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.has_locations = "loc(" in text
        self.line = 1
        self.counted = 0
        self.tails = Tails(_TAILS)
        self.ends = Tails(_ENDS)
        self.root = Operation("builtin.module", line=1)
        region = self.root.add_region()
        self.frames = [_Frame(None, region, _Scope(), block=region.add_block())]

    def read(self) -> Operation:
        try:
            self._read_all()
        except LexError as error:
            self.fail(error.message, error.position)
        self._check_waiting(self.frames[0].scope)
        ops = self.root.regions[0].blocks[0].ops
        if len(ops) == 1 and ops[0].name == "builtin.module" and len(ops[0].regions) == 1:
            ops[0].parent = None
            if not ops[0].regions[0].blocks:
                ops[0].regions[0].add_block()
            return ops[0]
        return self.root

    def _read_all(self) -> None:
        text = self.text
        match_op = _OP.match
        while True:
            found = match_op(text, self.position)
            if found is not None:
                self._read_op(found)
                continue
            self.position = skip_blank(text, self.position)
            head = text[self.position : self.position + 1]
            if head == "}":
                self._end_region()
            elif head == "^":
                self._read_label()
            elif not head:
                if len(self.frames) == 1:
                    return
                self.fail("unexpected end of text inside a region", self.position)
            elif head in "#!" and len(self.frames) == 1:
                self.read_alias()
            elif head == "{" and len(self.frames) == 1:
                self.skip_metadata()
            else:
                self.fail_at_op()

    # --- operations -----------------------------------------------------------------------------------------

    def _read_op(self, found: re.Match[str]) -> None:
        text = self.text
        start = found.start(2) - 1
        position = found.end()
        self.line += text.count("\n", self.counted, start)
        self.counted = start
        op = Operation(found[2], line=self.line)
        frame = self.frames[-1]
        block = frame.block
        if block is None:
            block = frame.block = frame.region.add_block()
        op.parent = block
        block.ops.append(op)
        head = _Head(op, found[1] or "", found[3], start, found.start(3))
        if text.startswith("[", position):
            position = self._read_successors(op, position)
        end = text.find("\n", position)
        rest = text[position:] if end < 0 else text[position:end]
        tail = self.tails.get(rest)
        if tail is None:
            self._read_middle(head, position, rest)
        elif tail.opens:
            op.properties = dict(tail.properties)
            self._begin_region(head, position + len(rest) - 1)
        else:
            self.position = position + len(rest)
            self._finish(head, tail)

    def _read_middle(self, head: _Head, position: int, rest: str) -> None:
        text = self.text
        begin = position
        self.expanded = False
        position = skip_blank(text, position)
        if text.startswith("[", position):
            position = skip_blank(text, self._read_successors(head.op, position))
            begin = -1
        properties: dict[str, str] = {}
        if text.startswith("<", position):
            properties, position = self.read_dictionary(position + 1)
            position = skip_blank(text, self.expect(">", position))
        if text.startswith("(", position):
            head.op.properties = dict(properties)
            position = skip_blank(text, position + 1)
            if position + 1 == begin + len(rest) and text.startswith("{", position):
                self.tails.put(rest, Tail(properties, {}, opens=True), expanded=self.expanded)
            self._begin_region(head, position)
            return
        tail, position = self.read_tail(properties, position)
        if position == begin + len(rest):
            self.tails.put(rest, tail, expanded=self.expanded)
        self.position = position
        self._finish(head, tail)

    def _finish(self, head: _Head, tail: Tail) -> None:
        op = head.op
        if tail.properties:
            op.properties = dict(tail.properties)
        if tail.attributes:
            op.attributes = dict(tail.attributes)
        if head.operands or tail.inputs:
            self._resolve(head, tail.inputs)
        if tail.outputs:
            op.results = [Value(t, op, i) for i, t in enumerate(tail.outputs)]
        if head.results:
            self._define_results(head)
        if self.has_locations:
            self.position = self.skip_location(self.position)

    def _resolve(self, head: _Head, inputs: tuple[str, ...]) -> None:
        values = self.frames[-1].scope.values
        names = head.operands.split(",") if head.operands.strip() else ()
        if "//" in head.operands:
            names = tuple(n for n in collapse_blank(head.operands).split(","))
        if len(names) != len(inputs):
            self.fail(f"{len(names)} operands but {len(inputs)} operand types", head.start)
        operands = head.op.operands
        for name, expected in zip(names, inputs, strict=True):
            stripped = name.strip()
            value = values.get(stripped)
            if value is None:
                value = self._resolve_rare(head, stripped, expected, len(operands))
            elif value.type != expected and not types.same_type(value.type, expected):
                self.fail(f"{stripped} has type {value.type}, used as {expected}", self._operand_at(head, stripped))
            operands.append(value)

    def _resolve_rare(self, head: _Head, name: str, expected: str, number: int) -> Value:
        if _USE.fullmatch(name) is None:
            self.fail(f"bad operand '{name}'", self._operand_at(head, name))
        scope = self.frames[-1].scope
        base, _, index = name.partition("#")
        value = scope.values.get(base)
        if value is not None and index and int(index) == 0 and isinstance(value.owner, Operation):
            if value.type != expected and not types.same_type(value.type, expected):
                self.fail(f"{name} has type {value.type}, used as {expected}", self._operand_at(head, name))
            return value
        at = self._operand_at(head, name)
        scope.waiting.setdefault(name, []).append((head.op, number, expected, at))
        return Value(expected, head.op, -1)

    def _operand_at(self, head: _Head, name: str) -> int:
        offset = head.operands.find(name)
        return head.operands_at + max(offset, 0)

    # --- names ----------------------------------------------------------------------------------------------

    def _define_results(self, head: _Head) -> None:
        op = head.op
        results = op.results
        if len(results) == 1 and "," not in head.results and ":" not in head.results:
            self._define(head.results, results[0], head.start)
            return
        groups = [(m[1], int(m[2] or 1)) for m in _GROUP.finditer(collapse_blank(head.results))]
        if sum(count for _, count in groups) != len(results) or not all(count for _, count in groups):
            self.fail(f"names for {sum(count for _, count in groups)} results, types for {len(results)}", head.start)
        first = 0
        for name, count in groups:
            self._define(name, results[first], head.start)
            for index in range(count) if count > 1 else ():
                self._define(f"{name}#{index}", results[first + index], head.start)
            first += count

    def _define(self, name: str, value: Value, at: int) -> None:
        frame = self.frames[-1]
        values = frame.scope.values
        if name in values:
            self.fail(f"redefinition of {name}", at)
        values[name] = value
        frame.names.append(name)
        if frame.scope.waiting:
            self._settle(frame, name, value)
            if "#" not in name:
                self._settle(frame, name + "#0", value)

    def _settle(self, frame: _Frame, name: str, value: Value) -> None:
        waiting = frame.scope.waiting.pop(name, None)
        if waiting is None:
            return
        left: list[tuple[Operation, int, str, int]] = []
        for use in waiting:
            op, number, expected, at = use
            if not _is_inside(op, frame.region):
                left.append(use)
                continue
            if value.type != expected and not types.same_type(value.type, expected):
                self.fail(f"{name} has type {value.type}, used as {expected}", at)
            op.operands[number] = value
        if left:
            frame.scope.waiting[name] = left

    def _check_waiting(self, scope: _Scope) -> None:
        if scope.waiting:
            at, name = min((use[3], name) for name, uses in scope.waiting.items() for use in uses)
            self.fail(f"use of undefined value {name}", at)

    # --- regions and blocks ---------------------------------------------------------------------------------

    def _begin_region(self, head: _Head, position: int) -> None:
        position = self.expect("{", position)
        outer = self.frames[-1]
        scope = _Scope() if head.op.name.rpartition(".")[2] in _ISOLATED else outer.scope
        self.frames.append(_Frame(head, head.op.add_region(), scope))
        self.position = position

    def _end_region(self) -> None:
        frame = self.frames[-1]
        head = frame.head
        if head is None:
            self.fail("unexpected '}'", self.position)
        if frame.missing:
            label, at = min(frame.missing.items(), key=lambda item: item[1])
            self.fail(f"undefined block {label}", at)
        self.frames.pop()
        if frame.scope is self.frames[-1].scope:
            for name in frame.names:
                del frame.scope.values[name]
        else:
            self._check_waiting(frame.scope)
        position = skip_blank(self.text, self.position + 1)
        if self.text.startswith(",", position):
            self._begin_region(head, skip_blank(self.text, position + 1))
            return
        position = self.expect(")", position)
        end = self.text.find("\n", position)
        rest = self.text[position:] if end < 0 else self.text[position:end]
        tail = self.ends.get(rest)
        self.position = position + len(rest)
        if tail is None:
            self.expanded = False
            tail, self.position = self.read_tail({}, position)
            if self.position == position + len(rest):
                self.ends.put(rest, tail, expanded=self.expanded)
        self._finish(head, tail)

    def _read_label(self) -> None:
        frame = self.frames[-1]
        found = _LABEL.match(self.text, self.position)
        if found is None or frame.head is None:
            self.fail("unexpected block", self.position)
        label = found.group()
        block = frame.labels.get(label)
        if block is None:
            block = frame.labels[label] = Block(frame.region)
        elif frame.missing.pop(label, None) is None:
            self.fail(f"redefinition of block {label}", self.position)
        frame.region.blocks.append(block)
        frame.block = block
        position = skip_blank(self.text, found.end())
        if self.text.startswith("(", position):
            position = self._read_arguments(block, position + 1)
        self.position = self.expect(":", position)

    def _read_arguments(self, block: Block, position: int) -> int:
        while True:
            found = _ARGUMENT.match(self.text, position)
            if found is None:
                return self.expect(")", position)
            text, position = self.read_type(skip_blank(self.text, found.end()))
            value = Value(text, block, len(block.arguments))
            block.arguments.append(value)
            self._define(found[1], value, found.start(1))
            position = skip_blank(self.text, self.skip_location(position))
            if not self.text.startswith(",", position):
                return self.expect(")", position)
            position += 1
            if _ARGUMENT.match(self.text, position) is None:
                self.fail("expected a block argument", position)

    def _read_successors(self, op: Operation, position: int) -> int:
        frame = self.frames[-1]
        while True:
            position = skip_blank(self.text, position + 1)
            found = _LABEL.match(self.text, position)
            if found is None:
                self.fail("expected a block name", position)
            label = found.group()
            block = frame.labels.get(label)
            if block is None:
                block = frame.labels[label] = Block(frame.region)
                frame.missing[label] = position
            op.successors.append(block)
            position = skip_blank(self.text, found.end())
            if not self.text.startswith(",", position):
                return self.expect("]", position)


def _is_inside(op: Operation, region: Region) -> bool:
    block = op.parent
    while block is not None:
        if block.parent is region:
            return True
        block = block.parent.parent.parent
    return False

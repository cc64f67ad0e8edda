"""Our op tree -> generic MLIR text.

Names follow MLIR's own generic printer (AsmPrinter, `SSANameState`): a region's values are numbered in textual order
before those of the regions nested in it, sibling regions reuse numbers, entry block arguments are `%arg0`…, blocks
`^bb0`… per region.  Attributes print sorted by name, aliases and locations never.  So equal trees print equal texts,
and a toolchain's print of one function without aliases and block comments comes back byte for byte.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from difftest.ir.lexer import is_bare_name, quote
from difftest.ir.tree import Block, Operation, Region, Value

_INDENT_LIMIT = 200
"""Deeper levels keep this indentation, or 5,000 nested loops would print 50 MB of blanks."""


def print_module(op: Operation) -> str:
    """`op` (usually a `builtin.module`) and everything in it as generic text that ends in a newline.

    Deterministic. An invalid tree prints too: an operand whose definition is not in an enclosing region is called
    `%undef0`…, a successor outside the region `^undef`, both of which every reader refuses.
    """
    printer = _Printer()
    printer.print(op)
    return "\n".join(printer.lines) + "\n"


@dataclass(slots=True)
class _Numbers:
    """The next free numbers of values and entry block arguments."""

    value: int = 0
    argument: int = 0


@dataclass(slots=True)
class _Nest:
    """A region being printed: its op, what is left to print of it, and its names to forget at the end."""

    op: Operation
    region_index: int
    work: list[Operation | str]
    numbers: _Numbers
    defined: list[Value]
    labels: dict[Block, str]


class _Printer:
    def __init__(self) -> None:
        self.lines: list[str] = []
        self.names: dict[Value, str] = {}
        self.undefined: dict[Value, str] = {}
        self.nests: list[_Nest] = []
        self.indent = ""

    def print(self, root: Operation) -> None:
        outer: list[Value] = []
        numbers = _Numbers()
        self._name_results(root, numbers, outer)
        self._start(root, numbers, {})
        while self.nests:
            nest = self.nests[-1]
            if not nest.work:
                self._leave(nest)
                continue
            item = nest.work.pop()
            if isinstance(item, str):
                self.lines.append(item)
            else:
                self._start(item, nest.numbers, nest.labels)

    # --- structure ------------------------------------------------------------------------------------------

    def _start(self, op: Operation, numbers: _Numbers, labels: Mapping[Block, str]) -> None:
        names = self.names
        operands = ", ".join([names.get(v) or self._undefined(v) for v in op.operands])
        head = f'{self.indent}{self._results(op)}"{op.name}"({operands})'
        if op.successors:
            head += f"[{', '.join(labels.get(b, '^undef') for b in op.successors)}]"
        if op.properties:
            head += f" <{print_dictionary(op.properties)}>"
        if not op.regions:
            self.lines.append(head + _signature(op))
            return
        self.lines.append(head + " ({")
        self._enter(op, 0, numbers)

    def _enter(self, op: Operation, index: int, outer: _Numbers) -> None:
        region = op.regions[index]
        numbers = _Numbers(outer.value, outer.argument)
        defined: list[Value] = []
        labels = {block: f"^bb{i}" for i, block in enumerate(region.blocks)}
        self._name_region(region, numbers, defined)
        inner = self._indentation(len(self.nests) + 1)
        work: list[Operation | str] = []
        for number, block in enumerate(region.blocks):
            if number or block.arguments or not block.ops or _is_target(block, region):
                work.append(self._header(block, labels[block]))
            work.extend(block.ops)
        work.reverse()
        self.nests.append(_Nest(op, index, work, numbers, defined, labels))
        self.indent = inner

    def _leave(self, nest: _Nest) -> None:
        for value in nest.defined:
            self.names.pop(value, None)
        self.nests.pop()
        self.indent = self._indentation(len(self.nests))
        following = nest.region_index + 1
        if following < len(nest.op.regions):
            self.lines.append(f"{self.indent}}}, {{")
            self._enter(nest.op, following, self.nests[-1].numbers if self.nests else _Numbers())
        else:
            self.lines.append(f"{self.indent}}}){_signature(nest.op)}")

    def _indentation(self, depth: int) -> str:
        return "  " * min(depth, _INDENT_LIMIT)

    def _header(self, block: Block, label: str) -> str:
        indent = self._indentation(len(self.nests))
        if not block.arguments:
            return f"{indent}{label}:"
        return f"{indent}{label}({', '.join(f'{self.names[v]}: {v.type}' for v in block.arguments)}):"

    # --- names ----------------------------------------------------------------------------------------------

    def _name_region(self, region: Region, numbers: _Numbers, defined: list[Value]) -> None:
        for position, block in enumerate(region.blocks):
            for value in block.arguments:
                if position == 0:
                    self.names[value] = f"%arg{numbers.argument}"
                    numbers.argument += 1
                else:
                    self.names[value] = f"%{numbers.value}"
                    numbers.value += 1
            defined.extend(block.arguments)
            for op in block.ops:
                if op.results:
                    self._name_results(op, numbers, defined)

    def _name_results(self, op: Operation, numbers: _Numbers, defined: list[Value]) -> None:
        if not op.results:
            return
        name = f"%{numbers.value}"
        numbers.value += 1
        if len(op.results) == 1:
            self.names[op.results[0]] = name
        else:
            for index, value in enumerate(op.results):
                self.names[value] = f"{name}#{index}"
        defined.extend(op.results)

    def _results(self, op: Operation) -> str:
        if not op.results:
            return ""
        if len(op.results) == 1:
            return f"{self.names[op.results[0]]} = "
        return f"{self.names[op.results[0]].partition('#')[0]}:{len(op.results)} = "

    def _undefined(self, value: Value) -> str:
        return self.undefined.setdefault(value, f"%undef{len(self.undefined)}")


def _is_target(block: Block, region: Region) -> bool:
    return any(block in op.successors for other in region.blocks for op in other.ops if op.successors)


def _signature(op: Operation) -> str:
    attributes = f" {print_dictionary(op.attributes)}" if op.attributes else ""
    inputs = ", ".join([v.type for v in op.operands])
    results = op.results
    if len(results) == 1 and not results[0].type.startswith("("):
        return f"{attributes} : ({inputs}) -> {results[0].type}"
    return f"{attributes} : ({inputs}) -> ({', '.join([v.type for v in results])})"


def print_dictionary(entries: Mapping[str, str]) -> str:
    """`{a = 1 : i32, unit}`: entries sorted by name; names that are no bare identifiers are quoted."""
    parts: list[str] = []
    for name in sorted(entries) if len(entries) > 1 else entries:
        text = entries[name]
        shown = name if is_bare_name(name) else quote(name)
        parts.append(f"{shown} = {text}" if text else shown)
    return f"{{{', '.join(parts)}}}"

"""Text emission: lines of generic-form MLIR, value names, constants, nesting.

Strings are built at once; there is no tree.  Constants of a function go to its prologue, once each, so that they
are visible (and valid affine symbols) everywhere below.
"""

from __future__ import annotations

from collections.abc import Sequence

_INDENT = tuple("  " * depth for depth in range(64))


class Emitter:
    """Collects the lines of one function."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.depth = 2
        self.indent = _INDENT[2]
        self.ops = 0
        self.next_name = 0
        self.constants: dict[tuple[str, str], str] = {}
        self.prologue: list[str] = []

    def fresh(self) -> str:
        """A new value name."""
        name = f"%{self.next_name}"
        self.next_name += 1
        return name

    def result(self, text: str) -> str:
        """Emit an operation with one result; `text` starts at the operation's name. Returns the result's name."""
        name = f"%{self.next_name}"
        self.next_name += 1
        self.ops += 1
        self.lines.append(f"{self.indent}{name} = {text}")
        return name

    def emit(self, text: str) -> None:
        """Emit an operation without results."""
        self.ops += 1
        self.lines.append(self.indent + text)

    def raw(self, text: str) -> None:
        """Emit a line that is no operation by itself (a region's end)."""
        self.lines.append(self.indent + text)

    def constant(self, type: str, value: str) -> str:
        """The name of the constant `value` (as MLIR spells it, without its type), made on first use."""
        key = (type, value)
        name = self.constants.get(key)
        if name is None:
            name = self.fresh()
            self.constants[key] = name
            self.ops += 1
            text = value if type == "i1" else f"{value} : {type}"
            self.prologue.append(f'    {name} = "arith.constant"() <{{value = {text}}}> : () -> {type}')
        return name

    def llvm_constant(self, value: int) -> str:
        """The name of an `llvm.mlir.constant` of type i64, made on first use."""
        key = ("llvm", str(value))
        name = self.constants.get(key)
        if name is None:
            name = self.fresh()
            self.constants[key] = name
            self.ops += 1
            self.prologue.append(f'    {name} = "llvm.mlir.constant"() <{{value = {value} : i64}}> : () -> i64')
        return name

    def index(self, value: int) -> str:
        """The name of an index constant."""
        return self.constant("index", str(value))

    def indent_in(self) -> None:
        """One level deeper."""
        self.depth += 1
        self.indent = _INDENT[self.depth]

    def indent_out(self) -> None:
        """One level up."""
        self.depth -= 1
        self.indent = _INDENT[self.depth]

    def open_region(self, header: str, arguments: Sequence[str] = ()) -> None:
        """Begin an operation's first region: `header` ends with `({`; `arguments` are `%name: type` texts."""
        self.ops += 1
        self.lines.append(self.indent + header)
        if arguments:
            self.lines.append(f"{self.indent}^bb0({', '.join(arguments)}):")
        self.indent_in()

    def next_region(self, arguments: Sequence[str] = ()) -> None:
        """End a region and begin the same operation's next one."""
        self.indent_out()
        self.lines.append(self.indent + "}, {")
        if arguments:
            self.lines.append(f"{self.indent}^bb0({', '.join(arguments)}):")
        self.indent_in()

    def close_region(self, signature: str) -> None:
        """End an operation with regions; `signature` is its function type."""
        self.indent_out()
        self.lines.append(f"{self.indent}}}) : {signature}")

    def function(self, name: str, arguments: Sequence[tuple[str, str]], results: Sequence[str], extra: str = "") -> str:
        """The text of the finished function; `arguments` are (name, type); `extra` adds properties."""
        header = ", ".join(f"{value}: {type}" for value, type in arguments)
        inputs = ", ".join(type for _, type in arguments)
        outputs = results[0] if len(results) == 1 else f"({', '.join(results)})"
        block = [f"  ^bb0({header}):"] if arguments else []
        head = f'  "func.func"() <{{function_type = ({inputs}) -> {outputs}, sym_name = "{name}"{extra}}}> ({{'
        self.ops += 1
        return "\n".join([head, *block, *self.prologue, *self.lines, "  }) : () -> ()"])

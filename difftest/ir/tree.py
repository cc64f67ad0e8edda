"""The project's own op tree: what the interpreter compiles and the reducer edits.

It mirrors MLIR's generic form and nothing more: operations with operands, results, successors, regions, and the
*texts* of properties, attributes and types.  Values, blocks and operations compare by identity.  A tree is
plain data: building or editing an invalid one raises nothing; the toolchain's verifier judges the printed text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator


class Value:
    """An SSA value: the `index`-th result of an `Operation` or argument of a `Block` (`owner`)."""

    __slots__ = ("index", "owner", "type")

    def __init__(self, type: str, owner: Operation | Block, index: int) -> None:
        self.type = type
        self.owner = owner
        self.index = index

    @property
    def defining_op(self) -> Operation | None:
        """The operation this value is a result of, or None for a block argument."""
        return self.owner if isinstance(self.owner, Operation) else None


class Operation:
    """One operation in generic form.

    `properties` are the entries of `<{…}>`, `attributes` those of the trailing `{…}`; both map the entry's name to
    its text, `""` for a unit attribute. `line` is the 1-based line of the text it was read from, 0 when built.
    """

    __slots__ = (
        "attributes",
        "line",
        "name",
        "operands",
        "parent",
        "properties",
        "regions",
        "results",
        "successors",
    )

    def __init__(
        self,
        name: str,
        *,
        operands: list[Value] | None = None,
        result_types: list[str] | None = None,
        successors: list[Block] | None = None,
        properties: dict[str, str] | None = None,
        attributes: dict[str, str] | None = None,
        line: int = 0,
    ) -> None:
        self.name = name
        self.operands: list[Value] = operands or []
        self.results: list[Value] = [Value(t, self, i) for i, t in enumerate(result_types or [])]
        self.successors: list[Block] = successors or []
        self.regions: list[Region] = []
        self.properties: dict[str, str] = properties or {}
        self.attributes: dict[str, str] = attributes or {}
        self.parent: Block | None = None
        self.line = line

    def get(self, name: str) -> str | None:
        """The text of a property or attribute, or None. Properties win, as in MLIR."""
        found = self.properties.get(name)
        return self.attributes.get(name) if found is None else found

    def add_region(self) -> Region:
        """Append an empty region."""
        region = Region(self)
        self.regions.append(region)
        return region

    @property
    def parent_op(self) -> Operation | None:
        """The operation whose region holds this one."""
        return None if self.parent is None else self.parent.parent.parent

    def walk(self) -> Iterator[Operation]:
        """This operation and everything nested in it, in textual (pre-)order."""
        stack: list[Operation] = [self]
        while stack:
            op = stack.pop()
            yield op
            for region in reversed(op.regions):
                for block in reversed(region.blocks):
                    stack.extend(reversed(block.ops))


class Block:
    """A block: arguments, operations, and the region it lives in."""

    __slots__ = ("arguments", "ops", "parent")

    def __init__(self, parent: Region, argument_types: list[str] | None = None) -> None:
        self.parent = parent
        self.arguments: list[Value] = [Value(t, self, i) for i, t in enumerate(argument_types or [])]
        self.ops: list[Operation] = []

    def append(self, op: Operation) -> Operation:
        """Append `op` and make this block its parent."""
        op.parent = self
        self.ops.append(op)
        return op


class Region:
    """An ordered list of blocks under an operation."""

    __slots__ = ("blocks", "parent")

    def __init__(self, parent: Operation) -> None:
        self.parent = parent
        self.blocks: list[Block] = []

    def add_block(self, argument_types: list[str] | None = None) -> Block:
        """Append an empty block with arguments of the given types."""
        block = Block(self, argument_types)
        self.blocks.append(block)
        return block


def clone(op: Operation, *, values: dict[Value, Value] | None = None) -> Operation:
    """A deep copy of `op`. Operands defined outside it are kept (or mapped by `values`, which is extended)."""
    mapping: dict[Value, Value] = {} if values is None else values
    blocks: dict[Block, Block] = {}
    root = _shell(op, mapping)
    copies = [root]
    # An explicit stack: dumps are nested deeper than Python's recursion limit.
    stack = [(op, root)]
    while stack:
        old, new = stack.pop()
        for region in old.regions:
            fresh = new.add_region()
            for block in region.blocks:
                copy = blocks[block] = fresh.add_block()
                _copy_values(block.arguments, copy, mapping, copy.arguments)
                for inner in block.ops:
                    shell = copy.append(_shell(inner, mapping))
                    copies.append(shell)
                    if inner.regions:
                        stack.append((inner, shell))
    # Last, so that uses of values and blocks that come later in the text are mapped too.
    for copied in copies:
        copied.operands = [mapping.get(v, v) for v in copied.operands]
        if copied.successors:
            copied.successors = [blocks.get(b, b) for b in copied.successors]
    return root


def _shell(op: Operation, values: dict[Value, Value]) -> Operation:
    """A copy without regions, whose operands and successors are still the old ones."""
    copy = Operation(op.name, line=op.line)
    copy.properties = dict(op.properties)
    copy.attributes = dict(op.attributes)
    copy.operands = op.operands
    copy.successors = list(op.successors)
    _copy_values(op.results, copy, values, copy.results)
    return copy


def _copy_values(old: list[Value], owner: Operation | Block, values: dict[Value, Value], into: list[Value]) -> None:
    for value in old:
        fresh = Value(value.type, owner, value.index)
        values[value] = fresh
        into.append(fresh)


def uses(root: Operation) -> dict[Value, list[tuple[Operation, int]]]:
    """Every use under `root`: value -> (user, operand number), in textual order."""
    found: dict[Value, list[tuple[Operation, int]]] = {}
    for op in root.walk():
        for number, value in enumerate(op.operands):
            found.setdefault(value, []).append((op, number))
    return found


def replace_uses(root: Operation, replacement: Callable[[Value], Value]) -> None:
    """Replace every operand `v` under `root` by `replacement(v)`, in place."""
    for op in root.walk():
        op.operands = [replacement(v) for v in op.operands]


def count_ops(root: Operation) -> int:
    """Number of operations under `root`, `builtin.module` not counted."""
    return sum(1 for op in root.walk() if op.name != "builtin.module")


def find_function(module: Operation, name: str) -> Operation | None:
    """The top-level symbol called `name` (without `@`), or None."""
    for block in module.regions[0].blocks if module.regions else []:
        for op in block.ops:
            if op.get("sym_name") == f'"{name}"':
                return op
    return None

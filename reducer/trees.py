"""Questions about the op tree that several passes ask: terminators, segments, constants, scopes, symbols."""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import Enum, auto

from difftest.ir.tree import Block, Operation, Value

MODULES = frozenset({"builtin.module", "gpu.module"})
CONSTANTS = frozenset({"arith.constant", "llvm.mlir.constant", "index.constant", "llvm.mlir.zero"})
# How a terminator's name ends, over all dialects met (func, cf, scf, affine, gpu, llvm, enzyme, enzymexla, …).
_TERMINATORS = re.compile(
    r"(?:^|[._])(?:return|yield|terminator|br|cond_br|switch|condition|unreachable|resume|module_end|in_parallel)$"
)
_SYMBOL = re.compile(r'@(?:"((?:[^"\\]|\\.)*)"|([\w.$-]+))')
_SEGMENTS = re.compile(r"^array<i32(?::\s*([-\d,\s]*))?>$")
_INTEGER = re.compile(r"^(?:[su]?i[1-9]\d*|index)$")
_FLOAT = re.compile(r"^(?:b?f16|f32|f64|f80|f128|tf32|f[468]E\w+)$")


def is_terminator(op: Operation) -> bool:
    """Whether `op` ends its block and cannot be erased on its own."""
    if op.parent is None or op.parent.ops[-1] is not op:
        return False
    return bool(op.successors) or op.name == "scf.reduce" or _TERMINATORS.search(op.name) is not None


def is_function(op: Operation) -> bool:
    """Whether `op` is a symbol with a body or signature, directly under a module."""
    return op.get("sym_name") is not None and op.get("function_type") is not None


def enclosing_function(op: Operation) -> Operation | None:
    """The outermost operation below the nearest module that holds `op` (or is it)."""
    parent = op.parent_op
    while parent is not None and parent.name not in MODULES:
        op, parent = parent, parent.parent_op
    return None if parent is None else op


def values_of(ops: list[Operation]) -> list[Value]:
    """Every value in one fixed order: per operation its results, then the arguments of its blocks."""
    found: list[Value] = []
    for op in ops:
        found.extend(op.results)
        for region in op.regions:
            for block in region.blocks:
                found.extend(block.arguments)
    return found


def constant_text(type_text: str, number: int) -> str | None:
    """The attribute text of a small constant of a scalar or static vector type, None for other types."""
    if type_text == "i1":
        return "true" if number else "false"
    if _INTEGER.match(type_text):
        return f"{number} : {type_text}"
    if _FLOAT.match(type_text):
        return f"{number}.000000e+00 : {type_text}"
    if type_text.startswith("vector<") and "?" not in type_text and "[" not in type_text:
        element = type_text[7:-1].rpartition("x")[2]
        scalar = constant_text(element, number)
        return None if scalar is None else f"dense<{scalar.partition(' :')[0]}> : {type_text}"
    return None


def make_constant(type_text: str, number: int) -> Operation | None:
    """A new constant op of `type_text`, None when the type has none; null for pointers."""
    if type_text.startswith("!llvm.ptr"):
        return None if number else Operation("llvm.mlir.zero", result_types=[type_text])
    text = constant_text(type_text, number)
    if text is None:
        return None
    return Operation("arith.constant", result_types=[type_text], properties={"value": text})


def constant_value(value: Value) -> int | None:
    """The number behind a value defined by an integer constant, None otherwise."""
    op = value.defining_op
    text = op.get("value") if op is not None and op.name in CONSTANTS else None
    if text in ("true", "false"):
        return int(text == "true")
    head = "" if text is None else text.partition(" :")[0]
    return int(head) if re.fullmatch(r"-?\d+", head) else None


def segments(op: Operation, *, name: str = "operandSegmentSizes") -> list[int] | None:
    """The operand (or result) group sizes of `op`, None when it has none."""
    matched = _SEGMENTS.match(op.get(name) or "")
    if matched is None:
        return None
    return [int(part) for part in (matched.group(1) or "").split(",") if part.strip()]


def set_property(op: Operation, name: str, text: str) -> None:
    """Change an entry where it stands: in the properties, or among the attributes of older texts."""
    (op.attributes if name in op.attributes and name not in op.properties else op.properties)[name] = text


def drop_operands(op: Operation, positions: set[int]) -> None:
    """Remove operands and shrink the groups they are in."""
    groups = segments(op)
    if groups is not None:
        start = 0
        for number, size in enumerate(groups):
            groups[number] -= sum(1 for p in positions if start <= p < start + size)
            start += size
        set_property(op, "operandSegmentSizes", f"array<i32: {', '.join(map(str, groups))}>")
    op.operands = [v for p, v in enumerate(op.operands) if p not in positions]


def drop_values(values: list[Value], position: int) -> None:
    """Remove a result or block argument from its owner's list and renumber the rest."""
    del values[position]
    for number, value in enumerate(values):
        value.index = number


def group(op: Operation, number: int) -> list[Value]:
    """The operands of one group of an op with `operandSegmentSizes`; empty when there is no such group."""
    sizes = segments(op)
    if sizes is None or number >= len(sizes):
        return []
    start = sum(sizes[:number])
    return op.operands[start : start + sizes[number]]


def terminator(op: Operation, region: int = 0) -> Operation | None:
    """The last operation of a single-block region."""
    if region >= len(op.regions) or len(op.regions[region].blocks) != 1:
        return None
    ops = op.regions[region].blocks[0].ops
    return ops[-1] if ops and is_terminator(ops[-1]) else None


def symbols_used(op: Operation) -> set[str]:
    """Every symbol named by a property or attribute of `op`."""
    found: set[str] = set()
    for text in (*op.properties.values(), *op.attributes.values()):
        if "@" in text:
            found.update(quoted or plain for quoted, plain in _SYMBOL.findall(text))
    return found


def symbol_name(op: Operation) -> str | None:
    """The symbol `op` defines, without quotes."""
    text = op.get("sym_name")
    return None if text is None else text.strip('"')


Scope = dict[str, list[Value]]


def scopes(module: Operation) -> Iterator[tuple[Operation, Scope]]:
    """Every operation below `module` with the values visible to it, by type, outermost and earliest first.

    The scope is one live object: copy what you keep. Of a region with several blocks only the entry block's
    values are offered to the others. Functions see nothing from outside.
    """
    # Steps still to do, the next one last; a list and not recursion, because nests can be deep.
    steps: list[tuple[_Step, Operation | Block, Scope]] = []
    _push_regions(module, {}, steps)
    while steps:
        step, what, scope = steps.pop()
        if isinstance(what, Block):
            if step is _Step.ENTER:
                for value in what.arguments:
                    scope.setdefault(value.type, []).append(value)
            else:
                for value in (*what.arguments, *(v for op in what.ops for v in op.results)):
                    scope[value.type].pop()
        elif step is _Step.ENTER:
            yield what, scope
            steps.append((_Step.LEAVE, what, scope))
            isolated = what.parent_op is not None and what.parent_op.name in MODULES
            _push_regions(what, {} if isolated else scope, steps)
        else:
            for value in what.results:
                scope.setdefault(value.type, []).append(value)


class _Step(Enum):
    """Entering a block declares its arguments, leaving it forgets its values; leaving an op declares its results."""

    ENTER = auto()
    LEAVE = auto()


def _push_regions(op: Operation, scope: Scope, steps: list[tuple[_Step, Operation | Block, Scope]]) -> None:
    for region in reversed(op.regions):
        entry = region.blocks[:1]
        steps.extend((_Step.LEAVE, block, scope) for block in entry)
        for block in reversed(region.blocks):
            if block not in entry:
                steps.append((_Step.LEAVE, block, scope))
            steps.extend((_Step.ENTER, inner, scope) for inner in reversed(block.ops))
            steps.append((_Step.ENTER, block, scope))


_OPEN, _CLOSE = "([{<", ")]}>"


def split_list(text: str) -> list[str]:
    """Split at the commas that are in no bracket and no string; `->` is not a bracket. Empty text gives []."""
    parts: list[str] = []
    depth, start, position = 0, 0, 0
    while position < len(text):
        character = text[position]
        if character == '"':
            position = _string_end(text, position)
        elif character in _OPEN:
            depth += 1
        elif character in _CLOSE and text[position - 1 : position + 1] != "->":
            depth -= 1
        elif character == "," and depth == 0:
            parts.append(text[start:position].strip())
            start = position + 1
        position += 1
    last = text[start:].strip()
    return [*parts, last] if last or parts else []


def _string_end(text: str, position: int) -> int:
    position += 1
    while position < len(text) and text[position] != '"':
        position += 2 if text[position] == "\\" else 1
    return position


def signature(op: Operation) -> tuple[list[str], list[str]] | None:
    """The input and result types of a function with a builtin function type; None for any other."""
    text = op.get("function_type")
    if text is None or not text.startswith("("):
        return None
    depth = 0
    for position, character in enumerate(text):
        if character in _OPEN:
            depth += 1
        elif character in _CLOSE and text[position - 1 : position + 1] != "->":
            depth -= 1
            if depth == 0:
                result = text[position + 1 :].strip().removeprefix("->").strip()
                inner = result[1:-1] if result.startswith("(") else result
                return split_list(text[1:position]), split_list(inner)
    return None


def set_signature(op: Operation, inputs: list[str], results: list[str]) -> None:
    """Give a function another type; one result that is itself a function type keeps its parentheses."""
    bare = len(results) == 1 and not results[0].startswith("(")
    right = results[0] if bare else f"({', '.join(results)})"
    set_property(op, "function_type", f"({', '.join(inputs)}) -> {right}")


def drop_entry(op: Operation, name: str, position: int) -> None:
    """Remove one element of an array property such as `arg_attrs`, if it is there."""
    text = op.get(name)
    if text is not None and text.startswith("["):
        parts = split_list(text[1:-1])
        if position < len(parts):
            set_property(op, name, f"[{', '.join(p for i, p in enumerate(parts) if i != position)}]")

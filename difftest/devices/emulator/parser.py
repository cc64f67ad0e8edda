"""PTX text -> `Module`. Only what is malformed is refused here; an instruction nobody knows is still an instruction."""

from __future__ import annotations

import re
import struct
from bisect import bisect_right
from functools import lru_cache
from typing import Any

from difftest.devices.emulator.operands import integer, parse_operand, split_operands
from difftest.devices.emulator.syntax import (
    WIDTHS,
    Function,
    Instruction,
    Module,
    PtxError,
    Register,
    Variable,
)

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_BLANK = re.compile(r"\s*")
_LABEL = re.compile(r"([A-Za-z_$%][\w$]*)\s*:(?!:)")
_STATEMENT = re.compile(r"[^;{}]*(?:\{[^;{}]*\}[^;{}]*)*;")
_INSTRUCTION = re.compile(r"(?:@(!?)([%$\w]+)\s+)?([a-z]\w*(?:\.[\w:]+)*)(?:\s+(.*)|(\s*[\[{(%].*))?$", re.DOTALL)
_VARIABLE = re.compile(
    r"(?:\.(?P<linkage>visible|extern|weak|common)\s+)?\.(?P<space>reg|param|shared|global|local|const|tex)\b(?P<rest>.*)$",
    re.DOTALL,
)
_DECLARATOR = re.compile(r"([%$\w]+)\s*(?:<\s*(\d+)\s*>)?\s*((?:\[\s*\w*\s*\])*)$")
_HEADER = re.compile(r"((?:\.(?:visible|extern|weak)\s+)*)\.(entry|func)\b")
_DIRECTIVE = re.compile(r"\.([a-z_]+)\b([^\n]*)")
LARGEST = 1 << 28


class _Text:
    """The text without comments, and its lines."""

    def __init__(self, text: str) -> None:
        # Line numbers survive: a comment leaves its line breaks behind.
        self.text = _COMMENT.sub(lambda m: "\n" * m.group().count("\n") or " ", text)
        self._ends: list[int] | None = None
        self.at = 0

    def line(self, position: int | None = None) -> int:
        """The 1-based line of a position (default: where reading stands)."""
        if self._ends is None:
            self._ends = [m.start() for m in re.finditer("\n", self.text)]
        return bisect_right(self._ends, (self.at if position is None else position) - 1) + 1

    def skip(self) -> bool:
        """Skip blanks; False at the end."""
        match = _BLANK.match(self.text, self.at)
        assert match is not None
        self.at = match.end()
        return self.at < len(self.text)

    def error(self, message: str) -> PtxError:
        """An error at the place where reading stands."""
        return PtxError(message, line=self.line())

    def statement(self) -> str:
        """Everything up to the next `;`, which is taken too."""
        match = _STATEMENT.match(self.text, self.at)
        if match is None:
            raise self.error("a statement that does not end in ';'")
        self.at = match.end()
        return match.group()[:-1]


@lru_cache(maxsize=64)
def parse_module(text: str) -> Module:
    """Read a PTX text. Raises PtxError; the result is cached by text and must not be changed."""
    source = _Text(text)
    module = Module()
    while source.skip():
        _parse_top(source, module)
    if not module.version:
        raise source.error("no .version directive")
    return module


def _parse_top(source: _Text, module: Module) -> None:
    text, at = source.text, source.at
    header = _HEADER.match(text, at)
    if header is not None:
        function = _parse_function(source, header)
        known = module.functions.get(function.name)
        if known is None or known.body is None:
            module.functions[function.name] = function
        elif function.body is not None:
            raise PtxError(f"{function.name} is defined twice", line=function.line)
        return
    match = _VARIABLE.match(text, at)
    if match is not None and match["space"] != "reg":
        line = source.line()
        for variable in _parse_variables(source.statement(), line):
            module.variables[variable.name] = variable
        return
    directive = _DIRECTIVE.match(text, at)
    if directive is None:
        raise source.error(f"cannot read '{text[at : at + 30].splitlines()[0]}'")
    if directive.group(1) == "section":
        _skip_section(source)
        return
    _take_directive(source, module, directive.group(1), directive.group(2).strip())
    source.at = directive.end()


def _take_directive(source: _Text, module: Module, name: str, rest: str) -> None:
    """Directives of a whole module (PTX ISA 11.1)."""
    if name == "version":
        if re.fullmatch(r"\d+\.\d+", rest) is None:
            raise source.error(f"'{rest}' is no version")
        module.version = rest
    elif name == "target":
        module.target = rest
    elif name == "address_size":
        if rest != "64":
            raise source.error("only .address_size 64 is read")
    elif name not in {"file", "pragma", "loc", "alias"}:
        raise source.error(f"unknown directive .{name}")


def _skip_section(source: _Text) -> None:
    """Debug sections hold no code (PTX ISA 11.5)."""
    end = source.text.find("}", source.at)
    if end < 0:
        raise source.error("a .section that does not end")
    source.at = end + 1


# --- functions ------------------------------------------------------------------------------------------------


def _parse_function(source: _Text, header: re.Match[str]) -> Function:
    line = source.line()
    source.at = header.end()
    entry = header.group(2) == "entry"
    source.skip()
    results = _parse_parameters(source) if source.text.startswith("(", source.at) else ()
    source.skip()
    name = re.compile(r"[%$\w]+").match(source.text, source.at)
    if name is None:
        raise source.error("a function without a name")
    source.at = name.end()
    source.skip()
    parameters = _parse_parameters(source) if source.text.startswith("(", source.at) else ()
    function = Function(name=name.group(), entry=entry, parameters=parameters, results=results, line=line)
    while source.skip():
        if source.text.startswith(";", source.at):
            source.at += 1
            return function
        if source.text.startswith("{", source.at):
            source.at += 1
            _parse_body(source, function)
            return function
        directive = _DIRECTIVE.match(source.text, source.at)
        if directive is None:
            raise source.error(f"cannot read the header of {function.name}")
        text, brace, _ = directive.group(2).partition("{")
        text, semicolon, _ = text.partition(";")
        function.directives[directive.group(1)] = text.strip()
        source.at = directive.start(2) + len(text) if brace or semicolon else directive.end()
    raise source.error(f"the text ends in the header of {function.name}")


def _parse_parameters(source: _Text) -> tuple[Variable, ...]:
    end = source.text.find(")", source.at)
    if end < 0:
        raise source.error("a parameter list that does not end")
    line = source.line()
    inside = source.text[source.at + 1 : end].strip()
    source.at = end + 1
    if not inside:
        return ()
    return tuple(_parse_variable(part.strip(), line) for part in inside.split(","))


def _parse_body(source: _Text, function: Function) -> None:
    """Everything up to the closing brace. Inner braces only scope names; they are made distinct by their uses."""
    body: list[Instruction] = []
    depth = 1
    text = source.text
    line, counted = source.line(), source.at
    while source.skip():
        at = source.at
        line += text.count("\n", counted, at)
        counted = at
        first = text[at]
        if first == "{":
            depth += 1
            source.at = at + 1
        elif first == "}":
            depth -= 1
            source.at = at + 1
            if depth == 0:
                function.body = body
                return
        elif first == ".":
            _parse_declaration(source, function, line)
        else:
            label = _LABEL.match(text, at)
            if label is None:
                opcode, operands, guard = parse_instruction(source.statement(), line)
                body.append(Instruction(opcode, operands, guard, line))
                continue
            source.at = label.end()
            if label.group(1) in function.labels:
                raise PtxError(f"label {label.group(1)} is defined twice", line=line)
            function.labels[label.group(1)] = len(body)
            _parse_table(source, function, label.group(1))
    raise source.error(f"the text ends inside {function.name}")


def _parse_table(source: _Text, function: Function, label: str) -> None:
    """`L: .branchtargets A, B;` (PTX ISA 11.2). `.callprototype` and `.calltargets` are read over."""
    match = re.compile(r"\s*\.(branchtargets|callprototype|calltargets)\b").match(source.text, source.at)
    if match is None:
        return
    source.at = match.end()
    rest = source.statement()
    if match.group(1) == "branchtargets":
        function.tables[label] = tuple(part.strip() for part in rest.split(","))


def _parse_declaration(source: _Text, function: Function, line: int) -> None:
    match = _DIRECTIVE.match(source.text, source.at)
    if match is None:
        raise source.error("cannot read a directive")
    name = match.group(1)
    if name in {"loc", "file"}:
        source.at = match.end()
        return
    if name == "reg":
        _parse_registers(source.statement(), function, line)
        return
    if name in {"pragma", "callprototype", "calltargets"}:
        source.statement()
        return
    for variable in _parse_variables(source.statement(), line):
        function.variables[variable.name] = variable


def _parse_registers(text: str, function: Function, line: int) -> None:
    parts = text.split(None, 2)
    kind = parts[1].lstrip(".") if len(parts) == 3 else ""
    if kind in {"v2", "v4"} or kind not in WIDTHS:
        raise PtxError(f"cannot read registers '{text.strip()}'", line=line)
    for part in parts[2].split(","):
        match = _DECLARATOR.match(part.strip())
        if match is None or match.group(3):
            raise PtxError(f"cannot read register '{part.strip()}'", line=line)
        if match.group(2) is None:
            function.registers[match.group(1)] = kind
        else:
            function.families[match.group(1)] = kind, int(match.group(2))


# --- variables ------------------------------------------------------------------------------------------------


def _parse_variables(text: str, line: int) -> list[Variable]:
    """`.global .align 4 .u32 a = 5, b[2] = {1, 2}` (PTX ISA 5.4)."""
    head, equals, value = text.partition("=")
    if equals:
        return [_with_data(_parse_variable(head.strip(), line), value.strip(), line)]
    parts = [part.strip() for part in text.split(",")]
    first = _parse_variable(parts[0], line)
    prefix = parts[0][: parts[0].rindex(first.name)]
    return [first, *(_parse_variable(prefix + part, line) for part in parts[1:])]


_SIMPLE = re.compile(r"\.param\s+\.([bufs]\d+)\s+(?:\.ptr\s+(?:\.\w+\s+)?(?:\.align\s+\d+\s+)?)?([\w$]+)$")


def _parse_variable(text: str, line: int) -> Variable:
    simple = _SIMPLE.match(text)
    if simple is not None and simple.group(1) in WIDTHS:
        kind, name = simple.groups()
        size = WIDTHS[kind] // 8
        return Variable(name=name, space="param", type=kind, align=size, count=1, size=size, line=line)
    match = _VARIABLE.match(text)
    if match is None:
        raise PtxError(f"cannot read variable '{text}'", line=line)
    words = match["rest"].split()
    align, kind, vector, at = 0, "", 1, 0
    while at < len(words) and words[at].startswith("."):
        word = words[at][1:]
        if word == "align" and at + 1 < len(words):
            at += 1
            align = _number(words[at], line)
        elif word in {"v2", "v4"}:
            vector = int(word[1])
        elif word in WIDTHS and word != "pred":
            kind = word
        elif word not in {"ptr", "global", "shared", "const", "local", "attribute(.managed)"}:
            raise PtxError(f"cannot read variable '{text}'", line=line)
        at += 1
    declarator = _DECLARATOR.match(" ".join(words[at:]))
    if not kind or declarator is None or declarator.group(2) is not None:
        raise PtxError(f"cannot read variable '{text}'", line=line)
    count = vector
    for extent in re.findall(r"\[\s*(\w*)\s*\]", declarator.group(3)):
        count *= _number(extent, line) if extent else 0
    element = max(1, WIDTHS[kind] // 8)
    if count * element > LARGEST:
        raise PtxError(f"variable {declarator.group(1)} is too large", line=line)
    # `.ptr .align n` speaks of what a parameter points to, not of the parameter.
    own = element * vector if ".ptr" in words or not align else align
    return Variable(
        name=declarator.group(1),
        space=match["space"],
        type=kind,
        align=own,
        count=count,
        size=count * element,
        extern=match["linkage"] == "extern",
        line=line,
    )


def _number(text: str, line: int) -> int:
    value = integer(text)
    if value is None or value < 0:
        raise PtxError(f"'{text}' is no size", line=line)
    return value


def _with_data(variable: Variable, value: str, line: int) -> Variable:
    """Initial values; what is not given is zero."""
    parts = [p.strip() for p in value.strip("{} \n\t").split(",") if p.strip()]
    width = WIDTHS[variable.type] // 8
    data = bytearray()
    for part in parts:
        operand = parse_operand(part, line)
        number = getattr(operand, "value", None)
        if not isinstance(number, int):
            raise PtxError(f"initial value '{part}' is not read", line=line)
        if variable.type == "f32" and getattr(operand, "kind", "") == "d":
            number = struct.unpack("<I", struct.pack("<f", struct.unpack("<d", struct.pack("<Q", number))[0]))[0]
        data += (number & ((1 << 8 * width) - 1)).to_bytes(width, "little")
    size = max(variable.size, len(data)) if variable.count == 0 else variable.size
    if len(data) > size:
        raise PtxError(f"too many initial values for {variable.name}", line=line)
    return Variable(
        name=variable.name,
        space=variable.space,
        type=variable.type,
        align=variable.align,
        count=size // width,
        size=size,
        data=bytes(data.ljust(size, b"\0")),
        line=line,
    )


# --- instructions ---------------------------------------------------------------------------------------------

_CACHE: dict[str, tuple[str, tuple[Any, ...], Register | None]] = {}


def parse_instruction(text: str, line: int) -> tuple[str, tuple[Any, ...], Register | None]:
    """One statement as (opcode, operands, guard). Cached by text: kernels repeat themselves."""
    found = _CACHE.get(text)
    if found is not None:
        return found
    match = _INSTRUCTION.match(text.strip())
    if match is None:
        raise PtxError(f"cannot read '{text.strip()[:40]}'", line=line)
    negated, predicate, opcode, spaced, tight = match.groups()
    guard = Register(predicate, bool(negated)) if predicate else None
    operands = tuple(parse_operand(part, line) for part in split_operands(spaced or tight or "", line))
    if len(_CACHE) > 20_000:
        _CACHE.clear()
    found = _CACHE[text] = opcode, operands, guard
    return found

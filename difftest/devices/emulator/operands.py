"""The operands of PTX instructions (PTX ISA 6) and their constants (4.5)."""

from __future__ import annotations

import re
import struct

from difftest.devices.emulator.syntax import (
    Address,
    Group,
    Immediate,
    Operand,
    Pair,
    PtxError,
    Register,
    Sink,
    Symbol,
    Vector,
)

_SIMPLE = re.compile(r"(!?)(%[\w$.]+)$")
_INTEGER = re.compile(r"([-+~]?)\s*(?:0[xX]([0-9a-fA-F]+)|0[bB]([01]+)|(0[0-7]*)|([1-9]\d*))U?$")
_FLOAT = re.compile(r"(-?)0([fFdD])([0-9a-fA-F]+)$")
_DECIMAL = re.compile(r"[-+]?(?:\d+\.\d*|\.\d+|\d+(?=[eE]))(?:[eE][-+]?\d+)?$")
_SYMBOL = re.compile(r"([A-Za-z_$][\w$]*)\s*(?:([+-])\s*(.+))?$")
_ADDRESS = re.compile(r"([^\s+-]+)\s*(?:([+-])\s*(.+))?$")
_OPEN, _CLOSE = "[{(", "]})"


def split_operands(text: str, line: int) -> list[str]:
    """The parts between commas outside brackets."""
    text = text.strip()
    if not text:
        return []
    if not any(c in text for c in _OPEN):
        return [part.strip() for part in text.split(",")]
    parts: list[str] = []
    depth = start = 0
    for at, char in enumerate(text):
        if char in _OPEN:
            depth += 1
        elif char in _CLOSE:
            depth -= 1
            if depth < 0:
                raise PtxError(f"unbalanced brackets in '{text[:40]}'", line=line)
        elif char == "," and depth == 0:
            parts.append(text[start:at].strip())
            start = at + 1
    if depth:
        raise PtxError(f"unbalanced brackets in '{text[:40]}'", line=line)
    return [*parts, text[start:].strip()]


def integer(text: str) -> int | None:
    """An integer constant, or None."""
    match = _INTEGER.match(text.strip())
    if match is None or len(text) > 80:
        return None
    sign, hexadecimal, binary, octal, decimal = match.groups()
    if hexadecimal is not None:
        value = int(hexadecimal, 16)
    elif binary is not None:
        value = int(binary, 2)
    else:
        value = int(octal, 8) if octal is not None else int(decimal)
    return -value if sign == "-" else ~value if sign == "~" else value


def parse_operand(text: str, line: int) -> Operand:
    """Read one operand. Raises PtxError."""
    match = _SIMPLE.match(text)
    if match is not None:
        return Register(match.group(2), match.group(1) == "!")
    number = integer(text)
    if number is not None:
        return Immediate(number)
    if text == "_":
        return Sink()
    first, last = text[:1], text[-1:]
    if first == "[" and last == "]":
        return _address(text[1:-1].strip(), line)
    if first in "{(" and first and last in "})":
        items = tuple(parse_operand(part, line) for part in split_operands(text[1:-1], line))
        return Vector(items) if first == "{" else Group(items)
    return _other(text, line)


def _other(text: str, line: int) -> Operand:
    match = _FLOAT.match(text)
    if match is not None:
        kind = match.group(2).lower()
        width = 32 if kind == "f" else 64
        if len(match.group(3)) != width // 4:
            raise PtxError(f"'{text}' has a wrong number of digits", line=line)
        bits = int(match.group(3), 16) ^ (1 << (width - 1) if match.group(1) else 0)
        return Immediate(bits, kind)
    if _DECIMAL.match(text) is not None and len(text) < 60:
        return Immediate(struct.unpack("<Q", struct.pack("<d", float(text)))[0], "d")
    if "|" in text:
        first, _, second = text.partition("|")
        return Pair(parse_operand(first.strip(), line), parse_operand(second.strip(), line))
    match = _SYMBOL.match(text)
    if match is not None:
        return Symbol(match.group(1), _offset(match.group(2), match.group(3), line))
    raise PtxError(f"cannot read operand '{text[:40]}'", line=line)


def _offset(sign: str | None, text: str | None, line: int) -> int:
    if sign is None or text is None:
        return 0
    value = integer(text)
    if value is None:
        raise PtxError(f"'{text[:40]}' is no offset", line=line)
    return -value if sign == "-" else value


def _address(text: str, line: int) -> Address | Group:
    number = integer(text)
    if number is not None:
        return Address(None, number)
    parts = split_operands(text, line)
    if len(parts) > 1:
        # Textures and surfaces: a name and coordinates.
        return Group(tuple(parse_operand(part, line) for part in parts))
    match = _ADDRESS.match(text)
    if match is None:
        raise PtxError(f"cannot read address '{text[:40]}'", line=line)
    offset = _offset(match.group(2), match.group(3), line)
    base = parse_operand(match.group(1), line)
    if not isinstance(base, Register | Symbol) or (isinstance(base, Register) and base.negated):
        raise PtxError(f"cannot read address '{text[:40]}'", line=line)
    return Address(base, offset)

"""Lexical ground shared by the parsers of this package: strings, brackets, comments and aliases of MLIR text.

Everything here works on text and positions and knows no dialect.  Rules: MLIR Language Reference, "Notation" and
"Top level Productions".
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from difftest.errors import UsageError

STRING = r'"[^"\\\n]*+(?:\\[^\n][^"\\\n]*+)*+"'
"""Pattern of one string literal. A raw newline ends no string: MLIR refuses it."""

_TOKEN = re.compile(STRING + r'|//[^\n]*|->|>=|<=|[()\[\]{}<>,"]')
_LINE_TOKEN = re.compile(_TOKEN.pattern + r"|\n")
_SKIP = re.compile(r"(?:\s++|//[^\n]*+)*+", re.ASCII)
_BLANK = re.compile(STRING + r"|(?:\s++|//[^\n]*+)++", re.ASCII)
_ALIAS = re.compile(STRING + r"|[#!][A-Za-z_][\w$.\-]*+(?!<)", re.ASCII)
_BARE = re.compile(r"[A-Za-z_][\w$.]*", re.ASCII)
_ESCAPE = re.compile(rb"\\(?:([0-9A-Fa-f]{2})|(.))", re.DOTALL)
_PLAIN = frozenset(range(0x20, 0x7F)) - {0x22, 0x5C}
_NAMED = {b"n": b"\n", b"t": b"\t"}
_CLOSER = {"(": ")", "[": "]", "{": "}", "<": ">"}
_CLOSERS = frozenset(")]}>")
_ENDED = "unexpected end of text"


class LexError(Exception):
    """Text that breaks at `position` for the reason given. Internal: callers turn it into their own error."""

    def __init__(self, message: str, position: int) -> None:
        super().__init__(message)
        self.message = message
        self.position = position


class AttributeTextError(UsageError):
    """An attribute text is not of the kind it was parsed as."""


def skip_blank(text: str, position: int) -> int:
    """The position of the next character that is neither white space nor comment."""
    found = _SKIP.match(text, position)
    return position if found is None else found.end()


def line_end(text: str, position: int) -> int:
    """The position of the first line end outside brackets and strings, or of the end of the text."""
    try:
        return scan(text, position, "\n")
    except LexError as error:
        if error.position == len(text) and error.message == _ENDED:
            return len(text)
        raise


def scan(text: str, position: int, stops: str) -> int:
    """The position of the first character of `stops` (`,`, `)`, `]`, `}`, `>`, newline) outside brackets and strings.

    Raises LexError for unbalanced brackets, unterminated strings and when the text ends first. `->`, `>=` and `<=`
    are no brackets.
    """
    stack: list[str] = []
    for match in (_LINE_TOKEN if stops == "\n" else _TOKEN).finditer(text, position):
        token = match.group()
        if token in _CLOSER:
            stack.append(_CLOSER[token])
        elif token in _CLOSERS:
            if not stack:
                if token in stops:
                    return match.start()
                raise LexError(f"unexpected '{token}'", match.start())
            if stack.pop() != token:
                raise LexError(f"mismatched '{token}'", match.start())
        elif token in ",\n":
            if not stack and token in stops:
                return match.start()
        elif token == '"':
            raise LexError("unterminated string", match.start())
    raise LexError(_ENDED if not stack else f"expected '{stack[-1]}' before the end of the text", len(text))


def split_list(text: str) -> tuple[str, ...]:
    """The comma separated parts of `text`, brackets and strings respected, stripped; `()` for blank text.

    Raises LexError like `scan`.
    """
    if not text.strip():
        return ()
    parts: list[str] = []
    closed = text + ")"
    start = 0
    while True:
        end = scan(closed, start, ",)")
        parts.append(closed[start:end].strip())
        if closed[end] == ")":
            if end != len(text):
                raise LexError("unexpected ')'", end)
            return tuple(parts)
        start = end + 1


def collapse_blank(text: str) -> str:
    """`text` on one line: comments and white space outside strings become single spaces."""
    if "\n" not in text and "//" not in text and "  " not in text and "\t" not in text:
        return text.strip()
    return _BLANK.sub(lambda m: m.group() if m.group()[0] == '"' else " ", text).strip()


def substitute_aliases(text: str, aliases: Mapping[str, str], position: int = 0) -> str:
    """`text` with every `#alias` and `!alias` replaced by its definition; names with a dot are never aliases.

    Raises LexError at `position` for an alias that is not defined.
    """
    if "#" not in text and "!" not in text:
        return text

    def replacement(match: re.Match[str]) -> str:
        token = match.group()
        if token[0] == '"' or "." in token:
            return token
        found = aliases.get(token)
        if found is None:
            raise LexError(f"undefined alias '{token}'", position + match.start())
        return found

    return _ALIAS.sub(replacement, text)


def is_bare_name(name: str) -> bool:
    """Whether `name` can stand as an attribute name without quotes."""
    return _BARE.fullmatch(name) is not None


def quote(value: str) -> str:
    """`value` as a string literal, escaped the way MLIR prints it (surrogate escapes stand for raw bytes)."""
    data = _encode(value)
    escaped = "".join(chr(b) if b in _PLAIN else "\\\\" if b == 0x5C else f"\\{b:02X}" for b in data)
    return f'"{escaped}"'


def unquote(literal: str) -> str:
    """The value of a string literal, `"…"` included; bytes that are no UTF-8 become surrogate escapes."""
    data = _encode(literal[1:-1])
    if b"\\" in data:
        data = _ESCAPE.sub(_unescape, data)
    return data.decode("utf-8", "surrogateescape")


def _unescape(match: re.Match[bytes]) -> bytes:
    if match[1] is not None:
        return bytes([int(match[1], 16)])
    return _NAMED.get(match[2], match[2])


def _encode(value: str) -> bytes:
    try:
        return value.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # A lone surrogate that stands for no byte: keep it, a reader must not raise here.
        return value.encode("utf-8", "surrogatepass")

"""Questions about whole texts: generic or pretty, which enzyme spelling, several inputs; and a hash of a tree."""

from __future__ import annotations

import hashlib
import re
from typing import Literal

from difftest.ir.lexer import STRING, LexError, line_end, scan, skip_blank
from difftest.ir.printer import print_module
from difftest.ir.spelling import ENUMS
from difftest.ir.tree import Operation

EnzymeStyle = Literal["house", "0.0.16"]

_HIDDEN = re.compile(rf"{STRING}|//[^\n]*")
_HEADER = re.compile(r"[#!][A-Za-z_][\w$\-]*\s*=|\{-#", re.ASCII)
_GENERIC_OP = re.compile(r"(?:%[^\s=\"]+(?:\s*,\s*%[^\s=\"]+)*\s*=\s*)?\"", re.ASCII)
_PRETTY_OP = re.compile(
    r"^[ \t]*(?:%[^\s=\"]+(?:\s*,\s*%[^\s=\"]+)*\s*=\s*)?(?:[a-z_]\w*\.[a-z_][\w.]*|module|return|call)\b(?!\s*=[^=])",
    re.ASCII | re.MULTILINE,
)
_ENUM = "|".join(rf"{dialect}(?:\.(?:{'|'.join(sorted(names))})<)" for dialect, names in ENUMS.items())
_DOTTED = re.compile(rf"#(?:{_ENUM})|enzyme\.autodiff_region\b[^\n]*\}}\s*<\{{", re.ASCII)
_ENZYME = re.compile(r"#enzyme(?:xla)?<|\benzyme(?:xla)?\.[a-z]", re.ASCII)
_LOCATION = re.compile(
    rf"{STRING}|//[^\n]*|(^#loc\w*[ \t]*=[^\n]*\n?)|([ \t]*(?<![\w.$])loc\()", re.ASCII | re.MULTILINE
)
_SEPARATOR = re.compile(r"^[ \t]*// -----[^\n]*\n?", re.MULTILINE)


def canonical_hash(op: Operation) -> str:
    """SHA-256 of the canonical print: equal for trees that differ in names, line numbers and attribute order only."""
    return hashlib.sha256(print_module(op).encode("utf-8", "surrogatepass")).hexdigest()


def is_generic(text: str) -> bool:
    """Whether `text` looks like generic form throughout: its first operation is quoted and no line starts a pretty one.

    A guess from the surface; `read_module` decides. False for text without operations.
    """
    position = _first_op(text)
    if _GENERIC_OP.match(text, position) is None:
        return False
    return _PRETTY_OP.search(_blanked(text)) is None


def pretty_enzyme_style(text: str) -> EnzymeStyle | None:
    """Which enzyme-ad versions read the enzyme syntax in `text`: 0.0.16 on, the earlier ones (`house`), or any.

    None when nothing of the enzyme dialects occurs outside strings. Text that is the same in both spellings counts as
    `house`.
    """
    blanked = _blanked(text)
    if _DOTTED.search(blanked) is not None:
        return "0.0.16"
    return "house" if _ENZYME.search(blanked) is not None or re.search(r'"enzyme(?:xla)?\.', text) else None


def strip_debug(text: str) -> str:
    """`text` without ` loc(…)` and `#loc = …` lines; strings and comments stay. Raises nothing: odd text is kept."""
    if "loc" not in text:
        return text
    pieces: list[str] = []
    last = position = 0
    while (found := _LOCATION.search(text, position)) is not None:
        position = found.end()
        if found[1] is None and found[2] is None:
            continue
        if found[2] is not None:
            if text[: found.start()].rstrip().endswith("="):
                continue
            try:
                position = scan(text, position, ")") + 1
            except LexError:
                break
        pieces.append(text[last : found.start()])
        last = position
    return "".join([*pieces, text[last:]])


def split_inputs(text: str) -> tuple[str, ...]:
    """The parts of a file split at `// -----` lines, as `-split-input-file` does; blank parts are dropped."""
    return tuple(part for part in _SEPARATOR.split(text) if part.strip())


def _first_op(text: str) -> int:
    """The position after comments, alias definitions and metadata."""
    position = skip_blank(text, 0)
    while (header := _HEADER.match(text, position)) is not None:
        try:
            position = scan(text, header.end(), "}") + 1 if header.group() == "{-#" else line_end(text, header.end())
        except LexError:
            return position
        position = skip_blank(text, position)
    return position


def _blanked(text: str) -> str:
    """`text` with strings emptied and comments removed."""
    return _HIDDEN.sub(lambda m: '""' if m.group()[0] == '"' else "", text)

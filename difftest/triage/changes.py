"""What a pass changed: the functions that differ, as a unified diff."""

from __future__ import annotations

import difflib
import re

from difftest.errors import UsageError
from difftest.ir.printer import print_module
from difftest.ir.reader import read_module
from difftest.targets.base import Target

_ALIAS = re.compile(r"^#(\w+) = (.*)$")
_USE = re.compile(r"#(\w+)\b(?![.<])")
_SYMBOL = re.compile(r"@(\"[^\"]*\"|[\w$.-]+)")


def change(before: str, after: str, target: Target) -> str:
    """A unified diff of the top-level symbols of two generic texts that differ, pretty where the compiler prints so."""
    ours, theirs = _symbols(before), _symbols(after)
    names = [n for n in dict.fromkeys([*ours, *theirs]) if ours.get(n) != theirs.get(n)]
    pretty = _pretty_chunks(before, target), _pretty_chunks(after, target)
    lines: list[str] = []
    for name in names:
        sides = (ours, theirs) if None in pretty else pretty
        old, new = ((side or {}).get(name, "").splitlines() for side in sides)
        diff = difflib.unified_diff(old, new, f"before/{name}", f"after/{name}", lineterm="", n=3)
        lines += list(diff)
    return "\n".join(lines)


def _symbols(text: str) -> dict[str, str]:
    """Each top-level op of a module by its symbol name, printed alone (so that numbering is local to it)."""
    found: dict[str, str] = {}
    module = read_module(text)
    for block in module.regions[0].blocks:
        for position, op in enumerate(block.ops):
            name = op.get("sym_name")
            found[f"@{name.strip(chr(34))}" if name else f"{op.name} {position}"] = print_module(op)
    return found


def _pretty_chunks(text: str, target: Target) -> dict[str, str] | None:
    """The pretty form cut at the module's own ops, aliases written out; None when it cannot be had or cut."""
    try:
        printed = target.print_pretty(text)
    except UsageError:
        return None
    aliases: dict[str, str] = {}
    chunks: dict[str, list[str]] = {}
    current: list[str] | None = None
    for line in printed.splitlines():
        alias = _ALIAS.match(line)
        if alias is not None:
            aliases[alias.group(1)] = alias.group(2)
        elif line.startswith("  ") and not line.startswith(("   ", "  }")):
            symbol = _SYMBOL.search(line)
            if symbol is None:
                return None
            current = chunks.setdefault(f"@{symbol.group(1).strip(chr(34))}", [])
            current.append(line)
        elif current is not None and line.startswith("  "):
            current.append(line)

    def spelled(match: re.Match[str]) -> str:
        return aliases.get(match.group(1), match.group(0))

    return {name: "\n".join(_USE.sub(spelled, line) for line in lines) for name, lines in chunks.items()} or None

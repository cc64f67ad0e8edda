"""Edits of single operations inside generic text, leaving the rest of the text as it is.

A rule sees one operation (`Site`) and changes its name, properties or attributes; `edit` finds the operations that
rules are for, applies them and splices the results in.  Faster than reading a tree, and it keeps aliases and places.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from difftest.ir.fragments import Fragments
from difftest.ir.lexer import STRING, LexError, scan, skip_blank
from difftest.ir.printer import print_dictionary

_HIDDEN = re.compile(rf"{STRING}|//[^\n]*")


@dataclass(slots=True)
class Site:
    """One operation in the text: what a rule may change, and what follows the properties on the line (`rest`).

    `attributes` and `regions` are filled only where the rules ask for them (`Rules.regions`), for ops with regions.
    """

    name: str
    properties: dict[str, str] = field(default_factory=dict[str, str])
    attributes: dict[str, str] = field(default_factory=dict[str, str])
    regions: int = 0
    rest: str = ""


Rule = Callable[[Site], None]


@dataclass(frozen=True, slots=True)
class Rules:
    """Rules by op name, and by dialect for all its ops.

    `marks`: without any of them in the text nothing applies; none given means always look. `regions` says for a site
    with its properties whether its regions must be walked to reach the attributes behind them, which is slow.
    """

    by_name: Mapping[str, Rule]
    by_dialect: Mapping[str, Rule]
    marks: Sequence[str]
    regions: Callable[[Site], bool]
    pattern: re.Pattern[str]


def make_rules(
    by_name: Mapping[str, Rule],
    by_dialect: Mapping[str, Rule] = MappingProxyType({}),
    *,
    marks: Sequence[str] = (),
    regions: Callable[[Site], bool] = lambda _: False,
) -> Rules:
    """See `Rules`."""
    names = [re.escape(name) for name in by_name] + [rf"{dialect}\.[\w.]+" for dialect in by_dialect]
    # A literal first character makes the search fast. What it finds lies in no string: quotes are escaped there.
    pattern = re.compile(rf'"(?<!\\")({"|".join(names)})"\(', re.ASCII)
    return Rules(by_name, by_dialect, marks, regions, pattern)


def edit(text: str, rules: Rules) -> str:
    """Apply the rules to every operation of generic text that they name."""
    if rules.marks and not any(mark in text for mark in rules.marks):
        return text
    fragments = Fragments(text, expand=False)
    edits: list[tuple[int, int, str]] = []
    try:
        for match in rules.pattern.finditer(text):
            if _in_comment(text, match.start()):
                continue
            _edit_op(fragments, match, rules, edits)
    except LexError as error:
        fragments.fail(error.message, error.position)
    return _apply(text, edits)


def replace_outside_strings(text: str, pattern: re.Pattern[str], replacement: Callable[[re.Match[str]], str]) -> str:
    """`pattern.sub(replacement, text)` that leaves strings and comments alone. `pattern` matches within a line.

    Only lines where `pattern` occurs at all are looked at closely: a search with a literal prefix is 10 times faster.
    """
    pieces: list[str] = []
    last = 0
    while (found := pattern.search(text, last)) is not None:
        start = text.rfind("\n", 0, found.start()) + 1
        end = text.find("\n", found.end())
        end = len(text) if end < 0 else end
        pieces.append(text[last:start])
        position = max(start, last)
        for hidden in _HIDDEN.finditer(text, position, end):
            pieces += (pattern.sub(replacement, text[position : hidden.start()]), hidden.group())
            position = hidden.end()
        pieces.append(pattern.sub(replacement, text[position:end]))
        last = end
    return "".join([*pieces, text[last:]]) if pieces else text


def _in_comment(text: str, position: int) -> bool:
    start = text.rfind("\n", 0, position) + 1
    if text.find("//", start, position) < 0:
        return False
    return any(hidden.end() > position for hidden in _HIDDEN.finditer(text, start) if hidden.start() < position)


def _edit_op(fragments: Fragments, match: re.Match[str], rules: Rules, edits: list[tuple[int, int, str]]) -> None:
    text = fragments.text
    site = Site(match[1])
    after_operands = after_properties = text.find(")", match.end()) + 1  # Operands are names: no brackets among them.
    if not after_operands:
        raise LexError("expected ')'", match.end())
    position = skip_blank(text, after_operands)
    if text.startswith("<{", position):
        site.properties, position = fragments.read_dictionary(position + 1)
        after_properties = fragments.expect(">", position)
    line = text.find("\n", after_properties)
    site.rest = text[after_properties : len(text) if line < 0 else line].strip()
    after_regions = after_attributes = after_properties
    if rules.regions(site):
        after_regions = after_attributes = _read_regions(text, after_properties, site)
        position = skip_blank(text, after_regions)
        if site.regions and text.startswith("{", position):
            site.attributes, after_attributes = fragments.read_dictionary(position)
    before = (site.name, dict(site.properties), dict(site.attributes))
    rule = rules.by_name.get(site.name) or rules.by_dialect[site.name.partition(".")[0]]
    rule(site)
    if site.name != before[0]:
        edits.append((match.start(1), match.end(1), site.name))
    if site.properties != before[1]:
        shown = f" <{print_dictionary(site.properties)}>" if site.properties else ""
        edits.append((after_operands, after_properties, shown))
    if site.attributes != before[2]:
        shown = f" {print_dictionary(site.attributes)}" if site.attributes else ""
        edits.append((after_regions, after_attributes, shown))


def _read_regions(text: str, position: int, site: Site) -> int:
    """Count the regions `({…}, {…})` at `position` and return the position after them."""
    start = skip_blank(text, position)
    if not text.startswith("(", start):
        return position
    while True:
        start = scan(text, start + 1, ",)")
        site.regions += 1
        if text[start] == ")":
            return start + 1


def _apply(text: str, edits: list[tuple[int, int, str]]) -> str:
    pieces: list[str] = []
    last = 0
    for start, end, replacement in sorted(edits):
        pieces += (text[last:start], replacement)
        last = end
    return "".join([*pieces, text[last:]]) if edits else text

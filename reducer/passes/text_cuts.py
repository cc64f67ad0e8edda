"""Cuts for text that does not read: lines, the insides of brackets, single tokens."""

from __future__ import annotations

import re

from reducer.edits import Pass
from reducer.text import Cut, Text

_TOKEN = re.compile(r'"(?:[^"\\\n]|\\.)*"|[\w%@^#!.$-]+|[^\s\w]')
_PAIRS = {")": "(", "]": "[", "}": "{", ">": "<"}
# Above this many tokens single ones are not tried: each costs a predicate call.
_TOKENS = 4000


def propose_lines(text: Text) -> list[Cut]:
    """Every line, last first."""
    return [Cut(start=start, end=end) for start, end in reversed(text.lines)]


def propose_blocks(text: Text) -> list[Cut]:
    """The inside of every balanced pair of brackets, and the pair itself, largest first."""
    stack: list[tuple[str, int]] = []
    spans: list[tuple[int, int]] = []
    for matched in _TOKEN.finditer(text.candidate.text):
        token = matched.group()
        if token in _PAIRS.values():
            stack.append((token, matched.start()))
        elif token in _PAIRS and stack and stack[-1][0] == _PAIRS[token]:
            spans.append((stack.pop()[1], matched.end()))
    spans.sort(key=lambda span: (span[0] - span[1], span[0]))
    cuts: list[Cut] = []
    for start, end in spans:
        cuts += (Cut(start=start, end=end), Cut(start=start + 1, end=end - 1))
    return cuts


def propose_tokens(text: Text) -> list[Cut]:
    """Every token, last first: gone, and numbers as 0 or 1."""
    found = list(_TOKEN.finditer(text.candidate.text))
    if len(found) > _TOKENS:
        return []
    cuts: list[Cut] = []
    for matched in reversed(found):
        start, end = matched.span()
        cuts.append(Cut(start=start, end=end))
        if matched.group().isdigit() and int(matched.group()) > 1:
            cuts += (Cut(start=start, end=end, by="0"), Cut(start=start, end=end, by="1"))
    return cuts


def propose_spaces(text: Text) -> list[Cut]:
    """White space: at the ends of lines and of the text gone, elsewhere one blank."""
    source = text.candidate.text
    cuts: list[Cut] = []
    for matched in re.finditer(r"\s+", source):
        start, end = matched.span()
        edge = start == 0 or end == len(source)
        shorter = "" if edge else "\n" if "\n" in matched.group() else " "
        if shorter != matched.group():
            cuts.append(Cut(start=start, end=end, by=shorter))
    return cuts


PASSES = (
    Pass(name="text-lines", propose=propose_lines, form="text"),
    Pass(name="text-blocks", propose=propose_blocks, form="text", whole=False),
    Pass(name="text-spaces", propose=propose_spaces, form="text"),
    Pass(name="text-tokens", propose=propose_tokens, form="text"),
)

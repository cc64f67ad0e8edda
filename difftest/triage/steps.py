"""A pipeline as steps that can be tried one by one, passes inside pipeline-valued options included.

`enzyme{postpasses="a,b"}` and `inline{default-pipeline=a}` run passes that no pass manager lists. They are told apart
by running the element with the first 0, 1, 2 … of them: the passes themselves are never run alone for that.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from difftest.targets.pipelines import join, pass_name, split

_VALUED = re.compile(
    r'(?P<key>(?:post-?passes|[\w-]*pipeline))=(?:"(?P<quoted>[^"]*)"|\{(?P<braced>[^{}]*)\}|(?P<bare>[^\s{}"]+))',
    re.IGNORECASE,
)
_OPTIONS = re.compile(r"^[\w.-]+\{(.*)\}$", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One pass: `element` as it is run up to and including it, `options` its own."""

    name: str
    options: str
    element: str


def inner_passes(element: str) -> tuple[str, ...]:
    """The passes in the first pipeline-valued option of an element, without the inliner's and enzyme's own work."""
    match = _VALUED.search(element)
    return () if match is None else split(_value(match))


def inner_steps(element: str) -> tuple[Step, ...]:
    """An element with a growing number of the passes that one of its options lists; empty when none does.

    The first step is the pass itself with an empty list, the last is the whole element.
    """
    match = _VALUED.search(element)
    if match is None:
        return ()
    passes = split(_value(match))
    found = [Step(name=pass_name(element), options=options_of(element), element=_with(element, match, ()))]
    for count in range(1, len(passes) + 1):
        last = passes[count - 1]
        found.append(
            Step(name=pass_name(last), options=options_of(last), element=_with(element, match, passes[:count]))
        )
    return tuple(found)


def _value(match: re.Match[str]) -> str:
    return next((g for g in match.group("quoted", "braced", "bare") if g is not None), "")


def _with(element: str, match: re.Match[str], passes: tuple[str, ...]) -> str:
    """An empty list is written as quotes around nothing: leaving the option out would mean its default."""
    return f'{element[: match.start()]}{match.group("key")}="{join(passes)}"{element[match.end() :]}'


def options_of(element: str) -> str:
    """The options of the innermost pass of an element, without their braces."""
    leaf = element.strip()
    while (match := re.fullmatch(r"[\w.-]+\s*\((.+)\)", leaf, re.DOTALL)) is not None:
        leaf = match.group(1).strip()
    found = _OPTIONS.match(leaf)
    return "" if found is None else found.group(1).strip()

"""Reducing the pass pipeline of a candidate: which passes and options the failure needs.

It comes before the program, because from then on every remaining pass is kept necessary.  How a pipeline is split
is the caller's business (`difftest.targets.pipelines`), so that this module knows no compiler.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from reducer.edits import with_pipeline
from reducer.order import Size
from reducer.problem import Candidate

_NESTED = re.compile(r"^([\w.-]+)\((.*)\)$", re.DOTALL)
_OPTIONS = re.compile(r"^([\w.-]+)\{(.*)\}$", re.DOTALL)
_OPTION = re.compile(r"""[\w-]+(?:=(?:\{[^{}]*\}|"[^"]*"|'[^']*'|[^\s{}"']+))?""")


@dataclass(frozen=True, kw_only=True)
class PipelineSyntax:
    """How a pipeline's text is split into its top-level elements and joined again."""

    split: Callable[[str], Sequence[str]]
    join: Callable[[Sequence[str]], str]


Path = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DropElement:
    """Remove the element at `path`: positions from the outermost list inwards."""

    path: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class DropOption:
    """Remove option `option` of the element at `path`, all of them when it is None."""

    path: Path
    option: int | None


class PipelineSubject:
    """A candidate seen as its pipeline. Its text never changes."""

    def __init__(self, candidate: Candidate, syntax: PipelineSyntax, *, ops: int = 0) -> None:
        self.candidate = candidate
        self.syntax = syntax
        self._ops = ops

    @cached_property
    def elements(self) -> dict[Path, str]:
        """Every element by path, outermost first; those under `any(…)` follow it."""
        found: dict[Path, str] = {}
        self._list(self.candidate.pipeline or "", (), found)
        return found

    @property
    def size(self) -> Size:
        """See `Subject.size`."""
        return self._size

    @cached_property
    def _size(self) -> Size:
        """See `Subject.size`."""
        return Size(ops=self._ops, structure=0, passes=len(self.elements), candidate=self.candidate)

    def apply(self, edits: Sequence[DropElement | DropOption]) -> PipelineSubject | None:
        """See `Subject.apply`."""
        dropped = {edit.path for edit in edits if isinstance(edit, DropElement)}
        options: dict[Path, set[int | None]] = {}
        for edit in edits:
            if isinstance(edit, DropOption):
                options.setdefault(edit.path, set()).add(edit.option)
        text = self._rebuild(self.candidate.pipeline or "", (), dropped, options)
        if text == self.candidate.pipeline:
            return None
        return PipelineSubject(with_pipeline(self.candidate, text), self.syntax, ops=self._ops)

    def _list(self, text: str, prefix: Path, found: dict[Path, str]) -> None:
        for number, element in enumerate(self.syntax.split(text)):
            found[*prefix, number] = element
            nested = _NESTED.match(element)
            if nested is not None:
                self._list(nested.group(2), (*prefix, number), found)

    def _rebuild(self, text: str, prefix: Path, dropped: set[Path], options: dict[Path, set[int | None]]) -> str:
        kept: list[str] = []
        for number, element in enumerate(self.syntax.split(text)):
            path = (*prefix, number)
            if path in dropped:
                continue
            nested = _NESTED.match(element)
            if nested is not None:
                inner = self._rebuild(nested.group(2), path, dropped, options)
                if inner:
                    kept.append(f"{nested.group(1)}({inner})")
            else:
                kept.append(_without_options(element, options.get(path, set())))
        return self.syntax.join(kept)


def options_of(element: str) -> list[str]:
    """The options of one pass, empty when it has none."""
    matched = _OPTIONS.match(element)
    return [] if matched is None else _OPTION.findall(matched.group(2))


def _without_options(element: str, dropped: set[int | None]) -> str:
    matched = _OPTIONS.match(element)
    if matched is None or not dropped:
        return element
    kept = [] if None in dropped else [o for i, o in enumerate(options_of(element)) if i not in dropped]
    return f"{matched.group(1)}{{{' '.join(kept)}}}" if kept else matched.group(1)

"""Rewrites the EXPECT lines of a corpus file to the verdicts that were met (`pytest --difftest-update`)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from corpus.expect import Expectation, TargetRange, find_expectation
from corpus.header import parse_header
from difftest.model import VerdictKind

_HEADER = re.compile(r"^\s*//\s*(DIFFTEST|RUN):")


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """The verdict met on one target and pipeline; `pass_name` only where the file's clause names a pass."""

    target: str
    pipeline: str
    verdict: str
    pass_name: str | None = None


def rewrite_expectations(text: str, seen: Sequence[Observation], *, path: str = "<text>") -> str:
    """`text` with EXPECT lines that fit `seen`; unchanged when they already do. Clauses about others stay.

    A clause that a verdict contradicts is replaced by one line per version; `agree` is not written where the file
    has no clause, because it is what a case must do anyway.
    """
    expectations = parse_header(text, path=path).expectations
    wrong = [o for o in seen if _differs(o, find_expectation(expectations, o.target, o.pipeline))]
    if not wrong:
        return text
    broken = {e.line for e in expectations for o in wrong if e.covers(o.target, o.pipeline)}
    kept = [
        o for o in seen if o in wrong or any(e.line in broken and e.covers(o.target, o.pipeline) for e in expectations)
    ]
    clauses = [e for e in expectations if e.line in broken and not any(e.covers(o.target, o.pipeline) for o in kept)]
    lines = text.splitlines()
    place = min(broken, default=max((i for i, line in enumerate(lines, 1) if _HEADER.match(line)), default=0) + 1) - 1
    new = [f"// EXPECT: {clause}" for clause in (*_clauses(kept), *clauses)]
    head = [line for i, line in enumerate(lines[:place], 1) if i not in broken]
    tail = [line for i, line in enumerate(lines[place:], place + 1) if i not in broken]
    return "\n".join([*head, *new, *tail]) + "\n"


def _differs(seen: Observation, wanted: Expectation | None) -> bool:
    if wanted is None:
        return seen.verdict != VerdictKind.AGREE
    return str(wanted.verdict) != seen.verdict or (wanted.pass_name is not None and wanted.pass_name != seen.pass_name)


def _clauses(seen: Sequence[Observation]) -> list[Expectation]:
    """One clause per target; the pipeline is named when a target's pipelines differ."""
    found: list[Expectation] = []
    for target in sorted({o.target for o in seen}):
        own = [o for o in seen if o.target == target]
        alike = len({(o.verdict, o.pass_name) for o in own}) == 1
        name, _, version = target.partition("@")
        for o in own[:1] if alike else own:
            found.append(
                Expectation(
                    verdict=VerdictKind(o.verdict),
                    target=TargetRange(name=name, versions=f"=={version}" if version else ""),
                    pass_name=o.pass_name,
                    pipeline=None if alike else o.pipeline,
                )
            )
    return found

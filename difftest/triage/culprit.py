"""Which pass made the program wrong: the first stage whose execution no longer agrees with the reference."""

from __future__ import annotations

from dataclasses import dataclass, replace

from difftest.errors import UsageError
from difftest.model import Pipeline, Signature, Verdict, VerdictKind
from difftest.oracle.judge import Reference, execute, outcome_verdict
from difftest.targets.base import Target
from difftest.targets.pipelines import join, leaves, pass_name, split

WRONG = frozenset({VerdictKind.MISMATCH, VerdictKind.DEVICE_FAULT})
"""The verdicts that blame a result, not a compilation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Culprit:
    """The pipeline element after which the result is wrong, with the IR on both sides of it."""

    element: str
    position: int
    verdict: Verdict
    before: str
    after: str
    skipped: tuple[str, ...] = ()


def find_culprit(reference: Reference, target: Target, pipeline: Pipeline, *, timeout: float = 20.0) -> Culprit | None:
    """Execute the IR after each single pass of `pipeline`; None when no stage is wrong.

    Nested pass managers are taken apart first; when that hides the fault, their passes are blamed as one. A stage
    the interpreter cannot execute is skipped and named in `skipped`: the culprit is then only known to be among the
    skipped ones and `element`.
    """
    apart, whole = leaves(pipeline.text), split(pipeline.text)
    for elements in (apart, whole) if apart != whole else (whole,):
        found = _first_wrong(reference, target, pipeline, elements, timeout)
        if found is not None:
            return found
    return None


def _first_wrong(
    reference: Reference, target: Target, pipeline: Pipeline, elements: tuple[str, ...], timeout: float
) -> Culprit | None:
    passes = Pipeline(text=join(elements), env=pipeline.env)
    result = target.lower(reference.program.text, passes, stages=True, timeout=timeout)
    stages = result.artifact.stages if result.artifact is not None else result.stages
    before = reference.program.text
    skipped: list[str] = []
    for position, (element, stage) in enumerate(zip(elements, stages, strict=False)):
        blank = Verdict(kind=VerdictKind.AGREE, target=target.label, pipeline=passes.text)
        try:
            verdict = outcome_verdict(blank, reference, execute(stage.text, reference))
        except UsageError:
            skipped.append(element)
            continue
        if verdict.kind in WRONG:
            return Culprit(
                element=element,
                position=position,
                verdict=verdict,
                before=before,
                after=stage.text,
                skipped=tuple(skipped),
            )
        if verdict.kind is VerdictKind.AGREE:
            before, skipped = stage.text, []
        else:
            skipped.append(element)
    return None


def blame(verdict: Verdict, culprit: Culprit | None) -> Verdict:
    """`verdict` under the signature of the first wrong stage: what later passes make of it is not the bug.

    Without a culprit the pass stays unknown.
    """
    if culprit is None or verdict.signature is None or culprit.verdict.signature is None:
        return verdict
    first = culprit.verdict.signature
    detail = (*first.detail, *(f"after {pass_name(e)}" for e in culprit.skipped))
    signature = Signature(kind=first.kind, pass_name=pass_name(culprit.element), detail=detail)
    return replace(verdict, signature=signature)

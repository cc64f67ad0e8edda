"""The front door of the reducer's core: a candidate and an evaluator in, a local minimum out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from reducer.edits import Subject
from reducer.evaluator import Evaluator
from reducer.pipeline import PipelineSubject, PipelineSyntax
from reducer.problem import Candidate
from reducer.schedule import PIPELINE, TEXT, TREE, tiers
from reducer.search import NO_LIMITS, Limits, Progress, Reduction, Search, no_progress
from reducer.stats import Stats

_SCHEDULES = {"tree": TREE, "text": TEXT}


def reduce(
    subject: Subject,
    *,
    form: str,
    evaluator: Evaluator,
    on_progress: Progress = no_progress,
    limits: Limits = NO_LIMITS,
    stats: Stats | None = None,
) -> Reduction:
    """Reduce `subject` (of a `Preflight`: interesting, in this form) until no pass helps, a limit, or Ctrl-C.

    `on_progress` gets every new best, so a caller that writes it down always has the best so far on disk. The best
    is asked about once more at the end: `Reduction.confirmed` is False when the predicate took its word back.
    """
    search = Search(subject, evaluator=evaluator, on_progress=on_progress, limits=limits, stats=stats)
    reduction = search.run(tiers(_SCHEDULES[form]))
    if reduction.interrupted:
        return reduction
    try:
        return replace(reduction, confirmed=_confirm(reduction, evaluator))
    except KeyboardInterrupt:
        return replace(reduction, stopped="interrupted")


def reduce_pipeline(
    candidate: Candidate,
    *,
    syntax: PipelineSyntax,
    evaluator: Evaluator,
    on_progress: Progress = no_progress,
    limits: Limits = NO_LIMITS,
    stats: Stats | None = None,
) -> Reduction:
    """Drop passes and options of `candidate.pipeline` that the predicate does not need; the text stays."""
    subject = PipelineSubject(candidate, syntax)
    search = Search(subject, evaluator=evaluator, on_progress=on_progress, limits=limits, stats=stats)
    return search.run(tiers(PIPELINE))


def _confirm(reduction: Reduction, evaluator: Evaluator) -> bool:
    def stream() -> Iterator[Candidate]:
        yield reduction.best

    return evaluator.first(stream()).hit is not None

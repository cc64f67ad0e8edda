"""Reducing a failure on a target: first the pipeline, then the program with every remaining pass kept necessary."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace

from difftest.errors import UsageError
from difftest.model import Pipeline, Signature
from difftest.oracle.judge import Reference, judge
from difftest.targets.base import Target
from difftest.targets.pipelines import join, leaves, split
from difftest.triage.confirm import confirm
from difftest.triage.culprit import WRONG, blame, find_culprit
from reducer.evaluator import Evaluator, SerialEvaluator
from reducer.parallel import ProcessEvaluator
from reducer.pipeline import PipelineSyntax
from reducer.predicate import Identity, IdentityPredicate
from reducer.preflight import ToGeneric, preflight
from reducer.problem import Candidate, PredicateFactory
from reducer.reduce import reduce, reduce_pipeline
from reducer.search import NO_LIMITS, Limits, Progress, Reduction, no_progress

SYNTAX = PipelineSyntax(split=split, join=join)


def _quiet(_message: str) -> None:
    """Who wants no remarks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How to reduce. `allow_invalid` gives up validity for the interpreter, `loose` necessity of the passes.

    `say` is told what the user should know.
    """

    jobs: int = 1
    timeout: float = 10.0
    limits: Limits = NO_LIMITS
    allow_invalid: bool = False
    loose: bool = False
    repeats: int = 2
    say: Callable[[str], None] = _quiet


def failure_of(reference: Reference, target: Target, pipeline: Pipeline, *, timeout: float) -> Signature:
    """The signature of what is wrong, with the failing pass. Raises UsageError when nothing is."""
    first = judge(reference, target, pipeline, timeout=timeout)
    verdict = (
        confirm(reference, target, pipeline, first, timeout=timeout) if first.verdict.kind.is_finding else first.verdict
    )
    if not verdict.kind.is_finding:
        why = f": {verdict.message}" if verdict.message else ""
        raise UsageError(f"nothing to reduce: the verdict on {target.label} [{pipeline.text}] is {verdict.kind}{why}")
    if verdict.kind in WRONG:
        verdict = blame(verdict, find_culprit(reference, target, pipeline, timeout=timeout))
    assert verdict.signature is not None
    return verdict.signature


def reduce_failure(
    reference: Reference,
    target: Target,
    pipeline: Pipeline,
    signature: Signature,
    *,
    options: Options,
    on_progress: Progress = no_progress,
) -> Reduction:
    """Reduce `reference.program` keeping `signature` on `target`. Raises UsageError when that is no question."""
    program = reference.program
    identity = Identity(
        target=target.label,
        signature=signature,
        env=tuple(pipeline.env.items()),
        valid=not options.allow_invalid,
        necessary=False,
        benign=bool(reference.outcome.notes.get("benign")),
        timeout=options.timeout,
    )
    candidate = Candidate(text=program.text, pipeline=pipeline.text, inputs=program.inputs, entry=program.entry)
    # The pipeline is a handful of questions: not worth starting processes for.
    serial = SerialEvaluator(IdentityPredicate(identity, target))
    shorter = reduce_pipeline(
        candidate, syntax=SYNTAX, evaluator=serial, on_progress=on_progress, limits=options.limits
    )
    if shorter.interrupted:
        return shorter
    strict = replace(identity, necessary=not options.loose)
    # A question runs every pipeline with one pass left out, and the whole one up to three times.
    patience = 4 * options.timeout * (len(leaves(shorter.best.pipeline or "")) + 3)
    evaluator = _evaluator(strict, target, options, patience)
    return _run(shorter.best, evaluator, options, on_progress, before=shorter)


def _evaluator(identity: Identity, target: Target, options: Options, patience: float) -> Evaluator:
    if options.jobs == 1:
        return SerialEvaluator(IdentityPredicate(identity, target))
    return ProcessEvaluator(identity, jobs=options.jobs, timeout=patience)


def reduce_with(
    candidate: Candidate,
    factory: PredicateFactory,
    *,
    options: Options,
    on_progress: Progress = no_progress,
    to_generic: ToGeneric | None = None,
) -> Reduction:
    """Reduce a candidate under any predicate, for example a user's script. Pretty text is read by `to_generic`."""
    predicate = factory()  # what cannot run is refused here, in one line
    if options.jobs == 1:
        return _run(candidate, SerialEvaluator(predicate), options, on_progress, to_generic=to_generic)
    predicate.close()
    evaluator = ProcessEvaluator(factory, jobs=options.jobs, timeout=4 * options.timeout)
    return _run(candidate, evaluator, options, on_progress, to_generic=to_generic)


def _run(
    candidate: Candidate,
    evaluator: Evaluator,
    options: Options,
    on_progress: Progress,
    *,
    before: Reduction | None = None,
    to_generic: ToGeneric | None = None,
) -> Reduction:
    try:
        start = preflight(candidate, evaluator, repeats=options.repeats, to_generic=to_generic)
        for note in start.notes:
            options.say(note)
        reduction = reduce(
            start.subject, form=start.form, evaluator=evaluator, on_progress=on_progress, limits=options.limits
        )
    finally:
        evaluator.close()
    spent = start.tests + (0 if before is None else before.tests)
    seconds = reduction.seconds + (0.0 if before is None else before.seconds)
    return replace(reduction, tests=reduction.tests + spent, seconds=seconds)


def default_jobs() -> int:
    """As many processes as there are cores to run on."""
    return len(os.sched_getaffinity(0))

"""No finding is believed at first sight: it is judged again before anybody hears of it."""

from __future__ import annotations

from dataclasses import replace

from difftest.errors import UsageError
from difftest.model import OutcomeKind, Pipeline, Schedule, Verdict, VerdictKind
from difftest.oracle.compare import compare
from difftest.oracle.judge import Judgement, Reference, execute, failure_verdict, judge, outcome_verdict, prepare
from difftest.signature import unstable
from difftest.targets.base import Target
from difftest.triage.culprit import WRONG


def confirm(
    reference: Reference, target: Target, pipeline: Pipeline, first: Judgement, *, timeout: float = 20.0
) -> Verdict:
    """The verdict after judging again: unchanged when the finding repeats under other schedules.

    A reference that depends on the schedule is our fault (`harness-crash`); a compiler or a compiled program that
    answers differently the second time is `nondeterministic`.
    """
    if first.verdict.kind is VerdictKind.HANG:
        return first.verdict  # the target ran it twice already, to name the pass; each run costs a whole time limit
    again = judge(reference, target, pipeline, timeout=timeout)
    if again.verdict.kind is not first.verdict.kind or again.verdict.signature != first.verdict.signature:
        return _unstable(reference, target, pipeline, first.verdict, again.verdict)
    if first.verdict.kind not in WRONG:
        return first.verdict
    for schedule in (Schedule.SHUFFLED, Schedule.SEQUENTIAL):
        other = prepare(reference.program, schedule=schedule)
        if other.outcome.kind is not OutcomeKind.OK or compare(reference.outcome, other.outcome).difference:
            return replace(
                first.verdict,
                kind=VerdictKind.HARNESS_CRASH,
                message=f"the reference depends on the schedule: {schedule} gives {other.outcome.kind}",
            )
    assert again.result is not None
    assert again.result.artifact is not None
    outcome = execute(again.result.artifact.text, reference, schedule=Schedule.SHUFFLED)
    blank = Verdict(kind=VerdictKind.AGREE, target=target.label, pipeline=pipeline.text)
    # Running out of fuel under another schedule says nothing; agreeing under it says that the result is not one.
    if outcome_verdict(blank, reference, outcome).kind is VerdictKind.AGREE:
        return replace(
            first.verdict,
            kind=VerdictKind.NONDETERMINISTIC,
            message="the compiled program is wrong under one schedule only",
        )
    return first.verdict


def compiler_failure(
    reference: Reference, target: Target, pipeline: Pipeline, *, timeout: float = 20.0
) -> Verdict | None:
    """The failure to compile a program whose results cannot be judged; None when it compiles, or is refused politely.

    A compiler has to survive programs that are undefined when run, and those that are never run.
    """
    failure = target.lower(reference.program.text, pipeline, timeout=timeout).failure
    verdict = None if failure is None else failure_verdict(failure, target.label, pipeline)
    return verdict if verdict is not None and verdict.kind.is_finding else None


def _unstable(reference: Reference, target: Target, pipeline: Pipeline, first: Verdict, again: Verdict) -> Verdict:
    """Deaths in varying places are one crash; anything else that varies is `nondeterministic`."""
    signatures = [v.signature for v in (first, again) if v.signature is not None]
    if len(signatures) == 2 and unstable(signatures) is not None:
        for _ in range(2):
            if any(s.pass_name for s in signatures):
                break
            once_more = judge(reference, target, pipeline).verdict.signature
            signatures += [once_more] if once_more is not None else []
        found = unstable(signatures)
        if found is not None:
            return replace(first, kind=VerdictKind.CRASH, signature=found, message="it dies differently each time")
    return replace(first, kind=VerdictKind.NONDETERMINISTIC, message=f"first {first.kind}, then {again.kind}")


def second_opinion(reference: Reference, other: Target, pipeline: Pipeline, first: Judgement) -> bool:
    """Whether another compiler computes exactly what the first one did, against the reference.

    True makes the finding `suspect-reference`: two compilers agree against the interpreter, which then has to be
    explained before anybody is told.
    """
    if first.outcome is None or first.outcome.kind is not OutcomeKind.OK:
        return False
    try:
        theirs = judge(reference, other, pipeline)
    except UsageError:
        return False  # it does not have all these passes
    if theirs.outcome is None or theirs.outcome.kind is not OutcomeKind.OK:
        return False
    return compare(first.outcome, theirs.outcome).difference is None

"""Why a verdict can be believed: what was tried beside the run that gave it."""

from __future__ import annotations

from dataclasses import replace

from difftest.model import Pipeline, Verdict, VerdictKind
from difftest.oracle.judge import Reference, judge, prepare
from difftest.targets.base import Target
from difftest.triage.culprit import WRONG
from difftest.triage.locate import Located
from difftest.triage.reproducer import Reproducer

OTHER_SEEDS = 3


def evidence(
    reference: Reference,
    target: Target,
    passes: Pipeline,
    verdict: Verdict,
    *,
    located: Located,
    reproducer: Reproducer,
) -> tuple[str, ...]:
    """What speaks for a confirmed finding, one sentence each; what was tried and does not is said, too."""
    found: list[str] = []
    if verdict.kind not in {VerdictKind.HANG, VerdictKind.NONDETERMINISTIC}:
        found.append("the compiler was run twice and did the same")
    if verdict.kind in WRONG:
        found.append("the reference gives one result under lock-step, shuffled and sequential order")
        usable, wrong = _other_seeds(reference, target, passes)
        found.append(f"{wrong} of {usable} other inputs give a wrong result, too")
        if not located.skipped:
            found.append(f"the program agrees with the reference up to {located.name}")
    if reproducer.confirmed:
        on = "the IR just before it" if reproducer.single else "the original program"
        found.append(f"the printed command shows the failure again on {on}")
    else:
        found.append("the printed command does not show the failure")
    return tuple(found)


def _other_seeds(reference: Reference, target: Target, passes: Pipeline) -> tuple[int, int]:
    """How many other contents of the arguments make a program that can be judged, and for how many it is wrong."""
    program = reference.program
    usable = wrong = 0
    for number in range(1, OTHER_SEEDS + 1):
        inputs = replace(program.inputs, seed=program.inputs.seed + number)
        other = prepare(replace(program, inputs=inputs))
        if other.usable:
            usable += 1
            wrong += judge(other, target, passes).verdict.kind in WRONG
    return usable, wrong

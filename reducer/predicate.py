"""Keeps one identified failure: its signature, the necessity of every pass, and a valid program (DESIGN §4).

A candidate is interesting when its pipeline fails on the target with the identity's signature, fails *otherwise or
not at all* when any one pass is left out, and the program is valid for the interpreter on its inputs.  The checks
run cheapest first.
"""

from __future__ import annotations

from dataclasses import dataclass

from difftest.errors import UsageError
from difftest.model import OutcomeKind, Pipeline, Program, Signature
from difftest.oracle.judge import Reference, failure_verdict, judge, prepare
from difftest.signature import of_failure, same_failure
from difftest.targets import open_target
from difftest.targets.base import Target
from difftest.targets.pipelines import join, leaves
from difftest.triage.culprit import WRONG, blame, find_culprit
from reducer.problem import Candidate, Predicate


@dataclass(frozen=True, kw_only=True)
class Identity:
    """What a reduction must keep.

    `valid` asks for a program that the interpreter accepts; `necessary` asks that no pass can be left out; `benign`
    lets a wrong result lean on same-value writes in no order (SEMANTICS §9), as the input did.
    """

    target: str
    signature: Signature
    env: tuple[tuple[str, str], ...] = ()
    valid: bool = True
    necessary: bool = True
    benign: bool = False
    timeout: float = 10.0

    def __call__(self) -> Predicate:
        """A predicate with a target of its own: identities are predicate factories."""
        return IdentityPredicate(self, open_target(self.target))


class IdentityPredicate:
    """Checks candidates against an `Identity` on one open target."""

    def __init__(self, identity: Identity, target: Target) -> None:
        self._identity = identity
        self._target = target

    def close(self) -> None:
        """Close the target."""
        self._target.close()

    def check(self, candidate: Candidate) -> bool:
        """See `Predicate.check`."""
        wrong_result = self._identity.signature.kind in WRONG
        reference = _reference(candidate) if wrong_result else None
        if wrong_result and (reference is None or not reference.usable or self._leans_on_benign(reference)):
            return False
        if not self._shows(candidate, reference):
            return False
        if self._identity.necessary and not self._all_necessary(candidate, reference):
            return False
        return wrong_result or not self._identity.valid or _valid(candidate)

    def _leans_on_benign(self, reference: Reference) -> bool:
        return not self._identity.benign and bool(reference.outcome.notes.get("benign"))

    def _shows(self, candidate: Candidate, reference: Reference | None) -> bool:
        found = self.signature(candidate, reference)
        return found is not None and same_failure(self._identity.signature, found)

    def signature(self, candidate: Candidate, reference: Reference | None) -> Signature | None:
        """How the candidate fails, None when it does not (or is refused as text or by a documented limit)."""
        assert candidate.pipeline is not None
        pipeline = Pipeline(text=candidate.pipeline, env=dict(self._identity.env))
        if reference is None:
            result = self._target.lower(candidate.text, pipeline, timeout=self._identity.timeout)
            if result.failure is None:
                return None
            try:
                verdict = failure_verdict(result.failure, self._target.label, pipeline)
            except UsageError:
                return None
            return of_failure(result.failure) if verdict.kind.is_finding else None
        verdict = judge(reference, self._target, pipeline, timeout=self._identity.timeout).verdict
        if verdict.kind not in WRONG:
            return None
        return blame(verdict, find_culprit(reference, self._target, pipeline)).signature

    def _all_necessary(self, candidate: Candidate, reference: Reference | None) -> bool:
        assert candidate.pipeline is not None
        elements = leaves(candidate.pipeline)
        if len(elements) == 1:
            return True
        for left_out in range(len(elements)):
            rest = join(elements[:left_out] + elements[left_out + 1 :])
            shorter = Candidate(text=candidate.text, pipeline=rest, inputs=candidate.inputs, entry=candidate.entry)
            if self._shows(shorter, reference):
                return False
        return True


def _reference(candidate: Candidate) -> Reference | None:
    try:
        return prepare(Program(text=candidate.text, entry=candidate.entry, inputs=candidate.inputs))
    except UsageError:
        return None


def _valid(candidate: Candidate) -> bool:
    reference = _reference(candidate)
    return reference is not None and reference.outcome.kind is OutcomeKind.OK

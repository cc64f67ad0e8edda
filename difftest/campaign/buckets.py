"""One bucket per identity: signature, and the passes without which the failure is gone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from difftest.model import Pipeline, Signature, Verdict, VerdictKind
from difftest.oracle.judge import Reference, judge
from difftest.signature import same_failure
from difftest.targets.base import Target
from difftest.targets.pipelines import format_pipeline, join, leaves, pass_name, split
from difftest.triage.culprit import WRONG, blame, find_culprit

# A pass that computes a wrong index shows as a wrong value, an access outside a buffer or a negative size, depending
# on the program around it: one bug. A lost ordering is another kind of bug.
ORDERING = frozenset({"race", "barrier-divergence", "benign-in-derivative"})


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingIdentity:
    """What two occurrences of one bug share. `pipeline` is minimal: every pass in it is needed.

    The compiler's name and version are not part of it: a bug of a shared pass is one bug.
    """

    signature: Signature
    pipeline: str

    @property
    def key(self) -> str:
        """One line that names the bucket."""
        signature = self.signature
        if signature.kind in WRONG:
            ordering = ORDERING.intersection(signature.detail)
            detail = ("race",) if ordering else ("wrong-result",)
            signature = Signature(kind=signature.kind, pass_name=signature.pass_name, detail=detail)
        return f"{signature.key} :: {self.pipeline}"


@dataclass(slots=True, kw_only=True)
class Bucket:
    """All occurrences of one identity in a run; `seed` on `target` is the first and stands for it."""

    identity: FindingIdentity
    seed: int
    target: str
    verdict: Verdict
    count: int = 0
    seeds: list[int] = field(default_factory=list[int])
    targets: Counter[str] = field(default_factory=Counter[str])

    @property
    def suspect(self) -> bool:
        """Whether it is ours to explain before it is a finding."""
        return self.verdict.kind is VerdictKind.SUSPECT_REFERENCE

    def add(self, seed: int, target: str) -> None:
        """Count an occurrence; the first twenty seeds are kept."""
        self.count += 1
        self.targets[target] += 1
        if seed not in self.seeds and len(self.seeds) < 20:
            self.seeds.append(seed)

    def absorb(self, other: Bucket) -> None:
        """Take over the occurrences of a bucket that turned out to be the same."""
        self.count += other.count
        self.targets += other.targets
        self.seeds = sorted({*self.seeds, *other.seeds})[:20]


def merged(buckets: Iterable[Bucket], identities: Mapping[str, FindingIdentity]) -> dict[str, Bucket]:
    """Buckets by the identity of their *reduced* program, where there is one: `identities` maps bucket key to it.

    Different random programs need different passes to show one bug; reduced, they often need the same ones.
    """
    found: dict[str, Bucket] = {}
    for bucket in buckets:
        identity = identities.get(bucket_key(bucket), bucket.identity)
        key = ("suspect: " if bucket.suspect else "") + identity.key
        if key in found:
            found[key].absorb(bucket)
        else:
            found[key] = bucket
    return found


def bucket_key(bucket: Bucket) -> str:
    """The key under which a bucket was opened."""
    return ("suspect: " if bucket.suspect else "") + bucket.identity.key


def attribute(reference: Reference, target: Target, pipeline: Pipeline, verdict: Verdict) -> Verdict:
    """`verdict` with the failing pass in its signature (wrong results: the culprit, found by executing stages)."""
    if verdict.signature is None or verdict.signature.kind not in WRONG:
        return verdict
    return blame(verdict, find_culprit(reference, target, pipeline))


def minimal_pipeline(reference: Reference, target: Target, pipeline: Pipeline, signature: Signature) -> Pipeline:
    """`pipeline` without the passes and the environment that `signature` does not need.

    What comes after the failing pass goes first, then chunks of halving size from the front, so that a pipeline of
    25 passes needs about a dozen compilations.
    """

    def keeps(elements: Sequence[str]) -> bool:
        return _keeps(reference, target, Pipeline(text=join(elements), env=pipeline.env), signature)

    elements = list(leaves(pipeline.text))
    names = [pass_name(e) for e in elements]
    if signature.pass_name in names:
        prefix = elements[: len(names) - names[::-1].index(signature.pass_name)]
        elements = prefix if keeps(prefix) else elements
    if not keeps(elements):
        elements = list(split(pipeline.text))
    size = len(elements) // 2
    while size:
        position = 0
        while position < len(elements) and len(elements) > 1:
            shorter = elements[:position] + elements[position + size :]
            if shorter and keeps(shorter):
                elements = shorter
            else:
                position += size
        size //= 2
    return without_environment(reference, target, Pipeline(text=join(elements), env=pipeline.env), signature)


def without_environment(reference: Reference, target: Target, pipeline: Pipeline, signature: Signature) -> Pipeline:
    """`pipeline` without environment variables when the failure does not need them."""
    bare = Pipeline(text=pipeline.text)
    return bare if pipeline.env and _keeps(reference, target, bare, signature) else pipeline


def _keeps(reference: Reference, target: Target, pipeline: Pipeline, signature: Signature) -> bool:
    verdict = judge(reference, target, pipeline).verdict
    found = attribute(reference, target, pipeline, verdict).signature
    return verdict.kind.is_finding and found is not None and same_failure(signature, found)


def identify(reference: Reference, target: Target, pipeline: Pipeline, verdict: Verdict) -> FindingIdentity:
    """The identity of a finding on `target`."""
    attributed = attribute(reference, target, pipeline, verdict)
    assert attributed.signature is not None
    minimal = minimal_pipeline(reference, target, pipeline, attributed.signature)
    return FindingIdentity(signature=attributed.signature, pipeline=format_pipeline(minimal))

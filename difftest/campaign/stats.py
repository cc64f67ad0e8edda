"""Counters of a run, folded in seed order so that the same seeds give the same summary whatever `-j` is."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field, replace

from difftest.campaign.buckets import Bucket, bucket_key, merged
from difftest.campaign.messages import CaseResult, ReduceDone, SeedDone
from difftest.model import VerdictKind


@dataclass(slots=True, kw_only=True)
class Progress:
    """What a run has done so far."""

    started: float = field(default_factory=time.monotonic)
    programs: int = 0
    cases: int = 0
    verdicts: Counter[str] = field(default_factory=Counter[str])
    by_target: dict[str, Counter[str]] = field(default_factory=dict[str, Counter[str]])
    buckets: dict[str, Bucket] = field(default_factory=dict[str, Bucket])
    faults: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])
    reductions: dict[str, ReduceDone] = field(default_factory=dict[str, ReduceDone])
    unsupported: Counter[str] = field(default_factory=Counter[str])
    judged_seconds: float = 0.0

    def add(self, done: SeedDone) -> list[Bucket]:
        """Fold in one program; returns the buckets it opened."""
        self.programs += 1
        opened: list[Bucket] = []
        for result in done.results:
            self.cases += 1
            kind = result.verdict.kind
            self.verdicts[kind] += 1
            self.by_target.setdefault(result.target, Counter[str]())[kind] += 1
            if kind is VerdictKind.UNSUPPORTED:
                self.unsupported[result.verdict.message] += 1
            if kind in {VerdictKind.HARNESS_CRASH, VerdictKind.BAD_PROGRAM}:
                self.faults.append((done.seed, result.verdict.message))
            if result.identity is not None:
                opened += self._bucket(done.seed, result)
        return opened

    def _bucket(self, seed: int, result: CaseResult) -> list[Bucket]:
        assert result.identity is not None
        bucket = Bucket(identity=result.identity, seed=seed, target=result.target, verdict=result.verdict)
        key = bucket_key(bucket)
        fresh = key not in self.buckets
        self.buckets.setdefault(key, bucket).add(seed, result.target)
        return [bucket] if fresh else []

    def distinct(self) -> dict[str, Bucket]:
        """The buckets with those joined whose reduced programs have one identity."""
        found = {key: done.identity for key, done in self.reductions.items() if done.identity is not None}
        return merged((replace(b, seeds=list(b.seeds), targets=b.targets.copy()) for b in self.buckets.values()), found)

    def crashed(self, seed: int, text: str) -> None:
        """The harness itself failed on `seed`."""
        self.programs += 1
        self.verdicts[VerdictKind.HARNESS_CRASH] += 1
        self.faults.append((seed, text))

    @property
    def seconds(self) -> float:
        """Seconds spent judging: until judging stopped, else until now."""
        return self.judged_seconds or (time.monotonic() - self.started)

    @property
    def rate(self) -> float:
        """Programs per second of judging."""
        return self.programs / self.seconds if self.seconds > 0 else 0.0

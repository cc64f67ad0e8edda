"""The one driver: asks passes for edits, tries sets of them, keeps what is interesting and smaller.

Passes never see the predicate and never loop; everything about order, chunks, caching and speculation is here.
The result depends on the input, the predicate and the schedule only: candidates are numbered, and the first
interesting one in that order wins, however many are evaluated at once.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from reducer.edits import Pass, Subject
from reducer.evaluator import Evaluator
from reducer.problem import Candidate
from reducer.stats import PassStats, Stats

Progress = Callable[[Candidate, Stats], None]
Tiers = Sequence[Sequence[Pass]]


def no_progress(_best: Candidate, _stats: Stats) -> None:
    """The callback of someone who only wants the result."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """When to stop before a fixed point is reached: seconds of wall clock, predicate calls. None: never."""

    seconds: float | None = None
    tests: int | None = None


NO_LIMITS = Limits()


@dataclass(frozen=True, slots=True, kw_only=True)
class Reduction:
    """What a reduction came to.

    `stopped` is `""` when every pass was tried on `best` in vain (a local minimum), else `"interrupted"`,
    `"seconds"` or `"tests"`. `confirmed` is False when the predicate, asked again, says no to `best`. `ops` counts
    operations without `builtin.module`; for text, lines that are not blank.
    """

    best: Candidate
    ops: int
    tests: int
    seconds: float
    stopped: str
    stats: Stats
    confirmed: bool = True

    @property
    def interrupted(self) -> bool:
        """Whether the user stopped it."""
        return self.stopped == "interrupted"


class _Stop(Exception):
    """A limit was reached; the argument names it."""


class Search:
    """One reduction in progress. `best` is always interesting."""

    def __init__(
        self,
        subject: Subject,
        *,
        evaluator: Evaluator,
        on_progress: Progress = no_progress,
        limits: Limits = NO_LIMITS,
        stats: Stats | None = None,
    ) -> None:
        self.best = subject
        self.stats = stats or Stats()
        self._evaluator = evaluator
        self._on_progress = on_progress
        self._limits = limits
        self._started = time.monotonic() - self.stats.seconds
        self._answers: dict[bytes, bool] = {}
        self._in_vain: dict[str, bytes] = {}

    def run(self, tiers: Tiers) -> Reduction:
        """Run tiers to a joint fixed point, a cheap tier always before a dear one. Ctrl-C keeps the best."""
        stopped = ""
        try:
            before = None
            while before != self.best.candidate.key:
                before = self.best.candidate.key
                for tier in tiers:
                    self._run_tier(tier)
        except KeyboardInterrupt:
            stopped = "interrupted"
        except _Stop as stop:
            stopped = str(stop)
        self.stats.seconds = time.monotonic() - self._started
        return Reduction(
            best=self.best.candidate,
            ops=self.best.size.ops,
            tests=self.stats.tests,
            seconds=self.stats.seconds,
            stopped=stopped,
            stats=self.stats,
        )

    def _run_tier(self, tier: Sequence[Pass]) -> None:
        before = None
        while before != self.best.candidate.key:
            before = self.best.candidate.key
            for one in tier:
                if self._in_vain.get(one.name) != self.best.candidate.key:
                    self._run_pass(one)

    def _run_pass(self, one: Pass) -> None:
        """Once through the edits of a pass with halving chunks; what it accepts changes what it proposes next."""
        stats = self.stats.of(one.name)
        self.stats.current_pass = one.name
        started, before = time.monotonic(), self.best.candidate.key
        edits = self._propose(one)
        size = len(edits) if one.whole else min(len(edits), 1)
        while size:
            at: int | None = 0
            while at is not None and at < len(edits):
                size = min(size, len(edits))
                at = self._try_from(edits, at, size, stats)
                if at is not None:
                    edits = self._propose(one)
            size //= 2
        stats.seconds += time.monotonic() - started
        if before == self.best.candidate.key:
            self._in_vain[one.name] = before

    def _propose(self, one: Pass) -> Sequence[Any]:
        stats = self.stats.of(one.name)
        edits = one.propose(self.best)
        stats.runs += 1
        stats.edits += len(edits)
        return edits

    def _try_from(self, edits: Sequence[Any], start: int, size: int, stats: PassStats) -> int | None:
        """Accept the first good chunk at or after `start` and say where it was; None when there is none."""
        keys: dict[bytes, None] = {}
        recent: deque[tuple[int, Subject]] = deque(maxlen=self._evaluator.ahead + 1)

        def stream() -> Iterator[Candidate]:
            for at in range(start, len(edits), size):
                self._check_limits(len(keys))
                subject = self.best.apply(edits[at : at + size])
                if subject is not None and self._is_worth_asking(subject, keys):
                    keys[subject.candidate.key] = None
                    recent.append((at, subject))
                    yield subject.candidate

        answers = self._evaluator.first(stream())
        self._answers.update(zip(keys, answers.interesting, strict=False))
        self.stats.tests += len(answers.interesting)
        self.stats.lost += answers.lost
        stats.tests += len(answers.interesting)
        if answers.hit is None:
            return None
        at, subject = recent[answers.hit - len(keys)]
        self._accept(subject, stats)
        return at

    def _is_worth_asking(self, subject: Subject, keys: Container[bytes]) -> bool:
        key = subject.candidate.key
        if key in self._answers or key in keys:
            self.stats.cached += 1
            return False
        if not subject.size < self.best.size:
            self.stats.larger += 1
            return False
        return True

    def _check_limits(self, asked: int) -> None:
        if self._limits.seconds is not None and time.monotonic() - self._started > self._limits.seconds:
            raise _Stop("seconds")
        if self._limits.tests is not None and self.stats.tests + asked >= self._limits.tests:
            raise _Stop("tests")

    def _accept(self, subject: Subject, stats: PassStats) -> None:
        stats.accepted += 1
        stats.ops_removed += self.best.size.ops - subject.size.ops
        stats.bytes_removed += len(self.best.candidate.text) - len(subject.candidate.text)
        self.best = subject
        self.stats.seconds = time.monotonic() - self._started
        self._on_progress(subject.candidate, self.stats)

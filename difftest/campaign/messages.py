"""What supervisor and workers say to each other: frozen values that pickle."""

from __future__ import annotations

from dataclasses import dataclass, field

from difftest.campaign.buckets import FindingIdentity
from difftest.model import Verdict
from reducer.problem import Candidate


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseResult:
    """One program on one target and pipeline."""

    seed: int
    target: str
    pipeline: str
    verdict: Verdict
    identity: FindingIdentity | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeTask:
    """Judge the programs of these seeds."""

    seeds: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReduceTask:
    """Reduce the program of `seed`, keeping `identity`; `key` names the bucket."""

    key: str
    seed: int
    target: str
    identity: FindingIdentity


@dataclass(frozen=True, slots=True, kw_only=True)
class SeedDone:
    """Everything about one seed; sent as soon as it is known, so that a crash loses only the seed in flight."""

    seed: int
    results: tuple[CaseResult, ...]
    ops: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReduceDone:
    """A reduction's best result; `error` says why there is none."""

    key: str
    best: Candidate | None
    pretty: str = ""
    ops: int = 0
    tests: int = 0
    seconds: float = 0.0
    interrupted: bool = False
    verdict: Verdict | None = None
    identity: FindingIdentity | None = None
    versions: tuple[tuple[str, str], ...] = field(default_factory=tuple[tuple[str, str], ...])
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Crashed:
    """A traceback of ours: the harness is wrong."""

    text: str


Message = SeedDone | ReduceDone | Crashed

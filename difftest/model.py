"""The vocabulary that crosses package borders: frozen dataclasses and enums, no behaviour beyond formatting.

A compiler's or a program's behaviour is a value of one of these types.  Programs are text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


# --- programs -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class InputSpec:
    """How the arguments of the entry function are made (`difftest.inputs.make_arguments`).

    `scalars` and `shapes` are keyed by argument position; what is missing takes its default: 2 for integers and
    index, 2 for each dynamic dimension. `seed` draws memref contents and float scalars.
    """

    scalars: Mapping[int, int | float] = field(default_factory=dict[int, "int | float"])
    shapes: Mapping[int, tuple[int, ...]] = field(default_factory=dict[int, tuple[int, ...]])
    seed: int = 0
    profile: str = "exact"


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """MLIR text (generic form unless said otherwise) with one public entry function and its inputs."""

    text: str
    entry: str
    inputs: InputSpec = field(default_factory=InputSpec)
    name: str = ""
    constructs: tuple[str, ...] = ()


# --- compilers ----------------------------------------------------------------------------------------------


class FailureKind(StrEnum):
    """Why a compiler did not give a usable result."""

    CRASH = "crash"
    STACK_OVERFLOW = "stack-overflow"
    HANG = "hang"
    MEMORY = "memory-limit"
    PASS_FAILURE = "pass-failure"
    INVALID_IR = "invalid-ir"
    INCOMPLETE = "incomplete"
    REFUSED_INPUT = "refused-input"
    BAD_PIPELINE = "bad-pipeline"
    SPELLING = "unsupported-spelling"


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """One native stack frame: demangled symbol without arguments, and the file name of its shared object."""

    symbol: str
    module: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """What stays the same when one bug is met twice: never an address, a number or a name of the program."""

    kind: str
    pass_name: str | None = None
    detail: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """The signature as one line, usable as a bucket name."""
        parts = [self.kind, *([self.pass_name] if self.pass_name else []), *self.detail]
        return " | ".join(parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileFailure:
    """A compiler's failure as a value. `pass_name` is the bare name of the failing pass when it is known."""

    kind: FailureKind
    pass_name: str | None = None
    diagnostic: str = ""
    frames: tuple[Frame, ...] = ()
    stderr: str = ""
    signal: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """The IR (generic text) after one top-level pipeline element."""

    after: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifact:
    """What a compiler made: the final generic text, the IR after each pass when asked for, and remarks."""

    text: str
    stages: tuple[Stage, ...] = ()
    stderr: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileResult:
    """Exactly one of `artifact` and `failure` is set."""

    artifact: Artifact | None = None
    failure: CompileFailure | None = None
    stages: tuple[Stage, ...] = ()
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """A pass pipeline in the pass manager's syntax, without `builtin.module(…)`, and its environment."""

    text: str
    name: str = ""
    env: Mapping[str, str] = field(default_factory=dict[str, str])


# --- execution ----------------------------------------------------------------------------------------------


class Mode(StrEnum):
    """SEMANTICS §1: `source` is strict; `intermediate` lets unused poison and uninitialised copies pass."""

    SOURCE = "source"
    INTERMEDIATE = "intermediate"


class Schedule(StrEnum):
    """In which order the lanes of a parallel construct run."""

    LOCK_STEP = "lock-step"
    SEQUENTIAL = "sequential"
    SHUFFLED = "shuffled"


class OutcomeKind(StrEnum):
    """How an execution ended."""

    OK = "ok"
    UB = "ub"
    RACE = "race"
    UNSUPPORTED = "unsupported"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Why and where an execution did not end well.

    `rule` is a short stable name (`out-of-bounds`, `race`, `division-by-zero`, `unsupported-op` …); `iteration`
    is the vector of induction variables or ids of the lane that broke it, outermost first.
    """

    rule: str
    message: str
    op: str = ""
    line: int = 0
    iteration: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """One observed buffer or scalar.

    `data` has the buffer's logical shape, `()` for a scalar, and a numpy (or ml_dtypes) dtype as wide as the
    element type. Where `skip` is true nothing may be compared (uninitialised, poison, licensed by a rule).
    `bound` is an absolute error bound per element, None when every element is exact. `zero` allows +0 for -0.
    """

    label: str
    data: Array
    skip: NDArray[np.bool_] | None = None
    bound: NDArray[np.float64] | None = None
    zero: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What an execution of a program did: observed values, or the fault that ended it."""

    kind: OutcomeKind
    observed: tuple[Observed, ...] = ()
    fault: Fault | None = None
    notes: Mapping[str, int] = field(default_factory=dict[str, int])
    schedule: Schedule = Schedule.LOCK_STEP


# --- judgement ----------------------------------------------------------------------------------------------


class VerdictKind(StrEnum):
    """DESIGN §4, `Verdict`."""

    AGREE = "agree"
    MISMATCH = "mismatch"
    CRASH = "crash"
    HANG = "hang"
    PASS_FAILURE = "pass-failure"
    INVALID_IR = "invalid-ir"
    INCOMPLETE = "incomplete"
    DEVICE_FAULT = "device-fault"
    NONDETERMINISTIC = "nondeterministic"
    UNSUPPORTED = "unsupported"
    BAD_PROGRAM = "bad-program"
    SUSPECT_REFERENCE = "suspect-reference"
    HARNESS_CRASH = "harness-crash"
    LIMIT = "documented-limit"
    INCONCLUSIVE = "inconclusive"

    @property
    def is_finding(self) -> bool:
        """Whether a gate counts it as a compiler bug."""
        return self in _FINDINGS


_FINDINGS = frozenset(
    {
        VerdictKind.MISMATCH,
        VerdictKind.CRASH,
        VerdictKind.HANG,
        VerdictKind.PASS_FAILURE,
        VerdictKind.INVALID_IR,
        VerdictKind.INCOMPLETE,
        VerdictKind.DEVICE_FAULT,
        VerdictKind.NONDETERMINISTIC,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """The first element in which a compiled program's result differs from the reference's."""

    label: str
    index: tuple[int, ...]
    expected: str
    actual: str
    count: int
    bound: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The judgement of one program on one target and pipeline."""

    kind: VerdictKind
    target: str
    pipeline: str
    signature: Signature | None = None
    difference: Difference | None = None
    failure: CompileFailure | None = None
    fault: Fault | None = None
    message: str = ""
    notes: Mapping[str, int] = field(default_factory=dict[str, int])

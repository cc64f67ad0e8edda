"""The nouns of a reduction: what is reduced (`Candidate`), what must stay true (`Predicate`), what came out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from typing import Protocol

from difftest.model import InputSpec


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """One thing a predicate can be asked about: a module's text, the pipeline run on it, and its inputs.

    `pipeline` is None when the predicate brings its own command. `entry` is the function that `inputs` are made
    for (without `@`), `""` when unknown; its arguments are positions in `inputs`.
    """

    text: str
    pipeline: str | None = None
    inputs: InputSpec = field(default_factory=InputSpec)
    entry: str = ""

    @cached_property
    def inputs_line(self) -> str:
        """The inputs as one canonical line: equal inputs give equal lines."""
        scalars = ",".join(f"{k}={v!r}" for k, v in sorted(self.inputs.scalars.items()))
        shapes = ",".join(f"{k}={tuple(v)!r}" for k, v in sorted(self.inputs.shapes.items()))
        return f"scalars[{scalars}] shapes[{shapes}] seed={self.inputs.seed} profile={self.inputs.profile}"

    @cached_property
    def key(self) -> bytes:
        """A content address: two candidates with one key are the same question."""
        parts = (self.text, self.pipeline or "", self.inputs_line, self.entry)
        return sha256("\0".join(parts).encode("utf-8", "surrogateescape")).digest()


class Predicate(Protocol):
    """Says whether a candidate still shows what is being hunted. Every answer must depend on the candidate only."""

    def check(self, candidate: Candidate) -> bool:
        """Whether `candidate` is interesting. An uninteresting one is False, never an exception."""
        ...

    def close(self) -> None:
        """Give back children and folders."""
        ...


PredicateFactory = Callable[[], Predicate]
"""Makes a predicate inside an evaluator process: it must pickle, and it is called once per process."""


@dataclass(frozen=True, kw_only=True)
class FunctionPredicate:
    """A plain function as a predicate, for tests and one-off scripts."""

    function: Callable[[Candidate], bool]

    def check(self, candidate: Candidate) -> bool:
        """Ask the function."""
        return self.function(candidate)

    def close(self) -> None:
        """Nothing to give back."""

    def __call__(self) -> Predicate:
        """Itself: a function predicate is its own factory."""
        return self

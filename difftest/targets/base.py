"""What a compiler under test looks like to everybody else: text in, artifact or failure out.

All text that crosses this border is generic form in house spelling (`difftest.ir.spelling`); a target translates on
the way in and out. A target is found by listing this folder: a module with `SCHEME`, `open(label)` and `labels()`.
Nothing a compiler does is an exception: crashes, hangs and refusals are `CompileFailure` values.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from difftest.model import CompileFailure, CompileResult, Pipeline

DEFAULT_TIMEOUT = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Availability:
    """Whether a target can be used here, and why not. `version` is what the compiler calls itself."""

    usable: bool
    reason: str = ""
    version: str = ""


class Target(Protocol):
    """One compiler version. Used by one thread; processes that fork open their own."""

    @property
    def label(self) -> str:
        """`enzyme-ad@0.0.16`, `mlir`, `opt:/path/to/mlir-opt` or `null`."""
        ...

    def availability(self) -> Availability:
        """Whether the compiler is there; never starts anything expensive, never raises."""
        ...

    def lower(
        self, text: str, pipeline: Pipeline, *, stages: bool = False, timeout: float = DEFAULT_TIMEOUT
    ) -> CompileResult:
        """Run a pipeline on generic text.

        `stages` asks for the IR after each top-level element, also of a run that fails later. `timeout` is in seconds
        of processor time. Raises ToolchainError when the compiler cannot be started at all.
        """
        ...

    def to_generic(self, text: str) -> CompileResult:
        """Normalise a user's text, in this compiler's own pretty or generic spelling: parse, verify, print generic."""
        ...

    def print_pretty(self, text: str) -> str:
        """The pretty form of generic text, in this compiler's own spelling. UsageError when it cannot be read."""
        ...

    def verify(self, text: str) -> CompileFailure | None:
        """None when the compiler accepts generic text, else its refusal."""
        ...

    def close(self) -> None:
        """End all processes. The target may be used again; it then starts new ones."""
        ...

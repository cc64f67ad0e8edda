"""`null`: a compiler that changes nothing. Every finding against it is a defect of ours.

The text is read, printed, spelled for the newest enzyme-ad and back, and read again, so that reader, printer and
spelling are under the same test as a compiler.
"""

from __future__ import annotations

import time

from difftest.errors import ReadError, UsageError
from difftest.ir import spelling
from difftest.ir.printer import print_module
from difftest.ir.reader import read_module
from difftest.model import Artifact, CompileFailure, CompileResult, Pipeline, Stage
from difftest.targets import classify, pipelines
from difftest.targets.base import DEFAULT_TIMEOUT, Availability

SCHEME = "null"
_DETOUR = "enzyme-ad@0.0.16"


class NullTarget:
    """See the module's text. Needs no process and no toolchain."""

    @property
    def label(self) -> str:
        """The target's label."""
        return SCHEME

    def availability(self) -> Availability:
        """Always usable."""
        return Availability(usable=True, version="0")

    def lower(
        self, text: str, pipeline: Pipeline, *, stages: bool = False, timeout: float = DEFAULT_TIMEOUT
    ) -> CompileResult:
        """Run nothing; every stage is the same text."""
        del timeout
        started = time.monotonic()
        elements = pipelines.split(pipeline.text)
        result = self.to_generic(text)
        if result.artifact is None:
            return result
        output = result.artifact.text
        kept = tuple(Stage(after=e, text=output) for e in elements) if stages else ()
        artifact = Artifact(text=output, stages=kept)
        return CompileResult(artifact=artifact, stages=kept, seconds=time.monotonic() - started)

    def to_generic(self, text: str) -> CompileResult:
        """Generic text only: there is no parser of pretty text here."""
        try:
            there = spelling.from_house(print_module(read_module(text)), target=_DETOUR)
            back = spelling.to_house(there, source=_DETOUR)
            return CompileResult(artifact=Artifact(text=print_module(read_module(back))))
        except (ReadError, spelling.SpellingError) as error:
            return CompileResult(failure=classify.of_unreadable(error))

    def print_pretty(self, text: str) -> str:
        """Not offered."""
        raise UsageError("the target null has no pretty form: use mlir or an enzyme-ad version")

    def verify(self, text: str) -> CompileFailure | None:
        """Whether the text can be read."""
        return self.to_generic(text).failure

    def close(self) -> None:
        """Nothing to close."""


def labels() -> tuple[str, ...]:
    """The one label of this scheme."""
    return (SCHEME,)


def open(label: str) -> NullTarget:
    """The target of the label `null`."""
    if label != SCHEME:
        raise UsageError(f"unknown target '{label}': did you mean '{SCHEME}'?")
    return NullTarget()

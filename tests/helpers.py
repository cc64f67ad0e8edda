"""Shared by tests: targets that plant faults, and small conveniences."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from difftest.ir.printer import print_module
from difftest.ir.reader import read_module
from difftest.ir.tree import Operation
from difftest.model import Artifact, CompileFailure, CompileResult, Pipeline, Stage
from difftest.targets.base import DEFAULT_TIMEOUT, Availability
from difftest.targets.pipelines import split

Plant = Callable[[Operation], None]


class PlantedTarget:
    """A compiler that changes nothing, except that after the pipeline element at `position` it applies `plant`."""

    label = "planted"

    def __init__(self, plant: Plant, *, position: int = 0) -> None:
        self._plant = plant
        self._position = position

    def availability(self) -> Availability:
        return Availability(usable=True)

    def lower(
        self, text: str, pipeline: Pipeline, *, stages: bool = False, timeout: float = DEFAULT_TIMEOUT
    ) -> CompileResult:
        module = read_module(text)
        found: list[Stage] = []
        for position, element in enumerate(split(pipeline.text)):
            if position == self._position:
                self._plant(module)
            found.append(Stage(after=element, text=print_module(module)))
        kept = tuple(found) if stages else ()
        return CompileResult(artifact=Artifact(text=found[-1].text, stages=kept), stages=kept)

    def to_generic(self, text: str) -> CompileResult:
        return CompileResult(artifact=Artifact(text=text))

    def print_pretty(self, text: str) -> str:
        return text

    def verify(self, text: str) -> CompileFailure | None:
        return None

    def close(self) -> None:
        pass


def nth(module: Operation, number: int) -> Operation:
    """The `number`-th op of a module in textual order."""
    return next(op for i, op in enumerate(module.walk()) if i == number)


def numbered(module: Operation) -> Iterator[tuple[int, Operation]]:
    """All ops with their number for `nth`."""
    return iter(enumerate(module.walk()))

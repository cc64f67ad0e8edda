"""How fast a target lowers: the measurements behind the `compile-*` rows of `difftest bench` (DESIGN §5)."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from difftest.model import Pipeline
from difftest.targets.native import NativeTarget


@dataclass(frozen=True, slots=True, kw_only=True)
class Throughput:
    """`seconds` on the clock for `programs` programs, `lowered` of which gave an artifact."""

    programs: int
    lowered: int
    seconds: float

    @property
    def per_second(self) -> float:
        """Programs per second."""
        return self.programs / self.seconds if self.seconds else 0.0


def measure_warm(target: NativeTarget, texts: Sequence[str], pipeline: Pipeline) -> Throughput:
    """Lower house-spelled generic texts in a warm compiler child, all checks on, one after the other.

    Texts that crash the compiler count with the restart they cause.
    """
    if texts:
        target.lower(texts[0], pipeline)
    started = time.perf_counter()
    lowered = sum(target.lower(text, pipeline).artifact is not None for text in texts)
    return Throughput(programs=len(texts), lowered=lowered, seconds=time.perf_counter() - started)


def measure_process_per_case(target: NativeTarget, texts: Sequence[str], pipeline: Pipeline) -> Throughput:
    """The same with a process per case: exec, load, lower, end. The peer that the warm child is compared with.

    It is the fastest process per case we know: it loads the compiler alone, without the package around it.
    """
    started = time.perf_counter()
    lowered = 0
    for text in texts:
        target.close()
        lowered += target.lower(text, pipeline).artifact is not None
    target.close()
    return Throughput(programs=len(texts), lowered=lowered, seconds=time.perf_counter() - started)

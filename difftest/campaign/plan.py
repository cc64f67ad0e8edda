"""What a campaign runs: which pipelines a program meets on which target, decided by its seed and constructs alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

ENZYME = "enzyme-ad"
DOCUMENTED = "canonicalize,convert-parallel-to-gpu1"
UPSTREAM_PIPELINES = ("parallel-opt", "nvvm-outline")
UPSTREAM_DEVICE_PIPELINES = ("parallel-opt", "nvvm")
WRAPPER_PIPELINES = ("enzyme-outline", DOCUMENTED)
WRAPPER_DEVICE_PIPELINES = ("enzyme-cut", DOCUMENTED)
# A run down to PTX costs about three times one that ends before the device code, and most bugs show there already.
DEVICE_SHARE = 3
ENZYME_CONSTRUCTS = frozenset({"gpu_wrapper", "autodiff_region", "autodiff"})
DERIVATIVES = frozenset({"autodiff_region", "autodiff"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What the user asked for. `pipelines` empty means: those that suit the program."""

    targets: tuple[str, ...]
    pipelines: tuple[str, ...] = ()
    profile: str = "default"
    seed: int = 0
    count: int | None = None
    seconds: float | None = None
    jobs: int = 1
    timeout: float = 10.0
    reduce_seconds: float = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """One compilation to judge."""

    target: str
    pipeline: str


def family(target: str) -> str:
    """A target label without its version: `enzyme-ad@0.0.16` -> `enzyme-ad`."""
    return target.partition("@")[0]


def assignments(constructs: Sequence[str], settings: Settings, seed: int = 0) -> tuple[Assignment, ...]:
    """The compilations a program with these constructs gets, in order; every third seed goes down to device code.

    Programs with enzyme ops are not offered to upstream compilers, which have no such ops.
    """
    used = frozenset(constructs)
    found: list[Assignment] = []
    for target in settings.targets:
        if used & ENZYME_CONSTRUCTS and family(target) not in {ENZYME, "null"}:
            continue
        pipelines = settings.pipelines or _suitable(used, target, seed)
        found += [Assignment(target=target, pipeline=p) for p in pipelines]
    return tuple(found)


def _suitable(used: frozenset[str], target: str, seed: int) -> tuple[str, ...]:
    if family(target) == "null":
        return ("",)
    if used & DERIVATIVES and "gpu_wrapper" not in used:
        return ("enzyme-diff",)
    device = seed % DEVICE_SHARE == 0
    if "gpu_wrapper" in used:
        return WRAPPER_DEVICE_PIPELINES if device else WRAPPER_PIPELINES
    return UPSTREAM_DEVICE_PIPELINES if device else UPSTREAM_PIPELINES

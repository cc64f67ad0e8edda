"""Hypothesis strategies for programs. They compose with any other strategy and shrink by Hypothesis alone.

    from hypothesis import given
    from difftest.api import assert_agrees
    from difftest.hypothesis_support import programs

    @given(programs(profile="parallel"))
    def test_my_pass(program):
        assert_agrees(program, target="opt:/path/to/my-opt", pipeline="my-pass")

A failing example is shown as the text of a corpus file: save it as `.mlir` and it is a test. Every program is defined
and race-free on its own inputs (`difftest generate` makes the same kinds).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from types import MappingProxyType
from typing import Any

import hypothesis
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from corpus.header import program_file
from difftest.model import InputSpec, Program, Verdict
from generators import HypothesisSource, Profile, find_profile, generate

SMALLEST = 1
"""The least number of ops a program aims at here: Hypothesis shrinks towards it."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ProgramExample(Program):
    """A program that Hypothesis shows as the text of a corpus file."""

    def __repr__(self) -> str:
        return program_file(self).rstrip()

    def _repr_pretty_(self, printer: Any, cycle: Any) -> None:  # Hypothesis's and IPython's printers ask for this
        printer.text(f"\n{self!r}\n" if not cycle else "…")


def programs(*, profile: str | Profile = "default", max_ops: int | None = None) -> st.SearchStrategy[Program]:
    """Programs of a generator profile (`generators.PROFILES`, or one's own), with their inputs.

    `max_ops` bounds the size a program aims at; the default is the profile's. Raises UsageError for an unknown name.
    """
    chosen = find_profile(profile) if isinstance(profile, str) else profile
    most = chosen.ops[1] if max_ops is None else max_ops
    return _drawn(replace(chosen, ops=(min(SMALLEST, most), most)))


def kernels(*, max_ops: int | None = None) -> st.SearchStrategy[Program]:
    """Programs made of `enzymexla.gpu_wrapper`: grids, blocks, stack slots, differentiated regions inside."""
    return programs(profile=_made_of("wrapper", "kernel"), max_ops=max_ops)


def autodiff_regions(*, max_ops: int | None = None) -> st.SearchStrategy[Program]:
    """Programs made of `enzyme.autodiff_region` and of `enzyme.autodiff` on functions."""
    return programs(profile=_made_of("region", "autodiff"), max_ops=max_ops)


def launches(*, max_ops: int | None = None) -> st.SearchStrategy[Program]:
    """Host programs of several parallel nests that depend on each other through buffers: one kernel launch each."""
    return programs(profile=_made_of("launch-family", "default"), max_ops=max_ops)


def _made_of(family: str, profile: str) -> Profile:
    """A profile whose entry function holds one construct family only."""
    base = find_profile(profile)
    return replace(base, host=MappingProxyType(dict.fromkeys(base.host, 0) | {family: 1}))


def inputs(program: Program) -> st.SearchStrategy[InputSpec]:
    """Other inputs for which `program` is as valid as for its own: the contents vary, scalars and shapes stay."""
    return st.integers(0, 2**30).map(lambda seed: replace(program.inputs, seed=seed))


def with_inputs(program: Program, spec: InputSpec) -> Program:
    """`program` on other inputs, shown as MLIR too."""
    return _example(replace(program, inputs=spec))


@lru_cache(maxsize=4096)
def _integers(low: int, high: int) -> st.SearchStrategy[int]:
    return st.integers(low, high)


class _Source(HypothesisSource):
    """As `HypothesisSource`, but makes the strategy of each range once: a program takes hundreds of draws."""

    __slots__ = ()

    def integer(self, low: int, high: int) -> int:
        """An integer in `low..high`; shrinks towards the one nearest to 0."""
        return int(self._draw(_integers(low, high)))


@st.composite
def _drawn(draw: Callable[[st.SearchStrategy[Any]], Any], profile: Profile) -> Program:
    return _example(generate(_Source(draw), profile=profile))


def _example(program: Program) -> Program:
    return ProgramExample(**{f.name: getattr(program, f.name) for f in fields(Program)})


def aim(program: Program, verdict: Verdict | None = None) -> None:
    """Guide Hypothesis (`hypothesis.target`) to programs that mix many constructs and, with a verdict, that make the
    compiled program do many unusual things (the interpreter's notes). Call it once per example.
    """
    hypothesis.target(float(len(program.constructs)), label="constructs")
    if verdict is not None:
        hypothesis.target(float(len(verdict.notes)), label="notes of the compiled program")


def register_profiles() -> None:
    """Register the settings profiles `difftest-dev`, `difftest-ci` and `difftest-nightly`.

    Compilers vary in speed, hence no deadline. `ci` draws the same examples each time and prints how to reproduce a
    failure; `nightly` draws thousands of new ones.
    """
    slow = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example]
    base = settings(deadline=None, print_blob=True, suppress_health_check=slow)
    settings.register_profile("difftest-dev", base, max_examples=25)
    settings.register_profile("difftest-ci", base, max_examples=100, derandomize=True)
    settings.register_profile("difftest-nightly", base, max_examples=5000)

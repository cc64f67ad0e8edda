"""Strategies give valid programs, compose, shrink by Hypothesis alone, and show failures as MLIR."""

import random
import re
import statistics
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis import strategies as st

from corpus.header import parse_header
from difftest import api
from difftest.errors import UsageError
from difftest.hypothesis_support import (
    aim,
    autodiff_regions,
    inputs,
    kernels,
    launches,
    programs,
    register_profiles,
    with_inputs,
)
from difftest.ir.reader import read_module
from difftest.ir.tree import count_ops
from difftest.model import OutcomeKind, Pipeline, VerdictKind
from difftest.oracle.judge import judge, prepare
from generators import find_profile
from tests.helpers import PlantedTarget

pytest_plugins = "pytester"
RELAXED = settings(deadline=None, database=None, suppress_health_check=list(HealthCheck))
UNSHRUNK = settings(RELAXED, phases=(Phase.generate,), max_examples=400)
FEW = settings(RELAXED, max_examples=8, derandomize=True)


def ops(program):
    """As the reducer counts them."""
    return count_ops(read_module(program.text))


def rename(old, new):
    """A compiler that takes every `old` for `new`."""

    def plant(module):
        for op in module.walk():
            if op.name == old:
                op.name = new

    return PlantedTarget(plant)


def wrong(target, program):
    reference = prepare(program)
    return reference.usable and judge(reference, target, Pipeline(text="a")).verdict.kind is VerdictKind.MISMATCH


@pytest.mark.parametrize(
    ("strategy", "construct"),
    [(kernels(), "gpu_wrapper"), (autodiff_regions(), "enzyme.autodiff"), (launches(), "parallel")],
)
def test_each_strategy_gives_its_kind_of_valid_program(strategy, construct):
    met = []

    @FEW
    @given(strategy)
    def check(program):
        assert api.run_program(program).kind is OutcomeKind.OK
        met.append(construct in program.text)
        aim(program)

    check()
    assert all(met)


@FEW
@given(st.data())
def test_other_inputs_are_as_valid(data):
    program = data.draw(programs(max_ops=12))
    other = with_inputs(program, data.draw(inputs(program)))
    assert other.inputs.shapes == program.inputs.shapes
    assert api.run_program(other).kind is OutcomeKind.OK


@FEW
@given(st.tuples(programs(max_ops=6), st.sampled_from(["canonicalize", "cse"])))
def test_strategies_compose(pair):
    program, pipeline = pair
    api.assert_agrees(program, target="null", pipeline=pipeline)


def test_ones_own_profile_and_unknown_names():
    own = replace(find_profile("integer"), name="own", types={"i32": 1, "index": 1, "i1": 1})
    program = find(programs(profile=own), lambda p: "arith.muli" in p.text, settings=UNSHRUNK, random=random.Random(0))
    assert program.name.startswith("own-")
    with pytest.raises(UsageError, match="unknown generator profile"):
        programs(profile="colourful")


def test_an_example_is_shown_as_a_corpus_file(tmp_path):
    program = find(programs(), lambda p: True, settings=UNSHRUNK)
    header = parse_header(repr(program))
    assert header.entry == "k"
    file = tmp_path / "saved.mlir"
    file.write_text(repr(program))
    first, again = (api.run_program(source) for source in (program, file))
    assert [o.data.tobytes() for o in first.observed] == [o.data.tobytes() for o in again.observed]


def test_shrinking_reaches_a_small_parallel_program_from_most_starts():
    sizes: list[int] = []
    for seed in range(3):
        source = random.Random(seed)
        strategy = programs(profile="parallel")
        sizes.append(ops(find(strategy, lambda p: "affine.parallel" in p.text, settings=RELAXED, random=source)))
    assert statistics.median(sizes) <= 15, sizes


@pytest.mark.slow
def test_planted_bugs_shrink_to_a_median_of_15_ops():
    plants = [
        ("arith.addf", "arith.mulf"),
        ("arith.mulf", "arith.addf"),
        ("arith.subf", "arith.addf"),
        ("arith.xori", "arith.ori"),
        ("arith.maximumf", "arith.minimumf"),
    ]
    sizes = []
    for old, new in plants:
        target = rename(old, new)
        limits = settings(RELAXED, max_examples=300)
        program = find(
            programs(profile="parallel", max_ops=20),
            lambda p, t=target: wrong(t, p),
            settings=limits,
            random=random.Random(1),
        )
        sizes.append(ops(program))
    assert statistics.median(sizes) <= 15, sizes


def test_a_failure_prints_mlir_and_how_to_reproduce_it(project):
    project.pytester.makepyfile(
        """
        from hypothesis import given, settings
        from difftest.hypothesis_support import programs

        @settings(print_blob=True, database=None, deadline=None)
        @given(programs(profile="parallel", max_ops=10))
        def test_it(program):
            assert "affine.parallel" not in program.text
        """
    )
    result = project.pytester.runpytest_subprocess("-p", "no:cacheprovider", "--hypothesis-seed=3")
    result.assert_outcomes(failed=1)
    text = result.stdout.str()
    assert re.search(r"// DIFFTEST: entry=k inputs=\S*seed=0", text) and '"affine.parallel"' in text
    assert "@reproduce_failure(" in text


def test_profiles_are_registered():
    register_profiles()
    assert settings.get_profile("difftest-ci").derandomize and settings.get_profile("difftest-ci").print_blob
    sizes = [settings.get_profile(f"difftest-{name}").max_examples for name in ("dev", "ci", "nightly")]
    assert sizes == sorted(sizes)

"""Every generated program verifies and is free of undefined behaviour, races and rounding on its inputs."""

import pytest

from difftest.inputs import make_arguments
from difftest.interpreter import interpret
from difftest.ir.reader import read_module
from difftest.ir.tree import find_function
from difftest.ir.types import parse_type
from difftest.model import OutcomeKind, Pipeline, Schedule
from difftest.targets import open_target
from generators import PROFILES, program_for_seed

# 2,000 programs in all, most of them of the profile that campaigns use.
COUNTS = {name: 150 for name in PROFILES} | {"default": 2000 - 150 * (len(PROFILES) - 1)}
CHUNK = 100
CHUNKS = [(name, first) for name, count in COUNTS.items() for first in range(0, count, CHUNK)]


def reference(program, schedule=Schedule.LOCK_STEP):
    module = read_module(program.text)
    entry = find_function(module, program.entry)
    types = [parse_type(argument.type) for argument in entry.regions[0].blocks[0].arguments]
    return interpret(module, entry=program.entry, arguments=make_arguments(types, program.inputs), schedule=schedule)


def seeds(profile, first):
    return range(first, min(first + CHUNK, COUNTS[profile]))


@pytest.mark.parametrize(("profile", "first"), CHUNKS)
def test_the_reference_accepts_every_program_and_every_value_is_exact(profile, first):
    for seed in seeds(profile, first):
        outcome = reference(program_for_seed(seed, profile))
        assert outcome.kind is OutcomeKind.OK, (profile, seed, outcome.fault)
        for observed in outcome.observed:
            assert observed.bound is None or not observed.bound.any(), (profile, seed, observed.label)
            assert observed.skip is None or not observed.skip.any(), (profile, seed, observed.label)


@pytest.mark.parametrize("profile", sorted(PROFILES))
def test_the_result_does_not_depend_on_the_schedule(profile):
    for seed in range(25):
        program = program_for_seed(seed, profile)
        expected = reference(program)
        for schedule in (Schedule.SEQUENTIAL, Schedule.SHUFFLED):
            actual = reference(program, schedule)
            assert [o.data.tobytes() for o in actual.observed] == [o.data.tobytes() for o in expected.observed], seed


@pytest.fixture(scope="module", params=["enzyme-ad@0.0.16", "enzyme-ad@0.0.15", "enzyme-ad@0.0.14"])
def enzyme(request):
    target = open_target(request.param)
    if not target.availability().usable:
        pytest.skip(target.availability().reason)
    yield target
    target.close()


@pytest.mark.enzyme
@pytest.mark.parametrize("profile", sorted(PROFILES))
def test_enzyme_verifies_every_program(enzyme, profile):
    for seed in range(COUNTS[profile] if enzyme.label.endswith("16") else 30):
        failure = enzyme.verify(program_for_seed(seed, profile).text)
        assert failure is None, (profile, seed, failure)


def test_upstream_verifies_every_program_without_enzyme_ops():
    target = open_target("mlir")
    programs = [program_for_seed(seed, profile) for profile in sorted(PROFILES) for seed in range(40)]
    upstream = [program for program in programs if '"enzyme' not in program.text]
    assert len(upstream) > 100
    for program in upstream:
        result = target.lower(program.text, Pipeline(text="canonicalize"))
        assert result.failure is None, (program.name, result.failure)
    target.close()

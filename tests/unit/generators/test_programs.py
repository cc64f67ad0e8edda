"""Whole programs, without any compiler: determinism, shape, coverage, no dead weight."""

import re
from collections import Counter
from statistics import median

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from difftest.errors import UsageError
from generators import PROFILES, HypothesisSource, SeededSource, find_profile, generate, program_for_seed
from generators.context import Context, tables_for
from generators.program import FAMILIES

OPERATION = re.compile(r'^ *(?:%\S+ = )?"([a-z_]+\.[\w.]+)"\(', re.MULTILINE)
NAMES = sorted(PROFILES)


def ops_of(text):
    return [name for name in OPERATION.findall(text) if name != "builtin.module"]


def texts(profile, count):
    return [program_for_seed(seed, profile).text for seed in range(count)]


@pytest.mark.parametrize("profile", NAMES)
def test_same_seed_same_program(profile):
    assert program_for_seed(11, profile) == program_for_seed(11, profile)
    assert program_for_seed(11, profile).text != program_for_seed(12, profile).text


def test_name_records_profile_format_and_seed():
    assert program_for_seed(5, "kernel").name == "kernel-v1-5"


def test_an_earlier_program_leaves_nothing_behind():
    program_for_seed(1, "autodiff")
    after = program_for_seed(2, "kernel")
    program_for_seed(3, "integer")
    assert program_for_seed(2, "kernel") == after


def test_unknown_profile_is_one_clear_line():
    with pytest.raises(UsageError, match="unknown generator profile 'nope'; known: default"):
        find_profile("nope")


@pytest.mark.parametrize("profile", NAMES)
def test_programs_are_of_the_promised_size(profile):
    sizes = [len(ops_of(text)) for text in texts(profile, 200)]
    assert median(sizes) >= 40
    assert max(sizes) < 400


@pytest.mark.parametrize("profile", NAMES)
def test_values_are_defined_once_and_before_use(profile):
    for text in texts(profile, 60):
        for function in text.split('"func.func"')[1:]:
            defined = set()
            for line in function.splitlines():
                head, _, rest = line.partition(" = ") if re.match(r" *%\d+(:\d+)? = ", line) else ("", "", line)
                argument = re.match(r" *\^bb0\((.*)\):", line)
                used = [] if argument else re.findall(r"%a?\d+", rest)
                assert set(used) <= defined, line
                made = re.findall(r"%a?\d+", argument.group(1) if argument else head)
                assert not set(made) & defined, line
                defined.update(made)


@pytest.mark.parametrize("profile", NAMES)
def test_few_results_are_dead(profile):
    dead = total = 0
    for text in texts(profile, 150):
        uses = Counter(re.findall(r"%\d+", text))
        made = re.findall(r'^ *(%\d+)(?::\d+)? = "(?!enzymexla.gpu_wrapper)', text, re.MULTILINE)
        dead += sum(uses[name] == 1 for name in made)
        total += len(made)
    assert dead / total < 0.06


def test_every_host_family_of_a_profile_appears():
    seen = Counter()
    for seed in range(300):
        seen.update(program_for_seed(seed).constructs)
    expected = {"scf.parallel", "affine.parallel", "gpu_wrapper", "host-loop", "host-if", "launch-family", "scf.reduce"}
    expected |= {"autodiff_region", "call", "scf.for", "scf.if", "affine.for", "affine.if", "affine.parallel-reduce"}
    assert expected <= set(seen)


def test_every_weighted_construct_is_a_family():
    for profile in PROFILES.values():
        for weights in (profile.host, profile.body, profile.thread, profile.region, profile.function):
            assert set(weights) <= set(FAMILIES)


def test_most_operations_of_the_scalar_tables_appear_within_1000_programs():
    seen = Counter()
    for profile in ("default", "integer", "scalar-float"):
        for seed in range(330):
            seen.update(ops_of(program_for_seed(seed, profile).text))
    integers = [f"arith.{name}" for name, weight in PROFILES["integer"].integer.items() if weight and name[-1] in "iu"]
    floats = ["arith.addf", "arith.subf", "arith.mulf", "arith.negf", "arith.minimumf", "arith.maximumf"]
    maths = ["absf", "fma", "floor", "ceil", "copysign", "trunc", "round", "roundeven", "ctpop", "ctlz", "cttz", "absi"]
    casts = ["extsi", "extui", "trunci", "sitofp", "uitofp", "fptosi", "extf", "truncf", "index_cast", "index_castui"]
    wanted = [*integers, *floats, *[f"math.{m}" for m in maths], *[f"arith.{c}" for c in casts]]
    missing = [name for name in wanted if not seen[name]]
    assert len(missing) <= len(wanted) // 5, missing


def test_parallel_nests_reach_depth_three_and_rank_six():
    depth = rank = 0
    for text in texts("parallel", 200):
        open_at = []
        for line in text.splitlines():
            indent = len(line) - len(line.lstrip())
            while open_at and indent <= open_at[-1] and line.strip().startswith("})"):
                open_at.pop()
            if re.search(r'"(scf|affine)\.parallel"', line):
                open_at.append(indent)
                depth = max(depth, len(open_at))
                segments = re.search(r"operandSegmentSizes = array<i32: (\d+)", line)
                rank = max(rank, int(segments.group(1)) if segments else 0)
    assert depth >= 3
    assert rank == 6


def test_documented_shape_appears_in_kernels():
    """wrapper { parallel { parallel { stack slots, autodiff_region { parallel { store } } } } }."""
    found = 0
    for seed in range(300):
        names = ops_of(program_for_seed(seed, "kernel").text)
        wanted = iter(["enzymexla.gpu_wrapper", "scf.parallel", "scf.parallel", "llvm.alloca"])
        rest = iter(names)
        if not all(any(name == want for name in rest) for want in wanted):
            continue
        tail = list(rest)
        if "enzyme.autodiff_region" in tail:
            inside = tail[tail.index("enzyme.autodiff_region") :]
            found += "scf.parallel" in inside and "memref.store" in inside
    assert found >= 10


def test_safety_rules_are_counted_and_rare():
    repairs, ops = Counter(), 0
    for seed in range(100):
        profile = PROFILES["integer"]
        program, counts = _counted(seed, profile)
        repairs.update(counts)
        ops += len(ops_of(program))
    assert {"divisor-masked", "shift-masked", "index-clamped"} <= set(repairs)
    assert sum(repairs.values()) < ops * 0.15


def _counted(seed, profile):
    made = []

    class Recorded(Context):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            made.append(self)

    program = generate(SeededSource(seed), profile=profile, context=Recorded)
    return program.text, made[0].repairs


def test_tables_are_prepared_once_per_profile():
    assert tables_for(PROFILES["default"]) is tables_for(PROFILES["default"])


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_hypothesis_draws_programs_of_every_profile(data):
    name = data.draw(st.sampled_from(NAMES))
    program = generate(HypothesisSource(data.draw), profile=PROFILES[name])
    assert program.entry == "k"
    assert '"func.return"' in program.text

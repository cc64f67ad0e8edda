"""Race-free programs give one result: lock-step, one by one, and in random order."""

import numpy as np
import pytest

from difftest.inputs import make_arguments
from difftest.interpreter import interpret
from difftest.ir.reader import read_module
from difftest.ir.tree import find_function
from difftest.ir.types import parse_type
from difftest.model import OutcomeKind, Schedule
from generators import program_for_seed


def runs(program):
    module = read_module(program.text)
    kinds = [parse_type(v.type) for v in find_function(module, program.entry).regions[0].blocks[0].arguments]
    given = make_arguments(kinds, program.inputs)
    for number, schedule in enumerate(Schedule):
        yield interpret(module, entry=program.entry, arguments=given, schedule=schedule, seed=number)


def compared(left, right):
    """Data of both where it may be compared, floats as float64 with their bounds."""
    skip = np.zeros(left.data.shape, np.bool_)
    for observed in (left, right):
        if observed.skip is not None:
            skip = skip | observed.skip
    x, y = (np.where(skip, 0, o.data.astype(np.float64)) for o in (left, right))
    spread = sum((np.where(skip, 0, o.bound) for o in (left, right) if o.bound is not None), np.zeros(skip.shape))
    return x, y, spread


@pytest.mark.parametrize("profile", ["default", "parallel", "kernel", "autodiff"])
def test_generated_programs_do_not_depend_on_the_schedule(profile):
    checked = 0
    for seed in range(12):
        first, *others = runs(program_for_seed(seed, profile))
        if first.kind is OutcomeKind.UNSUPPORTED:
            continue
        checked += 1
        assert first.kind is OutcomeKind.OK, first.fault
        for other in others:
            assert other.kind is OutcomeKind.OK, other.fault
            for left, right in zip(first.observed, other.observed, strict=True):
                x, y, spread = compared(left, right)
                assert ((np.abs(x - y) <= spread) | (np.isnan(x) & np.isnan(y))).all(), (seed, left.label)
    assert checked

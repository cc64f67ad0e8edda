"""How well the reducer reduces, and what holds for every predicate (STYLE §5)."""

import random
import time
from itertools import count
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from difftest.errors import ReadError
from difftest.ir.reader import read_module
from reducer.edits import Snapshot
from reducer.evaluator import SerialEvaluator
from reducer.preflight import preflight
from reducer.problem import Candidate, FunctionPredicate
from reducer.reduce import reduce
from reducer.trees import constant_value, group

NESTED = (Path(__file__).parent.parent / "data" / "nested_parallel.generic.mlir").read_text(encoding="utf-8")
KINDS = ("scf.parallel", "memref.store", "llvm.alloca", "arith.constant", "enzyme.autodiff_region", "scf.reduce")


def reduce_with(text, interesting, *, entry=""):
    evaluator = SerialEvaluator(FunctionPredicate(function=interesting))
    start = Snapshot.read(Candidate(text=text, entry=entry))
    return reduce(start, form="tree", evaluator=evaluator)


def names(candidate):
    return [op.name for op in read_module(candidate.text).walk()]


def is_sound(module):
    """What a verifier would insist on, as far as these tests go: bounds match ranks, steps are positive."""
    for op in module.walk():
        if op.name == "scf.parallel":
            rank = len(op.regions[0].blocks[0].arguments)
            if [len(group(op, n)) for n in range(4)] != [rank, rank, rank, 0]:
                return False
            if not all((constant_value(step) or 0) > 0 for step in group(op, 2)):
                return False
    return True


def ancestors(op):
    while op.parent_op is not None:
        op = op.parent_op
        yield op


def has_documented_shape(candidate, *, dimensions):
    """A parallel loop in an autodiff region, under `dimensions` parallel dimensions in a wrapper, storing."""
    try:
        module = read_module(candidate.text)
    except ReadError:
        return False
    if "%undef" in candidate.text or not is_sound(module):
        return False
    for op in module.walk():
        above = list(ancestors(op))
        around = [o.name for o in above]
        if op.name == "memref.store" and around[:2] == ["scf.parallel", "enzyme.autodiff_region"]:
            loops = [o for o in above[2:] if o.name == "scf.parallel"]
            ranks = sum(len(o.regions[0].blocks[0].arguments) for o in loops)
            if ranks >= dimensions and len(loops) >= 2 and "enzymexla.gpu_wrapper" in around:
                return True
    return False


@pytest.mark.parametrize("dimensions", [2, 6])
def test_the_documented_case_becomes_fifteen_ops_within_the_budget(dimensions):
    started = time.monotonic()
    result = reduce_with(NESTED, lambda c: has_documented_shape(c, dimensions=dimensions))
    assert result.ops <= 15
    assert result.tests <= 300
    assert time.monotonic() - started < 10
    assert result.stopped == ""
    assert result.confirmed


def noise(rng, size, width):
    """`size` lines of straight-line and looped arithmetic that has nothing to do with the case."""
    lines = []
    floats = ["%4"]
    while len(lines) < size:
        name = f"%n{width}_{len(lines)}"
        kind = rng.randrange(10)
        if kind == 0:
            body = [f'  "memref.store"({rng.choice(floats)}, %arg2, %0) : (f64, memref<?xf64>, index) -> ()'] * 3
            head = f'"scf.for"(%0, %2, %1) ({{\n^bb0(%i{width}_{len(lines)}: index):'
            lines += [head, *body, '"scf.yield"() : () -> ()\n}) : (index, index, index) -> ()']
        elif kind < 3:
            lines.append(f'{name} = "memref.load"(%arg2, %1) : (memref<?xf64>, index) -> f64')
            floats.append(name)
        else:
            a, b = rng.choice(floats), rng.choice(floats)
            lines.append(f'{name} = "arith.addf"({a}, {b}) <{{fastmath = #arith.fastmath<none>}}> : (f64, f64) -> f64')
            floats.append(name)
    return lines


def embedded(size, seed):
    """The documented case in the middle of a function of about `size` operations."""
    rng = random.Random(seed)
    lines = NESTED.splitlines()
    start = next(n for n, line in enumerate(lines) if "gpu_wrapper" in line)
    end = next(n for n, line in enumerate(lines) if "func.return" in line)
    return "\n".join(
        [*lines[:start], *noise(rng, size // 2, 1), *lines[start:end], *noise(rng, size // 2, 2), *lines[end:]]
    )


@pytest.mark.parametrize("size", [400, 5000])
def test_the_case_is_found_in_a_large_program(size):
    text = embedded(size, seed=size)
    trace = []
    evaluator = SerialEvaluator(FunctionPredicate(function=lambda c: has_documented_shape(c, dimensions=6)))
    started = time.monotonic()
    start = Snapshot.read(Candidate(text=text))
    result = reduce(
        start,
        form="tree",
        evaluator=evaluator,
        on_progress=lambda best, _: trace.append((time.monotonic() - started, len(best.text))),
    )
    assert result.ops <= 15
    assert result.tests <= 350
    assert next(seconds for seconds, length in trace if length < len(text) / 10) < 10
    assert time.monotonic() - started < 40


@st.composite
def predicates(draw):
    """A predicate about the operations of a candidate that holds for the input."""
    kind = draw(st.sampled_from(KINDS))
    other = draw(st.sampled_from(KINDS))
    have = names(Candidate(text=NESTED))
    least = draw(st.integers(1, have.count(kind)))
    shape = draw(st.sampled_from(["count", "both", "nested", "text"]))
    if shape == "count":
        return lambda c: names(c).count(kind) >= least
    if shape == "both":
        return lambda c: {kind, other} <= set(names(c))
    if shape == "nested":
        depth = draw(st.integers(1, 4))
        return lambda c: any(len(list(ancestors(op))) >= depth for op in read_module(c.text).walk())
    return lambda c: c.text.count(kind) + c.text.count("f64") >= least


@settings(max_examples=40, deadline=None)
@given(predicates())
def test_for_any_predicate_the_result_satisfies_it_is_not_larger_and_is_a_local_minimum(interesting):
    start = Snapshot.read(Candidate(text=NESTED))
    result = reduce_with(NESTED, interesting)
    assert interesting(result.best)
    end = Snapshot.read(result.best)
    assert end.candidate.text == result.best.text
    assert not start.size < end.size
    again = reduce_with(result.best.text, interesting)
    assert again.best == result.best


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32))
def test_a_lying_predicate_harms_nothing(seed):
    """Random answers: the search ends, its result was called interesting once, and the text still reads."""
    rng = random.Random(seed)
    seen = {Snapshot.read(Candidate(text=NESTED)).candidate.text}

    def interesting(candidate):
        answer = rng.random() < 0.3
        if answer:
            seen.add(candidate.text)
        return answer

    result = reduce_with(NESTED, interesting)
    assert result.best.text in seen
    read_module(result.best.text)


def test_when_only_the_input_is_interesting_it_stays():
    original = Snapshot.read(Candidate(text=NESTED)).candidate
    result = reduce_with(NESTED, lambda c: c.text == original.text)
    assert result.best == original
    assert result.ops == 22


def test_when_everything_is_interesting_nothing_stays():
    assert names(reduce_with(NESTED, lambda _: True).best) == ["builtin.module"]


def test_the_entry_function_stays_when_everything_else_may_go():
    result = reduce_with(NESTED, lambda c: '"kernel"' in c.text, entry="kernel")
    assert names(result.best) == ["builtin.module", "func.func", "func.return"]
    assert "function_type = () -> ()" in result.best.text


def test_two_runs_give_the_same_bytes():
    first, second = (reduce_with(NESTED, lambda c: has_documented_shape(c, dimensions=4)) for _ in range(2))
    assert first.best == second.best
    assert first.tests == second.tests


def test_interrupted_anywhere_the_best_so_far_is_interesting():
    complete = reduce_with(NESTED, lambda c: has_documented_shape(c, dimensions=6)).tests
    for stop in (1, 5, 20, 60, complete, complete + 1):
        calls = count(1)

        def interesting(candidate, calls=calls, stop=stop):
            if next(calls) == stop:
                raise KeyboardInterrupt
            return has_documented_shape(candidate, dimensions=6)

        result = reduce_with(NESTED, interesting)
        assert result.interrupted
        assert has_documented_shape(result.best, dimensions=6)


def test_text_that_is_not_mlir_is_reduced_by_lines_and_brackets_and_tokens():
    text = "header\n" + "".join(f"block {n} {{ keep({n}, other) }}\n" for n in range(50))
    evaluator = SerialEvaluator(FunctionPredicate(function=lambda c: "keep(37" in c.text))
    found = preflight(Candidate(text=text), evaluator)
    assert found.form == "text"
    result = reduce(found.subject, form=found.form, evaluator=evaluator)
    assert result.best.text == "keep(37"
    assert result.tests < 80

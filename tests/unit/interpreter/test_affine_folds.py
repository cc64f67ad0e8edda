"""Affine maps against an independent implementation: lowered and folded by the bundled MLIR on constants."""

import random

import pytest

from difftest.interpreter import interpret
from difftest.interpreter.dialects.arith import constant_data
from difftest.ir.reader import read_module
from difftest.model import Mode, OutcomeKind, Pipeline
from difftest.targets import open_target

PIPELINE = Pipeline(text="func.func(affine-expand-index-ops),lower-affine,canonicalize")


def expression(rng, depth):
    if depth == 0 or rng.random() < 0.15:
        return rng.choice(("d0", "d1", "s0", str(rng.randint(0, 9))))
    left = expression(rng, depth - 1)
    kind = rng.choice(("+", "-", "*", "floordiv", "ceildiv", "mod"))
    if kind in "+-":
        return f"({left} {kind} {expression(rng, depth - 1)})"
    return f"({left} {kind} {rng.choice((-3, 2, 5)) if kind == '*' else rng.randint(1, 7)})"


def constant(rng, name):
    return f'%{name} = "arith.constant"() <{{value = {rng.randint(-60, 60)} : index}}> : () -> index'


def one_op(rng, number):
    """An op on fresh constants: its lines and the names of its results."""
    operands = [f"c{number}_{i}" for i in range(3)]
    lines = [constant(rng, name) for name in operands]
    a, b, c = (f"%{name}" for name in operands)
    choice = rng.randrange(5)
    result = f"%r{number}"
    if choice < 3:
        name = ("apply", "min", "max")[choice]
        results = [expression(rng, 3) for _ in range(1 if name == "apply" else rng.randint(1, 3))]
        mapping = f"affine_map<(d0, d1)[s0] -> ({', '.join(results)})>"
        lines.append(
            f'{result} = "affine.{name}"({a}, {b}, {c}) <{{map = {mapping}}}> : (index, index, index) -> index'
        )
        return lines, [result]
    basis = ", ".join(str(rng.randint(1, 9)) for _ in range(2))
    if choice == 3:
        types = "(index) -> (index, index, index)"
        lines.append(f'{result}:3 = "affine.delinearize_index"({a}) <{{static_basis = array<i64: {basis}>}}> : {types}')
        return lines, [f"{result}#{i}" for i in range(3)]
    segments = f"operandSegmentSizes = array<i32: 3, 0>, static_basis = array<i64: {basis}>"
    lines.append(
        f'{result} = "affine.linearize_index"({a}, {b}, {c}) <{{{segments}}}> : (index, index, index) -> index'
    )
    return lines, [result]


def program(seed, count):
    rng = random.Random(seed)
    lines, results = [], []
    for number in range(count):
        new, names = one_op(rng, number)
        lines += new
        results += names
    types = ", ".join(["index"] * len(results))
    return (
        f'"builtin.module"() ({{ "func.func"() <{{function_type = () -> ({types}), sym_name = "f"}}> ({{\n'
        + "\n".join(lines)
        + f'\n"func.return"({", ".join(results)}) : ({types}) -> ()\n}}) : () -> () }}) : () -> ()'
    )


def test_lowered_maps_fold_to_what_the_rules_give():
    text = program(3, 400)
    target = open_target("mlir")
    if not target.availability().usable:
        pytest.skip("no MLIR bindings")
    try:
        result = target.lower(text, PIPELINE, timeout=60.0)
    finally:
        target.close()
    assert result.artifact is not None, result.failure
    outcome = interpret(read_module(text), entry="f", arguments=[], mode=Mode.INTERMEDIATE)
    assert outcome.kind is OutcomeKind.OK, outcome.fault
    ours = [int(o.data) for o in outcome.observed]
    returned = next(op for op in read_module(result.artifact.text).walk() if op.name == "func.return")
    sources = [value.defining_op for value in returned.operands]
    theirs = [constant_data(op.get("value")) if op.name == "arith.constant" else None for op in sources]
    assert len(ours) == len(theirs)
    compared = [(a, b) for a, b in zip(ours, theirs, strict=True) if b is not None]
    assert len(compared) > 350
    assert [a for a, _ in compared] == [b for _, b in compared]

"""The rules against an independent implementation: what the bundled MLIR folds on constants, op by op.

Compared bitwise, except where SEMANTICS lets results differ: signs of zero of maxnumf/minnumf, and math functions
within their error bound.
"""

import math
import random

import numpy as np
import pytest

from difftest.interpreter.dialects import arith, index
from difftest.interpreter.dialects import math as math_dialect
from difftest.interpreter.dialects.arith import constant_data
from difftest.ir.reader import read_module
from difftest.model import Pipeline
from difftest.targets import open_target

RULES = {**arith.ELEMENTWISE, **math_dialect.ELEMENTWISE, **index.ELEMENTWISE}
INTEGERS = ("i1", "i7", "i8", "i32", "i64", "i128", "index")
FLOATS = ("f16", "bf16", "f32", "f64")
WIDTH = {"f16": 16, "bf16": 16, "f32": 32, "f64": 64}
BINARY = """addi subi muli divui divsi ceildivui ceildivsi floordivsi remui remsi shli shrui shrsi andi ori xori
minsi minui maxsi maxui"""
FLOAT_BINARY = "addf subf mulf divf maximumf minimumf maxnumf minnumf remf"
FLOAT_UNARY = """absf ceil floor trunc round roundeven sqrt exp exp2 log log2 log10 log1p expm1 sin cos tan tanh atan
asin acos sinh cosh erf erfc cbrt rsqrt"""
WITH_FLAGS = ("addi", "subi", "muli", "shli")


class Builder:
    """A function of constants, one op on them at a time; each result is kept alive by a use."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.lines = []

    def integer(self, type_text):
        if type_text == "i1":
            return self.rng.choice(("true", "false"))
        width = 64 if type_text == "index" else int(type_text[1:])
        low, high = -(1 << (width - 1)), (1 << (width - 1)) - 1
        value = self.rng.choice([0, 1, -1, 2, low, high, self.rng.randint(low, high), self.rng.randint(0, width)])
        return f"{max(low, min(high, value))} : {type_text}"

    def float(self, type_text):
        rng = self.rng
        sizes = [rng.uniform(-8, 8), rng.uniform(-(2.0**15), 2.0**15), rng.uniform(0, 2.0**-12)]
        return f"{rng.choice([0.0, -0.0, 1.0, -1.5, *sizes]):.17e} : {type_text}"

    def constant(self, type_text):
        return self.integer(type_text) if type_text in INTEGERS else self.float(type_text)

    def op(self, name, operands, results, properties=""):
        names = []
        for type_text in operands:
            names.append(f"%v{len(self.lines)}")
            value = self.constant(type_text)
            self.lines.append(f'{names[-1]} = "arith.constant"() <{{value = {value}}}> : () -> {type_text}')
        held = f"<{{{properties}}}> " if properties else ""
        types = f"({', '.join(operands)}) -> ({', '.join(results)})"
        number = len(self.lines)
        self.lines.append(f'%v{number}:{len(results)} = "{name}"({", ".join(names)}) {held}: {types}')
        for i, type_text in enumerate(results):
            self.lines.append(f'"test.use"(%v{number}#{i}) : ({type_text}) -> ()')

    def text(self):
        body = "\n".join(self.lines)
        return (
            '"builtin.module"() ({ "func.func"() <{function_type = () -> (), sym_name = "f"}> ({\n'
            f'{body}\n"func.return"() : () -> ()\n}}) : () -> () }}) : () -> ()'
        )


def add_integers(b, t):
    for name in BINARY.split():
        b.op(f"arith.{name}", [t, t], [t], "overflowFlags = #arith.overflow<none>" if name in WITH_FLAGS else "")
    for predicate in range(10):
        b.op("arith.cmpi", [t, t], ["i1"], f"predicate = {predicate} : i64")
    if t == "index":
        return
    b.op("arith.mulsi_extended", [t, t], [t, t])
    b.op("arith.mului_extended", [t, t], [t, t])
    b.op("arith.addui_extended", [t, t], [t, "i1"])
    for name in ("ctlz", "cttz", "ctpop", "absi"):
        b.op(f"math.{name}", [t], [t])
    for name in ("index_cast", "index_castui"):
        b.op(f"arith.{name}", [t], ["index"])
        b.op(f"arith.{name}", ["index"], [t])
    for f in FLOATS:
        for name in ("sitofp", "uitofp"):
            b.op(f"arith.{name}", [t], [f])
        for name in ("fptosi", "fptoui"):
            b.op(f"arith.{name}", [f], [t])


def add_floats(b, f):
    for name in FLOAT_BINARY.split():
        b.op(f"arith.{name}", [f, f], [f])
    for predicate in range(16):
        b.op("arith.cmpf", [f, f], ["i1"], f"predicate = {predicate} : i64")
    b.op("arith.negf", [f], [f])
    for other in FLOATS:
        if WIDTH[f] != WIDTH[other]:
            b.op("arith.extf" if WIDTH[f] < WIDTH[other] else "arith.truncf", [f], [other])
    if f in ("f32", "f64"):
        for name in FLOAT_UNARY.split():
            b.op(f"math.{name}", [f], [f])
        b.op("math.powf", [f, f], [f])
        b.op("math.copysign", [f, f], [f])


def build():
    b = Builder(17)
    for _ in range(4):
        for t in INTEGERS:
            add_integers(b, t)
        for f in FLOATS:
            add_floats(b, f)
        for narrow, wide in (("i1", "i8"), ("i8", "i32"), ("i7", "i64"), ("i32", "i128")):
            b.op("arith.extsi", [narrow], [wide])
            b.op("arith.extui", [narrow], [wide])
            b.op("arith.trunci", [wide], [narrow])
        for name in index.ELEMENTWISE:
            if name.split(".")[1] in ("add", "sub", "mul", "divs", "divu", "ceildivs", "ceildivu", "floordivs", "rems"):
                b.op(name, ["index", "index"], ["index"])
        b.op("arith.bitcast", ["f32"], ["i32"])
        b.op("arith.bitcast", ["i64"], ["f64"])
    return b.text()


def evaluate(module):
    """For every use: our value, whether it is undefined or poison, our bound, and the op."""
    values, origins, found = {}, {}, []
    for op in module.walk():
        if op.name == "test.use":
            found.append((values[op.operands[0]], *origins[op.operands[0]]))
        elif op.name in RULES:
            rule, operands = RULES[op.name](op), tuple(values[v] for v in op.operands)
            checks = (rule.undefined, rule.poison)
            bad = any(bool(check(*operands)) for check in checks if check is not None)
            result = rule.compute(*operands)
            bound = None if rule.bound is None else rule.bound(operands, (None,) * len(operands), result)
            for value, data in zip(op.results, result if isinstance(result, tuple) else (result,), strict=True):
                values[value], origins[value] = data, (bad, bound, op)
    return found


def folded(module):
    """For every use: the constant it was folded to, or None."""
    found = []
    for op in module.walk():
        if op.name == "test.use":
            source = op.operands[0].defining_op
            known = source is not None and source.name.endswith("constant")
            found.append(constant_data(source.get("value")) if known else None)
    return found


def equal(ours, theirs, op, bound):
    if isinstance(ours, int):
        return ours == theirs
    ours, theirs = float(ours), float(theirs)
    if math.isnan(ours) or math.isnan(theirs):
        return math.isnan(ours) and math.isnan(theirs)
    if op.name in ("arith.maxnumf", "arith.minnumf"):
        return ours == theirs
    if op.name in RULES and op.name.startswith("math.") and bound is not None and ours != theirs:
        return abs(ours - theirs) <= bound
    return ours == theirs and math.copysign(1, ours) == math.copysign(1, theirs)


def test_constant_folding_agrees_with_the_rules():
    text = build()
    target = open_target("mlir")
    if not target.availability().usable:
        pytest.skip("no MLIR bindings")
    try:
        result = target.lower(text, Pipeline(text="canonicalize"), timeout=60.0)
    finally:
        target.close()
    assert result.artifact is not None, result.failure
    with np.errstate(all="ignore"):
        expected = evaluate(read_module(text))
    compared = 0
    for (ours, bad, bound, op), theirs in zip(expected, folded(read_module(result.artifact.text)), strict=True):
        if theirs is None or bad:
            continue
        compared += 1
        assert equal(ours, theirs, op, bound), (op.name, op.results[0].type, op.line, ours, theirs)
    assert compared > 2000

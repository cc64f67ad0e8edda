"""The tape against Enzyme's compilers: the IR after each pass gives one gradient, or a compiler is wrong."""

import numpy as np
import pytest

from difftest import toolchains
from difftest.errors import ToolchainError
from difftest.interpreter import interpret
from difftest.ir.reader import read_module
from difftest.model import Mode
from difftest.oracle.compare import compare
from difftest.targets import open_target
from difftest.targets.pipelines import resolve

pytestmark = pytest.mark.enzyme
VERSIONS = ["0.0.14", "0.0.15", "0.0.16"]
DUP = "#enzyme<activity enzyme_dup>"
M = "memref<6xf64>"
LOAD = f"%a = memref.load(%x, %i) : ({M}, index) -> f64\n"
SQUARE = "%m = arith.mulf(%a, %a) : (f64, f64) -> f64\n"
STORE = f"memref.store(%m, %y, %i) : (f64, {M}, index) -> ()\n"


@pytest.fixture(scope="module", params=VERSIONS)
def compiler(request):
    label = f"enzyme-ad@{request.param}"
    try:
        toolchains.ensure(label)
    except ToolchainError as error:
        pytest.skip(str(error))
    target = open_target(label)
    yield target
    target.close()


def loop(bounds):
    lower, upper, step = bounds.split(":")
    return f"""%l = const {lower} : index
%u = const {upper} : index
%t = const {step} : index
scf.for(%l, %u, %t) ({{
^bb0(%i: index):
{LOAD}{SQUARE}{STORE}scf.yield() : () -> ()
}}) : (index, index, index) -> ()
"""


def program(p, code):
    """@k differentiates a function of %x and %y with their shadows."""
    names = ("p", "dp", "q", "dq")
    types = ", ".join([M] * 4)
    others = f""""func.func"() <{{function_type = ({M}, {M}) -> (), sym_name = "f", sym_visibility = "private"}}> ({{
^bb0(%x: {M}, %y: {M}):
{p.expand(p.prelude + code)}"func.return"() : () -> ()
}}) : () -> ()
"""
    body = f"""enzyme.autodiff(%p, %dp, %q, %dq) <{{activity = [{DUP}, {DUP}], fn = @f, ret_activity = [],
width = 1 : i64}}> : ({types}) -> ()
"""
    return p.module("; ".join(f"%{n}: {M}" for n in names), body, others=others)


def after_each_pass(text, compiler):
    """The reference, and per pass (name, what its IR does)."""
    x, seed = np.arange(1.0, 7.0), np.ones(6)
    values = [x, np.zeros(6), np.zeros(6), seed]
    reference = interpret(read_module(text), entry="k", arguments=values)
    assert reference.fault is None, reference.fault
    result = compiler.lower(text, resolve("enzyme-diff", compiler.label), stages=True)
    assert result.artifact is not None, result.failure
    runs = [
        (s.after, interpret(read_module(s.text), entry="k", arguments=values, mode=Mode.INTERMEDIATE))
        for s in result.artifact.stages
    ]
    return reference, runs


def differs(reference, outcome):
    return outcome.fault is not None or compare(reference, outcome).difference is not None


@pytest.mark.parametrize("bounds", ["0:6:1", "1:6:1", "2:5:1"])
def test_loops_that_the_compilers_get_right_agree_after_every_pass(p, compiler, bounds):
    reference, runs = after_each_pass(program(p, loop(bounds)), compiler)
    assert [name for name, outcome in runs if differs(reference, outcome)] == []


@pytest.mark.parametrize(("bounds", "gradient"), [("1:6:2", [0, 4, 0, 8, 0, 12]), ("0:6:2", [2, 0, 6, 0, 10, 0])])
def test_a_step_other_than_one_is_wrong_from_one_pass_on(p, compiler, bounds, gradient):
    """The reverse index is taken as ub - 1 - iv, and the cache has (ub - lb) / step slots, rounded down."""
    reference, runs = after_each_pass(program(p, loop(bounds)), compiler)
    assert reference.observed[1].data.tolist() == gradient
    wrong = [name for name, outcome in runs if differs(reference, outcome)]
    assert wrong[0] == "remove-unnecessary-enzyme-ops"
    assert wrong == [name for name, _ in runs][-len(wrong) :]


def test_a_constant_stored_over_an_active_value(p, compiler):
    """0.0.14 and 0.0.15 clear the shadow; 0.0.16 does not, and the overwritten value keeps its gradient."""
    code = f"""%five = const 5.0 : f64
%a = memref.load(%x, %c0) : ({M}, index) -> f64
{SQUARE}memref.store(%m, %y, %c0) : (f64, {M}, index) -> ()
memref.store(%five, %y, %c0) : (f64, {M}, index) -> ()
"""
    reference, runs = after_each_pass(program(p, code), compiler)
    assert reference.observed[1].data.tolist() == [0] * 6
    wrong = [name for name, outcome in runs if differs(reference, outcome)]
    assert (wrong[:1] == ["enzyme"]) is compiler.label.endswith("0.0.16")

"""Short spellings of generic-form programs for the interpreter's tests, and running them."""

import re

import numpy as np
import pytest

from difftest.interpreter import interpret
from difftest.ir.reader import read_module
from difftest.model import Mode, OutcomeKind, Schedule

_NAME = re.compile(r"(?m)^(\s*(?:%\w+(?::\d+)?(?:, %\w+)* = )?)([a-z_]+\.[a-z_.]+)\(")
_CONSTANT = re.compile(r"(?m)^(\s*%\w+) = const (.+?) : (\S+)$")


class Programs:
    """`run(arguments, body, values…)` interprets one function `@k`.

    In `body`, op names need no quotes at the start of a line and `%x = const 1 : i32` is a constant.
    """

    source, intermediate = Mode.SOURCE, Mode.INTERMEDIATE
    prelude = "%c0 = const 0 : index\n%c1 = const 1 : index\n"

    def expand(self, text):
        text = _CONSTANT.sub(r'\1 = "arith.constant"() <{value = \2 : \3}> : () -> \3', text)
        return _NAME.sub(r'\1"\2"(', text)

    def module(self, arguments, body, returns="", others=""):
        """Text of the module; `returns` is `%a, %b : t, u`."""
        pairs = [a.split(":", 1) for a in arguments.split(";")] if arguments else []
        names = ", ".join(f"{n.strip()}: {t.strip()}" for n, t in pairs)
        types = ", ".join(t.strip() for _, t in pairs)
        values, _, kinds = returns.partition(" : ")
        header = f"^bb0({names}):\n" if pairs else ""
        return f""""builtin.module"() ({{
"func.func"() <{{function_type = ({types}) -> ({kinds}), sym_name = "k"}}> ({{
{header}{self.expand(self.prelude + body)}
"func.return"({values}) : ({kinds}) -> ()
}}) : () -> ()
{self.expand(others)}
}}) : () -> ()
"""

    def run(self, arguments, body, *values, returns="", others="", **options):
        module = read_module(self.module(arguments, body, returns, others))
        return interpret(module, entry="k", arguments=list(values), **options)

    def ok(self, *args, **options):
        """Observed values of a run that must end well, by label."""
        outcome = self.run(*args, **options)
        assert outcome.kind is OutcomeKind.OK, outcome.fault
        return {o.label: o for o in outcome.observed}

    def data(self, *args, **options):
        """The data of the observed values, in order."""
        return [o.data for o in self.ok(*args, **options).values()]

    def fault(self, *args, **options):
        """(kind, rule, iteration) of a run that must not end well."""
        outcome = self.run(*args, **options)
        assert outcome.fault is not None, outcome
        return outcome.kind.value, outcome.fault.rule, outcome.fault.iteration

    def parallel(self, bounds, body, *, results="", inits="", tail="scf.reduce() : () -> ()"):
        """scf.parallel from `%i=%lower:%upper:%step, …`."""
        parts = [b.replace("=", ":").split(":") for b in bounds.replace(" ", "").split(",")]
        ivs, lowers, uppers, steps = zip(*parts, strict=True)
        values, _, kinds = inits.partition(" : ")
        starts = [v for v in values.split(", ") if v]
        n = len(parts)
        operands = ", ".join([*lowers, *uppers, *steps, *starts])
        types = ", ".join(["index"] * (3 * n) + ([kinds] if kinds else []))
        block = ", ".join(f"{iv}: index" for iv in ivs)
        sizes = f"array<i32: {n}, {n}, {n}, {len(starts)}>"
        left = f"{results} = " if results else ""
        return f"""{left}scf.parallel({operands}) <{{operandSegmentSizes = {sizes}}}> ({{
^bb0({block}):
{body}
{tail}
}}) : ({types}) -> ({kinds})
"""

    def reduce(self, *pairs):
        """scf.reduce of (value, type, combiner op) triples."""
        values = ", ".join(v for v, _, _ in pairs)
        kinds = ", ".join(t for _, t, _ in pairs)
        regions = ", ".join(
            f"{{\n^bb0(%l{i}: {t}, %r{i}: {t}):\n%q{i} = {o}(%l{i}, %r{i}) : ({t}, {t}) -> {t}\n"
            f"scf.reduce.return(%q{i}) : ({t}) -> ()\n}}"
            for i, (_, t, o) in enumerate(pairs)
        )
        return f"scf.reduce({values}) ({regions}) : ({kinds}) -> ()"


@pytest.fixture
def p():
    return Programs()


@pytest.fixture(params=list(Schedule))
def schedule(request):
    return request.param


@pytest.fixture
def ints():
    """int32 array 0, 1, 2 …"""
    return lambda n: np.arange(n, dtype=np.int32)

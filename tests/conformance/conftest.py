"""Short programs for the semantics suites: the spellings of the interpreter's unit tests, plus launches and regions."""

import numpy as np
import pytest

from difftest.model import Schedule
from tests.unit.interpreter.conftest import Programs

DUP = "#enzyme<activity enzyme_dup>"


class Semantics(Programs):
    """`launch` and `region` are bodies for `run`; `case` gives a reference and a compiled outcome."""

    def launch(self, body, *, grid="%c1", block="%c1"):
        names = ", ".join(f"%{a}{x}: index" for a in ("b", "t", "g", "d") for x in "xyz")
        segments = "array<i32: 0, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0>"
        return f"""gpu.launch({grid}, %c1, %c1, {block}, %c1, %c1) <{{operandSegmentSizes = {segments}}}> ({{
^bb0({names}):
{body}
gpu.terminator() : () -> ()
}}) : (index, index, index, index, index, index) -> ()
"""

    def region(self, body, *, kind, activities=(DUP, DUP), operands="%x, %dx, %y, %dy"):
        """A differentiated region on two buffers of type `kind`, called %p and %q inside."""
        types = ", ".join([kind] * len(operands.split(",")))
        return f"""enzyme.autodiff_region({operands}) <{{activity = [{", ".join(activities)}], ret_activity = []}}> ({{
^bb0(%p: {kind}, %q: {kind}):
{body}
enzyme.yield() : () -> ()
}}) : ({types}) -> ()
"""

    def guarded(self, condition, body):
        """scf.if without results."""
        return f"scf.if({condition}) ({{\n{body}\nscf.yield() : () -> ()\n}}, {{\n}}) : (i1) -> ()\n"

    def loop(self, iv, upper, body, *, lower="%c0", step="%c1", kind="index"):
        """scf.for without results."""
        return (
            f"scf.for({lower}, {upper}, {step}) ({{\n^bb0({iv}: {kind}):\n{body}\nscf.yield() : () -> ()\n}}) : "
            f"({kind}, {kind}, {kind}) -> ()\n"
        )

    def alloc(self, name, kind, *, op="memref.alloc", sizes=""):
        count = len([s for s in sizes.split(",") if s])
        types = ", ".join(["index"] * count)
        return f"%{name} = {op}({sizes}) <{{operandSegmentSizes = array<i32: {count}, 0>}}> : ({types}) -> {kind}\n"

    def load(self, name, memref, index, kind="memref<?xi32>", element="i32"):
        return f"%{name} = memref.load({memref}, {index}) : ({kind}, index) -> {element}\n"

    def store(self, value, memref, index, kind="memref<?xi32>", element="i32"):
        return f"memref.store({value}, {memref}, {index}) : ({element}, {kind}, index) -> ()\n"


@pytest.fixture
def p():
    return Semantics()


@pytest.fixture
def ints():
    """int32 array 0, 1, 2 …"""
    return lambda n: np.arange(n, dtype=np.int32)


@pytest.fixture(params=list(Schedule))
def schedule(request):
    return request.param

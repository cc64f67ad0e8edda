"""A small user's project: a fake opt-like tool that is wrong in known ways, and programs for it."""

from pathlib import Path

import pytest

import difftest.hypothesis_support
import difftest.interpreter.run
import difftest.pytest_items
from difftest.interpreter.registry import all_rules

# Loaded once here: pytester takes back what an inner session imports, numpy included.
assert difftest.hypothesis_support and difftest.interpreter.run and difftest.pytest_items and all_rules()

MY_OPT = """#!/bin/sh
case "$*" in
  *sum-to-product*) exec sed -e 's/"arith.addf"/"arith.mulf"/' ;;
  *fail-always*) echo '<stdin>:1:1: error: cannot be done' >&2; exit 1 ;;
  *fail-on-abort*) kill -ABRT $$ ;;
  *) exec cat ;;
esac
"""
PROGRAM = """"builtin.module"() ({
  "func.func"() <{function_type = (memref<?xf32>) -> (), sym_name = "k"}> ({
  ^bb0(%buffer: memref<?xf32>):
    %zero = "arith.constant"() <{value = 0 : index}> : () -> index
    %x = "memref.load"(%buffer, %zero) : (memref<?xf32>, index) -> f32
    %y = "arith.addf"(%x, %x) : (f32, f32) -> f32
    "memref.store"(%y, %buffer, %zero) : (f32, memref<?xf32>, index) -> ()
    "func.return"() : () -> ()
  }) : () -> ()
}) : () -> ()
"""
WRONG = "// RUN: difftest run %s --target opt:./my-opt --pipeline sum-to-product"
RIGHT = "// RUN: difftest run %s --target opt:./my-opt --pipeline do-nothing"


class Project:
    """A folder with `my-opt` and a corpus."""

    def __init__(self, pytester):
        self.pytester = pytester
        self.path = pytester.path
        tool = pytester.path / "my-opt"
        tool.write_text(MY_OPT)
        tool.chmod(0o755)

    def case(self, *lines, name="case.mlir", program=PROGRAM):
        """Write a corpus file; the given lines are its header."""
        file = Path(self.path / name)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("\n".join([*lines, program]))
        return file

    def run(self, *options):
        """An inner session in this process."""
        return self.pytester.runpytest_inprocess("-p", "no:cacheprovider", *options)

    def ids(self, *options):
        """The node ids an inner session collects."""
        result = self.run("--collect-only", "-q", *options)
        return [line for line in result.outlines if "::" in line]


@pytest.fixture
def project(pytester):
    return Project(pytester)

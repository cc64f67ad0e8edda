"""docs/test-your-own-pass.md, followed to the letter."""

import re
from pathlib import Path

import pytest

pytest_plugins = "pytester"
PAGE = Path(__file__).parents[2] / "docs" / "test-your-own-pass.md"
LISTINGS = re.findall(r"```(\w+)\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
WRONG_PASS = """#!/bin/sh
case "$*" in
  *my-pass*) exec sed -e 's/"arith.addf"/"arith.mulf"/' ;;
  *) exec cat ;;
esac
"""


def listing(language, number=0):
    return [text for kind, text in LISTINGS if kind == language][number]


@pytest.fixture
def user(project):
    """The user's folder after sections 2 to 4."""
    (project.path / "test_my_pass.py").write_text(listing("python"))
    (project.path / "test_same.py").write_text(listing("python", 1))
    (project.path / "corpus").mkdir()
    (project.path / "corpus" / "wrong_sum.mlir").write_text(listing("mlir"))
    return project


def test_the_property_test_is_short():
    assert len(listing("python").splitlines()) <= 15


def test_everything_passes_with_a_right_pass(user):
    assert "my-pass" in listing("mlir")
    result = user.pytester.runpytest_subprocess("-p", "no:cacheprovider", ".")
    result.assert_outcomes(passed=3)


def test_a_wrong_pass_is_found_shrunk_and_shown(user):
    (user.path / "my-opt").write_text(WRONG_PASS)
    result = user.pytester.runpytest_subprocess("-p", "no:cacheprovider", ".")
    result.assert_outcomes(failed=2, passed=1)
    text = result.stdout.str()
    assert "AssertionError: mismatch in my-pass on opt:./my-opt [my-pass]" in text
    assert "// DIFFTEST: entry=k" in text and '"arith.addf"' in text
    assert "expected agree, got mismatch" in text


def test_a_known_failure_keeps_the_build_green(user):
    (user.path / "my-opt").write_text(WRONG_PASS)
    known = re.search(r'`(// DIFFTEST: xfail="[^`]*)`', PAGE.read_text(encoding="utf-8"))
    file = user.path / "corpus" / "wrong_sum.mlir"
    file.write_text(f"{known.group(1)}\n{file.read_text()}")
    user.run("corpus").assert_outcomes(xfailed=1)

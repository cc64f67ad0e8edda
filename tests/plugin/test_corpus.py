"""Our own corpus passes as a user would run it."""

import shutil
from pathlib import Path

import pytest

pytest_plugins = "pytester"
CORPUS = Path(__file__).parents[2] / "corpus"


@pytest.mark.enzyme
@pytest.mark.slow
def test_the_corpus_passes_with_two_workers(pytester):
    shutil.copytree(CORPUS, pytester.path / "corpus", ignore=shutil.ignore_patterns("__pycache__", ".lit*"))
    result = pytester.runpytest_subprocess("-n", "2", "-p", "no:cacheprovider", "--difftest-missing", "error", "corpus")
    outcomes = result.parseoutcomes()
    assert set(outcomes) == {"passed"} and outcomes["passed"] >= 60


def test_each_case_is_collected_once(pytester):
    result = pytester.runpytest_inprocess("-p", "no:cacheprovider", "--collect-only", "-q", str(CORPUS))
    ids = [line for line in result.outlines if ".mlir::" in line]
    assert len(ids) == len(set(ids)) >= 60

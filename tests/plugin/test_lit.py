"""The same files under LLVM's lit."""

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.plugin.conftest import RIGHT, WRONG

pytest_plugins = "pytester"
CORPUS = Path(__file__).parents[2] / "corpus"
pytestmark = [
    pytest.mark.tool,
    pytest.mark.skipif(importlib.util.find_spec("lit") is None, reason="needs lit (pip install lit)"),
]


def lit(folder, *options):
    """(exit code, output) of lit on a folder that gets a copy of the configuration."""
    if not (folder / "lit.cfg.py").exists():
        shutil.copy(CORPUS / "lit.cfg.py", folder)
    code = "import sys; from lit.main import main; sys.exit(main())"
    command = [sys.executable, "-c", code, "-v", "-j", "1", *options, str(folder)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=folder, timeout=200)
    return done.returncode, done.stdout + done.stderr


def test_cases_pass_and_fail_as_under_pytest(project):
    project.case(RIGHT, name="right.mlir")
    project.case(WRONG, name="wrong.mlir")
    project.case(WRONG, "// EXPECT: opt:./my-opt mismatch", name="expected.mlir")
    project.case('// DIFFTEST: xfail="https://example.org/1"', WRONG, name="known.mlir")
    project.case('// DIFFTEST: xfail="https://example.org/1"', RIGHT, name="mended.mlir")
    code, output = lit(project.path)
    assert code == 1
    for name, word in (
        ("right", "PASS"),
        ("expected", "PASS"),
        ("known", "PASS"),
        ("wrong", "FAIL"),
        ("mended", "FAIL"),
    ):
        assert f"{word}: mlir-difftest :: {name}.mlir" in output
    assert "expected agree, got mismatch" in output and "reproduce: difftest run" in output


def test_a_bad_header_is_unresolved(project):
    project.case("// DIFFTEST: colour=red")
    code, output = lit(project.path)
    assert code == 1 and "UNRESOLVED: mlir-difftest :: case.mlir" in output and "'colour=red'" in output


def test_a_compiler_that_cannot_be_had_is_unsupported_or_fails(project):
    project.case(RIGHT.replace("my-opt", "no-such-opt"))
    assert lit(project.path)[0] == 0
    assert lit(project.path, "--param", "missing=error")[0] == 1


def test_other_files_run_in_the_shell_of_lit(project):
    project.case("// RUN: test -f %s", name="good.mlir")
    project.case("// RUN: test -d %s", name="bad.mlir")
    _, output = lit(project.path)
    assert "PASS: mlir-difftest :: good.mlir" in output and "FAIL: mlir-difftest :: bad.mlir" in output


@pytest.mark.enzyme
@pytest.mark.slow
def test_the_corpus_passes(tmp_path):
    shutil.copytree(CORPUS, tmp_path / "corpus", ignore=shutil.ignore_patterns("__pycache__", ".lit*"))
    code, output = lit(tmp_path / "corpus")
    assert code == 0, output

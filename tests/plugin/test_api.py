"""`difftest.api` without pytest."""

from pathlib import Path

import pytest

from difftest import api
from difftest.errors import UsageError
from difftest.model import OutcomeKind, VerdictKind
from tests.plugin.conftest import PROGRAM

pytest_plugins = "pytester"
DOUBLE = PROGRAM.replace('"arith.addf"(%x, %x)', '"arith.subf"(%x, %x)')
OUT_OF_BOUNDS = PROGRAM.replace("value = 0 : index", "value = 9 : index").replace("memref<?xf32>", "memref<2xf32>")
PRETTY = """
func.func @k(%m: memref<2xi32>) {
  %c0 = arith.constant 0 : index
  %x = memref.load %m[%c0] : memref<2xi32>
  memref.store %x, %m[%c0] : memref<2xi32>
  return
}
"""


def test_text_path_and_program_are_sources(tmp_path):
    file = tmp_path / "a.mlir"
    file.write_text("// DIFFTEST: inputs=%buffer:[3]\n" + PROGRAM)
    for source in (PROGRAM, file, api.make_program(file)):
        assert api.run_program(source).kind is OutcomeKind.OK
    assert api.run_program(file).observed[0].data.shape == (3,)
    assert api.run_program(PROGRAM, inputs="%0:[5]").observed[0].data.shape == (5,)


def test_pretty_text_is_read():
    assert api.run_program(PRETTY).kind is OutcomeKind.OK


def test_a_finding_is_an_assertion_with_the_program(project, monkeypatch):
    monkeypatch.chdir(project.path)
    api.assert_agrees(PROGRAM, target="opt:./my-opt", pipeline="do-nothing")
    with pytest.raises(AssertionError, match="mismatch in sum-to-product") as error:
        api.assert_agrees(PROGRAM, target="opt:./my-opt", pipeline="sum-to-product")
    assert "// DIFFTEST: entry=k" in str(error.value) and "memref.store" in str(error.value)
    verdict = api.judge_program(PROGRAM, target=api.open_shared("opt:./my-opt"), pipeline="sum-to-product")
    assert verdict.kind is VerdictKind.MISMATCH
    api.close_shared()


def test_a_bad_program_agrees_with_nothing():
    with pytest.raises(AssertionError, match="bad-program"):
        api.assert_agrees(OUT_OF_BOUNDS, target="null")


def test_same_meaning():
    api.assert_same_meaning(PROGRAM, PROGRAM.replace("%x", "%value"))
    with pytest.raises(AssertionError, match="before and"):
        api.assert_same_meaning(PROGRAM, DOUBLE)
    with pytest.raises(AssertionError, match="after: ub"):
        api.assert_same_meaning(PROGRAM.replace("memref<?xf32>", "memref<2xf32>"), OUT_OF_BOUNDS)
    with pytest.raises(AssertionError, match="observe different things"):
        api.assert_same_meaning(PROGRAM, PROGRAM.replace("f32", "f64"))


def test_requests_that_make_no_sense_are_usage_errors():
    with pytest.raises(UsageError, match="no function @other"):
        api.run_program(PROGRAM, entry="other")
    with pytest.raises(UsageError, match="no such file"):
        api.run_program(Path("nowhere.mlir"))
    with pytest.raises(UsageError, match="unknown target"):
        api.assert_agrees(PROGRAM, target="gcc")
    with pytest.raises(api.UnavailableError, match="cannot be used"):
        api.assert_agrees(PROGRAM, target="opt:/no/such/tool")

"""`difftest interpret` with sizes, arrays, traces, repairs and stages; `difftest doctor --ops`."""

import json

import numpy as np
import pytest
from click.testing import CliRunner

from difftest.cli import cli
from difftest.doctor import examine_ops, registered_ops
from difftest.errors import UsageError
from difftest.explain import Request, explain, explain_stages
from difftest.model import OutcomeKind

GUARDED = """"builtin.module"() ({
  "func.func"() <{function_type = (memref<?xi32>, index, i32) -> i32, sym_name = "k"}> ({
  ^bb0(%mem: memref<?xi32>, %n: index, %x: i32):
    %top = "arith.constant"() <{value = 2147483647 : i32}> : () -> i32
    %v = "memref.load"(%mem, %n) : (memref<?xi32>, index) -> i32
    %s = "arith.addi"(%x, %top) <{overflowFlags = #arith.overflow<nsw>}> : (i32, i32) -> i32
    %t = "arith.addi"(%s, %v) : (i32, i32) -> i32
    "func.return"(%t) : (i32) -> ()
  }) : () -> ()
}) : () -> ()
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "program.mlir"
    path.write_text(GUARDED, encoding="utf-8")
    return path


def run(*arguments):
    """(exit code, standard output) of the command; a UsageError passes through."""
    result = CliRunner().invoke(cli, list(map(str, arguments)), standalone_mode=False)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.return_value, result.stdout


def test_sizes_and_scalars_are_given_by_name_or_number(file):
    found = explain(Request(file=file, shapes=("mem=5", "x=0", "%1=3"))).report
    assert found.outcome.kind is OutcomeKind.OK
    assert found.outcome.observed[0].data.shape == (5,)
    assert found.program.inputs.scalars == {1: 3, 2: 0}


@pytest.mark.parametrize("shape", ["mem", "mem=", "mem=a", "other=3", "9=3", "n=3x4"])
def test_sizes_that_do_not_fit_are_refused_in_one_line(file, shape):
    with pytest.raises(UsageError) as caught:
        explain(Request(file=file, shapes=(shape,)))
    assert "\n" not in str(caught.value)


def test_arguments_come_from_an_npz_file(file, tmp_path):
    path = tmp_path / "data.npz"
    np.savez(path, mem=np.array([5, 6, 7], np.int32), n=np.int64(2), arg2=np.int32(-1))
    report = explain(Request(file=file, inputs=str(path))).report
    assert int(report.outcome.observed[-1].data) == 2147483646 + 7 - (1 << 32)
    with pytest.raises(UsageError, match="no such file"):
        explain(Request(file=file, inputs=str(tmp_path / "missing.npz")))
    (tmp_path / "text.npz").write_text("no arrays", encoding="utf-8")
    with pytest.raises(UsageError, match=r"not an \.npz file"):
        explain(Request(file=file, inputs=str(tmp_path / "text.npz")))
    np.savez(path, strange=np.int32(1))
    with pytest.raises(UsageError, match="no argument strange"):
        explain(Request(file=file, inputs=str(path)))


def test_traces_are_printed_before_the_results(file):
    code, text = run("interpret", file, "--shape", "x=0", "--shape", "mem=4", "--seed", 3, "--trace", "memref.load")
    assert code == 0
    assert (
        text.splitlines()[0].startswith("line 5: ") and "memref.load(memref 4 in object 1, 2)" in text.splitlines()[0]
    )
    many = explain(Request(file=file, shapes=("x=0", "mem=4")), trace=["arith.addi"])
    assert [t.op for t in many.trace] == ["arith.addi", "arith.addi"]
    assert many.as_json()["trace_dropped"] == 0


def test_repairs_are_tried_before_they_are_suggested(file):
    code, text = run("interpret", file, "--explain-ub", "--shape", "mem=4", "--json")
    assert code == 2
    found = json.loads(text)
    assert found["fault"]["rule"] == "nsw"
    assert [s["verified"] for s in found["suggestions"]] == [True, True]
    assert found["suggestions"][1]["change"] == "line 6: drop `overflowFlags` from arith.addi"
    repaired = explain(Request(file=file, inputs=found["suggestions"][0]["inputs"])).report
    assert repaired.outcome.kind is OutcomeKind.OK


def test_a_buffer_that_is_too_small_is_made_larger_and_advice_is_marked(file):
    bad = explain(Request(file=file, shapes=("mem=1", "x=0")), repair=True)
    assert bad.report.outcome.fault.rule == "out-of-bounds"
    first, *_, last = bad.suggestions
    assert "%0:[4]" in first.change and first.verified
    assert not last.verified and "(not tried)" in bad.as_text()
    good = explain(Request(file=file, shapes=("mem=4", "x=0")), repair=True)
    assert good.suggestions == () and good.exit_code == 0


@pytest.mark.parametrize("pipeline", ["canonicalize,cse"])
def test_a_line_per_pass_on_the_bindings(file, pipeline):
    request = Request(file=file, shapes=("mem=4", "x=0"))
    report = explain_stages(request, target="mlir", pipeline=pipeline)
    assert [line.after for line in report.lines] == ["canonicalize", "cse"]
    assert {str(line.verdict.kind) for line in report.lines} == {"agree"}
    assert report.exit_code == 0 and report.stopped == ""
    code, text = run(
        "interpret", file, "--after-each-pass", "--target", "null", "--pipeline", pipeline, "--shape", "mem=4", "--json"
    )
    shown = json.loads(text)
    assert code == 2 and shown["source"]["fault"]["rule"] == "nsw" and shown["stages"] == []


def test_a_stage_that_is_wrong_is_told_and_exits_with_one(file, monkeypatch):
    from difftest import explain as module
    from tests.helpers import PlantedTarget

    def wrong(tree):
        for op in tree.walk():
            if op.name == "arith.addi" and "overflowFlags" not in op.properties:
                op.name = "arith.subi"

    monkeypatch.setattr(module, "open_ready", lambda *_, **__: PlantedTarget(wrong, position=1))
    report = explain_stages(Request(file=file, shapes=("mem=4", "x=0")), target="mlir", pipeline="canonicalize,cse")
    assert [str(line.verdict.kind) for line in report.lines] == ["agree", "mismatch"]
    assert report.exit_code == 1
    assert "mismatch" in report.as_text() and report.as_json()["stages"][1]["difference"]["label"] == "result0"


def test_the_table_of_ops_covers_the_scalar_dialects_entirely():
    rows = {row.dialect: row for row in examine_ops()}
    for dialect in ("cf", "func", "index", "math", "scf", "ub", "builtin"):
        assert rows[dialect].missing == (), dialect
    assert rows["arith"].missing == ("flush_denormals", "scaling_extf", "scaling_truncf")
    assert rows["enzyme"].registered is None and "enzyme.autodiff" in rows["enzyme"].covered
    assert rows["gpu"].missing and rows["gpu"].as_text().endswith("…")
    assert "arith.addi" in registered_ops()
    code, text = run("doctor", "--ops")
    assert code == 0 and text.splitlines()[0].startswith("affine")
    assert {r["dialect"] for r in json.loads(run("doctor", "--ops", "--json")[1])} == rows.keys()


def test_without_bindings_the_table_of_ops_says_so(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(UsageError, match="no MLIR bindings"):
        registered_ops()

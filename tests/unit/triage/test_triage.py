"""A finding explains itself: the step, what it changed, where it comes from, and how to see it alone."""

import json

import pytest

from difftest.commands_triage import Request, completed, load_reference, triage
from difftest.errors import UsageError
from difftest.model import (
    Artifact,
    CompileFailure,
    CompileResult,
    Difference,
    FailureKind,
    InputSpec,
    Pipeline,
    Program,
    Stage,
    VerdictKind,
)
from difftest.oracle.judge import prepare
from difftest.targets.pipelines import split
from difftest.triage.nearest import nearest
from difftest.triage.places import last_writer, line_in
from difftest.triage.reproducer import Reproducer
from difftest.triage.versions import look, version_table
from tests.helpers import PlantedTarget

TEXT = """// a comment
"builtin.module"() ({
  "func.func"() <{function_type = (memref<4xi32>) -> (), sym_name = "k"}> ({
  ^bb0(%m: memref<4xi32>):
    %zero = "arith.constant"() <{value = 0 : index}> : () -> index
    %two = "arith.constant"() <{value = 2 : index}> : () -> index
    %a = "arith.constant"() <{value = 77 : i32}> : () -> i32
    %b = "arith.constant"() <{value = 55 : i32}> : () -> i32
    "memref.store"(%a, %m, %zero) : (i32, memref<4xi32>, index) -> ()
    "memref.store"(%b, %m, %two) : (i32, memref<4xi32>, index) -> ()
    "func.return"() : () -> ()
  }) : () -> ()
  "func.func"() <{function_type = () -> (), sym_name = "other"}> ({
    "func.return"() : () -> ()
  }) : () -> ()
}) : () -> ()
"""


def reference():
    return prepare(Program(text=TEXT, entry="k", inputs=InputSpec(seed=3)))


def change_fifty_five(module):
    for op in module.walk():
        if op.get("value") == "55 : i32":
            op.properties["value"] = "56 : i32"


def test_a_wrong_result_is_explained():
    report = triage(reference(), PlantedTarget(change_fifty_five, position=2), "cse,sccp,canonicalize{x=1},cse")
    assert report.verdict.kind is VerdictKind.MISMATCH and report.exit_code == 1
    assert report.located is not None
    assert (report.located.name, report.located.options) == ("canonicalize", "x=1")
    assert report.located.prefix == ("cse", "sccp")
    assert report.place is not None
    assert (report.place.op, report.place.line) == ("memref.store", 10)
    added = [line for line in report.diff.splitlines() if line.startswith(("-", "+")) and "/" not in line]
    assert len(added) == 2 and "55" in added[0] and "56" in added[1]
    assert "@other" not in report.diff
    assert "3 of 3 other inputs give a wrong result, too" in report.evidence
    plain = json.loads(json.dumps(report.as_json()))
    assert plain["culprit"]["pass"] == "canonicalize" and plain["difference"]["index"] == [2]
    assert "canonicalize {x=1} (step 3 of 4)" in report.as_text()


def test_nothing_is_blamed_for_a_program_that_agrees():
    report = triage(reference(), PlantedTarget(lambda module: None), "cse,sccp")
    assert report.exit_code == 0 and report.located is None and report.reproducer is None


class Inner(PlantedTarget):
    """Plants its fault when the postpass `bad` is run, alone or in a list."""

    def lower(self, text, pipeline, *, stages=False, timeout=20.0):
        position = next((i for i, e in enumerate(split(pipeline.text)) if "bad" in e), -1)
        return PlantedTarget(change_fifty_five, position=position).lower(text, pipeline, stages=stages)


def test_a_postpass_is_blamed_not_the_pass_that_runs_it():
    report = triage(reference(), Inner(change_fifty_five), 'cse,enzyme{postpasses="good,bad{y=2},fine"},cse')
    assert report.located is not None
    assert (report.located.name, report.located.options, report.located.inner) == ("bad", "y=2", True)
    assert report.located.element == 'enzyme{postpasses="good,bad{y=2}"}'
    assert report.reproducer is not None and report.reproducer.confirmed
    assert report.reproducer.passes == ("cse", 'enzyme{postpasses="good,bad{y=2}"}')


class Failing(PlantedTarget):
    """Dies in the pass `bad`."""

    def lower(self, text, pipeline, *, stages=False, timeout=20.0):
        parts = split(pipeline.text)
        position = next((i for i, e in enumerate(parts) if "bad" in e), None)
        if position is None:
            return CompileResult(artifact=Artifact(text=text))
        done = tuple(Stage(after=e, text=text) for e in parts[:position]) if stages else ()
        failure = CompileFailure(kind=FailureKind.CRASH, pass_name="bad", signal=11, stderr='loc("-":9:5): error: x')
        return CompileResult(failure=failure, stages=done)


def test_a_crash_is_explained_with_the_ir_before_it():
    report = triage(reference(), Failing(lambda module: None), "cse,func.func(sccp,bad{z=1}),cse")
    assert report.verdict.kind is VerdictKind.CRASH
    assert report.located is not None
    assert (report.located.element, report.located.options) == ("func.func(bad{z=1})", "z=1")
    assert report.located.prefix == ("cse", "func.func(sccp)")
    assert report.place is not None and (report.place.op, report.place.line) == ("memref.store", 9)
    assert report.reproducer is not None
    assert report.reproducer.confirmed and report.reproducer.single


def test_the_last_writer_of_an_element_is_found_or_known_not_to_exist():
    def at(index):
        return Difference(label="arg0", index=(index,), expected="", actual="", count=1)

    known, op = last_writer(reference(), at(0))
    assert known and op is not None and op.line == 9
    assert last_writer(reference(), at(1)) == (True, None)
    assert last_writer(reference(), Difference(label="result0", index=(), expected="", actual="", count=1))[0] is False


def test_lines_are_those_of_the_users_text():
    loaded = reference()
    stores = [op for op in loaded.module.walk() if op.name == "memref.store"]
    pretty = (
        "// memref.store\nfunc.func @k() {\n  memref.store %a, %m[%x]\n\n  memref.store %b, %m[%y] // memref.store\n}"
    )
    assert [line_in(pretty, loaded, op) for op in stores] == [3, 5]
    assert line_in("func.func @k() {\n  memref.store %a, %m[%x]\n}", loaded, stores[0]) == 0


def test_the_reproducer_spells_command_and_file():
    made = Reproducer(
        program="module {}\n",
        passes=('enzyme{postpasses="cse"}',),
        environment=(("SIZE", "64"),),
        tool="mlir-opt",
        confirmed=True,
    )
    assert made.command() == "SIZE=64 mlir-opt before.mlir '--pass-pipeline=builtin.module(enzyme{postpasses=\"cse\"})'"
    file = made.crash_file()
    assert file.startswith(
        'module {}\n\n{-#\n  external_resources: {\n    mlir_reproducer: {\n      pipeline: "builtin.module('
    )
    assert "verify_each: true" in file and "disable_threading: true" in file and file.endswith("#-}\n")
    assert '"cse"' not in file  # quotes inside the string are escaped


def test_files_are_written(tmp_path):
    report = triage(reference(), PlantedTarget(change_fifty_five), "cse")
    paths = report.write(tmp_path / "out")
    assert [p.name for p in paths] == ["before.mlir", "reproducer.mlir", "pass.diff"]
    assert paths[0].read_text().startswith("// RUN: ")


def test_target_and_pipeline_come_from_the_run_line(tmp_path):
    folder = tmp_path / "finding"
    folder.mkdir()
    (folder / "reduced.mlir").write_text(f"// RUN: difftest run %s --target mlir --pipeline 'A=1 cse'\n{TEXT}")
    request = Request(file=folder)
    assert request.path == folder / "reduced.mlir"
    assert completed(request) == ("mlir", "A=1 cse")
    assert completed(Request(file=folder, pipeline="sccp")) == ("mlir", "sccp")
    bare = tmp_path / "bare.mlir"
    bare.write_text(TEXT)
    with pytest.raises(UsageError, match="--pipeline"):
        completed(Request(file=bare))
    assert completed(Request(file=bare, pipeline="cse"))[1] == "cse"
    bare.write_text(f"// RUN: func.func(a{{x=1 y=2}}),b\n{TEXT}")
    assert completed(Request(file=bare))[1] == "func.func(a{x=1 y=2}),b"


def test_a_crash_on_an_undefined_program_is_explained_all_the_same():
    undefined = TEXT.replace("value = 2 : index", "value = 9 : index")
    loaded = prepare(Program(text=undefined, entry="k"))
    report = triage(loaded, Failing(lambda module: None), "cse,bad")
    assert report.exit_code == 1 and report.located is not None and report.located.name == "bad"
    assert "cannot be judged" in report.note
    assert triage(loaded, Failing(lambda module: None), "cse").verdict.kind is VerdictKind.BAD_PROGRAM


def test_known_shapes_of_the_same_pass_are_near_and_others_are_not():
    found = nearest(TEXT, passes=("affine-cfg",), kind="mismatch")
    assert 0 < len(found) <= 3 and all("affine-cfg" in near.shape.passes for near in found)
    assert [near.score for near in found] == sorted((near.score for near in found), reverse=True)
    assert nearest(TEXT, passes=("no-such-pass",), kind="mismatch") == ()


def test_a_module_without_an_entry_is_judged_by_compiling_it(tmp_path):
    path = tmp_path / "private.mlir"
    path.write_text(
        TEXT.replace('sym_name = "k"', 'sym_name = "k", sym_visibility = "private"').replace(
            'sym_name = "other"', 'sym_name = "other", sym_visibility = "private"'
        )
    )
    loaded, _ = load_reference(Request(file=path), prefer=())
    assert not loaded.usable and loaded.outcome.fault is not None and loaded.outcome.fault.rule == "no-entry"
    crashed = triage(loaded, Failing(lambda module: None), "cse,bad")
    assert crashed.located is not None and crashed.located.name == "bad"
    passes = Pipeline(text="cse,bad")
    assert look(loaded, Failing(lambda module: None), passes).verdict is VerdictKind.CRASH
    assert look(loaded, Failing(lambda module: None), Pipeline(text="cse")).verdict is VerdictKind.AGREE


def test_the_table_of_a_report_compares_toolchains_with_the_finding():
    targets = [Failing(lambda module: None), PlantedTarget(change_fifty_five), PlantedTarget(lambda module: None)]
    passes = Pipeline(text="bad")
    wanted = look(reference(), targets[0], passes).signature
    assert wanted is not None
    table = version_table(reference(), targets, passes, wanted)
    assert [status for _, status in table] == ["same failure", "fails otherwise (mismatch)", "passes"]

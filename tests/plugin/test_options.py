"""`--difftest-…` options and their ini values."""

import pytest

from tests.plugin.conftest import RIGHT, WRONG

pytest_plugins = "pytester"


def test_another_target_and_pipeline_replace_those_of_the_file(project):
    project.case(RIGHT)
    options = ("--difftest-target", "null", "--difftest-pipeline", "a", "--difftest-pipeline", "b")
    assert project.ids(*options) == ["case.mlir::null-a", "case.mlir::null-b"]


def test_a_chosen_pipeline_must_not_give_a_finding(project):
    project.case(RIGHT, "// EXPECT: mismatch on opt:./my-opt")
    result = project.run("--difftest-pipeline", "sum-to-product")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["a finding: mismatch"])


def test_seeds_are_counted_and_shown_in_ids(project):
    project.case(RIGHT)
    assert project.ids("--difftest-seeds", "2") == [
        "case.mlir::opt:./my-opt-do-nothing-seed0",
        "case.mlir::opt:./my-opt-do-nothing-seed1",
    ]
    assert project.ids("--difftest-seeds", "7,") == ["case.mlir::opt:./my-opt-do-nothing-seed7"]


def test_a_seed_changes_the_contents(project):
    project.case(WRONG)
    first, second = (project.run("--difftest-seeds", f"{n},").stdout.str() for n in (1, 2))
    shown = [line for text in (first, second) for line in text.splitlines() if "differ)" in line]
    assert len(set(shown)) == 2, shown


def test_ini_values_are_used(project):
    project.case(RIGHT)
    project.pytester.makeini("[pytest]\ndifftest_target = null\ndifftest_pipeline =\n    a\n    b,c\n")
    assert project.ids() == ["case.mlir::null-a", "case.mlir::null-b,c"]


@pytest.mark.parametrize("option", ["--difftest-device=toaster", "--difftest-seeds=some"])
def test_values_that_make_no_sense_are_refused(project, option):
    project.case(RIGHT)
    result = project.run(option)
    assert result.ret != 0 and option.split("=")[0] in result.stdout.str() + result.stderr.str()


def test_findings_are_saved_as_cases(project):
    project.case(WRONG)
    project.run("--difftest-save-findings", "found").assert_outcomes(failed=1)
    saved = list((project.path / "found").glob("*.mlir"))
    assert len(saved) == 1 and saved[0].read_text().startswith(WRONG)
    project.run("found").assert_outcomes(failed=1)


def test_a_tool_that_is_missing_is_a_skip(project):
    project.case("// DIFFTEST: requires=tool:no-such-tool", RIGHT)
    project.run("-rs").stdout.fnmatch_lines(["SKIPPED*needs no-such-tool on PATH"])


def test_a_gpu_is_a_marker(project):
    project.case("// DIFFTEST: requires=gpu", RIGHT)
    assert project.ids("-m", "not gpu") == []
    assert len(project.ids("-m", "gpu and difftest")) == 1

"""`--difftest-update` writes the verdicts met, shows the change, and touches nothing else."""

from tests.plugin.conftest import PROGRAM, RIGHT, WRONG

pytest_plugins = "pytester"


def test_a_new_verdict_is_shown_and_written(project):
    file = project.case("// About.", WRONG)
    result = project.run("--difftest-update")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["+// EXPECT: opt:./my-opt mismatch"])
    assert file.read_text() == "\n".join(["// About.", WRONG, "// EXPECT: opt:./my-opt mismatch", PROGRAM])
    project.run().assert_outcomes(passed=1)


def test_a_file_that_is_right_is_not_touched(project):
    file = project.case(WRONG, "// EXPECT: mismatch(sum-to-product) on opt:./my-opt; agree on >=7")
    before = file.stat().st_mtime_ns
    project.run("--difftest-update")
    assert file.stat().st_mtime_ns == before


def test_pipelines_that_differ_are_named(project):
    file = project.case(WRONG, RIGHT, "// EXPECT: opt:./my-opt crash")
    project.run("--difftest-update")
    assert file.read_text().splitlines()[2:4] == [
        "// EXPECT: mismatch on opt:./my-opt with sum-to-product",
        "// EXPECT: agree on opt:./my-opt with do-nothing",
    ]
    project.run().assert_outcomes(passed=2)


def test_what_is_said_about_others_stays(project):
    file = project.case(WRONG, "// EXPECT: crash on opt:./my-opt; hang on mlir")
    project.run("--difftest-update", "-k", "my-opt")
    assert file.read_text().splitlines()[1:3] == ["// EXPECT: opt:./my-opt mismatch", "// EXPECT: mlir hang"]


def test_workers_report_and_the_controller_writes(project):
    file = project.case(WRONG)
    result = project.pytester.runpytest_subprocess("-n", "2", "--difftest-update", "-p", "no:cacheprovider")
    result.assert_outcomes(passed=1)
    assert "// EXPECT: opt:./my-opt mismatch" in file.read_text()

"""A compiler that cannot be had is a skip or an error, as chosen; one that does not exist is always an error."""

from tests.plugin.conftest import RIGHT

pytest_plugins = "pytester"
MISSING = RIGHT.replace("./my-opt", "./no-such-opt")


def test_a_missing_compiler_is_a_skip_with_a_reason(project):
    project.case(MISSING)
    result = project.run("-rs")
    result.assert_outcomes(skipped=1)
    result.stdout.fnmatch_lines(["SKIPPED*no-such-opt cannot be used: *"])


def test_a_missing_compiler_is_an_error_when_asked(project):
    project.case(MISSING)
    project.run("--difftest-missing", "error").assert_outcomes(failed=1)


def test_an_unknown_target_is_never_skipped(project):
    project.case(RIGHT.replace("opt:./my-opt", "gcc"))
    result = project.run()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["unknown target 'gcc': known are *"])


def test_an_unknown_word_is_refused(project):
    project.case(MISSING)
    assert project.run("--difftest-missing", "perhaps").ret != 0

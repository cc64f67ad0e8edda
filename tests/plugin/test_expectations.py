"""EXPECT lines and known failures decide what passes."""

from tests.plugin.conftest import RIGHT, WRONG

pytest_plugins = "pytester"
LINK = "sums become products, https://example.org/1"


def test_an_expected_finding_passes(project):
    project.case(WRONG, "// EXPECT: mismatch on opt:./my-opt")
    project.run().assert_outcomes(passed=1)


def test_an_expected_finding_that_is_gone_fails(project):
    project.case(RIGHT, "// EXPECT: mismatch on opt:./my-opt")
    result = project.run()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["expected mismatch (line 2), got agree"])


def test_the_pass_to_blame_is_compared(project):
    project.case(WRONG, "// EXPECT: mismatch(another-pass) on opt:./my-opt")
    result = project.run()
    result.stdout.fnmatch_lines(["expected mismatch(another-pass) (line 2), got mismatch(sum-to-product)"])


def test_an_expectation_may_be_about_one_pipeline(project):
    project.case(WRONG, RIGHT, "// EXPECT: mismatch on opt:./my-opt with sum-to-product")
    project.run().assert_outcomes(passed=2)


def test_a_known_failure_is_an_xfail(project):
    project.case(f'// DIFFTEST: xfail="{LINK}"', WRONG)
    project.run().assert_outcomes(xfailed=1)


def test_a_known_failure_is_strict(project):
    project.case(f'// DIFFTEST: xfail="{LINK}"', RIGHT)
    result = project.run()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines([f"?XPASS(strict)? {LINK}"])


def test_a_known_failure_may_be_about_one_target(project):
    project.case(f'// DIFFTEST: xfail="{LINK}" xfail-on=mlir', WRONG)
    project.run().assert_outcomes(failed=1)


def test_runxfail_shows_the_failure(project):
    project.case(f'// DIFFTEST: xfail="{LINK}"', WRONG)
    project.run("--runxfail").assert_outcomes(failed=1)

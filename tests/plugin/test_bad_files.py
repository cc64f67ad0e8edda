"""What is wrong with a file is one line with its place, and stops nothing else."""

import pytest

from tests.plugin.conftest import PROGRAM, RIGHT

pytest_plugins = "pytester"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("// DIFFTEST: colour=red", "case.mlir:2: unknown header entry 'colour=red'"),
        ("// EXPECT: mlir wrong", "case.mlir:2: EXPECT needs a target and a verdict"),
        ("// EXPECT: wrong on mlir", "case.mlir:2: unknown verdict 'wrong'"),
        ("// EXPECT: agree on enzyme-ad>=new", "case.mlir:2: '>=new' is not a version range"),
        ("// EXPECT: agree on >=0.0.16", "case.mlir:2: '>=0.0.16' is not a target"),
        ('// DIFFTEST: xfail="no link"', "case.mlir:2: xfail needs a reason with a link"),
        ("// DIFFTEST: xfail-on=mlir", "case.mlir:2: xfail-on without xfail"),
        ("// DIFFTEST: requires=luck", "case.mlir:2: requirement 'luck' is neither gpu nor tool:NAME"),
        ('// DIFFTEST: xfail="open', "case.mlir:2: no closing quotation in the header"),
        (RIGHT, "case.mlir:2: the RUN line repeats that of line 1"),
        ("// RUN: difftest run %s --colour red", "case.mlir:2: the RUN line has '--colour'"),
        ("// RUN: difftest run %s --target", "case.mlir:2: --target needs a value"),
    ],
)
def test_a_bad_header_is_one_line_with_its_place(project, line, message):
    project.case(RIGHT, line)
    result = project.run()
    result.assert_outcomes(errors=1)
    assert message in result.stdout.str() and "Traceback" not in result.stdout.str()


def test_a_key_given_twice_is_refused(project):
    project.case(RIGHT, "// DIFFTEST: entry=k", "// DIFFTEST: entry=m")
    project.run().stdout.fnmatch_lines(["*case.mlir:3: entry was already given at *case.mlir:2"])


def test_a_second_word_about_one_target_is_refused(project):
    project.case(RIGHT, "// EXPECT: mlir agree", "// EXPECT: crash on mlir")
    project.run().stdout.fnmatch_lines(["*case.mlir:3: line 2 already says what is expected of mlir"])


def test_contradicting_ranges_are_refused(project):
    project.case(RIGHT, "// EXPECT: agree on enzyme-ad>=0.0.15; crash on enzyme-ad>=0.0.16")
    project.run("--difftest-target", "enzyme-ad@0.0.16").stdout.fnmatch_lines(["*expect different verdicts*"])


def test_a_file_that_is_not_utf8_is_an_error(project):
    (project.path / "case.mlir").write_bytes(RIGHT.encode() + b"\n// \xff\xfe\n")
    result = project.run()
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*case.mlir is not UTF-8 text*"])


def test_text_that_is_no_program_is_one_line(project):
    project.case(RIGHT, program=PROGRAM.replace("%x, %x", "%x, %nothing"))
    result = project.run()
    result.assert_outcomes(failed=1)
    assert "nothing" in result.stdout.str() and "Traceback" not in result.stdout.str()


def test_the_other_files_still_run(project):
    project.case("// DIFFTEST: colour=red", name="bad.mlir")
    project.case(RIGHT, name="good.mlir")
    project.run("--continue-on-collection-errors").assert_outcomes(passed=1, errors=1)

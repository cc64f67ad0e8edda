"""What a failing case prints: short, complete, and no traceback for a compiler's failure."""

from tests.plugin.conftest import RIGHT, WRONG

pytest_plugins = "pytester"


def test_a_right_compiler_passes(project):
    project.case(RIGHT)
    project.run().assert_outcomes(passed=1)


def test_a_mismatch_names_pass_difference_and_commands(project):
    project.case(WRONG)
    result = project.run()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "*opt:./my-opt-sum-to-product (case.mlir)*",
            "expected agree, got mismatch",
            "  mismatch in sum-to-product on opt:./my-opt ?sum-to-product?",
            "    * is *, expected * (1 differ)",
            "  reproduce: difftest run *case.mlir --target opt:./my-opt --pipeline sum-to-product",
            "  reduce:    reducer *case.mlir --target opt:./my-opt --pipeline sum-to-product -o reduced.mlir",
        ]
    )
    assert "Traceback" not in result.stdout.str()
    # With CI set, pytest repeats the whole report in its summary; the report itself is what must be short.
    start = result.outlines.index("expected agree, got mismatch")
    assert next(i for i, line in enumerate(result.outlines[start:]) if line.startswith("=")) <= 8


def test_a_refusal_and_a_crash_are_reports_too(project):
    project.case(WRONG.replace("sum-to-product", "fail-always"), name="a.mlir")
    project.case(WRONG.replace("sum-to-product", "fail-on-abort"), name="b.mlir")
    result = project.run()
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(["expected agree, got pass-failure*", "*cannot be done*", "expected agree, got crash*"])
    assert "Traceback" not in result.stdout.str()


def test_verbose_names_keep_their_dots(project):
    project.case(RIGHT)
    project.run("-v").stdout.fnmatch_lines(["case.mlir::opt:./my-opt-do-nothing PASSED*"])


def test_junit_carries_signature_and_versions(project):
    project.case(WRONG)
    project.run("--junitxml=out.xml")
    xml = (project.path / "out.xml").read_text()
    for part in ('name="verdict" value="mismatch"', 'name="signature"', 'name="difftest"', 'name="target"'):
        assert part in xml

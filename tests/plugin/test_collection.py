"""Which files become items, and what the items are called."""

import time

from difftest.collect import read_cases
from tests.plugin.conftest import RIGHT

pytest_plugins = "pytester"


def test_a_run_line_is_an_item(project):
    project.case(RIGHT)
    assert project.ids() == ["case.mlir::opt:./my-opt-do-nothing"]


def test_a_known_compiler_and_pipeline_read_well(project):
    project.case("// RUN: difftest run %s --target enzyme-ad@0.0.16 --pipeline enzyme-cuda", name="convert.mlir")
    assert project.ids() == ["convert.mlir::enzyme-ad@0.0.16-enzyme-cuda"]


def test_passes_with_options_are_named_by_pass(project):
    project.case("// RUN: difftest run %s --target mlir --pipeline 'func.func(affine-loop-unroll{unroll-factor=2})'")
    assert project.ids() == ["case.mlir::mlir-affine-loop-unroll"]


def test_equal_names_get_a_suffix_each(project):
    run = "// RUN: difftest run %s --target mlir --pipeline 'func.func(affine-loop-unroll{unroll-factor=COUNT})'"
    project.case(run.replace("COUNT", "2"), run.replace("COUNT", "3"))
    names = project.ids()
    assert len(set(names)) == 2 and all(name.startswith("case.mlir::mlir-affine-loop-unroll~") for name in names)


def test_every_version_that_an_expectation_covers_is_an_item(project):
    run = "// RUN: difftest run %s --target enzyme-ad@0.0.16 --pipeline canonicalize"
    project.case(run, "// EXPECT: agree on enzyme-ad>=0.0.15,<=0.0.16; agree on mlir")
    assert sorted(project.ids()) == [
        "case.mlir::enzyme-ad@0.0.15-canonicalize",
        "case.mlir::enzyme-ad@0.0.16-canonicalize",
        "case.mlir::mlir-canonicalize",
    ]


def test_targets_and_pipelines_of_the_header_multiply(project):
    project.case("// DIFFTEST: target=mlir target=null pipeline=cse pipeline=sccp")
    assert len(project.ids()) == 4


def test_a_program_alone_is_checked_for_validity(project):
    project.case("// DIFFTEST: entry=k inputs=%buffer:[3]")
    assert project.ids() == ["case.mlir::null-empty"]
    project.run().assert_outcomes(passed=1)


def test_files_without_a_header_are_left_alone(project):
    project.case("// RUN: mlir-opt %s | FileCheck %s")
    assert project.ids() == []


def test_five_thousand_files_are_read_in_three_seconds(project):
    # Our share of a collection; pytest's own nodes cost about as much again.
    files = [project.case(RIGHT, name=f"case_{number}.mlir", program="module {}") for number in range(5000)]
    started = time.process_time()
    assert sum(len(read_cases(file)) for file in files) == 5000
    assert time.process_time() - started < 3

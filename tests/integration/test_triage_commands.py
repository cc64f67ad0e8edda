"""`triage`, `bisect` and `schedule` on the documented cases."""

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from difftest.cli import cli, execute
from difftest.model import OutcomeKind
from difftest.targets import open_target

ROOT = Path(__file__).parents[2]
FIRST = str(ROOT / "corpus" / "seeds" / "convert_parallel_to_gpu1.mlir")
HOST_ONLY = str(ROOT / "corpus" / "known" / "remove_dead_values_nested_reduction.mlir")
SECOND = str(ROOT / "corpus" / "seeds" / "operation_level_parallelism.mlir")


def run(*arguments):
    """Exit code and standard output of a `difftest` command."""
    result = CliRunner().invoke(cli, list(arguments), standalone_mode=False)
    assert result.exception is None, result.exception
    return int(result.return_value or 0), result.stdout


@pytest.fixture
def cache(monkeypatch, tmp_path):
    """Answers are kept in an empty folder that still knows the installed toolchains."""
    from difftest import toolchains

    installed = toolchains.cache_folder() / "toolchains"
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "toolchains").symlink_to(installed)
    monkeypatch.setenv("MLIR_DIFFTEST_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.mark.enzyme
def test_the_first_documented_case_names_its_pass_and_reproduces_alone(tmp_path):
    code, out = run("triage", FIRST, "--target", "enzyme-ad@0.0.15", "--json", "-o", str(tmp_path))
    report = json.loads(out)
    assert code == 1
    assert report["culprit"]["pass"] == "convert-parallel-to-gpu1" and report["culprit"]["position"] == 1
    assert report["reproducer"]["confirmed"] and report["reproducer"]["single_pass"]
    # What is written stands alone: the compiler refuses the one pass on the file as it is.
    code, out = run(
        "triage",
        str(tmp_path / "before.mlir"),
        "--target",
        "enzyme-ad@0.0.15",
        "--pipeline",
        "convert-parallel-to-gpu1",
        "--entry",
        "mre",
        "--json",
    )
    assert code == 1 and json.loads(out)["verdict"] == report["verdict"]


@pytest.mark.enzyme
def test_the_crash_reproducer_is_read_by_mlir(tmp_path):
    run("triage", str(ROOT / "corpus" / "known" / "parallel_unroll_lower_bound_and_step.mlir"), "-o", str(tmp_path))
    target = open_target("mlir")
    try:
        result = target.to_generic((tmp_path / "reproducer.mlir").read_text())
    finally:
        target.close()
    assert result.artifact is not None, result.failure


@pytest.mark.enzyme
def test_a_pass_inside_an_option_is_to_blame(tmp_path):
    """`enzyme` runs its postpasses itself; the one that loses the step is named, not `enzyme`."""
    known = ROOT / "corpus" / "known" / "gradient_of_a_stepped_loop.mlir"
    passes = 'outline-enzyme-regions,enzyme{postpasses="canonicalize,remove-unnecessary-enzyme-ops,cse"},canonicalize'
    code, out = run("triage", str(known), "--target", "enzyme-ad@0.0.16", "--pipeline", passes, "--json")
    culprit = json.loads(out)["culprit"]
    assert code == 1 and culprit["pass"] == "remove-unnecessary-enzyme-ops"
    assert culprit["element"] == 'enzyme{postpasses="canonicalize,remove-unnecessary-enzyme-ops"}'


@pytest.mark.enzyme
def test_bisect_says_where_the_first_case_was_fixed_and_keeps_the_answers(cache):
    arguments = ("bisect", FIRST, "--versions", "0.0.14..0.0.16", "--target", "mlir", "--json")
    code, out = run(*arguments)
    report = json.loads(out)
    assert code == 1
    assert report["fixed_in"] == "0.0.16" and report["introduced_in"] is None
    assert [row["status"] for row in report["versions"]] == ["same failure", "same failure", "passes", "cannot express"]
    assert len(list((cache / "verdicts").glob("*.json"))) == 4
    again = json.loads(run(*arguments)[1])
    assert all(row["cached"] for row in again["versions"])
    assert [row["status"] for row in again["versions"]] == [row["status"] for row in report["versions"]]


@pytest.mark.enzyme
def test_bisect_says_where_a_bug_came_in(cache):
    known = ROOT / "corpus" / "known" / "int_range_affine_parallel_reduction.mlir"
    code, out = run("bisect", str(known), "--target", "mlir", "--json", "--versions", "0.0.14..0.0.16")
    report = json.loads(out)
    assert code == 1 and report["introduced_in"] == "0.0.15" and report["fixed_in"] is None
    assert report["also_upstream"] is False


@pytest.mark.parametrize("pipeline", ["nvvm-async-outline", "nvvm-async"])
def test_the_second_documented_case_is_serialised_by_a_wait_around_an_allocation(pipeline, tmp_path):
    picture = tmp_path / "schedule.svg"
    code, out = run("schedule", SECOND, "--target", "mlir", "--pipeline", pipeline, "--json", "--svg", str(picture))
    report = json.loads(out)
    assert code == 0 and report["outcome"] == str(OutcomeKind.OK) and report["agrees"] is True
    first, second, third = report["launches"]
    assert (first["must_follow"], second["must_follow"], third["must_follow"]) == ([], [], [1, 2])
    assert second["after"] == [1]
    (needless,) = report["needless"]
    assert (needless["first"], needless["second"], needless["op"]) == (1, 2, "gpu.wait")
    assert [re.sub(r"\d+", "N", r) for r in needless["reasons"]] == ["memref.alloc at line N"]
    assert (report["at_once"], report["possible_at_once"]) == (1, 2)
    assert picture.read_text().startswith("<svg")


def test_hoisting_the_allocation_makes_the_second_case_concurrent_and_it_still_agrees():
    _, out = run("schedule", SECOND, "--target", "mlir", "--pipeline", "nvvm-async-outline", "--json")
    hoisted, concurrent = json.loads(out)["variants"]
    assert hoisted["agrees"] is True and concurrent["agrees"] is True
    # gpu-async-region passes one token through all launches of a block, so the wait is gone but the order is not.
    assert [n["op"] for n in hoisted["needless"]] == ["gpu.launch_func"]
    assert concurrent["at_once"] == 2 and not concurrent["needless"] and not concurrent["races"]


def test_synchronous_launches_are_told_as_such():
    _, out = run("schedule", SECOND, "--target", "mlir", "--pipeline", "nvvm-outline", "--json")
    (needless,) = json.loads(out)["needless"]
    assert needless["op"] == "gpu.launch_func" and "synchronous" in needless["reasons"][0]


@pytest.mark.parametrize(
    "arguments",
    [
        ("triage", "missing.mlir"),
        ("bisect", FIRST, "--versions", "0.0.16..0.0.14"),
        ("bisect", FIRST, "--versions", "new"),
        ("schedule", HOST_ONLY, "--target", "mlir", "--pipeline", "canonicalize"),
    ],
)
def test_bad_requests_are_one_line_and_exit_code_two(arguments, capsys):
    assert execute(cli, list(arguments)) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1

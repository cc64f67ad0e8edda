"""The commands as a user runs them: exit codes, one JSON object, one line for what cannot be done."""

import json
from pathlib import Path

import pytest

from difftest.cli import cli, execute

SEEDS = Path(__file__).parents[2] / "corpus" / "seeds"
DOCUMENTED = "canonicalize,convert-parallel-to-gpu1"
SQUARES = "(memref<6xf64>, memref<6xf64>) -> ()"
GRADIENT = "(memref<6xf64>, memref<6xf64>, memref<6xf64>, memref<6xf64>) -> ()"
STEP = f"""\
"builtin.module"() ({{{{
  "func.func"() <{{{{function_type = {SQUARES}, sym_name = "squares", sym_visibility = "private"}}}}> ({{{{
  ^bb0(%x: memref<6xf64>, %y: memref<6xf64>):
    %c1 = "arith.constant"() <{{{{value = 1 : index}}}}> : () -> index
    %step = "arith.constant"() <{{{{value = {{step}} : index}}}}> : () -> index
    %c6 = "arith.constant"() <{{{{value = 6 : index}}}}> : () -> index
    "scf.for"(%c1, %c6, %step) ({{{{
    ^bb0(%i: index):
      %a = "memref.load"(%x, %i) : (memref<6xf64>, index) -> f64
      %m = "arith.mulf"(%a, %a) : (f64, f64) -> f64
      "memref.store"(%m, %y, %i) : (f64, memref<6xf64>, index) -> ()
      "scf.yield"() : () -> ()
    }}}}) : (index, index, index) -> ()
    "func.return"() : () -> ()
  }}}}) : () -> ()
  "func.func"() <{{{{function_type = {GRADIENT}, sym_name = "gradient"}}}}> ({{{{
  ^bb0(%x: memref<6xf64>, %dx: memref<6xf64>, %y: memref<6xf64>, %dy: memref<6xf64>):
    "enzyme.autodiff"(%x, %dx, %y, %dy) <{{{{activity = [#enzyme<activity enzyme_dup>, \
#enzyme<activity enzyme_dup>], fn = @squares, ret_activity = [], width = 1 : i64}}}}> : {GRADIENT}
    "func.return"() : () -> ()
  }}}}) : () -> ()
}}}}) : () -> ()
"""


@pytest.fixture
def difftest(capfd):
    def call(*arguments):
        code = execute(cli, [str(a) for a in arguments])
        out, err = capfd.readouterr()
        return code, out, err

    return call


@pytest.mark.enzyme
@pytest.mark.parametrize("version", ["0.0.14", "0.0.15"])
def test_the_documented_case_fails_on_old_versions(difftest, version):
    file = SEEDS / "convert_parallel_to_gpu1.mlir"
    code, out, _ = difftest("run", file, "--target", f"enzyme-ad@{version}", "--pipeline", DOCUMENTED, "--json")
    report = json.loads(out)
    assert (code, report["verdict"], report["pass"]) == (1, "pass-failure", "convert-parallel-to-gpu1")


@pytest.mark.enzyme
def test_the_documented_case_passes_on_the_fixed_version(difftest):
    file = SEEDS / "convert_parallel_to_gpu1.mlir"
    code, out, _ = difftest("run", file, "--target", "enzyme-ad@0.0.16", "--pipeline", DOCUMENTED, "--json")
    report = json.loads(out)
    assert (code, report["verdict"]) == (0, "agree")
    assert report["notes"].get("benign", 0) > 0, report["notes"]


@pytest.mark.enzyme
@pytest.mark.parametrize("target", ["mlir", "enzyme-ad@0.0.16"])
@pytest.mark.parametrize("pipeline", ["nvvm-outline", "nvvm-async-outline"])
def test_the_second_documented_case_agrees_in_all_forms(difftest, target, pipeline):
    file = SEEDS / "operation_level_parallelism.mlir"
    code, out, _ = difftest("run", file, "--target", target, "--pipeline", pipeline, "--json")
    assert (code, json.loads(out)["verdict"]) == (0, "agree")


@pytest.mark.enzyme
@pytest.mark.parametrize("version", ["0.0.14", "0.0.15", "0.0.16"])
@pytest.mark.parametrize(("step", "verdict"), [(1, "agree"), (2, "mismatch")])
def test_the_gradient_of_a_loop_whose_step_does_not_divide_its_range(difftest, tmp_path, version, step, verdict):
    file = tmp_path / "step.mlir"
    file.write_text(STEP.format(step=step))
    arguments = ("--entry", "gradient", "--target", f"enzyme-ad@{version}", "--pipeline", "enzyme-diff", "--json")
    code, out, err = difftest("run", file, *arguments)
    assert json.loads(out)["verdict"] == verdict, err
    assert code == (1 if verdict == "mismatch" else 0)


BAD_FILES = {
    "missing.mlir": (None, "no such file"),
    "empty.mlir": (b"", "is empty"),
    "prose.mlir": (b"this is not MLIR at all\n", ":1:"),
    "binary.mlir": (b"\x00\xff\xfe\x80 not text", "not UTF-8"),
    "large.mlir": (b"x" * 10_000_000, "the limit is"),
    "half.mlir": (b'"builtin.module"() ({\n  "func.func"() <{sym_name = "k"', ":2:"),
    "skewed.mlir": (b"func.func @k() {\n  arith.not_yet_invented\n  return\n}\n", "not_yet_invented"),
    "header.mlir": (b"// DIFFTEST: colour=red\nfunc.func @k() { return }\n", "colour"),
}


@pytest.mark.parametrize("name", BAD_FILES)
@pytest.mark.parametrize("command", ["run", "interpret"])
def test_a_bad_file_gives_one_clear_line(difftest, tmp_path, name, command):
    content, part = BAD_FILES[name]
    file = tmp_path / name
    if content is not None:
        file.write_bytes(content)
    code, out, err = difftest(command, file, *(("--target", "mlir") if command == "run" else ()))
    assert code == 2 and not out
    assert err.count("\n") == 1 and part in err and name in err and len(err) < 400


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (("--target", "gcc@14"), "unknown target 'gcc@14'"),
        (("--target", "enzyme-ad@9.9.9"), "9.9.9"),
        (("--target", "opt:/does/not/exist"), "/does/not/exist"),
        (("--target", "mlir", "--pipeline", "nvm"), "nvvm"),
        (("--target", "mlir", "--pipeline", "canonicalize,no-such-pass"), "no-such-pass"),
        (("--target", "mlir", "--entry", "nobody"), "no function @nobody"),
        (("--target", "mlir", "--inputs", "%lhs:[9,9]"), "does not fit"),
        (("--target", "mlir", "--inputs", "%nothing=1"), "no argument %nothing"),
        (("--target", "mlir", "--no-such-option"), "--no-such-option"),
    ],
)
def test_a_bad_request_gives_one_clear_line(difftest, arguments, part):
    code, out, err = difftest("run", SEEDS / "operation_level_parallelism.mlir", *arguments)
    assert code == 2 and not out
    assert err.count("\n") == 1 and part in err


def test_a_directory_is_refused(difftest, tmp_path):
    code, _, err = difftest("run", tmp_path, "--target", "mlir")
    assert code == 2 and err.count("\n") == 1 and "is a directory" in err


def test_the_same_seeds_give_the_same_programs_and_buckets(difftest, tmp_path):
    reports = []
    for jobs in (1, 2):
        folder = tmp_path / str(jobs)
        arguments = ("--target", "null", "--target", "mlir", "--count", 24, "-j", jobs, "--out", folder, "--json")
        code, out, _ = difftest("fuzz", *arguments)
        report = json.loads(out)
        assert code in {0, 1} and report["programs"] == 24 and not report["harness_faults"]
        reports.append({k: report[k] for k in ("verdicts", "findings", "suspect_reference", "exit_code")})
        for finding in reports[-1]["findings"]:
            finding["path"] = finding["path"].removeprefix(str(folder))
    assert reports[0] == reports[1]


def test_generated_programs_replay_from_their_file(difftest, tmp_path):
    code, out, _ = difftest("generate", "--seed", 5, "--count", 3, "-o", tmp_path)
    assert code == 0 and not out
    files = sorted(tmp_path.glob("*.mlir"))
    assert [f.name for f in files] == ["5.mlir", "6.mlir", "7.mlir"]
    code, out, _ = difftest("interpret", files[0], "--json")
    assert json.loads(out)["outcome"] in {"ok", "unsupported"}


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (("--target", "mlir", "--pipeline", "nosuch"), "nosuch"),
        (("--target", "mlir", "--profile", "nosuch"), "unknown profile 'nosuch'"),
        (("--target", "nosuch"), "unknown target 'nosuch'"),
        (("--target", "mlir", "--time", "0"), "--time must be positive"),
        (("--target", "mlir", "--count", "0"), "--count"),
    ],
)
def test_a_campaign_that_cannot_start_gives_one_clear_line(difftest, tmp_path, arguments, part):
    code, out, err = difftest("fuzz", *arguments, "--out", tmp_path / "runs")
    assert code == 2 and not out
    assert err.count("\n") == 1 and part in err


def test_an_unknown_benchmark_is_refused_with_those_there_are(difftest):
    code, out, err = difftest("bench", "nosuch")
    assert code == 2 and not out
    assert err.count("\n") == 1 and "end-to-end" in err


def test_a_benchmark_prints_one_json_object(difftest):
    code, out, _ = difftest("bench", "generate", "--json")
    row = json.loads(out)
    assert code == 0 and row["name"] == "generate" and row["value"] > 0 and row["median_ops"] >= 40

"""The `reducer` command as a user runs it."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from difftest.cli import cli as difftest_cli
from difftest.cli import execute
from difftest.ir.reader import read_module
from difftest.ir.tree import count_ops
from difftest.oracle.load import load_program
from difftest.targets import open_target
from reducer.cli import cli

MRE = Path(__file__).parents[2] / "corpus" / "seeds" / "convert_parallel_to_gpu1.mlir"
DOCUMENTED = "canonicalize,convert-parallel-to-gpu1"


@pytest.fixture
def call(capfd):
    def run(command, *arguments):
        code = execute(command, [str(a) for a in arguments])
        out, err = capfd.readouterr()
        return code, out, err

    return run


@pytest.mark.enzyme
@pytest.mark.parametrize("jobs", [1, 2])
def test_the_documented_case_is_reduced_and_stays_the_same_bug(call, tmp_path, jobs):
    out = tmp_path / "out.mlir"
    arguments = ("--target", "enzyme-ad@0.0.15", "--pipeline", DOCUMENTED, "-j", jobs, "-o", out, "--json")
    code, text, err = call(cli, MRE, *arguments)
    assert code == 0, err
    report = json.loads(text.splitlines()[-1])
    assert report["ops"] <= 16 and report["confirmed"] and not report["stopped"]
    assert count_ops(read_module(load_program(out).text)) == report["ops"]
    assert call(difftest_cli, "interpret", out)[0] == 0

    def verdict(version, pipeline):
        given = ("run", out, "--target", f"enzyme-ad@{version}", "--pipeline", pipeline, "--json")
        found = json.loads(call(difftest_cli, *given)[1])
        return found["verdict"], found["pass"]

    for version in ("0.0.14", "0.0.15"):
        assert verdict(version, DOCUMENTED) == ("pass-failure", "convert-parallel-to-gpu1")
    assert verdict("0.0.15", "convert-parallel-to-gpu1") == ("agree", None)
    assert verdict("0.0.16", DOCUMENTED) == ("agree", None)


@pytest.mark.enzyme
def test_the_result_does_not_depend_on_the_number_of_jobs(call, tmp_path):
    texts = []
    for jobs in (1, 2):
        out = tmp_path / f"{jobs}.mlir"
        call(cli, MRE, "--target", "enzyme-ad@0.0.15", "--pipeline", DOCUMENTED, "-j", jobs, "-o", out)
        texts.append(out.read_text())
    assert texts[0] == texts[1]


def script(folder, body):
    path = folder / "interesting.sh"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


def test_a_script_decides_on_text_that_does_not_even_parse(call, tmp_path):
    file = tmp_path / "input.txt"
    file.write_text("".join(f"line {n}\n" for n in range(60)) + "needle\n" + "more\n" * 20)
    test = script(tmp_path, "test -f input.txt && grep -q needle input.txt")
    code, text, err = call(cli, file, "--test", test, "-j", 1, "-o", tmp_path / "out.txt", "--json")
    assert code == 0, err
    assert (tmp_path / "out.txt").read_text().split() == ["needle"]
    assert json.loads(text.splitlines()[-1])["ops"] == 1


def test_a_script_gets_the_candidate_under_its_name_in_an_empty_folder(call, tmp_path):
    file = tmp_path / "case.mlir"
    file.write_text(load_generic())
    test = script(tmp_path, 'test "$(ls)" = case.mlir && test "$1" = case.mlir && grep -q memref.store case.mlir')
    code, _, err = call(cli, file, "--test", test, "-j", 1, "-o", tmp_path / "out.mlir")
    assert code == 0, err
    assert "memref.store" in (tmp_path / "out.mlir").read_text()


def load_generic():
    target = open_target("mlir")
    try:
        text = "func.func @k(%m: memref<2xi32>, %i: index) {\n %c = arith.constant 1 : i32\n memref.store %c, %m[%i]\
 : memref<2xi32>\n return\n}\n"
        return target.to_generic(text).artifact.text
    finally:
        target.close()


@pytest.mark.parametrize(
    ("body", "part"),
    [("exit 1", "not interesting"), ("exit 0", "empty")],
)
def test_a_question_that_makes_no_sense_is_refused(call, tmp_path, body, part):
    file = tmp_path / "case.mlir"
    file.write_text(load_generic())
    code, out, err = call(cli, file, "--test", script(tmp_path, body), "-j", 1)
    assert code == 2 and not out
    assert err.count("\n") == 1 and part in err


def test_nothing_to_reduce_is_refused(call, tmp_path):
    file = tmp_path / "case.mlir"
    file.write_text(load_generic())
    code, _, err = call(cli, file, "--target", "mlir", "--pipeline", "canonicalize", "--inputs", "%1=0")
    assert code == 2 and "nothing to reduce: the verdict on mlir [canonicalize] is agree" in err


def test_ctrl_c_keeps_the_best_so_far(tmp_path):
    file = tmp_path / "input.txt"
    file.write_text("".join(f"line {n}\n" for n in range(400)) + "needle\n")
    test = script(tmp_path, "sleep 0.05; grep -q needle input.txt")
    out = tmp_path / "out.txt"
    command = [sys.executable, "-m", "reducer", str(file), "--test", str(test), "-j", "1", "-o", str(out)]
    with subprocess.Popen(command, start_new_session=True, stderr=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        deadline = time.monotonic() + 30
        while not out.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        os.kill(process.pid, signal.SIGINT)
        process.communicate(timeout=20)
        assert process.returncode == 130
    assert "needle" in out.read_text()
    assert len(out.read_text()) < len(file.read_text())

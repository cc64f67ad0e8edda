"""With `-n 2` each worker has its own compilers, and nothing is left behind however the session ends."""

import os
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

import pytest

from tests.plugin.conftest import RIGHT

pytest_plugins = "pytester"
MLIR = "// RUN: difftest run %s --target mlir --pipeline canonicalize"
MARK = "MLIR_DIFFTEST_TEST_MARK"


class Session:
    """A pytest process whose descendants carry a mark in their environment."""

    def __init__(self, project, *options):
        self.mark = uuid.uuid4().hex
        self.temporary = project.path / "tmp"
        self.temporary.mkdir()
        env = {**os.environ, MARK: self.mark, "TMPDIR": str(self.temporary), "PYTHONDONTWRITEBYTECODE": ""}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:hypothesispytest", *options],
            cwd=project.path,
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def output(self):
        return self.process.communicate(timeout=120)[0]

    def running(self, *, script=""):
        """Ids of the processes of this session, those that run `script`."""
        found = []
        for folder in Path("/proc").iterdir():
            try:
                if folder.name.isdigit() and f"{MARK}={self.mark}".encode() in (folder / "environ").read_bytes():
                    state = (folder / "stat").read_text().rpartition(")")[2].split()[0]
                    if state != "Z" and script.encode() in (folder / "cmdline").read_bytes():
                        found.append(int(folder.name))
            except OSError:
                continue
        return found

    def assert_clean(self):
        """No process and no file is left, a moment after the end."""
        deadline = time.monotonic() + 10
        while self.running() and time.monotonic() < deadline:
            time.sleep(0.05)
        assert self.running() == []
        assert [path for path in self.temporary.rglob("*") if path.is_file()] == []


@pytest.fixture
def start(project):
    """Starts a session; whatever happens, it does not outlive the test."""
    started = []

    def start_session(*options):
        started.append(Session(project, *options))
        return started[-1]

    yield start_session
    for session in started:
        for pid in session.running():
            os.kill(pid, signal.SIGKILL)
        session.process.communicate()


def cases(project, count, *lines):
    for number in range(count):
        project.case(*lines, name=f"case_{number}.mlir")


def test_a_session_leaves_nothing_behind(project, start):
    cases(project, 4, MLIR)
    session = start("-n", "2")
    assert "4 passed" in session.output()
    session.assert_clean()


def test_a_session_that_stops_early_leaves_nothing_behind(project, start):
    cases(project, 4, MLIR, "// EXPECT: mlir crash")
    session = start("-n", "2", "-x")
    assert "failed" in session.output()
    session.assert_clean()


WAITS = """
import os, signal, time
from difftest.api import open_shared
from difftest.model import Pipeline

def test_it():
    result = open_shared("mlir").lower('"builtin.module"() ({\\n^bb0:\\n}) : () -> ()', Pipeline(text="canonicalize"))
    assert result.artifact is not None
    open(f"ready-{os.getpid()}", "w").close()
    ACTION
"""


def test_an_interrupted_session_leaves_nothing_behind(project, start):
    project.pytester.makepyfile(WAITS.replace("ACTION", "time.sleep(60)"))
    session = start("-n", "1")
    deadline = time.monotonic() + 60
    while not list(project.path.glob("ready-*")) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert session.running(script="worker.py"), "the compiler should be running"
    session.process.send_signal(signal.SIGINT)
    session.output()
    session.assert_clean()


def test_a_worker_that_is_killed_leaves_nothing_behind(project, start):
    project.pytester.makepyfile(WAITS.replace("ACTION", "os.kill(os.getpid(), signal.SIGKILL)"))
    session = start("-n", "1")
    assert "crashed while running" in session.output()
    assert list(project.path.glob("ready-*"))
    session.assert_clean()


def test_cases_of_a_gpu_are_one_group(project):
    # The marker is what `--dist loadgroup` goes by; xdist 3.8 itself does not heed it under pytest 9.2.
    cases(project, 3, "// DIFFTEST: requires=gpu", RIGHT)
    project.pytester.makeconftest(
        """
        def pytest_collection_modifyitems(items):
            assert len(items) == 3
            assert {item.get_closest_marker("xdist_group").args for item in items} == {("difftest-gpu",)}
        """
    )
    project.run().assert_outcomes(skipped=3)


@pytest.mark.parametrize("workers", ["0", "2"])
def test_results_are_the_same_with_and_without_workers(project, workers):
    cases(project, 3, RIGHT)
    project.case(RIGHT.replace("do-nothing", "sum-to-product"), name="wrong.mlir")
    result = project.pytester.runpytest_subprocess("-n", workers, "-p", "no:cacheprovider")
    result.assert_outcomes(passed=3, failed=1)
    result.stdout.fnmatch_lines(["expected agree, got mismatch"])

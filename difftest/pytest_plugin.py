"""The pytest plugin: loaded in every pytest session of an environment that has this project, so it imports nothing.

`pytest corpus/` collects `.mlir` files with a header (`difftest.pytest_items` holds the nodes, `difftest.collect` the
cases). Fixtures: `mlir_target`, `mlir_device`. Everything else for tests is in `difftest.api`.
"""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Any, Literal, cast

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from difftest.devices import Device
    from difftest.targets import Target

_HEADER = re.compile(rb"^\s*//\s*(DIFFTEST:|RUN:\s*difftest run)", re.MULTILINE)
_OPTIONS: tuple[tuple[str, Literal["string", "args", "linelist"], str, str], ...] = (
    ("target", "args", "LABEL", "judge on this compiler instead of the file's (repeatable)"),
    ("pipeline", "linelist", "PIPELINE", "run this pipeline instead of the file's (repeatable)"),
    ("seeds", "string", "SEEDS", "run with these inputs' seeds: a count, or a list as in 3,5,8"),
    ("device", "string", "NAME", "what runs the compiled program: interpreter"),
    ("missing", "string", "skip|error", "what a compiler or tool that cannot be had means [default: skip]"),
    ("save-findings", "string", "DIR", "write unexpected findings there, as corpus files"),
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--difftest-…`, each with an ini value of the same name (`difftest_…`)."""
    group = parser.getgroup("difftest", "differential testing of MLIR lowerings")
    for name, kind, metavar, text in _OPTIONS:
        repeatable: dict[str, Any] = {} if kind == "string" else {"action": "append"}
        group.addoption(f"--difftest-{name}", metavar=metavar, help=text, default=None, **repeatable)
        parser.addini(f"difftest_{name.replace('-', '_')}", text, type=kind, default=None)
    group.addoption(
        "--difftest-update",
        action="store_true",
        help="write the verdicts met into the EXPECT lines, and show the change",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the markers, so that `--strict-markers` sessions accept them."""
    config.addinivalue_line("markers", "difftest: judges a program on a compiler")
    config.addinivalue_line("markers", "gpu: needs a CUDA GPU")
    if config.getoption("--difftest-update") and not hasattr(config, "workerinput"):
        from difftest.pytest_items import ExpectationWriter

        config.pluginmanager.register(ExpectationWriter(), "difftest-update")


def pytest_unconfigure() -> None:
    """End the compilers of this session; nothing was loaded when nobody asked for one."""
    if "difftest.api" in sys.modules:
        from difftest.api import close_shared

        close_shared()


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """A node for a `.mlir` file that has a header."""
    if file_path.suffix != ".mlir" or not _has_header(file_path):
        return None
    from difftest.pytest_items import CorpusFile

    return cast("Any", CorpusFile).from_parent(parent, path=file_path)  # its stub is untyped


def _has_header(path: Path) -> bool:
    try:
        data = path.read_bytes()
    except OSError:
        return False
    return _HEADER.search(data) is not None


@pytest.fixture(scope="session")
def mlir_target(pytestconfig: pytest.Config) -> Target:
    """The compiler under test: the first `--difftest-target` (or ini value), else `mlir`.

    One per process, ended with the session. Skips, or fails with `--difftest-missing error`, when it cannot be had.
    """
    from difftest.pytest_items import session_target

    return session_target(pytestconfig)


@pytest.fixture
def mlir_device() -> Iterator[Device]:
    """A fresh device that runs compiled kernels: the PTX emulator."""
    from difftest.devices import EmulatorDevice

    device = EmulatorDevice()
    yield device
    device.close()

"""The C-Reduce convention: a script that exits 0 on an interesting file.

It runs in a fresh temporary folder that holds only the candidate, under the original file's name; the name is also
the script's first argument, which serves scripts written for llvm-reduce and mlir-reduce.  A script that outlives
its time limit is killed with everything it started, and the candidate is not interesting.
"""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from difftest.errors import UsageError
from reducer.problem import Candidate


@dataclass(frozen=True, kw_only=True)
class ScriptFactory:
    """Makes `ScriptPredicate`s: `script` is the user's path, `name` the file name candidates get.

    `timeout` is in seconds. `exit_code` is the one that means interesting (mlir-reduce's scripts use 1).
    """

    script: Path
    name: str
    timeout: float = 60.0
    exit_code: int = 0

    def __call__(self) -> ScriptPredicate:
        """Check the script as far as possible without running it; raises `UsageError`."""
        check_script(self.script)
        return ScriptPredicate(self)


class ScriptPredicate:
    """Runs the script for every candidate."""

    def __init__(self, factory: ScriptFactory) -> None:
        self._factory = factory
        self._command = [str(factory.script.resolve()), factory.name]
        self.timeouts = 0

    def check(self, candidate: Candidate) -> bool:
        """Whether the script exits with the interesting code; raises `UsageError` when it cannot be started."""
        with tempfile.TemporaryDirectory(prefix="reducer-", ignore_cleanup_errors=True) as folder:
            path = Path(folder) / self._factory.name
            path.write_bytes(candidate.text.encode("utf-8", "surrogateescape"))
            return self._run(folder) == self._factory.exit_code

    def close(self) -> None:
        """Nothing to give back: every run cleans up after itself."""

    def _run(self, folder: str) -> int | None:
        """The exit code, None after a timeout."""
        try:
            process = subprocess.Popen(
                self._command,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError as error:
            raise UsageError(f"cannot run {self._factory.script}: {error.strerror}") from error
        try:
            return process.wait(self._factory.timeout)
        except subprocess.TimeoutExpired:
            self.timeouts += 1
            return None
        finally:
            # Also after a normal end: what the script left running must not pile up.
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def check_script(script: Path) -> None:
    """Refuse, with the reason, a path that the system could not execute as a script."""
    if script.is_dir() or not script.exists():
        raise UsageError(f"{script}: no such file")
    if not os.access(script, os.X_OK):
        raise UsageError(f"{script} is not executable: chmod +x {script}")
    with script.open("rb") as file:
        head = file.read(4)
    if not head.startswith((b"#!", b"\x7fELF")):
        raise UsageError(f"{script} has no shebang: its first line must be like #!/bin/sh")

"""LLVM's `lit` on corpus files: a test format that judges files with a header and leaves the others to lit.

Imported by `corpus/lit.cfg.py`; lit hands instances to its worker processes, so the class lives in a module. lit ships
no types and need not be installed for anything else, hence `import_module`.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from difftest.collect import CaseReport, Selection, Status, read_cases, run_case
from difftest.errors import UsageError

Test: Any = importlib.import_module("lit.Test")
_ShTest: Any = importlib.import_module("lit.formats").ShTest
_HEADER = re.compile(rb"^\s*//\s*(DIFFTEST:|RUN:\s*difftest run)", re.MULTILINE)


class CorpusFormat(_ShTest):
    """One lit test per file. `--param target=LABEL`: another compiler; `--param missing=error`: none is a failure."""

    def execute(self, test: Any, lit_config: Any) -> Any:
        """lit's result for one file. A file without a header runs its RUN lines in lit's shell."""
        path = Path(test.getSourcePath())
        data = path.read_bytes()
        if _HEADER.search(data) is None:
            return _ShTest.execute(self, test, lit_config)
        target = lit_config.params.get("target")
        try:
            cases = read_cases(path, Selection(targets=(target,) if target else ()))
            reports = [run_case(case) for case in cases]
        except UsageError as error:
            return Test.Result(Test.UNRESOLVED, str(error))
        return _judged(reports, missing=lit_config.params.get("missing", "skip"))


def _judged(reports: Sequence[CaseReport], *, missing: str) -> Any:
    """One result for all cases of a file: the worst. A known failure that passes fails, as under pytest."""
    output = "\n".join(f"{r.case.name}: {r.status}{f': {r.text}' if r.text else ''}" for r in reports)
    skipped = [r for r in reports if r.status is Status.SKIPPED]
    good = [r for r in reports if r not in skipped and (r.status is Status.PASSED) != bool(r.case.xfail)]
    if len(good) + len(skipped) < len(reports) or (skipped and missing == "error"):
        return Test.Result(Test.FAIL, output)
    return Test.Result(Test.PASS if good else Test.UNSUPPORTED, output)

"""The nodes that pytest sees for a corpus: one file, one item per case. Imported when the first such file is met."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from difftest import api
from difftest.collect import DEVICES, Case, CaseReport, Selection, Status, read_cases, run_case, save_finding
from difftest.errors import UsageError
from difftest.rewrite import Observation, rewrite_expectations
from difftest.targets import Target

_UPDATE = "difftest-update"


class CaseFailedError(Exception):
    """A case did not meet its expectation; the message is the whole report."""


def setting(config: pytest.Config, name: str) -> Any:
    """An option's value, else its ini value, else None."""
    given = config.getoption(f"--difftest-{name}")
    return config.getini(f"difftest_{name.replace('-', '_')}") if given is None else given


def selection(config: pytest.Config) -> Selection:
    """What the options ask for. Raises pytest.UsageError for values that make no sense."""
    device = setting(config, "device")
    if device and device not in DEVICES:
        raise pytest.UsageError(f"--difftest-device: unknown device {device!r}; known: {', '.join(DEVICES)}")
    return Selection(
        targets=tuple(setting(config, "target") or ()),
        pipelines=tuple(setting(config, "pipeline") or ()),
        seeds=_seeds(setting(config, "seeds") or ""),
    )


def _seeds(text: str) -> tuple[int, ...]:
    try:
        numbers = tuple(int(part) for part in text.split(",") if part.strip())
    except ValueError:
        raise pytest.UsageError(f"--difftest-seeds: {text!r} is neither a count nor a list of seeds") from None
    return tuple(range(numbers[0])) if len(numbers) == 1 and "," not in text else numbers


def missing_is_error(config: pytest.Config) -> bool:
    """Whether a compiler that cannot be had fails a test. Raises pytest.UsageError for an unknown word."""
    word = setting(config, "missing") or "skip"
    if word not in {"skip", "error"}:
        raise pytest.UsageError(f"--difftest-missing: {word!r} is neither skip nor error")
    return word == "error"


def session_target(config: pytest.Config) -> Target:
    """The target of the `mlir_target` fixture."""
    label = (*selection(config).targets, "mlir")[0]
    try:
        return api.open_shared(label)
    except api.UnavailableError as error:
        if missing_is_error(config):
            raise
        pytest.skip(str(error))


class CorpusFile(pytest.File):
    """A `.mlir` file with a header."""

    def collect(self) -> Iterable[pytest.Item]:
        """One item per case."""
        try:
            cases = read_cases(self.path, selection(self.config))
        except UsageError as error:
            raise self.CollectError(str(error)) from None
        make = cast("Any", CorpusItem).from_parent  # its stub is untyped, as is that of __init__ below
        return [make(self, name=case.name, case=case) for case in cases]


class CorpusItem(pytest.Item):
    """One case: a program on a target and pipeline."""

    def __init__(self, *, case: Case, **rest: Any) -> None:
        cast("Any", super()).__init__(**rest)
        self.case = case
        self.add_marker("difftest")
        if "gpu" in case.requires:
            self.add_marker("gpu")
            if self.config.pluginmanager.hasplugin("xdist"):
                self.add_marker(pytest.mark.xdist_group("difftest-gpu"))

    def runtest(self) -> None:
        """Judge the case; a known failure that passes is a failure too."""
        report = run_case(self.case)
        self.user_properties += report.properties.items()
        if report.status is Status.SKIPPED:
            if missing_is_error(self.config) and report.verdict is None:
                raise CaseFailedError(report.text)
            pytest.skip(report.text)
        if self.config.getoption("--difftest-update"):
            self.user_properties.append((_UPDATE, json.dumps(_observation(report))))
            return
        self._settle(report)

    def _settle(self, report: CaseReport) -> None:
        known = "" if self.config.getoption("--runxfail", default=False) else self.case.xfail
        if report.status is Status.PASSED:
            if known:
                raise CaseFailedError(f"[XPASS(strict)] {known}")
            return
        if known:
            pytest.xfail(f"{known}: {report.text.splitlines()[0]}")
        folder = setting(self.config, "save-findings")
        saved = save_finding(report, Path(folder)) if folder else None
        raise CaseFailedError(report.text + (f"\n  saved:     {saved}" if saved else ""))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """A short report for a compiler's failure and for a bad file; a traceback for a fault of ours only."""
        if isinstance(excinfo.value, CaseFailedError | UsageError):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int, str]:
        """The line that asks for the case."""
        # Not the end of the node id: pytest would show its dots as `::`.
        return self.path, self.case.line - 1, f"{self.name} ({self.path.name})"


def _observation(report: CaseReport) -> dict[str, str]:
    verdict = report.verdict
    assert verdict is not None
    named = report.case.expectation is not None and report.case.expectation.pass_name is not None
    culprit = (verdict.signature.pass_name if verdict.signature else None) if named else None
    return {
        "path": str(report.case.path),
        "target": report.case.target,
        "pipeline": report.case.pipeline,
        "verdict": str(verdict.kind),
        "pass": culprit or "",
    }


class ExpectationWriter:
    """`--difftest-update`: collects verdicts, also those of xdist's workers, and writes them at the end."""

    def __init__(self) -> None:
        self._seen: dict[str, list[Observation]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Remember a case's verdict."""
        for name, value in report.user_properties if report.when == "call" else ():
            if name == _UPDATE:
                fields: Mapping[str, str] = json.loads(str(value))
                observation = Observation(
                    target=fields["target"],
                    pipeline=fields["pipeline"],
                    verdict=fields["verdict"],
                    pass_name=fields["pass"] or None,
                )
                self._seen.setdefault(fields["path"], []).append(observation)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Show each change, then make it."""
        for path, seen in sorted(self._seen.items()):
            for line in update_file(Path(path), seen):
                terminalreporter.write_line(line)


def update_file(path: Path, seen: Sequence[Observation]) -> Iterator[str]:
    """Bring a file's EXPECT lines up to date; yields the lines of the diff before the file is written."""
    before = path.read_text(encoding="utf-8")
    after = rewrite_expectations(before, seen, path=str(path))
    if before != after:
        yield from difflib.unified_diff(before.splitlines(), after.splitlines(), str(path), str(path), n=1, lineterm="")
        path.write_text(after, encoding="utf-8")

"""A finding on disk: the reduced program as the test that will guard it, its provenance, and a draft report."""

from __future__ import annotations

import hashlib
import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import difftest
from corpus.header import format_inputs
from difftest.model import InputSpec, Verdict
from difftest.report.plain import difference_json


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingRecord:
    """Everything that is saved about one bucket. `pipeline` is the minimal one, with its environment in front."""

    key: str
    target: str
    pipeline: str
    verdict: Verdict
    seed: int
    profile: str
    occurrences: int
    original: str
    reduced: str
    entry: str
    inputs: InputSpec
    ops: int
    tests: int = 0
    seconds: float = 0.0
    complete: bool = True
    versions: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def slug(self) -> str:
        """A folder name: readable, unique per identity."""
        words = re.sub(r"[^A-Za-z0-9]+", "-", f"{self.verdict.kind}-{self.passes}").strip("-").lower()
        return f"{words[:60]}-{hashlib.sha256(self.key.encode()).hexdigest()[:8]}"

    @property
    def passes(self) -> str:
        """The failing pass when known, else the pipeline."""
        signature = self.verdict.signature
        return (signature.pass_name if signature else None) or self.pipeline

    @property
    def command(self) -> str:
        """The command that shows the failure, with `%s` for the file."""
        return f"difftest run %s --target {self.target} --pipeline {shlex.quote(self.pipeline)}"


def program_text(record: FindingRecord) -> str:
    """The reduced program with the header that `difftest run`, pytest and lit understand."""
    header = [
        f"// RUN: {record.command}",
        f"// DIFFTEST: entry={record.entry} inputs={format_inputs(record.inputs)}",
        f"// {record.verdict.kind}: {record.key}",
        "",
    ]
    return "\n".join(header) + record.reduced.rstrip() + "\n"


def as_json(record: FindingRecord) -> dict[str, Any]:
    """Provenance as plain data."""
    verdict = record.verdict
    signature, difference = verdict.signature, verdict.difference
    return {
        "identity": record.key,
        "verdict": str(verdict.kind),
        "pass": signature.pass_name if signature else None,
        "signature": list(signature.detail) if signature else [],
        "target": record.target,
        "pipeline": record.pipeline,
        "message": verdict.message,
        "difference": difference_json(difference),
        "frames": [f"{f.symbol} ({f.module})" for f in verdict.failure.frames] if verdict.failure else [],
        "seed": record.seed,
        "profile": record.profile,
        "occurrences": record.occurrences,
        "ops": record.ops,
        "reduction": {"tests": record.tests, "seconds": round(record.seconds, 2), "complete": record.complete},
        "versions": dict(record.versions),
        "difftest": difftest.__version__,
    }


def issue_text(record: FindingRecord) -> str:
    """A draft for a human to check, complete and file. It is never filed by itself."""
    verdict = record.verdict
    lines = [
        f"# [{record.passes}] {verdict.kind} on a valid program",
        "",
        f"Found by a fuzzer (mlir-difftest {difftest.__version__}); reduced to {record.ops} operations. "
        "The program is valid, race-free and deterministic for the reference interpreter.",
        "",
        "```mlir",
        program_text(record).rstrip(),
        "```",
        "",
        f"Passes: `{record.pipeline}` (every one is needed)",
        "",
        f"Expected: {_expected(verdict)}",
        "",
        f"Actual: {verdict.message or verdict.kind}",
    ]
    if verdict.failure is not None and verdict.failure.frames:
        lines += ["", "Stack:", "```", *(f.symbol for f in verdict.failure.frames[:12]), "```"]
    if record.versions:
        lines += ["", "| toolchain | outcome |", "|---|---|"]
        lines += [f"| {label} | {outcome} |" for label, outcome in record.versions.items()]
    return "\n".join(lines) + "\n"


def _expected(verdict: Verdict) -> str:
    difference = verdict.difference
    if difference is None:
        return "the pipeline succeeds"
    return f"{difference.label}{list(difference.index)} = {difference.expected}"


def write_finding(folder: Path, record: FindingRecord) -> Path:
    """Write `folder/SLUG/` with reduced.mlir, original.mlir, finding.json and issue.md; returns that folder."""
    place = folder / record.slug
    place.mkdir(parents=True, exist_ok=True)
    (place / "reduced.mlir").write_text(program_text(record), encoding="utf-8")
    (place / "original.mlir").write_text(record.original, encoding="utf-8")
    (place / "finding.json").write_text(json.dumps(as_json(record), indent=2) + "\n", encoding="utf-8")
    (place / "issue.md").write_text(issue_text(record), encoding="utf-8")
    return place

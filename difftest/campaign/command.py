"""`difftest fuzz`: check the request, run the campaign, save findings, say what a gate would say."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from types import FrameType
from typing import Any

import click
from rich.console import Console

from difftest.campaign.display import bucket_table, headline, live_display, verdict_table
from difftest.campaign.loop import Campaign
from difftest.campaign.plan import Settings
from difftest.campaign.save import save_findings, summary
from difftest.errors import UsageError
from difftest.report.console import download_progress
from difftest.session import check_pipeline, open_ready
from difftest.targets.pipelines import resolve
from generators import PROFILES

DEFAULT_COUNT = 500
DEFAULT_TARGET = "enzyme-ad@0.0.16"


def settings_from(options: Mapping[str, Any]) -> Settings:
    """Checked settings. Raises UsageError for unknown targets, pipelines, profiles and missing toolchains."""
    seconds, count = options["seconds"], options["count"]
    if seconds is not None and seconds <= 0:
        raise UsageError("--time must be positive")
    if options["profile"] not in PROFILES:
        raise UsageError(f"unknown profile {options['profile']!r}; known: {', '.join(PROFILES)}")
    targets = tuple(options["targets"]) or (DEFAULT_TARGET,)
    pipelines = tuple(options["pipelines"])
    usable = tuple(label for label in targets if _usable(label, pipelines, required=len(targets) == 1))
    if not usable:
        raise UsageError("none of the targets can be used here; see `difftest doctor`")
    return Settings(
        targets=usable,
        pipelines=pipelines,
        profile=options["profile"],
        seed=options["seed"],
        count=DEFAULT_COUNT if count is None and seconds is None else count,
        seconds=seconds,
        jobs=options["jobs"],
        timeout=options["timeout"],
        reduce_seconds=options["reduce_seconds"],
    )


def _usable(label: str, pipelines: tuple[str, ...], *, required: bool) -> bool:
    """Whether a target can be used; its toolchain is fetched when it is missing. Said loudly when it cannot.

    Raises UsageError for a pipeline that the target does not know: on every target, or nothing would be compared.
    """
    try:
        with download_progress() as progress:
            target = open_ready(label, progress=progress)
    except UsageError as error:
        if required:
            raise
        click.echo(f"difftest: leaving out {label}: {error}", err=True)
        return False
    try:
        for pipeline in pipelines:
            check_pipeline(target, resolve(pipeline, target.label))
    finally:
        target.close()
    return True


def fuzz(*, out: Path, gate: bool, as_json: bool, options: Mapping[str, Any]) -> int:
    """Run a campaign and return the exit code: 1 when the gate is on and there are findings."""
    settings = settings_from(options)
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"cannot write to {out}: {error.strerror}") from None
    console = Console(stderr=True)
    with live_display(console) as show:
        campaign = Campaign(settings, show)
        _stop_on_sigterm(campaign)
        progress = campaign.run()
    paths = save_findings(out, progress, settings)
    report = summary(progress, settings, paths)
    (out / "summary.json").write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    verdict = "pass" if report["exit_code"] == 0 else "fail"
    if as_json:
        click.echo(json.dumps(report))
    else:
        tables = Console(file=sys.stdout, width=None if sys.stdout.isatty() else 160)
        tables.print(headline(progress), highlight=False)
        tables.print(verdict_table(progress))
        tables.print(bucket_table(progress, paths))
        for fault in report["harness_faults"]:
            tables.print(
                f"fault of our own, {fault['count']} x, seeds {fault['seeds']}: {fault['message']}", highlight=False
            )
        tables.print(f"gate: {verdict}" + ("" if gate else " (not applied: --no-gate)"), highlight=False)
    return report["exit_code"] if gate else 0


def _stop_on_sigterm(campaign: Campaign) -> None:
    def handler(_signal: int, _frame: FrameType | None) -> None:
        campaign.stop()

    signal.signal(signal.SIGTERM, handler)

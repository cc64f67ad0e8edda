"""A running campaign on a terminal: a live table, or plain lines where there is none."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from difftest.campaign.buckets import bucket_key
from difftest.campaign.stats import Progress

PLAIN_INTERVAL = 10.0


class Display(Protocol):
    """Shown the progress now and then."""

    def __call__(self, progress: Progress) -> None: ...


@contextmanager
def live_display(console: Console) -> Generator[Display]:
    """A display on `console`: redrawn twice a second on a terminal, a line every ten seconds elsewhere."""
    if not console.is_terminal:
        yield _plain(console)
        return
    with Live(console=console, refresh_per_second=2, transient=True) as live:

        def show(progress: Progress) -> None:
            live.update(Group(Text(headline(progress)), verdict_table(progress), bucket_table(progress)))

        yield show


def _plain(console: Console) -> Display:
    last = time.monotonic()

    def show(progress: Progress) -> None:
        nonlocal last
        if time.monotonic() - last >= PLAIN_INTERVAL:
            last = time.monotonic()
            console.print(headline(progress), highlight=False)

    return show


def headline(progress: Progress) -> str:
    """The run in one line."""
    waiting = len(progress.buckets) - len(progress.reductions)
    distinct = progress.distinct().values()
    suspects = sum(1 for bucket in distinct if bucket.suspect)
    return (
        f"{progress.programs} programs, {progress.rate:.1f} programs/s, {len(distinct) - suspects} findings"
        f" ({waiting} to reduce), {suspects} suspect-reference, {len(progress.faults)} faults of our own"
    )


def verdict_table(progress: Progress) -> Table:
    """Verdict counts per target."""
    kinds = sorted(progress.verdicts, key=lambda kind: -progress.verdicts[kind])
    table = Table(title="verdicts", title_justify="left")
    table.add_column("target")
    for kind in kinds:
        table.add_column(kind, justify="right")
    for target, counts in progress.by_target.items():
        table.add_row(target, *(str(counts[kind]) for kind in kinds))
    return table


def bucket_table(progress: Progress, paths: dict[str, str] | None = None) -> Table:
    """Findings, one a row: identity, occurrences, reduced size, and where it is saved. Suspects come last."""
    table = Table(title="findings", title_justify="left")
    for title in ("identity", "seen", "ops", "saved in"):
        table.add_column(title, overflow="fold", justify="right" if title in {"seen", "ops"} else "left")
    rows = sorted(progress.distinct().items(), key=lambda item: item[1].suspect)
    for key, bucket in rows:
        done = progress.reductions.get(bucket_key(bucket))
        ops = "…" if done is None else (str(done.ops) if done.best is not None else "not reduced")
        table.add_row(key, str(bucket.count), ops, (paths or {}).get(key, ""))
    return table

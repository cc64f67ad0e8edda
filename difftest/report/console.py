"""What commands show on a terminal: tables and progress, with rich."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from io import StringIO
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TextColumn, TransferSpeedColumn
from rich.table import Table

from difftest import toolchains


class Row(Protocol):
    """One line of the doctor's table."""

    @property
    def kind(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def usable(self) -> bool: ...
    @property
    def detail(self) -> str: ...


def render(table: Table, *, width: int = 160) -> str:
    """A table as plain text without escape codes, as wide as it needs to be."""
    buffer = StringIO()
    Console(file=buffer, width=width, no_color=True, highlight=False, force_terminal=False).print(table)
    return buffer.getvalue().rstrip()


def doctor_table(rows: Sequence[Row]) -> str:
    """The doctor's findings as a table."""
    table = Table(box=None, pad_edge=False)
    for title in ("", "kind", "name", "detail"):
        table.add_column(title, overflow="fold")
    for row in rows:
        table.add_row("ok" if row.usable else "--", row.kind, row.name, row.detail)
    return render(table)


def toolchain_rows() -> list[dict[str, str]]:
    """The installed toolchains as plain data."""
    return [
        {
            "label": t.label,
            "size": f"{t.library.stat().st_size / 1e6:.0f} MB",
            "interpreter": t.python or "any Python 3.11",
        }
        for t in toolchains.list_installed()
    ]


@contextmanager
def download_progress() -> Generator[Callable[[str, int, int], None]]:
    """A progress callback `(message, done, total)` that draws a bar on stderr (plain lines when not a terminal)."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal, transient=True) as progress:
        tasks: dict[str, TaskID] = {}

        def report(message: str, done: int, total: int) -> None:
            if message not in tasks:
                # Said only once bytes arrive: a request that is refused at once gets its refusal alone.
                if not done:
                    return
                tasks[message] = progress.add_task(message, total=total or None)
                if not console.is_terminal:
                    console.print(message, highlight=False)
            progress.update(tasks[message], completed=done, total=total or None)

        yield report

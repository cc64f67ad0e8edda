"""The `difftest` command. Exit codes: 0 no bug, 1 bug found, 2 usage or environment (one line on stderr).

Commands hold no logic: each imports what it needs when it runs, so that `difftest --help` stays quick.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import click

from difftest import __version__
from difftest.errors import UsageError

FILE = click.Path(path_type=Path)
JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
ENTRY = click.option("--entry", help="The function to call [default: the header's, else the first public one].")
INPUTS = click.option("--inputs", help="For example '%n=4,%mem:[8],seed=1'; goes before the file's header.")


@click.group("difftest", context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="difftest")
def cli() -> None:
    """Differential testing of MLIR lowerings of parallel and differentiated programs."""


@cli.command()
@click.argument("file", type=FILE)
@click.option("--target", default="enzyme-ad@0.0.16", show_default=True, help="A compiler; see `difftest doctor`.")
@click.option("--pipeline", default="", help="A named pipeline or a pass list; empty: parse and print only.")
@ENTRY
@INPUTS
@click.option("--timeout", default=20.0, show_default=True, help="Seconds for the compiler.")
@JSON
def run(
    *, file: Path, target: str, pipeline: str, entry: str | None, inputs: str | None, timeout: float, as_json: bool
) -> int:
    """Judge the program in FILE: compile it, execute the result, compare with the reference interpreter."""
    from difftest.report.console import download_progress
    from difftest.session import run_file

    with download_progress() as progress:
        report = run_file(
            file, target=target, pipeline=pipeline, entry=entry, inputs=inputs, timeout=timeout, progress=progress
        )
    click.echo(json.dumps(report.as_json()) if as_json else report.as_text())
    return report.exit_code


@cli.command()
@click.argument("file", type=FILE)
@ENTRY
@click.option("--inputs", help="For example '%n=4,%mem:[8],seed=1', or the name of an .npz file of arguments.")
@click.option("--shape", "shapes", multiple=True, help="NAME=7 or NAME=4x5: one argument's size (or integer value).")
@click.option("--seed", type=int, help="The seed of the contents.")
@click.option("--schedule", type=click.Choice(["lock-step", "sequential", "shuffled"]), default="lock-step")
@click.option("--trace", multiple=True, metavar="OP", help="Print every execution of this op, for example memref.load.")
@click.option("--explain-ub", is_flag=True, help="Suggest the smallest change that makes a bad program valid.")
@click.option("--after-each-pass", is_flag=True, help="Execute the IR after each pass of --pipeline on --target too.")
@click.option("--target", default="enzyme-ad@0.0.16", show_default=True, help="The compiler for --after-each-pass.")
@click.option("--pipeline", default="", help="The pipeline for --after-each-pass.")
@JSON
def interpret(
    *,
    trace: tuple[str, ...],
    explain_ub: bool,
    after_each_pass: bool,
    target: str,
    pipeline: str,
    as_json: bool,
    **request: Any,
) -> int:
    """Execute the program in FILE with the reference interpreter: its results, or what is undefined in it."""
    from difftest.explain import Request, explain, explain_stages
    from difftest.model import Schedule
    from difftest.report.console import download_progress

    request["schedule"] = Schedule(request["schedule"])
    wanted = Request(**request)
    if after_each_pass:
        with download_progress() as progress:
            report = explain_stages(wanted, target=target, pipeline=pipeline, progress=progress)
    else:
        report = explain(wanted, trace=trace, repair=explain_ub)
    click.echo(json.dumps(report.as_json()) if as_json else report.as_text())
    return report.exit_code


@cli.command()
@click.option("--time", "seconds", type=float, help="Seconds to generate and judge (findings are then reduced).")
@click.option("--count", type=click.IntRange(min=1), help="Programs to judge [default: 500 without --time].")
@click.option("--seed", default=0, show_default=True, help="The first seed; seeds count up from it.")
@click.option("-j", "--jobs", default=1, show_default=True, type=click.IntRange(min=1), help="Worker processes.")
@click.option("--target", "targets", multiple=True, help="Compilers [default: enzyme-ad@0.0.16].")
@click.option("--pipeline", "pipelines", multiple=True, help="Pipelines [default: those that suit the program].")
@click.option("--profile", default="default", show_default=True, help="Generator profile.")
@click.option("--out", type=FILE, default=Path("runs/fuzz"), show_default=True, help="Folder for findings.")
@click.option("--timeout", default=10.0, show_default=True, help="Seconds per compilation.")
@click.option("--reduce-seconds", default=20.0, show_default=True, help="Seconds per reduction.")
@click.option("--no-gate", is_flag=True, help="Exit 0 whenever the campaign ran; print what the gate would say.")
@JSON
def fuzz(*, no_gate: bool, as_json: bool, out: Path, **options: Any) -> int:
    """Generate programs, judge them, reduce and save what is wrong: one folder per distinct failure."""
    from difftest.campaign.command import fuzz as run_campaign

    return run_campaign(out=out, gate=not no_gate, as_json=as_json, options=options)


@cli.command()
@click.option("--seed", default=0, show_default=True, help="The first seed.")
@click.option("--count", default=1, show_default=True, type=click.IntRange(min=1))
@click.option("--profile", default="default", show_default=True)
@click.option("-o", "--out", type=FILE, help="Write SEED.mlir files to this folder instead of standard output.")
def generate(*, seed: int, count: int, profile: str, out: Path | None) -> int:
    """Print or write generated programs with their headers."""
    from corpus.header import program_file
    from generators import program_for_seed

    for number in range(seed, seed + count):
        text = program_file(program_for_seed(number, profile))
        if out is None:
            click.echo(text)
            continue
        out.mkdir(parents=True, exist_ok=True)
        (out / f"{number}.mlir").write_text(text, encoding="utf-8")
    return 0


@cli.command()
@click.argument("file", type=FILE)
@click.option("--target", help="A compiler [default: the file's RUN line].")
@click.option("--pipeline", help="A named pipeline or a pass list [default: the file's RUN line].")
@ENTRY
@INPUTS
@click.option("--timeout", default=20.0, show_default=True, help="Seconds per compilation.")
@click.option("-o", "--out", type=FILE, help="Write before.mlir, reproducer.mlir and pass.diff to this folder.")
@JSON
def triage(*, out: Path | None, as_json: bool, **options: Any) -> int:
    """Name the pass that breaks the program in FILE (or a finding's folder), with a reproducer that stands alone."""
    from difftest.commands_triage import Request, triage_file
    from difftest.report.console import download_progress

    with download_progress() as progress:
        report = triage_file(Request(**options), progress=progress)
    click.echo(json.dumps(report.as_json()) if as_json else report.as_text())
    for path in report.write(out) if out is not None else ():
        click.echo(f"wrote {path}", err=True)
    return report.exit_code


@cli.command()
@click.argument("file", type=FILE)
@click.option("--versions", default="", help="For example 0.0.14..0.0.16 [default: all installed ones].")
@click.option("--target", "targets", default="", help="More toolchains, for example mlir,opt:PATH.")
@click.option("--pipeline", help="A named pipeline or a pass list [default: the file's RUN line].")
@ENTRY
@INPUTS
@click.option("--timeout", default=20.0, show_default=True, help="Seconds per compilation.")
@click.option("--no-cache", is_flag=True, help="Ask the toolchains again.")
@JSON
def bisect(*, versions: str, targets: str, no_cache: bool, as_json: bool, **options: Any) -> int:
    """Say which toolchains have the failure in FILE (or a finding's folder): introduced in, fixed in."""
    from difftest.commands_bisect import bisect_file
    from difftest.commands_triage import Request
    from difftest.report.console import download_progress

    with download_progress() as progress:
        report = bisect_file(
            Request(**options), versions=versions, targets=targets, cached=not no_cache, progress=progress
        )
    click.echo(json.dumps(report.as_json()) if as_json else report.as_text())
    return report.exit_code


@cli.command()
@click.argument("file", type=FILE)
@click.option("--target", help="A compiler [default: the file's RUN line].")
@click.option("--pipeline", help="A named pipeline or a pass list [default: the file's RUN line].")
@ENTRY
@INPUTS
@click.option("--timeout", default=20.0, show_default=True, help="Seconds per compilation.")
@click.option("--svg", type=FILE, help="Write the schedule as a picture to this file.")
@JSON
def schedule(*, svg: Path | None, as_json: bool, **options: Any) -> int:
    """Show what orders the launches of the compiled FILE: races, needless waits, and what could run at once."""
    from difftest.commands_schedule import schedule_file
    from difftest.commands_triage import Request
    from difftest.report.console import download_progress

    with download_progress() as progress:
        report = schedule_file(Request(**options), progress=progress)
    click.echo(json.dumps(report.as_json()) if as_json else report.as_text())
    if svg is not None:
        svg.write_text(report.as_svg(), encoding="utf-8")
    return report.exit_code


@cli.group()
def toolchain() -> None:
    """Compiler versions kept side by side in the cache folder."""


@toolchain.command("install")
@click.argument("spec")
@click.option("--python", help="The interpreter for the wheel [default: this one, else python3.11 on PATH].")
def toolchain_install(*, spec: str, python: str | None) -> int:
    """Fetch and check a toolchain, for example enzyme-ad==0.0.15."""
    from difftest import toolchains
    from difftest.report.console import download_progress

    with download_progress() as progress:
        installed = toolchains.install(spec, python=python, progress=progress)
    click.echo(f"{installed.label} is installed")
    return 0


@toolchain.command("list")
@JSON
def toolchain_list(*, as_json: bool) -> int:
    """Show the installed toolchains, their sizes and interpreters."""
    from difftest.report.console import toolchain_rows

    rows = toolchain_rows()
    lines = ["  ".join(row.values()) for row in rows] or ["no toolchain is installed"]
    click.echo(json.dumps(rows) if as_json else "\n".join(lines))
    return 0


@toolchain.command("remove")
@click.argument("spec")
def toolchain_remove(*, spec: str) -> int:
    """Delete an installed toolchain."""
    from difftest import toolchains

    toolchains.remove(spec)
    click.echo(f"{spec} is removed")
    return 0


@toolchain.command("latest")
@click.argument("name", default="enzyme-ad")
def toolchain_latest(*, name: str) -> int:
    """Print the newest version that pip's index offers."""
    from difftest import toolchains

    click.echo(toolchains.latest(name))
    return 0


@cli.command()
@click.option("--ops", is_flag=True, help="List the ops that the interpreter executes, per dialect.")
@JSON
def doctor(*, ops: bool, as_json: bool) -> int:
    """Say which targets, devices and tools are usable here, and why not."""
    from difftest.doctor import examine, examine_ops
    from difftest.report.console import doctor_table

    if ops:
        table = examine_ops()
        click.echo(json.dumps([r.as_json() for r in table]) if as_json else "\n".join(r.as_text() for r in table))
        return 0
    rows = examine()
    click.echo(json.dumps([row.as_json() for row in rows]) if as_json else doctor_table(rows))
    return 0


@cli.command()
@click.argument("names", nargs=-1)
@JSON
def bench(*, names: tuple[str, ...], as_json: bool) -> int:
    """Measure the rows of the performance table, one object per line."""
    from difftest.bench import run_rows

    for row in run_rows(names):
        click.echo(json.dumps(row.as_json()) if as_json else row.as_text())
    return 0


def main() -> None:
    """Console script: turns expected errors into one line and exit code 2."""
    sys.exit(execute(cli))


def execute(command: click.Command, arguments: list[str] | None = None) -> int:
    """Run a click command with this project's exit codes; shared with the `reducer` command."""
    # numpy's own threads would fight with worker processes, and forking needs a single thread.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return int(command.main(args=arguments, standalone_mode=False) or 0)
    except UsageError as error:
        click.echo(f"{command.name or 'difftest'}: {error}", err=True)
    except click.ClickException as error:
        click.echo(f"{command.name or 'difftest'}: {error.format_message()}", err=True)
    except (KeyboardInterrupt, click.Abort):
        click.echo("interrupted", err=True)
        return 130
    except BrokenPipeError:
        sys.stderr.close()
        return 0
    return 2

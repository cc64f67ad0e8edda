"""The `reducer` command: a failing program in, a minimal reproducer of the same failure out."""

from __future__ import annotations

import json
import os
import shlex
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from corpus.header import format_inputs, parse_header
from difftest.cli import execute
from difftest.errors import UsageError
from difftest.model import OutcomeKind, Pipeline
from difftest.oracle.load import load_program, prepare_sized, read_text, to_generic
from difftest.report.console import download_progress
from difftest.session import open_ready
from difftest.targets.base import Target
from difftest.targets.pipelines import format_pipeline, resolve
from reducer.finding import Options, default_jobs, failure_of, reduce_failure, reduce_with
from reducer.problem import Candidate
from reducer.script import ScriptFactory
from reducer.search import Limits, Reduction
from reducer.stats import Stats

MAX_BYTES = 64 << 20
FILE = click.Path(path_type=Path)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The command line, parsed."""

    file: Path
    output: Path
    options: Options
    as_json: bool


@click.command("reducer", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("file", type=FILE)
@click.option("--target", help="The compiler that fails, for example enzyme-ad@0.0.15.")
@click.option("--pipeline", help="The pipeline it fails with.")
@click.option("--entry", help="The function to call, for validity and wrong results.")
@click.option("--inputs", help="Its inputs; goes before the file's header.")
@click.option("--test", "script", type=FILE, help="A script that exits 0 when the file it is given is interesting.")
@click.option("-o", "--output", type=FILE, help="Where the result goes [default: FILE with .reduced.mlir].")
@click.option("-j", "--jobs", type=click.IntRange(min=1), default=default_jobs, help="Processes [default: cores].")
@click.option("--timeout", default=10.0, show_default=True, help="Seconds per question.")
@click.option("--seconds", type=float, help="Stop after this time with the best so far.")
@click.option("--allow-invalid", is_flag=True, help="The result need not be valid for the interpreter.")
@click.option("--loose", is_flag=True, help="Passes may become unnecessary for the failure.")
@click.option("--json", "as_json", is_flag=True, help="End with one JSON line.")
def cli(*, file: Path, output: Path | None, as_json: bool, **given: Any) -> int:
    """Reduce FILE while --target with --pipeline fails in the same way, or while --test SCRIPT says yes."""
    options = Options(
        jobs=given["jobs"],
        timeout=given["timeout"],
        limits=Limits(seconds=given["seconds"]),
        allow_invalid=given["allow_invalid"],
        loose=given["loose"],
        say=_say,
    )
    request = Request(file=file, output=output or file.with_suffix(".reduced.mlir"), options=options, as_json=as_json)
    _check_writable(request.output)
    if given["script"] is not None:
        return _by_script(request, given["script"])
    if given["target"] is None or given["pipeline"] is None:
        raise UsageError("say what must stay true: --target and --pipeline, or --test SCRIPT")
    return _by_identity(request, given)


def _by_identity(request: Request, given: dict[str, Any]) -> int:
    with download_progress() as progress:
        target = open_ready(given["target"], progress=progress)
    started = time.monotonic()
    try:
        pipeline = resolve(given["pipeline"], target.label)
        program = load_program(
            request.file, entry=given["entry"], inputs=given["inputs"], prefer=(target.label,), limit=MAX_BYTES
        )
        reference, note = prepare_sized(program)
        options = request.options
        if reference.outcome.kind is not OutcomeKind.OK and not options.allow_invalid:
            fault = reference.outcome.fault
            why = "" if fault is None else f" ({fault.rule}: {fault.message})"
            raise UsageError(
                f"the reference interpreter calls the program {reference.outcome.kind}{why}; "
                "--allow-invalid reduces it all the same"
            )
        if options.allow_invalid:
            reference = replace(reference, outcome=replace(reference.outcome, kind=OutcomeKind.OK))
        if note:
            _say(note)
        signature = failure_of(reference, target, pipeline, timeout=options.timeout)
        _say(f"keeping: {signature.key}")
        writer = _Writer(request, target, pipeline)
        reduction = reduce_failure(reference, target, pipeline, signature, options=options, on_progress=writer.progress)
        writer.finish(reduction)
        return _report(request, reduction, signature.key, time.monotonic() - started)
    finally:
        target.close()


def _by_script(request: Request, script: Path) -> int:
    started = time.monotonic()
    text = read_text(request.file, limit=MAX_BYTES)
    factory = ScriptFactory(script=script, name=request.file.name, timeout=request.options.timeout)
    writer = _Writer(request, None, None)
    header = parse_header(text, path=str(request.file))
    candidate = Candidate(text=text, entry=header.entry or "")
    read = partial(to_generic, path=str(request.file))
    reduction = reduce_with(candidate, factory, options=request.options, on_progress=writer.progress, to_generic=read)
    writer.finish(reduction)
    return _report(request, reduction, f"{script} exits 0", time.monotonic() - started)


class _Writer:
    """Keeps the best so far on disk: written beside the output and renamed, so that it is always whole."""

    def __init__(self, request: Request, target: Target | None, pipeline: Pipeline | None) -> None:
        self._request = request
        self._target = target
        self._pipeline = pipeline
        self._console = Console(stderr=True)
        self._shown = time.monotonic()

    def progress(self, best: Candidate, stats: Stats) -> None:
        """A new best: write it down as it is, and say so now and then."""
        _write(self._request.output, self._with_header(best, best.text))
        if time.monotonic() - self._shown > 1.0:
            self._shown = time.monotonic()
            rate = stats.tests / stats.seconds if stats.seconds else 0.0
            _say(f"{len(best.text)} bytes after {stats.tests} tests ({rate:.0f}/s, {stats.current_pass})")

    def finish(self, reduction: Reduction) -> None:
        """The final result, in the compiler's pretty form where it has one."""
        best = reduction.best
        text = best.text
        if self._target is not None:
            with suppress(UsageError):
                text = self._target.print_pretty(best.text)
        _write(self._request.output, self._with_header(best, text))

    def _with_header(self, best: Candidate, text: str) -> str:
        if self._target is None or self._pipeline is None:
            return text
        env = self._pipeline.env
        pipeline = format_pipeline(Pipeline(text=best.pipeline or "", env=env))
        return (
            f"// RUN: difftest run %s --target {self._target.label} --pipeline {shlex.quote(pipeline)}\n"
            f"// DIFFTEST: entry={best.entry} inputs={format_inputs(best.inputs)}\n{text.rstrip()}\n"
        )


def _report(request: Request, reduction: Reduction, identity: str, seconds: float) -> int:
    if not reduction.confirmed:
        _say("warning: asked again, the predicate says no to the result: it is flaky")
    if request.as_json:
        click.echo(
            json.dumps(
                {
                    "ops": reduction.ops,
                    "seconds": round(seconds, 2),
                    "tests": reduction.tests,
                    "identity": identity,
                    "pipeline": reduction.best.pipeline,
                    "stopped": reduction.stopped,
                    "confirmed": reduction.confirmed,
                    "output": str(request.output),
                }
            )
        )
    else:
        stopped = f" (stopped: {reduction.stopped})" if reduction.stopped else ""
        click.echo(
            f"{reduction.ops} operations after {reduction.tests} tests in {seconds:.1f} s{stopped}: {request.output}"
        )
    return 130 if reduction.interrupted else 0


def _say(message: str) -> None:
    click.echo(message, err=True)


def _check_writable(path: Path) -> None:
    folder = path.parent
    if not folder.is_dir():
        raise UsageError(f"{folder}: no such folder")
    if path.is_dir():
        raise UsageError(f"{path} is a directory, not a file")
    if not os.access(folder, os.W_OK):
        raise UsageError(f"{folder} is not writable")


def _write(path: Path, text: str) -> None:
    """Write whole or not at all. Raises UsageError when the disk refuses; what was there before stays."""
    try:
        with tempfile.NamedTemporaryFile(
            "w", dir=path.parent, prefix=f".{path.name}.", delete=False, encoding="utf-8", errors="surrogateescape"
        ) as file:
            temporary = Path(file.name)
            try:
                file.write(text)
            except OSError:
                temporary.unlink(missing_ok=True)
                raise
        temporary.replace(path)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from None


def main() -> None:
    """Console script."""
    sys.exit(execute(cli))

"""Speculative evaluation in several processes.

Each worker is a fresh (exec'd, not forked) Python process holding one predicate, because a predicate talks to
compiler children and interprets programs, which is both blocking and CPU-bound.  A worker that dies or exceeds
the time limit costs the candidate it was on, which counts as not interesting, and is replaced.
"""

from __future__ import annotations

import multiprocessing
import signal
import time
import traceback
from collections.abc import Iterator
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Any

from difftest.errors import HarnessError, UsageError
from reducer.evaluator import Answers
from reducer.problem import Candidate, PredicateFactory

_READY, _ANSWER, _USAGE, _FAULT = "ready", "answer", "usage", "fault"


def _serve(connection: Connection, factory: PredicateFactory) -> None:
    """A worker: answer candidates until the pipe closes. Ctrl-C is the parent's to handle.

    A polite end (SIGTERM) unwinds, so that a predicate takes what it started down with it.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _unwind)
    try:
        predicate = factory()
        connection.send((_READY, None))
        try:
            while True:
                connection.send((_ANSWER, predicate.check(connection.recv())))
        finally:
            predicate.close()
    except (EOFError, BrokenPipeError):
        return
    except UsageError as error:
        _report(connection, _USAGE, str(error))
    except Exception:
        _report(connection, _FAULT, traceback.format_exc())


def _unwind(_signal: int, _frame: object) -> None:
    raise SystemExit(0)


def _report(connection: Connection, kind: str, message: str) -> None:
    try:
        connection.send((kind, message))
    except (EOFError, OSError):
        return


class _Worker:
    """One process. `ticket` is the number of the candidate it is on, None when idle."""

    def __init__(self, factory: PredicateFactory) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, theirs = context.Pipe()
        self.process: SpawnProcess = context.Process(target=_serve, args=(theirs, factory), daemon=True)
        self.process.start()
        theirs.close()
        self.ready = False
        self.ticket: int | None = None
        self.since = time.monotonic()

    def ask(self, ticket: int, candidate: Candidate) -> None:
        """Hand over a candidate; a dead worker is noticed when its pipe is read."""
        self.ticket = ticket
        self.since = time.monotonic()
        try:
            self.connection.send(candidate)
        except (BrokenPipeError, ConnectionResetError):
            return

    def receive(self) -> tuple[str, Any]:
        """The next message; raises EOFError or OSError when the process is gone."""
        message: tuple[str, Any] = self.connection.recv()
        return message

    def end(self, *, grace: float) -> None:
        """Close the pipe, wait `grace` seconds for a tidy end, then ask for one, then kill."""
        self.connection.close()
        self.process.join(grace)
        self.process.terminate()
        self.process.join(0.5)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()


class ProcessEvaluator:
    """`jobs` worker processes. `timeout` (seconds per candidate) is a last resort above the predicate's own limits."""

    def __init__(self, factory: PredicateFactory, *, jobs: int, timeout: float = 120.0) -> None:
        if jobs < 1:
            raise UsageError(f"the number of jobs must be at least 1, not {jobs}")
        self._factory = factory
        self._timeout = timeout
        self._workers = [_Worker(factory) for _ in range(jobs)]
        self.ahead = 2 * jobs
        self._next = 0
        self._starts = 0

    def first(self, candidates: Iterator[Candidate]) -> Answers:
        """See `Evaluator.first`. While one candidate is slow, others overtake it, but never more than `ahead`."""
        base = self._next
        answers: dict[int, bool] = {}
        lost: set[int] = set()
        exhausted = False
        decided: list[bool] = []
        while True:
            while base + len(decided) in answers:
                decided.append(answers[base + len(decided)])
                if decided[-1]:
                    return self._finish(decided, lost, base)
            if not exhausted:
                exhausted = self._fill(candidates, base + len(decided) + self.ahead)
            if exhausted and base + len(decided) == self._next:
                return self._finish(decided, lost, base)
            self._collect(answers, lost)

    def _finish(self, decided: list[bool], lost: set[int], base: int) -> Answers:
        return Answers(interesting=tuple(decided), lost=sum(1 for t in lost if base <= t < base + len(decided)))

    def _fill(self, candidates: Iterator[Candidate], end: int) -> bool:
        """Give every idle worker a candidate with a ticket below `end`; True when the stream has ended."""
        for worker in self._workers:
            if worker.ticket is None and self._next < end:
                candidate = next(candidates, None)
                if candidate is None:
                    return True
                worker.ask(self._next, candidate)
                self._next += 1
        return False

    def _collect(self, answers: dict[int, bool], lost: set[int]) -> None:
        """Wait for the next message or time limit and take in what it says."""
        busy = {worker.connection: number for number, worker in enumerate(self._workers) if worker.ticket is not None}
        limit = min(self._workers[number].since for number in busy.values()) + self._timeout
        ready = wait(list(busy), timeout=max(0.0, limit - time.monotonic()))
        for connection, number in busy.items():
            if connection in ready:
                self._take(number, answers, lost)
        now = time.monotonic()
        for number in busy.values():
            worker = self._workers[number]
            if worker.ticket is not None and now - worker.since >= self._timeout:
                self._replace(number, answers, lost)

    def _take(self, number: int, answers: dict[int, bool], lost: set[int]) -> None:
        worker = self._workers[number]
        try:
            kind, value = worker.receive()
        except (EOFError, OSError):
            self._replace(number, answers, lost)
            return
        if kind == _USAGE:
            raise UsageError(value)
        if kind == _FAULT:
            raise HarnessError(f"the predicate raised an exception:\n{value}")
        if kind == _READY:
            worker.ready, worker.since, self._starts = True, time.monotonic(), 0
        elif worker.ticket is not None:
            answers[worker.ticket] = bool(value)
            worker.ticket = None

    def _replace(self, number: int, answers: dict[int, bool], lost: set[int]) -> None:
        """The worker hung or died: its candidate is not interesting, and a new process takes its place."""
        worker = self._workers[number]
        worker.end(grace=0.0)
        self._starts += not worker.ready
        if self._starts > 3:
            raise HarnessError("evaluator processes die before they can answer")
        if worker.ticket is not None:
            answers[worker.ticket] = False
            lost.add(worker.ticket)
        self._workers[number] = _Worker(self._factory)

    def close(self) -> None:
        """End all workers; those busy with an abandoned candidate are killed."""
        for worker in self._workers:
            worker.end(grace=2.0 if worker.ticket is None else 0.3)

"""The supervisor of a campaign: hands seeds to worker processes, folds results in seed order, queues reductions.

It loads no compiler and interprets nothing.  A worker that dies or hangs costs the seed it was on, which is
reported as `harness-crash`; the rest of its batch is given out again.
"""

from __future__ import annotations

import multiprocessing
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess

from difftest.campaign.buckets import Bucket, bucket_key
from difftest.campaign.messages import Crashed, JudgeTask, Message, ReduceDone, ReduceTask, SeedDone
from difftest.campaign.plan import Settings
from difftest.campaign.stats import Progress
from difftest.campaign.worker import serve

BATCH = 8
# A seed has several compilations with their own timeouts; a worker silent for longer than this is stuck itself.
SILENCE = 180.0
Task = JudgeTask | ReduceTask


@dataclass(slots=True, kw_only=True)
class _Seat:
    """One worker process and what it is doing."""

    process: SpawnProcess
    connection: Connection
    task: Task | None = None
    answered: int = 0
    since: float = field(default_factory=time.monotonic)


class Campaign:
    """Runs until `settings.count` programs are judged or `settings.seconds` are over, then until reduced."""

    def __init__(self, settings: Settings, observe: Callable[[Progress], None]) -> None:
        self.settings = settings
        self.progress = Progress()
        self._observe = observe
        self._seats: list[_Seat] = []
        self._again: deque[int] = deque()
        self._next = settings.seed
        self._cursor = settings.seed
        self._ready: dict[int, SeedDone | str] = {}
        self._reduce: deque[ReduceTask] = deque()
        self._stopping = False

    def run(self) -> Progress:
        """Run to the end; Ctrl-C drains: what is in flight is collected, nothing new is started."""
        try:
            self._seats = [self._hire() for _ in range(self.settings.jobs)]
            while self._step():
                self._observe(self.progress)
        finally:
            for seat in self._seats:
                self._dismiss(seat)
        return self.progress

    def stop(self) -> None:
        """Start nothing new."""
        self._stopping = True

    def _step(self) -> bool:
        try:
            for seat in self._seats:
                if seat.task is None:
                    self._give(seat)
            busy = [seat for seat in self._seats if seat.task is not None]
            if not busy:
                return False
            ready = wait([seat.connection for seat in busy], timeout=0.25)
            for seat in busy:
                if seat.connection in ready:
                    self._hear(seat)
                elif time.monotonic() - seat.since > SILENCE:
                    self._lost(seat, f"no word from the worker for {SILENCE:.0f} s")
        except KeyboardInterrupt:
            if self._stopping:
                raise
            self.stop()
        return True

    # --- giving work ----------------------------------------------------------------------------------------

    def _give(self, seat: _Seat) -> None:
        task = self._next_task()
        if task is None:
            return
        seat.task, seat.answered, seat.since = task, 0, time.monotonic()
        try:
            seat.connection.send(task)
        except (BrokenPipeError, OSError):
            self._lost(seat, "the worker's pipe is closed")

    def _next_task(self) -> Task | None:
        if self._reduce and not self._stopping:
            return self._reduce.popleft()
        seeds = tuple(self._next_seed() for _ in range(BATCH))
        given = tuple(seed for seed in seeds if seed is not None)
        return JudgeTask(seeds=given) if given else None

    def _next_seed(self) -> int | None:
        if self._again:
            return self._again.popleft()
        settings = self.settings
        over = settings.seconds is not None and time.monotonic() - self.progress.started > settings.seconds
        done = settings.count is not None and self._next >= settings.seed + settings.count
        if over or done or self._stopping:
            self.progress.judged_seconds = self.progress.judged_seconds or self.progress.seconds
            return None
        self._next += 1
        return self._next - 1

    # --- hearing results ------------------------------------------------------------------------------------

    def _hear(self, seat: _Seat) -> None:
        try:
            message: Message | None = seat.connection.recv()
        except (EOFError, OSError):
            self._lost(seat, f"the worker died (exit code {seat.process.exitcode})")
            return
        seat.since = time.monotonic()
        if message is None:
            seat.task = None
        elif isinstance(message, SeedDone):
            seat.answered += 1
            self._arrived(message.seed, message)
        elif isinstance(message, ReduceDone):
            self.progress.reductions[message.key] = message
        else:
            self._failed(seat, message)

    def _failed(self, seat: _Seat, crash: Crashed) -> None:
        """A traceback of ours: the seed is reported, the rest of the batch goes on elsewhere."""
        if isinstance(seat.task, ReduceTask):
            self.progress.reductions[seat.task.key] = ReduceDone(key=seat.task.key, best=None, error=crash.text)
        elif isinstance(seat.task, JudgeTask):
            self._arrived(seat.task.seeds[seat.answered], crash.text)
            self._again.extend(seat.task.seeds[seat.answered + 1 :])

    def _lost(self, seat: _Seat, why: str) -> None:
        self._failed(seat, Crashed(text=why))
        self._dismiss(seat)
        self._seats[self._seats.index(seat)] = self._hire()

    def _arrived(self, seed: int, result: SeedDone | str) -> None:
        self._ready[seed] = result
        while self._cursor in self._ready:
            ready = self._ready.pop(self._cursor)
            if isinstance(ready, str):
                self.progress.crashed(self._cursor, ready)
            else:
                self._reduce.extend(_reduction(bucket) for bucket in self.progress.add(ready))
            self._cursor += 1

    # --- workers --------------------------------------------------------------------------------------------

    def _hire(self) -> _Seat:
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=serve, args=(theirs, self.settings), daemon=False)
        process.start()
        theirs.close()
        return _Seat(process=process, connection=ours)

    @staticmethod
    def _dismiss(seat: _Seat) -> None:
        """Close the pipe (an idle worker then closes its compilers and ends), and insist after a moment."""
        seat.connection.close()
        seat.process.join(timeout=0.0 if seat.task is not None else 3.0)
        if seat.process.is_alive():
            seat.process.terminate()
            seat.process.join(timeout=2.0)
        if seat.process.is_alive():
            seat.process.kill()
            seat.process.join()


def _reduction(bucket: Bucket) -> ReduceTask:
    return ReduceTask(key=bucket_key(bucket), seed=bucket.seed, target=bucket.target, identity=bucket.identity)

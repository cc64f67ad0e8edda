"""A worker process of a campaign: generates, judges, identifies and reduces, with its compilers kept warm."""

from __future__ import annotations

import signal
import traceback
from collections.abc import Callable
from dataclasses import replace
from multiprocessing.connection import Connection

from difftest.campaign.buckets import FindingIdentity, attribute, identify, without_environment
from difftest.campaign.messages import (
    CaseResult,
    Crashed,
    JudgeTask,
    Message,
    ReduceDone,
    ReduceTask,
    SeedDone,
)
from difftest.campaign.plan import Assignment, Settings, assignments, family
from difftest.errors import UsageError
from difftest.model import Pipeline, Program, Schedule, Verdict, VerdictKind
from difftest.oracle.judge import Judgement, Reference, judge, prepare
from difftest.targets import open_target
from difftest.targets.base import Target
from difftest.targets.pipelines import format_pipeline, resolve
from difftest.toolchains import list_installed
from difftest.triage.confirm import confirm, second_opinion
from difftest.triage.culprit import WRONG
from generators import program_for_seed
from reducer.finding import Options, reduce_failure
from reducer.search import Limits


class Worker:
    """Holds the open targets and does one task after another."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._targets: dict[str, Target] = {}

    def target(self, label: str) -> Target:
        """The open target called `label`."""
        if label not in self._targets:
            self._targets[label] = open_target(label)
        return self._targets[label]

    def close(self) -> None:
        """End the compiler children."""
        for target in self._targets.values():
            target.close()

    def judge_seed(self, seed: int) -> SeedDone:
        """Judge one seed's program on all its assignments."""
        program = program_for_seed(seed, self._settings.profile)
        reference = prepare(program)
        results = tuple(
            self._case(seed, reference, assignment)
            for assignment in assignments(program.constructs, self._settings, seed)
        )
        return SeedDone(seed=seed, results=results)

    def _case(self, seed: int, reference: Reference, assignment: Assignment) -> CaseResult:
        target = self.target(assignment.target)
        pipeline = resolve(assignment.pipeline, target.label)
        # Nothing is compiled on `null`: what it can show is that reading, spelling and schedules change nothing.
        schedule = Schedule.SHUFFLED if target.label == "null" else Schedule.LOCK_STEP
        judgement = judge(reference, target, pipeline, timeout=self._settings.timeout, schedule=schedule)
        verdict = judgement.verdict
        identity = None
        if verdict.kind.is_finding:
            verdict = self._confirmed(reference, target, pipeline, judgement)
            if verdict.kind.is_finding or verdict.kind is VerdictKind.SUSPECT_REFERENCE:
                identity = identify(reference, target, pipeline, verdict)
        return CaseResult(
            seed=seed, target=target.label, pipeline=assignment.pipeline, verdict=verdict, identity=identity
        )

    def _confirmed(self, reference: Reference, target: Target, pipeline: Pipeline, judgement: Judgement) -> Verdict:
        verdict = confirm(reference, target, pipeline, judgement, timeout=self._settings.timeout)
        if verdict.kind not in WRONG:
            return verdict
        for label in self._settings.targets:
            if family(label) in {family(target.label), "null"}:
                continue
            if second_opinion(reference, self.target(label), pipeline, judgement):
                return Verdict(
                    kind=VerdictKind.SUSPECT_REFERENCE,
                    target=verdict.target,
                    pipeline=verdict.pipeline,
                    signature=verdict.signature,
                    difference=verdict.difference,
                    message=f"{label} agrees with {target.label} against the reference: {verdict.message}",
                )
        return verdict

    def reduce(self, task: ReduceTask) -> ReduceDone:
        """Reduce a finding within the time there is for it, and ask the other installed versions about the result."""
        target = self.target(task.target)
        pipeline = resolve(task.identity.pipeline, target.label)
        reference = prepare(program_for_seed(task.seed, self._settings.profile))
        options = Options(timeout=self._settings.timeout, limits=Limits(seconds=self._settings.reduce_seconds))
        reduction = reduce_failure(reference, target, pipeline, task.identity.signature, options=options)
        best = reduction.best
        small = prepare(Program(text=best.text, entry=best.entry, inputs=best.inputs))
        passes = Pipeline(text=best.pipeline or "", env=pipeline.env)
        found = attribute(small, target, passes, judge(small, target, passes, timeout=self._settings.timeout).verdict)
        if found.signature is not None:
            passes = without_environment(small, target, passes, found.signature)
        text = format_pipeline(passes)
        return ReduceDone(
            key=task.key,
            best=replace(best, pipeline=text),
            pretty=_pretty(target, best.text),
            ops=reduction.ops,
            tests=reduction.tests,
            seconds=reduction.seconds,
            interrupted=bool(reduction.stopped) or not reduction.confirmed,
            verdict=found,
            identity=None if found.signature is None else FindingIdentity(signature=found.signature, pipeline=text),
            versions=self._versions(small, target, passes),
        )

    def _versions(self, reference: Reference, target: Target, pipeline: Pipeline) -> tuple[tuple[str, str], ...]:
        """What every installed version of the target's family makes of the reduced program."""
        found: list[tuple[str, str]] = []
        for toolchain in list_installed():
            if toolchain.label == target.label or family(toolchain.label) != family(target.label):
                continue
            other = self.target(toolchain.label)
            try:
                verdict = judge(reference, other, pipeline, timeout=self._settings.timeout).verdict
            except UsageError:
                found.append((toolchain.label, "has not all passes"))
                continue
            found.append((toolchain.label, str(verdict.kind)))
        return tuple(found)


def _pretty(target: Target, text: str) -> str:
    try:
        return target.print_pretty(text)
    except UsageError:
        return text


def serve(connection: Connection, settings: Settings) -> None:
    """A worker process: do the tasks that arrive until the pipe closes. Ctrl-C is the supervisor's to handle."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    worker = Worker(settings)
    try:
        while True:
            task: JudgeTask | ReduceTask = connection.recv()
            _do(worker, task, connection.send)
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return
    finally:
        worker.close()


def _do(worker: Worker, task: JudgeTask | ReduceTask, send: Callable[[Message | None], None]) -> None:
    try:
        if isinstance(task, JudgeTask):
            for seed in task.seeds:
                send(worker.judge_seed(seed))
        else:
            send(worker.reduce(task))
    except Exception:
        # The supervisor shows it as `harness-crash` with the seed and goes on with another worker.
        send(Crashed(text=traceback.format_exc()))
    send(None)

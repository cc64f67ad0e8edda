"""What enzyme-ad wheels and the upstream bindings have in common: a compiler in a sandboxed child.

A failure is answered by a second, instrumented run that prints the IR after each single pass: the first print that is
missing names the failing pass. PASSES §3.13: a pass is never run alone for that.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Sequence
from typing import Any

from difftest.errors import ReadError, UsageError
from difftest.ir import spelling
from difftest.ir.spelling import SpellingError
from difftest.model import Artifact, CompileFailure, CompileResult, FailureKind, Pipeline, Stage
from difftest.targets import classify, pipelines
from difftest.targets.base import DEFAULT_TIMEOUT
from difftest.targets.crash import guess_pass, match_pass, pass_class
from difftest.targets.promises import broken_promise
from difftest.targets.protocol import Reply, WorkerSpec
from difftest.targets.sandbox import Sandbox

# Failures that some pass of the pipeline is to blame for.
BLAMABLE = frozenset(
    {
        FailureKind.CRASH,
        FailureKind.STACK_OVERFLOW,
        FailureKind.HANG,
        FailureKind.PASS_FAILURE,
        FailureKind.INVALID_IR,
        FailureKind.MEMORY,
    }
)


class NativeTarget:
    """A target whose compiler runs inside `difftest.targets.worker`. `spec` is asked for on first use.

    `reread` has the compiler parse and verify its own output once more, beside the verifier that runs after each pass:
    1-2 ms a program, mostly for a new context.
    """

    reread: bool = True

    def __init__(self, label: str, spec: Callable[[], WorkerSpec]) -> None:
        self._label = label
        self._spec = spec
        self._sandbox: Sandbox | None = None

    @property
    def label(self) -> str:
        """The target's label."""
        return self._label

    @property
    def sandbox(self) -> Sandbox:
        """The sandbox, for tests and benchmarks; its zygote starts on the first call."""
        if self._sandbox is None:
            self._sandbox = Sandbox(self._spec())
        return self._sandbox

    def close(self) -> None:
        """End the zygote and its child."""
        if self._sandbox is not None:
            self._sandbox.close()
            self._sandbox = None

    def lower(
        self, text: str, pipeline: Pipeline, *, stages: bool = False, timeout: float = DEFAULT_TIMEOUT
    ) -> CompileResult:
        """See `Target.lower`."""
        elements = pipelines.split(pipeline.text)
        try:
            spelled = spelling.from_house(text, target=self._label)
        except (ReadError, SpellingError) as error:
            return CompileResult(failure=classify.of_unreadable(error))
        reply = self._call(spelled, elements, env=pipeline.env, instrument=stages, timeout=timeout)
        kept = self._stages(elements, reply) if stages else ()
        failure = self._failure(reply)
        if failure is None:
            output = self._to_house(reply.output)
            broken = broken_promise(pipeline, text, output)
            if broken is None:
                artifact = Artifact(text=output, stages=kept, stderr=reply.stderr)
                return CompileResult(artifact=artifact, stages=kept, seconds=reply.seconds)
            failure = CompileFailure(kind=FailureKind.INCOMPLETE, diagnostic=broken, stderr=reply.stderr)
        elif failure.kind in BLAMABLE:
            failure = dataclasses.replace(failure, pass_name=self._blame(spelled, pipeline, failure, timeout))
        return CompileResult(failure=failure, stages=kept, seconds=reply.seconds)

    def to_generic(self, text: str) -> CompileResult:
        """See `Target.to_generic`; the text goes in as it is."""
        reply = self._call(text, (), timeout=DEFAULT_TIMEOUT)
        failure = self._failure(reply)
        if failure is not None:
            return CompileResult(failure=failure, seconds=reply.seconds)
        return CompileResult(artifact=Artifact(text=self._to_house(reply.output)), seconds=reply.seconds)

    def print_pretty(self, text: str) -> str:
        """See `Target.print_pretty`."""
        spelled = spelling.from_house(text, target=self._label)
        reply = self._call(spelled, (), timeout=DEFAULT_TIMEOUT, pretty=True)
        failure = self._failure(reply)
        if failure is not None:
            raise UsageError(f"{self._label} does not read this program: {failure.diagnostic or failure.kind}")
        return reply.output

    def verify(self, text: str) -> CompileFailure | None:
        """See `Target.verify`."""
        return self.lower(text, Pipeline(text="")).failure

    def _call(
        self,
        text: str,
        elements: Sequence[str],
        *,
        timeout: float,
        env: Any = None,
        instrument: bool = False,
        pretty: bool = False,
    ) -> Reply:
        request: dict[str, Any] = {"text": text, "elements": list(elements), "env": dict(env or {}), "pretty": pretty}
        request["reverify"] = self.reread and bool(elements) and not pretty
        return self.sandbox.call(request, timeout=timeout, stages=len(elements) if instrument else 0)

    def _failure(self, reply: Reply) -> CompileFailure | None:
        if reply.answer is None:
            return classify.of_death(reply, self.sandbox.maps)
        return classify.of_answer(reply, reply.answer)

    def _stages(self, elements: Sequence[str], reply: Reply) -> tuple[Stage, ...]:
        done = [text for text in reply.stages if text]
        return tuple(Stage(after=e, text=self._to_house(t)) for e, t in zip(elements, done, strict=False))

    def _to_house(self, text: str) -> str:
        return spelling.to_house(normalise(text), source=self._label)

    def _blame(self, spelled: str, pipeline: Pipeline, failure: CompileFailure, timeout: float) -> str | None:
        """The name of the failing pass, or None when the instrumented run does not fail in the same way."""
        elements = pipelines.split(pipeline.text)
        running = pass_class(failure.frames) or ""
        names = pipelines.all_pass_names(pipeline.text)
        named = match_pass(running, names)
        if named is None and failure.kind is FailureKind.HANG:
            named = guess_pass(running, names)  # a second run would take the whole time again
        if named is not None:
            return named
        leaves = tuple(leaf for element in elements for leaf in pipelines.unnest(element))
        # Each run of a hang costs a whole time limit, so it gets one.
        attempts = (leaves, elements) if leaves != elements and failure.kind is not FailureKind.HANG else (leaves,)
        for parts in attempts:
            reply = self._call(spelled, parts, env=pipeline.env, instrument=True, timeout=timeout)
            again = self._failure(reply)
            if again is None or again.kind is not failure.kind:
                continue
            done = sum(1 for text in reply.stages if text)
            if done == len(parts):  # a diagnostic of a pass that reported success
                done = self._first_failing(spelled, parts, pipeline, failure.kind, timeout)
            return pipelines.pass_name(parts[done])
        return None

    def _first_failing(
        self, spelled: str, parts: Sequence[str], pipeline: Pipeline, kind: FailureKind, timeout: float
    ) -> int:
        """The index of the last element of the shortest prefix that fails, by bisection; the whole is known to fail."""
        good, bad = 0, len(parts)
        while bad - good > 1:
            middle = (good + bad) // 2
            again = self._failure(self._call(spelled, parts[:middle], env=pipeline.env, timeout=timeout))
            good, bad = (good, middle) if again is not None and again.kind is kind else (middle, bad)
        return bad - 1


def normalise(text: str) -> str:
    """Compiler output without what differs from run to run: locations, times, and names made from heap addresses."""
    if "TimeInMs = " in text:
        text = re.sub(r"TimeInMs = \d+", "TimeInMs = 0", text)
    if "loc(" in text:
        text = "\n".join(line for line in text.split("\n") if not line.startswith("#loc"))
        text = re.sub(r' loc\((?:#\w+|unknown|"(?:[^"\\]|\\.)*"(?:\([^()]*\)|:\d+:\d+)?)\)', "", text)
    if "shared_mem_" not in text:
        return text
    numbers: dict[str, int] = {}
    return re.sub(r"shared_mem_(\d+)", lambda m: f"shared_mem_{numbers.setdefault(m.group(1), len(numbers))}", text)

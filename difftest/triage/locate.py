"""The step of a pipeline that is to blame, for every kind of finding, with the IR on both sides of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from difftest.errors import UsageError
from difftest.model import CompileResult, FailureKind, Pipeline, Verdict, VerdictKind
from difftest.oracle.judge import Reference, execute, failure_verdict, outcome_verdict
from difftest.targets.base import Target
from difftest.targets.pipelines import join, leaves, pass_name, split
from difftest.triage.culprit import WRONG, find_culprit
from difftest.triage.steps import Step, inner_passes, inner_steps, options_of

# Passes that hand the program to LLVM's code generator: what goes wrong there is a fault of the back end.
BACK_ENDS = frozenset({"gpu-module-to-binary", "enzymexla-gpu-module-to-binary"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Located:
    """The culprit: pass `name` with `options`, run as `element` after the elements of `prefix`.

    `verdict` is that of the program right after it. `before` is the last IR that was right, `after` is None when the
    pass gave none. `skipped` names passes between the two whose result could not be judged. `inner` passes come from
    an option of `element`: then `before` is the IR before `element`.
    """

    name: str
    options: str
    element: str
    prefix: tuple[str, ...]
    verdict: Verdict
    before: str
    after: str | None
    skipped: tuple[str, ...] = ()
    inner: bool = False

    @property
    def is_back_end(self) -> bool:
        """Whether code generation is to blame, not a pass."""
        return self.name in BACK_ENDS


def locate(
    reference: Reference, target: Target, pipeline: Pipeline, verdict: Verdict, *, timeout: float = 20.0
) -> Located | None:
    """The first step of `pipeline` after which the program is wrong, or that fails as `verdict` says."""
    search = _Search(reference, target, pipeline, timeout)
    found = search.wrong() if verdict.kind in WRONG else search.failing(verdict)
    return None if found is None else search.inside(found)


class _Search:
    def __init__(self, reference: Reference, target: Target, pipeline: Pipeline, timeout: float) -> None:
        self.reference = reference
        self.target = target
        self.pipeline = pipeline
        self.timeout = timeout

    def run(self, elements: tuple[str, ...], *, stages: bool = False) -> CompileResult:
        passes = Pipeline(text=join(elements), env=self.pipeline.env)
        return self.target.lower(self.reference.program.text, passes, stages=stages, timeout=self.timeout)

    def forms(self) -> Iterator[tuple[str, ...]]:
        """The pipeline taken apart, then as it was given."""
        apart, whole = leaves(self.pipeline.text), split(self.pipeline.text)
        yield apart
        if apart != whole:
            yield whole

    def wrong(self) -> Located | None:
        culprit = find_culprit(self.reference, self.target, self.pipeline, timeout=self.timeout)
        if culprit is None:
            return None
        at = culprit.position
        elements = next(e for e in self.forms() if len(e) > at and e[at] == culprit.element)
        return Located(
            name=pass_name(culprit.element),
            options=options_of(culprit.element),
            element=culprit.element,
            prefix=elements[:at],
            verdict=culprit.verdict,
            before=culprit.before,
            after=culprit.after,
            skipped=culprit.skipped,
        )

    def failing(self, verdict: Verdict) -> Located | None:
        for elements in self.forms():
            result = self.run(elements, stages=True)
            failure = result.failure
            if failure is None or not _alike(verdict, failure.kind):
                continue
            done = len(result.stages)
            if done >= len(elements) or failure.kind is FailureKind.INCOMPLETE:
                done = self._shortest(elements, failure.kind)
            if done is None:
                continue
            element = elements[done]
            found = failure_verdict(failure, self.target.label, Pipeline(text=join(elements[: done + 1])))
            return Located(
                name=pass_name(element),
                options=options_of(element),
                element=element,
                prefix=elements[:done],
                verdict=found,
                before=result.stages[done - 1].text if done else self.reference.program.text,
                after=None,
            )
        return None

    def _shortest(self, elements: tuple[str, ...], kind: FailureKind) -> int | None:
        """The index of the last element of the shortest prefix that fails with `kind`."""
        for count in range(1, len(elements) + 1):
            failure = self.run(elements[:count]).failure
            if failure is not None and failure.kind is kind:
                return count - 1
        return None

    def inside(self, found: Located) -> Located:
        """`found` narrowed to a pass of a pipeline-valued option, when one of them is to blame."""
        if not inner_passes(found.element):
            return found
        last: CompileResult | None = None
        for step in inner_steps(found.element):
            result = self.run((*found.prefix, step.element))
            if result.failure is not None and result.failure.kind is FailureKind.BAD_PIPELINE:
                return found  # this compiler does not take an empty list
            verdict = self._verdict(result)
            if verdict is not None and verdict.kind is found.verdict.kind:
                return self._narrowed(found, step, last, result)
            if verdict is not None and verdict.kind is VerdictKind.AGREE:
                last = result
        return found

    def _narrowed(self, found: Located, step: Step, last: CompileResult | None, result: CompileResult) -> Located:
        before = found.before if last is None or last.artifact is None else last.artifact.text
        return replace(
            found,
            name=step.name,
            options=step.options,
            element=step.element,
            before=before,
            after=None if result.artifact is None else result.artifact.text,
            inner=step.name != found.name,
        )

    def _verdict(self, result: CompileResult) -> Verdict | None:
        """What the program is worth after `result`; None when that cannot be told."""
        if result.failure is not None:
            try:
                return failure_verdict(result.failure, self.target.label, self.pipeline)
            except UsageError:
                return None
        assert result.artifact is not None
        blank = Verdict(kind=VerdictKind.AGREE, target=self.target.label, pipeline=self.pipeline.text)
        if not self.reference.usable:
            return blank
        try:
            return outcome_verdict(blank, self.reference, execute(result.artifact.text, self.reference))
        except UsageError:
            return None


def _alike(verdict: Verdict, kind: FailureKind) -> bool:
    """Deaths in varying places are one crash; otherwise the kinds have to be the same."""
    if verdict.failure is None:
        return True
    deaths = {FailureKind.CRASH, FailureKind.HANG}
    return verdict.failure.kind is kind or {verdict.failure.kind, kind} <= deaths

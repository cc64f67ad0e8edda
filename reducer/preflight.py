"""Before a reduction: is the question well posed?  Refuses with the reason, or says in which form to reduce."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from difftest.errors import ReadError, UsageError
from reducer.edits import Snapshot, Subject, with_text
from reducer.evaluator import Evaluator
from reducer.problem import Candidate
from reducer.text import Text

ToGeneric = Callable[[str], str]
"""Pretty text -> generic text, by a compiler that reads it; raises `UsageError` when none does."""

EMPTY_MODULE = '"builtin.module"() ({\n^bb0:\n}) : () -> ()\n'


@dataclass(frozen=True, kw_only=True)
class Preflight:
    """A question that may be asked: where to start, in which form, and what the user should be told."""

    subject: Subject
    form: str
    tests: int
    notes: tuple[str, ...] = ()


def preflight(
    candidate: Candidate,
    evaluator: Evaluator,
    *,
    repeats: int = 2,
    force_text: bool = False,
    to_generic: ToGeneric | None = None,
) -> Preflight:
    """Check that `candidate` is interesting every time, and that nothing at all is not.

    Raises `UsageError` when it is never interesting, only sometimes (a flaky predicate), or when the empty module
    is interesting too. Pretty text is read through `to_generic` when that is given. The canonical print of what we
    read must be interesting as well, else the text itself is reduced.
    """
    tests = _check_repeatable(candidate, evaluator, max(1, repeats)) + 1
    if _ask(evaluator, with_text(candidate, "" if force_text else EMPTY_MODULE)):
        raise UsageError("the predicate says yes to an empty module: it does not depend on the input")
    as_text = Preflight(subject=Text(candidate), form="text", tests=tests)
    if force_text:
        return as_text
    try:
        snapshot = _read(candidate, to_generic)
        snapshot.apply([])
    except UsageError as error:
        note = f"the input does not read as generic MLIR ({error}): its text is reduced"
        return replace(as_text, notes=(note,))
    except RecursionError:
        note = "the input is nested too deeply for its tree to be copied: its text is reduced"
        return replace(as_text, notes=(note,))
    if snapshot.candidate.key != candidate.key:
        tests += 1
        if not _ask(evaluator, snapshot.candidate):
            note = "the input printed in canonical generic form is not interesting: its text is reduced"
            return replace(as_text, tests=tests, notes=(note,))
    return Preflight(subject=snapshot, form="tree", tests=tests)


def _check_repeatable(candidate: Candidate, evaluator: Evaluator, repeats: int) -> int:
    """Ask about the unchanged input `repeats` times; raises unless it is interesting every time."""
    hits = sum(_ask(evaluator, candidate) for _ in range(repeats))
    if hits == 0:
        raise UsageError("the input is not interesting: the predicate says no to the unchanged file")
    if hits < repeats:
        raise UsageError(f"the predicate is flaky: it said yes to the unchanged file in {hits} of {repeats} runs")
    return repeats


def _read(candidate: Candidate, to_generic: ToGeneric | None) -> Snapshot:
    try:
        return Snapshot.read(candidate)
    except ReadError:
        if to_generic is None:
            raise
        return Snapshot.read(with_text(candidate, to_generic(candidate.text)))


def _ask(evaluator: Evaluator, candidate: Candidate) -> bool:
    def stream() -> Iterator[Candidate]:
        yield candidate

    return evaluator.first(stream()).hit is not None

"""A badly posed question is refused with its reason; a good one says in which form to reduce."""

from itertools import count

import pytest

from difftest.errors import UsageError
from reducer.evaluator import SerialEvaluator
from reducer.preflight import preflight
from reducer.problem import Candidate, FunctionPredicate


def ask(text, interesting, **rest):
    evaluator = SerialEvaluator(FunctionPredicate(function=lambda candidate: interesting(candidate.text)))
    return preflight(Candidate(text=text), evaluator, **rest)


GOOD = '"builtin.module"() ({\n  "test.bug"() : () -> ()\n}) : () -> ()\n'


def test_a_good_question_starts_from_the_canonical_tree():
    found = ask(GOOD.replace("  ", "      "), lambda text: "bug" in text)
    assert (found.form, found.notes) == ("tree", ())
    assert found.subject.candidate.text == GOOD
    assert found.tests == 4


def test_canonical_input_saves_a_test():
    assert ask(GOOD, lambda text: "bug" in text).tests == 3


def test_an_uninteresting_input_is_refused():
    with pytest.raises(UsageError, match="not interesting"):
        ask(GOOD, lambda _: False)


def test_a_flaky_predicate_is_refused():
    calls = count()
    with pytest.raises(UsageError, match=r"flaky: .* 2 of 4"):
        ask(GOOD, lambda _: next(calls) % 2 == 0, repeats=4)


def test_a_predicate_that_ignores_its_input_is_refused():
    with pytest.raises(UsageError, match="empty module"):
        ask(GOOD, lambda _: True)


def test_text_that_does_not_read_is_reduced_as_text():
    found = ask("this is ( not MLIR", lambda text: "not" in text)
    assert found.form == "text"
    assert "does not read" in found.notes[0]


def test_text_whose_canonical_form_is_not_interesting_is_reduced_as_text():
    found = ask(GOOD + "// trigger\n", lambda text: "trigger" in text)
    assert found.form == "text"
    assert "canonical" in found.notes[0]


def test_text_can_be_forced():
    assert ask(GOOD, lambda text: "bug" in text, force_text=True).form == "text"


def test_a_tree_too_deep_to_copy_is_reduced_as_text():
    deep = 3000
    text = '"test.nest"() ({\n' * deep + '"test.bug"() : () -> ()\n' + "}) : () -> ()\n" * deep
    found = ask(text, lambda text: "bug" in text)
    assert found.form == "text"
    assert "too deeply" in found.notes[0]


def test_pretty_text_is_read_by_whoever_can():
    def to_generic(text):
        if "broken" in text:
            raise UsageError("1:1: no")
        return GOOD

    found = ask("module { test.bug }", lambda text: "bug" in text, to_generic=to_generic)
    assert found.form == "tree"
    assert found.subject.candidate.text == GOOD
    unread = ask("module { broken test.bug }", lambda text: "bug" in text, to_generic=to_generic)
    assert unread.form == "text"
    assert "no" in unread.notes[0]

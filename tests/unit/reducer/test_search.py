"""The driver: chunks, cache, limits, interruption, statistics."""

from reducer.edits import Pass
from reducer.evaluator import SerialEvaluator
from reducer.problem import Candidate, FunctionPredicate
from reducer.search import Limits, Search
from reducer.text import Cut, Text

LINES = "".join(f"line {n}\n" for n in range(64))


def cut_lines(text):
    return [Cut(start=start, end=end) for start, end in text.lines]


def search(text, interesting, *, passes=None, **rest):
    asked = []

    def check(candidate):
        asked.append(candidate.text)
        return interesting(candidate.text)

    one = Search(Text(Candidate(text=text)), evaluator=SerialEvaluator(FunctionPredicate(function=check)), **rest)
    result = one.run([passes or [Pass(name="cut", propose=cut_lines, form="text")]])
    return result, asked


def test_one_needed_line_of_many_is_found_in_logarithmic_time():
    result, asked = search(LINES, lambda text: "line 37\n" in text)
    assert result.best.text == "line 37\n"
    assert len(asked) < 30


def test_the_same_question_is_never_asked_twice():
    _, asked = search(LINES, lambda text: text.count("line") >= 20)
    assert len(asked) == len(set(asked))


def test_what_is_not_smaller_is_not_asked():
    def grow(text):
        return [Cut(start=0, end=0, by="more\n")]

    result, asked = search(LINES, lambda _: True, passes=[Pass(name="grow", propose=grow, form="text")])
    assert asked == []
    assert result.stats.larger == 1


def test_alternatives_are_tried_one_by_one():
    passes = [Pass(name="cut", propose=cut_lines, form="text", whole=False)]
    _, asked = search(LINES, lambda _: False, passes=passes)
    assert [text.count("line") for text in asked] == [63] * 64


def test_a_pass_that_found_nothing_is_not_run_again():
    result, _ = search(LINES, lambda _: False)
    assert result.stats.of("cut").runs == 1
    assert result.stopped == ""


def test_a_limit_of_tests_keeps_the_best_so_far():
    result, asked = search(LINES, lambda text: "line 37\n" in text, limits=Limits(tests=5))
    assert len(asked) == 5
    assert result.stopped == "tests"
    assert "line 37\n" in result.best.text
    assert len(result.best.text) < len(LINES)


def test_a_limit_of_seconds_stops():
    result, asked = search(LINES, lambda _: True, limits=Limits(seconds=0.0))
    assert (result.stopped, asked) == ("seconds", [])


def test_an_interruption_keeps_the_best_so_far():
    calls = []

    def interesting(text):
        calls.append(text)
        if len(calls) == 6:
            raise KeyboardInterrupt
        return "line 37\n" in text

    seen = []
    result, _ = search(LINES, interesting, on_progress=lambda best, _stats: seen.append(best.text))
    assert result.interrupted
    assert result.best.text == seen[-1]
    assert len(result.best.text) < len(LINES)


def test_progress_is_reported_with_every_new_best_and_only_shrinks():
    seen = []
    result, _ = search(LINES, lambda text: text.count("line") >= 20, on_progress=lambda b, s: seen.append((b, s.tests)))
    sizes = [len(best.text) for best, _ in seen]
    assert sizes == sorted(sizes, reverse=True)
    assert seen[-1][0] == result.best
    assert seen[-1][1] <= result.tests


def test_statistics_add_up():
    result, asked = search(LINES, lambda text: "line 37\n" in text)
    cut = result.stats.of("cut")
    assert cut.tests == result.tests == len(asked)
    assert cut.bytes_removed == len(LINES) - len(result.best.text)
    assert cut.ops_removed == 63
    assert result.stats.as_json()["passes"][0]["accepted"] == cut.accepted > 0


def test_overlapping_cuts_are_made_once():
    text = Text(Candidate(text="abcdef"))
    assert text.apply([Cut(start=1, end=3), Cut(start=2, end=5)]).candidate.text == "adef"
    assert text.apply([Cut(start=1, end=3), Cut(start=1, end=5)]).candidate.text == "af"
    assert text.apply([]) is None

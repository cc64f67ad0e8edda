"""Several evaluators give the answers of one, whatever they do to themselves."""

import time

import pytest

from difftest.errors import HarnessError, UsageError
from reducer.edits import Snapshot
from reducer.evaluator import SerialEvaluator
from reducer.parallel import ProcessEvaluator
from reducer.problem import Candidate
from reducer.reduce import reduce
from reducer.script import ScriptFactory

CASE = """"builtin.module"() ({
"func.func"() <{function_type = (f32, memref<4xf32>) -> (), sym_name = "f"}> ({
^bb0(%x: f32, %m: memref<4xf32>):
  %c = "arith.constant"() <{value = 3 : index}> : () -> index
  %d = "arith.constant"() <{value = 2 : index}> : () -> index
  %y = "arith.mulf"(%x, %x) <{fastmath = #arith.fastmath<fast>}> : (f32, f32) -> f32
  %z = "arith.addf"(%y, %x) <{fastmath = #arith.fastmath<none>}> : (f32, f32) -> f32
  "memref.store"(%z, %m, %c) : (f32, memref<4xf32>, index) -> ()
  "memref.store"(%x, %m, %d) : (f32, memref<4xf32>, index) -> ()
  "func.return"() : () -> ()
}) : () -> ()
}) : () -> ()
"""


def candidates(*texts):
    return iter([Candidate(text=text) for text in texts])


@pytest.fixture
def evaluators(script):
    """Make a `ProcessEvaluator` on a script, closed at the end."""
    made = []

    def make(text, *, jobs=2, timeout=10.0, limit=5.0):
        made.append(
            ProcessEvaluator(ScriptFactory(script=script(text), name="x", timeout=limit), jobs=jobs, timeout=timeout)
        )
        return made[-1]

    yield make
    for one in made:
        one.close()


def test_the_first_in_order_wins_even_when_a_later_one_answers_sooner(evaluators):
    evaluator = evaluators("#!/bin/sh\ngrep -q slow x && sleep 0.3\ngrep -q yes x\n")
    answers = evaluator.first(candidates("no", "slow yes", "yes", "yes"))
    assert answers.interesting == (False, True)
    assert answers.hit == 1
    assert evaluator.first(candidates("no", "no")).hit is None
    assert evaluator.first(candidates("yes")).hit == 0


def test_no_candidates_no_answers(evaluators):
    assert evaluators("#!/bin/sh\nexit 0\n").first(candidates()).interesting == ()


def test_a_reduction_does_not_depend_on_the_number_of_evaluators(evaluators, script):
    check = "#!/bin/sh\ngrep -q memref.store x && grep -q 'arith.mulf' x\n"
    start = Snapshot.read(Candidate(text=CASE))
    serial = SerialEvaluator(ScriptFactory(script=script(check), name="x")())
    one = reduce(start, form="tree", evaluator=serial)
    three = reduce(start, form="tree", evaluator=evaluators(check, jobs=3))
    assert one.best == three.best
    assert one.tests == three.tests
    assert one.best.text.count("memref.store") == 1


def test_an_evaluator_that_dies_costs_one_candidate(evaluators):
    evaluator = evaluators("#!/bin/sh\ngrep -q die x && kill -9 $PPID\nexit 0\n")
    answers = evaluator.first(candidates("die", "die", "fine"))
    assert answers.interesting == (False, False, True)
    assert answers.lost == 2


def test_an_evaluator_that_hangs_costs_one_candidate(evaluators):
    evaluator = evaluators("#!/bin/sh\ngrep -q hang x && sleep 60\nexit 0\n", timeout=2.0, limit=100.0)
    evaluator.first(candidates("warm"))
    started = time.monotonic()
    answers = evaluator.first(candidates("hang", "fine"))
    assert answers.interesting == (False, True)
    assert answers.lost == 1
    assert time.monotonic() - started < 8


def test_closing_ends_a_busy_evaluator_and_what_it_started(evaluators, tmp_path):
    mark = tmp_path / "mark"
    evaluator = evaluators(f"#!/bin/sh\ngrep -q slow x && sleep 3 && echo alive > {mark}\nexit 0\n")
    evaluator.first(candidates("warm", "warm"))
    assert evaluator.first(candidates("fine", "slow")).interesting == (True,)
    started = time.monotonic()
    evaluator.close()
    assert time.monotonic() - started < 2.5
    time.sleep(max(0.0, started + 3.5 - time.monotonic()))
    assert not mark.exists()


def test_a_predicate_that_cannot_be_made_is_reported(tmp_path):
    evaluator = ProcessEvaluator(ScriptFactory(script=tmp_path / "none", name="x"), jobs=1)
    with pytest.raises(UsageError, match="no such file"):
        evaluator.first(candidates("x"))
    evaluator.close()


def test_dying_over_and_over_still_ends(script):
    evaluator = ProcessEvaluator(ScriptFactory(script=script("#!/bin/sh\nkill -9 $PPID\n"), name="x"), jobs=1)
    assert evaluator.first(candidates("1", "2", "3", "4", "5")).lost == 5
    evaluator.close()


def test_at_least_one_job(script):
    with pytest.raises(UsageError, match="at least 1"):
        ProcessEvaluator(ScriptFactory(script=script("#!/bin/sh\n"), name="x"), jobs=0)


def test_a_harness_fault_in_a_predicate_is_raised_here(script, tmp_path):
    # A name with a folder that does not exist makes the predicate's own code raise.
    evaluator = ProcessEvaluator(ScriptFactory(script=script("#!/bin/sh\n"), name="no/such/x"), jobs=1)
    with pytest.raises(HarnessError, match="FileNotFoundError"):
        evaluator.first(candidates("x"))
    evaluator.close()

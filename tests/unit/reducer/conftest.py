"""What tests of the reducer share: reducing with a plain function, applying the edits of one pass."""

from pathlib import Path

import pytest

from difftest.ir.reader import read_module
from reducer.edits import Snapshot
from reducer.evaluator import SerialEvaluator
from reducer.problem import Candidate, FunctionPredicate
from reducer.reduce import reduce
from reducer.schedule import discover
from reducer.search import NO_LIMITS, no_progress
from reducer.text import Text


def module(body, arguments="", types=""):
    """A module with one function `f` around `body`, generic text."""
    return (
        f'"builtin.module"() ({{\n"func.func"() <{{function_type = ({types}) -> (), sym_name = "f"}}> ({{\n'
        f'^bb0({arguments}):\n{body}\n"func.return"() : () -> ()\n}}) : () -> ()\n}}) : () -> ()\n'
    )


def names(candidate):
    """The names of all operations, in textual order, the module left out."""
    return [op.name for op in read_module(candidate.text).walk()][1:]


class Lab:
    """The reducer at hand: see the functions above and below."""

    module = staticmethod(module)
    names = staticmethod(names)

    @staticmethod
    def snapshot(text, **rest):
        """A snapshot of generic text."""
        return Snapshot.read(Candidate(text=text, **rest))

    @staticmethod
    def proposals(name, text, **rest):
        """The candidates that the edits of the pass `name` make one by one, without those that change nothing."""
        snapshot = Lab.snapshot(text, **rest)
        made = (snapshot.apply([edit]) for edit in discover()[name].propose(snapshot))
        return [one.candidate for one in made if one is not None]

    @staticmethod
    def reduce(text, interesting, *, form="tree", limits=NO_LIMITS, on_progress=no_progress, **rest):
        """Reduce with a function of the candidate as predicate."""
        candidate = Candidate(text=text, **rest)
        return reduce(
            Snapshot.read(candidate) if form == "tree" else Text(candidate),
            form=form,
            evaluator=SerialEvaluator(FunctionPredicate(function=interesting)),
            limits=limits,
            on_progress=on_progress,
        )


@pytest.fixture(scope="session")
def lab():
    """See `Lab`."""
    return Lab


@pytest.fixture
def script(tmp_path):
    """Write an executable script and return its path."""

    def write(text, name="check.sh", mode=0o755):
        path: Path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        path.chmod(mode)
        return path

    return write

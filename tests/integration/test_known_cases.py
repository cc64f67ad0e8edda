"""The corpus of known bugs still shows what each file says, on every version it names."""

from contextlib import closing
from pathlib import Path

import pytest

from corpus.header import parse_header, run_options
from difftest.oracle.load import load_program, prepare_sized
from difftest.session import judge_fully
from difftest.targets import open_target

KNOWN = sorted((Path(__file__).parents[2] / "corpus" / "known").glob("*.mlir"))
CASES = [
    pytest.param(path, target, verdict, id=f"{path.stem}-{target}")
    for path in KNOWN
    for target, verdict in parse_header(path.read_text(), path=str(path)).expected.items()
]


def test_there_are_known_cases():
    assert len(KNOWN) >= 16 and len(CASES) >= 50


@pytest.mark.enzyme
@pytest.mark.parametrize(("path", "target", "verdict"), CASES)
def test_a_known_case_has_its_verdict(path, target, verdict):
    pipeline = run_options(parse_header(path.read_text()))["--pipeline"]
    with closing(open_target(target)) as compiler:
        reference, _ = prepare_sized(load_program(path, prefer=(target,)))
        assert reference.usable, reference.outcome.fault
        found = judge_fully(reference, compiler, pipeline)
    assert found.kind is verdict, found.message

"""Version tables: statuses, ranges, turning points, and what is kept."""

import pytest

from difftest.errors import UsageError
from difftest.model import Pipeline, Program, Signature, VerdictKind
from difftest.targets import open_target
from difftest.triage.versions import (
    Cache,
    Row,
    Seen,
    Status,
    fixed_in,
    introduced_in,
    status_of,
    version_labels,
)

CRASH = Signature(kind="crash", pass_name="p", detail=("a", "b"))


def rows(*statuses):
    labels = [f"enzyme-ad@0.0.{14 + i}" for i in range(len(statuses))]
    seen = Seen(verdict=VerdictKind.AGREE)
    return [Row(label=name, status=status, seen=seen) for name, status in zip(labels, statuses, strict=True)]


SAME, PASSES, OTHER, CANNOT = Status.SAME, Status.PASSES, Status.OTHER, Status.INEXPRESSIBLE


@pytest.mark.parametrize(
    ("statuses", "introduced", "fixed"),
    [
        ((SAME, SAME, PASSES), None, "0.0.16"),
        ((PASSES, SAME, SAME), "0.0.15", None),
        ((PASSES, SAME, PASSES), "0.0.15", "0.0.16"),
        ((SAME, PASSES, SAME), "0.0.16", None),
        ((SAME, SAME, SAME), None, None),
        ((PASSES, PASSES, PASSES), None, None),
        ((SAME, CANNOT, PASSES), None, "0.0.16"),
        ((SAME, OTHER, PASSES), None, "0.0.16"),
        ((CANNOT, SAME), None, None),
        ((), None, None),
    ],
)
def test_turning_points(statuses, introduced, fixed):
    table = rows(*statuses)
    assert (introduced_in(table), fixed_in(table)) == (introduced, fixed)


def test_upstream_is_no_version():
    table = [*rows(SAME), Row(label="mlir", status=PASSES, seen=Seen(verdict=VerdictKind.AGREE))]
    assert fixed_in(table) is None


@pytest.mark.parametrize(
    ("seen", "status"),
    [
        (Seen(verdict=VerdictKind.CRASH, signature=CRASH), SAME),
        (Seen(verdict=VerdictKind.CRASH, signature=Signature(kind="crash", pass_name="q", detail=("a", "b"))), OTHER),
        (Seen(verdict=VerdictKind.MISMATCH, signature=Signature(kind="mismatch", pass_name="p")), OTHER),
        (Seen(verdict=VerdictKind.AGREE), PASSES),
        (Seen(verdict=None), CANNOT),
        (Seen(verdict=VerdictKind.UNSUPPORTED), Status.UNJUDGED),
        (Seen(verdict=VerdictKind.LIMIT), Status.UNJUDGED),
    ],
)
def test_statuses(seen, status):
    assert status_of(CRASH, seen) is status


def test_wrong_results_of_one_pass_are_one_failure_but_a_race_is_another():
    def wrong(detail, name="p"):
        return Signature(kind="mismatch", pass_name=name, detail=(detail,))

    def seen(signature):
        return Seen(verdict=VerdictKind.MISMATCH, signature=signature)

    assert status_of(wrong("value"), seen(wrong("out-of-bounds"))) is SAME
    assert status_of(wrong("value"), seen(wrong("race"))) is OTHER
    assert status_of(wrong("value"), seen(wrong("value", "q"))) is OTHER


def test_ranges_take_known_versions_between_their_ends():
    known = ("0.0.16", "0.0.14", "0.0.9", "0.0.15")
    assert version_labels("0.0.14..0.0.16", known) == ("enzyme-ad@0.0.14", "enzyme-ad@0.0.15", "enzyme-ad@0.0.16")
    assert version_labels("0.0.16,0.0.9", known) == ("enzyme-ad@0.0.9", "enzyme-ad@0.0.16")


@pytest.mark.parametrize("text", ["0.0.16..0.0.14", "new..old", ",", "0.0.14.."])
def test_a_bad_range_is_one_line(text):
    with pytest.raises(UsageError, match="--versions"):
        version_labels(text, ("0.0.14",))


def test_answers_are_kept_by_program_toolchain_and_pipeline(tmp_path):
    cache, target = Cache(tmp_path / "new"), open_target("null")
    program, passes = Program(text="a", entry="k"), Pipeline(text="cse")
    key = cache.key(program, target, passes)
    assert cache.get(key) is None
    seen = Seen(verdict=VerdictKind.CRASH, signature=CRASH, message="m")
    cache.put(key, seen)
    assert cache.get(key) == seen
    others = {
        cache.key(Program(text="b", entry="k"), target, passes),
        cache.key(Program(text="a", entry="l"), target, passes),
        cache.key(program, target, Pipeline(text="cse", env={"A": "1"})),
        cache.key(program, open_target("mlir"), passes),
    }
    assert len(others) == 4 and key not in others


def test_a_damaged_answer_is_asked_again(tmp_path):
    cache = Cache(tmp_path)
    (tmp_path / "x.json").write_text('{"verdict": 1')
    (tmp_path / "y.json").write_text("[]")
    assert cache.get("x") is None and cache.get("y") is None

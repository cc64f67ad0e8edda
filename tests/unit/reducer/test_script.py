"""The C-Reduce convention, and scripts that misbehave."""

import time
from pathlib import Path

import pytest

from difftest.errors import UsageError
from reducer.problem import Candidate
from reducer.script import ScriptFactory


def test_exit_zero_is_interesting(script):
    predicate = ScriptFactory(script=script("#!/bin/sh\ngrep -q bug case.mlir\n"), name="case.mlir")()
    assert predicate.check(Candidate(text="a bug\n"))
    assert not predicate.check(Candidate(text="nothing\n"))


def test_the_code_that_means_interesting_can_be_chosen(script):
    predicate = ScriptFactory(script=script("#!/bin/sh\nexit 1\n"), name="x", exit_code=1)()
    assert predicate.check(Candidate(text=""))


def test_the_candidate_is_alone_in_a_fresh_folder_under_its_name_and_first_argument(script):
    check = '#!/bin/sh\n[ "$(ls)" = "a b.mlir" ] && [ "$1" = "a b.mlir" ] && touch leftover\n'
    predicate = ScriptFactory(script=script(check), name="a b.mlir")()
    assert predicate.check(Candidate(text="x"))
    assert predicate.check(Candidate(text="x"))


def test_a_script_that_deletes_its_file_or_prints_binary_harms_nobody(script):
    predicate = ScriptFactory(
        script=script("#!/bin/sh\nrm -r ../$(basename $PWD)/*\nhead -c 100 /dev/urandom\n"), name="x"
    )()
    assert predicate.check(Candidate(text="x"))


def test_a_hanging_script_is_killed_with_what_it_started(script, tmp_path):
    mark = tmp_path / "mark"
    body = f"#!/bin/sh\n(sleep 1; echo alive > {mark}) &\nsleep 30\n"
    predicate = ScriptFactory(script=script(body), name="x", timeout=0.2)()
    started = time.monotonic()
    assert not predicate.check(Candidate(text="x"))
    assert time.monotonic() - started < 5
    assert predicate.timeouts == 1
    time.sleep(1.2)
    assert not mark.exists()


@pytest.mark.parametrize(
    ("text", "mode", "message"),
    [
        ("exit 0\n", 0o755, "no shebang"),
        ("#!/bin/sh\n", 0o644, "not executable"),
        ("#!/no/such/sh\n", 0o755, "cannot run"),
    ],
)
def test_a_script_that_cannot_run_is_a_usage_error(script, text, mode, message):
    with pytest.raises(UsageError, match=message):
        ScriptFactory(script=script(text, mode=mode), name="x")().check(Candidate(text="x"))


def test_a_missing_script_is_a_usage_error(tmp_path):
    for path in (tmp_path / "none", Path(tmp_path)):
        with pytest.raises(UsageError, match="no such file"):
            ScriptFactory(script=path, name="x")()


def test_text_that_is_not_utf8_reaches_the_script_unchanged(script):
    text = b"\xff\xfe".decode("utf-8", "surrogateescape")
    predicate = ScriptFactory(script=script("#!/bin/sh\n[ $(wc -c < x) = 2 ]\n"), name="x")()
    assert predicate.check(Candidate(text=text))

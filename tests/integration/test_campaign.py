"""A campaign survives its own workers, and says what it lost."""

import json
import os
import signal
from pathlib import Path

from difftest.campaign.loop import Campaign
from difftest.campaign.plan import Settings, assignments
from difftest.campaign.save import summary


def run(settings, observe):
    campaign = Campaign(settings, lambda progress: observe(campaign))
    return campaign.run()


def test_a_killed_worker_costs_only_the_seed_in_flight():
    killed = []

    def kill_once(campaign):
        if campaign.progress.programs >= 5 and not killed:
            killed.append(campaign._seats[0].process.pid)
            os.kill(killed[0], signal.SIGKILL)

    settings = Settings(targets=("null",), count=60, jobs=2)
    progress = run(settings, kill_once)
    assert killed and progress.programs == 60
    crashes = progress.verdicts["harness-crash"]
    assert crashes <= 1 and len(progress.faults) == crashes
    assert sum(progress.verdicts.values()) == 60


def test_no_process_is_left_behind():
    pids = set()
    settings = Settings(targets=("mlir",), count=6, jobs=2, profile="parallel")
    run(settings, lambda campaign: pids.update(seat.process.pid for seat in campaign._seats))
    assert len(pids) == 2
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)


def test_stopping_drains_and_keeps_what_is_known():
    settings = Settings(targets=("null",), count=100_000, jobs=1)

    def stop_soon(campaign):
        if campaign.progress.programs >= 20:
            campaign.stop()

    progress = run(settings, stop_soon)
    assert 20 <= progress.programs < 1000
    report = summary(progress, settings, {})
    assert json.loads(json.dumps(report))["programs"] == progress.programs


def test_programs_with_enzyme_ops_are_not_offered_to_upstream_compilers():
    settings = Settings(targets=("mlir", "enzyme-ad@0.0.16", "null"))
    labels = {a.target for a in assignments(("gpu_wrapper", "scf.parallel"), settings)}
    assert labels == {"enzyme-ad@0.0.16", "null"}
    assert {a.target for a in assignments(("scf.parallel",), settings)} == {"mlir", "enzyme-ad@0.0.16", "null"}


def test_given_pipelines_replace_the_suitable_ones():
    settings = Settings(targets=("mlir",), pipelines=("canonicalize", "cse"))
    assert [a.pipeline for a in assignments((), settings)] == ["canonicalize", "cse"]

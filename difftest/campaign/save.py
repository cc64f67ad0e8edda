"""What a campaign leaves on disk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from corpus.header import program_file
from difftest.campaign.buckets import Bucket, bucket_key
from difftest.campaign.messages import ReduceDone
from difftest.campaign.plan import Settings
from difftest.campaign.stats import Progress
from difftest.report.finding import FindingRecord, write_finding
from generators import program_for_seed


def save_findings(out: Path, progress: Progress, settings: Settings) -> dict[str, str]:
    """Write one folder per distinct bucket: `out/findings/…`, those to be explained first in `out/suspects/…`.

    Returns bucket -> folder.
    """
    paths: dict[str, str] = {}
    for key, bucket in progress.distinct().items():
        record = _record(key, bucket, progress.reductions.get(bucket_key(bucket)), settings)
        paths[key] = str(write_finding(out / ("suspects" if bucket.suspect else "findings"), record))
    return paths


def _record(key: str, bucket: Bucket, done: ReduceDone | None, settings: Settings) -> FindingRecord:
    program = program_for_seed(bucket.seed, settings.profile)
    if done is None or done.best is None:
        return FindingRecord(
            key=key,
            target=bucket.target,
            pipeline=bucket.identity.pipeline,
            verdict=bucket.verdict,
            seed=bucket.seed,
            profile=settings.profile,
            occurrences=bucket.count,
            original=program_file(program),
            reduced=program.text,
            entry=program.entry,
            inputs=program.inputs,
            ops=0,
            complete=False,
        )
    return FindingRecord(
        key=key,
        target=bucket.target,
        pipeline=done.best.pipeline or bucket.identity.pipeline,
        verdict=done.verdict or bucket.verdict,
        seed=bucket.seed,
        profile=settings.profile,
        occurrences=bucket.count,
        original=program_file(program),
        reduced=done.pretty,
        entry=done.best.entry,
        inputs=done.best.inputs,
        ops=done.ops,
        tests=done.tests,
        seconds=done.seconds,
        complete=not done.interrupted,
        versions=dict(done.versions),
    )


def summary(progress: Progress, settings: Settings, paths: dict[str, str]) -> dict[str, Any]:
    """The run as plain data. `exit_code` is what a gate says: 1 with findings or faults of our own, else 0."""
    distinct = progress.distinct()
    findings = [_bucket_json(k, b, progress, paths) for k, b in distinct.items() if not b.suspect]
    suspects = [_bucket_json(k, b, progress, paths) for k, b in distinct.items() if b.suspect]
    return {
        "programs": progress.programs,
        "cases": progress.cases,
        "programs_per_second": round(progress.rate, 1),
        "seconds": round(progress.seconds, 1),
        "seed": settings.seed,
        "profile": settings.profile,
        "targets": list(settings.targets),
        "verdicts": dict(sorted(progress.verdicts.items())),
        "unsupported": dict(progress.unsupported.most_common(20)),
        "suspect_reference": suspects,
        "harness_faults": grouped_faults(progress),
        "findings": findings,
        "exit_code": 1 if findings or progress.faults else 0,
    }


def _bucket_json(key: str, bucket: Bucket, progress: Progress, paths: dict[str, str]) -> dict[str, Any]:
    done = progress.reductions.get(bucket_key(bucket))
    return {
        "identity": key,
        "verdict": str(bucket.verdict.kind),
        "pass": bucket.identity.signature.pass_name,
        "message": bucket.verdict.message,
        "seen": bucket.count,
        "targets": dict(sorted(bucket.targets.items())),
        "seed": bucket.seed,
        "seeds": bucket.seeds,
        "ops": None if done is None or done.best is None else done.ops,
        "path": paths.get(key, ""),
    }


def grouped_faults(progress: Progress) -> list[dict[str, Any]]:
    """Faults of our own by their last line: how often, the first seeds, and one whole text."""
    groups: dict[str, dict[str, Any]] = {}
    for seed, text in progress.faults:
        message = next((line for line in reversed(text.splitlines()) if line.strip()), "")
        group = groups.setdefault(message, {"message": message, "count": 0, "seeds": [], "text": text})
        group["count"] += 1
        if len(group["seeds"]) < 5:
            group["seeds"].append(seed)
    return list(groups.values())

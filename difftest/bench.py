"""The performance rows of the project: measured here and now, as ratios where a peer exists, asserted nowhere.

Rows over programs use the same 200 default-profile programs (seeds 0-199) and print their median op count.
"""

from __future__ import annotations

import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

import corpus
from difftest.bench_programs import LANES, LOOP, MATMULS
from difftest.campaign.plan import ENZYME_CONSTRUCTS
from difftest.devices.throughput import measure
from difftest.errors import UsageError
from difftest.ir.reader import read_module
from difftest.ir.tree import count_ops
from difftest.model import CompileResult, InputSpec, OutcomeKind, Program, Schedule
from difftest.oracle.compare import compare
from difftest.oracle.judge import execute, judge, prepare
from difftest.oracle.load import load_program, prepare_sized
from difftest.targets import open_target
from difftest.targets.pipelines import resolve
from generators import program_for_seed
from reducer.finding import Options, failure_of, reduce_failure

PROGRAMS = 200
SINGLE_PROCESS_CASES = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One measurement. `ratio` is ours against `peer`, above 1 when ours is better."""

    name: str
    value: float
    unit: str
    programs: int = 0
    median_ops: int = 0
    peer: str = ""
    ratio: float | None = None
    note: str = ""

    def as_json(self) -> dict[str, Any]:
        """The object of the bench's output."""
        return {
            "name": self.name,
            "value": round(self.value, 4),
            "unit": self.unit,
            "programs": self.programs,
            "median_ops": self.median_ops,
            "peer": self.peer,
            "ratio": None if self.ratio is None else round(self.ratio, 2),
            "note": self.note,
        }

    def as_text(self) -> str:
        """One line."""
        over = f", {self.programs} programs of median {self.median_ops} ops" if self.programs else ""
        ratio = f", {self.ratio:.1f}x {self.peer}" if self.ratio is not None else ""
        return f"{self.name}: {self.value:.4g} {self.unit}{over}{ratio}{f' ({self.note})' if self.note else ''}"


def run_rows(names: Sequence[str] = ()) -> Iterator[Row]:
    """Measure the rows called `names`, all when there are none. Raises UsageError for an unknown name."""
    unknown = [name for name in names if name not in ROWS]
    if unknown:
        raise UsageError(f"no benchmark {unknown[0]!r}; known: {', '.join(ROWS)}")
    for name in names or ROWS:
        yield from ROWS[name]()


@cache
def _programs() -> tuple[Program, ...]:
    return tuple(program_for_seed(seed, "default") for seed in range(PROGRAMS))


def _median_ops(programs: Sequence[Program]) -> int:
    return round(statistics.median(count_ops(read_module(p.text)) for p in programs))


def _timed(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def _generate() -> Iterator[Row]:
    count = 2000
    seconds = _timed(lambda: [program_for_seed(seed, "default") for seed in range(count)])
    ops = _median_ops(_programs())
    yield Row(name="generate", value=count / seconds, unit="programs/s", programs=count, median_ops=ops)


def _compile(name: str, label: str, pipeline: str, wanted: Callable[[Program], bool]) -> Callable[[], Iterator[Row]]:
    def measure() -> Iterator[Row]:
        programs = [p for p in _programs() if wanted(p)]
        with closing(open_target(label)) as target:
            passes = resolve(pipeline, target.label)
            for program in programs[:20]:  # warm
                target.lower(program.text, passes)
            results: list[CompileResult] = []
            seconds = _timed(lambda: results.extend(target.lower(p.text, passes) for p in programs))
        alone = [_alone(label, p, pipeline) for p in programs[:SINGLE_PROCESS_CASES]]
        good = sum(1 for r in results if r.artifact is not None)
        rate = len(programs) / seconds
        yield Row(
            name=name,
            value=rate,
            unit="programs/s",
            programs=len(programs),
            median_ops=_median_ops(programs),
            peer="a fresh compiler process per case",
            ratio=rate * statistics.mean(alone),
            note=f"{good} of {len(programs)} compile",
        )

    return measure


def _alone(label: str, program: Program, pipeline: str) -> float:
    """Seconds for one compilation in a compiler process of its own: start, load, compile, end."""

    def run() -> None:
        with closing(open_target(label)) as target:
            target.lower(program.text, resolve(pipeline, target.label))

    return _timed(run)


def _interpret_matmul() -> Iterator[Row]:
    for spelling, text in MATMULS.items():
        program = Program(text=text, entry="matmul", inputs=InputSpec(seed=1))
        prepare(program)
        seconds = min(_timed(lambda p=program: prepare(p)) for _ in range(3))
        yield Row(name=f"interpret-matmul {spelling}", value=seconds, unit="s", note="64x64x64, all checks")


def _interpret_lanes() -> Iterator[Row]:
    for kind, (text, ops) in LANES.items():
        program = Program(text=text, entry="lanes", inputs=InputSpec(seed=1))
        prepare(program)
        seconds = min(_timed(lambda p=program: prepare(p)) for _ in range(5))
        yield Row(
            name=f"interpret-lanes {kind}",
            value=ops * 4096 / seconds / 1e6,
            unit="M op·lanes/s",
            note="4,096 lanes",
        )


def _interpret_loop() -> Iterator[Row]:
    program = Program(text=LOOP, entry="loop", inputs=InputSpec(seed=1))
    yield Row(name="interpret-loop", value=_timed(lambda: prepare(program)), unit="s", note="1e6 iterations of 4 ops")


def _emulate(lanes: int) -> Callable[[], Iterator[Row]]:
    def run() -> Iterator[Row]:
        found = measure(lanes=lanes)
        note = "sanitizer on, instruction mix of generated kernels"
        if lanes <= 256:
            value, unit = found.microseconds_per_instruction, "µs/instruction"
        else:
            value, unit = found.nanoseconds_per_lane_instruction, "ns/lane-instruction"
        yield Row(name=f"emulate-{lanes}", value=value, unit=unit, note=note)

    return run


def _end_to_end_mid() -> Iterator[Row]:
    kinds: Counter[str] = Counter()

    def run(seeds: Iterable[int]) -> None:
        for seed in seeds:
            program = program_for_seed(seed, "default")
            passes = differentiate if _derivative(program) else optimise
            kinds[judge(prepare(program), target, passes).verdict.kind] += 1

    with closing(open_target("enzyme-ad@0.0.16")) as target:
        differentiate, optimise = (resolve(name, target.label) for name in ("enzyme-diff", "parallel-opt"))
        run(range(10))
        kinds.clear()
        seconds = _timed(lambda: run(range(PROGRAMS)))
    yield Row(
        name="end-to-end-mid",
        value=PROGRAMS / seconds,
        unit="programs/s",
        programs=PROGRAMS,
        median_ops=_median_ops(_programs()),
        note=", ".join(f"{n} {kind}" for kind, n in kinds.most_common()),
    )


def _end_to_end() -> Iterator[Row]:
    kinds: Counter[str] = Counter()
    schedules: Counter[bool] = Counter()

    def run(seeds: Iterable[int]) -> None:
        for seed in seeds:
            program = program_for_seed(seed, "default")
            target, passes = (upstream, nvvm) if _plain(program) else (enzyme, cut)
            reference = prepare(program)
            found = judge(reference, target, passes)
            kinds[found.verdict.kind] += 1
            if found.outcome is not None and found.result is not None and found.result.artifact is not None:
                again = execute(found.result.artifact.text, reference, schedule=Schedule.SHUFFLED)
                if again.kind is OutcomeKind.OK and found.outcome.kind is OutcomeKind.OK:
                    schedules[compare(found.outcome, again).difference is None] += 1

    with closing(open_target("mlir")) as upstream, closing(open_target("enzyme-ad@0.0.16")) as enzyme:
        nvvm, cut = resolve("nvvm", upstream.label), resolve("enzyme-cut", enzyme.label)
        run(range(10))
        kinds.clear()
        schedules.clear()
        seconds = _timed(lambda: run(range(PROGRAMS)))
    yield Row(
        name="end-to-end",
        value=PROGRAMS / seconds,
        unit="programs/s",
        programs=PROGRAMS,
        median_ops=_median_ops(_programs()),
        note=f"one compiler a program, {schedules[True]} equal and {schedules[False]} different under two schedules: "
        + ", ".join(f"{n} {kind}" for kind, n in kinds.most_common()),
    )


def _reduce_mre() -> Iterator[Row]:
    start = time.perf_counter()
    with closing(open_target("enzyme-ad@0.0.15")) as target:
        pipeline = resolve("canonicalize,convert-parallel-to-gpu1", target.label)
        file = Path(corpus.__file__).parent / "seeds" / "convert_parallel_to_gpu1.mlir"
        reference, _ = prepare_sized(load_program(file, prefer=(target.label,)))
        signature = failure_of(reference, target, pipeline, timeout=10.0)
        reduction = reduce_failure(reference, target, pipeline, signature, options=Options(jobs=2))
    seconds = time.perf_counter() - start
    note = f"{reduction.ops} ops, {reduction.tests} tests"
    yield Row(name="reduce-mre", value=seconds, unit="s", note=note)


def _plain(program: Program) -> bool:
    return not ENZYME_CONSTRUCTS.intersection(program.constructs)


def _kernel(program: Program) -> bool:
    return "gpu_wrapper" in program.constructs


def _derivative(program: Program) -> bool:
    return "gpu_wrapper" not in program.constructs and not _plain(program)


ROWS: Mapping[str, Callable[[], Iterator[Row]]] = MappingProxyType(
    {
        "generate": _generate,
        "compile-nvvm": _compile("compile-nvvm", "mlir", "nvvm", _plain),
        "compile-enzyme-cuda": _compile("compile-enzyme-cuda", "enzyme-ad@0.0.16", "enzyme-cuda", _kernel),
        "compile-enzyme-diff": _compile("compile-enzyme-diff", "enzyme-ad@0.0.16", "enzyme-diff", _derivative),
        "interpret-matmul": _interpret_matmul,
        "interpret-lanes": _interpret_lanes,
        "interpret-loop": _interpret_loop,
        "emulate-256": _emulate(256),
        "emulate-65536": _emulate(65_536),
        "end-to-end-mid": _end_to_end_mid,
        "end-to-end": _end_to_end,
        "reduce-mre": _reduce_mre,
    }
)

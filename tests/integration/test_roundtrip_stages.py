"""The IR after every pass, on every toolchain: it reads, prints, reads again equal, and its toolchain takes it back.

The programs are tests/data/stages/*.mlir; MLIR_DIFFTEST_EXAMPLES may name a folder of further ones (pretty or generic,
any depth), which are normalised by the toolchain itself and skipped where it does not read them.
"""

import os
from pathlib import Path

import pytest

from difftest import toolchains
from difftest.errors import ToolchainError
from difftest.ir.printer import print_module
from difftest.ir.reader import read_module
from difftest.ir.text import canonical_hash, is_generic
from difftest.ir.tree import clone
from difftest.targets import open_target
from difftest.targets.pipelines import resolve

STAGES = sorted((Path(__file__).parents[1] / "data" / "stages").glob("*.mlir"))
EXAMPLES = os.environ.get("MLIR_DIFFTEST_EXAMPLES")
ENZYME = ("enzyme-ad@0.0.14", "enzyme-ad@0.0.15", "enzyme-ad@0.0.16")
LABELS = [*(pytest.param(label, marks=pytest.mark.enzyme) for label in ENZYME), "mlir"]
UPSTREAM_NAMES = ("nvvm", "nvvm-async", "nvvm-llvm", "nvvm-llvm-async", "parallel-opt")
ENZYME_NAMES = ("enzyme-diff", "enzyme-cut", "enzyme-cuda")
OUTLINE = "gpu-kernel-outlining,"


@pytest.fixture(scope="module")
def opened():
    """Targets by label, started once for the module."""
    targets = {}
    yield targets
    for found in targets.values():
        found.close()


def use(opened, label):
    if label not in opened:
        if label in ENZYME:
            try:
                toolchains.ensure(label)
            except ToolchainError as error:
                pytest.skip(str(error))
        found = open_target(label)
        availability = found.availability()
        if not availability.usable:
            pytest.skip(availability.reason)
        opened[label] = found
    return opened[label]


@pytest.fixture(scope="module", params=LABELS)
def target(opened, request):
    return use(opened, request.param)


def pipelines(label):
    names = UPSTREAM_NAMES + (ENZYME_NAMES if label in ENZYME else ())
    yield from (resolve(name, label) for name in names)
    cut = resolve("nvvm", label).text
    yield resolve(OUTLINE + cut[cut.index("nvvm-attach-target") :], label)


def check_stage(text, target, seen):
    """One text of a toolchain, in house spelling."""
    module = read_module(text)
    digest = canonical_hash(module)
    if digest in seen:
        return
    seen.add(digest)
    printed = print_module(module)
    assert print_module(read_module(printed)) == printed
    assert print_module(clone(module)) == printed
    assert is_generic(printed)
    refusal = target.verify(printed)
    assert refusal is None, f"{target.label} does not take back what it printed: {refusal}"


def check_program(text, target, *, seen):
    found = 0
    for pipeline in pipelines(target.label):
        for stage in target.lower(text, pipeline, stages=True).stages:
            check_stage(stage.text, target, seen)
            found += 1
    return found


@pytest.mark.parametrize("path", STAGES, ids=lambda p: p.stem)
def test_every_stage_reads_prints_and_is_taken_back(path, target):
    text = path.read_text()
    assert target.verify(text) is None
    seen = set()
    assert check_program(text, target, seen=seen) >= len(UPSTREAM_NAMES)
    assert len(seen) >= 2


@pytest.mark.enzyme
@pytest.mark.parametrize("path", STAGES, ids=lambda p: p.stem)
def test_outlined_kernels_are_taken_by_every_other_toolchain(path, target, opened):
    result = target.lower(path.read_text(), resolve("nvvm-outline", target.label))
    if result.artifact is None:
        assert result.failure is not None
        pytest.skip(f"{target.label} does not outline {path.stem}: {result.failure.kind}")
    for other in (*ENZYME, "mlir"):
        refusal = use(opened, other).verify(result.artifact.text)
        assert refusal is None, f"{other} does not take what {target.label} outlined: {refusal}"


@pytest.mark.slow
@pytest.mark.skipif(EXAMPLES is None, reason="MLIR_DIFFTEST_EXAMPLES names no folder")
def test_every_stage_of_the_examples(target):
    seen = set()
    for path in sorted(Path(EXAMPLES or "").rglob("*.mlir")):
        normal = target.to_generic(path.read_text())
        if normal.artifact is not None:
            check_program(normal.artifact.text, target, seen=seen)
    assert len(seen) > 1, f"{target.label} reads none of the examples"

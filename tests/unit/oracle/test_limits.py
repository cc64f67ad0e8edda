"""The table of documented refusals: narrow, and never an excuse for a crash."""

import pytest

from difftest.model import CompileFailure, FailureKind
from difftest.oracle.limits import documented_limit

FREES = "34:11: memory free side-effect on MemRef value not supported!"
BLOCKS = "13:10: 'enzymexla.gpu_wrapper' op expects region #0 to have 0 or 1 blocks"


def limit(diagnostic, pass_name, kind=FailureKind.PASS_FAILURE):
    return documented_limit(CompileFailure(kind=kind, diagnostic=diagnostic, pass_name=pass_name))


@pytest.mark.parametrize(
    ("pass_name", "diagnostic"),
    [
        ("ownership-based-buffer-deallocation", FREES),
        ("buffer-deallocation-pipeline", FREES),
        ("affine-super-vectorize", "2:3: Vectorizing reductions is supported only for 1-D vectors."),
        ("dialect-canonicalize", "1:1: greedy pattern application failed in this scope"),
        ("convert-to-llvm", "dialect not loaded: memref"),
        (
            "convert-parallel-to-gpu1",
            "20:10: no block size splits this kernel and its 5 parallel dimensions do not match the wrapper's grid",
        ),
        (
            "convert-parallel-loops-to-gpu",
            "failed to legalize unresolved materialization from () to ('f32') that remained live after conversion",
        ),
        ("enzyme", "could not compute the adjoint for this operation"),
    ],
)
def test_a_documented_refusal_is_a_limit_of_its_own_pass_only(pass_name, diagnostic):
    assert limit(diagnostic, pass_name) is not None
    assert limit(diagnostic, "canonicalize") is None
    assert limit(diagnostic, pass_name, FailureKind.CRASH) is None
    assert limit(diagnostic, pass_name, FailureKind.INVALID_IR) is None


def test_single_block_ops_around_scf_are_a_limit_of_its_lowering():
    assert limit(BLOCKS, "convert-scf-to-cf", FailureKind.INVALID_IR) is not None
    assert limit(BLOCKS, "affine-cfg", FailureKind.INVALID_IR) is None
    assert limit(BLOCKS, "convert-scf-to-cf", FailureKind.CRASH) is None


def test_blocks_inside_an_allocation_scope_are_a_bug():
    text = BLOCKS.replace("enzymexla.gpu_wrapper", "memref.alloca_scope")
    assert limit(text, "convert-scf-to-cf", FailureKind.INVALID_IR) is None


def test_a_silent_failure_is_no_limit():
    assert limit("", "enzyme") is None

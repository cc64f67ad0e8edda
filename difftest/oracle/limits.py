"""Refusals that a compiler documents: clean diagnostics that are not findings.

Each row says which diagnostic of which pass is a stated limit, and where it is stated.  A crash or a wrong result
is never a limit, whatever the pass says about itself.  The table aims to become empty.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from difftest.model import CompileFailure, FailureKind


@dataclass(frozen=True, slots=True)
class Limit:
    """`diagnostic` is searched in the failure's text; `passes` must match the failing pass when it is known.

    `kind` is a clean refusal unless the verifier is what says that a pass was run on what it does not take.
    """

    passes: str
    diagnostic: str
    reason: str
    kind: FailureKind = FailureKind.PASS_FAILURE


LIMITS: tuple[Limit, ...] = (
    Limit(
        r"enzyme",
        r"could not compute the adjoint",
        "no derivative rule for an op (SEMANTICS §11; enzyme's own diagnostic)",
    ),
    Limit(
        r"enzyme",
        r"(?:Could not create|could not compute) .*(?:derivative|tangent)",
        "no derivative rule for an op in forward mode (enzyme's own diagnostic)",
    ),
    Limit(
        r"gpu-async-region",
        r"replace with gpu\.launch_func first",
        "gpu-async-region wants outlined kernels (its diagnostic)",
    ),
    Limit(
        r"gpu-module-to-binary",
        r"the module has no target attributes",
        "a GPU module without a target cannot be serialised (its diagnostic)",
    ),
    Limit(
        r"",
        r"(?:arith\.)?(?:ceildivsi|ceildivui|floordivsi).*(?:Unhandled|legal|translat)|"
        r"(?:Unhandled|legal|translat).*(?:arith\.)?(?:ceildivsi|ceildivui|floordivsi)",
        "the production pipeline never lowers ceiling and floor division (PIPELINES §1)",
    ),
    Limit(
        r"convert-scf-to-openmp",
        r"unconverted operation found",
        "convert-scf-to-openmp does not take several reduced values (its diagnostic)",
    ),
    Limit(
        r"",
        r"gpu\.all_reduce|non-uniform all_reduce",
        "all_reduce must be uniform to be lowered (PIPELINES §1)",
    ),
    Limit(
        r"",
        r"Lowering of alternatives op not currently supported",
        "gpu alternatives need POLYGEIST_GPU_KERNEL_BLOCK_SIZE (its diagnostic)",
    ),
    Limit(
        r"^(?:ownership-based-buffer-deallocation|buffer-deallocation-pipeline)$",
        r"memory free side-effect on MemRef value not supported"
        r"|ops with unknown memory side effects are not supported"
        r"|All operations with attached regions need to implement the RegionBranchOpInterface",
        "deallocation takes no program that frees memory itself or has unknown effects (Passes.td; PASSES §7)",
    ),
    Limit(
        r"^affine-super-vectorize$",
        r"The 'virtual-vector-size' option must be specified"
        r"|Vectorizing reductions is supported only for 1-D vectors",
        "affine-super-vectorize wants a vector size, of one dimension for reductions (its diagnostics)",
    ),
    Limit(
        r"^dialect-canonicalize$",
        r"greedy pattern application failed in this scope",
        "canonicalisation need not converge within its iterations (PASSES §7)",
    ),
    Limit(
        r"^convert-to-llvm$",
        r"dialect not loaded: ",
        "filter-dialects names a dialect that the module does not use (its diagnostic)",
    ),
    Limit(
        r"^convert-parallel-to-gpu1$",
        r"no block size splits this kernel and its \d+ parallel dimensions do not match",
        "a kernel of more dimensions than a launch has is refused aloud (its diagnostic; Enzyme-JAX #2869)",
    ),
    Limit(
        r"^convert-parallel-loops-to-gpu$",
        r"failed to legalize unresolved materialization from \(\) to \('[^']*'(?:, '[^']*')*\) that remained live",
        "a mapped loop whose reduction is used outside it has no form on the GPU (passes.json: only as gpu.all_reduce)",
    ),
    Limit(
        r"^gpu-module-to-binary$",
        r"missing `LLVMTranslationDialectInterface` registration for dialect for op: enzymexla\.",
        "the upstream back end of `enzyme-cut` has no translation of enzymexla ops; the production one lowers them",
    ),
    Limit(
        r"^convert-scf-to-cf$",
        r"'(?:affine\.(?:for|parallel|if)|enzymexla\.gpu_wrapper|enzyme\.autodiff_region)' op expects region #\d+ "
        r"to have 0 or 1 blocks",
        "convert-scf-to-cf comes after the ops around that take one block (PASSES §3 rule 3)",
        kind=FailureKind.INVALID_IR,
    ),
)


def documented_limit(failure: CompileFailure) -> Limit | None:
    """The limit that explains `failure`, or None. Only diagnostics can be limits."""
    if not failure.diagnostic:
        return None
    for limit in (row for row in LIMITS if row.kind is failure.kind):
        named = failure.pass_name is None or re.search(limit.passes, failure.pass_name)
        if named and re.search(limit.diagnostic, failure.diagnostic):
            return limit
    return None

"""What a pipeline promises about its result: the check behind the verdict `incomplete`.

A compiler that reports success may have done nothing: derivatives left in place, or no kernel made (PIPELINES §7).
The rules are narrow on purpose, because a broken promise is a finding: where folding, serialising or dead code could
explain the result, nothing was promised.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from difftest.errors import ReadError
from difftest.ir.reader import read_module
from difftest.ir.tree import Operation, Value
from difftest.model import Pipeline
from difftest.targets import pipelines

_DEVICE_ENDS = frozenset({"gpu-module-to-binary", "enzymexla-gpu-module-to-binary", "gpu-lower-to-nvvm-pipeline"})
_KERNEL_TRACES = (
    '"gpu.binary"',
    '"gpu.module"',
    '"gpu.launch_func"',
    '"gpu.launch"',
    "cudaLaunchKernel",
    "mgpuLaunchKernel",
)
_LEFT = re.compile(r'"(enzyme\.\w+)"\(')
_DERIVATIVES = frozenset({"enzyme.autodiff", "enzyme.fwddiff"})
_STORES = {"memref.store": 1, "affine.store": 1}
_LOOPS = frozenset({"scf.parallel", "scf.for"})
_MAY_SKIP = frozenset(
    {"scf.if", "scf.while", "scf.index_switch", "affine.if", "affine.for", "affine.parallel", "scf.forall"}
)
_LOADS = {"memref.load": 0, "affine.load": 0}


@dataclass(frozen=True, slots=True, kw_only=True)
class Promises:
    """`derivatives`: no enzyme.autodiff or fwddiff remains. `regions`: nor an autodiff_region. `host`: no enzyme op at
    all remains, as the host is lowered too. `kernels`: what asked for a kernel got one."""

    derivatives: bool = False
    regions: bool = False
    host: bool = False
    kernels: bool = False


def promises(pipeline: Pipeline) -> Promises:
    """What success of this pipeline means."""
    names = set(pipelines.all_pass_names(pipeline.text))
    differentiates = "enzyme" in names
    device = bool(names & _DEVICE_ENDS)
    return Promises(
        derivatives=differentiates,
        regions=differentiates and "outline-enzyme-regions" in names,
        host=differentiates and "convert-polygeist-to-llvm" in names,
        kernels="gpu-kernel-outlining" in names and device,
    )


def broken_promise(pipeline: Pipeline, before: str, after: str) -> str | None:
    """What a successful run left undone, or None. `before` and `after` are generic texts in house spelling."""
    promised = promises(pipeline)
    left = sorted({name for name in _LEFT.findall(after) if _is_left_over(name, promised)})
    if left:
        return f"the result still holds {', '.join(left)}"
    if promised.kernels and not any(trace in after for trace in _KERNEL_TRACES) and _wants_kernel(pipeline, before):
        return "the result holds no kernel"
    return None


def _is_left_over(name: str, promised: Promises) -> bool:
    if promised.host:
        return True
    if name == "enzyme.autodiff_region":
        return promised.regions
    return promised.derivatives and name in _DERIVATIVES


# --- kernels ------------------------------------------------------------------------------------------------


def _wants_kernel(pipeline: Pipeline, before: str) -> bool:
    try:
        module = read_module(before)
    except ReadError:
        return False
    names = set(pipelines.all_pass_names(pipeline.text))
    return any(
        op.name == "gpu.launch" or (op.name == "enzymexla.gpu_wrapper" and "convert-parallel-to-gpu1" in names)
        for op in _unconditional_ops(module)
        if _has_lasting_effect(op) and (op.name == "gpu.launch" or _has_parallel_work(op))
    )


def _unconditional_ops(module: Operation) -> Iterator[Operation]:
    """Ops in the entry block of a public function with a body: they run whenever the function does."""
    for block in module.regions[0].blocks if module.regions else []:
        for function in block.ops:
            is_public = function.get("sym_visibility") in (None, '"public"')
            if function.name == "func.func" and is_public and function.regions and function.regions[0].blocks:
                yield from function.regions[0].blocks[0].ops


def _has_lasting_effect(op: Operation) -> bool:
    """Whether something inside writes, to a memref that is an argument of a function, a value not just read there."""
    for inner in op.walk():
        at = _STORES.get(inner.name)
        if at is None or len(inner.operands) <= at:
            continue
        value, memref = inner.operands[0], inner.operands[at]
        if _is_argument(memref) and not _was_loaded_from(value, memref):
            return True
    return False


def _is_argument(value: Value) -> bool:
    if isinstance(value.owner, Operation):
        return False
    function = value.owner.parent.parent
    return function.name == "func.func"


def _was_loaded_from(value: Value, memref: Value) -> bool:
    op = value.defining_op
    at = None if op is None else _LOADS.get(op.name)
    return op is not None and at is not None and op.operands[at] is memref


def _has_parallel_work(wrapper: Operation) -> bool:
    """A loop directly in the wrapper that surely has two iterations or more, or as many as an argument says.

    Nothing in it may be skipped: a loop without iterations, or a condition, can be folded away with all it guards.
    """
    blocks = wrapper.regions[0].blocks if wrapper.regions else []
    if any(op.name in _MAY_SKIP or (op.name in _LOOPS and not _runs(op)) for op in wrapper.walk()):
        return False
    return len(blocks) == 1 and any(op.name == "scf.parallel" and _has_trips(op) for op in blocks[0].ops)


def _runs(loop: Operation) -> bool:
    """Whether an scf loop surely has an iteration in every dimension, as far as its constants tell."""
    rank = 1 if loop.name == "scf.for" else len(loop.regions[0].blocks[0].arguments)
    for lower, upper in (loop.operands[i : 2 * rank : rank] for i in range(rank)):
        low, high = _constant(lower), _constant(upper)
        if low is None or not (_is_argument(upper) if high is None else high > low):
            return False
    return True


def _has_trips(loop: Operation) -> bool:
    rank = len(loop.regions[0].blocks[0].arguments) if loop.regions and loop.regions[0].blocks else 0
    if rank == 0 or len(loop.operands) < 3 * rank:
        return False
    total = 1
    open_ended = False
    for lower, upper, step in (loop.operands[i : 3 * rank : rank] for i in range(rank)):
        low, high, by = (_constant(v) for v in (lower, upper, step))
        if low is None or by is None or by <= 0:
            return False
        if high is not None:
            total *= max(0, -(-(high - low) // by))
        elif _is_argument(upper):
            open_ended = True
        else:
            return False
    return total > 0 and (open_ended or total > 1)


def _constant(value: Value) -> int | None:
    op = value.defining_op
    text = op.get("value") if op is not None and op.name == "arith.constant" else None
    match = re.match(r"-?\d+", text or "")
    return int(match.group()) if match else None

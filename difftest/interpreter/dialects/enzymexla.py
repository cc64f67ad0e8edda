"""enzymexla: kernels before they are launches, barriers, pointers as memrefs (SEMANTICS §10)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from difftest.interpreter import agents, meeting
from difftest.interpreter.dialects import gpu_groups
from difftest.interpreter.dialects.gpu import AXES, standing
from difftest.interpreter.dialects.memref import memref_type
from difftest.interpreter.faults import first_lane, stop, unsupported
from difftest.interpreter.frames import sink
from difftest.interpreter.parallel import DERIVING, leaves_of
from difftest.interpreter.pointers import address_of, copy_bytes, fill_bytes, memref_at, pointer_of
from difftest.interpreter.rules import NoRuleError
from difftest.interpreter.values import MemRef
from difftest.ir.attributes import parse_enum
from difftest.ir.tree import Block

if TYPE_CHECKING:
    from difftest.interpreter.core import Context
    from difftest.interpreter.frames import Frame, Step
    from difftest.ir.tree import Operation, Value

_PARALLEL = frozenset({"scf.parallel", "scf.forall", "affine.parallel"})
_SERIAL = frozenset({"scf.for", "affine.for", "scf.while"})
_CONSTANTS = frozenset({"arith.constant", "index.constant", "llvm.mlir.constant"})


def _nothing(op: Operation, context: Context) -> None:
    """A terminator, or an op without effect."""
    del op, context


# --- regions --------------------------------------------------------------------------------------------------


def _once(op: Operation, context: Context) -> Step:
    """Runs its region once; an index result is 0, success."""
    machine = context.machine
    body = context.body(op.regions[0])
    scope = op.name in {"enzymexla.gpu_wrapper", "enzymexla.scope"}
    results = [context.slot(r) for r in op.results]
    if results and body.results and op.name == "enzymexla.gpu_wrapper":
        raise unsupported(op, "its region yields values")

    def run(frame: Frame) -> None:
        if scope:
            machine.scoped(body, frame)
        else:
            body.run(frame)
        for number, slot in enumerate(results):
            frame.v[slot] = frame.v[body.results[number]] if body.results else 0

    return agents.as_device_code(run, op) if op.name == "enzymexla.gpu_wrapper" else run


# --- barriers -------------------------------------------------------------------------------------------------


def _barrier(op: Operation, context: Context) -> Step | None:
    """See SEMANTICS §10: no induction variable among the operands, no effect."""
    listed: dict[Operation, set[int]] = {}
    threads: set[int] = set()
    for value in op.operands:
        _resolve(op, value, listed, threads)
    if threads and listed:
        raise unsupported(op, "it lists work items and iterations")
    if threads:
        return _kernel_barrier(op, threads, context)
    if not listed:
        return None
    constructs = sorted(listed, key=_depth, reverse=True)
    found: list[meeting.Listed] = []
    for construct in constructs:
        arguments = construct.regions[0].blocks[0].arguments
        others = tuple(context.slot(a) for i, a in enumerate(arguments) if i not in listed[construct])
        found.append(meeting.Listed(op=construct, others=others))
    machine = context.machine

    def run(frame: Frame) -> None:
        meeting.meet(frame, op, found, machine)

    return run


def _depth(op: Operation) -> int:
    depth, at = 0, op.parent_op
    while at is not None:
        depth, at = depth + 1, at.parent_op
    return depth


def _resolve(op: Operation, value: Value, listed: dict[Operation, set[int]], threads: set[int]) -> None:
    """Which parallel loop or work item dimension an operand stands for."""
    if isinstance(value.owner, Block):
        construct = value.owner.parent.parent
        if construct.name in _PARALLEL:
            listed.setdefault(construct, set()).add(value.index)
        elif construct.name == "gpu.launch" and 3 <= value.index < 6:
            threads.add(value.index - 3)
        elif construct.name not in _SERIAL:
            raise unsupported(op, f"it lists an argument of {construct.name}")
        return
    made = value.owner
    if made.name == "gpu.thread_id":
        threads.add(AXES.index(parse_enum(made.get("dimension") or "")))
    elif made.name in DERIVING:
        # Tiling and coalescing leave sums of induction variables: such a value stands for each of them.
        for leaf in leaves_of(made.operands):
            if not _is_constant(leaf):
                _resolve(op, leaf, listed, threads)
    elif not _is_constant(value):
        raise unsupported(op, f"it lists a result of {made.name}")


def _is_constant(value: Value) -> bool:
    made = value.defining_op
    return made is not None and made.name in _CONSTANTS


def _kernel_barrier(op: Operation, threads: set[int], context: Context) -> Step:
    """In a kernel: all dimensions of the block that are larger than 1 must be listed."""

    def run(frame: Frame) -> None:
        block = standing(op, frame).grid.block
        if any(size > 1 and axis not in threads for axis, size in enumerate(block)):
            raise unsupported(op, "it lists some dimensions of the block only")
        gpu_groups.meet(frame, op, context)

    return run


# --- memory ---------------------------------------------------------------------------------------------------


def _pointer2memref(op: Operation, context: Context) -> Step:
    kind = memref_type(op.results[0])
    if kind.shape.count(None) > 1 or kind.layout:
        raise NoRuleError(f"a pointer as {op.results[0].type}")
    operand, result = context.slot(op.operands[0]), context.slot(op.results[0])
    cell, memory = context.cell(str(kind.element)), context.machine.memory

    def run(frame: Frame) -> None:
        pointer = sink(frame, op, frame.v[operand], "the pointer")
        frame.v[result] = memref_at(frame, op, pointer, kind, cell=cell, memory=memory)

    return run


def _memref2pointer(op: Operation, context: Context) -> Step:
    operand, result = context.slot(op.operands[0]), context.slot(op.results[0])

    def run(frame: Frame) -> None:
        frame.v[result] = pointer_of(frame.v[operand])

    return run


def _subindex(op: Operation, context: Context) -> Step:
    """The view that starts `index` further in the first dimension, which goes away when the rank drops."""
    source_kind, kind = memref_type(op.operands[0]), memref_type(op.results[0])
    dropped = len(source_kind.shape) - len(kind.shape)
    if dropped not in {0, 1}:
        raise NoRuleError(f"a view of type {op.results[0].type}")
    operand, index, result = context.slot(op.operands[0]), context.slot(op.operands[1]), context.slot(op.results[0])

    def run(frame: Frame) -> None:
        source: MemRef = frame.v[operand]
        at = sink(frame, op, frame.v[index], "the index")
        limit = source.sizes[0]
        wrong = np.less(at, 0) | (np.greater_equal(at, limit) if dropped else np.greater(at, limit))
        if np.any(wrong):
            raise stop(frame, op, "out-of-bounds", "the view leaves its source", lane=first_lane(wrong))
        first: tuple[Any, ...] = () if dropped else (limit - at,)
        frame.v[result] = MemRef(
            base=source.base,
            address=source.address,
            offset=source.offset + at * source.strides[0],
            sizes=(*first, *source.sizes[1:]),
            strides=source.strides[dropped:],
            cell=source.cell,
            safe=source.safe,
        )

    return run


def _memcpy(op: Operation, context: Context) -> Step:
    """Copies a number of bytes; overlapping but unequal ranges are undefined behaviour."""
    *tokens, target, source, size = (context.slot(v) for v in op.operands)
    if tokens or op.results:
        raise unsupported(op, "with tokens")
    memory = context.machine.memory

    def run(frame: Frame) -> None:
        v = frame.v
        count = sink(frame, op, v[size], "the size")
        copy_bytes(frame, op, address_of(v[target]), address_of(v[source]), count=count, memory=memory, overlap=False)

    return agents.as_device_code(run, op)


def _memset(op: Operation, context: Context) -> Step:
    """Sets a number of bytes to one value."""
    *tokens, target, value, size = (context.slot(v) for v in op.operands)
    if tokens or op.results or op.operands[-2].type != "i8":
        raise unsupported(op, "with tokens, or a value that is no byte")
    memory = context.machine.memory

    def run(frame: Frame) -> None:
        v = frame.v
        count = sink(frame, op, v[size], "the size")
        fill_bytes(frame, op, address_of(v[target]), v[value], count=count, memory=memory)

    return agents.as_device_code(run, op)


RULES = {
    "enzymexla.gpu_wrapper": _once,
    "enzymexla.gpu_error": _once,
    "enzymexla.alternatives": _once,
    "enzymexla.gpu_block": _once,
    "enzymexla.gpu_thread": _once,
    "enzymexla.scope": _once,
    "enzymexla.polygeist_yield": _nothing,
    "enzymexla.noop": _nothing,
    "enzymexla.barrier": _barrier,
    "enzymexla.pointer2memref": _pointer2memref,
    "enzymexla.memref2pointer": _memref2pointer,
    "enzymexla.subindex": _subindex,
    "enzymexla.memcpy": _memcpy,
    "enzymexla.memset": _memset,
}
LOCK_STEP = frozenset({"enzymexla.barrier"})

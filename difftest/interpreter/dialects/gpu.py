"""gpu: launches, kernels and ids (dialect documentation "gpu"; SEMANTICS §8)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from difftest.interpreter.binaries import launch_binary
from difftest.interpreter.core import Code, Context, Machine
from difftest.interpreter.dialects.gpu_memory import device_operation
from difftest.interpreter.dialects.memref import memref_type
from difftest.interpreter.faults import first_lane, stop, unsupported
from difftest.interpreter.frames import sink
from difftest.interpreter.launch import SUBGROUP, Buffer, Kernel, Place, compile_with, launch, place_of
from difftest.interpreter.layout import size_of, type_of
from difftest.interpreter.pointers import descriptor_parts, pointer_of
from difftest.interpreter.rules import NoRuleError
from difftest.interpreter.values import MemRef, gather
from difftest.ir.attributes import parse_enum, parse_int_array, parse_integer, parse_symbol
from difftest.ir.types import FunctionType, MemRefType, parse_type

if TYPE_CHECKING:
    from difftest.interpreter.agents import Agent
    from difftest.interpreter.frames import Frame, Step
    from difftest.ir.tree import Operation

ndarray: Any = np.ndarray
AXES = "xyz"
IDS = ("block_id", "thread_id", "grid_dim", "block_dim")
# Device code of enzymexla: there an alloca in memory space 5 is the block's shared buffer (SEMANTICS §6, §10).
_ENZYME = frozenset({"enzymexla.gpu_error", "enzymexla.gpu_wrapper", "enzymexla.alternatives"})


def _nothing(op: Operation, context: Context) -> None:
    """Terminators, whose operands the op around reads, and ops without effect here."""
    del op, context


# --- kernels --------------------------------------------------------------------------------------------------


def _segments(op: Operation, least: int) -> list[int]:
    """`operandSegmentSizes`: tokens, six sizes, three cluster sizes, dynamic shared memory, and what follows."""
    found = list(parse_int_array(op.get("operandSegmentSizes") or "array<i32>"))
    if len(found) < least or found[1:7] != [1] * 6 or found[10] > 1:
        raise NoRuleError("operandSegmentSizes does not fit")
    if any(found[7:10]):
        raise NoRuleError("clusters")
    return found


def _is_shared(kind: MemRefType, *, enzyme: bool) -> bool:
    space = kind.space.split(":", maxsplit=1)[0].strip()
    return space == "3" or "workgroup" in space or (enzyme and space == "5")


def _in_enzyme(op: Operation) -> bool:
    at = op.parent_op
    while at is not None and at.name not in _ENZYME:
        at = at.parent_op
    return at is not None


def _buffer(context: Context, kind: MemRefType, slot: int) -> Buffer:
    if None in kind.shape:
        raise NoRuleError(f"memory of dynamic size in a kernel: {kind}")
    return Buffer(slot=slot, kind=kind, cell=context.cell(str(kind.element)))


def _read_id(kernel: Kernel, what: str, op: Operation, context: Context) -> Step:
    """An id or size of the kernel being compiled: it is in a slot already."""
    axis = _axis(op)
    source, result = kernel.ids[what][axis], context.slot(op.results[0])
    kernel.wanted.add(source)
    context.used.add(source)
    bound = _upper_bound(op)

    def run(frame: Frame) -> None:
        found = frame.v[source]
        if bound is not None:
            _check_bound(frame, op, found, bound)
        frame.v[result] = found

    return run


def _shared_alias(kernel: Kernel, key: Operation, kind: MemRefType, op: Operation, context: Context) -> Step:
    """The result is the block's buffer that belongs to `key`."""
    slot = kernel.shared_of.get(key)
    if slot is None:
        slot = kernel.shared_of[key] = context.fresh(None)
        kernel.shared.append(_buffer(context, kind, slot))
    context.used.add(slot)
    source, result = slot, context.slot(op.results[0])

    def run(frame: Frame) -> None:
        frame.v[result] = frame.v[source]

    return run


def _addressof(kernel: Kernel, module: Operation | None, op: Operation, context: Context) -> Any:
    """A global in address space 3 of the kernel's module is one buffer per block."""
    machine = context.machine
    found = machine.symbol(parse_symbol(op.get("global_name") or ""), module)
    space = "" if found is None else (found.get("addr_space") or "")
    if module is None or found is None or not space.startswith("3"):
        return machine.rules.rules["llvm.mlir.addressof"](op, context)
    kind = parse_type(f"memref<{size_of(type_of(found.get('global_type')))}xi8, 3>")
    assert isinstance(kind, MemRefType)
    as_memref = _shared_alias(kernel, found, kind, op, context)
    result = context.slot(op.results[0])

    def run(frame: Frame) -> None:
        as_memref(frame)
        frame.v[result] = pointer_of(frame.v[result])

    return run


def _overrides(kernel: Kernel, context: Context, module: Operation | None, *, enzyme: bool) -> dict[str, Any]:
    """Rules that an op has only inside this kernel."""
    machine, rules = context.machine, context.rules.rules

    def alloca(op: Operation, inner: Context) -> Any:
        kind = memref_type(op.results[0])
        if _is_shared(kind, enzyme=enzyme):
            return _shared_alias(kernel, op, kind, op, inner)
        return rules["memref.alloca"](op, inner)

    def get_global(op: Operation, inner: Context) -> Any:
        found = machine.symbol(parse_symbol(op.get("name") or ""), module)
        kind = memref_type(op.results[0])
        if module is None or found is None or not _is_shared(kind, enzyme=enzyme):
            return rules["memref.get_global"](op, inner)
        return _shared_alias(kernel, found, kind, op, inner)

    def dynamic(op: Operation, inner: Context) -> Step:
        if kernel.dynamic is None:
            kind = memref_type(op.results[0])
            kernel.dynamic = Buffer(slot=inner.fresh(None), kind=kind, cell=inner.cell(str(kind.element)))
        source, result = kernel.dynamic.slot, inner.slot(op.results[0])
        inner.used.add(source)

        def run(frame: Frame) -> None:
            frame.v[result] = frame.v[source]

        return run

    def call(op: Operation, inner: Context) -> Any:
        callee = machine.symbol(parse_symbol(op.get("callee") or ""), module)
        if module is None or callee is None or not callee.regions or not callee.regions[0].blocks:
            return rules["func.call"](op, inner)
        return _device_call(op, inner, callee)

    found: dict[str, Any] = {f"gpu.{name}": partial(_read_id, kernel, name) for name in IDS}
    return found | {
        "memref.alloca": alloca,
        "memref.get_global": get_global,
        "gpu.dynamic_shared_memory": dynamic,
        "func.call": call,
        "llvm.mlir.addressof": partial(_addressof, kernel, module),
    }


def _device_call(op: Operation, context: Context, callee: Operation) -> Step:
    """A call of a function that lives in the kernel's own module."""
    machine = context.machine
    operands = [context.slot(v) for v in op.operands]
    results = [context.slot(v) for v in op.results]

    def run(frame: Frame) -> None:
        v = frame.v
        found = machine.call(callee, [v[s] for s in operands], frame, op)
        for slot, value in zip(results, found, strict=True):
            v[slot] = value

    return run


def _attributions(kernel: Kernel, context: Context, count: int, values: Sequence[Any]) -> None:
    """The buffers among a kernel's block arguments: `count` of the workgroup, then private ones."""
    for i, value in enumerate(values):
        buffer = _buffer(context, memref_type(value), context.slot(value))
        (kernel.shared if i < count else kernel.private).append(buffer)


def _workgroup_count(op: Operation) -> int:
    text = op.get("workgroup_attributions")
    return parse_integer(text) if text else 0


def _launch(op: Operation, context: Context) -> Step:
    segments = _segments(op, 11)
    if any(segments[11:]):
        raise NoRuleError("operandSegmentSizes does not fit")
    slots = [context.slot(v) for v in op.operands]
    tokens, sizes = slots[: segments[0]], slots[segments[0] : segments[0] + 6]
    dynamic = slots[segments[0] + 6] if segments[10] else None
    arguments = op.regions[0].blocks[0].arguments
    numbers = [context.slot(a) for a in arguments[:12]]
    kernel = Kernel(
        op=op,
        machine=context.machine,
        ids={w: (numbers[3 * i], numbers[3 * i + 1], numbers[3 * i + 2]) for i, w in enumerate(IDS)},
    )
    used = context.machine.used_values()
    kernel.wanted.update(context.slot(a) for a in arguments[:12] if a in used)
    _attributions(kernel, context, _workgroup_count(op), arguments[12:])
    context.induction(op, numbers[:6])
    compile_with(context, kernel, _overrides(kernel, context, None, enzyme=_in_enzyme(op)))

    def action(frame: Frame, agent: Agent | None) -> None:
        del agent
        launch(frame, op, kernel, *_launch_sizes(frame, op, sizes, dynamic))

    return device_operation(op, context, tokens, action)


def _launch_sizes(frame: Frame, op: Operation, sizes: Sequence[int], dynamic: int | None) -> tuple[list[Any], Any]:
    v = frame.v
    found = [sink(frame, op, v[s], "a launch size") for s in sizes]
    return found, 0 if dynamic is None else sink(frame, op, v[dynamic], "the size of dynamic shared memory")


class _Callee:
    """A gpu.func compiled as a kernel."""

    def __init__(self, op: Operation, function: Operation, machine: Machine) -> None:
        self.machine = machine
        self.code = Code()
        inner = Context(machine, self.code)
        index = np.dtype(np.int64)
        ids = {what: (inner.fresh(index), inner.fresh(index), inner.fresh(index)) for what in IDS}
        self.kernel = Kernel(op=function, machine=machine, ids=ids)
        arguments = function.regions[0].blocks[0].arguments
        self.expanded = function.name == "llvm.func"
        count = len(arguments) if self.expanded else _count_inputs(function)
        self.arguments = [inner.slot(a) for a in arguments[:count]]
        self.kernel.wanted.update(self.arguments)
        _attributions(self.kernel, inner, _workgroup_count(function), arguments[count:])
        self.kernel.known = _known_sizes(function)
        inner.induction(function, [*ids["block_id"], *ids["thread_id"]])
        rules = _overrides(self.kernel, inner, function.parent_op, enzyme=_in_enzyme(op))
        compile_with(inner, self.kernel, rules)

    def launch(self, frame: Frame, op: Operation, values: Sequence[Any], sizes: Sequence[Any], dynamic: Any) -> None:
        """Launch it, once per lane of `frame`."""
        if self.expanded:
            values = [part for v in values for part in (descriptor_parts(v) if isinstance(v, MemRef) else [v])]
        if len(values) != len(self.arguments):
            raise unsupported(op, "its operands do not fit the kernel's arguments")
        for lane in range(frame.n):
            single = frame.n == 1
            inner = frame if single else frame.child(lane, 1, ())
            root = self.machine.frame(self.code, 1, inner)
            for slot, value in zip(self.arguments, values, strict=True):
                root.v[slot] = value if single else gather(value, lane, 1)
            mine = sizes if single else [gather(s, lane, 1) for s in sizes]
            launch(root, op, self.kernel, mine, dynamic if single else gather(dynamic, lane, 1))


def kernel_of_function(op: Operation, function: Operation, machine: Machine) -> _Callee:
    """`function` compiled as a kernel, once per run; `op` is the launch."""
    found = machine.kernels.get(function)
    if found is None:
        found = machine.kernels[function] = _Callee(op, function, machine)
    return found


def _count_inputs(function: Operation) -> int:
    """The arguments of a gpu.func; its other block arguments are attributions."""
    kind = parse_type(function.get("function_type") or "")
    if not isinstance(kind, FunctionType):
        raise NoRuleError(f"kernel type {function.get('function_type')}")
    return len(kind.inputs)


def _known_sizes(function: Operation) -> list[tuple[str, tuple[int, ...], bool]]:
    """What a kernel's attributes promise of its launches: known sizes exactly, `maxntid` as a maximum."""
    found: list[tuple[str, tuple[int, ...], bool]] = []
    for name, what, exact in (
        ("known_block_size", "block", True),
        ("gpu.known_block_size", "block", True),
        ("known_grid_size", "grid", True),
        ("gpu.known_grid_size", "grid", True),
        ("nvvm.reqntid", "block", True),
        ("nvvm.maxntid", "block", False),
    ):
        text = function.get(name)
        if text is not None:
            sizes = tuple(parse_int_array(text))
            found.append((what, (*sizes, 1, 1)[:3], exact))
    return found


def _launch_func(op: Operation, context: Context) -> Step:
    segments = _segments(op, 13)
    path = parse_symbol(op.get("kernel") or "")
    holder = context.machine.symbol(path[:-1])
    if holder is not None and holder.name == "gpu.binary":
        return launch_binary(op, context, segments, path)
    function = context.machine.symbol(path)
    if function is None or function.name not in {"gpu.func", "llvm.func"} or not function.regions[0].blocks:
        raise NoRuleError(f"kernel {'::'.join(path)} is not a function with a body")
    slots = [context.slot(v) for v in op.operands]
    first = segments[0]
    tokens, sizes = slots[:first], slots[first : first + 6]
    dynamic = slots[first + 6] if segments[10] else None
    operands = slots[first + 6 + segments[10] :][: segments[11]]  # a stream may follow: program order is its order
    callee = kernel_of_function(op, function, context.machine)

    def action(frame: Frame, agent: Agent | None) -> None:
        del agent
        callee.launch(frame, op, [frame.v[s] for s in operands], *_launch_sizes(frame, op, sizes, dynamic))

    return device_operation(op, context, tokens, action)


# --- where a work item stands ---------------------------------------------------------------------------------


def _axis(op: Operation) -> int:
    name = parse_enum(op.get("dimension") or "")
    if name not in AXES or len(name) != 1:
        raise NoRuleError(f"dimension {name}")
    return AXES.index(name)


def _upper_bound(op: Operation) -> int | None:
    text = op.get("upper_bound")
    return None if text is None else parse_integer(text)


def _check_bound(frame: Frame, op: Operation, found: Any, bound: int) -> None:
    limit = bound + 1 if op.name.endswith(("_dim", "_size", "subgroups")) else bound
    wrong = np.greater_equal(found, limit)
    if np.any(wrong):
        message = f"{op.name} is {gather(found, first_lane(wrong), 1)}, its upper_bound is {bound}"
        raise stop(frame, op, "upper-bound", message, lane=first_lane(wrong))


def standing(op: Operation, frame: Frame) -> Place:
    """Where a frame stands in its kernel; outside of kernels the op has no meaning."""
    place = place_of(frame)
    if place is None:
        raise unsupported(op, "outside a kernel")
    return place


def _position(read: Callable[[Place, int], Any], op: Operation, context: Context) -> Step:
    """An id or size found from the frame's place: in functions that kernels call."""
    axis = _axis(op) if op.get("dimension") is not None else 0
    result = context.slot(op.results[0])
    bound = _upper_bound(op)

    def run(frame: Frame) -> None:
        found = read(standing(op, frame), axis)
        if bound is not None:
            _check_bound(frame, op, found, bound)
        frame.v[result] = found

    return run


def _coordinate(what: str, place: Place, axis: int) -> Any:
    return place.coordinates(what)[axis]


def _global_id(place: Place, axis: int) -> Any:
    return place.coordinates("block_id")[axis] * place.grid.block[axis] + place.coordinates("thread_id")[axis]


def items_of(place: Place) -> int:
    """The work items of a block."""
    x, y, z = place.grid.block
    return x * y * z


RULES = {
    "gpu.launch": _launch,
    "gpu.launch_func": _launch_func,
    "gpu.terminator": _nothing,
    "gpu.return": _nothing,
    "gpu.yield": _nothing,
    "gpu.module_end": _nothing,
    **{f"gpu.{name}": partial(_position, partial(_coordinate, name)) for name in IDS},
    "gpu.global_id": partial(_position, _global_id),
    "gpu.lane_id": partial(_position, lambda place, axis: place.item % SUBGROUP),
    "gpu.subgroup_id": partial(_position, lambda place, axis: place.item // SUBGROUP),
    "gpu.num_subgroups": partial(_position, lambda place, axis: -(-items_of(place) // SUBGROUP)),
    "gpu.subgroup_size": partial(_position, lambda place, axis: SUBGROUP),
}

"""memref: memory (dialect documentation "memref"; SEMANTICS §6)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from difftest.interpreter import atomics, views
from difftest.interpreter.access import all_positions, locate
from difftest.interpreter.cells import Cell
from difftest.interpreter.faults import stop, unsupported
from difftest.interpreter.frames import Frame, Step, sink
from difftest.interpreter.rules import NoRuleError
from difftest.interpreter.values import MemRef, gather
from difftest.ir.attributes import parse_dense, parse_int_array, parse_symbol
from difftest.ir.types import MemRefType, parse_type

if TYPE_CHECKING:
    from difftest.interpreter.core import Context
    from difftest.ir.tree import Operation, Value

ndarray: Any = np.ndarray
DYNAMIC = -(1 << 63)
Getter = Callable[[Frame], list[Any]]


def memref_type(value: Value) -> MemRefType:
    """The ranked memref type of a value with a strided layout; others have no rule."""
    kind = parse_type(value.type)
    if not isinstance(kind, MemRefType) or not views.has_strides(kind):
        raise NoRuleError(f"memrefs of type {value.type}")
    return kind


def segments(op: Operation, count: int) -> tuple[int, ...]:
    """`operandSegmentSizes` with `count` entries."""
    found = parse_int_array(op.get("operandSegmentSizes") or "array<i32>")
    if len(found) != count:
        raise NoRuleError("operandSegmentSizes does not fit")
    return found


def mixed(op: Operation, context: Context, static: Sequence[int | None], values: Sequence[Value]) -> Getter:
    """Reads numbers of which some are static and the others (None) come from `values`, in order."""
    slots = iter([context.slot(v) for v in values])
    plan = [(x, -1) if x is not None else (0, next(slots, -1)) for x in static]

    def read(frame: Frame) -> list[Any]:
        v = frame.v
        return [x if slot < 0 else sink(frame, op, v[slot], "a size, offset or stride") for x, slot in plan]

    return read


def static_array(op: Operation, name: str) -> list[int | None]:
    """A static_offsets/sizes/strides attribute: None where the number is dynamic."""
    return [None if x == DYNAMIC else x for x in parse_int_array(op.get(name) or "array<i64>")]


def _alloc(op: Operation, context: Context) -> Step:
    kind = memref_type(op.results[0])
    cell = context.cell(str(kind.element))
    heap = op.name == "memref.alloc"
    dynamic, symbols = segments(op, 2)
    if symbols:
        raise unsupported(op, "with layout symbols")
    sizes = mixed(op, context, kind.shape, op.operands[:dynamic])
    result, memory = context.slot(op.results[0]), context.machine.memory

    def run(frame: Frame) -> None:
        frame.v[result] = views.fresh(frame, op, kind, tuple(sizes(frame)), cell=cell, memory=memory, heap=heap)

    return run


def _dealloc(op: Operation, context: Context) -> Step:
    operand, memory = context.slot(op.operands[0]), context.machine.memory

    def free(frame: Frame, base: int, address: Any) -> None:
        allocation = memory.table[base]
        if not allocation.alive:
            raise stop(frame, op, "double-free", f"{allocation.kind} memory is freed after its end")
        if allocation.kind != "alloc" or address != allocation.start:
            raise stop(frame, op, "bad-free", f"{allocation.kind} memory, or a part of it, is freed")
        memory.release(base)

    def run(frame: Frame) -> None:
        memref: MemRef = frame.v[operand]
        base, start = memref.base, views.start_of(memref)
        if base.__class__ is ndarray:
            for lane in range(len(base)):
                free(frame, int(base[lane]), gather(start, lane, 1))
            return
        if frame.n > 1:
            raise stop(frame, op, "double-free", "several iterations free one object", lane=1)
        free(frame, base, start)

    return run


def _load(op: Operation, context: Context) -> Step:
    memref, *indices = (context.slot(v) for v in op.operands)
    result, memory = context.slot(op.results[0]), context.machine.memory
    cell = context.cell(op.results[0].type)
    load = memory.load

    def run(frame: Frame) -> None:
        v = frame.v
        source = v[memref]
        where = locate(frame, op, source, [v[i] for i in indices], memory)
        v[result] = load(frame, op, source.base, where, cell)

    return run


def _store(op: Operation, context: Context) -> Step:
    value, memref, *indices = (context.slot(v) for v in op.operands)
    memory = context.machine.memory
    cell = context.cell(op.operands[0].type)
    store = memory.store

    def run(frame: Frame) -> None:
        v = frame.v
        target = v[memref]
        where = locate(frame, op, target, [v[i] for i in indices], memory)
        store(frame, op, target.base, where, v[value], cell=cell)

    return run


def _get_global(op: Operation, context: Context) -> Step:
    machine, memory = context.machine, context.machine.memory
    path = parse_symbol(op.get("name") or "")
    target = machine.symbol(path)
    if target is None or target.name != "memref.global":
        raise NoRuleError(f"no global {path}")
    kind = memref_type(op.results[0])
    cell = context.cell(str(kind.element))
    text = target.get("initial_value")
    if text is None:
        raise NoRuleError("a global defined elsewhere")
    found, constant, result = target, target.get("constant") is not None, context.slot(op.results[0])

    def run(frame: Frame) -> None:
        made = machine.globals.get(found)
        if made is None:
            made = machine.globals[found] = _make_global(text, kind, cell, memory, op)
            memory.table[made.base].constant = constant
        frame.v[result] = made

    return run


def _make_global(text: str, kind: MemRefType, cell: Cell, memory: Any, op: Operation) -> MemRef:
    sizes = tuple(s or 0 for s in kind.shape)
    count = int(np.prod(sizes)) if sizes else 1
    known = text not in {"unit", "uninitialized"}
    allocation = memory.allocate(count * cell.size, kind="global", op=op, initialised=known)
    if known:
        data = np.broadcast_to(parse_dense(text)[0], sizes).astype(cell.dtype)
        raw = np.frombuffer(np.ascontiguousarray(data).tobytes(), np.uint8)
        memory.data[allocation.start : allocation.start + raw.size] = raw
    return MemRef(
        base=allocation.number,
        address=allocation.start,
        offset=0,
        sizes=sizes,
        strides=views.row_major(sizes),
        cell=cell,
        safe=True,
    )


def _copy(op: Operation, context: Context) -> Step:
    """Same shape; overlapping but unequal source and target are undefined behaviour."""
    source, target = (context.slot(v) for v in op.operands)
    memory = context.machine.memory

    def run(frame: Frame) -> None:
        copy(frame, op, frame.v[source], frame.v[target], memory)

    return run


def copy(frame: Frame, op: Operation, source: MemRef, target: MemRef, memory: Any) -> None:
    """Copy all elements, lane by lane where the lanes' shapes or objects differ."""
    lanes_differ = any(x.__class__ is ndarray for x in (source.base, target.base, *source.sizes, *target.sizes))
    if lanes_differ and frame.n > 1:
        for lane in range(frame.n):
            inner = frame.child(lane, 1, ())
            copy(inner, op, source.gather(lane, 1), target.gather(lane, 1), memory)
        return
    if source.sizes != target.sizes:
        raise stop(frame, op, "shape", f"a copy from sizes {source.sizes} to {target.sizes}")
    read, total = all_positions(source, frame.n)
    write, _ = all_positions(target, frame.n)
    if total == 0:
        return
    if source.base == target.base:
        _refuse_overlap(frame, op, read, write)
    width = frame.n * total
    index = np.repeat(np.arange(frame.n), total) if frame.n > 1 else 0
    elements = frame.child(index, width, ()) if width > 1 else frame
    flat_read, flat_write = (np.broadcast_to(x, (frame.n, total)).reshape(-1) for x in (read, write))
    if width == 1:
        flat_read, flat_write = int(flat_read[0]), int(flat_write[0])
    value = memory.load(elements, op, source.base, flat_read, source.cell)
    memory.store(elements, op, target.base, flat_write, value, cell=target.cell)


def _refuse_overlap(frame: Frame, op: Operation, read: Any, write: Any) -> None:
    rows = [(np.atleast_2d(read), np.atleast_2d(write))]
    for sources, targets in rows:
        for lane in range(max(len(sources), len(targets))):
            a, b = sources[lane % len(sources)], targets[lane % len(targets)]
            if not np.array_equal(a, b) and np.intersect1d(a, b).size:
                raise stop(frame, op, "overlap", "source and target of a copy overlap", lane=lane)


def _atomic_rmw(op: Operation, context: Context) -> Step:
    """Returns the old value, whatever the dialect's text says (SEMANTICS §6)."""
    value, memref, *indices = (context.slot(v) for v in op.operands)
    cell = context.cell(op.operands[0].type)
    kind = atomics.kind_of(op.get("kind") or "", op.operands[0].type)
    result, machine = context.slot(op.results[0]), context.machine

    def run(frame: Frame) -> None:
        v = frame.v
        target = v[memref]
        where = locate(frame, op, target, [v[i] for i in indices], machine.memory)
        access = atomics.Access(frame=frame, op=op, base=target.base, position=where, cell=cell)
        v[result] = atomics.update(machine, access, v[value], kind)

    return run


def _generic_atomic_rmw(op: Operation, context: Context) -> Step:
    """The region maps the old value to the new one, lane after lane; yields the old value."""
    memref, *indices = (context.slot(v) for v in op.operands)
    cell = context.cell(op.results[0].type)
    body = context.body(op.regions[0])
    result, machine = context.slot(op.results[0]), context.machine

    def run(frame: Frame) -> None:
        v = frame.v
        target = v[memref]
        where = locate(frame, op, target, [v[i] for i in indices], machine.memory)
        access = atomics.Access(frame=frame, op=op, base=target.base, position=where, cell=cell)

        def step(child: Frame, old: Any) -> Any:
            for slot in body.captures:
                child.v[slot] = gather(v[slot], child.index, child.n) if child is not frame else v[slot]
            child.v[body.arguments[0]] = old
            body.run(child)
            return child.v[body.results[0]]

        v[result] = atomics.update_by(machine, access, step)

    return run


def _alloca_scope(op: Operation, context: Context) -> Step:
    body, machine = context.body(op.regions[0]), context.machine
    results = [context.slot(v) for v in op.results]

    def run(frame: Frame) -> None:
        machine.scoped(body, frame)
        for slot, source in zip(results, body.results, strict=True):
            frame.v[slot] = frame.v[source]

    return run


def _nothing(op: Operation, context: Context) -> None:
    del op, context


RULES = {
    "memref.alloc": _alloc,
    "memref.alloca": _alloc,
    "memref.alloca_scope": _alloca_scope,
    "memref.alloca_scope.return": _nothing,
    "memref.atomic_rmw": _atomic_rmw,
    "memref.atomic_yield": _nothing,
    "memref.copy": _copy,
    "memref.dealloc": _dealloc,
    "memref.generic_atomic_rmw": _generic_atomic_rmw,
    "memref.get_global": _get_global,
    "memref.load": _load,
    "memref.prefetch": _nothing,
    "memref.store": _store,
}

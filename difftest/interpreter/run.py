"""`interpret`: one execution of a program's entry function, from numpy arguments to an `Outcome`."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from difftest.errors import UsageError
from difftest.interpreter import values, views
from difftest.interpreter.access import all_positions
from difftest.interpreter.aggregates import Struct
from difftest.interpreter.cells import Cell, cell_of, units
from difftest.interpreter.core import Machine
from difftest.interpreter.faults import Stop
from difftest.interpreter.rules import NoRuleError
from difftest.interpreter.tracing import Tracer
from difftest.interpreter.values import MemRef, Pointer, Tagged
from difftest.ir.tree import Operation, find_function
from difftest.ir.types import FloatType, IndexType, IntegerType, MemRefType, PointerType, Type, parse_type
from difftest.model import Fault, Mode, Observed, Outcome, OutcomeKind, Schedule

if TYPE_CHECKING:
    from collections.abc import Generator

DEFAULT_FUEL = 10_000_000
DEFAULT_MEMORY = 1 << 30
RECURSION_LIMIT = 60_000
_INTEGERS: tuple[Any, ...] = (int, np.integer, np.bool_)
_FLOATS: tuple[Any, ...] = (float, np.floating, ml_dtypes.bfloat16)
_ELEMENTS = {
    "bool": "i1",
    "bfloat16": "bf16",
    **{f"{sign}int{width}": f"i{width}" for sign in ("", "u") for width in (8, 16, 32, 64)},
    **{f"float{width}": f"f{width}" for width in (16, 32, 64)},
}


def interpret(
    module: Operation,
    *,
    entry: str,
    arguments: Sequence[Any],
    mode: Mode = Mode.SOURCE,
    schedule: Schedule = Schedule.LOCK_STEP,
    seed: int = 0,
    fuel: int = DEFAULT_FUEL,
    memory: int = DEFAULT_MEMORY,
    launch: Callable[..., None] | None = None,
    tracer: Tracer | None = None,
) -> Outcome:
    """Run function `entry` of `module`.

    `arguments` are numpy arrays for memrefs (copied in, taken as initialised; contiguous unless the type fixes strides)
    and ints or floats for scalars. Observed are, in order, every memref argument (`arg0` …) and every returned value
    (`result0` …). `fuel` bounds the ops executed (per 64 lanes), `memory` the bytes; running out is inconclusive.
    `launch` is given launches of kernels that have no body here (`interpreter.binaries`), `tracer` is told what
    chosen ops do. Raises UsageError when the entry or the arguments do not fit.
    """
    function = find_function(module, entry)
    if function is None or not function.regions or not function.regions[0].blocks:
        raise UsageError(f"no function @{entry} with a body in the module")
    machine = Machine(
        module, mode=mode, schedule=schedule, seed=seed, fuel=fuel, memory=memory, launch=launch, tracer=tracer
    )
    kinds = [v.type for v in function.regions[0].blocks[0].arguments]
    with _guarded():
        try:
            given, buffers = bind_arguments(machine, kinds, arguments)
            returned = machine.call(function, given, None, function)
            observed = _observe(machine, function, buffers, returned)
        except Stop as end:
            return Outcome(kind=end.kind, fault=end.fault, notes=dict(machine.notes), schedule=schedule)
        except (NoRuleError, NotImplementedError) as error:
            # A form that only run-time values show to be one without a rule.
            fault = Fault(rule="unsupported-op", message=str(error) or "a form without a rule")
            return Outcome(kind=OutcomeKind.UNSUPPORTED, fault=fault, notes=dict(machine.notes), schedule=schedule)
        finally:
            notes = dict(machine.notes)
    return Outcome(kind=OutcomeKind.OK, observed=observed, notes=notes, schedule=schedule)


@contextmanager
def _guarded() -> Generator[None]:
    """Deeply nested regions need Python frames; rules meet numpy's floating-point conditions on purpose."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, RECURSION_LIMIT))
    try:
        with np.errstate(all="ignore"):
            yield
    finally:
        sys.setrecursionlimit(limit)


Bound = tuple[list[Any], list[tuple[str, MemRef]]]


def bind_arguments(machine: Machine, kinds: Sequence[str], arguments: Sequence[Any]) -> Bound:
    """Values for the entry's block arguments, and the buffers to observe: copies in the machine's memory.

    For an entry lowered to LLVM, an array is passed as one pointer, or as the fields of its memref descriptor (pointer
    twice, offset, sizes, strides) when the numbers of arguments say so.
    """
    expanded = len(kinds) != len(arguments) and _fields(arguments) == len(kinds)
    if len(kinds) != len(arguments) and not expanded:
        raise UsageError(f"the entry function takes {len(kinds)} arguments, {len(arguments)} are given")
    found: list[Any] = []
    buffers: list[tuple[str, MemRef]] = []
    for position, argument in enumerate(arguments):
        kind = parse_type(kinds[len(found)])
        if not isinstance(argument, np.ndarray):
            found.append(_bind_scalar(position, kind, argument))
            continue
        buffer = _bind_buffer(machine, position, _buffer_type(position, kind, argument), argument)
        buffers.append((f"arg{position}", buffer))
        pointer = Pointer(base=buffer.base, address=buffer.address)
        if isinstance(kind, MemRefType):
            found.append(buffer)
        elif expanded:
            found += [pointer, pointer, buffer.offset, *buffer.sizes, *buffer.strides]
        else:
            found.append(pointer)
    return found, buffers


def _fields(arguments: Sequence[Any]) -> int:
    return sum(3 + 2 * a.ndim if isinstance(a, np.ndarray) else 1 for a in arguments)


def _buffer_type(position: int, kind: Type, argument: Any) -> MemRefType:
    """The memref type of an array argument; one passed as a pointer gets that of the array."""
    if isinstance(kind, MemRefType):
        return kind
    element = _ELEMENTS.get(np.dtype(argument.dtype).name)
    if not isinstance(kind, PointerType) or element is None:
        raise UsageError(f"argument {position}: an array of {argument.dtype} does not fit type {kind}")
    shape = tuple(int(d) for d in argument.shape)
    return MemRefType(shape, parse_type(element), views.row_major(shape), 0)


def _bind_scalar(position: int, kind: Type, argument: Any) -> Any:
    if isinstance(kind, IntegerType | IndexType) and isinstance(argument, _INTEGERS):
        width = kind.width if isinstance(kind, IntegerType) else 64
        if width == 1:
            return bool(argument)
        half = 1 << (width - 1)
        return ((int(argument) + half) & (2 * half - 1)) - half
    dtype = values.dtype_of(kind)
    if isinstance(kind, FloatType) and dtype is not None and isinstance(argument, (*_INTEGERS, *_FLOATS)):
        return dtype.type(argument)
    raise UsageError(f"argument {position}: {type(argument).__name__} does not fit type {kind}")


def _bind_buffer(machine: Machine, position: int, kind: MemRefType, argument: Any) -> MemRef:
    cell = cell_of(kind.element)
    if cell is None or cell.pointer or not views.has_strides(kind):
        raise UsageError(f"argument {position}: no argument of type {kind} can be given")
    shape = tuple(getattr(argument, "shape", (-1,)))
    shape = shape[: len(shape) - len(cell.shape)]
    fits = len(shape) == len(kind.shape) and all(w is None or w == h for w, h in zip(kind.shape, shape, strict=True))
    if not isinstance(argument, np.ndarray) or not fits:
        raise UsageError(f"argument {position}: shape {shape} does not fit type {kind}")
    data = _element_data(position, argument, cell, kind)
    strides, offset = views.strides_for(kind, shape), kind.offset or 0
    memory = machine.memory
    size = views.span(shape, strides, offset) * cell.size
    allocation = memory.allocate(size, kind="argument", initialised=True)
    memref = MemRef(
        base=allocation.number,
        address=allocation.start,
        offset=offset,
        sizes=shape,
        strides=strides,
        cell=cell,
        safe=True,
    )
    memory.views[cell.code][_unit_positions(memref)] = data.reshape(-1)
    return memref


def _element_data(position: int, argument: Any, cell: Cell, kind: MemRefType) -> Any:
    dtype = argument.dtype
    if dtype == cell.dtype:
        return argument
    if dtype.kind == "u" and cell.dtype.kind == "i" and dtype.itemsize == cell.width:
        return argument.astype(cell.dtype)
    raise UsageError(f"argument {position}: elements of {dtype} do not fit type {kind} ({cell.dtype})")


def _unit_positions(memref: MemRef) -> Any:
    if memref.strides == views.row_major(memref.sizes):
        first: int = memref.origin
        count: int = math.prod(memref.sizes) * memref.cell.count
        return np.arange(first, first + count)
    where, _ = all_positions(memref, 1)
    return units(where, memref.cell.count, 0)[0]


def _observe(
    machine: Machine, function: Operation, buffers: Sequence[tuple[str, MemRef]], returned: Sequence[Any]
) -> tuple[Observed, ...]:
    found = [_observe_buffer(machine, label, buffer) for label, buffer in buffers]
    kinds = [parse_type(text) for text in _returned_kinds(function)]
    for i, (value, kind) in enumerate(_flattened(returned, kinds)):
        label = f"result{i}"
        if isinstance(value, MemRef):
            found.append(_observe_buffer(machine, label, value))
        else:
            found.append(_observe_scalar(label, value, None if kind is None else values.dtype_of(kind)))
    return tuple(found)


def _flattened(returned: Sequence[Any], kinds: Sequence[Type]) -> Generator[tuple[Any, Type | None]]:
    """Returned values with their types. Lowered to LLVM, a function returns several values as one struct."""
    for value, kind in zip_longest(returned, kinds):
        if isinstance(value, Struct):
            yield from zip(value.fields, value.kinds, strict=True)
        else:
            yield value, kind


def _returned_kinds(function: Operation) -> list[str]:
    for block in function.regions[0].blocks:
        if block.ops and not block.ops[-1].successors:
            return [v.type for v in block.ops[-1].operands]
    return []


def _observe_scalar(label: str, value: Any, dtype: Any) -> Observed:
    if dtype is None:
        return Observed(label=label, data=np.zeros((), np.int8), skip=np.ones((), np.bool_))
    tag = value if value.__class__ is Tagged else Tagged(value)
    data = np.asarray(tag.data, dtype)
    if data.ndim and data.shape[0] == 1:
        data = data[0]
    skip = None if tag.poison is None else _shaped(np.asarray(tag.poison, np.bool_), data.shape)
    bound = None if tag.bound is None else _shaped(np.asarray(tag.bound, np.float64), data.shape)
    return _finish(label, data, skip, bound, zero=tag.zero is not None)


def _shaped(mark: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    """A tag of a returned value, without the axis of its one lane, spread over the value's elements."""
    lane = mark[0] if mark.ndim > len(shape) else mark
    return np.broadcast_to(lane, shape)


def _observe_buffer(machine: Machine, label: str, memref: MemRef) -> Observed:
    memory, cell = machine.memory, memref.cell
    number: int = memref.base
    allocation = memory.table[number]
    shape = (*memref.sizes, *cell.shape)
    where = _unit_positions(memref)
    if not allocation.alive or not allocation.observed:
        return Observed(label=label, data=np.zeros(shape, cell.dtype), skip=np.ones(shape, np.bool_))
    skip: Any = None
    if allocation.partial:
        skip = memory.missing(where, cell)
    if allocation.poisoned:
        poison = memory.poisoned_at(where, cell.width)
        skip = poison if skip is None else skip | poison
    bound = None
    if allocation.bound is not None:
        bound = allocation.bound[(where * cell.width - allocation.start) >> 1].reshape(shape)
    data = memory.views[cell.code][where].reshape(shape)
    return _finish(label, data, None if skip is None else skip.reshape(shape), bound, zero=allocation.zero)


def _finish(label: str, data: Any, skip: Any, bound: Any, *, zero: bool) -> Observed:
    """Elements whose bound is more than an eighth of their magnitude are not compared (SEMANTICS §12)."""
    if bound is not None and not np.any(bound):
        bound = None
    if bound is not None:
        loose = (bound > 0) & ~((bound < np.inf) & (bound <= np.abs(data.astype(np.float64)) / 8))
        skip = loose if skip is None else skip | loose
    if skip is not None and not np.any(skip):
        skip = None
    return Observed(label=label, data=data, skip=skip, bound=bound, zero=zero)

"""Models of functions that lowered hosts call: the C library, CUDA's runtime, MLIR's `mgpu` wrappers (SEMANTICS §7).

A model is `(machine, frame, op, arguments) -> results`. Streams and events are pointers to nothing: everything runs in
program order, as one default stream would. Device memory and host memory are one space.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from difftest.interpreter.binaries import send
from difftest.interpreter.cells import cell_of
from difftest.interpreter.dialects.gpu import kernel_of_function
from difftest.interpreter.dialects.llvm_memory import load_value, store_value
from difftest.interpreter.faults import first_lane, stop, unsupported
from difftest.interpreter.frames import sink
from difftest.interpreter.pointers import copy_bytes, fill_bytes, room_behind
from difftest.interpreter.values import Pointer, gather, one
from difftest.ir.attributes import parse_string
from difftest.ir.types import IntegerType, PointerType, parse_type

if TYPE_CHECKING:
    from difftest.interpreter.core import Machine
    from difftest.interpreter.frames import Frame
    from difftest.ir.tree import Operation

Model = Callable[..., list[Any]]
NULL = Pointer(base=0, address=0)
SUCCESS = 0
_SHIFT = 32
_WORD = (1 << _SHIFT) - 1
FUNCTION = "function"


def allocate(machine: Machine, frame: Frame, op: Operation, size: Any) -> Pointer:
    """Heap memory of undefined contents, one object per lane."""
    wanted = sink(frame, op, size, "the size")
    sizes = [int(gather(wanted, lane, 1)) for lane in range(frame.n)]
    if any(s < 0 for s in sizes):
        raise stop(frame, op, "negative-size", "an allocation of a negative size")
    made = [machine.memory.allocate(s, kind="alloc", op=op, level=frame.level) for s in sizes]
    bases, starts = np.array([a.number for a in made], np.int64), np.array([a.start for a in made], np.int64)
    return Pointer(base=one(bases, 0) if frame.n == 1 else bases, address=one(starts, 0) if frame.n == 1 else starts)


def release(machine: Machine, frame: Frame, op: Operation, pointer: Pointer) -> None:
    """Null is left alone; anything but the start of a living heap object is undefined behaviour."""
    for lane in range(frame.n):
        mine: Pointer = gather(pointer, lane, 1)
        allocation = machine.memory.table[int(mine.base)]
        if int(mine.address) == 0:
            continue
        if not allocation.alive:
            raise stop(frame, op, "double-free", "memory is freed after its end", lane=lane)
        if allocation.kind != "alloc" or int(mine.address) != allocation.start:
            raise stop(frame, op, "bad-free", f"{allocation.kind} memory, or a part of it, is freed", lane=lane)
        machine.memory.release(allocation.number)


def _malloc(machine: Machine, frame: Frame, op: Operation, arguments: Sequence[Any]) -> list[Any]:
    return [allocate(machine, frame, op, arguments[0])]


def _aligned_alloc(machine: Machine, frame: Frame, op: Operation, arguments: Sequence[Any]) -> list[Any]:
    """Objects are taken to be aligned as much as anyone asks."""
    return [allocate(machine, frame, op, arguments[1])]


def _free(machine: Machine, frame: Frame, op: Operation, arguments: Sequence[Any]) -> list[Any]:
    release(machine, frame, op, arguments[0])
    return []


def _copy(machine: Machine, frame: Frame, op: Operation, arguments: Sequence[Any]) -> None:
    target, source, size = arguments[:3]
    count = sink(frame, op, size, "the size")
    copy_bytes(frame, op, target, source, count=count, memory=machine.memory, overlap=False)


def _nothing(result: Any) -> Model:
    """A call without an effect on memory; every result is `result`."""

    def model(machine: Machine, frame: Frame, op: Operation, arguments: Sequence[Any]) -> list[Any]:
        del machine, frame, arguments
        return [result] * len(op.results)

    return model


# --- CUDA's runtime -------------------------------------------------------------------------------------------


def _cuda_malloc(machine: Machine, frame: Frame, op: Operation, arguments: Sequence[Any]) -> list[Any]:
    """Stores the address at its first argument."""
    made = allocate(machine, frame, op, arguments[1])
    store_value(frame, op, arguments[0], PointerType(0), value=made, machine=machine)
    return [SUCCESS]


def _cuda_free(machine: Machine, frame: Frame, op: Operation, arguments: Sequence[Any]) -> list[Any]:
    release(machine, frame, op, arguments[0])
    return [SUCCESS]


def _cuda_memcpy(machine: Machine, frame: Frame, op: Operation, arguments: Sequence[Any]) -> list[Any]:
    """The kind of copy says nothing here: there is one address space."""
    _copy(machine, frame, op, arguments)
    return [SUCCESS]


def _cuda_memset(machine: Machine, frame: Frame, op: Operation, arguments: Sequence[Any]) -> list[Any]:
    """The low byte of the value, `size` times."""
    target, value, size = arguments[:3]
    byte = np.asarray(sink(frame, op, value, "the value")).astype(np.int8)
    count = sink(frame, op, size, "the size")
    fill_bytes(frame, op, target, byte if byte.ndim else int(byte), count=count, memory=machine.memory)
    return [SUCCESS]


def function_pointer(machine: Machine, function: Operation, name: str, op: Operation) -> Pointer:
    """The address of a function: an object of no bytes that remembers the name."""
    made = machine.globals.get(function)
    if made is None:
        allocation = machine.memory.allocate(0, kind=f"{FUNCTION} {name}", op=op)
        made = machine.globals[function] = Pointer(base=allocation.number, address=allocation.start)
    return made


def _cuda_launch(machine: Machine, frame: Frame, op: Operation, arguments: Sequence[Any]) -> list[Any]:
    """`cudaLaunchKernel(stub, x | y << 32, z, x | y << 32, z, pointers to the arguments, shared bytes, stream)`."""
    stub, grid, grid_z, block, block_z, array, shared, _ = arguments
    kind, _, name = machine.memory.table[int(gather(stub.base, 0, 1))].kind.partition(" ")
    if kind != FUNCTION:
        raise unsupported(op, "the kernel is not a known function")
    packed = [sink(frame, op, x, "a launch size") for x in (grid, grid_z, block, block_z)]
    sizes = [packed[0] & _WORD, packed[0] >> _SHIFT, packed[1], packed[2] & _WORD, packed[2] >> _SHIFT, packed[3]]
    found = _kernel_of(machine, name)
    if found is None:
        raise unsupported(op, f"{name} is the stub of no kernel of the module")
    path, function = found
    places = _places(machine, frame, op, array)
    if function is None:
        values = [_stored(machine, frame, op, place) for place in places]
        send(machine, frame, op, path=path, values=values, sizes=sizes, shared=shared)
        return [SUCCESS]
    kinds = [parse_type(a.type) for a in function.regions[0].blocks[0].arguments]
    values = [load_value(frame, op, place, k, machine) for place, k in zip(places, kinds, strict=False)]
    kernel_of_function(op, function, machine).launch(frame, op, values, sizes, shared)
    return [SUCCESS]


def _places(machine: Machine, frame: Frame, op: Operation, array: Pointer) -> list[Pointer]:
    """The pointers to the arguments that fill the array's object."""
    room = int(np.min(room_behind(array, machine.memory, frame.n))) // 8
    starts = [Pointer(base=array.base, address=array.address + 8 * number) for number in range(room)]
    return [load_value(frame, op, at, PointerType(0), machine) for at in starts]


def _stored(machine: Machine, frame: Frame, op: Operation, place: Pointer) -> Any:
    """The argument that a host put into an object of its own: an address, or the bits of a number as wide as that."""
    if np.ndim(place.base):
        raise unsupported(op, "arguments that differ in kind between iterations")
    allocation = machine.memory.table[int(place.base)]
    if allocation.provenance is not None:
        return load_value(frame, op, place, PointerType(0), machine)
    kind = IntegerType(width=8 * allocation.used, signedness="")
    if allocation.used not in {1, 2, 4, 8}:
        raise unsupported(op, f"a kernel argument of {allocation.used} bytes")
    return load_value(frame, op, place, kind, machine)


def _kernel_of(machine: Machine, stub: str) -> tuple[tuple[str, ...], Operation | None] | None:
    """`(module, kernel)` of the stub `__polygeist_<module>_<kernel>_device_stub`, and its function if it has a body."""
    for op in machine.module.walk():
        holder = op.name in {"gpu.binary", "gpu.module"}
        name = parse_string(op.get("sym_name") or '""') if holder else ""
        start, end = f"__polygeist_{name}_", "_device_stub"
        if name and stub.startswith(start) and stub.endswith(end):
            path = name, stub[len(start) : -len(end)]
            function = machine.symbol(path[1:], op)
            whole = function is not None and bool(function.regions) and bool(function.regions[0].blocks)
            return path, function if whole else None
    return None


# --- MLIR's wrappers ------------------------------------------------------------------------------------------


def _mgpu_memcpy(machine: Machine, frame: Frame, op: Operation, arguments: Sequence[Any]) -> list[Any]:
    _copy(machine, frame, op, arguments)
    return []


def _mgpu_memset(width: int) -> Model:
    """`(pointer, value, count of elements, stream)`, elements of `width` bits."""
    cell = cell_of(IntegerType(width=width, signedness=""))
    assert cell is not None
    size = width // 8

    def model(machine: Machine, frame: Frame, op: Operation, arguments: Sequence[Any]) -> list[Any]:
        target, value, count = arguments[:3]
        total = sink(frame, op, count, "the count")
        if np.ndim(total) or np.ndim(target.base):
            raise unsupported(op, "for objects or sizes that differ between iterations")
        if np.any(np.less(total, 0)):
            raise stop(frame, op, "negative-size", "a negative count", lane=first_lane(np.less(total, 0)))
        for lane in range(frame.n):
            inner = frame if frame.n == 1 else frame.child(lane, 1, ())
            start = Pointer(base=target.base, address=gather(target.address, lane, 1))
            for number in range(int(total)):
                at = Pointer(base=start.base, address=start.address + size * number)
                kind = IntegerType(width=width, signedness="")
                store_value(inner, op, at, kind, value=gather(value, lane, 1), machine=machine)
        return []

    return model


EXTERNALS: dict[str, Model] = {
    "malloc": _malloc,
    "free": _free,
    "aligned_alloc": _aligned_alloc,
    # What `finalize-memref-to-llvm{use-generic-functions}` calls instead, with the same arguments.
    "_mlir_memref_to_llvm_alloc": _malloc,
    "_mlir_memref_to_llvm_free": _free,
    "_mlir_memref_to_llvm_aligned_alloc": _aligned_alloc,
    "cudaMalloc": _cuda_malloc,
    "cudaFree": _cuda_free,
    "cudaMemcpy": _cuda_memcpy,
    "cudaMemcpyAsync": _cuda_memcpy,
    "cudaMemset": _cuda_memset,
    "cudaMemsetAsync": _cuda_memset,
    "cudaLaunchKernel": _cuda_launch,
    "cudaDeviceSynchronize": _nothing(SUCCESS),
    "cudaStreamSynchronize": _nothing(SUCCESS),
    "cudaGetLastError": _nothing(SUCCESS),
    "mgpuMemAlloc": _malloc,
    "mgpuMemFree": _free,
    "mgpuMemcpy": _mgpu_memcpy,
    "mgpuMemset16": _mgpu_memset(16),
    "mgpuMemset32": _mgpu_memset(32),
    "mgpuStreamCreate": _nothing(NULL),
    "mgpuEventCreate": _nothing(NULL),
    **{
        f"mgpu{name}": _nothing(None)
        for name in (
            "StreamSynchronize", "StreamDestroy", "StreamWaitEvent", "EventDestroy", "EventSynchronize",
            "EventRecord", "MemHostRegister", "MemHostUnregister",
        )
    },
}  # fmt: skip

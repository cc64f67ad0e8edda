"""The smallest change that makes a bad program valid: inputs first, then one attribute, then advice that is not tried.

Every suggestion but advice has been executed in source mode and found valid.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from corpus.header import format_inputs
from difftest.errors import UsageError
from difftest.ir.printer import print_module
from difftest.ir.reader import read_module
from difftest.ir.tree import Operation
from difftest.ir.types import IndexType, IntegerType, MemRefType, Type
from difftest.model import InputSpec, OutcomeKind, Program
from difftest.oracle.judge import Reference, entry_types, prepare

SCALARS = (1, 2, 3, 4, 8, 16, 0, -1)
SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
# Attributes that only promise something: without them the op is defined where it was not.
_PROMISES = (
    "overflowFlags", "isExact", "isDisjoint", "nonNeg", "fastmath", "fastmathFlags", "noWrapFlags", "in_bounds",
    "upper_bound", "known_block_size", "known_grid_size", "alignment", "is_zero_poison", "is_int_min_poison",
)  # fmt: skip
_ADVICE: Mapping[str, str] = MappingProxyType(
    {
        "race": "give each iteration its own cell, order the accesses by a barrier, or use memref.atomic_rmw",
        "uninitialised-read": "write the cell before it is read",
        "use-after-free": "move the access before the end of the memory's life",
        "double-free": "free the memory once",
        "bad-free": "free only the result of the alloc itself",
        "division-by-zero": "guard the division, or divide by a value that is never zero",
        "signed-division-overflow": "guard the division against the smallest value and -1",
        "shift-amount": "mask the shift amount to less than the width",
        "fptosi-range": "clamp the value to the range of the integer type first",
        "index-width": "keep index values within 32 bits",
        "barrier-divergence": "move the barrier out of the branch so that all work items of the block reach it",
        "overlap": "copy through a temporary buffer",
        "loop-step": "use a positive step",
        "loop-end": "use a wider type for the induction variable",
        "poison-sink": "freeze the value, or do not compute it where it is poison",
        "out-of-bounds": "make the buffer larger, or guard the access",
        "constant-write": "drop `constant` from the global",
        "host-access": "allocate with host_shared, or copy with gpu.memcpy",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggestion:
    """A change in words; `verified` when the changed program was executed and is valid; `inputs` if that is all."""

    change: str
    verified: bool
    inputs: str = ""

    def as_json(self) -> dict[str, Any]:
        """Plain data."""
        return {"change": self.change, "verified": self.verified, "inputs": self.inputs}


def suggest(reference: Reference) -> list[Suggestion]:
    """At most one change of the inputs, one of an attribute, and advice for the rule that was broken."""
    found: list[Suggestion] = []
    fault = reference.outcome.fault
    if fault is None:
        return found
    for source in (_inputs(reference), _attributes(reference)):
        first = next(source, None)
        if first is not None:
            found.append(first)
    advice = _ADVICE.get(fault.rule)
    if advice is not None:
        found.append(Suggestion(change=f"line {fault.line}: {advice}", verified=False))
    return found


def _is_valid(program: Program) -> bool:
    try:
        return prepare(program).outcome.kind is OutcomeKind.OK
    except UsageError:
        return False


def _inputs(reference: Reference) -> Iterator[Suggestion]:
    """One argument changed, small numbers first."""
    program = reference.program
    for spec in _neighbours(reference):
        if spec != program.inputs and _is_valid(replace(program, inputs=spec)):
            text = format_inputs(spec)
            yield Suggestion(change=f"run it with --inputs '{text}'", verified=True, inputs=text)


def _neighbours(reference: Reference) -> Iterator[InputSpec]:
    spec = reference.program.inputs
    types = entry_types(reference.module, reference.program.entry).inputs
    fault = reference.outcome.fault
    sizes, scalars = _sizes(spec, types), _scalars(spec, types)
    yield from (*sizes, *scalars) if fault is not None and fault.rule == "out-of-bounds" else (*scalars, *sizes)


def _scalars(spec: InputSpec, types: Sequence[Type]) -> Iterator[InputSpec]:
    for value in SCALARS:
        for position, kind in enumerate(types):
            if isinstance(kind, IndexType | IntegerType):
                yield replace(spec, scalars={**spec.scalars, position: value})


def _sizes(spec: InputSpec, types: Sequence[Type]) -> Iterator[InputSpec]:
    """Each open memref alone, then all of them."""
    shapes = {i: k.shape for i, k in enumerate(types) if isinstance(k, MemRefType) and None in k.shape}
    for size in SIZES:
        sized = {i: tuple(size if d is None else d for d in shape) for i, shape in shapes.items()}
        for position, shape in sized.items():
            yield replace(spec, shapes={**spec.shapes, position: shape})
        yield replace(spec, shapes={**spec.shapes, **sized})


def _attributes(reference: Reference) -> Iterator[Suggestion]:
    """A promise dropped from the op that broke it."""
    fault = reference.outcome.fault
    for name in _PROMISES:
        module = read_module(reference.program.text)
        op = next((o for o in module.walk() if _is_at(o, fault)), None)
        if op is None or op.get(name) is None:
            continue
        op.properties.pop(name, None)
        op.attributes.pop(name, None)
        if _is_valid(replace(reference.program, text=print_module(module))):
            yield Suggestion(change=f"line {op.line}: drop `{name}` from {op.name}", verified=True)


def _is_at(op: Operation, fault: Any) -> bool:
    return fault is not None and op.line == fault.line and op.name == fault.op

"""Atomic read-modify-write (SEMANTICS §6, §9): lanes that meet in one cell take turns, in lane order.

The old value is what each access returns; where several lanes meet it depends on their order, so it is marked as not
comparable. Float sums and products get a bound when some order could round; integer results are exact.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from difftest.interpreter import values
from difftest.interpreter.cells import Cell
from difftest.interpreter.faults import stop
from difftest.interpreter.frames import Frame
from difftest.interpreter.memory import Allocation, dead
from difftest.interpreter.numerics import IntKind
from difftest.interpreter.numerics import kind_of as numeric_kind
from difftest.interpreter.numerics_float import extremum
from difftest.interpreter.reductions import lowest_bit, significant_bits
from difftest.interpreter.rules import NoRuleError
from difftest.interpreter.values import Tagged, as_lanes, gather, plain, tagged
from difftest.ir.attributes import parse_integer

if TYPE_CHECKING:
    from difftest.interpreter.core import Machine
    from difftest.ir.tree import Operation

ndarray: Any = np.ndarray
# arith.AtomicRMWKind by number, the same in enzyme-ad 0.0.14 to 0.0.16 and upstream (printed by each).
KINDS = (
    "addf", "addi", "andi", "assign", "maximumf", "maxnumf", "maxs", "maxu", "minimumf", "minnumf", "mins", "minu",
    "mulf", "muli", "ori", "xori",
)  # fmt: skip
_PRECISION = {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53}


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """An update: `apply(old, new)` on arrays; `order` is add, mul, assign, or empty when order cannot show."""

    name: str
    apply: Callable[[Any, Any], Any]
    order: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """Where one execution of an atomic op goes; bounds have been checked."""

    frame: Frame
    op: Operation
    base: Any
    position: Any
    cell: Cell


def kind_of(attribute: str, type_text: str) -> Kind:
    """The kind of a `memref.atomic_rmw`, from its attribute (`0 : i64`, or a name)."""
    name = attribute.strip()
    if name[:1].isdigit():
        number = parse_integer(name)
        name = KINDS[number] if number < len(KINDS) else name
    return named_kind(name, type_text)


def named_kind(name: str, type_text: str) -> Kind:
    """The kind called `name` (`addf`, `maxu`, …) on a scalar type."""
    kind = numeric_kind(type_text)
    if name == "assign":
        return Kind(name=name, apply=lambda old, new: new, order="assign")
    if isinstance(kind, IntKind):
        return Kind(name=name, apply=_integer(name, kind))
    if name in {"addf", "mulf"}:
        ufunc = np.add if name == "addf" else np.multiply
        return Kind(name=name, apply=ufunc, order=name[:3])
    if name in {"maximumf", "minimumf", "maxnumf", "minnumf"}:
        return Kind(name=name, apply=extremum(name, kind))
    raise NoRuleError(f"atomic kind {name} on {type_text}")


def _integer(name: str, kind: IntKind) -> Callable[[Any, Any], Any]:
    signed = {
        "maxs": np.maximum,
        "mins": np.minimum,
        "ori": np.bitwise_or,
        "andi": np.bitwise_and,
        "xori": np.bitwise_xor,
    }
    if name in signed:
        return signed[name]
    if name in {"maxu", "minu"}:
        return _unsigned(np.greater if name == "maxu" else np.less)
    if name in {"addi", "muli"}:
        ufunc = np.add if name == "addi" else np.multiply
        return lambda old, new: _narrow(ufunc(old, new), kind.width)
    raise NoRuleError(f"atomic kind {name} on integers")


def _unsigned(better: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def apply(old: Any, new: Any) -> Any:
        bits = old.dtype.str.replace("i", "u") if old.dtype.kind == "i" else "u1"
        return values.where(better(new.view(bits), old.view(bits)), new, old)

    return apply


def _narrow(data: Any, width: int) -> Any:
    """Sign-extend from bit `width` - 1 where the container is wider."""
    if data.dtype.kind != "i" or data.dtype.itemsize * 8 == width:
        return data
    shift = data.dtype.itemsize * 8 - width
    return (data << shift) >> shift


def update(machine: Machine, access: Access, value: Any, kind: Kind) -> Any:
    """Apply `kind` in every lane; returns the old values."""
    if access.base.__class__ is ndarray:
        return _by_base(access, lambda a, i: update(machine, a, gather(value, i, a.frame.n), kind))
    frame, cell = access.frame, access.cell
    memory = machine.memory
    allocation, contended = _enter(machine, access)
    variable = None if machine.tape is None else machine.tape.atomic(access, allocation, value, kind.name)
    view = memory.views[cell.code]
    where = np.broadcast_to(access.position, (frame.n,))
    terms = as_lanes(plain(value), frame.n, cell.dtype)
    before = view[where]
    bound = _bound(kind, cell, where, terms, before)
    old: Any = np.empty(frame.n, cell.dtype)
    for index in rounds(where):
        here = where[index]
        old[index] = view[here]
        view[here] = kind.apply(old[index], terms[index])
    _shadow(machine, allocation, access, value, bound)
    return _result(machine, access, old, contended, variable)


def update_by(machine: Machine, access: Access, step: Callable[[Frame, Any], Any]) -> Any:
    """Update with `step(frame, old) -> new` run for the lanes of each turn; returns the old values."""
    if access.base.__class__ is ndarray:
        return _by_base(access, lambda a, _: update_by(machine, a, step))
    frame, cell = access.frame, access.cell
    memory = machine.memory
    allocation, contended = _enter(machine, access)
    view = memory.views[cell.code]
    where = np.broadcast_to(access.position, (frame.n,))
    old: Any = np.empty(frame.n, cell.dtype)
    for index in rounds(where):
        whole = len(index) == frame.n
        child = frame if whole else frame.subset(index, ())
        here = where[index]
        old[index] = view[here]
        fresh = step(child, values.one(old[index], 0) if len(index) == 1 else old[index])
        view[here] = plain(fresh)
        inner = Access(frame=child, op=access.op, base=access.base, position=here, cell=cell)
        _shadow(machine, allocation, inner, fresh, None)
    return _result(machine, access, old, contended, None)


def rounds(where: Any) -> list[Any]:
    """Lanes in turns, so that no two lanes of a turn meet in one cell and each cell sees its lanes in order."""
    if len(where) == 1:
        return [np.zeros(1, np.int64)]
    order = np.argsort(where, kind="stable")
    fresh = np.concatenate(([True], where[order][1:] != where[order][:-1]))
    starts = np.flatnonzero(fresh)
    rank = np.arange(len(where)) - np.repeat(starts, np.diff(np.append(starts, len(where))))
    if not rank.any():
        return [np.arange(len(where))]
    by_rank = order[np.argsort(rank, kind="stable")]
    return np.split(by_rank, np.cumsum(np.bincount(rank))[:-1])


def _by_base(access: Access, run: Callable[[Access, Any], Any]) -> Any:
    frame = access.frame
    parts: list[tuple[Any, Any]] = []
    for number in np.unique(access.base):
        index = np.flatnonzero(access.base == number)
        inner = frame if len(index) == frame.n else frame.subset(index, ())
        position = gather(access.position, index, len(index))
        found = run(Access(frame=inner, op=access.op, base=int(number), position=position, cell=access.cell), index)
        parts.append((found, index))
    return values.merge(parts, frame.n, access.cell.dtype)


def _enter(machine: Machine, access: Access) -> tuple[Allocation, Any]:
    """The checks of an atomic access; returns where the order of lanes can show."""
    frame, op, cell, memory = access.frame, access.op, access.cell, machine.memory
    if cell.count != 1 or cell.pointer:
        raise NoRuleError("atomics on this type")
    number: int = access.base
    allocation = memory.table[number]
    if not allocation.alive:
        raise dead(frame, op, allocation)
    if allocation.constant:
        raise stop(frame, op, "constant-write", "a constant global is written")
    if allocation.partial:
        memory.refuse_uninitialised(frame, op, allocation, access.position, cell)
    level = frame.level
    if level is None or allocation.level is level:
        return allocation, False
    where = access.position - allocation.start // cell.width
    return allocation, level.atomic(frame, op, allocation, lanes=frame.lanes, where=where, width=cell.width)


def _bound(kind: Kind, cell: Cell, where: Any, terms: Any, before: Any) -> Any:
    """Per lane, its share of the error bound of its cell; None when every order is exact."""
    if kind.order == "assign":
        cells, counts = np.unique(where, return_counts=True)
        shared = counts[np.searchsorted(cells, where)] > 1
        differs = shared & (terms != terms[0])
        return np.where(shared, np.inf, 0.0) if differs.any() else None
    if not kind.order or not cell.floating:
        return None
    new, old = terms.astype(np.float64), before.astype(np.float64)
    if not (np.isfinite(new).all() and np.isfinite(old).all()):
        return None
    precision = _PRECISION[cell.dtype.name]
    cells, number, counts = np.unique(where, return_inverse=True, return_counts=True)
    del cells
    first = np.zeros(len(counts))
    first[number] = np.abs(old)
    if kind.order == "add":
        total = np.bincount(number, np.abs(new)) + first
        if total.max(initial=0.0) <= min(lowest_bit(new), lowest_bit(old)) * 2.0**precision:
            return None
    else:
        width = np.bincount(number, significant_bits(new))
        width[number] += significant_bits(old)
        if width.max(initial=0) <= precision:
            return None
        total = np.exp2(np.bincount(number, np.log2(np.maximum(np.abs(new), 1e-300)))) * first
    # Spread over the lanes of a cell, whose shares are added up when they are stored.
    return (2.0 * (counts + 1) * total * 2.0**-precision / counts)[number]


def _shadow(machine: Machine, allocation: Allocation, access: Access, value: Any, bound: Any) -> None:
    """Poison and error bounds of the updated cells, added to what they carried."""
    tag = value if value.__class__ is Tagged else Tagged(value)
    spread: Any = bound
    if tag.bound is not None:
        spread = tag.bound if spread is None else spread + tag.bound
    if spread is None and tag.poison is None and not allocation.poisoned and allocation.bound is None:
        return
    where = np.broadcast_to(access.position, (access.frame.n,))
    machine.memory.add_tags(allocation, where, access.cell, spread, tag.poison)


def _result(machine: Machine, access: Access, old: Any, contended: Any, variable: Any) -> Any:
    frame, op = access.frame, access.op
    data = old if frame.n > 1 else values.one(old, 0)
    if op.results and op.results[0] in machine.used_values() and np.any(contended):
        return tagged(data, bound=np.where(contended, np.inf, 0.0), var=variable)
    return tagged(data, var=variable)

"""Which operands and results of a derivative op are what (SEMANTICS §11, layouts), and which ops a region may hold."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from difftest.interpreter import adjoints
from difftest.interpreter.rules import NoRuleError
from difftest.interpreter.tape import is_float
from difftest.ir.attributes import parse_array, parse_enum, parse_symbol
from difftest.ir.types import MemRefType, PointerType, parse_type

if TYPE_CHECKING:
    from difftest.interpreter.core import Machine
    from difftest.ir.tree import Operation, Value

SHADOWED = frozenset({"dup", "dupnoneed"})
CALLS = frozenset({"func.call", "llvm.call"})
# Ops that touch floats or memory and need no derivative rule: the tape sees what they do, or they only move values.
TRANSPARENT = frozenset(
    {
        "affine.for", "affine.if", "affine.load", "affine.parallel", "affine.prefetch", "affine.store",
        "affine.yield", "arith.constant", "builtin.unrealized_conversion_cast", "cf.assert", "cf.br",
        "cf.cond_br", "cf.switch", "enzyme.affine_atomic_rmw", "enzyme.atomic_rmw", "enzyme.load",
        "enzyme.store", "enzyme.yield", "enzymexla.alternatives", "enzymexla.barrier", "enzymexla.gpu_block",
        "enzymexla.gpu_error", "enzymexla.gpu_thread", "enzymexla.gpu_wrapper", "enzymexla.memref2pointer",
        "enzymexla.noop", "enzymexla.pointer2memref", "enzymexla.polygeist_yield", "enzymexla.scope",
        "enzymexla.subindex", "func.return", "gpu.alloc", "gpu.barrier", "gpu.dealloc", "gpu.launch",
        "gpu.terminator", "llvm.alloca", "llvm.br", "llvm.cond_br", "llvm.freeze", "llvm.getelementptr",
        "llvm.intr.lifetime.end", "llvm.intr.lifetime.start", "llvm.load", "llvm.mlir.constant",
        "llvm.mlir.poison", "llvm.mlir.undef", "llvm.mlir.zero", "llvm.return", "llvm.store", "memref.alloc",
        "memref.alloca", "memref.alloca_scope", "memref.alloca_scope.return", "memref.assume_alignment",
        "memref.atomic_rmw", "memref.cast", "memref.collapse_shape", "memref.copy", "memref.dealloc",
        "memref.dim", "memref.expand_shape", "memref.extract_strided_metadata", "memref.get_global",
        "memref.load", "memref.memory_space_cast", "memref.prefetch", "memref.rank", "memref.reinterpret_cast",
        "memref.store", "memref.subview", "memref.transpose", "memref.view", "scf.condition",
        "scf.execute_region", "scf.for", "scf.forall", "scf.if", "scf.index_switch", "scf.parallel",
        "scf.reduce", "scf.reduce.return", "scf.while", "scf.yield", "ub.poison",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Argument:
    """One argument of the differentiated code: operand numbers of its primal and of its shadow or tangent."""

    activity: str
    primal: int
    shadow: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """`seeds[k]` is the operand number of return k's seed (None without); `returns` are the return activities."""

    arguments: tuple[Argument, ...]
    returns: tuple[str, ...]
    seeds: tuple[int | None, ...]


def _activities(op: Operation, name: str) -> tuple[str, ...]:
    found = tuple(parse_enum(text).strip().removeprefix("enzyme_") for text in parse_array(op.get(name) or "[]"))
    unknown = set(found) - {"active", "activenoneed", "const", "constnoneed", "dup", "dupnoneed"}
    if unknown:
        raise NoRuleError(f"activity {sorted(unknown)[0]}")
    return found


def layout_of(op: Operation, *, reverse: bool) -> Layout:
    """The operand groups of `enzyme.autodiff(_region)` (reverse) or `enzyme.fwddiff`. Refuses others."""
    for name, plain in (("width", "1"), ("strong_zero", "false")):
        text = op.get(name)
        if text is not None and text.split(":")[0].strip() != plain:
            raise NoRuleError(f"{name} = {text}")
    arguments: list[Argument] = []
    at = 0
    for activity in _activities(op, "activity"):
        paired = activity in SHADOWED
        arguments.append(Argument(activity=activity, primal=at, shadow=at + 1 if paired else None))
        at += 2 if paired else 1
    returns = _activities(op, "ret_activity")
    seeds: list[int | None] = []
    for activity in returns:
        seeded = reverse and activity in {"active", "activenoneed"}
        seeds.append(at if seeded else None)
        at += 1 if seeded else 0
    if at != len(op.operands):
        raise NoRuleError(f"{len(op.operands)} operands for activities that take {at}")
    _refuse_kinds(op, arguments, returns, reverse=reverse)
    return Layout(arguments=tuple(arguments), returns=returns, seeds=tuple(seeds))


def _refuse_kinds(op: Operation, arguments: Sequence[Argument], returns: Sequence[str], *, reverse: bool) -> None:
    for argument in arguments:
        kind = op.operands[argument.primal].type
        if argument.activity.startswith("active") and not (reverse and is_float(kind)):
            raise NoRuleError(f"an active argument of type {kind}")
        if reverse and argument.shadow is not None and not is_memory(kind):
            raise NoRuleError(f"a dup argument of type {kind} in reverse mode")
    refused = SHADOWED if reverse else {"active", "activenoneed"}
    wrong = [activity for activity in returns if activity in refused]
    if wrong:
        raise NoRuleError(f"return activity {wrong[0]} in this mode")


def is_memory(type_text: str) -> bool:
    """Whether a type is a memref or a pointer."""
    return isinstance(parse_type(type_text), MemRefType | PointerType)


def _carries(value: Value) -> bool:
    return is_float(value.type) or is_memory(value.type)


def opaque_ops(op: Operation, machine: Machine, seen: set[Operation] | None = None) -> Iterator[Operation]:
    """Ops in the regions of `op`, and in functions called there, whose effect on derivatives nobody knows.

    An element-wise op is none of them: it is refused only when active data meets it and it has no rule.
    """
    seen = set() if seen is None else seen
    seen.add(op)
    for inner in op.walk():
        if inner is op or inner.name in machine.rules.elementwise or inner.name in adjoints.RULES:
            continue
        carries = any(map(_carries, (*inner.operands, *inner.results)))
        callee = inner.get("callee") if inner.name in CALLS else None
        target = None if callee is None else machine.symbol(parse_symbol(callee))
        if target is not None and target.regions and target.regions[0].blocks:
            if target not in seen:
                yield from opaque_ops(target, machine, seen)
        elif carries and inner.name not in TRANSPARENT:
            yield inner

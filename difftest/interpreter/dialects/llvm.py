"""llvm: arithmetic, constants, structs and branches (LangRef; SEMANTICS §7).

Scalar arithmetic means what the arith and math ops of the same name mean; their rules read the llvm spelling of flags.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from difftest.interpreter import elementwise, errors_bound, numerics_bits, numerics_float, numerics_int
from difftest.interpreter.aggregates import Struct, kinds_of, poison, zero
from difftest.interpreter.dialects import arith, cf, math
from difftest.interpreter.dialects.arith import constant_data
from difftest.interpreter.faults import stop
from difftest.interpreter.float_rules import fast_flags, float_rule
from difftest.interpreter.numerics import float_kind_of, int_kind_of
from difftest.interpreter.numerics_checks import poison_checks
from difftest.interpreter.rules import ElementwiseRule, NoRuleError
from difftest.interpreter.values import Pointer, Tagged, select, tagged
from difftest.ir.attributes import parse_array, parse_dense, parse_int_array, parse_integer, parse_string
from difftest.ir.tree import Operation
from difftest.ir.types import LLVMArrayType, PointerType, parse_type

if TYPE_CHECKING:
    from difftest.interpreter.core import Context
    from difftest.interpreter.frames import Frame, Step

ndarray: Any = np.ndarray


def _nothing(op: Operation, context: Context) -> None:
    """Terminators, whose operands the op around reads, and ops without effect here."""
    del op, context


# --- constants ------------------------------------------------------------------------------------------------


def constant_value(text: str, kind: Any) -> Any:
    """The value that an attribute denotes in type `kind`."""
    members = kinds_of(kind)
    if members is None:
        return constant_data(text)
    if text.startswith('"'):
        data = parse_string(text).encode("utf-8", "surrogateescape")
        return Struct([b - 256 if b > 127 else b for b in data], members)
    if text.startswith("dense") and isinstance(kind, LLVMArrayType) and kinds_of(kind.element) is None:
        data = np.broadcast_to(parse_dense(text)[0].reshape(-1), (len(members),))
        return Struct([x.item() if data.dtype.kind in "bi" else x for x in data], members)
    if text.startswith("["):
        parts = parse_array(text)
        return Struct([constant_value(p, k) for p, k in zip(parts, members, strict=True)], members)
    raise NoRuleError(f"constant {text[:40]} of type {kind}")


def _constant(op: Operation, context: Context) -> None:
    kind = parse_type(op.results[0].type)
    text = op.get("value")
    if text is None or isinstance(kind, PointerType):
        raise NoRuleError(f"constant of type {kind}")
    context.constant(op.results[0], constant_value(text, kind))


def _zero(op: Operation, context: Context) -> None:
    context.constant(op.results[0], zero(parse_type(op.results[0].type)))


def _poison(op: Operation, context: Context) -> None:
    """undef is treated as poison (SEMANTICS §7)."""
    context.constant(op.results[0], poison(parse_type(op.results[0].type)))


def _freeze(op: Operation, context: Context) -> Step:
    """Poison becomes some value: 0 here, never compared."""
    operand, result = context.slot(op.operands[0]), context.slot(op.results[0])

    def run(frame: Frame) -> None:
        frame.v[result] = _frozen(frame.v[operand])

    return run


def _frozen(value: Any) -> Any:
    if isinstance(value, Struct):
        return Struct([_frozen(f) for f in value.fields], value.kinds)
    if value.__class__ is not Tagged or value.poison is None:
        return value
    bound: Any = np.where(value.poison, np.inf, 0.0 if value.bound is None else value.bound)
    return tagged(value.data, bound=bound, zero=value.zero, var=value.var)


# --- structs --------------------------------------------------------------------------------------------------


def _insertvalue(op: Operation, context: Context) -> Step:
    container, value = (context.slot(v) for v in op.operands)
    result, path = context.slot(op.results[0]), parse_int_array(op.get("position") or "array<i64>")

    def run(frame: Frame) -> None:
        v = frame.v
        v[result] = v[container].replaced(path, v[value])

    return run


def _extractvalue(op: Operation, context: Context) -> Step:
    container, result = context.slot(op.operands[0]), context.slot(op.results[0])
    path = parse_int_array(op.get("position") or "array<i64>")

    def run(frame: Frame) -> None:
        frame.v[result] = frame.v[container].at(path)

    return run


# --- choices and comparisons ----------------------------------------------------------------------------------


def _select(op: Operation, context: Context) -> Step:
    """A poison condition gives poison, the arm that is not chosen may be poison."""
    condition, yes, no = (context.slot(v) for v in op.operands)
    result = context.slot(op.results[0])
    dtype = context.dtypes[result]

    def run(frame: Frame) -> None:
        v = frame.v
        chosen = v[condition]
        if chosen.__class__ is not Tagged:
            v[result] = select(chosen, v[yes], v[no], frame.n, dtype)
            return
        found = select(chosen.data, v[yes], v[no], frame.n, dtype)
        v[result] = _doubted(found, chosen)

    return run


def _doubted(value: Any, condition: Tagged) -> Any:
    """A value chosen by a condition that carries poison or an error bound."""
    if isinstance(value, Struct):
        return Struct([_doubted(f, condition) for f in value.fields], value.kinds)
    if isinstance(value, Pointer):
        if condition.poison is None:
            return value
        return Pointer(base=np.where(condition.poison, 0, value.base), address=value.address)
    tag = value if value.__class__ is Tagged else Tagged(value)
    wrong = tag.poison
    if condition.poison is not None:
        wrong = condition.poison if wrong is None else np.logical_or(wrong, condition.poison)
    bound: Any = tag.bound
    if condition.bound is not None:
        bound = np.where(np.greater(condition.bound, 0), np.inf, 0.0 if bound is None else bound)
    return tagged(tag.data, poison=wrong, bound=bound, zero=tag.zero, var=tag.var)


def _icmp(op: Operation, context: Context) -> Step:
    """Pointers compare by address."""
    if not isinstance(parse_type(op.operands[0].type), PointerType):
        return elementwise.wrap(arith.ELEMENTWISE["arith.cmpi"](op), op, context)
    number = parse_integer(op.get("predicate") or "-1")
    if not 0 <= number < len(numerics_int.PREDICATES):
        raise NoRuleError(f"predicate {number}")
    compute = numerics_int.compare(numerics_int.PREDICATES[number], int_kind_of("i64"))
    left, right = (context.slot(v) for v in op.operands)
    result = context.slot(op.results[0])

    def run(frame: Frame) -> None:
        v = frame.v
        v[result] = compute(v[left].address, v[right].address)

    return run


def _bitcast(op: Operation, context: Context) -> Step:
    if isinstance(parse_type(op.operands[0].type), PointerType):
        return _same(op, context)
    return elementwise.wrap(arith.ELEMENTWISE["arith.bitcast"](op), op, context)


def _same(op: Operation, context: Context) -> Step:
    """The result is the operand (address spaces do not change addresses)."""
    operand, result = context.slot(op.operands[0]), context.slot(op.results[0])

    def run(frame: Frame) -> None:
        frame.v[result] = frame.v[operand]

    return run


# --- intrinsics on numbers ------------------------------------------------------------------------------------


def _fmuladd(op: Operation) -> ElementwiseRule:
    """Fused or not: exact where both are the same, else as inexact as `contract` allows."""
    kind, flags = float_kind_of(op.results[0].type), fast_flags(op) | {"contract"}
    return float_rule(numerics_float.fma(kind), flags=flags, bound=errors_bound.fma_bound(kind, flags))


def _flag(op: Operation, name: str) -> bool:
    text = op.get(name)
    return text is not None and text.strip() != "false"


def _absolute(op: Operation) -> ElementwiseRule:
    kind = int_kind_of(op.results[0].type)

    def lowest(a: Any) -> Any:
        return a == kind.low

    wrong = lowest if _flag(op, "is_int_min_poison") else None
    return ElementwiseRule(compute=numerics_bits.absolute(kind), poison=wrong, rule="abs-of-minimum")


def _count(name: str, op: Operation) -> ElementwiseRule:
    kind = int_kind_of(op.results[0].type)
    make = numerics_bits.count_leading_zeros if name == "ctlz" else numerics_bits.count_trailing_zeros

    def none(a: Any) -> Any:
        return a == 0

    wrong = none if _flag(op, "is_zero_poison") else None
    return ElementwiseRule(compute=make(kind), poison=wrong, rule="zero-count")


def _with_overflow(name: str, op: Operation, context: Context) -> Step:
    """(wrapped result, whether it wrapped), for `sadd`, `uadd`, `ssub`, `usub`, `smul`, `umul`."""
    kind = int_kind_of(op.operands[0].type)
    short, flag = name[1:], "nsw" if name[0] == "s" else "nuw"
    compute = numerics_int.binary(short, kind)
    check = poison_checks(short, kind, frozenset({flag}))[flag]
    left, right = (context.slot(v) for v in op.operands)
    result = context.slot(op.results[0])
    members = kinds_of(parse_type(op.results[0].type))
    if members is None:
        raise NoRuleError(f"a result of type {op.results[0].type}")

    def run(frame: Frame) -> None:
        v = frame.v
        a, b = v[left], v[right]
        if a.__class__ is Tagged or b.__class__ is Tagged:
            raise stop(frame, op, "poison-sink", "an operand of an overflow intrinsic is not a plain value")
        v[result] = Struct((compute(a, b), check(a, b)), members)

    return run


def _unreachable(op: Operation, context: Context) -> Step:
    del context

    def run(frame: Frame) -> None:
        raise stop(frame, op, "unreachable", "control reaches a place that is promised to be unreachable")

    return run


def _assume(op: Operation, context: Context) -> Step:
    condition = context.slot(op.operands[0])

    def run(frame: Frame) -> None:
        found = frame.v[condition]
        if found.__class__ is Tagged or not np.all(found):
            raise stop(frame, op, "assumption", "an assumption does not hold")

    return run


_ARITH = {
    "add": "addi", "sub": "subi", "mul": "muli", "udiv": "divui", "sdiv": "divsi", "urem": "remui", "srem": "remsi",
    "and": "andi", "or": "ori", "xor": "xori", "shl": "shli", "lshr": "shrui", "ashr": "shrsi", "sext": "extsi",
    "zext": "extui", "trunc": "trunci", "fadd": "addf", "fsub": "subf", "fmul": "mulf", "fdiv": "divf",
    "frem": "remf", "fneg": "negf", "fcmp": "cmpf", "fpext": "extf", "fptrunc": "truncf", "sitofp": "sitofp",
    "uitofp": "uitofp", "fptosi": "fptosi", "fptoui": "fptoui", "intr.smax": "maxsi", "intr.smin": "minsi",
    "intr.umax": "maxui", "intr.umin": "minui", "intr.maxnum": "maxnumf", "intr.minnum": "minnumf",
    "intr.maximum": "maximumf", "intr.minimum": "minimumf",
}  # fmt: skip
_MATH = {
    "sqrt": "sqrt", "exp": "exp", "exp2": "exp2", "log": "log", "log2": "log2", "log10": "log10", "sin": "sin",
    "cos": "cos", "tan": "tan", "pow": "powf", "powi": "fpowi", "fabs": "absf", "floor": "floor", "ceil": "ceil",
    "trunc": "trunc", "round": "round", "roundeven": "roundeven", "rint": "roundeven", "nearbyint": "roundeven",
    "copysign": "copysign", "fma": "fma", "ctpop": "ctpop", "tanh": "tanh", "sinh": "sinh", "cosh": "cosh",
    "asin": "asin", "acos": "acos", "atan": "atan", "atan2": "atan2",
}  # fmt: skip


def _as_arith(same: str, op: Operation) -> ElementwiseRule:
    """The rule of `arith.<same>`; generic form may print overflow flags as a bit mask (1 nsw, 2 nuw)."""
    factory = arith.ELEMENTWISE[f"arith.{same}"]
    text = (op.get("overflowFlags") or "").strip()
    if not text[:1].isdigit():
        return factory(op)
    mask = parse_integer(text)
    flags = ", ".join(name for bit, name in ((1, "nsw"), (2, "nuw")) if mask & bit) or "none"
    properties = {**op.properties, "overflowFlags": f"#llvm.overflow<{flags}>"}
    types = [r.type for r in op.results]
    return factory(Operation(op.name, operands=op.operands, result_types=types, properties=properties))


ELEMENTWISE: dict[str, Any] = {
    **{f"llvm.{name}": partial(_as_arith, same) for name, same in _ARITH.items()},
    **{
        f"llvm.intr.{name}": math.ELEMENTWISE[f"math.{same}"]
        for name, same in _MATH.items()
        if f"math.{same}" in math.ELEMENTWISE
    },
    "llvm.intr.fmuladd": _fmuladd,
    "llvm.intr.abs": _absolute,
    "llvm.intr.ctlz": partial(_count, "ctlz"),
    "llvm.intr.cttz": partial(_count, "cttz"),
}
RULES: dict[str, Any] = {
    "llvm.mlir.constant": _constant,
    "llvm.mlir.zero": _zero,
    "llvm.mlir.undef": _poison,
    "llvm.mlir.poison": _poison,
    "llvm.freeze": _freeze,
    "llvm.insertvalue": _insertvalue,
    "llvm.extractvalue": _extractvalue,
    "llvm.select": _select,
    "llvm.icmp": _icmp,
    "llvm.bitcast": _bitcast,
    "llvm.addrspacecast": _same,
    "llvm.unreachable": _unreachable,
    "llvm.return": _nothing,
    "llvm.intr.assume": _assume,
    "llvm.intr.lifetime.start": _nothing,
    "llvm.intr.lifetime.end": _nothing,
    "llvm.intr.dbg.value": _nothing,
    "llvm.intr.dbg.declare": _nothing,
    **{
        f"llvm.intr.{name}.with.overflow": partial(_with_overflow, name)
        for name in ("sadd", "uadd", "ssub", "usub", "smul", "umul")
    },
}
BRANCHES: dict[str, Any] = {
    "llvm.br": cf.BRANCHES["cf.br"],
    "llvm.cond_br": cf.BRANCHES["cf.cond_br"],
    "llvm.switch": cf.BRANCHES["cf.switch"],
}

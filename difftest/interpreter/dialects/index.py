"""index: arithmetic of the index type, 64 bits wide (dialect documentation "index"; SEMANTICS §4)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from difftest.interpreter import numerics_cast, numerics_checks, numerics_int
from difftest.interpreter.dialects.arith import constant_data, constant_rule
from difftest.interpreter.numerics import INDEX, INDEX_BITS, int_kind_of
from difftest.interpreter.rules import ElementwiseRule, NoRuleError
from difftest.ir import attributes
from difftest.ir.tree import Operation

Factory = Callable[[Operation], ElementwiseRule]

_NAMES = {
    "add": "add",
    "sub": "sub",
    "mul": "mul",
    "divs": "divs",
    "divu": "divu",
    "ceildivs": "ceildivs",
    "ceildivu": "ceildivu",
    "floordivs": "floordivs",
    "rems": "rems",
    "remu": "remu",
    "maxs": "maxs",
    "maxu": "maxu",
    "mins": "mins",
    "minu": "minu",
    "shl": "shl",
    "shrs": "shrs",
    "shru": "shru",
    "and": "and",
    "or": "or",
    "xor": "xor",
}


def _binary(name: str, op: Operation) -> ElementwiseRule:
    del op
    return numerics_checks.binary_rule(name, INDEX)


def _constant(op: Operation) -> ElementwiseRule:
    text = op.get("value")
    if text is None:
        raise NoRuleError("constant without a value")
    return constant_rule(constant_data(text))


def _sizeof(op: Operation) -> ElementwiseRule:
    del op
    return constant_rule(INDEX_BITS)


def _cmp(op: Operation) -> ElementwiseRule:
    text = op.get("pred") or ""
    predicate = attributes.parse_enum(text) if text else ""
    if predicate not in numerics_int.PREDICATES:
        raise NoRuleError(f"unknown predicate {text}")
    return ElementwiseRule(compute=numerics_int.compare(predicate, INDEX))


def _cast(op: Operation, *, signed: bool) -> ElementwiseRule:
    source, target = int_kind_of(op.operands[0].type), int_kind_of(op.results[0].type)
    compute = numerics_cast.resize(source, target, signed=signed)
    promise = numerics_checks.index_width if target.index and source.width > 32 else None
    return numerics_checks.integer_rule(compute, promise=promise)


ELEMENTWISE: dict[str, Factory] = {
    **{f"index.{name}": partial(_binary, short) for name, short in _NAMES.items()},
    "index.constant": _constant,
    "index.bool.constant": _constant,
    "index.sizeof": _sizeof,
    "index.cmp": _cmp,
    "index.casts": partial(_cast, signed=True),
    "index.castu": partial(_cast, signed=False),
}

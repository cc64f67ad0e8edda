"""arith: integer and float arithmetic (dialect documentation "arith"; SEMANTICS §2-4 and §12)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from difftest.interpreter import errors_bound, numerics_cast, numerics_checks, numerics_float, numerics_int
from difftest.interpreter.float_rules import fast_flags, float_rule
from difftest.interpreter.numerics import FloatKind, float_kind_of, int_kind_of, kind_of
from difftest.interpreter.rules import Data, ElementwiseRule, NoRuleError
from difftest.ir import attributes, types
from difftest.ir.tree import Operation

Factory = Callable[[Operation], ElementwiseRule]


# --- constants ----------------------------------------------------------------------------------------------


def constant_data(text: str) -> Data:
    """The data of a constant's attribute: uniform scalar, or an array of shape `(1, *vector_shape)`."""
    if text.lstrip().startswith("dense"):
        values, of_type = attributes.parse_dense(text)
        if not isinstance(of_type, types.VectorType):
            raise NoRuleError(f"no constants of type {text.rpartition(':')[2].strip()}")
        return values[np.newaxis]
    integer = attributes.integer_type(text)
    if integer is not None:
        return int_kind_of(integer).canonical(attributes.parse_integer(text))
    kind = float_kind_of(text.rpartition(":")[2].strip())
    return kind.dtype.type(attributes.parse_float(text))


def _constant(op: Operation) -> ElementwiseRule:
    text = op.get("value")
    if text is None:
        raise NoRuleError("constant without a value")
    return constant_rule(constant_data(text))


def constant_rule(data: Data) -> ElementwiseRule:
    """A rule without operands."""

    def compute() -> Data:
        return data

    return ElementwiseRule(compute=compute)


# --- integers -----------------------------------------------------------------------------------------------

_INTEGER_NAMES = {
    "addi": "add",
    "subi": "sub",
    "muli": "mul",
    "divui": "divu",
    "divsi": "divs",
    "ceildivui": "ceildivu",
    "ceildivsi": "ceildivs",
    "floordivsi": "floordivs",
    "remui": "remu",
    "remsi": "rems",
    "shli": "shl",
    "shrui": "shru",
    "shrsi": "shrs",
    "andi": "and",
    "ori": "or",
    "xori": "xor",
    "minsi": "mins",
    "minui": "minu",
    "maxsi": "maxs",
    "maxui": "maxu",
}


def integer_flags(op: Operation) -> frozenset[str]:
    """`nsw nuw exact disjoint nneg` of an op, from whichever attribute carries them."""
    text = op.get("overflowFlags")
    found = set(attributes.parse_enum(text).replace(",", " ").split()) if text else set[str]()
    for attribute, flag in (("isExact", "exact"), ("isDisjoint", "disjoint"), ("nonNeg", "nneg")):
        value = op.get(attribute)
        if value is not None and value.strip() != "false":
            found.add(flag)
    return frozenset(found - {"none"})


def _binary(name: str, op: Operation) -> ElementwiseRule:
    return numerics_checks.binary_rule(name, int_kind_of(op.results[0].type), integer_flags(op))


def _extended_product(op: Operation, *, signed: bool) -> ElementwiseRule:
    kind = int_kind_of(op.results[0].type)
    return ElementwiseRule(compute=numerics_int.extended_product(kind, signed=signed))


def _extended_sum(op: Operation) -> ElementwiseRule:
    return ElementwiseRule(compute=numerics_int.extended_sum(int_kind_of(op.results[0].type)))


def _cmpi(op: Operation) -> ElementwiseRule:
    kind = int_kind_of(op.operands[0].type)
    return ElementwiseRule(compute=numerics_int.compare(_predicate(op, numerics_int.PREDICATES), kind))


def _predicate(op: Operation, names: tuple[str, ...]) -> str:
    text = op.get("predicate")
    number = attributes.parse_integer(text) if text else -1
    if not 0 <= number < len(names):
        raise NoRuleError(f"unknown predicate {text}")
    return names[number]


def _resize(op: Operation, *, signed: bool) -> ElementwiseRule:
    source, target = int_kind_of(op.operands[0].type), int_kind_of(op.results[0].type)
    compute = numerics_cast.resize(source, target, signed=signed)
    flags = integer_flags(op)
    poison: dict[str, numerics_checks.Check] = {}
    if "nneg" in flags:
        poison["nneg"] = numerics_cast.is_negative(source)
    for flag in ("nsw", "nuw"):
        if flag in flags:
            poison[flag] = numerics_cast.outside(source, target, signed=flag == "nsw")
    promise = numerics_checks.index_width if target.index and source.width > 32 else None
    return numerics_checks.integer_rule(compute, poison=poison, promise=promise)


def _select(op: Operation) -> ElementwiseRule:
    kind = kind_of(op.results[0].type)
    return ElementwiseRule(compute=numerics_cast.choose(kind))


def _bitcast(op: Operation) -> ElementwiseRule:
    source, target = kind_of(op.operands[0].type), kind_of(op.results[0].type)
    compute = numerics_cast.reinterpret(source, target)
    if compute is None:
        raise NoRuleError(f"no bitcast from {op.operands[0].type} to {op.results[0].type}")
    discrete = errors_bound.bits_discrete if isinstance(source, FloatKind) else None
    return ElementwiseRule(compute=compute, discrete=discrete)


# --- floats -------------------------------------------------------------------------------------------------


def _float_binary(name: str, op: Operation) -> ElementwiseRule:
    kind = float_kind_of(op.results[0].type)
    _refuse_rounding_mode(op)
    flags = fast_flags(op)
    if name in ("addf", "subf"):
        bound = errors_bound.sum_bound(kind, flags, subtract=name == "subf")
    elif name == "mulf":
        bound = errors_bound.product_bound(kind, flags)
    else:
        bound = errors_bound.quotient_bound(kind, flags)
    return float_rule(numerics_float.BINARY[name], flags=flags, bound=bound)


def _negf(op: Operation) -> ElementwiseRule:
    float_kind_of(op.results[0].type)
    return float_rule(numerics_float.UNARY["negf"], flags=fast_flags(op), bound=errors_bound.keep_bound)


def _remf(op: Operation) -> ElementwiseRule:
    float_kind_of(op.results[0].type)
    return float_rule(
        numerics_float.BINARY["remf"],
        flags=fast_flags(op),
        bound=errors_bound.uncertain_where(errors_bound.remainder_discrete, errors_bound.remainder_bound),
    )


def _extremum(name: str, op: Operation) -> ElementwiseRule:
    compute = numerics_float.extremum(name, float_kind_of(op.results[0].type))
    free = name in ("maxnumf", "minnumf")
    return float_rule(compute, flags=fast_flags(op), bound=errors_bound.extremum_bound, zero_sign_free=free)


def _cmpf(op: Operation) -> ElementwiseRule:
    float_kind_of(op.operands[0].type)
    compute = numerics_float.compare(_predicate(op, numerics_float.PREDICATES))
    return float_rule(compute, flags=fast_flags(op), discrete=errors_bound.compare_discrete, number=False)


def _float_resize(op: Operation) -> ElementwiseRule:
    source, target = float_kind_of(op.operands[0].type), float_kind_of(op.results[0].type)
    _refuse_rounding_mode(op)
    widens = source.precision <= target.precision and source.tiny_exponent >= target.tiny_exponent
    bound = errors_bound.keep_bound if widens else errors_bound.narrow_bound(target)
    return float_rule(numerics_float.convert(source, target), flags=fast_flags(op), bound=bound)


def _refuse_rounding_mode(op: Operation) -> None:
    text = op.get("roundingmode")
    if text is not None and not text.lstrip().startswith("0") and "to_nearest_even" not in text:
        raise NoRuleError(f"rounding mode {text}")


def _from_int(op: Operation, *, signed: bool) -> ElementwiseRule:
    source, target = int_kind_of(op.operands[0].type), float_kind_of(op.results[0].type)
    nneg = "nneg" in integer_flags(op)
    return ElementwiseRule(
        compute=numerics_cast.from_int(source, target, signed=signed),
        poison=numerics_cast.is_negative(source) if nneg else None,
        rule="nneg" if nneg else "",
        bound=errors_bound.from_int_bound(source, target, signed=signed),
    )


def _to_int(op: Operation, *, signed: bool) -> ElementwiseRule:
    float_kind_of(op.operands[0].type)
    target = int_kind_of(op.results[0].type)
    return ElementwiseRule(
        compute=numerics_cast.to_int(target, signed=signed),
        poison=numerics_cast.does_not_fit(target, signed=signed),
        rule="fptosi-range",
        discrete=errors_bound.step_discrete(np.trunc),
    )


ELEMENTWISE: dict[str, Factory] = {
    "arith.constant": _constant,
    **{f"arith.{name}": partial(_binary, short) for name, short in _INTEGER_NAMES.items()},
    "arith.addui_extended": _extended_sum,
    "arith.mulsi_extended": partial(_extended_product, signed=True),
    "arith.mului_extended": partial(_extended_product, signed=False),
    "arith.cmpi": _cmpi,
    "arith.extsi": partial(_resize, signed=True),
    "arith.extui": partial(_resize, signed=False),
    "arith.trunci": partial(_resize, signed=True),
    "arith.index_cast": partial(_resize, signed=True),
    "arith.index_castui": partial(_resize, signed=False),
    "arith.select": _select,
    "arith.bitcast": _bitcast,
    **{f"arith.{name}": partial(_float_binary, name) for name in ("addf", "subf", "mulf", "divf")},
    **{f"arith.{name}": partial(_extremum, name) for name in ("maximumf", "minimumf", "maxnumf", "minnumf")},
    "arith.negf": _negf,
    "arith.remf": _remf,
    "arith.cmpf": _cmpf,
    "arith.extf": _float_resize,
    "arith.truncf": _float_resize,
    "arith.convertf": _float_resize,
    "arith.sitofp": partial(_from_int, signed=True),
    "arith.uitofp": partial(_from_int, signed=False),
    "arith.fptosi": partial(_to_int, signed=True),
    "arith.fptoui": partial(_to_int, signed=False),
}

"""Affine expressions compiled to Python functions, with the rules that they must keep (SEMANTICS §4).

Uniform operands are Python ints, so evaluation is exact and the 64-bit check comes after it. Lane arrays would wrap:
when the operands' range cannot show that nothing does, the expressions are evaluated on Python ints, lane by lane.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from difftest.interpreter.faults import first_lane, stop
from difftest.interpreter.rules import NoRuleError, is_array
from difftest.ir.affine import AffineBinary, AffineConstant, AffineDim, AffineExpr, AffineSymbol, evaluate

if TYPE_CHECKING:
    from difftest.interpreter.frames import Frame
    from difftest.ir.tree import Operation

Values = Sequence[Any]
_LIMIT = 1 << 63
_NARROW = 1 << 31
_MAXIMUM_DEPTH = 60
_OVERFLOW = "an affine expression overflows 64 bits"
_DIVISIONS = frozenset({"floordiv", "ceildiv", "mod"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """Compiled expressions over `dims` dimension operands, then symbols.

    `run` maps the operands to the results; `plain` says that each result is an operand or a literal; `wide` that lanes
    of 31-bit operands can overflow 64 bits; `divisors` are those that are no literals, innermost first.
    """

    expressions: tuple[AffineExpr, ...]
    dims: int
    run: Callable[..., tuple[Any, ...]]
    plain: bool
    wide: bool
    divisors: tuple[Callable[..., tuple[Any, ...]], ...]


@cache
def compile_expressions(expressions: tuple[AffineExpr, ...], dims: int, symbols: int) -> Program:
    """Compile once per distinct map. A literal divisor that is not positive has no meaning: NoRuleError."""
    inner = [e for root in expressions for e in _walk(root)]
    divisors: list[AffineExpr] = []
    for e in inner:
        if isinstance(e, AffineBinary) and e.kind in _DIVISIONS:
            if not isinstance(e.rhs, AffineConstant):
                divisors.append(e.rhs)
            elif e.rhs.value <= 0:
                raise NoRuleError(f"affine {e.kind} by {e.rhs.value}")
    return Program(
        expressions=expressions,
        dims=dims,
        run=_function(expressions, dims, symbols),
        plain=not any(isinstance(e, AffineBinary) for e in expressions),
        wide=any(_largest(e) >= _LIMIT for e in inner),
        divisors=tuple(_function((e,), dims, symbols) for e in reversed(divisors)),
    )


def _walk(expression: AffineExpr) -> Iterator[AffineExpr]:
    yield expression
    if isinstance(expression, AffineBinary):
        yield from _walk(expression.lhs)
        yield from _walk(expression.rhs)


def _largest(expression: AffineExpr) -> int:
    """A bound of the magnitude when all operands are within 31 bits."""
    match expression:
        case AffineConstant(value):
            return abs(value)
        case AffineDim() | AffineSymbol():
            return _NARROW
        case AffineBinary("mul", lhs, rhs):
            return _largest(lhs) * _largest(rhs)
        case AffineBinary("add", lhs, rhs):
            return _largest(lhs) + _largest(rhs)
        case AffineBinary("mod", _, rhs):
            return _largest(rhs)
        case AffineBinary(_, lhs, _):
            return _largest(lhs) + 1


def _function(expressions: tuple[AffineExpr, ...], dims: int, symbols: int) -> Callable[..., tuple[Any, ...]]:
    """A Python function of the operands; through its source text unless that would nest too deep."""
    if any(_depth(e) > _MAXIMUM_DEPTH for e in expressions):

        def interpreted(*operands: Any) -> tuple[Any, ...]:
            return tuple([evaluate(e, operands[:dims], operands[dims:]) for e in expressions])

        return interpreted
    names = [*(f"d{i}" for i in range(dims)), *(f"s{i}" for i in range(symbols))]
    body = "".join(f"{_source(e)}, " for e in expressions)
    # The text holds nothing but the parsed tree's numbers, operators and our own names.
    return eval(f"lambda {', '.join(names)}: ({body})", {"__builtins__": {}})


def _depth(expression: AffineExpr) -> int:
    if not isinstance(expression, AffineBinary):
        return 1
    return 1 + max(_depth(expression.lhs), _depth(expression.rhs))


def _source(expression: AffineExpr) -> str:
    match expression:
        case AffineConstant(value):
            return f"({value})" if value < 0 else str(value)
        case AffineDim(position):
            return f"d{position}"
        case AffineSymbol(position):
            return f"s{position}"
        case AffineBinary("ceildiv", lhs, rhs):
            return f"(-(-{_source(lhs)} // {_source(rhs)}))"
        case AffineBinary(kind, lhs, rhs):
            return f"({_source(lhs)} {_PYTHON[kind]} {_source(rhs)})"


_PYTHON = {"add": "+", "mul": "*", "floordiv": "//", "mod": "%"}


def run_program(frame: Frame, op: Operation, program: Program, operands: Values) -> tuple[Any, ...]:
    """The results of the expressions on plain data; a divisor <= 0 and a result beyond 64 bits are UB."""
    if program.plain:
        return program.run(*operands)
    for divisor in program.divisors:
        refuse(
            frame, op, np.less_equal(divisor(*operands)[0], 0), "affine-divisor", "an affine divisor is not positive"
        )
    if program.wide or not all(_is_narrow(x) for x in operands if is_array(x)):
        return _run_exactly(frame, op, program, operands)
    results = program.run(*operands)
    for found in results:
        if not is_array(found) and not -_LIMIT <= found < _LIMIT:
            raise stop(frame, op, "affine-overflow", _OVERFLOW)
    return results


def _is_narrow(data: Any) -> bool:
    """Whether all lanes are within 31 bits."""
    return data.size == 0 or bool(data.min() >= -_NARROW and data.max() < _NARROW)


def _run_exactly(frame: Frame, op: Operation, program: Program, operands: Values) -> tuple[Any, ...]:
    """On Python ints; every partial result must fit 64 bits, as lowerings compute them with `nsw`."""
    exact = [x.astype(object) if is_array(x) else x for x in operands]
    dims, symbols = exact[: program.dims], exact[program.dims :]
    for inner in (e for root in program.expressions for e in _walk(root)):
        found = evaluate(inner, dims, symbols)
        wrong = np.logical_or(np.less(found, -_LIMIT), np.greater_equal(found, _LIMIT)).astype(np.bool_)
        refuse(frame, op, wrong, "affine-overflow", _OVERFLOW)
    return tuple(x.astype(np.int64) if is_array(x) else x for x in program.run(*exact))


def refuse(frame: Frame, op: Operation, wrong: Any, rule: str, message: str) -> None:
    """End the run as undefined behaviour where `wrong` holds."""
    if np.any(wrong):
        raise stop(frame, op, rule, message, lane=first_lane(wrong))


def least(values: Values) -> Any:
    """The minimum of uniform and lane values (signed)."""
    found = values[0]
    for x in values[1:]:
        found = np.minimum(found, x) if is_array(found) or is_array(x) else min(found, x)
    return found


def greatest(values: Values) -> Any:
    """The maximum of uniform and lane values (signed)."""
    found = values[0]
    for x in values[1:]:
        found = np.maximum(found, x) if is_array(found) or is_array(x) else max(found, x)
    return found

"""Affine maps on the slots of a frame, and the affine ops that only compute indices (SEMANTICS §4)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from difftest.interpreter.affine_code import Program, compile_expressions, greatest, least, refuse, run_program
from difftest.interpreter.faults import first_lane, stop
from difftest.interpreter.frames import Frame, Step, sink
from difftest.interpreter.numerics_checks import index_width
from difftest.interpreter.rules import NoRuleError, is_array
from difftest.interpreter.values import Tagged, any_true, tagged
from difftest.ir.affine import AffineBinary, AffineConstant, AffineDim, AffineExpr, AffineSymbol
from difftest.ir.attributes import parse_affine_map, parse_int_array
from difftest.ir.tree import Operation

if TYPE_CHECKING:
    from difftest.interpreter.core import Context

DYNAMIC = -(1 << 63)
_NARROW = 1 << 31


def attribute(op: Operation, name: str) -> str:
    """The text of an attribute the op cannot do without."""
    text = op.get(name)
    if text is None:
        raise NoRuleError(f"{op.name} without {name}")
    return text


class Map:
    """A map (or other affine expressions) on operands in slots, evaluated where poison may not arrive."""

    def __init__(self, op: Operation, program: Program, slots: Sequence[int], what: str) -> None:
        self.op = op
        self.program = program
        self.slots = tuple(slots)
        self.what = what
        # A map that hands each operand on, in order, needs no evaluation.
        self.identity = program.expressions == tuple(AffineDim(i) for i in range(program.dims)) and (
            len(slots) == program.dims
        )

    def __call__(self, frame: Frame) -> Sequence[Any]:
        v = frame.v
        operands = [v[s] for s in self.slots]
        for i, x in enumerate(operands):
            if x.__class__ is Tagged:
                operands[i] = sink(frame, self.op, x, self.what)
        return operands if self.identity else run_program(frame, self.op, self.program, operands)


def map_of(op: Operation, name: str, slots: Sequence[int], what: str) -> Map:
    """The map attribute `name` on all of `slots`."""
    parsed = parse_affine_map(attribute(op, name))
    if parsed.dims + parsed.symbols != len(slots):
        raise NoRuleError(f"{name} of {parsed.dims + parsed.symbols} operands on {len(slots)}")
    return Map(op, compile_expressions(parsed.results, parsed.dims, parsed.symbols), slots, what)


class _Pure:
    """Results from operands: poison spreads, an overflow is undefined, and a wide result breaks `index-width`.

    In place of poison the first `indices` operands are 0 and the others, which may be divisors, 1.
    """

    def __init__(
        self,
        op: Operation,
        context: Context,
        compute: Callable[[Frame, Sequence[Any]], Sequence[Any]],
        *,
        indices: int = 0,
    ) -> None:
        self.op = op
        self.compute = compute
        self.indices = indices
        self.operands = [context.slot(v) for v in op.operands]
        self.results = [context.slot(v) for v in op.results]
        self.source = context.machine.source

    def run(self, frame: Frame) -> None:
        """The step."""
        v = frame.v
        operands = [v[s] for s in self.operands]
        poison, bound = None, None
        for i, x in enumerate(operands):
            if x.__class__ is Tagged:
                poison, bound = _join(poison, x.poison), _join(bound, x.bound)
                operands[i] = x.data
        if poison is not None:
            operands = [_harmless(x, poison, int(i >= self.indices)) for i, x in enumerate(operands)]
        found = self.compute(frame, operands)
        if self.source:
            self._check(frame, found, poison)
        for slot, x in zip(self.results, found, strict=True):
            v[slot] = tagged(x, poison=poison, bound=None if bound is None else np.where(bound, np.inf, 0.0))

    def _check(self, frame: Frame, found: Sequence[Any], poison: Any) -> None:
        for x in found:
            wrong = index_width(x)
            if wrong is not False and any_true(wrong if poison is None else np.logical_and(wrong, ~poison)):
                message = f"{self.op.name} gives an index outside 31 bits"
                raise stop(frame, self.op, "index-width", message, lane=first_lane(wrong))


def _join(left: Any, right: Any) -> Any:
    if right is None:
        return left
    found = np.asarray(right) != 0
    return found if left is None else np.logical_or(left, found)


def _harmless(data: Any, poison: Any, value: int) -> Any:
    """`data` with poison lanes replaced by a value that breaks no rule."""
    return np.where(poison, value, data) if is_array(data) or np.ndim(poison) else (value if poison else data)


def _apply(op: Operation, context: Context) -> Step:
    program = map_of(op, "map", [context.slot(v) for v in op.operands], "an operand").program
    if len(program.expressions) != 1:
        raise NoRuleError("affine.apply of several results")

    def compute(frame: Frame, operands: Sequence[Any]) -> Sequence[Any]:
        return run_program(frame, op, program, operands)

    general = _Pure(op, context, compute)
    if program.divisors:
        return general.run
    slots, (result,), evaluate, slow = general.operands, general.results, program.run, general.run

    def run(frame: Frame) -> None:
        """Uniform operands and a result within 31 bits, the sequential loop's case, need no further look."""
        v = frame.v
        operands = [v[s] for s in slots]
        for x in operands:
            if type(x) is not int:
                slow(frame)
                return
        (found,) = evaluate(*operands)
        if -_NARROW <= found < _NARROW:
            v[result] = found
        else:
            slow(frame)

    return run


def _extremum(choose: Callable[[Sequence[Any]], Any], op: Operation, context: Context) -> Step:
    program = map_of(op, "map", [context.slot(v) for v in op.operands], "an operand").program

    def compute(frame: Frame, operands: Sequence[Any]) -> Sequence[Any]:
        return (choose(run_program(frame, op, program, operands)),)

    return _Pure(op, context, compute).run


def _min(op: Operation, context: Context) -> Step:
    return _extremum(least, op, context)


def _max(op: Operation, context: Context) -> Step:
    return _extremum(greatest, op, context)


def _basis(op: Operation) -> tuple[list[AffineExpr], int]:
    """The basis, dynamic elements as symbols in order, and how many are dynamic."""
    basis: list[AffineExpr] = []
    dynamic = 0
    for number in parse_int_array(op.get("static_basis") or "array<i64>"):
        if number == DYNAMIC:
            basis.append(AffineSymbol(dynamic))
            dynamic += 1
        elif number <= 0:
            raise NoRuleError(f"basis element {number}")
        else:
            basis.append(AffineConstant(number))
    return basis, dynamic


def _refuse_basis(frame: Frame, op: Operation, dynamic: Sequence[Any]) -> None:
    for element in dynamic:
        wrong = np.less_equal(element, 0)
        refuse(frame, op, wrong, "affine-basis", "a basis element is not positive")


def _delinearize(op: Operation, context: Context) -> Step:
    """Floor division and remainders from the outermost on; an outer bound, when given, takes no part."""
    basis, dynamic = _basis(op)
    if len(basis) == len(op.results):
        basis = basis[1:]
    if len(basis) != len(op.results) - 1:
        raise NoRuleError("a basis that does not fit the results")
    rest: AffineExpr = AffineDim(0)
    results: list[AffineExpr] = []
    for i in range(len(basis)):
        stride = _product(basis[i:])
        results.append(AffineBinary("floordiv", rest, stride))
        rest = AffineBinary("mod", rest, stride)
    program = compile_expressions((*results, rest), 1, dynamic)

    def compute(frame: Frame, operands: Sequence[Any]) -> Sequence[Any]:
        _refuse_basis(frame, op, operands[1:])
        return run_program(frame, op, program, operands)

    return _Pure(op, context, compute).run


def _product(factors: Sequence[AffineExpr]) -> AffineExpr:
    found = factors[0]
    for factor in factors[1:]:
        if isinstance(found, AffineConstant) and isinstance(factor, AffineConstant):
            found = AffineConstant(found.value * factor.value)
        else:
            found = AffineBinary("mul", found, factor)
    return found


def _linearize(op: Operation, context: Context) -> Step:
    """Horner's scheme; `disjoint` promises 0 <= index < basis, except that the outermost may be negative."""
    basis, dynamic = _basis(op)
    count = parse_int_array(attribute(op, "operandSegmentSizes"))[0]
    if count == 0 or len(basis) not in (count, count - 1):
        raise NoRuleError("a basis that does not fit the indices")
    limits: list[AffineExpr | None] = [None, *basis] if len(basis) < count else [*basis]
    total: AffineExpr = AffineDim(0)
    for i in range(1, count):
        total = AffineBinary("add", AffineBinary("mul", total, basis[i - count]), AffineDim(i))
    program = compile_expressions((total,), count, dynamic)
    text = op.get("disjoint")
    disjoint = text is not None and text.strip() != "false"

    def compute(frame: Frame, operands: Sequence[Any]) -> Sequence[Any]:
        _refuse_basis(frame, op, operands[count:])
        if disjoint:
            _refuse_overlap(frame, op, operands[:count], [_limit(x, operands[count:]) for x in limits])
        return run_program(frame, op, program, operands)

    return _Pure(op, context, compute, indices=count).run


def _limit(expression: AffineExpr | None, dynamic: Sequence[Any]) -> Any:
    if isinstance(expression, AffineConstant):
        return expression.value
    return dynamic[expression.position] if isinstance(expression, AffineSymbol) else None


def _refuse_overlap(frame: Frame, op: Operation, indices: Sequence[Any], limits: Sequence[Any]) -> None:
    for i, (index, limit) in enumerate(zip(indices, limits, strict=True)):
        wrong: Any = np.less(index, 0) if i else False
        if limit is not None:
            wrong = np.logical_or(wrong, np.greater_equal(index, limit))
        refuse(frame, op, wrong, "disjoint", f"index {i} is outside its basis")


INDEX_RULES = {
    "affine.apply": _apply,
    "affine.min": _min,
    "affine.max": _max,
    "affine.delinearize_index": _delinearize,
    "affine.linearize_index": _linearize,
}

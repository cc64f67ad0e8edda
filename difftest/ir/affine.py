"""Affine expressions, maps and integer sets: parsed from text, evaluated on numbers or arrays, printed back.

Rules: Affine dialect documentation, "Affine Expressions" and "Integer Sets"; SEMANTICS §4 for the signs of floordiv,
ceildiv and mod.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

from difftest.ir.lexer import AttributeTextError

BinaryKind = Literal["add", "mul", "mod", "floordiv", "ceildiv"]

_TOKEN = re.compile(r"\s*(->|>=|<=|==|[A-Za-z_][\w$.]*|\d+|[-+*()\[\],:<>])", re.ASCII)
_MAXIMUM_DEPTH = 200
"""Of parentheses, and of operators in a row: expressions are walked by recursion."""


@dataclass(frozen=True, slots=True)
class AffineConstant:
    """An integer literal."""

    value: int


@dataclass(frozen=True, slots=True)
class AffineDim:
    """The dimension operand at `position`."""

    position: int


@dataclass(frozen=True, slots=True)
class AffineSymbol:
    """The symbol operand at `position`."""

    position: int


@dataclass(frozen=True, slots=True)
class AffineBinary:
    """`lhs kind rhs`. Subtraction is an addition of a product by -1, as in MLIR."""

    kind: BinaryKind
    lhs: AffineExpr
    rhs: AffineExpr


AffineExpr = AffineConstant | AffineDim | AffineSymbol | AffineBinary


@dataclass(frozen=True, slots=True)
class AffineMap:
    """`(d0, …)[s0, …] -> (results)`."""

    dims: int
    symbols: int
    results: tuple[AffineExpr, ...]

    def __str__(self) -> str:
        return f"affine_map<{_header(self.dims, self.symbols)} -> ({', '.join(map(print_expr, self.results))})>"


@dataclass(frozen=True, slots=True)
class AffineSet:
    """A conjunction over `(d0, …)[s0, …]`: constraint `i` is `== 0` where `equalities[i]`, else `>= 0`."""

    dims: int
    symbols: int
    constraints: tuple[AffineExpr, ...]
    equalities: tuple[bool, ...]

    def __str__(self) -> str:
        parts = (
            f"{print_expr(expr)} {'==' if equal else '>='} 0"
            for expr, equal in zip(self.constraints, self.equalities, strict=True)
        )
        return f"affine_set<{_header(self.dims, self.symbols)} : ({', '.join(parts)})>"


# --- evaluation ---------------------------------------------------------------------------------------------


def evaluate(expr: AffineExpr, dims: Sequence[Any], symbols: Sequence[Any]) -> Any:
    """The value of `expr` for Python ints or integer numpy arrays (mixed freely; arrays broadcast).

    floordiv rounds down, ceildiv up, mod lies in [0, divisor) for a positive divisor (SEMANTICS §4). Python ints are
    exact, arrays wrap at their width; a divisor of zero is the caller's to refuse.
    """
    match expr:
        case AffineConstant(value):
            return value
        case AffineDim(position):
            return dims[position]
        case AffineSymbol(position):
            return symbols[position]
        case AffineBinary(kind, lhs, rhs):
            return _apply(kind, evaluate(lhs, dims, symbols), evaluate(rhs, dims, symbols))


def _apply(kind: BinaryKind, left: Any, right: Any) -> Any:
    if kind == "add":
        return left + right
    if kind == "mul":
        return left * right
    if kind == "floordiv":
        return left // right
    if kind == "ceildiv":
        return -(-left // right)
    return left % right


# --- linear forms -------------------------------------------------------------------------------------------


def strides_of(mapping: AffineMap) -> tuple[tuple[int | None, ...], int | None] | None:
    """Strides and offset of a memref layout given by a one-result map, None entries where they hang on symbols.

    Returns None when the map is no linear form of its dimensions (as MLIR's `getStridesAndOffset` fails).
    """
    if len(mapping.results) != 1:
        return None
    terms = _linear(mapping.results[0])
    if terms is None:
        return None
    return tuple(terms.get(i, 0) for i in range(mapping.dims)), terms.get(-1, 0)


def _linear(expr: AffineExpr) -> dict[int, int | None] | None:
    """Coefficients by dimension, the constant under -1; a coefficient None contains symbols."""
    match expr:
        case AffineConstant(value):
            return {-1: value}
        case AffineDim(position):
            return {position: 1}
        case AffineSymbol():
            return {-1: None}
        case AffineBinary(kind, lhs, rhs):
            left, right = _linear(lhs), _linear(rhs)
            if left is None or right is None:
                return None
            if kind == "add":
                return {k: _sum(left.get(k, 0), right.get(k, 0)) for k in {**left, **right}}
            if kind == "mul":
                return _scaled(left, right)
            constants = set(left) | set(right) <= {-1}
            return {-1: _folded(kind, left[-1], right[-1])} if constants else None


def _sum(left: int | None, right: int | None) -> int | None:
    return None if left is None or right is None else left + right


def _folded(kind: BinaryKind, left: int | None, right: int | None) -> int | None:
    return None if left is None or not right else int(_apply(kind, left, right))


def _scaled(left: dict[int, int | None], right: dict[int, int | None]) -> dict[int, int | None] | None:
    if set(left) <= {-1}:
        left, right = right, left
    if not set(right) <= {-1}:
        return None
    factor = right.get(-1, 0)
    return {
        k: 0 if v == 0 or factor == 0 else None if v is None or factor is None else v * factor for k, v in left.items()
    }


# --- printing -----------------------------------------------------------------------------------------------


def _header(dims: int, symbols: int) -> str:
    brackets = f"[{', '.join(f's{i}' for i in range(symbols))}]" if symbols else ""
    return f"({', '.join(f'd{i}' for i in range(dims))}){brackets}"


def print_expr(expr: AffineExpr) -> str:
    """`expr` in MLIR's syntax with operands named d0…, s0…; parsing it gives an equal expression."""
    match expr:
        case AffineConstant(value):
            return str(value)
        case AffineDim(position):
            return f"d{position}"
        case AffineSymbol(position):
            return f"s{position}"
        case AffineBinary("add", lhs, rhs):
            left = print_expr(lhs)
            match rhs:
                case AffineConstant(value) if value < 0:
                    return f"{left} - {-value}"
                case AffineBinary("mul", inner, AffineConstant(-1)):
                    return f"{left} - {_operand(inner)}"
                case AffineBinary("add", _, _):
                    return f"{left} + ({print_expr(rhs)})"
                case _:
                    return f"{left} + {print_expr(rhs)}"
        case AffineBinary("mul", AffineDim() | AffineSymbol() as inner, AffineConstant(-1)):
            return f"-{print_expr(inner)}"
        case AffineBinary(kind, lhs, rhs):
            return f"{_operand(lhs)} {'*' if kind == 'mul' else kind} {_operand(rhs)}"


def _operand(expr: AffineExpr) -> str:
    return f"({print_expr(expr)})" if isinstance(expr, AffineBinary) else print_expr(expr)


# --- parsing ------------------------------------------------------------------------------------------------


@lru_cache(maxsize=4096)
def parse_affine_map(text: str) -> AffineMap:
    """`affine_map<(d0, d1)[s0] -> (d0 floordiv 4 + s0)>`. Raises AttributeTextError."""
    parser = _Parser(text, "affine_map")
    parser.expect("->")
    results = tuple(parser.expressions())
    parser.expect(">")
    parser.finish()
    return AffineMap(parser.dims, parser.symbols, results)


@lru_cache(maxsize=4096)
def parse_affine_set(text: str) -> AffineSet:
    """`affine_set<(d0)[s0] : (d0 - 1 >= 0, s0 == 0)>`. Raises AttributeTextError.

    `a >= b` and `a == b` become a difference against zero, `a <= b` becomes `b - a >= 0`.
    """
    parser = _Parser(text, "affine_set")
    parser.expect(":")
    constraints = tuple(parser.constraints())
    parser.expect(">")
    parser.finish()
    return AffineSet(
        parser.dims, parser.symbols, tuple(expr for expr, _ in constraints), tuple(equal for _, equal in constraints)
    )


class _Parser:
    """Recursive descent over the tokens of one map or set; operands are named in the header."""

    def __init__(self, text: str, keyword: str) -> None:
        self.text = text
        self.tokens = list(_tokens(text))
        self.position = 0
        self.depth = 0
        self.operators = 0
        self.expect(keyword)
        self.expect("<")
        dims = self._names("(", ")")
        symbols = self._names("[", "]") if self.peek() == "[" else []
        self.dims = len(dims)
        self.symbols = len(symbols)
        self.names: Mapping[str, AffineExpr] = {
            **{name: AffineDim(i) for i, name in enumerate(dims)},
            **{name: AffineSymbol(i) for i, name in enumerate(symbols)},
        }
        if len(self.names) != len(dims) + len(symbols):
            raise self.error()

    def error(self) -> AttributeTextError:
        return AttributeTextError(f"bad affine text near token {self.position + 1}: {self.text[:120]}")

    def peek(self) -> str:
        return self.tokens[self.position] if self.position < len(self.tokens) else ""

    def take(self) -> str:
        token = self.peek()
        self.position += 1
        return token

    def expect(self, token: str) -> None:
        if self.take() != token:
            self.position -= 1
            raise self.error()

    def finish(self) -> None:
        if self.position != len(self.tokens):
            raise self.error()

    def _names(self, opening: str, closing: str) -> list[str]:
        self.expect(opening)
        names: list[str] = []
        while self.peek() != closing:
            if names:
                self.expect(",")
            name = self.take()
            if not (name[:1].isalpha() or name[:1] == "_"):
                raise self.error()
            names.append(name)
        self.expect(closing)
        return names

    def expressions(self) -> Iterator[AffineExpr]:
        self.expect("(")
        while self.peek() != ")":
            yield self._expression()
            if self.peek() != ")":
                self.expect(",")
        self.expect(")")

    def constraints(self) -> Iterator[tuple[AffineExpr, bool]]:
        self.expect("(")
        while self.peek() != ")":
            left = self._expression()
            relation = self.take()
            if relation not in {">=", "<=", "=="}:
                raise self.error()
            right = self._expression()
            if relation == "<=":
                left, right = right, left
            yield _difference(left, right), relation == "=="
            if self.peek() != ")":
                self.expect(",")
        self.expect(")")

    def _expression(self) -> AffineExpr:
        self.operators = 0
        found = self.sum()
        if self.operators > _MAXIMUM_DEPTH:
            raise AttributeTextError(f"affine text with more than {_MAXIMUM_DEPTH} operators: {self.text[:120]}")
        return found

    def sum(self) -> AffineExpr:
        left = self._product()
        while self.peek() in {"+", "-"}:
            operator = self._operator()
            right = self._product()
            left = AffineBinary("add", left, right) if operator == "+" else _difference(left, right)
        return left

    def _product(self) -> AffineExpr:
        left = self._unary()
        while self.peek() in {"*", "mod", "floordiv", "ceildiv"}:
            operator = self._operator()
            right = self._unary()
            left = AffineBinary(_KINDS[operator], left, right)
        return left

    def _operator(self) -> str:
        self.operators += 1
        return self.take()

    def _unary(self) -> AffineExpr:
        self.depth += 1
        if self.depth > _MAXIMUM_DEPTH:
            raise AttributeTextError(f"affine text nests deeper than {_MAXIMUM_DEPTH}: {self.text[:120]}")
        token = self.take()
        if token == "-":
            found = _negated(self._unary())
        elif token == "(":
            found = self.sum()
            self.expect(")")
        elif token.isdecimal() and len(token) < 40:
            found = AffineConstant(int(token))
        elif token == "symbol" and self.peek() == "(":
            found = self._unary()
        elif token in self.names:
            found = self.names[token]
        else:
            self.position -= 1
            raise self.error()
        self.depth -= 1
        return found


_KINDS: Mapping[str, BinaryKind] = {"*": "mul", "mod": "mod", "floordiv": "floordiv", "ceildiv": "ceildiv"}


def _negated(expr: AffineExpr) -> AffineExpr:
    return (
        AffineConstant(-expr.value)
        if isinstance(expr, AffineConstant)
        else AffineBinary("mul", expr, AffineConstant(-1))
    )


def _difference(left: AffineExpr, right: AffineExpr) -> AffineExpr:
    if right == AffineConstant(0):
        return left
    return AffineBinary("add", left, _negated(right))


def _tokens(text: str) -> Iterator[str]:
    position = 0
    end = len(text.rstrip())
    while position < end:
        found = _TOKEN.match(text, position)
        if found is None:
            raise AttributeTextError(f"bad affine text: {text[:120]}")
        position = found.end()
        yield found[1]

"""Combining the values of many iterations in an order that nobody specified (SEMANTICS §5, §12).

The terms of each parent lane are folded as a balanced tree by the combiner's own region. A float sum or product that
could round in some order gets the error bound of section 12; when every order is exact it stays exact.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from difftest.interpreter.values import Tagged, as_lanes, gather, merge, plain, tagged

if TYPE_CHECKING:
    from difftest.interpreter.core import Body, Context, Machine
    from difftest.interpreter.frames import Frame

ndarray: Any = np.ndarray
_PRECISION = {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53}
_ANY_ORDER = frozenset(
    {
        *(f"arith.{name}" for name in ("maximumf", "minimumf", "maxnumf", "minnumf", "cmpf", "select")),
        *(f"llvm.{name}" for name in ("intr.maximum", "intr.minimum", "intr.maxnum", "intr.minnum", "fcmp", "select")),
    }
)
# What a combiner may hold besides its operation: a pass may leave it a constant that nobody uses.
_CONSTANTS = frozenset({"arith.constant", "llvm.mlir.constant"})
_KINDS = {"arith.addf": "add", "llvm.fadd": "add", "arith.mulf": "mul", "llvm.fmul": "mul"}


class Combiner:
    """One reduction: its region and what is known about its float order."""

    def __init__(self, body: Body, dtype: Any, context: Context) -> None:
        self.body = body
        self.dtype = dtype
        self.machine: Machine = context.machine
        ops = [o.name for o in body.region.blocks[0].ops[:-1]] if body.region.blocks else []
        self.kind = _order_kind(ops, dtype)

    def apply(self, frame: Frame, index: Any, left: Any, right: Any, n: int) -> Any:
        """The combiner on `n` lanes that descend from lanes `index` of `frame`."""
        child = frame.child(index, n, self.body.captures)
        child.v[self.body.arguments[0]], child.v[self.body.arguments[1]] = left, right
        self.body.run(child)
        return child.v[self.body.results[0]]

    def reduce(self, frame: Frame, init: Any, terms: Any, parents: Any, total: int) -> Any:
        """`init` combined with the terms of each lane: `terms` has `total` lanes, `parents` their lanes of `frame`.

        `parents` is 0 when `frame` has one lane, else an ascending array.
        """
        n = frame.n
        counts: Any = np.array([total]) if n == 1 else np.bincount(parents, minlength=n)
        live = np.flatnonzero(counts)
        folded = self._fold(frame, terms, counts[live], live, total)
        start = init if len(live) == n else gather(init, live, len(live))
        result = self.apply(frame, live, start, folded, len(live))
        if self.kind is not None:
            bound = order_bound(self.kind, self.dtype, (plain(terms), plain(start), plain(result)), counts[live])
            result = _with_bound(result, bound)
        return result if len(live) == n else merge([(init, np.arange(n)), (result, live)], n, self.dtype)

    def _fold(self, frame: Frame, terms: Any, counts: Any, live: Any, total: int) -> Any:
        if total == len(live):
            return terms
        if (counts == counts[0]).all():
            return self._fold_even(frame, terms, live, int(counts[0]))
        return self._fold_ragged(frame, terms, counts, live)

    def _fold_even(self, frame: Frame, terms: Any, live: Any, count: int) -> Any:
        """Groups of one size: halves against halves."""
        groups = len(live)
        if terms.__class__ is not Tagged and self.dtype is not None and getattr(terms, "ndim", 1) == 1:
            terms = as_lanes(terms, groups * count, self.dtype)
        while count > 1:
            half = count // 2
            grid = np.arange(groups * count).reshape(groups, count)
            left, right = grid[:, :half].reshape(-1), grid[:, half : 2 * half].reshape(-1)
            n = groups * half
            index = 0 if frame.n == 1 else np.repeat(live, half)
            merged = self.apply(frame, index, gather(terms, left, n), gather(terms, right, n), n)
            if count % 2:
                odd = gather(terms, grid[:, -1].copy(), groups)
                places = np.arange(groups * (half + 1)).reshape(groups, half + 1)
                parts = [(merged, places[:, :half].reshape(-1)), (odd, places[:, half].copy())]
                merged = merge(parts, groups * (half + 1), self.dtype)
            terms, count = merged, half + count % 2
        return terms

    def _fold_ragged(self, frame: Frame, terms: Any, counts: Any, live: Any) -> Any:
        """Groups of many sizes: neighbours against neighbours."""
        while counts.max() > 1:
            starts = np.cumsum(counts) - counts
            total = int(counts.sum())
            rank = np.arange(total) - np.repeat(starts, counts)
            last = rank + 1 == np.repeat(counts, counts)
            left = np.flatnonzero((rank % 2 == 0) & ~last)
            alone = np.flatnonzero((rank % 2 == 0) & last)
            owner = np.repeat(live, counts)
            index = owner[left] if frame.n > 1 else 0
            merged = self.apply(
                frame, index, gather(terms, left, len(left)), gather(terms, left + 1, len(left)), len(left)
            )
            place = np.cumsum(rank % 2 == 0) - 1
            size = int(place[-1]) + 1
            parts = [(merged, place[left]), (gather(terms, alone, len(alone)), place[alone])]
            terms = merge([p for p in parts if len(p[1])], size, self.dtype)
            counts = (counts + 1) // 2
        return terms


def _order_kind(ops: list[str], dtype: Any) -> str | None:
    """`add`, `mul`, `unknown` (some other float arithmetic), or None when order cannot show."""
    used = [name for name in ops if name not in _CONSTANTS]
    if dtype is None or dtype.kind in "biO" or all(name in _ANY_ORDER for name in used):
        return None
    return _KINDS.get(used[0], "unknown") if len(used) == 1 else "unknown"


def _with_bound(value: Any, bound: Any) -> Any:
    if bound is None:
        return value
    if value.__class__ is not Tagged:
        return tagged(value, bound=bound)
    total = bound if value.bound is None else value.bound + bound
    return tagged(value.data, poison=value.poison, bound=total, zero=value.zero, var=value.var)


def order_bound(kind: str, dtype: Any, data: tuple[Any, Any, Any], counts: Any) -> Any:
    """How far another order of a float reduction may be from the one taken, per group; None when it cannot differ.

    `data` holds the terms (all groups, in order), the starting values and the results.
    """
    terms, start, result = (np.asarray(x, np.float64).reshape(-1) for x in data)
    total = int(np.sum(counts))
    if len(terms) != total:
        terms = np.broadcast_to(terms, (total,))
    if kind == "unknown":
        return np.full(len(counts), np.inf) if len(counts) > 1 else np.inf
    precision = _PRECISION[dtype.name]
    if not np.isfinite(terms).all() or not np.isfinite(start).all():
        return None
    starts = np.cumsum(counts) - counts
    if kind == "add":
        magnitude = np.add.reduceat(np.abs(terms), starts) + np.abs(start)
        unit = min(lowest_bit(terms), lowest_bit(start))
        if magnitude.max(initial=0.0) <= unit * 2.0**precision:
            return None
        spread = magnitude
    else:
        width = np.add.reduceat(significant_bits(terms), starts) + significant_bits(start)
        if width.max(initial=0) <= precision:
            return None
        spread = np.abs(result)
    bound = 2.0 * (counts + 1) * spread * 2.0**-precision
    return bound if len(bound) > 1 else float(bound[0])


def lowest_bit(data: Any) -> float:
    """The largest power of two that divides every non-zero finite float64 (inf when all are zero)."""
    data = data[data != 0]
    if not data.size:
        return float("inf")
    mantissa, exponent = np.frexp(data)
    whole = np.ldexp(mantissa, 53).astype(np.int64)
    return float(np.ldexp((whole & -whole).astype(np.float64), exponent - 53).min())


def significant_bits(data: Any) -> Any:
    """How many significand bits each finite float64 needs (0 for powers of two, so that products add up)."""
    mantissa, _ = np.frexp(data)
    whole = np.ldexp(mantissa, 53).astype(np.int64)
    low = (whole & -whole).astype(np.float64)
    return np.where(data == 0, 0, 53 - np.frexp(np.maximum(low, 1.0))[1] + 1).astype(np.int64)


def gathered_terms(parts: list[tuple[Any, Any, int]], dtype: Any, n: int) -> tuple[Any, Any, int]:
    """Terms that arrived frame by frame, sorted by parent lane: (terms, parents, total)."""
    if len(parts) == 1:
        return parts[0]
    sizes = [p[2] for p in parts]
    ends: Any = np.cumsum(sizes)
    total = int(ends[-1])
    places: list[tuple[Any, Any]] = [
        (value, np.arange(end - size, end)) for (value, _, _), size, end in zip(parts, sizes, ends, strict=True)
    ]
    terms = merge(places, total, dtype)
    if n == 1:
        return terms, 0, total
    parents = np.concatenate([np.broadcast_to(np.asarray(p), (size,)) for _, p, size in parts])
    order = np.argsort(parents, kind="stable")
    return gather(terms, order, total), parents[order], total

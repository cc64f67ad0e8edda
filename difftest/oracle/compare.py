"""Do two executions agree?  The only place that says what "equal" means (SEMANTICS §0, §12).

Integers and exact floats compare by bits; NaN equals NaN; +0 equals -0 only where one of the executions carried a
rule that licenses it; inexact floats compare within the sum of both running error bounds, never within a fixed
tolerance.  An element that the reference cannot promise (`skip`) is not compared.  An element that the reference
does promise and the compiled program leaves undefined is a difference.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from difftest.errors import HarnessError
from difftest.model import Array, Difference, Observed, Outcome

Mask = NDArray[np.bool_]
# A bound this large relative to the value says nothing about it (SEMANTICS §12).
MEANINGLESS_BOUND = 1 / 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """`difference` is None when everything compared agrees; the counts say how much was compared."""

    difference: Difference | None
    compared: int
    skipped: int


def compare(expected: Outcome, actual: Outcome) -> Comparison:
    """Compare the observed values of two executions that both ended well.

    Raises HarnessError when they observe different things: that is never a property of the program.
    """
    if len(expected.observed) != len(actual.observed):
        raise HarnessError(f"{len(expected.observed)} observed values against {len(actual.observed)}")
    first: Difference | None = None
    compared = skipped = 0
    for want, got in zip(expected.observed, actual.observed, strict=True):
        if want.data.shape != got.data.shape or want.data.dtype != got.data.dtype:
            raise HarnessError(
                f"{want.label}: {want.data.dtype}{want.data.shape} against {got.data.dtype}{got.data.shape}"
            )
        differs, ignored = _differences(want, got)
        compared += int(differs.size - ignored.sum())
        skipped += int(ignored.sum())
        if first is None and differs.any():
            first = _first(want, got, differs)
    return Comparison(difference=first, compared=compared, skipped=skipped)


def _differences(want: Observed, got: Observed) -> tuple[Mask, Mask]:
    """(where the two differ, where nothing may be compared)."""
    ignored = _mask(want.skip, want.data)
    undefined = _mask(got.skip, got.data)
    if not is_float(want.data):
        # An integer with a bound came from an inexact float that lies too near a jump to say which one it is.
        ignored = ignored | (_bound(want) + _bound(got) > 0)
        return ((want.data != got.data) | undefined) & ~ignored, ignored
    with np.errstate(all="ignore"):
        bound = _bound(want) + _bound(got)
        expected, actual = want.data.astype(np.float64), got.data.astype(np.float64)
        vague = (bound > np.abs(expected) * MEANINGLESS_BOUND) & (bound > 0) & np.isfinite(expected)
        near = np.isfinite(expected) & np.isfinite(actual) & (np.abs(expected - actual) <= bound) & (bound > 0)
    same = _same_bits(want.data, got.data) | (np.isnan(expected) & np.isnan(actual)) | near
    if want.zero or got.zero:
        same |= (expected == 0) & (actual == 0)
    # NaN and infinity under fast flags are poison (SEMANTICS §11): undefined there is licensed by the reference.
    licensed = undefined & ~np.isfinite(expected)
    ignored = ignored | vague | licensed
    return (~same | undefined) & ~ignored, ignored


def is_float(data: Array) -> bool:
    """Whether `data` holds floats, ml_dtypes' included (numpy gives those the kind `V`)."""
    return data.dtype.kind in "fV"


def _mask(skip: Mask | None, data: Array) -> Mask:
    return np.zeros(data.shape, dtype=np.bool_) if skip is None else skip


def _bound(observed: Observed) -> NDArray[np.float64]:
    return np.zeros(observed.data.shape) if observed.bound is None else observed.bound


def _same_bits(a: Array, b: Array) -> Mask:
    unsigned = np.dtype(f"u{a.dtype.itemsize}")
    return np.ascontiguousarray(a).view(unsigned).reshape(a.shape) == np.ascontiguousarray(b).view(unsigned).reshape(
        b.shape
    )


def _first(want: Observed, got: Observed, differs: Mask) -> Difference:
    index = tuple(int(i) for i in np.argwhere(differs)[0]) if differs.ndim else ()
    undefined = got.skip is not None and bool(got.skip[index])
    return Difference(
        label=want.label,
        index=index,
        expected=show(want.data[index]),
        actual="undefined" if undefined else show(got.data[index]),
        count=int(differs.sum()),
        bound=float(_bound(want)[index] + _bound(got)[index]),
    )


def show(value: Any) -> str:
    """An element as text that tells apart every two bit patterns that compare unequal."""
    return repr(float(value)) if is_float(np.asarray(value)) else str(value)

"""The shape of an element-wise rule: what a pure scalar op means, apart from lanes, memory and control flow.

Data of a value, for `n` lanes, is either *uniform* (one Python or numpy scalar, equal in all lanes) or an array of
shape `(n,)` (`(n, *vector_shape)` for vectors):

* `i1`: `bool` / `np.bool_` arrays.
* `iN`, N <= 64, and `index` (64 bits): Python `int` in the signed range of N / signed arrays of the smallest of
  int8, int16, int32, int64 that holds N bits, always sign-extended from bit N-1.
* `iN`, N > 64: Python `int` in the signed range / object arrays of such ints.
* floats: numpy (or ml_dtypes) scalars / arrays of exactly the type's width: float16, bfloat16, float32, float64.
* vectors: always arrays; one equal in all lanes (a dense constant) has shape `(1, *vector_shape)`.

A rule's functions take the operands' data positionally and work on both kinds and any mix of them; they never
look at lanes and never raise for values. They may meet numpy's floating-point and division conditions: run them under
`np.errstate(all="ignore")`, set once around the whole execution.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from difftest.errors import DifftestError

Data = Any


class NoRuleError(DifftestError):
    """Raised by a rule factory, at compile time, for types or attributes it has no meaning for: `unsupported`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ElementwiseRule:
    """What one element-wise op with fixed types and attributes does.

    `compute` maps operand data to result data (a tuple for several results). `poison` and `undefined`, when
    present, map operand data to a bool (array): where the result is poison, where executing is immediate UB;
    `rule` names the broken promise (`shift-amount`, `nsw`, `division-by-zero` …). `bound` maps
    `(operands, operand_bounds, result)` to the absolute error bound of the result, or None when every lane is
    exact; operand bounds are float64 arrays, scalars or None (exact). Without `bound` the result is exact whenever
    the operands are and *unknown* otherwise; integer ops never carry bounds. `discrete` marks ops whose result
    jumps (compare, floor, fptosi): it returns where the outcome is uncertain given the operand bounds.
    `zero_sign_free` marks results whose sign of zero may differ (nsz, maxnumf …).

    When several promises can break (`nsw` and `nuw`; divisor zero and signed overflow), `causes` names each with its
    own mask over the operands; `broken` picks the one to report, `rule` is the name when there is only one.
    `promise` maps `(result, *operands)` to where a rule of *source mode only* is broken (named `promise_rule`, so far
    always `index-width`, SEMANTICS §4): reported in source mode, not evaluated in intermediate mode, where the
    computed (wrapped) result simply stands.
    """

    compute: Callable[..., Data]
    poison: Callable[..., Data] | None = None
    undefined: Callable[..., Data] | None = None
    rule: str = ""
    bound: Callable[[tuple[Data, ...], tuple[Data, ...], Data], Data] | None = None
    discrete: Callable[[tuple[Data, ...], tuple[Data, ...]], Data] | None = None
    zero_sign_free: bool = False
    causes: tuple[tuple[str, Callable[..., Data]], ...] = ()
    promise: Callable[..., Data] | None = None
    promise_rule: str = ""

    def broken(self, operands: tuple[Data, ...], lane: int = 0) -> str:
        """The name of the rule that lane `lane` breaks, once `poison` or `undefined` holds there."""
        picked = tuple(_pick(x, lane) for x in operands)
        for name, mask in self.causes:
            if np.any(mask(*picked)):
                return name
        return self.rule


def is_array(data: Data) -> bool:
    """Whether `data` is an array (it then has a lane axis) and not one uniform scalar."""
    return isinstance(data, np.ndarray)


def _pick(data: Data, lane: int) -> Data:
    """One lane of `data`, still with its lane axis; uniform data as it is."""
    if not is_array(data) or data.ndim == 0 or data.shape[0] == 1:
        return data
    return data[lane : lane + 1]

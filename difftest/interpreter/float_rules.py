"""Fast-math flags, and float rules assembled with what their flags promise and license (SEMANTICS §3)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

import numpy as np

from difftest.interpreter.errors_bound import Bound, Discrete
from difftest.interpreter.numerics_checks import any_of
from difftest.interpreter.numerics_float import unwrap
from difftest.interpreter.rules import Data, ElementwiseRule, is_array
from difftest.ir import attributes
from difftest.ir.tree import Operation

ALL_FLAGS = frozenset({"reassoc", "nnan", "ninf", "nsz", "arcp", "contract", "afn"})


def fast_flags(op: Operation) -> frozenset[str]:
    """The flags of `fastmath` (arith, math) or `fastmathFlags` (llvm); `fast` is all of them."""
    text = op.get("fastmath") or op.get("fastmathFlags")
    if not text:
        return frozenset()
    found = frozenset(attributes.parse_enum(text).replace(",", " ").split()) - {"none"}
    return ALL_FLAGS if "fast" in found else found


def float_rule(
    compute: Callable[..., Data],
    *,
    flags: frozenset[str],
    bound: Bound | None = None,
    discrete: Discrete | None = None,
    zero_sign_free: bool = False,
    number: bool = True,
) -> ElementwiseRule:
    """A float op's rule. `nnan`/`ninf` met by an operand or, when the result is a `number`, the result: poison."""
    poison: dict[str, Callable[..., Data]] = {}
    if "nnan" in flags:
        poison["nnan"] = _meets(np.isnan, compute if number else None)
    if "ninf" in flags:
        poison["ninf"] = _meets(np.isinf, compute if number else None)
    names = list(poison)
    return ElementwiseRule(
        compute=compute,
        poison=any_of(poison),
        rule=names[0] if names else "",
        causes=tuple(poison.items()) if len(names) > 1 else (),
        bound=bound,
        discrete=discrete,
        zero_sign_free=zero_sign_free or "nsz" in flags,
    )


def _several(results: Data) -> Sequence[Data]:
    return cast("Sequence[Data]", results) if type(results) is tuple else (results,)


def _meets(test: Callable[..., Data], compute: Callable[..., Data] | None) -> Callable[..., Data]:
    """Where `test` holds for a float operand or for the result."""

    def check(*operands: Data) -> Data:
        results = () if compute is None else compute(*operands)
        values: list[Data] = [*operands]
        values.extend(_several(results))
        found: Data = False
        for data in values:
            if np.asarray(data).dtype.kind not in "iub":  # an integer exponent is no float
                found = found | test(data)
        return found if is_array(found) else bool(unwrap(found))

    return check

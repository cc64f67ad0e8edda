"""Constants toward 0, 1 and half of what they are; dense constants become splats of zero."""

from __future__ import annotations

import re
from dataclasses import dataclass

from reducer.edits import Draft, Pass, Snapshot
from reducer.trees import CONSTANTS, set_property

_NUMBER = re.compile(r"^(-?\d+)(\.\d+(?:e[+-]?\d+)?)?( : .*)$")
_DENSE = re.compile(r"^dense<(?!0>|0\.0+e\+00>|false>).*> : (?:vector|tensor|memref)<(?:.*x)?(\w+)>$", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class SetConstant:
    """Give the constant `op` the value `text`."""

    op: int
    text: str

    def apply(self, draft: Draft) -> None:
        """See `Edit.apply`."""
        op = draft.op(self.op)
        if op is not None and op.get("value") is not None:
            set_property(op, "value", self.text)


def propose(snapshot: Snapshot) -> list[SetConstant]:
    """The alternatives of every constant, smallest first."""
    return [
        SetConstant(op=number, text=text)
        for number, op in enumerate(snapshot.ops)
        if op.name in CONSTANTS or op.name in ("llvm.mlir.global", "memref.global")
        for text in _smaller(op.get("value") or "")
    ]


def _smaller(text: str) -> list[str]:
    matched = _NUMBER.match(text)
    if matched is not None:
        head, fraction, suffix = matched.groups()
        if fraction is not None:
            zero, one = f"0.000000e+00{suffix}", f"1.000000e+00{suffix}"
            return [] if text == zero else [zero] if text == one else [zero, one]
        value = int(head)
        wanted = [v for v in (0, 1, 2, abs(value) // 2) if v < abs(value) or (v == -value)]
        return [f"{v}{suffix}" for v in dict.fromkeys(wanted)]
    dense = _DENSE.match(text)
    if dense is not None:
        zero = "false" if dense.group(1) == "i1" else "0" if dense.group(1)[0] in "isu" else "0.000000e+00"
        return [f"dense<{zero}>{text[text.rindex('> : ') + 1 :]}"]
    return []


PASSES = (Pass(name="constants", propose=propose),)

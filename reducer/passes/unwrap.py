"""Replace an operation by the body of one of its regions.

Loops run once with the induction variable at its lower bound and carried values at their initial ones; of a branch
one side stays; wrappers, `scf.execute_region` and `enzyme.autodiff_region` vanish around their body.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from difftest.ir.tree import Operation, Value
from reducer.edits import Conflict, Draft, Pass, Snapshot
from reducer.passes.autodiff import primals
from reducer.trees import MODULES, group, is_function, terminator

_CONSTANT_MAP = re.compile(r"^affine_map<\(\) -> \((\d+)\)>$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Unwrap:
    """Put the body of region `region` in the place of `op`."""

    op: int
    region: int

    def apply(self, draft: Draft) -> None:
        """See `Edit.apply`."""
        op = draft.op(self.op)
        if op is None or self.region >= len(op.regions) or len(op.regions[self.region].blocks) != 1:
            return
        block = op.regions[self.region].blocks[0]
        end = terminator(op, self.region)
        for argument, value in zip(block.arguments, _argument_values(draft, op, block.arguments), strict=True):
            draft.replace(argument, value)
        for result, value in zip(op.results, _result_values(draft, op, end), strict=True):
            draft.replace(result, value)
        draft.splice(op, block.ops if end is None else block.ops[:-1])


def propose(snapshot: Snapshot) -> list[Unwrap]:
    """Every single-block region of everything but modules and functions, outermost first."""
    return [
        Unwrap(op=number, region=region)
        for number, op in enumerate(snapshot.ops)
        if op.name not in MODULES and not is_function(op)
        for region, body in enumerate(op.regions)
        if len(body.blocks) == 1 and body.blocks[0].ops
    ]


def _argument_values(draft: Draft, op: Operation, arguments: list[Value]) -> list[Value]:
    """What the block arguments of `op` are on the one run that stays."""
    if not arguments:
        return []
    if op.name == "scf.for":
        known = [op.operands[0], *op.operands[3:]]
    elif op.name == "scf.parallel":
        known = group(op, 0)
    elif op.name == "affine.for":
        known = [_lower_bound(draft, op), *group(op, 2)]
    elif op.name == "gpu.launch":
        known = [draft.stand_in(op, "index") for _ in range(6)] + [v for n in range(1, 7) for v in group(op, n)]
    elif op.name == "enzyme.autodiff_region":
        known = [op.operands[p] for p in primals(op) if p < len(op.operands)]
    else:
        known = [] if any(v.type == "index" for v in arguments) else list(op.operands)
    if [v.type for v in known] == [v.type for v in arguments]:
        return known
    return [draft.stand_in(op, v.type) for v in arguments]


def _result_values(draft: Draft, op: Operation, end: Operation | None) -> list[Value]:
    if op.name == "scf.parallel":
        known = group(op, 3)
    else:
        known = [] if end is None else end.operands[1:] if end.name == "scf.condition" else end.operands
    if [v.type for v in known] == [v.type for v in op.results]:
        return known
    return [_zero_or_itself(draft, op, result) for result in op.results]


def _zero_or_itself(draft: Draft, op: Operation, result: Value) -> Value:
    """A zero where the type has one; otherwise the result stays, and its users go with it."""
    try:
        return draft.stand_in(op, result.type)
    except Conflict:
        return result


def _lower_bound(draft: Draft, op: Operation) -> Value:
    matched = _CONSTANT_MAP.match(op.get("lowerBoundMap") or "")
    value = draft.constant(op, "index", int(matched.group(1)) if matched else 0)
    if value is None:
        raise Conflict
    return value


PASSES = (Pass(name="unwrap", propose=propose),)

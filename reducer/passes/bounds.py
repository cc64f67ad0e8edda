"""Loop bounds toward `0 to 1 step 1`, else `0 to 2 step 1`, else each bound alone."""

from __future__ import annotations

from dataclasses import dataclass

from difftest.ir.tree import Operation
from reducer.edits import Draft, Pass, Snapshot
from reducer.trees import constant_value, drop_operands, group, segments, set_property, split_list

LOWER, UPPER, STEP = 0, 1, 2
_AFFINE_MAPS = ("lowerBoundsMap", "upperBoundsMap")
# The settings tried for one dimension, most wanted first; each maps a bound to its constant.
_SETTINGS = (
    ((LOWER, 0), (UPPER, 1), (STEP, 1)),
    ((LOWER, 0), (UPPER, 2), (STEP, 1)),
    ((LOWER, 0),),
    ((STEP, 1),),
    ((UPPER, 1),),
    ((UPPER, 2),),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SetBounds:
    """Make bounds of dimension `dimension` of the `scf.for` or `scf.parallel` `op` constants."""

    op: int
    dimension: int
    setting: tuple[tuple[int, int], ...]

    def apply(self, draft: Draft) -> None:
        """See `Edit.apply`."""
        op = draft.op(self.op)
        if op is None or self.dimension >= _rank(op):
            return
        for bound, number in self.setting:
            position = bound * _rank(op) + self.dimension
            constant = draft.constant(op, op.operands[position].type, number)
            if constant is not None:
                op.operands[position] = constant


@dataclass(frozen=True, slots=True, kw_only=True)
class SetAffineBounds:
    """Make bounds of the `affine.for` `op` constants."""

    op: int
    setting: tuple[tuple[int, int], ...]

    def apply(self, draft: Draft) -> None:
        """See `Edit.apply`."""
        op = draft.op(self.op)
        groups = None if op is None else segments(op)
        if op is None or groups is None:
            return
        for bound, number in self.setting:
            if bound == STEP:
                set_property(op, "step", f"{number} : index")
                continue
            set_property(op, ("lowerBoundMap", "upperBoundMap")[bound], f"affine_map<() -> ({number})>")
            sizes = segments(op) or groups
            start = sum(sizes[:bound])
            drop_operands(op, set(range(start, start + sizes[bound])))


@dataclass(frozen=True, slots=True, kw_only=True)
class SetAffineParallelBound:
    """Make bound `bound` of dimension `dimension` of the `affine.parallel` `op` the constant `number`."""

    op: int
    bound: int
    dimension: int
    number: int

    def apply(self, draft: Draft) -> None:
        """See `Edit.apply`. Operands stay: a map may leave dimensions unused."""
        op = draft.op(self.op)
        texts = [] if op is None else _affine_list(op, self.bound)
        if op is None or self.dimension >= len(texts):
            return
        texts[self.dimension] = str(self.number)
        if self.bound == STEP:
            set_property(op, "steps", f"[{', '.join(texts)}]")
            return
        name = _AFFINE_MAPS[self.bound]
        head = (op.get(name) or "").rpartition(" -> (")[0]
        set_property(op, name, f"{head} -> ({', '.join(texts)})>")


def propose(snapshot: Snapshot) -> list[SetBounds | SetAffineBounds | SetAffineParallelBound]:
    """Every setting of every loop dimension that changes it, outer loops first."""
    edits: list[SetBounds | SetAffineBounds | SetAffineParallelBound] = []
    for number, op in enumerate(snapshot.ops):
        if op.name == "affine.parallel":
            edits.extend(_affine_parallel(number, op))
            continue
        if op.name == "affine.for" and segments(op) is not None:
            now = _affine_bounds(op)
            edits.extend(SetAffineBounds(op=number, setting=s) for s in _SETTINGS if _changes(s, now))
            continue
        rank = _rank(op)
        for dimension in range(rank):
            bounds = [constant_value(op.operands[b * rank + dimension]) for b in (LOWER, UPPER, STEP)]
            settings = [s for s in _SETTINGS if _changes(s, bounds)]
            edits.extend(SetBounds(op=number, dimension=dimension, setting=s) for s in settings)
    return edits


def _affine_parallel(number: int, op: Operation) -> list[SetAffineParallelBound]:
    """Lower bounds 0, steps 1, upper bounds 1, else 2, one by one."""
    edits: list[SetAffineParallelBound] = []
    for bound, wanted in ((LOWER, (0,)), (STEP, (1,)), (UPPER, (1, 2))):
        for dimension, text in enumerate(_affine_list(op, bound)):
            values = [v for v in wanted if not text.isdigit() or int(text) > v]
            edits.extend(SetAffineParallelBound(op=number, bound=bound, dimension=dimension, number=v) for v in values)
    return edits


def _affine_list(op: Operation, bound: int) -> list[str]:
    """The results of a bounds map of an `affine.parallel`, or its steps, as texts."""
    if bound == STEP:
        return split_list((op.get("steps") or "[]")[1:-1])
    results = (op.get(_AFFINE_MAPS[bound]) or "").rpartition(" -> (")[2]
    return split_list(results.removesuffix(")>"))


def _rank(op: Operation) -> int:
    if op.name == "scf.for" and len(op.operands) >= 3:
        return 1
    return len(group(op, 0)) if op.name == "scf.parallel" else 0


def _affine_bounds(op: Operation) -> list[int | None]:
    texts = (op.get("lowerBoundMap"), op.get("upperBoundMap"), op.get("step"))
    cleaned = [(t or "").removeprefix("affine_map<() -> (").removesuffix(")>").partition(" :")[0] for t in texts]
    return [int(t) if t.isdigit() else None for t in cleaned]


def _changes(setting: tuple[tuple[int, int], ...], now: list[int | None]) -> bool:
    """Whether a setting changes something and never makes a known bound larger (2 does not follow 1)."""
    different = [(now[bound], value) for bound, value in setting if now[bound] != value]
    return bool(different) and all(old is None or old < 0 or old > value for old, value in different)


PASSES = (Pass(name="bounds", propose=propose),)

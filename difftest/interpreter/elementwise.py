"""Runs an `ElementwiseRule` on the lanes of a frame: the fast path on plain data, and the path that carries tags."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from difftest.interpreter.faults import first_lane, stop
from difftest.interpreter.frames import sink
from difftest.interpreter.rules import ElementwiseRule
from difftest.interpreter.values import Tagged, any_true, lane_of, select, tagged, where

if TYPE_CHECKING:
    from difftest.interpreter.core import Context
    from difftest.interpreter.frames import Frame, Step
    from difftest.ir.tree import Operation

ndarray: Any = np.ndarray
SELECTS = frozenset({"arith.select", "llvm.select"})
# Ops whose result shows the sign of a zero operand: with a free sign the result is not determined.
_SHOWS_ZERO_SIGN = frozenset(
    {"arith.divf", "arith.bitcast", "arith.remf", "math.copysign", "math.atan2", "math.rsqrt", "math.powf",
     "llvm.fdiv", "llvm.bitcast", "llvm.intr.copysign"}
)  # fmt: skip


class ElementwiseTape(Protocol):
    """What a derivative's tape is told about element-wise ops."""

    def elementwise(
        self, frame: Frame, op: Operation, operands: tuple[Any, ...], results: tuple[Any, ...]
    ) -> tuple[Any, ...]:
        """The variables of the results (None where no derivative flows), given operands (some `Tagged` with `var`)."""
        ...


_CACHE: dict[tuple[Any, ...], ElementwiseRule] = {}
_CACHE_SIZE = 20_000


def cached_rule(factory: Callable[[Operation], ElementwiseRule], op: Operation) -> ElementwiseRule:
    """The rule of `op`: it depends on the op's name, types and attributes only, so equal ops share one."""
    if not op.operands:
        return factory(op)
    key = (op.name, *[v.type for v in op.operands], None, *[v.type for v in op.results], *op.properties.items())
    if op.attributes:
        key = (*key, None, *op.attributes.items())
    found = _CACHE.get(key)
    if found is None:
        if len(_CACHE) >= _CACHE_SIZE:
            _CACHE.clear()
        found = _CACHE[key] = factory(op)
    return found


def wrap(rule: ElementwiseRule, op: Operation, context: Context) -> Step:
    """The step that applies `rule`: results in the op's result slots."""
    slots = tuple([context.slot(v) for v in op.operands])
    results = tuple([context.slot(v) for v in op.results])
    checked = _Checked(rule, op, context)
    bare = rule.poison is None and rule.undefined is None and rule.promise is None and rule.bound is None
    if bare and not rule.zero_sign_free and len(results) == 1:
        return _bare(rule.compute, slots, results[0], checked)
    return checked.step(slots, results)


def evaluator(op: Operation, context: Context) -> Callable[[Frame, tuple[Any, ...]], Any]:
    """The result of `op`, a single-result element-wise op that need not be in the program, on given operands."""
    checked = _Checked(cached_rule(context.rules.elementwise[op.name], op), op, context)

    def apply(frame: Frame, operands: tuple[Any, ...]) -> Any:
        tags = any(o.__class__ is Tagged for o in operands)
        return (checked.tags if tags else checked.plain)(frame, operands)[0]

    return apply


def _bare(compute: Callable[..., Any], slots: tuple[int, ...], result: int, checked: _Checked) -> Step:
    """Steps for rules that always have a plain result on plain operands."""
    slow = checked.tags
    if len(slots) == 2:
        left, right = slots

        def two(frame: Frame) -> None:
            v = frame.v
            a, b = v[left], v[right]
            if a.__class__ is Tagged or b.__class__ is Tagged:
                v[result] = slow(frame, (a, b))[0]
            else:
                v[result] = compute(a, b)

        return two
    if len(slots) == 1:
        (only,) = slots

        def one(frame: Frame) -> None:
            v = frame.v
            a = v[only]
            v[result] = slow(frame, (a,))[0] if a.__class__ is Tagged else compute(a)

        return one

    def many(frame: Frame) -> None:
        v = frame.v
        operands = tuple([v[s] for s in slots])
        for a in operands:
            if a.__class__ is Tagged:
                v[result] = slow(frame, operands)[0]
                return
        v[result] = compute(*operands)

    return many


def select_object(op: Operation, context: Context) -> Step:
    """select between values that are not data: memrefs, pointers."""
    condition, yes, no = (context.slot(v) for v in op.operands)
    result = context.slot(op.results[0])

    def run(frame: Frame) -> None:
        v = frame.v
        chosen = sink(frame, op, v[condition], "the condition of a choice between memory")
        v[result] = select(chosen, v[yes], v[no], frame.n, None)

    return run


class _Checked:
    """A rule with the checks that its op's mode asks for."""

    def __init__(self, rule: ElementwiseRule, op: Operation, context: Context) -> None:
        self.rule = rule
        self.op = op
        self.source = context.machine.source
        self.machine = context.machine
        self.promise = rule.promise if self.source else None
        dtypes = context.dtypes
        kinds = [dtypes[context.slot(v)] for v in op.results]
        self.floats = tuple([d is not None and d.kind not in "biO" for d in kinds])

    def step(self, slots: tuple[int, ...], results: tuple[int, ...]) -> Step:
        """The general step."""
        single = results[0] if len(results) == 1 else None
        plain, slow = self.plain, self.tags

        def run(frame: Frame) -> None:
            v = frame.v
            operands = tuple([v[s] for s in slots])
            for a in operands:
                if a.__class__ is Tagged:
                    found = slow(frame, operands)
                    break
            else:
                found = plain(frame, operands)
            if single is not None:
                v[single] = found[0]
                return
            for slot, value in zip(results, found, strict=True):
                v[slot] = value

        return run

    def plain(self, frame: Frame, operands: tuple[Any, ...]) -> tuple[Any, ...]:
        """Results for operands without tags."""
        rule = self.rule
        poison: Any = None
        if rule.undefined is not None:
            wrong = rule.undefined(*operands)
            if wrong is not False and any_true(wrong):
                raise self._fault(frame, operands, wrong)
        if rule.poison is not None:
            wrong = rule.poison(*operands)
            if wrong is not False and any_true(wrong):
                if self.source:
                    raise self._fault(frame, operands, wrong)
                poison = wrong
        data = rule.compute(*operands)
        if self.promise is not None:
            wrong = self.promise(data, *operands)
            if wrong is not False and any_true(wrong):
                raise self._fault(frame, operands, wrong, name=rule.promise_rule)
        results = data if data.__class__ is tuple else (data,)
        bound = None if rule.bound is None else rule.bound(operands, (None,) * len(operands), data)
        if poison is None and bound is None and not rule.zero_sign_free:
            return results
        return tuple(
            tagged(r, poison=poison, bound=bound if f else None, zero=_zeros(r, f) if rule.zero_sign_free else None)
            for r, f in zip(results, self.floats, strict=True)
        )

    def tags(self, frame: Frame, operands: tuple[Any, ...]) -> tuple[Any, ...]:
        """Results for operands of which some carry tags."""
        rule = self.rule
        parts = tuple(o if o.__class__ is Tagged else Tagged(o) for o in operands)
        data = tuple(p.data for p in parts)
        poison = self._poison(frame, parts, data)
        computed = rule.compute(*data)
        if self.promise is not None:
            wrong = np.logical_and(self.promise(computed, *data), np.logical_not(_some(poison)))
            if any_true(wrong):
                raise self._fault(frame, data, wrong, name=rule.promise_rule)
        results: tuple[Any, ...] = computed if computed.__class__ is tuple else (computed,)
        bounds = tuple(p.bound for p in parts)
        bound = self._bound(data, bounds, computed)
        free = any(p.zero is not None for p in parts)
        if free and self.op.name in _SHOWS_ZERO_SIGN:
            lost = _any_of([p.zero for p in parts])
            bound = np.where(lost, np.inf, 0.0 if bound is None else bound)
        tape = self.machine.tape
        variables: tuple[Any, ...] = (None,) * len(results)
        if tape is not None and any(p.var is not None for p in parts):
            variables = tape.elementwise(frame, self.op, operands, results)
        return tuple(
            tagged(
                r,
                poison=poison,
                bound=bound if f or bound is None else np.where(np.greater(bound, 0), np.inf, 0.0),
                zero=_zeros(r, f) if free or rule.zero_sign_free else None,
                var=x,
            )
            for r, f, x in zip(results, self.floats, variables, strict=True)
        )

    def _poison(self, frame: Frame, parts: tuple[Tagged, ...], data: tuple[Any, ...]) -> Any:
        """Where the result is poison; undefined behaviour counts only where the operands are not."""
        rule, op = self.rule, self.op
        if op.name == "arith.select":
            return _select_poison(parts, data)
        poison = _any_of([p.poison for p in parts])
        sound = True if poison is None else np.logical_not(poison)
        if rule.undefined is not None:
            wrong = np.logical_and(rule.undefined(*data), sound)
            if any_true(wrong):
                raise self._fault(frame, data, wrong)
            divisor = parts[-1].poison
            if divisor is not None:
                raise stop(frame, op, "poison-sink", f"the divisor of {op.name} is poison", lane=first_lane(divisor))
        if rule.poison is not None:
            wrong = np.logical_and(rule.poison(*data), sound)
            if any_true(wrong):
                if self.source:
                    raise self._fault(frame, data, wrong)
                poison = wrong if poison is None else np.logical_or(poison, wrong)
        return poison

    def _bound(self, data: tuple[Any, ...], bounds: tuple[Any, ...], computed: Any) -> Any:
        rule = self.rule
        if rule.bound is not None:
            return rule.bound(data, bounds, computed)
        known = [b for b in bounds if b is not None]
        if not known:
            return None
        if rule.discrete is not None:
            return np.where(rule.discrete(data, bounds), np.inf, 0.0)
        if self.op.name == "arith.select":
            return _select_bound(data, bounds)
        return np.where(_any_of([np.greater(b, 0) for b in known]), np.inf, 0.0)

    def _fault(self, frame: Frame, operands: tuple[Any, ...], wrong: Any, *, name: str = "") -> Exception:
        lane = first_lane(wrong)
        rule = name or self.rule.broken(operands, lane) or "poison"
        shown = ", ".join(str(lane_of(o, lane)) for o in operands)
        return stop(frame, self.op, rule, f"{self.op.name} breaks `{rule}` on ({shown})", lane=lane)


def _zeros(result: Any, floating: object) -> Any:
    return (result == 0) if floating else None


def _some(mask: Any) -> Any:
    return False if mask is None else mask


def _any_of(masks: list[Any]) -> Any:
    found: Any = None
    for mask in masks:
        if mask is not None:
            found = mask if found is None else np.logical_or(found, mask)
    return found


def _select_poison(parts: tuple[Tagged, ...], data: tuple[Any, ...]) -> Any:
    """A poison condition gives poison; the arm that is not chosen may be poison (SEMANTICS §1)."""
    condition, yes, no = parts
    chosen = where(data[0], _some(yes.poison), _some(no.poison))
    return np.logical_or(chosen, _some(condition.poison))


def _select_bound(data: tuple[Any, ...], bounds: tuple[Any, ...]) -> Any:
    chosen = np.where(data[0], 0.0 if bounds[1] is None else bounds[1], 0.0 if bounds[2] is None else bounds[2])
    return chosen if bounds[0] is None else np.where(np.greater(bounds[0], 0), np.inf, chosen)

"""Serial control flow with carried values: scf.for, scf.if, affine.for, affine.if. SEMANTICS §4 and §5.

A float carried by a loop keeps an exact bound: it is either a sum, product, minimum or maximum whose growth over
the trip count is computed, or is brought back under its buffer contract in every iteration.
"""

from __future__ import annotations

from dataclasses import dataclass

from generators import budget
from generators.blocks import condition, drawn_type, fill, finish, flush, gather, names
from generators.context import Context, allowed_slope
from generators.floating import bound_of
from generators.safety import fit_float
from generators.scope import DIM, NONE, Mark, Value
from generators.types import CONTRACT, FLOAT_DIGITS, MAXIMUM, MINIMUM, TWO

_MAX_NESTING = 5
_STEPS = (1, 1, 1, 2, 3)
_LOWER = (0, 0, 0, 1, 2, -2, 3, -5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """A drawn range: constant ends, or an upper end that follows an outer iteration variable (`base` + `offset`)."""

    low: int
    high: int
    step: int
    trips: int
    base: Value | None = None
    offset: int = 0


def draw_bounds(c: Context, most: int, *, triangular: int = 10, empty: int = 2) -> Bounds:
    """A range of at most `most` iterations: zero and one trip, steps that do not divide it, negative starts."""
    step = c.source.choice(_STEPS)
    low = c.source.choice(_LOWER)
    trips = c.source.integer(1, max(1, most))
    if c.source.boolean(empty):
        trips = 0
    iterators = c.iterators
    if iterators and c.source.boolean(triangular):
        base = iterators[len(iterators) - 1 - c.source.recent(len(iterators))]
        offset = low + 1 - base.lo
        if base.hi + offset - low <= most and base.type == "index":
            base.used = True
            high = base.hi + offset
            return Bounds(low=low, high=high, step=step, trips=budget.trips(low, high, step), base=base, offset=offset)
    slack = c.source.integer(0, step - 1) if trips else 0
    return Bounds(low=low, high=low + trips * step - slack, step=step, trips=trips)


def upper_name(c: Context, bounds: Bounds) -> str:
    """The SSA name of the upper bound: a constant, an argument known by the inputs, or base + offset."""
    if bounds.base is None:
        return c.known_index(bounds.high)
    if bounds.offset == 0:
        return bounds.base.name
    base, offset = bounds.base, bounds.offset
    text = f'"arith.addi"({base.name}, {c.index(offset)}){TWO["index"]}'
    total = c.define("index", text, base.lo + offset, base.hi + offset)
    total.used = True
    return total.name


def iv_interval(bounds: Bounds) -> tuple[int, int]:
    """The values the induction variable may take (one value when the loop never runs)."""
    last = bounds.low + (max(bounds.trips, 1) - 1) * bounds.step
    return bounds.low, max(bounds.low, last)


@dataclass(slots=True, kw_only=True)
class Carried:
    """One loop-carried value: `hidden` ones are combined once at the end of the body, by an exact rule."""

    init: Value
    argument: Value
    hidden: bool


def draw_carried(c: Context) -> list[Carried]:
    """Zero to two loop-carried values with their initial values."""
    carried: list[Carried] = []
    active = c.active
    for _ in range(c.source.choice((1, 0, 1, 2) if active is None else (1, 1, 2))):
        type = drawn_type(c) if active is None or c.source.boolean(25) else active.element
        init = c.pick(type)
        init.used = True
        name = c.fresh()
        if type not in FLOAT_DIGITS:
            argument, hidden = Value(name, type, MINIMUM[type], MAXIMUM[type]), False
        else:
            fits = budget.fits(bound_of(init), CONTRACT[type])
            hidden = c.active is not None or not fits or c.source.boolean(70)
            argument = Value(name, type, 0, CONTRACT[type][1], CONTRACT[type][0])
        carried.append(Carried(init=init, argument=argument, hidden=hidden))
    return carried


def _product_growth(init: Value, item: Value, trips: int) -> tuple[budget.Bound, budget.Bound]:
    """Bound and slope of init * item^trips, by the product rule."""
    bound, slope = bound_of(init), (init.slope_frac, init.slope)
    for _ in range(trips):
        grown = budget.multiply(bound, (item.slope_frac, item.slope))
        slope = budget.add(grown, budget.multiply(bound_of(item), slope))
        bound = budget.multiply(bound, bound_of(item))
    return bound, slope if slope[1] else (0, 0)


def combine_carried(c: Context, carried: Carried, item: Value, trips: int) -> tuple[Value, Value]:
    """Emit the step `carried.argument` op `item`; returns (the value to yield, a model of the loop's result)."""
    argument, init, type = carried.argument, carried.init, item.type
    times = max(trips, 1)
    slope = budget.add((init.slope_frac, init.slope), budget.scale((item.slope_frac, item.slope), times))
    total = budget.add(bound_of(init), budget.scale(bound_of(item), times))
    either = budget.join(bound_of(init), bound_of(item))
    options = [("arith.addf", total, slope), ("arith.subf", total, slope)]
    if times <= 4:
        options.insert(c.source.integer(0, 2), ("arith.mulf", *_product_growth(init, item, times)))
    if c.active is None or c.profile.active.get("maximumf"):
        options.append(("arith.maximumf", either, slope))
    for op, bound, steep in options:
        if budget.is_exact(type, bound) and (not steep[1] or allowed_slope(type, steep)):
            item.used = argument.used = True
            left, right = argument.name, item.name
            if op == "arith.maximumf" and item.slope and not init.slope:
                left, right = right, left  # as in `floating.choose`: the first iteration's may be a constant
            step = Value(c.result(f'"{op}"({left}, {right}){TWO[type]}'), type, 0, bound[1], bound[0])
            final = Value("", type, 0, *reversed(budget.join(bound, bound_of(init))))
            final.slope_frac, final.slope = steep
            return step, final
    final = Value("", type, 0, init.hi, init.frac)
    final.slope_frac, final.slope = init.slope_frac, init.slope
    return argument, final


def close_carried(c: Context, mark: Mark, carried: list[Carried], trips: int) -> tuple[list[Value], list[Value]]:
    """End a loop body: the values to yield and models of the results. Without carried values: store instead."""
    if not carried:
        flush(c, mark)
    yields: list[Value] = []
    models: list[Value] = []
    for item in carried:
        type = item.init.type
        value = gather(c, mark, type)
        if item.hidden:
            step, final = combine_carried(c, item, value, trips)
            yields.append(step)
            models.append(final)
            continue
        if type in FLOAT_DIGITS:
            value = fit_float(c, value, CONTRACT[type])
            models.append(Value("", type, 0, CONTRACT[type][1], CONTRACT[type][0]))
        else:
            models.append(Value("", type, MINIMUM[type], MAXIMUM[type]))
        yields.append(value)
    return yields, models


def name_results(name: str, models: list[Value]) -> None:
    """Give the models of an operation's results their names."""
    for k, model in enumerate(models):
        model.name = f"{name}#{k}" if len(models) > 1 else name


def adopt_results(c: Context, name: str, models: list[Value]) -> None:
    """Make a region operation's results visible."""
    name_results(name, models)
    for model in models:
        c.adopt(model)


def head(c: Context, count: int) -> tuple[str, str]:
    """(name, `name = ` or `name:n = `) for an operation with `count` results."""
    if not count:
        return "", ""
    name = c.fresh()
    return name, f"{name} = " if count == 1 else f"{name}:{count} = "


def signature(operands: list[str], results: list[str]) -> str:
    """A function type text."""
    return f"({', '.join(operands)}) -> {results[0] if len(results) == 1 else '(' + ', '.join(results) + ')'}"


def can_nest(c: Context) -> bool:
    """Whether one more level of regions is wanted here."""
    return c.nesting < _MAX_NESTING and c.budget > c.ops


def loop_body(c: Context, iv: Value, carried: list[Carried], trips: int) -> tuple[list[Value], list[Value]]:
    """Fill the body of a serial loop whose block arguments are emitted; returns (yields, result models)."""
    mark, frees = c.enter(), len(c.deallocations)
    c.adopt(iv).used = True
    c.iterators.append(iv)
    c.serial *= max(trips, 1)
    c.nesting += 1
    for item in carried:
        if not item.hidden:
            c.adopt(item.argument).used = True
    fill(c, c.body_table(), c.source.integer(3, 10))
    yields, models = close_carried(c, mark, carried, trips)
    c.nesting -= 1
    c.serial //= max(trips, 1)
    c.iterators.pop()
    finish(c, mark, frees)
    return yields, models


def scf_for(c: Context) -> None:
    """Family: scf.for."""
    if not can_nest(c):
        return
    bounds = draw_bounds(c, 4 if c.active is not None else 5)
    carried = draw_carried(c)
    upper = upper_name(c, bounds)
    types = [item.init.type for item in carried]
    name, prefix = head(c, len(carried))
    operands = ", ".join([c.index(bounds.low), upper, c.index(bounds.step), *[i.init.name for i in carried]])
    iv = Value(c.fresh(), "index", *iv_interval(bounds))
    arguments = [f"{iv.name}: index", *[f"{i.argument.name}: {i.argument.type}" for i in carried]]
    c.open_region(f'{prefix}"scf.for"({operands}) ({{', arguments)
    yields, models = loop_body(c, iv, carried, bounds.trips)
    c.emit(f'"scf.yield"({names(yields)}) : ({", ".join(types)}) -> ()')
    c.close_region(signature(["index"] * 3 + types, types))
    adopt_results(c, name, models)
    c.constructs.add("scf.for")


def affine_for(c: Context) -> None:
    """Family: affine.for with constant bounds or an upper bound that follows a dim."""
    if not can_nest(c):
        return
    bounds = draw_bounds(c, 4 if c.active is not None else 5)
    if bounds.base is not None and bounds.base.affine == NONE:
        return
    carried = draw_carried(c)
    types = [item.init.type for item in carried]
    name, prefix = head(c, len(carried))
    iv = Value(c.fresh(), "index", *iv_interval(bounds))
    iv.affine = DIM
    arguments = [f"{iv.name}: index", *[f"{i.argument.name}: {i.argument.type}" for i in carried]]
    if bounds.base is None:
        upper, extra = f"affine_map<() -> ({bounds.high})>", []
    else:
        upper, extra = f"affine_map<(d0) -> (d0 + {bounds.offset})>", [bounds.base.name]
    segments = f"array<i32: 0, {len(extra)}, {len(carried)}>"
    properties = (
        f"lowerBoundMap = affine_map<() -> ({bounds.low})>, operandSegmentSizes = {segments}, "
        f"step = {bounds.step} : index, upperBoundMap = {upper}"
    )
    operands = ", ".join([*extra, *[i.init.name for i in carried]])
    c.open_region(f'{prefix}"affine.for"({operands}) <{{{properties}}}> ({{', arguments)
    yields, models = loop_body(c, iv, carried, bounds.trips)
    c.emit(f'"affine.yield"({names(yields)}) : ({", ".join(types)}) -> ()')
    c.close_region(signature(["index"] * len(extra) + types, types))
    adopt_results(c, name, models)
    c.constructs.add("affine.for")


def _branch(c: Context, types: list[str]) -> list[Value]:
    """Fill one branch; returns the values it yields."""
    mark, frees = c.enter(), len(c.deallocations)
    c.nesting += 1
    fill(c, c.body_table(), c.source.integer(2, 6))
    yields = [gather(c, mark, type) for type in types]
    if not types:
        flush(c, mark)
    c.nesting -= 1
    for value in yields:
        value.used = True
    finish(c, mark, frees)
    return yields


def _either(a: Value, b: Value) -> Value:
    """A model of a value that is one of two."""
    if a.type not in FLOAT_DIGITS:
        return Value("", a.type, min(a.lo, b.lo), max(a.hi, b.hi))
    frac, num = budget.join(bound_of(a), bound_of(b))
    model = Value("", a.type, 0, num, frac)
    if a.slope or b.slope:
        model.slope_frac, model.slope = budget.join((a.slope_frac, a.slope), (b.slope_frac, b.slope))
    return model


def _branches(c: Context, name: str, header: str, *, operands: list[str], types: list[str], terminator: str) -> None:
    """Emit an if: both branches when it has results, else perhaps only the first."""
    suffix = f" : ({', '.join(types)}) -> ()"
    c.open_region(header)
    then = _branch(c, types)
    c.emit(f'"{terminator}"({names(then)}){suffix}')
    c.next_region()
    if types or c.source.boolean(35):
        otherwise = _branch(c, types)
        c.emit(f'"{terminator}"({names(otherwise)}){suffix}')
        models = [_either(a, b) for a, b in zip(then, otherwise, strict=True)]
    else:
        models = []
    c.close_region(signature(operands, types))
    adopt_results(c, name, models)


def scf_if(c: Context) -> None:
    """Family: scf.if, with or without results."""
    if not can_nest(c):
        return
    flag = condition(c)
    types = [drawn_type(c) for _ in range(c.source.choice((1, 0, 1, 2)))]
    if c.active is not None:
        types = [c.active.element, *types[1:]]
    name, prefix = head(c, len(types))
    header = f'{prefix}"scf.if"({flag.name}) ({{'
    _branches(c, name, header, operands=["i1"], types=types, terminator="scf.yield")
    c.constructs.add("scf.if")


def affine_if(c: Context) -> None:
    """Family: affine.if over variables that are valid dims."""
    dims = [iv for iv in c.iterators if iv.affine == DIM]
    if not dims or not can_nest(c):
        return
    chosen = dims[-2:]
    types = [drawn_type(c) for _ in range(c.source.choice((0, 1, 0)))]
    name, prefix = head(c, len(types))
    arguments = ", ".join(f"d{k}" for k in range(len(chosen)))
    first = chosen[0]
    first.used = True
    middle = c.source.integer(first.lo, max(first.lo, first.hi))
    constraints = [f"d0 - {middle} >= 0" if middle >= 0 else f"d0 + {-middle} >= 0"]
    if len(chosen) == 2:
        constraints.append(
            c.source.choice(("d1 - d0 + 1 >= 0", "d0 + d1 - 2 >= 0", "d1 mod 2 == 0", "d1 * 2 - d0 >= 0"))
        )
    subset = ", ".join(constraints if c.source.boolean(50) else constraints[-1:])
    properties = f"condition = affine_set<({arguments}) : ({subset})>"
    operands = ", ".join(iv.name for iv in chosen)
    header = f'{prefix}"affine.if"({operands}) <{{{properties}}}> ({{'
    _branches(c, name, header, operands=["index"] * len(chosen), types=types, terminator="affine.yield")
    c.constructs.add("affine.if")


def affine_apply(c: Context) -> None:
    """Family: affine.apply on one dim or symbol, in range by its interval."""
    usable = [iv for iv in c.iterators if iv.affine == DIM]
    if not usable:
        return
    iv = usable[len(usable) - 1 - c.source.recent(len(usable))]
    a, b = c.source.integer(1, 4), c.source.integer(0, 5)
    shape = c.source.integer(0, 3)
    lo, hi = iv.lo * a + b, iv.hi * a + b
    text = f"d0 * {a} + {b}"
    if shape == 1:
        text, lo, hi = f"({text}) floordiv 3", lo // 3, hi // 3
    elif shape == 2:
        text, lo, hi = f"({text}) mod 4", 0, 3
    elif shape == 3:
        text, lo, hi = f"({text}) ceildiv 2", -(-lo // 2), -(-hi // 2)
    value = c.define(
        "index", f'"affine.apply"({iv.name}) <{{map = affine_map<(d0) -> ({text})>}}> : (index) -> index', lo, hi
    )
    value.affine = DIM


FAMILIES = {
    "for": scf_for,
    "if": scf_if,
    "affine-for": affine_for,
    "affine-if": affine_if,
    "affine-apply": affine_apply,
}

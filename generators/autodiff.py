"""Differentiated regions and functions, reverse mode. SEMANTICS §11.

What makes them valid: only ops with adjoint rules; scalars active, memory dup with a fresh shadow argument; active
values never reach captured (const) memory; under parallel frames outside the region a dup buffer is touched only
in the cells of its own iteration, so the shadow updates of two iterations never meet.
What keeps gradients exact: a bound on derivatives is carried with every active value (`Value.slope`), and reads
times stores of a region stay below `CONTRIBUTIONS`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from generators.blocks import fill, finish, flush, gather, names
from generators.calls import function_scope
from generators.context import CONTRIBUTIONS, SLOPE_FRACTION, SLOPE_LIMIT, Active, Context
from generators.control import head, name_results, signature
from generators.memory import load_from, output_buffer, store_to
from generators.scope import Buffer, Value, set_contents

_FLOATS = ("f64", "f32")
_OUTPUT = {"f32": (6, 1 << 16), "f64": (12, 1 << 34)}
"""The contract of a differentiated output made for a region: wider than the usual one, for products of several."""


def activity(name: str) -> str:
    """An activity attribute in house spelling."""
    return f"#enzyme<activity enzyme_{name}>"


@dataclass(slots=True, kw_only=True)
class Plan:
    """The arguments of one differentiated region: operand texts and types, block arguments, activities."""

    operands: list[str] = field(default_factory=list[str])
    types: list[str] = field(default_factory=list[str])
    arguments: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    activities: list[str] = field(default_factory=list[str])
    scalars: list[Value] = field(default_factory=list[Value])
    buffers: list[tuple[Buffer, str]] = field(default_factory=list[tuple[Buffer, str]])
    returns: list[str] = field(default_factory=list[str])
    element: str = "f64"
    hidden: list[Value] = field(default_factory=list[Value])

    def heads(self) -> list[str]:
        """The block arguments as `%name: type` texts."""
        return [f"{name}: {type}" for name, type in self.arguments]

    def add(self, c: Context, operands: list[str], type: str, kind: str) -> str:
        """Add one argument with its operand group; returns the block argument's name."""
        name = c.fresh()
        self.operands.extend(operands)
        self.types.extend([type] * len(operands))
        self.arguments.append((name, type))
        self.activities.append(activity(kind))
        return name


def _add_scalar(c: Context, plan: Plan) -> None:
    """An active scalar argument."""
    type = c.source.choice([t for t in _FLOATS if c.profile.types.get(t)] or ["f64"])
    primal = c.pick(type)
    if primal.hi >> primal.frac > 64 or primal.frac > 4:
        primal = c.drawn_constant(type)
    primal.used = True
    plan.hidden.append(primal)
    inside = Value(plan.add(c, [primal.name], type, "active"), type, 0, primal.hi, primal.frac)
    inside.slope = 1
    plan.scalars.append(inside)


def _add_const(c: Context, plan: Plan) -> None:
    """A const argument: a stack slot, a read-only buffer or a scalar."""
    slots = [b for b in c.buffers if b.slot]
    if slots:
        plan.add(c, [c.source.choice(slots).slot], "!llvm.ptr", "const")
        return
    type = c.source.choice(("f64", "i32", "f32"))
    value = c.pick(type)
    value.used = True
    plan.hidden.append(value)
    inside = Value(plan.add(c, [value.name], type, "const"), type, value.lo, value.hi, value.frac)
    plan.scalars.append(inside)


def shadow_of(c: Context, buffer: Buffer) -> str:
    """A new argument shaped like `buffer`, used for nothing else: its shadow."""
    dynamic = sum(1 << k for k, size in enumerate(_sizes(buffer.type, len(buffer.shape))) if size == "?")
    shadow = c.add_buffer(buffer.shape, buffer.element, dynamic=dynamic, writable=True)
    c.buffers.remove(shadow)
    return shadow.name


def _sizes(type: str, rank: int) -> list[str]:
    return type.removeprefix("memref<").split("x")[:rank]


def new_dup(c: Context, element: str, *, writable: bool) -> Buffer | None:
    """A new entry buffer to differentiate by, with a cell for every iteration here."""
    buffer = output_buffer(c, element)
    if buffer is None:
        return None
    buffer.writable = writable
    set_contents(buffer)
    if writable:
        buffer.bound = _OUTPUT[element]
    return buffer


def _add_dup(c: Context, plan: Plan, *, writable: bool) -> None:
    """A dup buffer and its shadow."""
    taken = {id(b) for b, _ in plan.buffers}
    known = [
        b
        for b in c.buffers
        if b.position >= 0
        and b.element == plan.element
        and b.writable == writable
        and id(b) not in taken
        and not c.frames
    ]
    buffer = c.source.choice(known) if known and c.source.boolean(40) else new_dup(c, plan.element, writable=writable)
    if buffer is None or buffer.bound[1] > 1 << 36:
        return
    name = plan.add(c, [buffer.name, shadow_of(c, buffer)], buffer.type, "dup")
    plan.buffers.append((buffer, name))


def draw_plan(c: Context) -> Plan:
    """Arguments and returns of a region for this place."""
    plan = Plan(element=c.source.choice([t for t in _FLOATS if c.profile.types.get(t)] or ["f64"]))
    if c.source.boolean(35):
        _add_const(c, plan)
    room = len(c.entry.arguments) <= 8 and c.serial == 1
    for _ in range(c.source.choice((0, 1, 0, 2))):
        _add_scalar(c, plan)
    if room and c.source.boolean(65 if c.kernel else 85):
        _add_dup(c, plan, writable=True)
        for _ in range(c.source.choice((1, 1, 2, 0))):
            _add_dup(c, plan, writable=False)
    if any(v.slope for v in plan.scalars) or len(plan.buffers) > 1:
        stored = any(b.writable for b, _ in plan.buffers)
        plan.returns = [c.source.choice(("active", "activenoneed"))] if c.source.boolean(40 if stored else 100) else []
    return plan


def region(c: Context) -> None:
    """Family: enzyme.autodiff_region, or (at host level) enzyme.autodiff of a private function."""
    if c.active is not None or c.functions_depth or c.budget <= c.ops:
        return
    plan = draw_plan(c)
    if not c.kernel and not c.frames and not plan.buffers and not any(v.slope for v in plan.scalars):
        _add_scalar(c, plan)
        plan.returns = ["active"]
    if not plan.arguments:
        _add_const(c, plan)
    return_type = plan.element
    seeds = [c.drawn_constant(return_type).name for _ in plan.returns]
    results = [return_type for kind in plan.returns if kind == "active"]
    gradients = [v.type for v in plan.scalars if v.slope]
    name, prefix = head(c, len(results) + len(gradients))
    types = signature([*plan.types, *[return_type] * len(seeds)], results + gradients)
    operands = f"({', '.join([*plan.operands, *seeds])})"
    if c.kernel or c.frames or not plan.buffers or c.source.boolean(65):
        c.open_region(f'{prefix}"enzyme.autodiff_region"{operands} <{{{_properties(plan, "")}}}> ({{', plan.heads())
        returned = differentiated(c, plan, return_type, "enzyme.yield")
        c.close_region(types)
        c.constructs.add("autodiff_region")
    else:
        function = f"primal{len(c.functions)}"
        returned = _function(c, plan, return_type, function)
        c.emit(f'{prefix}"enzyme.autodiff"{operands} <{{{_properties(plan, function)}}}> : {types}')
        c.constructs.add("autodiff")
    pairs = zip(returned, plan.returns, strict=True)
    models = [Value("", v.type, 0, v.hi, v.frac) for v, kind in pairs if kind == "active"]
    models.extend(gradient_model(type) for type in gradients)
    name_results(name, models)
    for model in models[: len(results)]:
        c.adopt(model)
    keep_gradients(c, models[len(results) :])


def _properties(plan: Plan, function: str) -> str:
    name = f"fn = @{function}, " if function else ""
    returns = ", ".join(activity(kind) for kind in plan.returns)
    flags = f"ret_activity = [{returns}], strong_zero = false, width = 1 : i64"
    return f"activity = [{', '.join(plan.activities)}], atomic_add = false, {name}{flags}"


def _function(c: Context, plan: Plan, return_type: str, name: str) -> list[Value]:
    """Emit the private function to differentiate; returns what it returns."""
    buffers = [buffer for buffer, _ in plan.buffers]
    with function_scope(c):
        c.buffers = buffers
        returned = differentiated(c, plan, return_type, "func.return")
        text = c.function(name, plan.arguments, [v.type for v in returned], ', sym_visibility = "private"')
    c.functions.append(text)
    return returned


def gradient_model(type: str) -> Value:
    """A model of the gradient of an active scalar: the loosest the slopes allow."""
    num = 16 * SLOPE_LIMIT[type] * CONTRIBUTIONS[type]
    return Value("", type, 0, num, SLOPE_FRACTION[type] + 2)


def keep_gradients(c: Context, gradients: list[Value]) -> None:
    """Store gradients as they are, to buffers with a contract of their own.

    They are used further only outside serial loops: there nothing emitted before can meet them.
    """
    for value in gradients:
        buffer = output_buffer(c, value.type)
        if buffer is not None:
            buffer.bound = (value.frac, value.hi)
            store_to(c, value, buffer)
        if c.serial == 1:
            c.loose_zeros = True
            c.adopt(value)
        elif buffer is not None:
            c.buffers.remove(buffer)


def _hide(c: Context, values: list[Value]) -> list[tuple[list[Value], int, Value]]:
    """Take values out of scope that the region gets as arguments; returns what puts them back.

    outline-enzyme-regions mixes up its operands when an argument is captured as well (all versions): one known
    finding, which would otherwise hide everything behind it.
    """
    taken: list[tuple[list[Value], int, Value]] = []
    for value in values:
        pool = c.pools[value.type]
        if value in pool:
            position = pool.index(value)
            del pool[position]
            taken.append((pool, position, value))
    return taken


def differentiated(c: Context, plan: Plan, return_type: str, terminator: str) -> list[Value]:
    """Fill the differentiated body and end it; returns what it yields."""
    hidden = _hide(c, plan.hidden)
    mark, frees = c.enter(), len(c.deallocations)
    outside = [(buffer, buffer.name) for buffer, _ in plan.buffers]
    for buffer, name in plan.buffers:
        buffer.name, buffer.dup = name, True
    for value in plan.scalars:
        c.adopt(value)
    c.active = Active(serial=c.serial, lanes=c.lanes, depth=len(c.frames), element=plan.element)
    c.active.stores = len(plan.returns)
    c.nesting += 1
    if c.source.boolean(55):
        c.run("parallel")
    if c.source.boolean(70):
        for buffer, _ in plan.buffers:
            if not buffer.writable or c.source.boolean(15):
                load_from(c, buffer)
        fill(c, c.tables.region, c.source.integer(3, 9))
    returned = [gather(c, mark, return_type) for _ in plan.returns]
    names(returned)
    flush(c, mark)
    c.nesting -= 1
    c.active = None
    for buffer, name in outside:
        buffer.name, buffer.dup = name, False
    for buffer in c.buffers:
        buffer.loaded = buffer.stored = False
        buffer.slope = buffer.slope_frac = 0
    finish(c, mark, frees)
    for pool, position, value in reversed(hidden):
        pool.insert(position, value)
    c.emit(f'"{terminator}"({names(returned)}) : ({", ".join(v.type for v in returned)}) -> ()')
    return returned


FAMILIES = {"region": region}

"""Parallel loops: scf.parallel and affine.parallel of rank 1 to 6, nested, with reductions. SEMANTICS §4, §5, §9."""

from __future__ import annotations

from dataclasses import dataclass

from generators import budget
from generators.blocks import drawn_type, fill, finish, flush, gather
from generators.context import Context
from generators.control import Bounds, adopt_results, can_nest, draw_bounds, head, iv_interval, signature, upper_name
from generators.floating import bound_of
from generators.scope import DIM, NONE, Buffer, Frame, Value
from generators.types import FLOAT_DIGITS, MAXIMUM, MINIMUM, TWO

_RANKS = (1, 2, 1, 3, 2, 1, 4, 3, 5, 6)
_INTEGER_KINDS = ("addi", "xori", "andi", "ori", "maxsi", "minsi", "muli", "maxui", "minui")
_AFFINE_KIND = {
    "addf": 0,
    "addi": 1,
    "andi": 2,
    "maximumf": 4,
    "minimumf": 8,
    "mulf": 12,
    "muli": 13,
    "ori": 14,
}
"""arith.AtomicRMWKind numbers that affine.parallel accepts on signless and float types (SEMANTICS §4)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Domain:
    """The drawn iteration space of one parallel construct."""

    bounds: list[Bounds]
    lanes: int


def draw_domain(c: Context, most_rank: int, *, dims_only: bool = False) -> Domain:
    """Rank and ranges, at most the profile's number of iterations together with the enclosing ones."""
    shaped = _shaped_domain(c) if c.active is not None else None
    if shaped is not None:
        return shaped
    rank = min(c.source.choice(_RANKS), most_rank)
    room = max(1, c.profile.elements // (c.lanes * c.serial))
    bounds: list[Bounds] = []
    lanes = 1
    for position in range(rank):
        most = min(8 if rank == 1 else 5 if rank == 2 else 3, max(1, room // lanes))
        triangular = 12 if position == 0 and c.frames else 0
        drawn = draw_bounds(c, most, triangular=triangular, empty=2 if rank == 1 else 1)
        if dims_only and drawn.base is not None and drawn.base.affine == NONE:
            drawn = draw_bounds(c, most, triangular=0)
        bounds.append(drawn)
        lanes *= max(1, drawn.trips)
    return Domain(bounds=bounds, lanes=lanes)


def _outputs(c: Context) -> list[Buffer]:
    """Differentiated buffers that a parallel construct opened here may write."""
    return [
        b
        for b in c.buffers
        if b.dup and b.writable and b.shape and b.claim is None and b.home == len(c.frames) and not b.shared
    ]


def _shaped_domain(c: Context) -> Domain | None:
    """Differentiated code: a space that fits a dup output, so that what is computed there can be stored."""
    found = _outputs(c)
    if not found:
        return None
    bounds: list[Bounds] = []
    lanes = 1
    for size in c.source.choice(found).shape:
        step, low = c.source.choice((1, 1, 1, 2, 3)), c.source.choice((0, 0, 0, 1, -2))
        high = low + size - c.source.choice((0, 0, 1) if size > 1 else (0,))
        bounds.append(Bounds(low=low, high=high, step=step, trips=budget.trips(low, high, step)))
        lanes *= bounds[-1].trips
    return Domain(bounds=bounds, lanes=lanes) if lanes * c.lanes * c.serial <= c.profile.elements else None


def ivs_of(c: Context, domain: Domain, *, affine: bool) -> list[Value]:
    """Fresh induction variables over the domain."""
    ivs: list[Value] = []
    for bounds in domain.bounds:
        iv = Value(c.fresh(), "index", *iv_interval(bounds))
        iv.affine = DIM if affine else NONE
        ivs.append(iv)
    return ivs


def open_scf(c: Context, domain: Domain, *, prefix: str = "", inits: list[Value] | None = None) -> list[Value]:
    """Emit the head of an scf.parallel; returns its induction variables."""
    uppers = [upper_name(c, b) for b in domain.bounds]
    ivs = ivs_of(c, domain, affine=False)
    lowers = [c.index(b.low) for b in domain.bounds]
    steps = [c.index(b.step) for b in domain.bounds]
    extra = [v.name for v in inits or []]
    rank = len(ivs)
    segments = f"operandSegmentSizes = array<i32: {rank}, {rank}, {rank}, {len(extra)}>"
    operands = ", ".join([*lowers, *uppers, *steps, *extra])
    c.open_region(f'{prefix}"scf.parallel"({operands}) <{{{segments}}}> ({{', [f"{iv.name}: index" for iv in ivs])
    return ivs


def enter_body(c: Context, ivs: list[Value], domain: Domain, *, affine: bool) -> Frame:
    """Make the induction variables visible and enter the frame."""
    for iv in ivs:
        c.adopt(iv).used = True
    c.iterators.extend(ivs)
    frame = Frame(ivs, affine=affine)
    c.push_frame(frame)
    c.lanes *= domain.lanes
    c.nesting += 1
    return frame


def leave_body(c: Context, ivs: list[Value], domain: Domain) -> None:
    """Undo `enter_body`; the iterations have joined."""
    c.nesting -= 1
    c.lanes //= domain.lanes
    c.pop_frame()
    del c.iterators[len(c.iterators) - len(ivs) :]


def _most_rank(c: Context) -> int:
    """Ranks shrink with depth; at least one variable must still find room in a store."""
    depth = len(c.frames)
    return (c.profile.rank, 3, 2)[min(depth, 2)]


def can_fork(c: Context) -> bool:
    """Whether one more parallel construct may open here."""
    limit = c.profile.depth + (1 if c.kernel else 0)
    return can_nest(c) and len(c.frames) < limit and c.lanes * c.serial * 2 <= c.profile.elements


def body_ops(c: Context) -> int:
    """How many operations the next body gets: a share of what is left."""
    left = max(4, c.budget - c.ops)
    return c.source.integer(max(3, left // 3), max(6, left * 3 // 4)) if not c.frames else c.source.integer(4, 14)


def _run_body(c: Context, ivs: list[Value], domain: Domain, *, affine: bool) -> None:
    mark, frees = c.enter(), len(c.deallocations)
    enter_body(c, ivs, domain, affine=affine)
    fill(c, c.body_table(), body_ops(c))
    flush(c, mark)
    leave_body(c, ivs, domain)
    finish(c, mark, frees)


def scf_parallel(c: Context) -> None:
    """Family: scf.parallel without reduction."""
    if not can_fork(c):
        return
    if c.active is not None and not _outputs(c) and (c.functions_depth or not (c.kernel or c.source.boolean(20))):
        return
    domain = draw_domain(c, _most_rank(c))
    ivs = open_scf(c, domain)
    _run_body(c, ivs, domain, affine=False)
    c.emit('"scf.reduce"() : () -> ()')
    c.close_region(signature(["index"] * 3 * len(ivs), []))
    c.constructs.add("scf.parallel")


def open_affine(c: Context, domain: Domain, kinds: list[int], prefix: str = "") -> tuple[list[Value], int]:
    """Emit the head of an affine.parallel; returns its induction variables and the number of operands."""
    ivs = ivs_of(c, domain, affine=True)
    rank = len(ivs)
    uppers: list[str] = []
    operands: list[str] = []
    for bounds in domain.bounds:
        if bounds.base is None:
            uppers.append(str(bounds.high))
        else:
            uppers.append(f"d{len(operands)} + {bounds.offset}")
            operands.append(bounds.base.name)
    dims = ", ".join(f"d{k}" for k in range(len(operands)))
    groups = f"dense<1> : tensor<{rank}xi32>"
    lowers = ", ".join(str(b.low) for b in domain.bounds)
    steps = ", ".join(str(b.step) for b in domain.bounds)
    properties = (
        f"lowerBoundsGroups = {groups}, lowerBoundsMap = affine_map<() -> ({lowers})>, "
        f"reductions = [{', '.join(str(k) for k in kinds)}], steps = [{steps}], "
        f"upperBoundsGroups = {groups}, upperBoundsMap = affine_map<({dims}) -> ({', '.join(uppers)})>"
    )
    header = f'{prefix}"affine.parallel"({", ".join(operands)}) <{{{properties}}}> ({{'
    c.open_region(header, [f"{iv.name}: index" for iv in ivs])
    return ivs, len(operands)


def affine_parallel(c: Context) -> None:
    """Family: affine.parallel without reduction."""
    if not can_fork(c):
        return
    domain = draw_domain(c, _most_rank(c), dims_only=True)
    ivs, operands = open_affine(c, domain, [])
    _run_body(c, ivs, domain, affine=True)
    c.emit('"affine.yield"() : () -> ()')
    c.close_region(signature(["index"] * operands, []))
    c.constructs.add("affine.parallel")


def float_kind(init: Value, item: Value, lanes: int, drawn: str) -> tuple[str, budget.Bound]:
    """A float reduction that is exact over `lanes` values: the drawn kind, or a maximum; and its bound."""
    if drawn == "addf":
        total = budget.add(bound_of(init), budget.scale(bound_of(item), lanes))
        if budget.is_exact(init.type, total):
            return "addf", total
    if drawn == "mulf" and lanes <= 4:
        total = bound_of(init)
        for _ in range(lanes):
            total = budget.multiply(total, budget.join(bound_of(item), (0, 1)))
        if budget.is_exact(init.type, total):
            return "mulf", total
    return ("minimumf" if drawn == "minimumf" else "maximumf"), budget.join(bound_of(init), bound_of(item))


def _reduced(c: Context, type: str, init: Value, item: Value, lanes: int) -> tuple[str, Value]:
    """The combiner and a model of the result."""
    if type in FLOAT_DIGITS:
        drawn = c.source.choice(("addf", "maximumf", "mulf", "minimumf", "addf"))
        kind, (frac, num) = float_kind(init, item, lanes, drawn)
        return kind, Value("", type, 0, num, frac)
    return c.source.choice(_INTEGER_KINDS), Value("", type, MINIMUM[type], MAXIMUM[type])


def reduction(c: Context) -> None:
    """Family: scf.parallel with one or two reductions from non-neutral initial values."""
    if not can_fork(c) or c.active is not None or c.kernel:
        return
    domain = draw_domain(c, 2)
    types = [drawn_type(c) for _ in range(c.source.choice((1, 1, 2)))]
    inits = [c.pick(type) for type in types]
    for value in inits:
        value.used = True
    name, prefix = head(c, len(types))
    ivs = open_scf(c, domain, prefix=prefix, inits=inits)
    mark, frees = c.enter(), len(c.deallocations)
    enter_body(c, ivs, domain, affine=False)
    fill(c, c.body_table(), c.source.integer(3, 10))
    items = [gather(c, mark, type) for type in types]
    for item in items:
        item.used = True
    leave_body(c, ivs, domain)
    finish(c, mark, frees)
    models = _combiners(c, types, inits, items, domain.lanes)
    c.close_region(signature(["index"] * 3 * len(ivs) + types, types))
    adopt_results(c, name, models)
    c.constructs.add("scf.reduce")


def _combiners(c: Context, types: list[str], inits: list[Value], items: list[Value], lanes: int) -> list[Value]:
    """Emit scf.reduce with one region per value."""
    models: list[Value] = []
    header = f'"scf.reduce"({", ".join(item.name for item in items)}) ({{'
    for k, (type, init, item) in enumerate(zip(types, inits, items, strict=True)):
        kind, model = _reduced(c, type, init, item, max(1, lanes))
        models.append(model)
        left, right = c.fresh(), c.fresh()
        arguments = [f"{left}: {type}", f"{right}: {type}"]
        if k:
            c.next_region(arguments)
        else:
            c.open_region(header, arguments)
        total = c.result(f'"arith.{kind}"({left}, {right}){TWO[type]}')
        c.emit(f'"scf.reduce.return"({total}) : ({type}) -> ()')
    c.close_region(signature(types, []))
    return models


def affine_reduction(c: Context) -> None:
    """Family: affine.parallel with a reduction (no initial value; the identity over zero trips)."""
    if not can_fork(c) or c.active is not None or c.kernel:
        return
    domain = draw_domain(c, 2, dims_only=True)
    type = drawn_type(c)
    if type in FLOAT_DIGITS:
        kind = c.source.choice(("addf", "maximumf", "minimumf"))
        if any(b.trips == 0 or b.base is not None for b in domain.bounds) and kind != "addf":
            kind = "addf"
    else:
        kind = c.source.choice(("addi", "andi", "ori", "muli"))
    name, prefix = head(c, 1)
    ivs, operands = open_affine(c, domain, [_AFFINE_KIND[kind]], prefix)
    mark, frees = c.enter(), len(c.deallocations)
    enter_body(c, ivs, domain, affine=True)
    fill(c, c.body_table(), c.source.integer(3, 8))
    item = gather(c, mark, type)
    if kind == "addf" and not budget.is_exact(type, budget.scale(bound_of(item), max(1, domain.lanes))):
        item = c.drawn_constant(type)
    item.used = True
    leave_body(c, ivs, domain)
    finish(c, mark, frees)
    c.emit(f'"affine.yield"({item.name}) : ({type}) -> ()')
    c.close_region(signature(["index"] * operands, [type]))
    if type in FLOAT_DIGITS:
        bound = budget.scale(bound_of(item), max(1, domain.lanes)) if kind == "addf" else bound_of(item)
        model = Value("", type, 0, bound[1], bound[0])
    else:
        model = Value("", type, MINIMUM[type], MAXIMUM[type])
    adopt_results(c, name, [model])
    c.constructs.add("affine.parallel-reduce")


FAMILIES = {
    "parallel": scf_parallel,
    "affine-parallel": affine_parallel,
    "reduction": reduction,
    "affine-reduction": affine_reduction,
}

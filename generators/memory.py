"""Loads, stores, local buffers, stack slots and dimensions. SEMANTICS §6.

A local buffer is filled right after it is made, so nothing reads it uninitialised; a heap buffer is freed at the
end of the block that made it.
"""

from __future__ import annotations

from generators.arith import integer
from generators.budget import join
from generators.cells import cells_of, claimed_indices, claimed_map, grouping, index_within, inner_ivs, map_within
from generators.context import CONTRIBUTIONS, SLOPE_FRACTION, Context
from generators.floating import floating
from generators.safety import fit_stored
from generators.scope import Buffer, Claim, Value, set_contents
from generators.types import BYTES, FLOAT_DIGITS, INDICES, INPUT_FRACTION, INPUT_INTEGER, INPUT_NUMERATOR, memref

_ENTRY_BUFFERS = 9
"""Most memref arguments of an entry function (shadows not counted)."""


def loaded(c: Context, buffer: Buffer, text: str) -> Value:
    """The value of a load of `buffer`, with what its cells may hold."""
    element = buffer.element
    # Inside a serial loop a later store may come round to this load.
    pristine = buffer.position >= 0 and not buffer.touched and c.serial == 1
    if element not in FLOAT_DIGITS:
        if pristine and element != "i1":
            return c.define(element, text, -INPUT_INTEGER, INPUT_INTEGER)
        return c.define(element, text, buffer.lo, buffer.hi)
    frac, num = (INPUT_FRACTION, INPUT_NUMERATOR) if pristine else buffer.bound
    value = c.define(element, text, 0, num, frac)
    if buffer.dup:
        value.slope_frac, value.slope = join((0, 1), (buffer.slope_frac, buffer.slope))
    return value


def load_text(buffer: Buffer, indices: list[str]) -> str:
    """A memref.load."""
    types = f", {INDICES[len(indices)]}" if indices else ""
    names = ", ".join([buffer.name, *indices])
    return f'"memref.load"({names}) : ({buffer.type}{types}) -> {buffer.element}'


def affine_load_text(buffer: Buffer, map: str, operands: list[str]) -> str:
    """An affine.load."""
    types = f", {INDICES[len(operands)]}" if operands else ""
    names = ", ".join([buffer.name, *operands])
    return f'"affine.load"({names}) <{{map = {map}}}> : ({buffer.type}{types}) -> {buffer.element}'


def store_at(c: Context, value: Value, buffer: Buffer, indices: list[str]) -> None:
    """Emit a memref.store."""
    value.used = buffer.touched = True
    types = f", {INDICES[len(indices)]}" if indices else ""
    names = ", ".join([value.name, buffer.name, *indices])
    c.emit(f'"memref.store"({names}) : ({buffer.element}, {buffer.type}{types}) -> ()')


def _may_load_active(c: Context, buffer: Buffer, *, own: bool) -> bool:
    """Differentiated code: the rules that keep gradients exact and race-free (see `generators.autodiff`)."""
    active = c.active
    if active is None or not buffer.dup:
        return True
    serial = c.serial // active.serial
    if serial > 1 and buffer.stored:
        return False
    # A lane's read reaches the stores of that lane only, and those are counted with their lanes.
    if (active.reads + serial) * max(1, active.stores) > CONTRIBUTIONS[buffer.element]:
        return False
    return own or buffer.home == active.depth


def load_from(c: Context, buffer: Buffer) -> Value | None:
    """Load a cell that may be loaded here, or None when the rules leave none."""
    free = len(c.frames) == buffer.home
    buffer.pending = 0
    if not free and buffer.claim is not None:
        return _load_own(c, buffer, buffer.claim)
    if not free and buffer.dup and buffer.writable and not c.source.boolean(15):
        # Reading it anywhere would rule out storing results to it in this nest.
        return None
    if not _may_load_active(c, buffer, own=free):
        claim = ensure_claim(c, buffer) if buffer.dup and not buffer.shared else None
        return _load_own(c, buffer, claim) if claim is not None else None
    if not free:
        buffer.shared = True
    value = None
    if buffer.affine and c.source.boolean(60):
        affine = map_within(c, buffer.shape)
        if affine is not None:
            value = loaded(c, buffer, affine_load_text(buffer, *affine))
    if value is None:
        value = loaded(c, buffer, load_text(buffer, [index_within(c, size) for size in buffer.shape]))
    _count_read(c, buffer)
    return value


def _load_own(c: Context, buffer: Buffer, claim: Claim) -> Value | None:
    own = cells_of(claim, c, buffer)
    if own is None or not _may_load_active(c, buffer, own=True):
        return None
    _count_read(c, buffer)
    affine = claimed_map(claim, own) if c.source.boolean(50) else None
    if affine is None:
        value = loaded(c, buffer, load_text(buffer, claimed_indices(c, claim, own)))
    else:
        value = loaded(c, buffer, affine_load_text(buffer, *affine))
    buffer.echo = value
    return value


def _count_read(c: Context, buffer: Buffer) -> None:
    buffer.loaded = True
    if c.active is not None and buffer.dup:
        c.active.reads += c.serial // c.active.serial


def loadable(c: Context, element: str) -> list[Buffer]:
    """Buffers of `element` that some rule lets this place read."""
    active = c.active is not None
    return [
        b
        for b in c.buffers
        if b.element == element and (not active or b.dup or not b.writable or (b.position < 0 and not b.stored))
    ]


def input_buffer(c: Context, element: str) -> Buffer | None:
    """A new read-only argument whose shape suits the iterations around here; None when there are enough."""
    if len(c.entry.arguments) >= _ENTRY_BUFFERS or c.functions_depth:
        return None
    rank = c.source.choice((1, 2, 1, 3, 2, 0)) if c.iterators else c.source.choice((1, 2, 1, 0))
    shape: list[int] = []
    cells = 1
    for k in range(rank):
        iterators = c.iterators
        iv = iterators[len(iterators) - 1 - k] if k < len(iterators) else None
        size = (iv.hi - min(iv.lo, 0) + 1) if iv is not None else c.source.integer(2, 5)
        size = max(1, min(size + c.source.choice((0, 0, 1, 2)), 64))
        if cells * size > 1024:
            break
        cells *= size
        shape.append(size)
    shape.reverse()
    return c.add_buffer(tuple(shape), element, dynamic=_dynamic(c, len(shape)), writable=False)


def _dynamic(c: Context, rank: int) -> int:
    if not rank or not c.source.boolean(c.profile.dynamic):
        return 0
    if rank > 1 and c.source.boolean(c.profile.inner):
        return c.source.integer(1, (1 << rank) - 1)
    return 1


def load(c: Context) -> None:
    """Family: load something, from a buffer in scope or a new argument."""
    if c.active is not None and c.source.boolean(75):
        load_typed(c, c.active.element)
    else:
        load_typed(c, c.source.weighted(c.tables.types))


def load_typed(c: Context, element: str) -> Value | None:
    """Load a value of `element`, or None when no buffer of the type may be read and no new one made."""
    if element == "index":
        element = "i32"
    candidates = loadable(c, element)
    if not candidates or (c.active is None and len(candidates) < 3 and c.source.boolean(25)):
        made = input_buffer(c, element) if c.active is None else None
        if made is not None:
            return load_from(c, made)
    for _ in range(2):
        if candidates:
            value = load_from(c, candidates[len(candidates) - 1 - c.source.recent(len(candidates))])
            if value is not None:
                return value
    return None


def storable(c: Context, element: str, *, active: bool) -> list[Buffer]:
    """Buffers this place may store an (active or inactive) value of `element` to, by their role."""
    found: list[Buffer] = []
    for b in c.buffers:
        if b.element != element or not b.writable or (b.shared and len(c.frames) > b.home):
            continue
        if c.active is not None and not _may_store(c, b, active=active):
            continue
        found.append(b)
    return found


def _may_store(c: Context, b: Buffer, *, active: bool) -> bool:
    """Differentiated code: active values go to dup buffers (or scratch made inside), and only once per loop."""
    region = c.active
    if region is None:
        return True
    if not b.dup:
        return not active
    if not active and not c.source.boolean(5):
        # Rare: 0.0.16 keeps the shadow of a cell that a constant overwrites, one finding that would hide others.
        return False
    serial = c.serial // region.serial
    if serial > 1 and b.loaded:
        return False
    stores = region.stores + serial * (c.lanes // region.lanes)
    return max(1, region.reads) * stores <= CONTRIBUTIONS[b.element]


def store_value(c: Context, value: Value) -> bool:
    """Store `value` to a cell of an observed (or local) buffer owned here. False when there is none."""
    element = value.type
    value = fit_stored(c, value) if c.active is None else value
    candidates = storable(c, element, active=value.slope > 0)
    if candidates and c.source.boolean(70):
        buffer = candidates[len(candidates) - 1 - c.source.recent(len(candidates))]
        if store_to(c, value, buffer):
            return True
    if c.active is None or not value.slope:
        made = output_buffer(c, element)
        if made is not None and store_to(c, value, made):
            return True
    return any(store_to(c, value, buffer) for buffer in reversed(candidates))


def store_to(c: Context, value: Value, buffer: Buffer) -> bool:
    """Store `value` to the cell of `buffer` owned here; False (nothing emitted) when the rules forbid it."""
    if buffer.element in FLOAT_DIGITS and c.active is not None and not _obeys(value, buffer):
        return False
    if len(c.frames) == buffer.home:
        store_at(c, value, buffer, [index_within(c, size) for size in buffer.shape])
    elif not _store_own(c, value, buffer):
        return False
    if c.active is not None:
        buffer.stored = True
        if buffer.dup:
            c.active.stores += (c.serial // c.active.serial) * (c.lanes // c.active.lanes)
            slope = join((buffer.slope_frac, buffer.slope), (value.slope_frac, value.slope))
            buffer.slope_frac, buffer.slope = slope
    return True


def _obeys(value: Value, buffer: Buffer) -> bool:
    frac, num = buffer.bound
    most = SLOPE_FRACTION.get(buffer.element, 0)
    return value.frac <= frac and value.hi << (frac - value.frac) <= num and value.slope_frac <= most


def ensure_claim(c: Context, buffer: Buffer) -> Claim | None:
    """The claim of the current frames on `buffer`, made if there is none yet; None when it cannot hold here."""
    current = c.frames[buffer.home :]
    claim = buffer.claim
    if claim is not None:
        return claim if claim.frames == current else None
    ivs = inner_ivs(c, buffer)
    groups = grouping(c, buffer, ivs)
    if groups is None:
        return None
    flips = c.source.integer(0, (1 << len(ivs)) - 1) if c.source.boolean(15) else 0
    buffer.claim = Claim(frames=current, groups=groups, flips=flips)
    return buffer.claim


def _store_own(c: Context, value: Value, buffer: Buffer) -> bool:
    redundant = buffer.pending == c.block or buffer.echo is value
    claim = None if redundant else ensure_claim(c, buffer)
    if claim is None:
        return False
    buffer.pending = c.block
    own = cells_of(claim, c, buffer)
    if own is None:
        return False
    affine = claimed_map(claim, own) if buffer.affine and c.source.boolean(70) else None
    if affine is None:
        store_at(c, value, buffer, claimed_indices(c, claim, own))
        return True
    map, operands = affine
    value.used = buffer.touched = True
    types = f", {INDICES[len(operands)]}" if operands else ""
    names = ", ".join([value.name, buffer.name, *operands])
    c.emit(f'"affine.store"({names}) <{{map = {map}}}> : ({buffer.element}, {buffer.type}{types}) -> ()')
    return True


def output_buffer(c: Context, element: str) -> Buffer | None:
    """A new written argument with a cell for every iteration vector here; None when there are enough."""
    if len(c.entry.arguments) >= _ENTRY_BUFFERS + 3 or c.functions_depth:
        return None
    extents = [iv.hi - iv.lo + 1 for frame in c.frames for iv in frame.ivs]
    if not extents:
        shape = c.source.choice(((4,), (8,), (3, 4), ()))
    elif len(extents) <= 4 and c.source.boolean(60):
        shape = tuple(extents)
    else:
        total = 1
        for extent in extents:
            total *= extent
        shape = (total + c.source.choice((0, 0, 3)),)
    return c.add_buffer(shape, element, dynamic=_dynamic(c, len(shape)), writable=True)


def update(c: Context) -> None:
    """Family: read-modify-write of an owned cell."""
    element = c.source.weighted(c.tables.types)
    if element == "index":
        element = "i64"
    for buffer in reversed(storable(c, element, active=c.active is not None)):
        if len(c.frames) > buffer.home and buffer.claim is None:
            continue
        value = load_from(c, buffer)
        if value is None:
            continue
        changed = floating(c, element) if element in FLOAT_DIGITS else integer(c, element)
        if changed.type == element:
            value.used = value.used or changed is value
            changed = fit_stored(c, changed) if c.active is None else changed
            store_to(c, changed, buffer)
        return


def local(c: Context) -> None:
    """Family: a small buffer of this iteration, filled at once, then one more target and source here."""
    element = c.source.weighted(c.tables.types)
    if element in {"index", "i1"} or c.active is not None:
        return
    shape = c.source.choice(((2,), (1,), (), (2,), (1, 2)))
    heap = not c.kernel and c.source.boolean(40)
    op = "memref.alloc" if heap else "memref.alloca"
    type = memref(shape, element)
    name = c.result(f'"{op}"() <{{operandSegmentSizes = array<i32: 0, 0>}}> : () -> {type}')
    buffer = Buffer(name=name, element=element, shape=shape, type=type, home=len(c.frames))
    set_contents(buffer)
    _fill(c, buffer)
    c.buffers.append(buffer)
    if heap:
        c.deallocations.append(f'"memref.dealloc"({name}) : ({type}) -> ()')


def cells(c: Context, buffer: Buffer) -> list[list[str]]:
    """The index names of every cell, row by row."""
    found: list[list[str]] = [[]]
    for size in buffer.shape:
        found = [[*before, c.index(k)] for before in found for k in range(size)]
    return found


def _fill(c: Context, buffer: Buffer) -> None:
    """Store something to every cell."""
    for indices in cells(c, buffer):
        store_at(c, fit_stored(c, c.pick(buffer.element)), buffer, indices)


def stack(c: Context) -> None:
    """Family: an llvm.alloca seen as a memref, as kernels compiled from C have it."""
    element = c.source.weighted(c.tables.types)
    if element not in BYTES or c.active is not None:
        return
    size = c.source.choice((1, 2, 1))
    if c.source.boolean(50):
        count, cell = c.llvm_constant(1), f"!llvm.array<{size} x {element}>"
    else:
        count, cell = c.llvm_constant(size), element
    slot = c.result(f'"llvm.alloca"({count}) <{{elem_type = {cell}}}> : (i64) -> !llvm.ptr')
    type = memref((None,), element)
    name = c.result(f'"enzymexla.pointer2memref"({slot}) : (!llvm.ptr) -> {type}')
    buffer = Buffer(name=name, element=element, shape=(size,), type=type, home=len(c.frames), slot=slot)
    set_contents(buffer)
    _fill(c, buffer)
    c.buffers.append(buffer)


def dimension(c: Context) -> None:
    """Family: memref.dim of a dynamic argument, a value known by the inputs."""
    dynamic = [b for b in c.buffers if "?" in b.type and b.position >= 0]
    if not dynamic or c.active is not None:
        return
    buffer = c.source.choice(dynamic)
    axis = c.source.integer(0, len(buffer.shape) - 1)
    size = buffer.shape[axis]
    c.define("index", f'"memref.dim"({buffer.name}, {c.index(axis)}) : ({buffer.type}, index) -> index', size, size)


FAMILIES = {
    "load": load,
    "update": update,
    "local": local,
    "stack": stack,
    "dimension": dimension,
}

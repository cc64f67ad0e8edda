"""Host programs of several nests: the second documented case as a family.

Two producers (small matrix products) write two buffers, a consumer combines them; the buffers are arguments or
heap allocations made between the nests, the second producer is independent or reads the first one's result.
"""

from __future__ import annotations

from generators import budget
from generators.context import Context
from generators.control import signature
from generators.floating import add, bound_of
from generators.memory import affine_load_text
from generators.scope import DIM, Buffer, Value
from generators.types import FLOAT_DIGITS, TWO, memref

_PAIR = "affine_map<(d0, d1) -> (d0, d1)>"


def _matrix(c: Context, element: str, rows: int, columns: int) -> Buffer:
    return c.add_buffer((rows, columns), element, dynamic=0, writable=False)


def _result(c: Context, element: str, size: int, bound: budget.Bound, *, heap: bool) -> Buffer:
    """A buffer for a producer: allocated here, or an argument."""
    if not heap:
        buffer = c.add_buffer((size, size), element, dynamic=0, writable=True)
    else:
        type = memref((size, size), element)
        name = c.result(f'"memref.alloc"() <{{operandSegmentSizes = array<i32: 0, 0>}}> : () -> {type}')
        buffer = Buffer(name=name, element=element, shape=(size, size), type=type)
        c.deallocations.append(f'"memref.dealloc"({name}) : ({type}) -> ()')
        c.buffers.append(buffer)
    buffer.bound = bound
    buffer.touched = True
    return buffer


def _open(c: Context, size: int, *, affine: bool) -> tuple[Value, Value]:
    """A size x size parallel nest of one construct."""
    i, j = Value(c.fresh(), "index", 0, size - 1), Value(c.fresh(), "index", 0, size - 1)
    arguments = [f"{i.name}: index", f"{j.name}: index"]
    if affine:
        i.affine = j.affine = DIM
        groups = "dense<1> : tensor<2xi32>"
        properties = (
            f"lowerBoundsGroups = {groups}, lowerBoundsMap = affine_map<() -> (0, 0)>, reductions = [], "
            f"steps = [1, 1], upperBoundsGroups = {groups}, upperBoundsMap = affine_map<() -> ({size}, {size})>"
        )
        c.open_region(f'"affine.parallel"() <{{{properties}}}> ({{', arguments)
    else:
        zero, one, top = c.index(0), c.index(1), c.known_index(size)
        operands = ", ".join([zero, zero, top, top, one, one])
        c.open_region(f'"scf.parallel"({operands}) <{{operandSegmentSizes = array<i32: 2, 2, 2, 0>}}> ({{', arguments)
    return i, j


def _close(c: Context, *, affine: bool) -> None:
    c.emit('"affine.yield"() : () -> ()' if affine else '"scf.reduce"() : () -> ()')
    c.close_region(signature([] if affine else ["index"] * 6, []))


def _load(c: Context, buffer: Buffer, i: str, j: str, *, affine: bool) -> str:
    if affine:
        return c.result(affine_load_text(buffer, _PAIR, [i, j]))
    return c.result(f'"memref.load"({buffer.name}, {i}, {j}) : ({buffer.type}, index, index) -> {buffer.element}')


def _store(c: Context, value: str, buffer: Buffer, i: str, j: str, *, affine: bool) -> None:
    op, properties = ("affine.store", f" <{{map = {_PAIR}}}>") if affine else ("memref.store", "")
    types = f"({buffer.element}, {buffer.type}, index, index) -> ()"
    c.emit(f'"{op}"({value}, {buffer.name}, {i}, {j}){properties} : {types}')


def _product(c: Context, left: Buffer, right: Buffer, out: Buffer, *, affine: bool) -> None:
    """out = left * right: a parallel nest over rows and columns around a serial sum."""
    size, inner, element = out.shape[0], left.shape[1], out.element
    i, j = _open(c, size, affine=affine)
    zero = c.float_constant(element, 0) if element in FLOAT_DIGITS else c.constant(element, "0")
    total, k, carried = c.fresh(), c.fresh(), c.fresh()
    body = [f"{k}: index", f"{carried}: {element}"]
    if affine:
        properties = (
            "lowerBoundMap = affine_map<() -> (0)>, operandSegmentSizes = array<i32: 0, 0, 1>, "
            f"step = 1 : index, upperBoundMap = affine_map<() -> ({inner})>"
        )
        c.open_region(f'{total} = "affine.for"({zero}) <{{{properties}}}> ({{', body)
    else:
        operands = ", ".join([c.index(0), c.index(inner), c.index(1), zero])
        c.open_region(f'{total} = "scf.for"({operands}) ({{', body)
    a, b = _load(c, left, i.name, k, affine=affine), _load(c, right, k, j.name, affine=affine)
    multiply, plus = ("mulf", "addf") if element in FLOAT_DIGITS else ("muli", "addi")
    product = c.result(f'"arith.{multiply}"({a}, {b}){TWO[element]}')
    summed = c.result(f'"arith.{plus}"({carried}, {product}){TWO[element]}')
    c.emit(f'"{"affine" if affine else "scf"}.yield"({summed}) : ({element}) -> ()')
    c.close_region(signature([element] if affine else ["index"] * 3 + [element], [element]))
    _store(c, total, out, i.name, j.name, affine=affine)
    _close(c, affine=affine)


def _combine(c: Context, first: Buffer, second: Buffer, *, affine: bool) -> None:
    """result = first op second, element by element."""
    element, size = first.element, first.shape[0]
    out = c.add_buffer((size, size), element, dynamic=0, writable=True)
    out.touched = True
    i, j = _open(c, size, affine=affine)
    mark = c.enter()
    a = _load(c, first, i.name, j.name, affine=affine)
    b = _load(c, second, j.name if c.source.boolean(20) else i.name, j.name, affine=affine)
    if element in FLOAT_DIGITS:
        x, y = (Value(name, element, 0, buffer.bound[1], buffer.bound[0]) for name, buffer in ((a, first), (b, second)))
        value = add(c, x, y)
        out.bound = bound_of(value) if value is not None else first.bound
        name = a if value is None else value.name
    else:
        name = c.result(f'"arith.xori"({a}, {b}){TWO[element]}')
    c.leave(mark)
    _store(c, name, out, i.name, j.name, affine=affine)
    _close(c, affine=affine)


def launch_family(c: Context) -> None:
    """Family: two producers and a consumer."""
    if len(c.entry.arguments) > 4 or c.frames or c.nesting:
        return
    element = c.source.choice(("f64", "f32", "i32", "f64"))
    size, inner = c.source.integer(2, 4), c.source.integer(1, 4)
    affine = c.source.boolean(65)
    heap = c.source.boolean(50)
    bound = (4, inner * 256)
    first = _result(c, element, size, bound, heap=heap)
    _product(c, _matrix(c, element, size, inner), _matrix(c, element, inner, size), first, affine=affine)
    if c.source.boolean(70):
        left, bound = _matrix(c, element, size, inner), (4, inner * 256)
    else:
        left, bound = first, (6, first.bound[1] * size * 16)
    second = _result(c, element, size, bound, heap=heap)
    _product(c, left, _matrix(c, element, left.shape[1], size), second, affine=affine)
    _combine(c, first, second, affine=affine)
    c.constructs.add("launch-family")


FAMILIES = {"launch-family": launch_family}

"""What the entry function's top level is made of beside kernels: serial loops and branches around nests, calls."""

from __future__ import annotations

from generators.blocks import condition, finish, flush
from generators.context import Context
from generators.control import FAMILIES as CONTROL
from generators.control import draw_bounds, iv_interval, signature, upper_name
from generators.scope import Mark, Value

_NESTS = ("parallel", "affine-parallel", "parallel", "wrapper")


def _nests(c: Context, count: int) -> None:
    for _ in range(count):
        c.run(c.source.choice(_NESTS[:3] if c.profile.host.get("wrapper", 0) == 0 else _NESTS))


def host_loop(c: Context) -> None:
    """Family: a host loop around one or two parallel nests."""
    bounds = draw_bounds(c, 3, triangular=0)
    upper = upper_name(c, bounds)
    iv = Value(c.fresh(), "index", *iv_interval(bounds))
    operands = f"{c.index(bounds.low)}, {upper}, {c.index(bounds.step)}"
    c.open_region(f'"scf.for"({operands}) ({{', [f"{iv.name}: index"])
    mark, frees = c.enter(), len(c.deallocations)
    c.adopt(iv).used = True
    c.iterators.append(iv)
    c.serial *= max(1, bounds.trips)
    c.nesting += 1
    _nests(c, c.source.integer(1, 2))
    c.nesting -= 1
    c.serial //= max(1, bounds.trips)
    c.iterators.pop()
    flush_if_needed(c, mark)
    finish(c, mark, frees)
    c.emit('"scf.yield"() : () -> ()')
    c.close_region(signature(["index"] * 3, []))
    c.constructs.add("host-loop")


def flush_if_needed(c: Context, mark: Mark) -> None:
    """Store leftovers of a host block, if there are any."""
    if any(v.type != "index" for v in c.unused_since(mark)):
        flush(c, mark)


def _host_condition(c: Context) -> tuple[str, int]:
    """A condition the whole host shares, and the branch it takes: known from the inputs, or 0 when data decides."""
    if c.source.boolean(35):
        return condition(c).name, 0
    left, right = c.source.integer(1, 6), c.source.integer(0, 6)
    names = f"{c.known_index(left)}, {c.index(right)}"
    text = f'"arith.cmpi"({names}) <{{predicate = 4 : i64}}> : (index, index) -> i1'
    return c.result(text), 0 if left > right else 1


def host_if(c: Context) -> None:
    """Family: a branch around a parallel nest, which mostly stands on the side that the inputs take."""
    flag, taken = _host_condition(c)
    c.open_region(f'"scf.if"({flag}) ({{')
    for branch in range(2):
        mark, frees = c.enter(), len(c.deallocations)
        c.nesting += 1
        if branch == taken or c.source.boolean(10):
            _nests(c, 1)
            flush_if_needed(c, mark)
        c.nesting -= 1
        finish(c, mark, frees)
        c.emit('"scf.yield"() : () -> ()')
        if not branch:
            c.next_region()
    c.close_region(signature(["i1"], []))
    c.constructs.add("host-if")


def serial_nest(c: Context) -> None:
    """Family: serial code at host level: a loop or a branch with carried values."""
    CONTROL[c.source.choice(("for", "affine-for", "for", "if"))](c)


FAMILIES = {"host-loop": host_loop, "host-if": host_if, "serial-nest": serial_nest}

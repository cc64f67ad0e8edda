"""Kernels: enzymexla.gpu_wrapper around grid and block parallels. SEMANTICS §10, PIPELINES §1.

The grid parallel holds exactly one block parallel; canonicalisation merges them, which is where the first
documented case starts.
"""

from __future__ import annotations

from generators.blocks import fill, finish, flush
from generators.context import Context
from generators.control import Bounds, signature
from generators.parallel import Domain, enter_body, leave_body, open_scf
from generators.source import Weighted

_RANKS = ((3, 3), (1, 1), (3, 3), (2, 2), (1, 2), (2, 1))
_GRID = (2, 1, 3, 4)
_BLOCK = (4, 2, 3, 8, 1, 5)
_BETWEEN: Weighted[str] = Weighted([("scalar", 5), ("load", 3)])


def _sizes(c: Context, rank: int, first: tuple[int, ...]) -> list[int]:
    """Sizes of one level: the trailing dimensions are mostly 1."""
    sizes = [c.source.choice(first)]
    sizes.extend(c.source.choice((1, 1, 1, 2)) for _ in range(rank - 1))
    return sizes


def _domain(sizes: list[int]) -> Domain:
    lanes = 1
    for size in sizes:
        lanes *= size
    return Domain(bounds=[Bounds(low=0, high=size, step=1, trips=size) for size in sizes], lanes=lanes)


def wrapper(c: Context) -> None:
    """Family: one kernel."""
    if c.kernel or c.active is not None or c.frames or c.functions_depth:
        return
    grid_rank, block_rank = c.source.choice(_RANKS)
    grid, block = _domain(_sizes(c, grid_rank, _GRID)), _domain(_sizes(c, block_rank, _BLOCK))
    suggested = [*_padded(grid), *_padded(block)]
    operands = ", ".join([c.known_index(size) for size in suggested])
    name = c.fresh()
    c.open_region(f'{name} = "enzymexla.gpu_wrapper"({operands}) ({{')
    c.kernel = True
    _grid(c, grid, block)
    c.kernel = False
    c.emit('"enzymexla.polygeist_yield"() : () -> ()')
    c.close_region(signature(["index"] * 6, ["index"]))
    c.constructs.add("gpu_wrapper")


def _padded(domain: Domain) -> list[int]:
    return [b.high for b in domain.bounds] + [1] * (3 - len(domain.bounds))


def _grid(c: Context, grid: Domain, block: Domain) -> None:
    ivs = open_scf(c, grid)
    mark, frees = c.enter(), len(c.deallocations)
    enter_body(c, ivs, grid, affine=False)
    if c.source.boolean(15):
        fill(c, _BETWEEN, c.source.integer(1, 3))
    inner = open_scf(c, block)
    inner_mark, inner_frees = c.enter(), len(c.deallocations)
    enter_body(c, inner, block, affine=False)
    if c.source.boolean(c.profile.slots):
        for _ in range(c.source.integer(1, 2)):
            c.run("stack")
        if c.profile.thread.get("region"):
            c.run("region")
    fill(c, c.tables.thread, c.source.integer(8, max(10, min(40, c.budget - c.ops))))
    flush(c, inner_mark)
    leave_body(c, inner, block)
    finish(c, inner_mark, inner_frees)
    c.emit('"scf.reduce"() : () -> ()')
    c.close_region(signature(["index"] * 3 * len(inner), []))
    leave_body(c, ivs, grid)
    finish(c, mark, frees)
    c.emit('"scf.reduce"() : () -> ()')
    c.close_region(signature(["index"] * 3 * len(ivs), []))


FAMILIES = {"wrapper": wrapper}

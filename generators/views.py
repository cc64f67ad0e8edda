"""Views of read-only buffers: memref.cast and memref.subview. SEMANTICS §6.

Only buffers that nothing ever writes are viewed: two names of one written buffer belong to an alias profile
(SEMANTICS §4, aliasing), because affine passes are known to compare values only.
"""

from __future__ import annotations

from generators.context import Context
from generators.scope import Buffer


def _viewed(c: Context) -> Buffer | None:
    """A read-only argument of static shape, or None."""
    found = [b for b in c.buffers if b.position >= 0 and not b.writable and not b.dup and b.shape and "?" not in b.type]
    return c.source.choice(found) if found and c.active is None else None


def _add(c: Context, base: Buffer, name: str, type: str, shape: tuple[int, ...]) -> None:
    view = Buffer(name=name, element=base.element, shape=shape, type=type, home=base.home, writable=False)
    view.bound, view.lo, view.hi = base.bound, base.lo, base.hi
    view.read = True
    c.buffers.append(view)


def cast(c: Context) -> None:
    """Family: memref.cast to dynamic sizes."""
    base = _viewed(c)
    if base is None:
        return
    type = f"memref<{'?x' * len(base.shape)}{base.element}>"
    name = c.result(f'"memref.cast"({base.name}) : ({base.type}) -> {type}')
    _add(c, base, name, type, base.shape)
    c.constructs.add("memref.cast")


def _statics(values: list[int]) -> str:
    return f"array<i64: {', '.join(str(v) for v in values)}>"


def subview(c: Context) -> None:
    """Family: memref.subview with static offsets and sizes, sometimes every second element."""
    base = _viewed(c)
    if base is None:
        return
    strides = [1]
    for size in reversed(base.shape[1:]):
        strides.insert(0, strides[0] * size)
    offsets = [c.source.integer(0, size - 1) for size in base.shape]
    steps = [
        2 if size - start > 2 and c.source.boolean(25) else 1 for size, start in zip(base.shape, offsets, strict=True)
    ]
    sizes: list[int] = []
    for size, start, step in zip(base.shape, offsets, steps, strict=True):
        sizes.append(c.source.integer(1, (size - start + step - 1) // step))
    offset = sum(start * stride for start, stride in zip(offsets, strides, strict=True))
    laid = ", ".join(str(stride * step) for stride, step in zip(strides, steps, strict=True))
    layout = f"strided<[{laid}], offset: {offset}>" if offset else f"strided<[{laid}]>"
    type = f"memref<{''.join(f'{size}x' for size in sizes)}{base.element}, {layout}>"
    properties = (
        f"operandSegmentSizes = array<i32: 1, 0, 0, 0>, static_offsets = {_statics(offsets)}, "
        f"static_sizes = {_statics(sizes)}, static_strides = {_statics(steps)}"
    )
    name = c.result(f'"memref.subview"({base.name}) <{{{properties}}}> : ({base.type}) -> {type}')
    _add(c, base, name, type, tuple(sizes))
    c.constructs.add("memref.subview")


FAMILIES = {"cast-view": cast, "subview": subview}

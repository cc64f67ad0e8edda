"""How element types are stored: the width, dtype and view of a memory cell."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import ml_dtypes
import numpy as np

from difftest.interpreter import values
from difftest.ir.types import IntegerType, PointerType, Type

ndarray: Any = np.ndarray
DTYPES: tuple[Any, ...] = tuple(
    np.dtype(d) for d in ("?", "i1", "i2", "i4", "i8", "f2", ml_dtypes.bfloat16, "f4", "f8")
)
BITS: dict[int, tuple[Any, int]] = {
    1: (np.dtype("u1"), 0x01),
    2: (np.dtype("u2"), 0x0101),
    4: (np.dtype("u4"), 0x01010101),
}
BITS[8] = (np.dtype("u8"), 0x0101010101010101)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """How an element type is stored: `count` units of `width` bytes (count > 1 for vectors of `shape`).

    `code` picks the arena's view; `floating` tells floats; `pointer` cells hold addresses with provenance.
    """

    dtype: Any
    code: int
    width: int
    count: int = 1
    shape: tuple[int, ...] = ()
    bits: int = 0
    floating: bool = False
    pointer: bool = False

    @property
    def size(self) -> int:
        """Bytes of one element."""
        return self.width * self.count


@lru_cache(maxsize=4096)
def cell_of(kind: Type) -> Cell | None:
    """The cell of an element type; None for types that memory cannot hold here (integers beyond 64 bits, …)."""
    if isinstance(kind, PointerType):
        return Cell(dtype=np.dtype(np.int64), code=4, width=8, pointer=True)
    dtype = values.dtype_of(kind)
    if dtype is None or dtype.kind == "O":
        return None
    shape = values.vector_shape(kind)
    odd = kind.width if isinstance(kind, IntegerType) and kind.width not in {1, 8, 16, 32, 64} else 0
    count = int(np.prod(shape)) if shape else 1
    floating = dtype.kind not in "bi"
    code = DTYPES.index(dtype)
    return Cell(dtype=dtype, code=code, width=dtype.itemsize, count=count, shape=shape, bits=odd, floating=floating)


def units(position: Any, count: int, lanes: Any) -> tuple[Any, Any]:
    """Positions of elements of several units, as positions of units, and the lanes to match."""
    if count == 1:
        return position, lanes
    steps = np.arange(count)
    if position.__class__ is not ndarray:
        return position + steps, (int(lanes[-1]) if lanes.__class__ is ndarray else lanes)
    return (position[:, None] + steps).reshape(-1), np.repeat(lanes, count) if lanes.__class__ is ndarray else lanes


def bit_pattern(data: Any, cell: Cell) -> Any:
    """Data as unsigned integers of the cell's width."""
    array: Any = data if data.__class__ is ndarray else np.asarray(data, cell.dtype)
    return array.astype(cell.dtype, copy=False).view(BITS[cell.width][0])


def last_of(data: Any, where: Any) -> Any:
    """Data for one place: the last lane's."""
    return data[-1] if data.__class__ is ndarray and data.ndim and where.__class__ is not ndarray else data

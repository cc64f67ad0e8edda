"""What is visible where the next operation goes: values with their bounds, buffers, enclosing iterations.

The bounds make every later decision a proof: an index is used only where its interval is inside the dimension, a
flag only where the interval honours it, a float op only where its exact result fits (`generators.budget`).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from generators.budget import Bound
from generators.emit import Emitter
from generators.types import (
    CONTRACT,
    FLOAT_DIGITS,
    INPUT_FRACTION,
    INPUT_INTEGER,
    INPUT_NUMERATOR,
    MAXIMUM,
    MINIMUM,
    SCALARS,
    memref,
)

NONE, SYMBOL, DIM = 0, 1, 2
"""How a value may be used by affine ops (SEMANTICS §4, dims and symbols); a symbol may stand for a dim too."""


class Value:
    """A scalar. Integers lie in `lo..hi` (signed); floats obey the bound `(frac, hi)`, `lo` being 0.

    `slope` bounds, in units of 2^-slope_frac, the derivative by any one active leaf; 0 = inactive.
    """

    __slots__ = ("affine", "frac", "hi", "lo", "name", "slope", "slope_frac", "type", "used")

    def __init__(self, name: str, type: str, lo: int, hi: int, frac: int = 0) -> None:
        self.name = name
        self.type = type
        self.lo = lo
        self.hi = hi
        self.frac = frac
        self.used = False
        self.affine = NONE
        self.slope = 0
        self.slope_frac = 0


class Frame:
    """One enclosing parallel construct: its induction variables, with intervals. Compared by identity."""

    __slots__ = ("affine", "ivs")

    def __init__(self, ivs: list[Value], *, affine: bool) -> None:
        self.ivs = ivs
        self.affine = affine


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """Which cell of a buffer an iteration owns: an injective map of the induction variables of `frames`.

    Dimension d of the buffer is indexed by the next `groups[d]` variables, combined in mixed radix; bit k of
    `flips` counts variable k downwards.
    """

    frames: tuple[Frame, ...]
    groups: tuple[int, ...]
    flips: int = 0


@dataclass(slots=True, kw_only=True, eq=False)
class Buffer:
    """A memref, argument of the entry or local.

    `home` is the number of parallel frames it was made under; each combination of the frames beyond it may touch
    only its own cells (`claim`), or the buffer is only read (`shared`).
    `pending` is the block that stored the owned cell and did not load it since: storing again would be dead code.
    `echo` is the newest value loaded from the owned cell: storing it back would be dead code too.
    `touched`: something was stored; until then an argument holds its inputs.
    `bound` is the contract every stored float obeys; integers are in `lo..hi`.
    """

    name: str
    element: str
    shape: tuple[int, ...]
    type: str
    home: int = 0
    writable: bool = True
    claim: Claim | None = None
    shared: bool = False
    bound: Bound = (0, 0)
    lo: int = 0
    hi: int = 0
    position: int = -1
    affine: bool = True
    dup: bool = False
    loaded: bool = False
    stored: bool = False
    read: bool = False
    slope: int = 0
    slope_frac: int = 0
    slot: str = ""
    touched: bool = False
    pending: int = 0
    echo: Value | None = None


@dataclass(slots=True, kw_only=True)
class Argument:
    """An argument of the entry function and what `InputSpec` says about it."""

    name: str
    type: str
    scalar: int | float | None = None
    shape: tuple[int, ...] | None = None


@dataclass(slots=True, kw_only=True)
class Mark:
    """A point of a block to come back to when it ends."""

    pools: tuple[int, ...]
    values: int
    buffers: int
    block: int


@dataclass(slots=True, kw_only=True)
class Entry:
    """The entry function's arguments, grown on demand."""

    arguments: list[Argument] = field(default_factory=list[Argument])


class Scope(Emitter):
    """An emitter that knows the visible values, buffers and enclosing parallel frames."""

    def __init__(self) -> None:
        super().__init__()
        self.pools: dict[str, list[Value]] = {type: [] for type in SCALARS}
        self.values: list[Value] = []
        self.block = 0
        self.blocks = 0
        self.buffers: list[Buffer] = []
        self.frames: tuple[Frame, ...] = ()
        self.iterators: list[Value] = []
        self.entry = Entry()

    def define(self, type: str, text: str, lo: int, hi: int, frac: int = 0) -> Value:
        """Emit `text`, one result of scalar `type` within the bound, and make it visible."""
        value = Value(self.result(text), type, lo, hi, frac)
        self.pools[type].append(value)
        self.values.append(value)
        return value

    def adopt(self, value: Value) -> Value:
        """Make a value visible that was made elsewhere (a block argument, a region's result)."""
        self.pools[value.type].append(value)
        self.values.append(value)
        return value

    def enter(self) -> Mark:
        """Remember what is visible."""
        outer = self.block
        self.blocks += 1
        self.block = self.blocks
        pools = tuple(map(len, self.pools.values()))
        return Mark(pools=pools, values=len(self.values), buffers=len(self.buffers), block=outer)

    def leave(self, mark: Mark) -> None:
        """Forget what became visible since `mark`, entry arguments excepted."""
        inner, self.block = self.block, mark.block
        for buffer in self.buffers:
            if buffer.pending == inner:
                buffer.pending = mark.block
        if len(self.values) > mark.values:
            del self.values[mark.values :]
            for pool, length in zip(self.pools.values(), mark.pools, strict=True):
                del pool[length:]
        if len(self.buffers) > mark.buffers:
            self.buffers[mark.buffers :] = [b for b in self.buffers[mark.buffers :] if b.position >= 0]

    def unused_since(self, mark: Mark) -> list[Value]:
        """Values of the current block that nothing has used yet, oldest first."""
        return [v for v in self.values[mark.values :] if not v.used]

    def push_frame(self, frame: Frame) -> None:
        """Enter a parallel construct."""
        self.frames = (*self.frames, frame)

    def pop_frame(self) -> None:
        """Leave the innermost parallel construct: its iterations have joined, claims of its level end."""
        self.frames = self.frames[:-1]
        depth = len(self.frames)
        for buffer in self.buffers:
            if buffer.home == depth:
                buffer.claim = None
                buffer.shared = False

    def add_scalar(self, type: str, scalar: int | float) -> Value:
        """A new scalar argument of the entry with a known value; floats must be multiples of 1/4."""
        name = self.fresh_argument()
        self.entry.arguments.append(Argument(name=name, type=type, scalar=scalar))
        if type in FLOAT_DIGITS:
            return Value(name, type, 0, INPUT_NUMERATOR, INPUT_FRACTION)
        value = Value(name, type, int(scalar), int(scalar))
        value.affine = SYMBOL if type == "index" else NONE
        return value

    def add_buffer(self, shape: tuple[int, ...], element: str, *, dynamic: int, writable: bool) -> Buffer:
        """A new memref argument of the entry. Bit d of `dynamic` makes dimension d dynamic."""
        name = self.fresh_argument()
        sizes = tuple([None if dynamic >> d & 1 else size for d, size in enumerate(shape)])
        type = memref(sizes, element)
        position = len(self.entry.arguments)
        self.entry.arguments.append(Argument(name=name, type=type, shape=shape if dynamic else None))
        buffer = Buffer(name=name, element=element, shape=shape, type=type, writable=writable, position=position)
        set_contents(buffer)
        self.buffers.append(buffer)
        return buffer

    def fresh_argument(self) -> str:
        """The name of the next entry argument."""
        return f"%a{len(self.entry.arguments)}"


def set_contents(buffer: Buffer) -> None:
    """Fill in what a buffer's cells may hold: the input's range if it is never written, else the contract."""
    element = buffer.element
    if element in FLOAT_DIGITS:
        buffer.bound = CONTRACT[element] if buffer.writable else (INPUT_FRACTION, INPUT_NUMERATOR)
    elif buffer.writable:
        buffer.lo, buffer.hi = MINIMUM[element], MAXIMUM[element]
    elif element == "i1":
        buffer.lo, buffer.hi = -1, 0
    else:
        buffer.lo, buffer.hi = -INPUT_INTEGER, INPUT_INTEGER

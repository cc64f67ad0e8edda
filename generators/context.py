"""What a construct family works with: the scope, the draws, the profile and the registry of families."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from generators.budget import Bound, is_exact
from generators.profiles import Profile
from generators.scope import Scope, Value
from generators.source import Source, Weighted
from generators.types import EXACT_LIMIT, FLOAT_DIGITS, MAXIMUM, MINIMUM

Family = Callable[["Context"], None]
"""Emits one construct at the current place, or nothing when it does not fit there."""

_MOST_ARGUMENTS = 14
_INTEGERS = ("0", "1", "2", "3", "5", "-1", "7", "-2", "13", "-7", "31", "100")
_QUARTERS = (4, 2, 8, -4, 0, 1, 6, -2, 12, -6, 3, 16)
SLOPE_FRACTION = {"f32": 4, "f64": 12}
SLOPE_LIMIT = {"f32": 1 << 12, "f64": 1 << 36}
"""Bounds on derivatives in differentiated code. A gradient cell sums seed * slope over at most 2^8 (f32) or 2^12
(f64) contributions with seeds of 2^4 numerator at 2 fraction bits: 4 + 12 + 8 <= 24 bits, 4 + 36 + 12 <= 53."""


@lru_cache(maxsize=1024)
def table_of(items: tuple[tuple[str, int], ...]) -> Weighted[str]:
    """The prepared choice for a profile's weights."""
    return Weighted(items)


@dataclass(slots=True, kw_only=True)
class Active:
    """Set while emitting differentiated code: how often leaves are read and results stored, iterations counted.

    `serial` and `lanes` are the context's counts at the region's start; `depth` the number of frames there.
    """

    serial: int
    lanes: int
    depth: int
    element: str
    reads: int = 0
    stores: int = 0


class Tables:
    """A profile's weights, prepared for drawing."""

    __slots__ = ("active", "body", "boolean", "floating", "function", "host", "integer", "region", "thread", "types")

    def __init__(self, profile: Profile) -> None:
        self.host = table_of(tuple(profile.host.items()))
        self.body = table_of(tuple(profile.body.items()))
        self.function = table_of(tuple(profile.function.items()))
        self.region = table_of(tuple(profile.region.items()))
        self.thread = table_of(tuple(profile.thread.items()))
        self.integer = table_of(tuple(profile.integer.items()))
        self.boolean = table_of(tuple(profile.boolean.items()))
        self.floating = table_of(tuple(profile.floating.items()))
        self.active = table_of(tuple(profile.active.items()))
        self.types = table_of(tuple(profile.types.items()))


@lru_cache(maxsize=64)
def tables_for(profile: Profile) -> Tables:
    """The prepared tables of a profile (profiles compare by identity)."""
    return Tables(profile)


class Context(Scope):
    """The scope plus everything needed to decide what comes next."""

    def __init__(self, source: Source, profile: Profile, tables: Tables, families: Mapping[str, Family]) -> None:
        super().__init__()
        self.source = source
        self.profile = profile
        self.tables = tables
        self.families = families
        self.repairs: dict[str, int] = {}
        self.constructs: set[str] = set()
        self.active: Active | None = None
        self.kernel = False
        self.nesting = 0
        self.lanes = 1
        self.serial = 1
        self.budget = 0
        self.functions: list[str] = []
        self.deallocations: list[str] = []
        self.functions_depth = 0
        # Set once gradients are values here: the sign of their zeros is not defined (SEMANTICS §11, flags).
        self.loose_zeros = False
        self.helpers: list[Any] = []

    def repair(self, rule: str) -> None:
        """Count one use of a safety rule."""
        self.repairs[rule] = self.repairs.get(rule, 0) + 1

    def float_constant(self, type: str, quarters: int) -> str:
        """The name of the constant quarters/4 of a float type."""
        return self.constant(type, _SPELLED.get(quarters) or spell(quarters))

    def drawn_constant(self, type: str) -> Value:
        """A small constant: a dyadic rational, or an integer within the type."""
        if type in FLOAT_DIGITS:
            quarters = self.source.choice(_QUARTERS)
            whole = quarters % 4 == 0
            num = abs(quarters) >> 2 if whole else abs(quarters)
            return Value(self.float_constant(type, quarters), type, 0, num, 0 if whole else 2)
        if type == "i1":
            truth = self.source.boolean(50)
            return Value(self.constant("i1", "true" if truth else "false"), type, -truth, -truth)
        text = self.source.choice(_INTEGERS)
        number = int(text)
        value = Value(self.constant(type, text), type, number, number)
        value.affine = 1
        return value

    def pick(self, type: str) -> Value:
        """An operand of `type`: mostly a recent value in scope, sometimes a constant."""
        pool = self.pools[type]
        count = len(pool)
        if not count or self.source.boolean(10):
            return self.drawn_constant(type)
        return pool[count - 1 - self.source.recent(count)]

    def wrapped(self, type: str, text: str, lo: int, hi: int) -> Value | None:
        """Define an integer result that is `lo..hi` before wrapping; None for an index that would wrap."""
        if lo < MINIMUM[type] or hi > MAXIMUM[type]:
            if type == "index":
                return None
            lo, hi = MINIMUM[type], MAXIMUM[type]
        return self.define(type, text, lo, hi)

    def exact(self, type: str, text: str, bound: Bound, slope: Bound = (0, 0)) -> Value | None:
        """Define a float result of `bound`, or None (nothing emitted) if it could round or its slope is too large."""
        if bound[1] > EXACT_LIMIT[type] or not is_exact(type, bound):
            return None
        if slope[1] and not allowed_slope(type, slope):
            return None
        value = self.define(type, text, 0, bound[1], bound[0])
        value.slope_frac, value.slope = slope
        return value

    def known_index(self, number: int) -> str:
        """The name of an index equal to `number`: a constant, or a scalar argument that the inputs set to it."""
        if self.functions_depth or not self.source.boolean(self.profile.dynamic // 2):
            return self.index(number)
        arguments = self.entry.arguments
        for argument in arguments:
            if argument.type == "index" and argument.scalar == number:
                return argument.name
        if len(arguments) >= _MOST_ARGUMENTS:
            return self.index(number)
        return self.add_scalar("index", number).name

    def body_table(self) -> Weighted[str]:
        """The constructs that may stand here, inside a kernel or outside one."""
        if self.active is not None:
            return self.tables.region
        if self.functions_depth:
            return self.tables.function
        return self.tables.thread if self.kernel else self.tables.body

    def run(self, name: str) -> None:
        """Emit one construct of the family called `name`."""
        self.families[name](self)


def allowed_slope(type: str, slope: Bound) -> bool:
    """Whether gradients through a value with this derivative bound stay exact."""
    most = SLOPE_FRACTION.get(type, -1)
    return slope[0] <= most and slope[1] << (most - slope[0]) <= SLOPE_LIMIT[type]


CONTRIBUTIONS = {"f32": 1 << 8, "f64": 1 << 12}


def spell(quarters: int) -> str:
    """quarters/4 as MLIR prints a float."""
    return f"{quarters / 4:.6e}"


_SPELLED = {q: spell(q) for q in range(-64, 65)}

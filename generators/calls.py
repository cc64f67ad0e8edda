"""Private functions: scalar helpers that are called, and functions that are differentiated.

A function is emitted into its own scope; nothing of the caller is visible there.  Its float parameters have a fixed
bound that every call site obeys, so one body is exact for all calls.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass

from generators.blocks import drawn_type, fill, finish, gather
from generators.budget import Bound
from generators.context import Context
from generators.control import signature
from generators.emit import Emitter
from generators.safety import fit_float
from generators.scope import Value
from generators.types import FLOAT_DIGITS, MAXIMUM, MINIMUM, SCALARS

PARAMETER: dict[str, Bound] = {"f16": (2, 16), "bf16": (2, 16), "f32": (2, 64), "f64": (4, 1 << 12)}
"""The bound of a helper's float parameters."""

_MOST_FUNCTIONS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Helper:
    """A private scalar function: its name, parameter types and a model of its result."""

    name: str
    parameters: tuple[str, ...]
    result: Value


@contextmanager
def function_scope(c: Context) -> Generator[None]:
    """Emit into a new function until the end of the block; the caller's state is put back afterwards."""
    saved = dict(vars(c))
    fresh = vars(Emitter())
    for name in ("lines", "prologue", "constants", "depth", "indent"):
        setattr(c, name, fresh[name])
    c.pools = {type: [] for type in SCALARS}
    c.values, c.buffers, c.iterators, c.deallocations = [], [], [], []
    c.frames = ()
    c.kernel = False
    c.functions_depth += 1
    yield
    kept = {name: vars(c)[name] for name in ("ops", "next_name")}
    vars(c).update(saved)
    vars(c).update(kept)


def _new_helper(c: Context) -> Helper:
    types = tuple(drawn_type(c) for _ in range(c.source.integer(1, 3)))
    result_type = types[0] if c.source.boolean(60) else drawn_type(c)
    name = f"helper{len(c.helpers)}"
    with function_scope(c):
        mark = c.enter()
        arguments: list[tuple[str, str]] = []
        for type in types:
            value = Value(c.fresh(), type, *_range(type))
            c.adopt(value)
            arguments.append((value.name, type))
        fill(c, c.tables.function, c.source.integer(3, 9))
        result = gather(c, mark, result_type)
        finish(c, mark, 0)
        c.emit(f'"func.return"({result.name}) : ({result_type}) -> ()')
        text = c.function(name, arguments, [result_type], ', sym_visibility = "private"')
    c.functions.append(text)
    return Helper(name=name, parameters=types, result=result)


def _range(type: str) -> tuple[int, int, int]:
    if type in FLOAT_DIGITS:
        frac, num = PARAMETER[type]
        return 0, num, frac
    return MINIMUM[type], MAXIMUM[type], 0


def call(c: Context) -> None:
    """Family: func.call of a private scalar function, a new one or one that exists."""
    if c.active is not None or c.functions_depth:
        return
    if not c.helpers or (len(c.helpers) < _MOST_FUNCTIONS and c.source.boolean(40)):
        c.helpers.append(_new_helper(c))
    helper: Helper = c.source.choice(c.helpers)
    arguments: list[Value] = []
    for type in helper.parameters:
        value = c.pick(type)
        value = fit_float(c, value, PARAMETER[type]) if type in FLOAT_DIGITS else value
        value.used = True
        arguments.append(value)
    names = ", ".join(v.name for v in arguments)
    result = helper.result
    types = signature(list(helper.parameters), [result.type])
    c.define(
        result.type, f'"func.call"({names}) <{{callee = @{helper.name}}}> : {types}', result.lo, result.hi, result.frac
    )
    c.constructs.add("call")


FAMILIES = {"call": call}

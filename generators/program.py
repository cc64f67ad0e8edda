"""One program from one source of draws."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from typing import cast

import generators
from difftest.model import InputSpec, Program
from generators.blocks import flush
from generators.context import Context, Family, tables_for
from generators.profiles import Profile, find_profile
from generators.scope import Mark, Value
from generators.source import FORMAT_VERSION, SeededSource, Source

_SKIPPED = frozenset({"program"})


def _families() -> Mapping[str, Family]:
    """Every construct family, found by listing this folder: each module's `FAMILIES`."""
    found: dict[str, Family] = {}
    for module in pkgutil.iter_modules(generators.__path__):
        if module.name in _SKIPPED:
            continue
        loaded = importlib.import_module(f"generators.{module.name}")
        table = cast("Mapping[str, Callable[[Context], None]] | None", getattr(loaded, "FAMILIES", None))
        if table:
            found.update(table)
    return found


FAMILIES: Mapping[str, Family] = _families()


def generate(source: Source, *, profile: Profile, context: type[Context] = Context) -> Program:
    """A valid program: generic-form text in house spelling, entry `@k`, and the inputs it is valid for.

    `context` lets an observer (statistics, tests) look at the repairs made.
    """
    c = context(source, profile, tables_for(profile), FAMILIES)
    c.budget = source.integer(*profile.ops)
    mark = c.enter()
    for _ in range(12):
        c.run(source.weighted(c.tables.host))
        if c.ops >= c.budget * 3 // 4:
            break
    returned = _returned(c, mark)
    while c.deallocations:
        c.emit(c.deallocations.pop())
    return _assemble(c, returned)


def _returned(c: Context, mark: Mark) -> list[Value]:
    """Return up to two scalars that the host level computed and nothing used; store the others."""
    left = [v for v in c.unused_since(mark) if v.type not in {"index", "i1"}]
    for value in left[:2]:
        value.used = True
    if len(left) > 2:
        flush(c, mark)
    return left[:2]


def _assemble(c: Context, returned: list[Value]) -> Program:
    types = ", ".join(v.type for v in returned)
    names = ", ".join(v.name for v in returned)
    c.emit(f'"func.return"({names}) : ({types}) -> ()')
    arguments = c.entry.arguments
    entry = c.function("k", [(a.name, a.type) for a in arguments], [v.type for v in returned])
    text = "\n".join(['"builtin.module"() ({', *c.functions, entry, "}) : () -> ()", ""])
    spec = InputSpec(
        scalars={i: a.scalar for i, a in enumerate(arguments) if a.scalar is not None},
        shapes={i: a.shape for i, a in enumerate(arguments) if a.shape is not None},
        seed=c.source.integer(0, 1 << 30),
    )
    name = f"{c.profile.name}-v{FORMAT_VERSION}"
    return Program(text=text, entry="k", inputs=spec, name=name, constructs=tuple(sorted(c.constructs)))


def program_for_seed(seed: int, profile: str = "default") -> Program:
    """The program of a seed. Raises UsageError for an unknown profile."""
    chosen = find_profile(profile)
    program = generate(SeededSource(seed), profile=chosen)
    return Program(
        text=program.text,
        entry=program.entry,
        inputs=program.inputs,
        name=f"{program.name}-{seed}",
        constructs=program.constructs,
    )

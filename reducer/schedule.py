"""Which passes run, in which order: data. Passes are found by listing `reducer/passes`.

A tier runs to its fixed point before the next starts, and all tiers together to a joint one.  Cheap and large cuts
come first, cosmetics last: what a late tier changes makes the early ones run again.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Sequence
from functools import cache

import reducer.passes
from difftest.errors import HarnessError
from reducer.edits import Pass

TREE: tuple[tuple[str, ...], ...] = (
    ("functions", "erase-outer", "unused"),
    ("erase", "unwrap", "substitute-values"),
    ("dimensions", "carried", "branch-results", "region-inputs", "activities"),
    ("bounds", "maps", "operands-to-constants", "substitute-constants", "substitute-arguments", "arguments", "results"),
    ("entry", "branches", "constants", "types", "ranks", "attributes", "flags", "operands-to-first", "inputs"),
)
TEXT: tuple[tuple[str, ...], ...] = (("text-lines", "text-blocks"), ("text-tokens", "text-spaces"))
PIPELINE: tuple[tuple[str, ...], ...] = (("pipeline-passes",), ("pipeline-options",))


@cache
def discover() -> dict[str, Pass]:
    """Every pass by name; raises `HarnessError` when two share a name or one is missing from the schedule."""
    found: dict[str, Pass] = {}
    for info in pkgutil.iter_modules(reducer.passes.__path__):
        module = importlib.import_module(f"reducer.passes.{info.name}")
        passes: tuple[Pass, ...] = module.PASSES
        for one in passes:
            if one.name in found:
                raise HarnessError(f"two reduction passes are called {one.name}")
            found[one.name] = one
    scheduled = {name for schedule in (TREE, TEXT, PIPELINE) for names in schedule for name in names}
    if scheduled != set(found):
        raise HarnessError(f"passes and schedule disagree on {sorted(scheduled ^ set(found))}")
    return found


def tiers(names: Sequence[Sequence[str]]) -> tuple[tuple[Pass, ...], ...]:
    """The passes of a schedule."""
    passes = discover()
    return tuple(tuple(passes[name] for name in tier) for tier in names)

"""Finds the rules of every dialect by listing the folder `dialects`; see `difftest.interpreter.core` for their forms.

A dialect file exports any of these (all keyed by the op's full name unless said otherwise):

* `ELEMENTWISE`: `(op) -> ElementwiseRule`, pure scalar ops.
* `RULES`: `(op, context) -> Step | None`, everything else; None when nothing happens at run time.
* `BRANCHES`: `(op, context) -> Branch`, terminators with successors.
* `EXTERNALS`: models of functions without a body, keyed by symbol: `(machine, frame, op, arguments) -> results`.
* `LOCK_STEP`: names of ops that need all lanes of their parallel construct at once (barriers, shuffles).
* `SETUP`: `(machine) -> None`, called once per run before anything is compiled.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from difftest.errors import HarnessError
from difftest.interpreter import dialects

# Ops without a rule of their own, because the rule of another op, or the lookup of a symbol, reads them.
STRUCTURE = frozenset(
    {"builtin.module", "func.func", "gpu.binary", "gpu.dynamic_shared_memory", "gpu.func", "gpu.module", "llvm.func",
     "llvm.mlir.global", "llvm.mlir.global_ctors", "llvm.mlir.global_dtors", "memref.global"}
)  # fmt: skip


@dataclass(slots=True)
class Rules:
    """All rules, by the name of the op."""

    elementwise: dict[str, Callable[..., Any]] = field(default_factory=dict[str, Callable[..., Any]])
    rules: dict[str, Callable[..., Any]] = field(default_factory=dict[str, Callable[..., Any]])
    branches: dict[str, Callable[..., Any]] = field(default_factory=dict[str, Callable[..., Any]])
    externals: dict[str, Callable[..., Any]] = field(default_factory=dict[str, Callable[..., Any]])
    lock_step: set[str] = field(default_factory=set[str])
    setups: list[Callable[..., None]] = field(default_factory=list[Callable[..., None]])

    def names(self) -> frozenset[str]:
        """The ops that have a rule."""
        return frozenset(self.elementwise) | frozenset(self.rules) | frozenset(self.branches)


@lru_cache(maxsize=1)
def all_rules() -> Rules:
    """The rules of all dialect files; two files that claim one name are a fault of ours."""
    found = Rules()
    for entry in pkgutil.iter_modules(dialects.__path__):
        module = importlib.import_module(f"{dialects.__name__}.{entry.name}")
        for into, name in (
            (found.elementwise, "ELEMENTWISE"),
            (found.rules, "RULES"),
            (found.branches, "BRANCHES"),
            (found.externals, "EXTERNALS"),
        ):
            table: dict[str, Callable[..., Any]] = getattr(module, name, {})
            twice = table.keys() & into.keys()
            if twice:
                raise HarnessError(f"two rules for {sorted(twice)[0]}, one in {module.__name__}")
            into.update(table)
        found.lock_step.update(getattr(module, "LOCK_STEP", ()))
        if hasattr(module, "SETUP"):
            found.setups.append(module.SETUP)
    return found

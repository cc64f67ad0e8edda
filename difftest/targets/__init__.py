"""Compilers under test, found by listing this folder: a module with `SCHEME`, `open(label)` and `labels()`.

`open_target("enzyme-ad@0.0.16")`, `open_target("mlir")`, `open_target("opt:/path/to/mlir-opt")`, `open_target("null")`.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
from functools import cache
from types import ModuleType

from difftest.errors import UsageError
from difftest.targets.base import Availability, Target

__all__ = ["Availability", "Target", "known_labels", "open_target", "schemes"]

# Not targets, and not to be imported for a listing: scripts of another interpreter.
_WORKER = "worker"


@cache
def schemes() -> dict[str, ModuleType]:
    """Every target module of this folder by the scheme its labels start with."""
    found: dict[str, ModuleType] = {}
    for info in pkgutil.iter_modules(__path__):
        if not info.name.startswith(_WORKER):
            module = importlib.import_module(f"{__name__}.{info.name}")
            scheme = getattr(module, "SCHEME", None)
            if isinstance(scheme, str):
                found[scheme] = module
    return found


def open_target(label: str) -> Target:
    """The target that a label names. Raises UsageError for an unknown one; nothing is started or fetched yet."""
    scheme = re.split(r"[@:=]", label, maxsplit=1)[0]
    module = schemes().get(scheme)
    if module is None:
        raise UsageError(f"unknown target '{label}': known are {', '.join(known_labels())}, opt:PATH")
    target: Target = module.open(label)
    return target


def known_labels() -> tuple[str, ...]:
    """The labels that exist on this machine, usable or not."""
    return tuple(label for module in schemes().values() for label in module.labels())

"""numpy and lambdas as untyped values: the emulator computes on arrays of dtypes known only to the opcode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy

np: Any = numpy
Compute = Callable[..., Any]


class Variadic(Protocol):
    """A function of any number of arrays."""

    def __call__(self, *args: Any) -> Any:
        """Compute."""
        ...


def one(function: Callable[[Any], Any]) -> Compute:
    """A function of one array."""
    return function


def two(function: Callable[[Any, Any], Any]) -> Compute:
    """A function of two arrays."""
    return function


def three(function: Callable[[Any, Any, Any], Any]) -> Compute:
    """A function of three arrays."""
    return function


def many(function: Variadic) -> Compute:
    """A function of any number of arrays."""
    return function

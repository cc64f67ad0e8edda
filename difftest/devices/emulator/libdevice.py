"""libdevice's `__nv_*` functions by name, computed in f64 (f32 forms rounded once) with numpy and math.

Exact where the function is exact (floor, fma, fabs …). Transcendental ones are within 1 ulp of f32; in f64 they have
the host libm's error of at most 2 ulp, well inside the 8 ulp that SEMANTICS §3 allows any of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from difftest.devices.emulator import exact
from difftest.devices.emulator.typed import many, np, one, two

F32, F64, I32, I64 = np.dtype("f4"), np.dtype("f8"), np.dtype("i4"), np.dtype("i8")


@dataclass(frozen=True, slots=True, kw_only=True)
class Callee:
    """A function of arrays; `ulp` bounds its error against the real function (0: exact)."""

    arguments: tuple[Any, ...]
    compute: Callable[..., Any]
    ulp: float = 0.0


def _each(function: Callable[..., float]) -> Callable[..., Any]:
    """A function of the math module, lane by lane; domain errors give a NaN, overflow an infinity."""

    def one(*args: float) -> float:
        try:
            return function(*args)
        except OverflowError:
            return math.inf
        except (ValueError, ZeroDivisionError):
            return math.nan

    return many(lambda *args: np.asarray(np.frompyfunc(one, len(args), 1)(*args), F64))


def _rounded(a: Any) -> Any:
    """C round: halves away from zero."""
    whole = np.trunc(a)
    return np.where(np.abs(a - whole) >= 0.5, whole + np.copysign(1.0, a).astype(a.dtype), whole)


def _tgamma(x: float) -> float:
    return math.gamma(x)


def _erfinv(x: float) -> float:
    if abs(x) >= 1:
        return math.copysign(math.inf, x) if abs(x) == 1 else math.nan
    low, high = -6.0, 6.0
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if math.erf(middle) < x else (low, middle)
    return (low + high) / 2


_UNARY: dict[str, tuple[Any, float]] = {
    "exp": (np.exp, 1),
    "exp2": (np.exp2, 1),
    "exp10": (one(lambda a: np.power(10.0, a)), 1),
    "expm1": (np.expm1, 1),
    "log": (np.log, 1),
    "log2": (np.log2, 1),
    "log10": (np.log10, 1),
    "log1p": (np.log1p, 1),
    "sin": (np.sin, 1),
    "cos": (np.cos, 1),
    "tan": (np.tan, 1),
    "asin": (np.arcsin, 1),
    "acos": (np.arccos, 1),
    "atan": (np.arctan, 1),
    "sinh": (np.sinh, 2),
    "cosh": (np.cosh, 2),
    "tanh": (np.tanh, 2),
    "asinh": (np.arcsinh, 2),
    "acosh": (np.arccosh, 2),
    "atanh": (np.arctanh, 2),
    "cbrt": (np.cbrt, 1),
    "rsqrt": (one(lambda a: 1.0 / np.sqrt(a)), 1),
    "rcbrt": (one(lambda a: 1.0 / np.cbrt(a)), 1),
    "erf": (_each(math.erf), 1),
    "erfc": (_each(math.erfc), 2),
    "erfinv": (_each(_erfinv), 2),
    "lgamma": (_each(math.lgamma), 2),
    "tgamma": (_each(_tgamma), 4),
    "sinpi": (one(lambda a: np.sin(np.pi * np.remainder(a, 2.0))), 2),
    "cospi": (one(lambda a: np.cos(np.pi * np.remainder(a, 2.0))), 2),
}
_EXACT: dict[str, Any] = {
    "fabs": np.abs,
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "rint": np.rint,
    "nearbyint": np.rint,
    "round": _rounded,
    "sqrt": np.sqrt,
}
_BINARY: dict[str, tuple[Any, float]] = {
    "pow": (np.power, 2),
    "atan2": (np.arctan2, 1),
    "hypot": (np.hypot, 1),
    "fdim": (two(lambda a, b: np.where(a > b, a - b, np.where(np.isnan(a) | np.isnan(b), np.nan, 0.0))), 1),
}
_BINARY_EXACT: dict[str, Any] = {
    "fmod": np.fmod,
    "copysign": np.copysign,
    "nextafter": np.nextafter,
    "remainder": _each(math.remainder),
    "fmax": np.fmax,
    "fmin": np.fmin,
}
# Fast forms of f32 (-use_fast_math) are computed accurately: inside the errors that SEMANTICS §12 allows them.
_FAST = ("exp", "exp10", "log", "log2", "log10", "sin", "cos", "tan", "tanh")


def _single(compute: Any) -> Any:
    return many(lambda *args: compute(*(a.astype(F64) for a in args)).astype(F32))


def _float_functions() -> dict[str, Callee]:
    found: dict[str, Callee] = {}
    for name, (compute, ulp) in _UNARY.items():
        found[name] = Callee(arguments=(F64,), compute=compute, ulp=ulp)
        found[f"{name}f"] = Callee(arguments=(F32,), compute=_single(compute), ulp=1)
    for name in _FAST:
        found[f"fast_{name}f"] = Callee(arguments=(F32,), compute=_single(_UNARY[name][0]), ulp=1)
    for name, compute in _EXACT.items():
        found[name] = Callee(arguments=(F64,), compute=compute)
        found[f"{name}f"] = Callee(arguments=(F32,), compute=compute)
    for name, (compute, ulp) in _BINARY.items():
        found[name] = Callee(arguments=(F64, F64), compute=compute, ulp=ulp)
        found[f"{name}f"] = Callee(arguments=(F32, F32), compute=_single(compute), ulp=1)
    for name, compute in _BINARY_EXACT.items():
        found[name] = Callee(arguments=(F64, F64), compute=compute)
        single = _single(compute) if name == "remainder" else compute
        found[f"{name}f"] = Callee(arguments=(F32, F32), compute=single)
    found["fast_powf"] = found["powf"]
    found["fast_fdividef"] = Callee(arguments=(F32, F32), compute=np.divide)
    found["fma"] = found["fma_rn"] = Callee(arguments=(F64, F64, F64), compute=exact.fma64)
    found["fmaf"] = found["fmaf_rn"] = Callee(arguments=(F32, F32, F32), compute=exact.fma32)
    return found


def _powi(base: Any, exponent: Any) -> Any:
    return np.power(base.astype(F64), exponent.astype(F64))


def _as_i32(test: Any) -> Any:
    return one(lambda a: test(a).astype(I32))


def _leading_zeros(bits: int) -> Any:
    return one(lambda a: np.asarray([bits - int(x).bit_length() for x in a], I32))


def _classification() -> dict[str, Callee]:
    """Predicates return an i32."""
    tests: dict[str, Any] = {"isnan": np.isnan, "isinf": np.isinf, "signbit": np.signbit, "isfinite": np.isfinite}
    found: dict[str, Callee] = {}
    for name, test in tests.items():
        for suffix, dtype in (("f", F32), ("d", F64)):
            full = f"finite{suffix}" if name == "isfinite" and suffix == "f" else f"{name}{suffix}"
            found[full] = Callee(arguments=(dtype,), compute=_as_i32(test))
    return found


def _integer_functions() -> dict[str, Callee]:
    """abs, min, max, popc, clz and friends of integers."""
    found: dict[str, Callee] = {}
    for prefix, dtype in (("", I32), ("ll", I64)):
        unsigned = np.dtype(f"u{dtype.itemsize}")
        bits = 8 * dtype.itemsize
        found[f"{prefix}abs"] = Callee(arguments=(dtype,), compute=np.abs)
        found[f"{prefix}min"] = Callee(arguments=(dtype, dtype), compute=np.minimum)
        found[f"{prefix}max"] = Callee(arguments=(dtype, dtype), compute=np.maximum)
        found[f"u{prefix}min"] = Callee(arguments=(unsigned, unsigned), compute=np.minimum)
        found[f"u{prefix}max"] = Callee(arguments=(unsigned, unsigned), compute=np.maximum)
        found[f"popc{prefix}"] = Callee(arguments=(unsigned,), compute=one(lambda a: np.bitwise_count(a).astype(I32)))
        found[f"clz{prefix}"] = Callee(arguments=(unsigned,), compute=_leading_zeros(bits))
    return found


@cache
def _table() -> dict[str, Callee]:
    found = _float_functions() | _classification() | _integer_functions()
    found["powi"] = Callee(arguments=(F64, I32), compute=_powi, ulp=2)
    found["powif"] = Callee(arguments=(F32, I32), compute=two(lambda a, b: _powi(a, b).astype(F32)), ulp=1)
    found["ldexp"] = Callee(arguments=(F64, I32), compute=np.ldexp)
    found["ldexpf"] = Callee(arguments=(F32, I32), compute=np.ldexp)
    return found


def find(name: str) -> Callee | None:
    """The function called `__nv_<name>`, or None when it has no rule."""
    return _table().get(name.removeprefix("__nv_")) if name.startswith("__nv_") else None


def names() -> tuple[str, ...]:
    """All functions with a rule, with their prefix."""
    return tuple(sorted(f"__nv_{name}" for name in _table()))

"""Conversions (PTX ISA 9.7.9.21): every pair of types, rounding and saturation. cvt.pack (9.7.9.22) has no rule."""

from __future__ import annotations

from typing import Any

from difftest.devices.emulator import exact
from difftest.devices.emulator.ops.floating import narrow, widen
from difftest.devices.emulator.rules import DTYPES, NARROW, NoRuleError, Pure, Rule
from difftest.devices.emulator.typed import np, one

_ROUND: dict[str, Any] = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}
_MODES = frozenset({"rn", "rz", "rm", "rp", "rna"})
_FLOATS = frozenset({"f16", "bf16", "f32", "f64"})
_KNOWN = _FLOATS | {f"{kind}{width}" for kind in "su" for width in (8, 16, 32, 64)}
_FLAGS = _MODES | {"ftz", "sat", *_ROUND}


def limits(kind: str) -> tuple[int, int]:
    """The smallest and largest number of an integer type."""
    width = int(kind[1:])
    return (-(1 << (width - 1)), (1 << (width - 1)) - 1) if kind[0] == "s" else (0, (1 << width) - 1)


def float_to_int(value: Any, kind: str) -> Any:
    """An integral float as an integer, clamped to its range; a NaN gives 0 (9.7.9.21, "clamping")."""
    low, high = limits(kind)
    wide = value.astype(np.float64)
    dtype = DTYPES[kind]
    if (np.abs(wide) < float(high)).all() and (kind[0] == "s" or (wide >= 0).all()):
        return wide.astype(dtype)
    # float(high) may round up to one beyond: compare with the power of two that it then is.
    over, under = wide >= float(high), wide <= float(low)
    safe = np.where(over | under | np.isnan(wide), 0.0, wide)
    found = np.where(over, dtype.type(high), safe.astype(dtype))
    return np.where(under, dtype.type(low), found)


def _int_to_float(kind: str, mode: str) -> Any:
    """An integer as a float, rounded once."""
    if kind == "f64":
        return _directed_int(np.float64, mode)
    if kind == "f32":
        return _directed_int(np.float32, mode)
    back = narrow(kind)
    if mode != "rn":
        raise NoRuleError(f"modifier .{mode}")
    return one(lambda a: back(exact.narrow_odd(_odd(a))))


def _odd(a: Any) -> Any:
    """An integer as f64 rounded to odd."""
    nearest = a.astype(np.float64)
    return exact.to_odd(nearest, _int_error(a, nearest))


def _int_error(a: Any, nearest: Any) -> Any:
    """The sign of a - nearest."""
    if a.dtype.itemsize < 8 and nearest.dtype == np.float64:
        return np.zeros(nearest.shape)
    # Halves of 32 bits are exact in f64, and so is their sum with the difference.
    top = (a >> a.dtype.type(32)).astype(np.float64) if a.dtype.itemsize == 8 else np.zeros(a.shape)
    low = (a & a.dtype.type(0xFFFFFFFF)).astype(np.float64) if a.dtype.itemsize == 8 else a.astype(np.float64)
    return (top * 4294967296.0 - nearest.astype(np.float64)) + low


def _directed_int(dtype: Any, mode: str) -> Any:
    if mode == "rn":
        return one(lambda a: a.astype(dtype))

    def found(a: Any) -> Any:
        nearest = a.astype(dtype)
        return exact.directed(nearest, _int_error(a, nearest), mode)

    return found


def _float_to_float(source: str, target: str, mode: str) -> Any:
    """Widening is exact; narrowing rounds once."""
    if source == target:
        return None
    if source in NARROW:
        wide = widen(source)
        if target in {"f32", "f64"}:
            dtype = DTYPES[target]
            return one(lambda a: wide(a).astype(dtype))
        back = narrow(target)
        return one(lambda a: back(wide(a)))
    if target == "f64":
        return one(lambda a: a.astype(np.float64))
    if target == "f32":
        return _narrowed(mode)
    if target == "bf16" and mode == "rz":
        return one(lambda a: exact.to_bf16(a, "rz"))
    if mode != "rn":
        raise NoRuleError(f"modifier .{mode}")
    back = narrow(target)
    return back if source == "f32" else one(lambda a: back(exact.narrow_odd(a)))


def _narrowed(mode: str) -> Any:
    def nearest(a: Any) -> Any:
        return a.astype(np.float32)

    if mode == "rn":
        return nearest

    def found(a: Any) -> Any:
        r = nearest(a)
        with_overflow = np.where(np.isinf(r) & np.isfinite(a), -np.sign(r), a - r.astype(np.float64))
        return exact.directed(r, np.where(np.isnan(with_overflow), 0, with_overflow), mode)

    return found


def _integers(source: str, target: str, *, saturate: bool) -> Any:
    if not saturate:
        dtype = DTYPES[target]
        return one(lambda a: a.astype(dtype))
    low, high = limits(target)
    (source_low, source_high), dtype = limits(source), DTYPES[target]
    low, high = max(low, source_low), min(high, source_high)
    return one(lambda a: np.clip(a, a.dtype.type(low), a.dtype.type(high)).astype(dtype))


def _cvt(parts: tuple[str, ...]) -> Pure:
    """cvt (9.7.9.21)."""
    if len(parts) < 3 or not set(parts[-2:]) <= _KNOWN or not set(parts[1:-2]) <= _FLAGS:
        raise NoRuleError("modifiers")
    target, source, flags = parts[-2], parts[-1], set(parts[1:-2])
    mode = next(iter(flags & _MODES), "rn")
    if mode == "rna":
        raise NoRuleError("modifier .rna")
    whole = next((_ROUND[f] for f in flags if f in _ROUND), None)
    flush_in, saturate = "ftz" in flags and source == "f32", "sat" in flags
    if source in _FLOATS and target in _FLOATS:
        steps = _between_floats(source, target, mode, whole)
    elif source in _FLOATS:
        if whole is None:
            raise NoRuleError("no rounding")
        wide = widen(source) if source in NARROW else None
        steps = [wide, whole, one(lambda a: float_to_int(a, target))]
    elif target in _FLOATS:
        steps = [_int_to_float(target, mode)]
    else:
        steps = [_integers(source, target, saturate=saturate)]
    if flush_in:
        steps.insert(0, exact.flush)
    if "ftz" in flags and target == "f32":
        steps.append(exact.flush)
    if saturate and target in _FLOATS:
        if target in NARROW:
            raise NoRuleError("modifier .sat")
        steps.append(one(lambda a: np.where(a > 0, np.minimum(a, a.dtype.type(1)), a.dtype.type(0))))
    return Pure(compute=_chain([s for s in steps if s is not None]), sources=(source,), result=target)


def _between_floats(source: str, target: str, mode: str, whole: Any) -> list[Any]:
    if whole is None:
        return [_float_to_float(source, target, mode)]
    if source != target:
        raise NoRuleError("rounding to an integer between types")
    if source not in NARROW:
        return [whole]
    return [widen(source), whole, narrow(source)]


def _chain(steps: list[Any]) -> Any:
    if len(steps) == 1:
        return steps[0]

    def found(a: Any) -> Any:
        for step in steps:
            a = step(a)
        return a

    return found


RULES: dict[str, Rule] = {"cvt": _cvt}

"""Floating-point arithmetic (PTX ISA 9.7.3) and half precision (9.7.4), with .ftz, .sat and every rounding mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from difftest.devices.emulator import exact
from difftest.devices.emulator.rules import NoRuleError, Pure, Rule
from difftest.devices.emulator.typed import many, np, one, two

FLOATS = frozenset({"f16", "bf16", "f32", "f64", "f16x2", "bf16x2"})
ROUNDINGS = frozenset({"rn", "rz", "rm", "rp"})
F32: Any = np.float32


def is_float(kind: str) -> bool:
    """Whether a type is one that `float_rule` takes."""
    return kind in FLOATS


def _negate(a: Any) -> Any:
    return -a


def _divide(a: Any, b: Any) -> Any:
    return a / b


def _reciprocal(a: Any) -> Any:
    return a.dtype.type(1) / a


def _fma(a: Any, b: Any, c: Any) -> Any:
    return exact.fma64(a, b, c) if a.dtype == exact.F64 else exact.fma32(a, b, c)


def maximum(a: Any, b: Any) -> Any:
    """max: the number where one operand is a NaN; +0 is larger than -0 (9.7.3.12)."""
    return _extreme(np.fmax(a, b), a, b, np.bitwise_and)


def minimum(a: Any, b: Any) -> Any:
    """min (9.7.3.11)."""
    return _extreme(np.fmin(a, b), a, b, np.bitwise_or)


def _extreme(found: Any, a: Any, b: Any, combine: Any) -> Any:
    """Equal operands differ at most in the sign of zero: combine their bits."""
    same = a == b
    if not same.any():
        return found
    kind = f"i{a.dtype.itemsize}"
    bits = combine(np.ascontiguousarray(a).view(kind), np.ascontiguousarray(b).view(kind)).view(a.dtype)
    return np.where(same, bits, found)


def _with_nan(compute: Any) -> Any:
    def found(a: Any, b: Any) -> Any:
        return np.where(np.isnan(a) | np.isnan(b), a.dtype.type(np.nan), compute(a, b))

    return found


_ARITHMETIC: dict[str, tuple[Any, int]] = {
    "add": (np.add, 2),
    "sub": (np.subtract, 2),
    "mul": (np.multiply, 2),
    "fma": (_fma, 3),
    "div": (_divide, 2),
    "rcp": (_reciprocal, 1),
    "sqrt": (np.sqrt, 1),
}
_SIGNS: dict[str, tuple[Any, int]] = {"abs": (np.abs, 1), "neg": (_negate, 1)}
_EXTREMES: dict[str, Any] = {"min": minimum, "max": maximum}


def float_rule(name: str, parts: tuple[str, ...]) -> Pure:
    """The rule of a float instruction `name` with the opcode `parts`. Raises NoRuleError for unknown modifiers."""
    kind, modifiers = parts[-1], list(parts[1:-1])
    if kind.endswith("x2"):
        return _packed(float_rule(name, (*parts[:-1], kind[:-2])))
    if name in _EXTREMES:
        return _extreme_rule(name, kind, modifiers)
    if name in _SIGNS:
        compute, arity = _SIGNS[name]
        if kind in {"f16", "bf16"}:
            return _sign_of_half(name, kind, modifiers)
        return _finish(compute, arity, kind, modifiers, rounding="rn")
    compute, arity = _ARITHMETIC[name]
    rounding = "rn"
    for modifier in tuple(modifiers):
        if modifier in ROUNDINGS:
            rounding = modifier
            modifiers.remove(modifier)
    # Approximate and full-range forms are computed to nearest: inside the error that the ISA allows (at most 2 ulp).
    approximate = {"approx", "full"} & set(modifiers)
    if approximate and name not in {"div", "rcp", "sqrt"}:
        raise NoRuleError(f"modifier .{approximate.pop()}")
    modifiers = [m for m in modifiers if m not in {"approx", "full"}]
    if rounding != "rn":
        compute = _rounded(name, compute, rounding)
    return _finish(compute, arity, kind, modifiers, rounding=rounding)


def _rounded(name: str, compute: Any, mode: str) -> Any:
    def found(*args: Any) -> Any:
        nearest = compute(*args)
        result = exact.directed(nearest, exact.error_of(name, args, nearest), mode)
        if mode == "rm" and name in {"add", "sub", "fma"}:
            # x - x is -0 when rounding down (IEEE 754, 6.3), unless both terms are +0.
            cancelled = (nearest == 0) & ~np.signbit(nearest) & (args[0] != 0)
            return np.where(cancelled, np.copysign(result, -1), result)
        return result

    return found


def _finish(compute: Any, arity: int, kind: str, modifiers: list[str], *, rounding: str) -> Pure:
    """Add .ftz and .sat, and computing in a wider type for the 16-bit formats."""
    unknown = set(modifiers) - {"ftz", "sat", "relu"}
    if unknown or ("ftz" in modifiers and kind not in {"f32", "f16"}):
        raise NoRuleError(f"modifiers {'.'.join(modifiers)}")
    if kind in {"f16", "bf16"}:
        if rounding != "rn":
            raise NoRuleError(f"modifier .{rounding}")
        compute = _in_f32(compute, kind, fused=compute is _fma)
        if "ftz" in modifiers:
            raise NoRuleError("modifier .ftz")
    if "ftz" in modifiers:
        compute = _flushed(compute)
    if "relu" in modifiers or ("sat" in modifiers and kind not in {"f32", "f64", "f16"}):
        raise NoRuleError("modifiers")
    if "sat" in modifiers:
        compute = _saturated(compute)
    return Pure(compute=compute, sources=(kind,) * arity, result=kind)


def _flushed(compute: Any) -> Any:
    return many(lambda *args: exact.flush(compute(*(exact.flush(a) for a in args))))


def _saturated(compute: Any) -> Any:
    """[0, 1], and +0 for a NaN."""

    def found(*args: Any) -> Any:
        value = compute(*args)
        one = value.dtype.type(1)
        return np.where(value > 0, np.minimum(value, one), value.dtype.type(0))

    return found


def widen(kind: str) -> Callable[[Any], Any]:
    """A 16-bit float as f32."""
    return exact.from_bf16 if kind == "bf16" else one(lambda a: a.astype(F32))


def narrow(kind: str) -> Callable[[Any], Any]:
    """f32 as a 16-bit float, to nearest even."""
    return exact.to_bf16 if kind == "bf16" else one(lambda a: a.astype(np.float16))


def _in_f32(compute: Any, kind: str, *, fused: bool) -> Any:
    """f32 has more than twice the bits and two: rounding twice is rounding once, but for fma, which goes by odd."""
    wide, back = widen(kind), narrow(kind)
    if fused:

        def fused_found(a: Any, b: Any, c: Any) -> Any:
            args = (wide(x).astype(np.float64) for x in (a, b, c))
            return back(exact.narrow_odd(exact.fma_odd(*args)))

        return fused_found
    return many(lambda *args: back(compute(*(wide(a) for a in args))))


def _sign_of_half(name: str, kind: str, modifiers: list[str]) -> Pure:
    """neg and abs of 16-bit floats only touch the sign bit (9.7.4.5, 9.7.4.6)."""
    if modifiers:
        raise NoRuleError("modifiers")
    sign, rest = np.int16(-(2**15)), np.int16(2**15 - 1)
    compute: Any = (one(lambda a: a ^ sign)) if name == "neg" else (one(lambda a: a & rest))
    return Pure(compute=compute, sources=("b16",), result="b16")


def _extreme_rule(name: str, kind: str, modifiers: list[str]) -> Pure:
    """min, max (9.7.3.11, 9.7.3.12; halves 9.7.4.7): .NaN gives a NaN when one operand is one."""
    compute = _EXTREMES[name]
    if "NaN" in modifiers:
        compute = _with_nan(compute)
    return _finish(compute, 2, kind, [m for m in modifiers if m != "NaN"], rounding="rn")


def _packed(rule: Pure) -> Pure:
    """Two halves in one 32-bit register."""
    kind, arity = rule.result, len(rule.sources)
    dtype = {"f16": np.dtype("f2"), "bf16": np.dtype("u2"), "b16": np.dtype("i2")}[kind]

    def compute(*args: Any) -> Any:
        n = max(len(a) for a in args)
        halves = [np.ascontiguousarray(np.broadcast_to(a, n)).view(dtype) for a in args]
        return np.ascontiguousarray(rule.compute(*halves)).view(np.uint32)

    return Pure(compute=compute, sources=("u32",) * arity, result="u32")


def _named(name: str) -> Rule:
    return lambda parts: float_rule(name, parts)


# --- functions --------------------------------------------------------------------------------------------------


def _through_f64(function: Any) -> Any:
    """Computed in f64 and rounded once: within the errors of the approximate instructions."""
    return one(lambda a: function(a.astype(np.float64)).astype(F32))


def _rsqrt(a: Any) -> Any:
    return 1.0 / np.sqrt(a)


_FUNCTIONS: dict[str, tuple[Any, str]] = {
    "rsqrt": (_rsqrt, "9.7.3.17: 2^-22.4 relative"),
    "sin": (np.sin, "9.7.3.18: 2^-20.5 absolute in [-pi, pi]"),
    "cos": (np.cos, "9.7.3.19: 2^-20.5 absolute in [-pi, pi]"),
    "lg2": (np.log2, "9.7.3.20: 2^-22 absolute or relative"),
    "ex2": (np.exp2, "9.7.3.21: 2 ulp"),
    "tanh": (np.tanh, "9.7.3.22: 2^-11 relative"),
}


def _function(parts: tuple[str, ...]) -> Pure:
    """rsqrt, sin, cos, lg2, ex2, tanh .approx: correctly rounded nearly always, inside the allowed error."""
    function, _ = _FUNCTIONS[parts[0]]
    kind, modifiers = parts[-1], [m for m in parts[1:-1] if m != "approx"]
    if "approx" not in parts or set(modifiers) - {"ftz"}:
        raise NoRuleError("modifiers")
    if kind == "f64" and parts[0] == "rsqrt":
        return Pure(compute=function, sources=("f64",), result="f64")
    if kind in {"f16", "bf16"} and parts[0] in {"ex2", "tanh"}:
        return Pure(compute=_in_f32(_through_f64(function), kind, fused=False), sources=(kind,), result=kind)
    if kind != "f32":
        raise NoRuleError(f"type {kind}")
    compute = _through_f64(function)
    return Pure(compute=_flushed(compute) if modifiers else compute, sources=("f32",), result="f32")


def _copysign(parts: tuple[str, ...]) -> Pure:
    """copysign (9.7.3.2): the sign of the *first* operand on the magnitude of the second."""
    if parts[1:] not in {("f32",), ("f64",)}:
        raise NoRuleError("modifiers")
    return Pure(compute=two(lambda a, b: np.copysign(b, a)), sources=(parts[1],) * 2, result=parts[1])


def _testp(parts: tuple[str, ...]) -> Pure:
    """testp (9.7.3.1)."""
    smallest = {"f32": np.finfo(np.float32).tiny, "f64": np.finfo(np.float64).tiny}
    if len(parts) != 3 or parts[2] not in smallest:
        raise NoRuleError("modifiers")
    limit = smallest[parts[2]]
    tests: dict[str, Any] = {
        "finite": np.isfinite,
        "infinite": np.isinf,
        "number": one(lambda a: ~np.isnan(a)),
        "notanumber": np.isnan,
        "normal": one(lambda a: np.isfinite(a) & (np.abs(a) >= limit)),
        "subnormal": one(lambda a: (a != 0) & (np.abs(a) < limit)),
    }
    if parts[1] not in tests:
        raise NoRuleError(f"modifier .{parts[1]}")
    return Pure(compute=tests[parts[1]], sources=(parts[2],), result="pred")


RULES: dict[str, Rule] = {
    "fma": _named("fma"),
    "rcp": _named("rcp"),
    "sqrt": _named("sqrt"),
    **dict.fromkeys(_FUNCTIONS, _function),
    "copysign": _copysign,
    "testp": _testp,
}

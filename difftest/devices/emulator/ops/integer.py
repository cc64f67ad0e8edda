"""Integer arithmetic (PTX ISA 9.7.1) and extended-precision arithmetic without carries."""

from __future__ import annotations

from typing import Any

from difftest.devices.emulator.ops.floating import float_rule, is_float
from difftest.devices.emulator.rules import DTYPES, NoRuleError, Pure, Rule, ints, only
from difftest.devices.emulator.typed import np, three, two


def _binary(name: str, compute: Any, kinds: str = "su") -> Rule:
    def rule(parts: tuple[str, ...]) -> Pure:
        if is_float(parts[-1]):
            return float_rule(name, parts)
        only(parts)
        kind = ints(parts, kinds=kinds)
        return Pure(compute=compute, sources=(kind, kind), result=kind)

    return rule


def _add(parts: tuple[str, ...]) -> Pure:
    """add (9.7.1.1) wraps; add.sat.s32 clamps. Packed 16x2 forms have no rule."""
    return _add_or_sub(parts, np.add, "add")


def _sub(parts: tuple[str, ...]) -> Pure:
    """sub (9.7.1.2)."""
    return _add_or_sub(parts, np.subtract, "sub")


def _add_or_sub(parts: tuple[str, ...], ufunc: Any, name: str) -> Pure:
    if is_float(parts[-1]):
        return float_rule(name, parts)
    if parts[1:] == ("sat", "s32"):

        def clamped(a: Any, b: Any) -> Any:
            return np.clip(ufunc(a.astype("i8"), b.astype("i8")), -(2**31), 2**31 - 1).astype("i4")

        return Pure(compute=clamped, sources=("s32", "s32"), result="s32")
    only(parts)
    # Both signs give the same bits; the signed dtype is the one registers have.
    kind = "b" + ints(parts)[1:]
    return Pure(compute=ufunc, sources=(kind, kind), result=kind)


def high(a: Any, b: Any) -> Any:
    """The upper half of the product of two 64-bit integers (signed dtype or unsigned)."""
    mask = np.uint64(0xFFFFFFFF)
    x, y = a.view(np.uint64), b.view(np.uint64)
    x0, x1, y0, y1 = x & mask, x >> np.uint64(32), y & mask, y >> np.uint64(32)
    low = x0 * y0
    middle = x1 * y0 + (low >> np.uint64(32))
    other = x0 * y1 + (middle & mask)
    found = x1 * y1 + (middle >> np.uint64(32)) + (other >> np.uint64(32))
    if a.dtype.kind == "u":
        return found
    zero = np.uint64(0)
    return (found - np.where(a < 0, y, zero) - np.where(b < 0, x, zero)).view(np.int64)


def _product(kind: str, part: str) -> tuple[Any, str]:
    """The function and result type of mul.{hi,lo,wide} (9.7.1.3)."""
    width = int(kind[1:])
    if part == "lo":
        return np.multiply, kind
    wide = f"{kind[0]}{2 * width}"
    if part == "wide" and width < 64:
        dtype = DTYPES[wide]
        return (two(lambda a, b: np.multiply(a.astype(dtype), b.astype(dtype)))), wide
    if part == "hi":
        if width == 64:
            return high, kind
        dtype, narrow, shift = DTYPES[wide], DTYPES[kind], width
        return (two(lambda a, b: ((a.astype(dtype) * b.astype(dtype)) >> dtype.type(shift)).astype(narrow))), kind
    raise NoRuleError(f"modifier .{part}")


def _mul(parts: tuple[str, ...]) -> Pure:
    """mul (9.7.1.3): low or high half, or the whole product."""
    if is_float(parts[-1]):
        return float_rule("mul", parts)
    kind = ints(parts)
    if len(parts) != 3:
        raise NoRuleError("modifiers")
    if parts[1] == "lo":
        kind = "b" + kind[1:]
    compute, result = _product(kind, parts[1])
    return Pure(compute=compute, sources=(kind, kind), result=result)


def _mad(parts: tuple[str, ...]) -> Pure:
    """mad (9.7.1.4): a half, or the whole, of a*b, plus c. Float mad is fma for every target here (9.7.3.7)."""
    if is_float(parts[-1]):
        return float_rule("fma", parts)
    kind = ints(parts)
    saturate = parts[1:] == ("hi", "sat", "s32")
    if len(parts) != 3 and not saturate:
        raise NoRuleError("modifiers")
    if parts[1] == "lo":
        kind = "b" + kind[1:]
    product, result = _product(kind, parts[1])

    def compute(a: Any, b: Any, c: Any) -> Any:
        if saturate:
            return np.clip(product(a, b).astype("i8") + c, -(2**31), 2**31 - 1).astype("i4")
        return product(a, b) + c

    return Pure(compute=compute, sources=(kind, kind, result), result=result)


def _low24(a: Any, kind: str) -> Any:
    shift = np.int64(40)
    return (a.astype(np.int64) << shift) >> shift if kind == "s32" else a.astype(np.int64) & np.int64(0xFFFFFF)


def _mul24(parts: tuple[str, ...]) -> Pure:
    """mul24, mad24 (9.7.1.5, 9.7.1.6): the product of the low 24 bits, bits 0-31 or 16-47 of it."""
    kind = ints(parts, widths=(32,))
    if len(parts) != 3 or parts[1] not in {"lo", "hi"}:
        raise NoRuleError("modifiers")
    shift, dtype = np.int64(0 if parts[1] == "lo" else 16), DTYPES[kind]

    def compute(a: Any, b: Any) -> Any:
        return ((_low24(a, kind) * _low24(b, kind)) >> shift).astype(dtype)

    if parts[0] == "mul24":
        return Pure(compute=compute, sources=(kind, kind), result=kind)
    return Pure(compute=three(lambda a, b, c: compute(a, b) + c), sources=(kind, kind, kind), result=kind)


def _sad(parts: tuple[str, ...]) -> Pure:
    """sad (9.7.1.7): c + |a - b|, wrapping."""
    only(parts)
    kind = ints(parts)
    return Pure(compute=three(lambda a, b, c: c + np.where(a < b, b - a, a - b)), sources=(kind,) * 3, result=kind)


def quotient(a: Any, b: Any) -> Any:
    """Division rounding to zero. By zero: all ones (unspecified in the ISA; what devices give)."""
    zero = b == 0
    if a.dtype.kind == "u":
        return np.where(zero, ~a.dtype.type(0), a // np.where(zero, 1, b).astype(a.dtype))
    # The most negative number by -1 wraps to itself: dividing magnitudes as unsigned numbers gives just that.
    unsigned = a.dtype.str.replace("i", "u")
    x, y = np.where(a < 0, -a, a).view(unsigned), np.where(b < 0, -b, b).view(unsigned)
    found = (x // np.where(zero, 1, y).astype(unsigned)).view(a.dtype)
    return np.where(zero, a.dtype.type(-1), np.where((a < 0) != (b < 0), -found, found))


def _div(parts: tuple[str, ...]) -> Pure:
    """div (9.7.1.8)."""
    if is_float(parts[-1]):
        return float_rule("div", parts)
    only(parts)
    kind = ints(parts)
    return Pure(compute=quotient, sources=(kind, kind), result=kind)


def _rem(parts: tuple[str, ...]) -> Pure:
    """rem (9.7.1.9): a - b * (a / b); by zero: unspecified, here the dividend."""
    only(parts)
    kind = ints(parts)

    def compute(a: Any, b: Any) -> Any:
        return np.where(b == 0, a, a - quotient(a, b) * b)

    return Pure(compute=compute, sources=(kind, kind), result=kind)


def _abs(parts: tuple[str, ...]) -> Pure:
    """abs (9.7.1.10): of the most negative number, that number."""
    if is_float(parts[-1]):
        return float_rule("abs", parts)
    only(parts)
    kind = ints(parts, kinds="s")
    return Pure(compute=np.abs, sources=(kind,), result=kind)


def _neg(parts: tuple[str, ...]) -> Pure:
    """neg (9.7.1.11)."""
    if is_float(parts[-1]):
        return float_rule("neg", parts)
    only(parts)
    kind = ints(parts, kinds="s")
    return Pure(compute=np.negative, sources=(kind,), result=kind)


def _dot(parts: tuple[str, ...]) -> Pure:
    """dp4a, dp2a (9.7.1.23, 9.7.1.24): c plus the dot product of packed bytes (of halves with bytes)."""
    halves = parts[0] == "dp2a"
    signs = parts[2:] if halves else parts[1:]
    if len(signs) != 2 or not set(signs) <= {"s32", "u32"} or (halves and parts[1] not in {"lo", "hi"}):
        raise NoRuleError("modifiers")
    first, second = (s[0] for s in signs)
    offset = 2 if halves and parts[1] == "hi" else 0
    result = "u32" if signs == ("u32", "u32") else "s32"

    def compute(a: Any, b: Any, c: Any) -> Any:
        n = 2 if halves else 4
        x = np.ascontiguousarray(a).view(f"{'i' if first == 's' else 'u'}{2 if halves else 1}").reshape(-1, n)
        y = np.ascontiguousarray(b).view(f"{'i' if second == 's' else 'u'}1").reshape(-1, 4)[:, offset : offset + n]
        total = (x.astype(np.int64) * y.astype(np.int64)).sum(axis=1)
        return (total + c.astype(np.int64)).astype(DTYPES[result])

    return Pure(compute=compute, sources=("b32", "b32", result), result=result)


RULES: dict[str, Rule] = {
    "add": _add,
    "sub": _sub,
    "mul": _mul,
    "mad": _mad,
    "mul24": _mul24,
    "mad24": _mul24,
    "sad": _sad,
    "div": _div,
    "rem": _rem,
    "abs": _abs,
    "neg": _neg,
    "min": _binary("min", np.minimum),
    "max": _binary("max", np.maximum),
    "dp4a": _dot,
    "dp2a": _dot,
}

"""Comparison and selection (PTX ISA 9.7.6), half precision too (9.7.7)."""

from __future__ import annotations

from typing import Any

from difftest.devices.emulator import exact
from difftest.devices.emulator.ops.floating import FLOATS, widen
from difftest.devices.emulator.rules import NARROW, NoRuleError, Pure, Rule, ints
from difftest.devices.emulator.typed import np, three, two

_ORDERED: dict[str, Any] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}
# Unsigned comparisons may be spelled lo, ls, hi, hs.
_UNSIGNED = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}
_BOOLEAN: dict[str, Any] = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}


def _unordered(ufunc: Any) -> Any:
    return two(lambda a, b: ufunc(a, b) | np.isnan(a) | np.isnan(b))


def _not_equal(a: Any, b: Any) -> Any:
    """`ne` is an ordered comparison: false when an operand is a NaN."""
    return (a < b) | (a > b)


def comparison(name: str, kind: str) -> Any:
    """The function of a comparison operator for operands of a type; numbers only, or also true for NaNs (equ …)."""
    if kind not in FLOATS:
        name = _UNSIGNED.get(name, name) if kind[0] == "u" else name
        if name not in _ORDERED or (kind[0] == "b" and name not in {"eq", "ne"}):
            raise NoRuleError(f"comparison .{name}.{kind}")
        return _ORDERED[name]
    if name == "num":
        return two(lambda a, b: ~(np.isnan(a) | np.isnan(b)))
    if name == "nan":
        return two(lambda a, b: np.isnan(a) | np.isnan(b))
    if name == "ne":
        return _not_equal
    if name in _ORDERED:
        return _ORDERED[name]
    if name == "neu":
        return np.not_equal
    if name.endswith("u") and name[:-1] in _ORDERED:
        return _unordered(_ORDERED[name[:-1]])
    raise NoRuleError(f"comparison .{name}")


def _after(prepare: Any, compare: Any) -> Any:
    return two(lambda a, b: compare(prepare(a), prepare(b)))


def _prepared(parts: tuple[str, ...]) -> tuple[Any, str, Any]:
    """Comparison, type, and the boolean that combines it with a third operand, of setp and set."""
    kind, rest = parts[-1], [p for p in parts[1:-1] if p != "ftz"]
    if kind not in FLOATS:
        ints((kind,), (16, 32, 64), "bsu")
    elif kind.endswith("x2"):
        raise NoRuleError(f"type {kind}")
    if not 1 <= len(rest) <= 2 or (len(rest) == 2 and rest[1] not in _BOOLEAN):
        raise NoRuleError("modifiers")
    compare = comparison(rest[0], kind)
    if kind in NARROW:
        compare = _after(widen(kind), compare)
    if "ftz" in parts:
        compare = _after(exact.flush, compare)
    return compare, kind, _BOOLEAN[rest[1]] if len(rest) == 2 else None


def _setp(parts: tuple[str, ...]) -> Pure:
    """setp (9.7.6.2): p = (a cmp b) bool c, and q = !(a cmp b) bool c."""
    compare, kind, boolean = _prepared(parts)
    if boolean is None:
        return Pure(compute=compare, sources=(kind, kind), result="pred", second=two(lambda a, b: ~compare(a, b)))

    def compute(a: Any, b: Any, c: Any) -> Any:
        return boolean(compare(a, b), c)

    def second(a: Any, b: Any, c: Any) -> Any:
        return boolean(~compare(a, b), c)

    return Pure(compute=compute, sources=(kind, kind, "pred"), result="pred", second=second)


def _set(parts: tuple[str, ...]) -> Pure:
    """set (9.7.6.1): all ones, or 1.0, where true."""
    result = parts[-2]
    if result not in {"u32", "s32", "f32"}:
        raise NoRuleError("modifiers")
    compare, kind, boolean = _prepared((*parts[:-2], parts[-1]))

    def compute(*args: Any) -> Any:
        found = compare(args[0], args[1])
        if boolean is not None:
            found = boolean(found, args[2])
        return found.astype(np.float32) if result == "f32" else -found.astype(np.int32)

    extra = () if boolean is None else ("pred",)
    return Pure(compute=compute, sources=(kind, kind, *extra), result="f32" if result == "f32" else "s32")


def _selp(parts: tuple[str, ...]) -> Pure:
    """selp (9.7.6.3)."""
    kind = parts[-1]
    if len(parts) != 2 or (kind not in {"f32", "f64"} and not ints(parts, kinds="bsu")):
        raise NoRuleError("modifiers")

    def compute(a: Any, b: Any, p: Any) -> Any:
        if len(p) == 1:
            return a if p[0] else b
        return np.where(p, a, b)

    kind = kind if kind[0] == "f" else "b" + kind[1:]
    return Pure(compute=compute, sources=(kind, kind, "pred"), result=kind)


def _slct(parts: tuple[str, ...]) -> Pure:
    """slct (9.7.6.4): a where c >= 0 (a NaN is not), else b."""
    rest = [p for p in parts[1:] if p != "ftz"]
    if len(rest) != 2 or rest[1] not in {"s32", "f32"}:
        raise NoRuleError("modifiers")
    kind = rest[0]
    if kind not in {"f32", "f64"}:
        kind = "b" + ints((kind,), kinds="bsu")[1:]
    return Pure(compute=three(lambda a, b, c: np.where(c >= 0, a, b)), sources=(kind, kind, rest[1]), result=kind)


RULES: dict[str, Rule] = {"setp": _setp, "set": _set, "selp": _selp, "slct": _slct}

"""Logic, shifts and bit fields (PTX ISA 9.7.1.14-9.7.1.22, 9.7.8)."""

from __future__ import annotations

from typing import Any

from difftest.devices.emulator.rules import DTYPES, NoRuleError, Pure, Rule, ints, only
from difftest.devices.emulator.typed import np, one


def _bitwise(ufunc: Any, arity: int) -> Rule:
    """and, or, xor, not (9.7.8.1-9.7.8.4), of predicates too."""

    def rule(parts: tuple[str, ...]) -> Pure:
        only(parts)
        kind = parts[-1]
        if kind not in {"pred", "b16", "b32", "b64"}:
            raise NoRuleError(f"type {kind}")
        return Pure(compute=ufunc, sources=(kind,) * arity, result=kind)

    return rule


def _cnot(parts: tuple[str, ...]) -> Pure:
    """cnot (9.7.8.5): 1 where the operand is 0, else 0."""
    only(parts)
    kind = ints(parts, kinds="b")
    return Pure(compute=one(lambda a: (a == 0).astype(a.dtype)), sources=(kind,), result=kind)


def _lop3(parts: tuple[str, ...]) -> Pure:
    """lop3 (9.7.8.6): any function of three bits, as a table of eight."""
    if parts != ("lop3", "b32"):
        raise NoRuleError("modifiers")

    def compute(a: Any, b: Any, c: Any, table: Any) -> Any:
        found = np.zeros((), np.int32)
        number = int(table.flat[0])
        for row in range(8):
            if number >> row & 1:
                found = found | ((a if row & 4 else ~a) & (b if row & 2 else ~b) & (c if row & 1 else ~c))
        return np.atleast_1d(found)

    return Pure(compute=compute, sources=("b32", "b32", "b32", "b32"), result="b32")


def _shift(parts: tuple[str, ...]) -> Pure:
    """shl, shr (9.7.8.8, 9.7.8.9): amounts are u32, more than the width counts as the width."""
    only(parts)
    left = parts[0] == "shl"
    kind = ints(parts, kinds="b" if left else "bsu")
    width = int(kind[1:])
    work = "s" + kind[1:] if left or kind[0] == "s" else "u" + kind[1:]
    dtype = DTYPES[work]
    ufunc = np.left_shift if left else np.right_shift
    largest, zero = np.uint32(width), dtype.type(0)

    def compute(a: Any, b: Any) -> Any:
        if len(b) == 1:
            amount = int(b[0])
            if amount < width:
                return ufunc(a, dtype.type(amount))
            return a >> dtype.type(width - 1) if work[0] == "s" and not left else np.zeros_like(a)
        inside = b < largest
        amount = np.minimum(b, width - 1).astype(dtype)
        found = ufunc(a, amount)
        if work[0] == "s" and not left:
            return found
        return np.where(inside, found, zero)

    return Pure(compute=compute, sources=(work, "u32"), result=work)


def _shf(parts: tuple[str, ...]) -> Pure:
    """shf (9.7.8.7): a funnel shift of the pair (b, a); `wrap` takes the amount modulo 32, `clamp` at most 32."""
    if len(parts) != 4 or parts[1] not in {"l", "r"} or parts[2] not in {"wrap", "clamp"} or parts[3] != "b32":
        raise NoRuleError("modifiers")
    left, wrap = parts[1] == "l", parts[2] == "wrap"

    def compute(a: Any, b: Any, c: Any) -> Any:
        pair = (b.astype(np.uint64) << np.uint64(32)) | a.astype(np.uint64)
        amount = ((c & np.uint32(31)) if wrap else np.minimum(c, np.uint32(32))).astype(np.uint64)
        if not left:
            return (pair >> amount).astype(np.uint32)
        # By 32 at most: the upper half of the pair shifted left.
        return np.where(
            amount == 32, a, ((pair << np.minimum(amount, np.uint64(31))) >> np.uint64(32)).astype(np.uint32)
        ).astype(np.uint32)

    return Pure(compute=compute, sources=("u32", "u32", "u32"), result="u32")


def _popc(parts: tuple[str, ...]) -> Pure:
    """popc (9.7.1.14)."""
    only(parts)
    kind = "u" + ints(parts, (32, 64), "b")[1:]
    return Pure(compute=one(lambda a: np.bitwise_count(a).astype(np.uint32)), sources=(kind,), result="u32")


def leading(a: Any) -> Any:
    """The position of the most significant set bit of unsigned numbers; -1 when there is none."""
    found = np.full(a.shape, -1, np.int32)
    rest = a.astype(np.uint64)
    for step in (32, 16, 8, 4, 2, 1):
        large = (rest >> np.uint64(step)) != 0
        found[large] += step
        rest = np.where(large, rest >> np.uint64(step), rest)
    found[rest != 0] += 1
    return found


def _clz(parts: tuple[str, ...]) -> Pure:
    """clz (9.7.1.15): of 0, the width."""
    only(parts)
    kind = "u" + ints(parts, (32, 64), "b")[1:]
    width = int(kind[1:])
    return Pure(compute=one(lambda a: (width - 1 - leading(a)).astype(np.uint32)), sources=(kind,), result="u32")


def _bfind(parts: tuple[str, ...]) -> Pure:
    """bfind (9.7.1.16): the most significant bit that is not the sign; `shiftamt`: how far it is from the top."""
    kind = ints(parts, (32, 64))
    only(parts, "shiftamt")
    width = int(kind[1:])

    def compute(a: Any) -> Any:
        bits = np.where(a < 0, ~a, a).view(f"u{width // 8}") if kind[0] == "s" else a
        found = leading(bits)
        if "shiftamt" in parts:
            found = np.where(found < 0, found, width - 1 - found)
        return found.astype(np.int32).view(np.uint32)

    return Pure(compute=compute, sources=(kind,), result="u32")


def _brev(parts: tuple[str, ...]) -> Pure:
    """brev (9.7.1.18)."""
    only(parts)
    kind = "u" + ints(parts, (32, 64), "b")[1:]
    width = int(kind[1:])

    def compute(a: Any) -> Any:
        found = a.byteswap()
        for step, mask in ((4, 0x0F0F0F0F0F0F0F0F), (2, 0x3333333333333333), (1, 0x5555555555555555)):
            pattern, shift = a.dtype.type(mask & ((1 << width) - 1)), a.dtype.type(step)
            found = ((found >> shift) & pattern) | ((found & pattern) << shift)
        return found

    return Pure(compute=compute, sources=(kind,), result=kind)


def _bfe(parts: tuple[str, ...]) -> Pure:
    """bfe (9.7.1.19): `c` bits from position `b`; beyond the top come copies of the sign (s) or zeros (u)."""
    only(parts)
    kind = ints(parts, (32, 64))
    width = int(kind[1:])

    def compute(a: Any, b: Any, c: Any) -> Any:
        position, length = (b & np.uint32(0xFF)).astype(np.int64), (c & np.uint32(0xFF)).astype(np.int64)
        unsigned = np.ascontiguousarray(a).view(f"u{width // 8}").astype(np.uint64)
        moved = np.where(position >= width, 0, unsigned >> np.minimum(position, 63).astype(np.uint64))
        mask = np.where(length >= 64, ~np.uint64(0), (np.uint64(1) << np.minimum(length, 63).astype(np.uint64)) - 1)
        found = moved & mask
        if kind[0] == "u":
            return found.astype(DTYPES[kind])
        last = np.minimum(position + length - 1, width - 1)
        sign = (length != 0) & ((unsigned >> np.maximum(last, 0).astype(np.uint64)) & np.uint64(1)).astype(bool)
        known = np.clip(np.minimum(length, width - position), 0, 64)
        fill = np.where(known >= 64, np.uint64(0), ~np.uint64(0) << np.minimum(known, 63).astype(np.uint64))
        return np.where(sign, found | fill, found).astype(f"u{width // 8}").view(DTYPES[kind])

    return Pure(compute=compute, sources=(kind, "u32", "u32"), result=kind)


def _bfi(parts: tuple[str, ...]) -> Pure:
    """bfi (9.7.1.20): the low `d` bits of a put into b at position c."""
    only(parts)
    kind = "u" + ints(parts, (32, 64), "b")[1:]
    width = int(kind[1:])

    def compute(a: Any, b: Any, c: Any, d: Any) -> Any:
        position, length = (c & np.uint32(0xFF)).astype(np.uint64), (d & np.uint32(0xFF)).astype(np.uint64)
        ones = np.where(length >= 64, ~np.uint64(0), (np.uint64(1) << np.minimum(length, np.uint64(63))) - np.uint64(1))
        at = np.minimum(position, np.uint64(63))
        mask = np.where(position >= width, np.uint64(0), ones << at)
        x, y = a.astype(np.uint64), b.astype(np.uint64)
        return ((y & ~mask) | ((x << at) & mask)).astype(DTYPES[kind])

    return Pure(compute=compute, sources=(kind, kind, "u32", "u32"), result=kind)


def _fns(parts: tuple[str, ...]) -> Pure:
    """fns (9.7.1.17) is not produced here."""
    raise NoRuleError(parts[0])


_PRMT = {
    "f4e": [[(k + i) & 7 for i in range(4)] for k in range(4)],
    "b4e": [[(k - i) & 7 for i in range(4)] for k in range(4)],
    "rc8": [[k] * 4 for k in range(4)],
    "ecl": [[max(k, i) for i in range(4)] for k in range(4)],
    "ecr": [[min(k, i) for i in range(4)] for k in range(4)],
    "rc16": [[0, 1, 0, 1], [2, 3, 2, 3], [0, 1, 0, 1], [2, 3, 2, 3]],
}


def _prmt(parts: tuple[str, ...]) -> Pure:
    """prmt (9.7.9.7): four bytes picked out of eight; in the general form bit 3 of a selector copies the sign."""
    mode = parts[2] if len(parts) == 3 else ""
    if parts[1:2] != ("b32",) or len(parts) > 3 or (mode and mode not in _PRMT):
        raise NoRuleError("modifiers")
    table = np.array(_PRMT[mode]) if mode else None

    def compute(a: Any, b: Any, c: Any) -> Any:
        n = max(len(a), len(b), len(c))
        a, b, c = (np.broadcast_to(x, n) for x in (a, b, c))
        pool = np.concatenate([np.ascontiguousarray(x).view(np.uint8).reshape(-1, 4) for x in (a, b)], axis=1)
        if table is not None:
            picked = np.take_along_axis(pool, table[c & np.uint32(3)], axis=1)
        else:
            selector = (c[:, None] >> np.array([0, 4, 8, 12], np.uint32)) & np.uint32(15)
            picked = np.take_along_axis(pool, (selector & np.uint32(7)).astype(np.int64), axis=1)
            sign = np.where(picked >= 128, 0xFF, 0).astype(np.uint8)
            picked = np.where(selector >= 8, sign, picked)
        return np.ascontiguousarray(picked).view(np.uint32).reshape(-1)

    return Pure(compute=compute, sources=("u32", "u32", "u32"), result="u32")


def _bmsk(parts: tuple[str, ...]) -> Pure:
    """bmsk (9.7.1.22): b ones from position a."""
    if len(parts) != 3 or parts[1] not in {"clamp", "wrap"} or parts[2] != "b32":
        raise NoRuleError("modifiers")
    wrap = parts[1] == "wrap"

    def compute(a: Any, b: Any) -> Any:
        at, length = a.astype(np.uint64), b.astype(np.uint64)
        at = at & np.uint64(31) if wrap else np.minimum(at, np.uint64(32))
        length = length & np.uint64(31) if wrap else np.minimum(length, np.uint64(32))
        return (((np.uint64(1) << length) - np.uint64(1)) << at).astype(np.uint32)

    return Pure(compute=compute, sources=("u32", "u32"), result="u32")


def _szext(parts: tuple[str, ...]) -> Pure:
    """szext (9.7.1.21): the low b bits of a, extended by sign or zeros."""
    if len(parts) != 3 or parts[1] not in {"clamp", "wrap"}:
        raise NoRuleError("modifiers")
    kind, wrap = ints(parts, (32,)), parts[1] == "wrap"

    def compute(a: Any, b: Any) -> Any:
        length = (b & np.uint32(31) if wrap else np.minimum(b, np.uint32(32))).astype(np.int64)
        shift = 64 - length
        safe = np.minimum(shift, 63)
        wide = a.astype(np.int64) << safe
        found = wide >> safe if kind[0] == "s" else (wide.view(np.uint64) >> safe.astype(np.uint64))
        return np.where(length == 0, 0, found).astype(DTYPES[kind])

    return Pure(compute=compute, sources=(kind, "u32"), result=kind)


RULES: dict[str, Rule] = {
    "and": _bitwise(np.bitwise_and, 2),
    "or": _bitwise(np.bitwise_or, 2),
    "xor": _bitwise(np.bitwise_xor, 2),
    "not": _bitwise(np.invert, 1),
    "cnot": _cnot,
    "lop3": _lop3,
    "shl": _shift,
    "shr": _shift,
    "shf": _shf,
    "popc": _popc,
    "clz": _clz,
    "bfind": _bfind,
    "brev": _brev,
    "bfe": _bfe,
    "bfi": _bfi,
    "fns": _fns,
    "prmt": _prmt,
    "bmsk": _bmsk,
    "szext": _szext,
}

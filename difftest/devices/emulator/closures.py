"""Closures over a wave's registers: what an instruction does when it is executed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from difftest.devices.emulator.faults import unsupported
from difftest.devices.emulator.rules import Step, Steps
from difftest.devices.emulator.syntax import Instruction
from difftest.devices.emulator.typed import many, np, one, two

where: Any = np.where
count_nonzero: Any = np.count_nonzero
Compute = Callable[..., Any]


def nothing(w: Any) -> None:
    """A step without effect."""
    del w


def in_order(steps: list[Step]) -> Step:
    """Several steps as one."""

    def run(w: Any) -> None:
        for step in steps:
            step(w)

    return run


def assign(w: Any, slot: int, value: Any) -> None:
    """Put a value for all lanes into a register, under the mask."""
    w.r[slot] = value if w.mask is None else where(w.mask, value, w.r[slot])


def refusing(instruction: Instruction, message: str) -> Steps:
    def run(w: Any) -> None:
        del w
        raise unsupported(message, line=instruction.line)

    return run, run


def guarded(steps: Steps, slot: int, *, negated: bool) -> Step:
    """A predicated instruction (PTX ISA 9.3): executed by the lanes whose predicate is true."""
    full, masked = steps

    def run(w: Any) -> None:
        p = w.r[slot]
        if len(p) == 1:
            if bool(p[0]) != negated:
                (full if w.mask is None else masked)(w)
            return
        if negated:
            p = ~p
        old, count = w.mask, w.count
        chosen = p if old is None else p & old
        active = int(count_nonzero(chosen))
        if active == 0:
            return
        w.set_mask(chosen, active)
        masked(w)
        w.set_mask(old, count)

    return run


def with_casts(compute: Any, sources: list[Any], result: Any) -> Any:
    """`compute` with its operands and result turned into what it, and the register, want."""
    casts = [s[2] if s[1] is not None else None for s in sources]
    if any(s[1] == "narrow" for s in sources):
        compute = _with_narrowing(compute, [(s[1], s[2]) for s in sources])
    elif any(c is not None for c in casts):
        compute = _with_views(compute, [s[2] for s in sources])
    if result is None:
        return compute
    if result[0] == "view":
        return _viewed(compute, result[1], len(sources))
    return _widened(compute, result[1], result[2])


def _with_narrowing(compute: Any, casts: list[tuple[Any, Any]]) -> Any:
    def found(*args: Any) -> Any:
        ready: list[Any] = []
        for value, (how, dtype) in zip(args, casts, strict=True):
            if how == "narrow":
                bits = value.view(f"i{value.dtype.itemsize}") if value.dtype.kind == "f" else value
                ready.append(bits.astype(f"u{dtype.itemsize}").view(dtype))
            else:
                ready.append(value.view(dtype) if how == "view" else value)
        return compute(*ready)

    return found


def _with_views(compute: Any, dtypes: list[Any]) -> Any:
    if len(dtypes) == 1:
        (x,) = dtypes
        return one(lambda a: compute(a.view(x)))
    if len(dtypes) == 2:
        x, y = dtypes
        return two(lambda a, b: compute(a.view(x), b.view(y)))
    return many(lambda *args: compute(*(a.view(d) for a, d in zip(args, dtypes, strict=True))))


def _viewed(compute: Any, dtype: Any, arity: int) -> Any:
    if arity == 1:
        return one(lambda a: compute(a).view(dtype))
    if arity == 2:
        return two(lambda a, b: compute(a, b).view(dtype))
    return many(lambda *args: compute(*args).view(dtype))


def _widened(compute: Any, integer: Any, dtype: Any) -> Any:
    if integer == dtype:
        return many(lambda *args: compute(*args).astype(dtype))
    return many(lambda *args: compute(*args).astype(integer).view(dtype))


def _full1(f: Any, d: int, s: list[int]) -> Step:
    (a,) = s

    def run(w: Any) -> None:
        r = w.r
        r[d] = f(r[a])

    return run


def _full2(f: Any, d: int, s: list[int]) -> Step:
    a, b = s

    def run(w: Any) -> None:
        r = w.r
        r[d] = f(r[a], r[b])

    return run


def _full3(f: Any, d: int, s: list[int]) -> Step:
    a, b, c = s

    def run(w: Any) -> None:
        r = w.r
        r[d] = f(r[a], r[b], r[c])

    return run


def _full4(f: Any, d: int, s: list[int]) -> Step:
    def run(w: Any) -> None:
        r = w.r
        r[d] = f(*(r[a] for a in s))

    return run


def _masked(f: Any, d: int, s: list[int]) -> Step:
    def run(w: Any) -> None:
        r = w.r
        r[d] = where(w.mask, f(*[r[a] for a in s]), r[d])

    return run


FULL: dict[int, Any] = {1: _full1, 2: _full2, 3: _full3, 4: _full4}
MASKED: dict[int, Any] = dict.fromkeys((1, 2, 3, 4), _masked)

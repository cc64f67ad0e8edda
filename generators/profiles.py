"""Profiles: which constructs, with which weights, under which limits. Data only.

A weight of 0 leaves a construct out. `default` keeps to what the compilers under test do not document as
unsupported (PIPELINES.md §1 results, PASSES.md §7, SEMANTICS §11 rule coverage); `integer` and `scalar-float`
widen scalar code, `kernel`, `parallel` and `autodiff` bend the mix.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from difftest.errors import UsageError

HOST: Mapping[str, int] = MappingProxyType(
    {
        "parallel": 34,
        "affine-parallel": 24,
        "wrapper": 16,
        "host-loop": 6,
        "host-if": 4,
        "serial-nest": 6,
        "launch-family": 4,
        "reduction": 6,
        "region": 5,
        "call": 3,
    }
)
"""What the entry function is made of."""

BODY: Mapping[str, int] = MappingProxyType(
    {
        "scalar": 60,
        "load": 14,
        "store": 7,
        "for": 6,
        "if": 6,
        "affine-for": 4,
        "affine-if": 3,
        "parallel": 6,
        "affine-parallel": 4,
        "reduction": 3,
        "local": 4,
        "update": 3,
        "dimension": 1,
        "affine-apply": 3,
        "affine-reduction": 2,
        "call": 2,
        "cast-view": 1,
        "subview": 1,
    }
)
"""What the body of a host-level parallel, loop or branch is made of."""

THREAD: Mapping[str, int] = MappingProxyType(
    {
        "scalar": 60,
        "load": 14,
        "store": 7,
        "for": 6,
        "if": 5,
        "affine-for": 2,
        "parallel": 4,
        "local": 4,
        "stack": 5,
        "update": 3,
        "region": 6,
    }
)
"""What one thread of a kernel is made of."""

REGION: Mapping[str, int] = MappingProxyType(
    {"scalar": 60, "load": 22, "store": 7, "for": 6, "if": 5, "affine-for": 3, "parallel": 5, "update": 3}
)
"""What differentiated code is made of: no reductions, whiles, copies or frees (SEMANTICS §11, refused structure)."""

FUNCTION: Mapping[str, int] = MappingProxyType({"scalar": 80, "if": 6, "for": 5, "local": 3})
"""What a private scalar function is made of."""

INTEGER_OPS: Mapping[str, int] = MappingProxyType(
    {
        "addi": 12,
        "subi": 10,
        "muli": 8,
        "andi": 5,
        "ori": 5,
        "xori": 6,
        "minsi": 4,
        "maxsi": 4,
        "minui": 2,
        "maxui": 2,
        "select": 7,
        "shli": 4,
        "shrsi": 3,
        "shrui": 3,
        "divsi": 3,
        "divui": 2,
        "remsi": 3,
        "remui": 3,
        "cast": 14,
        "ceildivsi": 0,
        "floordivsi": 0,
        "bits": 0,
        "extended": 0,
    }
)

BOOLEAN_OPS: Mapping[str, int] = MappingProxyType({"cmpi": 10, "cmpf": 6, "andi": 2, "ori": 2, "xori": 3, "trunci": 1})

FLOAT_OPS: Mapping[str, int] = MappingProxyType(
    {
        "addf": 14,
        "subf": 12,
        "mulf": 12,
        "negf": 4,
        "absf": 3,
        "minimumf": 4,
        "maximumf": 4,
        "select": 6,
        "fma": 4,
        "floor": 2,
        "ceil": 2,
        "copysign": 2,
        "cast": 10,
        "trunc": 0,
        "roundeven": 0,
        "round": 0,
    }
)

ACTIVE_OPS: Mapping[str, int] = MappingProxyType(
    {"addf": 12, "subf": 10, "mulf": 16, "negf": 4, "absf": 2, "select": 5, "fma": 3, "maximumf": 3, "minimumf": 3}
)
"""Float ops in differentiated code: those with an adjoint rule on 0.0.16 (SEMANTICS §11)."""

TYPES: Mapping[str, int] = MappingProxyType(
    {"f64": 24, "f32": 18, "i32": 14, "i64": 12, "index": 8, "i1": 4, "i8": 4, "i16": 4, "f16": 0, "bf16": 0}
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Profile:
    """Weights and limits of one kind of program.

    `ops` is the range from which a program's size target is drawn; `dynamic` the percentage of buffers with
    dynamic dimensions (bounds taken from arguments: half of it), `inner` that of those in which any dimension may be
    the dynamic one and not just the first (convert-polygeist-to-llvm dies on such types on every version);
    `elements` the most iterations of a whole nest; `depth` and `rank` the limits of parallel nests; `flags` the
    percentage of integer ops that carry the overflow flags their operands honour; `slots` the percentage of kernels
    that start like the first documented case, with stack slots and a differentiated region; `active` the float ops
    that may be differentiated.
    """

    name: str
    host: Mapping[str, int] = field(default_factory=lambda: HOST)
    body: Mapping[str, int] = field(default_factory=lambda: BODY)
    thread: Mapping[str, int] = field(default_factory=lambda: THREAD)
    function: Mapping[str, int] = field(default_factory=lambda: FUNCTION)
    region: Mapping[str, int] = field(default_factory=lambda: REGION)
    integer: Mapping[str, int] = field(default_factory=lambda: INTEGER_OPS)
    boolean: Mapping[str, int] = field(default_factory=lambda: BOOLEAN_OPS)
    floating: Mapping[str, int] = field(default_factory=lambda: FLOAT_OPS)
    active: Mapping[str, int] = field(default_factory=lambda: ACTIVE_OPS)
    types: Mapping[str, int] = field(default_factory=lambda: TYPES)
    ops: tuple[int, int] = (18, 44)
    depth: int = 3
    rank: int = 6
    elements: int = 256
    dynamic: int = 35
    inner: int = 8
    flags: int = 20
    slots: int = 20


def _with(base: Mapping[str, int], **changes: int) -> Mapping[str, int]:
    return MappingProxyType(dict(base) | {name.replace("_", "-"): weight for name, weight in changes.items()})


_DEFAULT = Profile(name="default")

_PARALLEL = Profile(
    name="parallel",
    host=_with(HOST, wrapper=0, region=0, call=0, host_loop=10, reduction=14),
    body=_with(BODY, parallel=12, affine_parallel=9, reduction=6),
)

_KERNEL = Profile(
    name="kernel",
    host=_with(dict.fromkeys(HOST, 0), wrapper=20, parallel=1),
    thread=_with(THREAD, region=9, parallel=6, stack=7),
    types=_with(TYPES, i8=1, i16=1),
)

_AUTODIFF = Profile(
    name="autodiff",
    host=_with(dict.fromkeys(HOST, 0), region=20, wrapper=3, call=0, parallel=2),
    thread=_with(THREAD, region=24),
    types=MappingProxyType({"f64": 30, "f32": 12, "i32": 4, "index": 3, "i1": 2, "i64": 3}),
)

_AUTODIFF_15 = replace(
    _AUTODIFF,
    name="autodiff-e15",
    active=_with(ACTIVE_OPS, fma=0, maximumf=0, minimumf=0),
)

_INTEGER = Profile(
    name="integer",
    host=_with(HOST, region=0, wrapper=6),
    thread=_with(THREAD, region=0),
    types=MappingProxyType({"i32": 20, "i64": 16, "index": 14, "i8": 12, "i16": 10, "i1": 10, "f64": 1}),
    integer=_with(INTEGER_OPS, ceildivsi=2, floordivsi=2, bits=4, extended=3),
    flags=45,
)

_SCALAR_FLOAT = Profile(
    name="scalar-float",
    host=_with(HOST, region=0, wrapper=6),
    thread=_with(THREAD, region=0),
    types=MappingProxyType({"f64": 20, "f32": 20, "f16": 8, "bf16": 8, "i32": 5, "i64": 3, "i1": 4, "index": 2}),
    floating=_with(FLOAT_OPS, trunc=2, roundeven=2, round=2, cast=20),
)

PROFILES: Mapping[str, Profile] = MappingProxyType(
    {p.name: p for p in (_DEFAULT, _PARALLEL, _KERNEL, _AUTODIFF, _AUTODIFF_15, _INTEGER, _SCALAR_FLOAT)}
)
"""All profiles by name."""


def find_profile(name: str) -> Profile:
    """The profile called `name`. Raises UsageError with the known names."""
    profile = PROFILES.get(name)
    if profile is None:
        raise UsageError(f"unknown generator profile {name!r}; known: {', '.join(PROFILES)}")
    return profile

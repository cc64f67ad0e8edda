"""Rewrites generic text between toolchain versions.

The *house spelling*, used everywhere inside our processes, is that of the bindings and of enzyme-ad 0.0.14/15. What
differs was established by giving both forms of every construct to every toolchain (BINDINGS C4 and the tables here):

* enum attributes that MLIR prints in its default form: `#gpu<dim x>` (house), `#gpu.dim<x>` (0.0.16 on). Each side
  refuses the other's form, and the names concerned are few, so they are listed;
* properties of a handful of ops (barriers, launches, loads, globals), and where `gpu.func` keeps its name;
* for the bindings only, ops with regions of dialects they do not have: their verifier crashes on unregistered ones,
  so they travel as ops of `dtx`, a dialect defined at run time.

`to_house` accepts what it cannot express in house spelling unchanged; `from_house` raises SpellingError for a construct
that the target does not have.  Strings and comments are never touched.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial

from difftest.ir.rewriting import Rule, Rules, Site, edit, make_rules, replace_outside_strings
from difftest.ir.wrapping import (
    SpellingError,
    bindings_dialect,
    bindings_terminators,
    unwrap_from_bindings,
    wrap_for_bindings,
)

__all__ = [
    "ENUMS",
    "SpellingError",
    "bindings_dialect",
    "bindings_terminators",
    "from_house",
    "to_house",
    "unwrap_from_bindings",
    "wrap_for_bindings",
]

ENUMS: Mapping[str, frozenset[str]] = {
    "enzyme": frozenset({"activity"}),
    "enzymexla": frozenset({"guaranteed"}),
    "gpu": frozenset(
        {
            "all_reduce_op",
            "broadcast",
            "dim",
            "mat_transpose_mode",
            "mma_element_wise",
            "prune_2to4_spmat_flag",
            "shuffle_mode",
            "spgemm_work_estimation_or_compute_kind",
        }
    ),
    "nvgpu": frozenset({"rcp_rounding_mode", "swizzle"}),
    "nvvm": frozenset(
        {
            "action",
            "cache_eviction_priority",
            "load_cache_modifier",
            "match_sync_kind",
            "prefetch_cache_level",
            "reduction_kind",
            "shfl_kind",
            "vote_sync_kind",
        }
    ),
    "omp": frozenset({"memoryorderkind", "orderkind", "procbindkind", "schedulekind"}),
}
"""Enum attributes by dialect that house spelling writes `#dialect<name value>` and 0.0.16 `#dialect.name<value>`."""

_ENZYME_LACKS = frozenset(
    {
        "acc",
        "amdgpu",
        "amx",
        "arm_neon",
        "arm_sme",
        "arm_sve",
        "bufferization",
        "emitc",
        "index",
        "irdl",
        "mesh",
        "ml_program",
        "mpi",
        "pdl_interp",
        "ptr",
        "quant",
        "shape",
        "shard",
        "smt",
        "spirv",
        "tosa",
        "wasmssa",
        "x86vector",
        "xegpu",
        "xevm",
    }
)
"""Upstream dialects that no enzyme-ad wheel registers, so that their ops do not even parse there."""

_SINCE: Mapping[str, tuple[int, ...]] = {
    "enzyme.atomic_rmw": (0, 0, 15),
    "enzyme.binomial_progress": (0, 0, 15),
    "enzyme.fill_zero": (0, 0, 15),
    "enzymexla.get_global_temp": (0, 0, 16),
    "enzymexla.temp_alloc": (0, 0, 16),
}
"""The first enzyme-ad version that has an op, for ops that 0.0.14 lacks."""

# --- toolchains ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Traits:
    """What a toolchain's spelling looks like, as far as it differs between the toolchains we know."""

    label: str
    version: tuple[int, ...] | None
    dotted: bool = False
    launch_segments: int = 11
    barrier_scope: bool = False
    barrier_segments: int = 3
    invariant: bool = False
    tls_mode: bool = False
    atomic_add: bool = True
    static_sizes: bool = True
    masked_alignment: str = "i32"
    index_constants: bool = True
    wrapped: bool = False


@lru_cache(maxsize=64)
def _traits(label: str) -> _Traits:
    kind, _, text = label.partition("@")
    if kind != "enzyme-ad":
        return _Traits(label=label, version=None, wrapped=label == "mlir")
    version = tuple(int(part) for part in re.findall(r"\d{1,9}", text)[:3])
    newer, newest = version >= (0, 0, 15), version >= (0, 0, 16)
    return _Traits(
        label=label,
        version=version,
        dotted=newest,
        launch_segments=12 if newest else 11,
        barrier_scope=newer,
        barrier_segments=2 if newer else 3,
        invariant=newer,
        tls_mode=newest,
        atomic_add=newer,
        static_sizes=newer,
        masked_alignment="i64" if newest else "i32",
        index_constants=not newest,
    )


def to_house(text: str, *, source: str) -> str:
    """Text printed by the toolchain with label `source` (`enzyme-ad@0.0.16`, `mlir`, `opt:…`) in house spelling.

    Of pretty text only the enum attributes are rewritten. Raises ReadError for text with broken brackets.
    """
    text = _to_undotted(text)
    if _traits(source).wrapped:
        text = unwrap_from_bindings(text)
    return edit(text, _TO_HOUSE)


def from_house(text: str, *, target: str) -> str:
    """House-spelled text as the toolchain with label `target` accepts it.

    Raises SpellingError for a construct that the target does not have, ReadError for text with broken brackets.
    """
    traits = _traits(target)
    absent = _absent_rules(traits)
    if absent is not None:
        edit(text, absent)
    text = edit(text, _from_house_rules(traits))
    if traits.wrapped:
        text = wrap_for_bindings(text)
    return _to_dotted(text) if traits.dotted else text


# --- enum attributes ----------------------------------------------------------------------------------------

_DOTTED = re.compile(rf"#({'|'.join(ENUMS)})\.(\w+)<", re.ASCII)
_UNDOTTED = re.compile(rf"#({'|'.join(ENUMS)})<\s*(\w+)\s+", re.ASCII)


def _to_undotted(text: str) -> str:
    return replace_outside_strings(text, _DOTTED, lambda m: f"#{m[1]}<{m[2]} " if m[2] in ENUMS[m[1]] else m[0])


def _to_dotted(text: str) -> str:
    return replace_outside_strings(text, _UNDOTTED, lambda m: f"#{m[1]}.{m[2]}<" if m[2] in ENUMS[m[1]] else m[0])


# --- rules: to house ----------------------------------------------------------------------------------------

_WORKGROUP = "#gpu.barrier_scope<workgroup>"


def _segments(site: Site) -> list[str]:
    text = site.properties.get("operandSegmentSizes", "")
    found = re.fullmatch(r"array<i32:\s*(.*)>", text)
    return [] if found is None else [part.strip() for part in found[1].split(",")]


def _set_segments(site: Site, parts: Sequence[str]) -> None:
    site.properties["operandSegmentSizes"] = f"array<i32: {', '.join(parts)}>"


def _drop(name: str, value: str) -> Rule:
    def rule(site: Site) -> None:
        if site.properties.get(name) == value:
            del site.properties[name]

    return rule


def _launch_to_house(site: Site) -> None:
    parts = _segments(site)
    if len(parts) == 12 and parts[-1] == "0":
        _set_segments(site, parts[:-1])


def _nvvm_barrier_to_house(site: Site) -> None:
    if site.properties.get("aligned") == "true":
        del site.properties["aligned"]
    parts = _segments(site)
    if len(parts) == 2:
        _set_segments(site, [*parts, "0"])


def _set_masked_alignment(site: Site, type_: str) -> None:
    found = re.fullmatch(r"(\d+) : i(?:32|64)", site.properties.get("alignment", ""))
    if found is not None:
        site.properties["alignment"] = f"{found[1]} : {type_}"


def _masked_to_house(site: Site) -> None:
    _set_masked_alignment(site, "i32")


def _function_to_house(site: Site) -> None:
    if site.regions:
        site.attributes["sym_name"] = site.properties.pop("sym_name")


_MASKED = tuple(f"llvm.intr.masked.{kind}" for kind in ("gather", "load", "scatter", "store"))
_TO_HOUSE = make_rules(
    {
        **dict.fromkeys(_MASKED, _masked_to_house),
        "gpu.barrier": _drop("scope", _WORKGROUP),
        "gpu.func": _function_to_house,
        "gpu.launch": _launch_to_house,
        "llvm.mlir.global": _drop("tls_mode", "0 : i64"),
        "memref.load": _drop("invariant", "false"),
        "nvvm.barrier": _nvvm_barrier_to_house,
    },
    regions=lambda site: "sym_name" in site.properties and site.name == "gpu.func",
    marks=(
        _WORKGROUP,
        '"gpu.func"',
        '"gpu.launch"',
        "tls_mode = ",
        "invariant = ",
        '"nvvm.barrier"',
        '"llvm.intr.masked.',
    ),
)


# --- rules: from house --------------------------------------------------------------------------------------


def _refuse(traits: _Traits, site: Site, what: str) -> None:
    raise SpellingError(site.name, f"{traits.label} has no {what}")


def _barrier(traits: _Traits, site: Site) -> None:
    if "scope" in site.properties and not traits.barrier_scope:
        _refuse(traits, site, f"scope {site.properties['scope']}")


def _launch(traits: _Traits, site: Site) -> None:
    parts = _segments(site)
    if len(parts) == 11 and traits.launch_segments == 12:
        _set_segments(site, [*parts, "0"])
    elif len(parts) == 12 and traits.launch_segments == 11:
        _refuse(traits, site, "twelfth operand segment")


def _nvvm_barrier(traits: _Traits, site: Site) -> None:
    if "aligned" in site.properties and traits.barrier_segments == 3:
        _refuse(traits, site, "unaligned form")
    parts = _segments(site)
    if len(parts) == 3 and traits.barrier_segments == 2:
        if parts[2] != "0":
            _refuse(traits, site, "third operand segment")
        _set_segments(site, parts[:2])


def _load(traits: _Traits, site: Site) -> None:
    if "invariant" in site.properties and not traits.invariant:
        _refuse(traits, site, "invariant loads")


def _global(traits: _Traits, site: Site) -> None:
    if "tls_mode" in site.properties and not traits.tls_mode:
        _refuse(traits, site, "tls_mode")


def _derivative(traits: _Traits, site: Site) -> None:
    if site.properties.get("atomic_add") == "true" and not traits.atomic_add:
        _refuse(traits, site, "atomic_add")


def _cache_access(traits: _Traits, site: Site) -> None:
    if "static_sizes" in site.properties and not traits.static_sizes:
        _refuse(traits, site, "static sizes")


def _masked(traits: _Traits, site: Site) -> None:
    _set_masked_alignment(site, traits.masked_alignment)


def _constant(traits: _Traits, site: Site) -> None:
    """0.0.16 wants the value's type to be the result's; the others print (and keep) `index` values of lowered code."""
    value = site.properties.get("value", "")
    found = re.fullmatch(r":\s*\(\)\s*->\s*(i\d+)", site.rest)
    if found is not None and value.endswith(" : index") and not traits.index_constants:
        site.properties["value"] = value.removesuffix("index") + found[1]


def _absent(traits: _Traits, site: Site) -> None:
    raise SpellingError(site.name, f"{traits.label} does not have this operation")


_FROM_HOUSE: Mapping[str, Callable[[_Traits, Site], None]] = {
    "enzyme.autodiff": _derivative,
    "enzyme.autodiff_region": _derivative,
    "enzyme.load": _cache_access,
    "enzyme.store": _cache_access,
    "gpu.barrier": _barrier,
    "gpu.launch": _launch,
    **dict.fromkeys(_MASKED, _masked),
    "llvm.mlir.constant": _constant,
    "llvm.mlir.global": _global,
    "memref.load": _load,
    "nvvm.barrier": _nvvm_barrier,
}


@lru_cache(maxsize=64)
def _from_house_rules(traits: _Traits) -> Rules:
    return make_rules(
        {name: partial(rule, traits) for name, rule in _FROM_HOUSE.items()},
        marks=(
            "scope = ",
            '"gpu.launch"',
            "tls_mode = ",
            "invariant = ",
            '"nvvm.barrier"',
            "atomic_add = true",
            '"llvm.intr.masked.',
            '"enzyme.load"',
            '"enzyme.store"',
            *(() if traits.index_constants else ('"llvm.mlir.constant"',)),
        ),
    )


@lru_cache(maxsize=64)
def _absent_rules(traits: _Traits) -> Rules | None:
    """What refuses the ops that a toolchain does not have; the bindings take any op that they do not know."""
    version = traits.version
    if version is None:
        return None
    absent = partial(_absent, traits)
    missing = [name for name, since in _SINCE.items() if version < since]
    return make_rules(dict.fromkeys(missing, absent), dict.fromkeys(sorted(_ENZYME_LACKS), absent))

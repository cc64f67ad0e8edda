"""The spelling of text for the MLIR Python bindings, which know none of enzyme's dialects.

Their verifier takes an unregistered op with regions for a possible symbol table and crashes or refuses (BINDINGS, "What
shapes the design", 1), so such ops and the terminators of their regions travel as ops of `dtx`, a dialect defined at
run time through IRDL (BINDINGS C4, rules 7 and 8). All other enzyme ops stay unregistered.
"""

from __future__ import annotations

from difftest.errors import UsageError
from difftest.ir.rewriting import Site, edit, make_rules


class SpellingError(UsageError):
    """A construct that the target toolchain cannot express. `op` names the operation."""

    def __init__(self, op: str, reason: str) -> None:
        super().__init__(f"{op}: {reason}")
        self.op = op
        self.reason = reason


_REGION_OPS = (
    "enzyme.autodiff_region",
    "enzyme.fwddiff_region",
    "enzyme.genericAdjoint",
    "enzymexla.alternatives",
    "enzymexla.comm_region",
    "enzymexla.gpu_block",
    "enzymexla.gpu_error",
    "enzymexla.gpu_thread",
    "enzymexla.gpu_wrapper",
    "enzymexla.scope",
)
_TERMINATORS = ("enzyme.yield", "enzymexla.polygeist_yield")
_MAXIMUM_REGIONS = 16
_PREFIX = "dtx."


def _bare(name: str) -> str:
    """The name within `dtx`. IRDL refuses capital letters."""
    return name.partition(".")[2].lower()


def bindings_dialect() -> str:
    """The IRDL text that defines `dtx`: load it once per context, then attach the terminator trait to
    `bindings_terminators()`. An op with n > 1 regions is called `dtx.<name>_<n>`, as IRDL has no variadic regions.
    """
    any_op = "%a = irdl.any irdl.operands(o: variadic %a) irdl.results(r: variadic %a)"
    ops = [f"irdl.operation @{_bare(name)} {{ {any_op} }}" for name in _TERMINATORS]
    for name in _REGION_OPS:
        bare = _bare(name)
        for count in range(1, _MAXIMUM_REGIONS + 1) if bare == "alternatives" else (1,):
            names = [f"%g{i}" for i in range(count)]
            regions = " ".join(f"{g} = irdl.region" for g in names)
            listed = ", ".join(f"b{i}: {g}" for i, g in enumerate(names))
            suffix = f"_{count}" if count > 1 else ""
            ops.append(f"irdl.operation @{bare}{suffix} {{ {any_op} {regions} irdl.regions({listed}) }}")
    return "irdl.dialect @dtx { " + " ".join(ops) + " }"


def bindings_terminators() -> tuple[str, ...]:
    """The ops of `dtx` that end a block."""
    return tuple(_PREFIX + _bare(name) for name in _TERMINATORS)


def wrap_for_bindings(text: str) -> str:
    """`text` with the region ops of enzyme and enzymexla turned into ops of `dtx` (BINDINGS C4, rules 7 and 8).

    Their properties become attributes `dtx.<name>`: ops of dialects defined at run time have no properties.
    """
    if not any(f'"{name}"' in text for name in _REGION_OPS):
        return text
    return edit(text, _WRAP)


def unwrap_from_bindings(text: str) -> str:
    """Undo `wrap_for_bindings`."""
    return edit(text, _UNWRAP) if '"dtx.' in text else text


def _wrap_op(site: Site) -> None:
    bare = _bare(site.name)
    if site.regions > (_MAXIMUM_REGIONS if bare == "alternatives" else 1):
        raise SpellingError(site.name, f"mlir cannot take it with {site.regions} regions")
    site.name = _PREFIX + bare + (f"_{site.regions}" if site.regions > 1 else "")
    if site.regions:
        site.attributes.update({_PREFIX + name: value for name, value in site.properties.items()})
        site.properties = {}


_ORIGINALS = {_bare(name): name for name in (*_REGION_OPS, *_TERMINATORS)}


def _unwrap_op(site: Site) -> None:
    bare = site.name.removeprefix(_PREFIX)
    stem, _, count = bare.rpartition("_")
    original = _ORIGINALS.get(bare) or (_ORIGINALS.get(stem) if count.isdecimal() else None)
    if original is None:
        return
    site.name = original
    moved = [name for name in site.attributes if name.startswith(_PREFIX)]
    for name in moved:
        site.properties[name.removeprefix(_PREFIX)] = site.attributes.pop(name)


_WRAP = make_rules(dict.fromkeys((*_REGION_OPS, *_TERMINATORS), _wrap_op), regions=lambda _: True)
_UNWRAP = make_rules({}, {"dtx": _unwrap_op}, regions=lambda _: True)

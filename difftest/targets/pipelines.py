"""Pass pipelines as data: the only file that holds pass strings. PIPELINES §1, PASSES §5.

A pipeline's text is what the pass manager reads, without `builtin.module(…)`. Named ones differ by compiler version
(`Variant`); literal ones may be prefixed by environment variables: `VAR=1 OTHER=x canonicalize,cse`.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum, auto

from packaging.version import InvalidVersion, Version

from difftest.errors import UsageError
from difftest.model import Pipeline


class Variant(Enum):
    """Compilers that need the same pass strings."""

    ENZYME_14 = auto()
    ENZYME_15 = auto()
    ENZYME_16 = auto()
    UPSTREAM = auto()


ENZYME = (Variant.ENZYME_14, Variant.ENZYME_15, Variant.ENZYME_16)
OLD = (Variant.ENZYME_14, Variant.ENZYME_15)
ALL = (*ENZYME, Variant.UPSTREAM)

# Any plain `canonicalize` merges a grid and a block loop into one; convert-parallel-to-gpu1 then makes `alternatives`,
# which convert-polygeist-to-llvm cannot lower unless one block size is chosen here (PIPELINES §1).
BLOCK_SIZE = {"POLYGEIST_GPU_KERNEL_BLOCK_SIZE": "64"}

CLEAN_PARALLEL = "canonicalize-parallel{parallel=false}"
OUTLINE = "lower-affine,func.func(gpu-map-parallel-loops),convert-parallel-loops-to-gpu,gpu-kernel-outlining"
ASYNC = f"{OUTLINE},func.func(gpu-async-region)"
KERNELS_TO_NVVM = (
    "gpu.module(lower-affine,expand-strided-metadata,lower-affine,convert-scf-to-cf,convert-gpu-to-nvvm,"
    "reconcile-unrealized-casts),gpu-module-to-binary{format=isa}"
)
CUT = {
    **dict.fromkeys(ENZYME, f"nvvm-attach-target{{chip=sm_90 O=2}},{KERNELS_TO_NVVM}"),
    Variant.UPSTREAM: f"nvvm-attach-target{{chip=sm_90 O=2 features=+ptx78}},{KERNELS_TO_NVVM}",
}
TO_LLVM = {
    **dict.fromkeys(ENZYME, "gpu-lower-to-nvvm-pipeline{cubin-format=isa cubin-chip=sm_90}"),
    Variant.UPSTREAM: "gpu-lower-to-nvvm-pipeline{cubin-format=isa cubin-chip=sm_90 cubin-features=+ptx78}",
}
# Production, version exact: raise.cpp of tags v0.0.14 and v0.0.15, commit 5850518b for 0.0.16.
DERIVATIVES = {
    Variant.ENZYME_14: "symbol-dce,outline-enzyme-regions,enzyme,remove-unnecessary-enzyme-ops",
    Variant.ENZYME_15: (
        "symbol-dce,outline-enzyme-regions,enzyme,canonicalize,split-multi-results,remove-unnecessary-enzyme-ops,"
        "flatten-enzyme-caches,enzyme-simplify-math,canonicalize,cse"
    ),
    Variant.ENZYME_16: (
        "symbol-dce,raise-llvm-ext,outline-enzyme-regions,sink-checkpoint-views,"
        'enzyme{postpasses="canonicalize,split-multi-results,remove-unnecessary-enzyme-ops,flatten-enzyme-caches,'
        'lower-enzyme-binomial-progress,hoist-loop-allocations,enzyme-simplify-math"},lower-llvm-ext,'
        "inline{default-pipeline=canonicalize max-iterations=4},polygeist-mem2reg,"
        f"{CLEAN_PARALLEL},symbol-dce,{CLEAN_PARALLEL},cse"
    ),
}
KERNELS = {
    **dict.fromkeys(
        OLD,
        "lower-affine,convert-parallel-to-gpu1,gpu-kernel-outlining,canonicalize,"
        "convert-parallel-to-gpu2{backend=cuda},lower-affine",
    ),
    Variant.ENZYME_16: (
        "lower-aligned-affine-accesses,lower-affine,lower-affine-atomic-rmw,convert-parallel-to-gpu1,symbol-dce,"
        f"gpu-kernel-outlining,{CLEAN_PARALLEL},symbol-dce,"
        "convert-parallel-to-gpu2{emitGPUKernelLaunchBounds=true backend=cuda},"
        "lower-aligned-affine-accesses,lower-affine"
    ),
}
HOST_TO_LLVM = {
    **dict.fromkeys(
        OLD,
        "parallel-serialization,canonicalize,convert-polygeist-to-llvm{backend=cuda},strip-gpu-info,"
        "gpu-module-to-binary{format=isa}",
    ),
    Variant.ENZYME_16: (
        f"parallel-serialization,{CLEAN_PARALLEL},hoist-allocas,convert-polygeist-to-llvm{{backend=cuda}},"
        "strip-gpu-info,enzymexla-gpu-module-to-binary{format=isa}"
    ),
}
DIFFERENTIATE = (
    "outline-enzyme-regions,enzyme,canonicalize,remove-unnecessary-enzyme-ops,canonicalize,enzyme-simplify-math,cse"
)
# Upstream passes that exist in mlir, mlir-opt 22 and all three enzyme-ad versions, keep results exact, end on a level
# the interpreter runs, and act on affine and scf parallel programs (PASSES §4, passes.json: preserves = exact).
PARALLEL_OPT = (
    "func.func(affine-loop-invariant-code-motion,affine-simplify-structures,affine-scalrep,affine-parallelize),"
    "scf-parallel-loop-fusion,scf-parallel-loop-tiling{parallel-loop-tile-sizes=4,4},lower-affine,canonicalize,"
    "loop-invariant-code-motion,scf-for-loop-peeling,sccp,cse"
)

_TABLE: Mapping[str, Mapping[Variant, str]] = {
    "enzyme-diff": dict.fromkeys(ENZYME, DIFFERENTIATE),
    "enzyme-cut": {v: f"{DERIVATIVES[v]},{KERNELS[v]},{CUT[v]}" for v in ENZYME},
    "enzyme-cuda": {v: f"{DERIVATIVES[v]},{KERNELS[v]},{HOST_TO_LLVM[v]}" for v in ENZYME},
    "nvvm": {v: f"{OUTLINE},{CUT[v]}" for v in ALL},
    "nvvm-async": {v: f"{ASYNC},{CUT[v]}" for v in ALL},
    "nvvm-llvm": {v: f"{OUTLINE},{TO_LLVM[v]}" for v in ALL},
    "nvvm-llvm-async": {v: f"{ASYNC},{TO_LLVM[v]}" for v in ALL},
    # Prefixes that end before the device code: what the interpreter runs by itself.
    "nvvm-outline": dict.fromkeys(ALL, OUTLINE),
    "nvvm-async-outline": dict.fromkeys(ALL, ASYNC),
    "enzyme-outline": {v: f"{DERIVATIVES[v]},{KERNELS[v]}" for v in ENZYME},
    "parallel-opt": dict.fromkeys(ALL, PARALLEL_OPT),
}
_ENVIRONMENT: Mapping[str, Mapping[str, str]] = {
    "enzyme-cut": BLOCK_SIZE,
    "enzyme-cuda": BLOCK_SIZE,
    "enzyme-outline": BLOCK_SIZE,
}

NAMES: tuple[str, ...] = tuple(_TABLE)
"""The named pipelines, in the order in which they are shown."""


def variant(label: str) -> Variant:
    """Which pass strings a target takes. Enzyme versions between the known ones take the newest known one below."""
    name, _, version = label.partition("@")
    if name != "enzyme-ad":
        is_enzyme_opt = name.startswith("opt:") and "enzyme" in name.rsplit("/", 1)[-1]
        return Variant.ENZYME_16 if is_enzyme_opt else Variant.UPSTREAM
    try:
        number = Version(version)
    except InvalidVersion:
        return Variant.ENZYME_16  # "latest", or no version: the newest
    if number >= Version("0.0.16"):
        return Variant.ENZYME_16
    return Variant.ENZYME_15 if number >= Version("0.0.15") else Variant.ENZYME_14


def available(label: str) -> tuple[str, ...]:
    """The named pipelines that exist for a target."""
    wanted = variant(label)
    return tuple(name for name, rows in _TABLE.items() if wanted in rows)


def resolve(name_or_text: str, label: str) -> Pipeline:
    """The pipeline that a user names or spells, for one target.

    Raises UsageError for a name the target has no pipeline for, an unknown name close to a known one, and text that
    cannot be a pipeline (unbalanced, empty element). Unknown passes are for the toolchain to refuse.
    """
    given = name_or_text.strip()
    rows = _TABLE.get(given)
    if rows is not None:
        text = rows.get(variant(label))
        if text is None:
            raise UsageError(f"pipeline '{given}' does not exist for {label}; it has: {', '.join(available(label))}")
        return Pipeline(text=text, name=given, env=dict(_ENVIRONMENT.get(given, {})))
    env, text = _take_environment(given)
    parts = split(text)
    for part in parts:
        if re.match(r"[A-Za-z_][\w.-]*\s*(\(.*\)|\{.*\})?\s*$", part, re.DOTALL) is None:
            raise UsageError(
                f"'{_short(given)}' is neither a pipeline name nor a pipeline: cannot read '{_short(part)}'"
            )
    near = next((name for name in NAMES if len(parts) == 1 and _is_typo(text, name)), None)
    if near is not None:
        raise UsageError(f"unknown pipeline '{text}': did you mean '{near}'?")
    return Pipeline(text=join(parts), env=env)


def _is_typo(word: str, name: str) -> bool:
    """One letter changed, or up to two missing or added: passes such as `parallel-lower` are further from our names."""
    same = sum(block.size for block in difflib.SequenceMatcher(None, word, name).get_matching_blocks())
    return len(word) + len(name) - 2 * same <= 2


def _short(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:57]}..."


def _take_environment(text: str) -> tuple[dict[str, str], str]:
    env: dict[str, str] = {}
    while (match := re.match(r"([A-Z_][A-Z0-9_]*)=(\S*)(?:\s+|$)", text)) is not None:
        env[match.group(1)] = match.group(2)
        text = text[match.end() :]
    return env, text


def format_pipeline(pipeline: Pipeline) -> str:
    """The literal form of a pipeline, which `resolve` reads back: environment, then passes."""
    return " ".join([*(f"{k}={v}" for k, v in sorted(pipeline.env.items())), pipeline.text]).strip()


# --- syntax -------------------------------------------------------------------------------------------------

_CLOSER = {"(": ")", "{": "}", "[": "]"}


def split(text: str) -> tuple[str, ...]:
    """The top-level elements of a pipeline. Raises UsageError when brackets or quotes do not match."""
    if not text.strip():
        return ()
    parts = [part.strip() for part in _split_raw(text)]
    if not all(parts):
        raise UsageError(f"pipeline '{_short(text)}' has an empty element")
    return tuple(parts)


def _split_raw(text: str) -> Iterator[str]:
    start = 0
    for position, char, depth in _scan(text):
        if char == "," and depth == 0:
            yield text[start:position]
            start = position + 1
    yield text[start:]


def _scan(text: str) -> Iterator[tuple[int, str, int]]:
    """Every character outside quotes with the bracket depth before it."""
    open_brackets: list[str] = []
    quote = ""
    for position, char in enumerate(text):
        if quote:
            quote = "" if char == quote else quote
            continue
        yield position, char, len(open_brackets)
        if char in "\"'":
            quote = char
        elif char in _CLOSER:
            open_brackets.append(_CLOSER[char])
        elif char in ")}]" and (not open_brackets or open_brackets.pop() != char):
            raise UsageError(f"pipeline '{_short(text)}' has an unmatched '{char}'")
    if quote or open_brackets:
        raise UsageError(f"pipeline '{_short(text)}' lacks a closing {quote or open_brackets[-1]}")


def join(parts: Iterable[str]) -> str:
    """The inverse of `split`."""
    return ",".join(parts)


def unnest(element: str) -> tuple[str, ...]:
    """`func.func(a,b{x=1})` -> `func.func(a)`, `func.func(b{x=1})`; anything else alone. One level is enough for all
    pipelines met; deeper nests are unnested recursively."""
    match = re.fullmatch(r"([\w.-]+)\s*\((.*)\)", element.strip(), re.DOTALL)
    if match is None:
        return (element.strip(),)
    inner = [leaf for part in split(match.group(2)) for leaf in unnest(part)]
    return tuple(f"{match.group(1)}({leaf})" for leaf in inner) or (element.strip(),)


def leaves(text: str) -> tuple[str, ...]:
    """A pipeline as single passes, each in its own nest: what is left out, or executed after, one at a time."""
    return tuple(leaf for element in split(text) for leaf in unnest(element))


def pass_names(element: str) -> tuple[str, ...]:
    """The bare names of all passes in one element, without anchors and options."""
    return tuple(_bare(leaf) for leaf in unnest(element))


def _bare(leaf: str) -> str:
    while (match := re.fullmatch(r"[\w.-]+\s*\((.+)\)", leaf, re.DOTALL)) is not None:
        leaf = match.group(1).strip()
    return re.split(r"[\s{(]", leaf, maxsplit=1)[0]


def pass_name(element: str) -> str:
    """The name under which an element is blamed: its pass, or its anchor when it nests several passes."""
    names = pass_names(element)
    return names[0] if len(set(names)) == 1 else re.split(r"[\s{(]", element.strip(), maxsplit=1)[0]


def all_pass_names(text: str) -> tuple[str, ...]:
    """The bare names of all passes of a pipeline in order, nested ones and the postpasses of `enzyme` included."""
    found: list[str] = []
    for element in split(text):
        found.extend(pass_names(element))
        for inner in re.findall(r'post-?passes=(?:"([^"]*)"|\{([^}]*)\}|(\S+?))[}\s]', element, re.IGNORECASE):
            found.extend(all_pass_names(next((x for x in inner if x), "")))
    return tuple(found)

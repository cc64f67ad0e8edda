"""What is usable on this machine, and why the rest is not."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from difftest import toolchains
from difftest.errors import UsageError
from difftest.interpreter.registry import STRUCTURE, all_rules
from difftest.targets import known_labels, open_target

SHOWN_OPS = 12
_OPERATION = re.compile(r'OPERATION_NAME = "([^"]+)"')
TOOLS = ("ptxas", "mlir-opt", "mlir-runner", "compute-sanitizer")


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that was looked at."""

    kind: str
    name: str
    usable: bool
    detail: str

    def as_json(self) -> dict[str, Any]:
        """Plain data."""
        return {"kind": self.kind, "name": self.name, "usable": self.usable, "detail": self.detail}


def examine() -> list[Finding]:
    """Targets, devices, tools, and what the cache and this machine have."""
    return [*_targets(), *_devices(), *_tools(), _cache(), _memory()]


def _targets() -> list[Finding]:
    found: list[Finding] = []
    for label in known_labels():
        target = open_target(label)
        availability = target.availability()
        target.close()
        detail = availability.version if availability.usable else availability.reason
        found.append(Finding(kind="target", name=label, usable=availability.usable, detail=detail))
    return found


def _devices() -> list[Finding]:
    found = [Finding(kind="device", name="interpreter", usable=True, detail="kernels at MLIR level, on numpy lanes")]
    found.append(Finding(kind="device", name="emulator", usable=True, detail="PTX on numpy lanes, with its sanitizer"))
    cupy = importlib.util.find_spec("cupy") is not None
    missing = "the CUDA device is not part of this version" if cupy else "cupy is not installed (extra `cuda`)"
    found.append(Finding(kind="device", name="cuda", usable=False, detail=missing))
    return found


def _tools() -> list[Finding]:
    found: list[Finding] = []
    for tool in TOOLS:
        place = shutil.which(tool)
        found.append(
            Finding(kind="tool", name=tool, usable=place is not None, detail=place or "not on PATH (optional)")
        )
    return found


def _cache() -> Finding:
    folder = toolchains.cache_folder()
    size = sum(p.stat().st_size for p in folder.rglob("*") if p.is_file()) if folder.is_dir() else 0
    existing = next((p for p in (folder, *folder.parents) if p.exists()), Path("/"))
    free = shutil.disk_usage(existing).free
    return Finding(
        kind="disk",
        name="toolchain cache",
        usable=True,
        detail=f"{folder}: {size / 1e6:.0f} MB, {free / 1e9:.0f} GB free",
    )


def _memory() -> Finding:
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError) as error:
        raise UsageError(f"cannot read the size of memory: {error}") from None
    detail = f"{total / 1e9:.0f} GB, {os.cpu_count() or 1} cores"
    return Finding(kind="machine", name="memory", usable=True, detail=detail)


# --- ops ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class OpRow:
    """One dialect: the ops that the interpreter has a meaning for, and those the MLIR bindings register beyond them.

    `registered` is None for dialects that the bindings do not have (enzyme, enzymexla).
    """

    dialect: str
    covered: tuple[str, ...]
    registered: int | None
    missing: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "dialect": self.dialect,
            "covered": list(self.covered),
            "registered": self.registered,
            "missing": list(self.missing),
        }

    def as_text(self) -> str:
        """One line; long lists of missing ops are cut."""
        of = "" if self.registered is None else f" of {self.registered}"
        shown = " ".join(self.missing[:SHOWN_OPS]) + (" …" if len(self.missing) > SHOWN_OPS else "")
        return f"{self.dialect:14} {len(self.covered):4}{of:8} {shown}".rstrip()


def examine_ops() -> list[OpRow]:
    """Which ops the interpreter executes, per dialect it knows, against every op that the bindings register.

    Raises UsageError when no bindings are installed.
    """
    known = all_rules().names() | STRUCTURE
    registered = registered_ops()
    rows: list[OpRow] = []
    for dialect in sorted({_dialect(name) for name in known}):
        mine = {name for name in known if _dialect(name) == dialect}
        theirs = {name for name in registered if _dialect(name) == dialect}
        rows.append(
            OpRow(
                dialect=dialect,
                covered=tuple(sorted(mine & theirs if theirs else mine)),
                registered=len(theirs) or None,
                missing=tuple(sorted(name.partition(".")[2] for name in theirs - mine)),
            )
        )
    return rows


def registered_ops() -> frozenset[str]:
    """Every op of the bindings' dialects, read from their generated sources: nothing of MLIR is loaded."""
    for package in ("mlir", "numba_cuda_mlir"):
        spec = importlib.util.find_spec(package)
        for place in (spec.submodule_search_locations or []) if spec is not None else []:
            files = sorted(Path(place).rglob("_*_ops_gen.py"))
            if files:
                texts = (file.read_text(encoding="utf-8") for file in files)
                return frozenset(name for text in texts for name in _OPERATION.findall(text))
    raise UsageError("no MLIR bindings are installed: `pip install numba-cuda-mlir`")


def _dialect(name: str) -> str:
    return name.partition(".")[0]

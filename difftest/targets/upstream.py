"""`mlir`: upstream MLIR through its Python bindings' own pass manager, in a child process."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import sys

from difftest.errors import UsageError
from difftest.ir import spelling
from difftest.targets.base import Availability
from difftest.targets.native import NativeTarget
from difftest.targets.protocol import WorkerSpec

SCHEME = "mlir"
_PACKAGES = {"mlir": ("mlir-python-bindings", "mlir"), "numba_cuda_mlir": ("numba-cuda-mlir",)}


class UpstreamTarget(NativeTarget):
    """The bindings: an upstream `mlir` package when there is one, else the copy in NVIDIA's wheel."""

    def __init__(self) -> None:
        super().__init__(SCHEME, _worker)

    def availability(self) -> Availability:
        """Usable when either package can be found; nothing is imported."""
        for package, distributions in _PACKAGES.items():
            if importlib.util.find_spec(package) is not None:
                return Availability(usable=True, version=f"{package} {_version(distributions)}")
        return Availability(usable=False, reason="neither `mlir` nor `numba_cuda_mlir` is installed")


def _worker() -> WorkerSpec:
    # IRDL refuses upper case in operation names (verifier of irdl.operation), so enzyme.genericAdjoint has no stand-in.
    dialect = spelling.bindings_dialect()
    runtime = {"dialect": dialect, "terminators": spelling.bindings_terminators()}
    return WorkerSpec(kind="mlir", python=sys.executable, library=json.dumps(runtime))


def _version(distributions: tuple[str, ...]) -> str:
    for name in distributions:
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return "of unknown version"


def labels() -> tuple[str, ...]:
    """The one label of this scheme."""
    return (SCHEME,)


def open(label: str) -> UpstreamTarget:
    """The target of the label `mlir`."""
    if label != SCHEME:
        raise UsageError(f"unknown target '{label}': did you mean '{SCHEME}'?")
    return UpstreamTarget()

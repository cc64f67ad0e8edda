"""`enzyme-ad@VERSION`: Enzyme's MLIR compiler as released in its wheels, any version side by side."""

from __future__ import annotations

from difftest import toolchains
from difftest.errors import ToolchainError, UsageError
from difftest.targets.base import Availability
from difftest.targets.native import NativeTarget
from difftest.targets.protocol import WorkerSpec

SCHEME = "enzyme-ad"
KNOWN_VERSIONS = ("0.0.14", "0.0.15", "0.0.16")

_progress: list[toolchains.Progress] = []


def report_progress(progress: toolchains.Progress | None) -> None:
    """Who is told about a fetch on first use (the command line shows it on stderr)."""
    _progress[:] = [] if progress is None else [progress]


class EnzymeTarget(NativeTarget):
    """One enzyme-ad version. It is fetched on first use, unless `availability` is asked first and says no."""

    def __init__(self, label: str, *, version: str, python: str | None = None) -> None:
        super().__init__(label, self._worker)
        self._version = version
        self._python = python

    def availability(self) -> Availability:
        """Usable when installed and an interpreter fits; not installed is said, not fetched."""
        found = toolchains.find(f"{SCHEME}=={self._version}")
        if found is None:
            reason = (
                f"not installed: `difftest toolchain install {SCHEME}=={self._version}` fetches it (first use does too)"
            )
            return Availability(usable=False, reason=reason, version=self._version)
        try:
            toolchains.check(found)
            toolchains.interpreter_for(found, python=self._python)
        except ToolchainError as error:
            return Availability(usable=False, reason=str(error), version=found.version)
        return Availability(usable=True, version=found.version)

    def _worker(self) -> WorkerSpec:
        toolchain = toolchains.ensure(f"{SCHEME}=={self._version}", progress=_progress[0] if _progress else None)
        python = toolchains.interpreter_for(toolchain, python=self._python)
        return WorkerSpec(kind="enzyme", python=python, library=str(toolchain.library))


def labels() -> tuple[str, ...]:
    """The known versions and whatever else is installed."""
    versions = {*KNOWN_VERSIONS, *(t.version for t in toolchains.list_installed())}
    return tuple(
        f"{SCHEME}@{v}" for v in sorted(versions, key=lambda v: tuple(int(x) for x in v.split(".") if x.isdigit()))
    )


def open(label: str) -> EnzymeTarget:
    """The target of a label; without a version, or with `latest`, the newest installed one, else the index's newest."""
    if not label.startswith(SCHEME):
        raise UsageError(f"'{label}' is not an {SCHEME} target")
    _, version = toolchains.parse_spec(label)
    if version is None:
        found = toolchains.find(SCHEME)
        version = found.version if found is not None else toolchains.latest(SCHEME)
    return EnzymeTarget(f"{SCHEME}@{version}", version=version)

"""What a device looks like to everybody else: memory, and launches of kernels by name (DESIGN §4, "Devices").

What a kernel does wrong is a `LaunchOutcome`, never an exception.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from numpy.typing import NDArray

from difftest.model import Fault

Sizes = tuple[int, int, int]


class LaunchKind(StrEnum):
    """How a launch ended. `inconclusive`: a limit of the device was reached."""

    OK = "ok"
    FAULT = "fault"
    UNSUPPORTED = "unsupported"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """A kernel of a loaded module (`module` is the device's number for it) and the sizes in bytes of its parameters."""

    name: str
    parameters: tuple[int, ...]
    module: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchOutcome:
    """`fault` says why a launch did not end well: its `op` is the kernel, `line` that of the kernel's text, `iteration`
    block x, y, z and thread x, y, z. `notes` counts what was tolerated (`benign` same-value writes, `printf` …).
    """

    kind: LaunchKind
    fault: Fault | None = None
    notes: Mapping[str, int] = field(default_factory=dict[str, int])
    instructions: int = 0
    lane_instructions: int = 0


class Device(Protocol):
    """A device. Addresses are integers; memory is uninitialised until uploaded."""

    @property
    def label(self) -> str:
        """`emulator` or `cuda:0`."""
        ...

    def load(self, text: str) -> Mapping[str, Kernel]:
        """Load a module (PTX text); its kernels by name. Raises UsageError for text that is no module."""
        ...

    def allocate(self, size: int) -> int:
        """The address of `size` fresh bytes, aligned to 256."""
        ...

    def free(self, address: int) -> None:
        """Give memory back. Raises UsageError for an address that was not allocated."""
        ...

    def upload(self, address: int, data: NDArray[Any], initialised: NDArray[Any] | None = None) -> None:
        """Write bytes (uint8); where `initialised` (bool) is false the byte counts as never written."""
        ...

    def download(self, address: int, size: int) -> tuple[NDArray[Any], NDArray[Any]]:
        """Bytes (uint8), and whether each was ever written (bool)."""
        ...

    def launch(
        self,
        kernel: Kernel,
        *,
        grid: Sizes,
        block: Sizes,
        arguments: Sequence[bytes | int],
        shared: int = 0,
        stream: int = 0,
    ) -> LaunchOutcome:
        """Run a kernel to its end. `arguments` are bytes or integers, one per parameter; `shared` bytes per block."""
        ...

    def close(self) -> None:
        """Give everything back."""
        ...

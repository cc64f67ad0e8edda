"""All exceptions of the project, in one tree.

What a *program* does (undefined behaviour, a race, an unsupported op, a compiler crash) is a value, never an
exception: see `difftest.model`.  An exception means that the user asked for something that cannot be done
(`UsageError`, exit code 2) or that the harness itself is wrong (`HarnessError`).
"""


class DifftestError(Exception):
    """Root of everything raised on purpose by this project."""


class UsageError(DifftestError):
    """The request cannot be served: bad file, unknown name, missing tool. One line, exit code 2."""


class ReadError(UsageError):
    """Text that is not an MLIR module in generic form, with the place where reading stopped (1-based)."""

    def __init__(self, message: str, *, line: int, column: int) -> None:
        super().__init__(f"{line}:{column}: {message}")
        self.message = message
        self.line = line
        self.column = column


class ToolchainError(UsageError):
    """A toolchain is not installed and cannot be fetched, or no interpreter fits its wheel."""


class HarnessError(DifftestError):
    """A fault of the harness itself: never caught, never blamed on a compiler."""

"""Differential testing of MLIR lowerings: programs, targets, a reference interpreter and an oracle.

Importing this package imports nothing heavy; the parts live in the sub-packages.
"""

__version__ = "0.1.0"
__all__ = ["__version__"]

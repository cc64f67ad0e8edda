"""Our own view of MLIR: tree, reader, printer, types, attributes, affine maps, spelling. Loads no MLIR.

Re-exports only what nearly every caller needs; the rest is imported from the modules.
"""

from difftest.ir.printer import print_module
from difftest.ir.reader import read_module
from difftest.ir.tree import Block, Operation, Region, Value

__all__ = ["Block", "Operation", "Region", "Value", "print_module", "read_module"]

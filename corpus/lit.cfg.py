"""LLVM's `lit` on this corpus: `lit -v corpus/`. A copy of this file serves any folder of `.mlir` files.

A file with a difftest header is one test, judged as under pytest on every target and pipeline of its RUN and EXPECT
lines; a target that cannot be had is passed over (UNSUPPORTED when none is left). Other files are lit's own business.
Parameters: `--param target=LABEL`, `--param missing=error`.
"""

from __future__ import annotations

from typing import Any

from difftest.lit_format import CorpusFormat

config: Any = globals()["config"]  # lit defines it before it executes this file
config.name = "mlir-difftest"
config.suffixes = [".mlir"]
config.test_format = CorpusFormat()

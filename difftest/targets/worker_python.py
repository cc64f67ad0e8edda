"""The kind `python` of `difftest.targets.worker`: a callable of ours, for work that may take its process with it."""

from __future__ import annotations

import importlib
from typing import Any

import worker


class Kind:
    """A Python callable `package.module:function` (request -> answer): for work of our own that may die."""

    def __init__(self, library: str) -> None:
        module, _, name = library.partition(":")
        self.call = getattr(importlib.import_module(module), name)

    def handle(self, request: dict[str, Any], output: int, stages: list[int]) -> dict[str, Any]:
        """Call the handler; what it raises is its defect and is answered as such."""
        del output, stages
        try:
            return {"ok": True, "value": self.call(request)}
        except BaseException as error:
            return worker.failed("handler", error)

"""The kind `mlir` of `difftest.targets.worker`: upstream MLIR through its Python bindings. Standard library only."""

from __future__ import annotations

import importlib
import importlib.util
import json
import sys
import types
from typing import Any

import worker

CONTEXT_CASES = 200  # BINDINGS: a context never frees; a fresh one each 100-500 programs keeps memory flat


def import_bindings() -> tuple[Any, Any, Any]:
    """`ir`, `passmanager` and the irdl dialect: upstream's package, else NVIDIA's copy without its numba half."""
    if importlib.util.find_spec("mlir") is None:
        spec = importlib.util.find_spec("numba_cuda_mlir")
        if spec is None or not spec.submodule_search_locations:
            raise ImportError("neither `mlir` nor `numba_cuda_mlir` is installed")
        package = types.ModuleType("numba_cuda_mlir")  # C1: importing the real one costs 0.5 s and patches the world
        package.__path__ = list(spec.submodule_search_locations)
        sys.modules["numba_cuda_mlir"] = package
        prefix = "numba_cuda_mlir._mlir"
    else:
        prefix = "mlir"
    return (
        importlib.import_module(f"{prefix}.ir"),
        importlib.import_module(f"{prefix}.passmanager"),
        importlib.import_module(f"{prefix}.dialects.irdl"),
    )


class Kind:
    """Upstream MLIR through its Python bindings.

    `library` is JSON: the IRDL text of the `dialect` that stands in for region ops of dialects the bindings lack, and
    its `terminators` (BINDINGS C4, rules 7 and 8).
    """

    def __init__(self, library: str) -> None:
        runtime = json.loads(library)
        self.dialect: str = runtime["dialect"]
        self.terminators: list[str] = runtime["terminators"]
        self.ir, self.passmanager, self.irdl = import_bindings()
        self.cases = 0
        self.context: Any = self._fresh_context()
        self._run("module {}", ["canonicalize"], [], check=True)

    def _fresh_context(self) -> Any:
        context = self.ir.Context()
        context.enable_multithreading(enable=False)
        context.allow_unregistered_dialects = True
        with context, self.ir.Location.unknown():
            self.irdl.load_dialects(self.ir.Module.parse(self.dialect))
            for name in self.terminators:
                self.ir.IsTerminatorTrait.attach(name)
        return context

    def handle(self, request: dict[str, Any], output: int, stages: list[int]) -> dict[str, Any]:
        """Parse, run the elements in one pass manager (one each when stages are asked for), print."""
        self.cases += 1
        if self.cases % CONTEXT_CASES == 0:
            self.context = self._fresh_context()
        step = "parse"
        try:
            module = self.ir.Module.parse(request["text"], self.context)
            step = "pipeline"
            self._run(module, request["elements"], stages, check=bool(request.get("verifier", True)))
            step = "verify"
            module.operation.verify()
            text = module.operation.get_asm(print_generic_op_form=not request.get("pretty"))
            worker.write_file(output, text)
            if request.get("reverify"):
                self.ir.Module.parse(text, self.context)
        except BaseException as error:
            answer = worker.failed(step, error)
            answer["diagnostics"] = [[str(d.location), str(d.message)] for d in getattr(error, "error_diagnostics", ())]
            return answer
        return {"ok": True}

    def _run(self, module: Any, elements: list[str], stages: list[int], *, check: bool) -> None:
        with self.context:
            if isinstance(module, str):
                module = self.ir.Module.parse(module)
            groups = [[e] for e in elements] if stages else [elements]
            # All are parsed before one is run: a bad pipeline must not half-transform the module.
            managers = [self.passmanager.PassManager.parse(f"builtin.module({','.join(g)})") for g in groups if g]
            for number, manager in enumerate(managers):
                manager.enable_verifier(check)
                manager.run(module.operation)
                if stages:
                    worker.write_file(stages[number], module.operation.get_asm(print_generic_op_form=True))

"""Modules import only lower rows (CONTRIBUTING.md), or siblings in their own folder."""

import ast
from pathlib import Path

ROOT = Path(__file__).parent.parent
# The longest matching prefix decides.
ROWS = {
    "difftest": 0,
    "difftest.errors": 0,
    "difftest.model": 0,
    "difftest.ir": 1,
    "generators": 2,
    "corpus": 2,
    "difftest.inputs": 2,
    "difftest.signature": 2,
    "difftest.interpreter": 3,
    "difftest.targets": 3,
    "difftest.toolchains": 3,
    "reducer": 3,
    "difftest.devices": 4,
    "difftest.oracle": 5,
    "difftest.triage": 6,
    "difftest.report": 6,
    "reducer.predicate": 7,
    "reducer.finding": 7,
    "difftest.__main__": 10,
    "reducer.__main__": 10,
    "difftest.campaign": 8,
    "difftest.session": 8,
    "difftest.commands_triage": 8,
    "difftest.commands_bisect": 8,
    "difftest.commands_schedule": 8,
    "difftest.doctor": 8,
    "difftest.explain": 8,
    "difftest.repair": 8,
    "difftest.bench": 8,
    "difftest.api": 8,
    "difftest.collect": 8,
    "difftest.rewrite": 8,
    "difftest.pytest_items": 9,
    "difftest.lit_format": 9,
    "corpus.lit": 10,
    "difftest.bench_programs": 2,
    "reducer.cli": 9,
    "difftest.cli": 9,
    "difftest.pytest_plugin": 9,
    "difftest.hypothesis_support": 9,
}
PACKAGES = ("difftest", "reducer", "generators", "corpus")


def room(module):
    """The longest entry of the table that the module lies in."""
    parts = module.split(".")
    for length in range(len(parts), 0, -1):
        if ".".join(parts[:length]) in ROWS:
            return ".".join(parts[:length])
    raise AssertionError(f"{module} has no row")


def row(module):
    return ROWS[room(module)]


def modules():
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path


def imports(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_modules_import_only_lower_rows():
    wrong = []
    for module, path in modules():
        for imported in imports(path):
            if imported.split(".")[0] not in PACKAGES or imported.startswith("difftest.__version__"):
                continue
            same_row = row(imported) == row(module)
            if row(imported) > row(module) or (same_row and not _related(module, imported)):
                wrong.append(f"{module} (row {row(module)}) imports {imported} (row {row(imported)})")
    assert not wrong, "\n".join(wrong)


def _related(module, imported):
    """Within a row: modules of one room, and the rooms of a row that belong together by design."""
    return room(module) == room(imported) or row(imported) in {0, 1, 2, 3, 7, 8, 9}


def test_heavy_imports_live_in_one_file_each():
    heavy = {"numba_cuda_mlir": {"difftest.targets.worker_mlir"}, "enzyme_ad": set(), "cupy": {"difftest.devices.cuda"}}
    for module, path in modules():
        for imported in imports(path):
            top = imported.split(".")[0]
            if top in heavy:
                assert module in heavy[top], f"{module} imports {top}"


def test_every_file_is_below_400_lines():
    large = [f"{m}: {n}" for m, p in modules() if (n := len(p.read_text(encoding="utf-8").splitlines())) > 400]
    assert not large, large

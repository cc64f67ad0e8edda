# Two commands do everything on a machine with python3 and make: `make fuzz`, `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
JOBS ?= 2
TIME ?= 60

.PHONY: fuzz test test-all lint bench bench-reduce clean

# The stamp depends on pyproject.toml: changed dependencies are installed by the next command.
$(VENV)/.ready: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit("mlir-difftest needs Python 3.11 or newer, this is " + sys.version.split()[0] + "; set PYTHON=…") if sys.version_info < (3, 11) else None'
	@echo "Setting up $(VENV): numpy, the MLIR bindings and the test tools, about 200 MB to fetch (once)."
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --disable-pip-version-check -e '.[test,dev]'
	@touch $@

fuzz: $(VENV)/.ready
	$(BIN)/difftest fuzz --time $(TIME) -j $(JOBS) --target enzyme-ad@0.0.16 --target mlir --out runs/fuzz --no-gate

test: $(VENV)/.ready
	$(BIN)/python -m pytest -n $(JOBS) -m "not slow and not gpu"

test-all: $(VENV)/.ready
	$(BIN)/python -m pytest -n $(JOBS)

lint: $(VENV)/.ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/basedpyright

bench: $(VENV)/.ready
	$(BIN)/difftest bench --json

clean:
	rm -rf $(VENV) runs build dist *.egg-info

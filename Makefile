# What a person runs, and what CI runs. Each target does its own set-up, in .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
NATIVE := $(shell find native CMakeLists.txt -type f 2>/dev/null)

.PHONY: help demo test lint bench format clean test-neon test-asan test-tsan golden

help:
	@echo "make demo    hash real word vectors and look at neighbours"
	@echo "make test    the test suite"
	@echo "make lint    ruff, mypy, import rules"
	@echo "make bench   speed beside the peers, a short run"
	@echo "make test-neon, test-asan, test-tsan    the native core on aarch64 (under qemu), and under sanitizers"

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit("lethevec needs Python 3.10 or later, got " + sys.version) if sys.version_info < (3, 10) else 0'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip

# The stamp is renewed when the native code or the dependencies change; Python code is used in place.
$(VENV)/.installed-%: $(BIN)/python pyproject.toml $(NATIVE)
	$(BIN)/python -m pip install --quiet --editable '.[$*]'
	@touch $@

demo: $(VENV)/.installed-demo
	$(BIN)/python -m lethevec.demo

test: $(VENV)/.installed-test
	$(BIN)/python -m pytest -n auto

lint: $(VENV)/.installed-lint
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/.installed-lint
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(VENV)/.installed-bench
	$(BIN)/python -m benchmarks

clean:
	rm -rf build dist $(VENV)/.installed-*

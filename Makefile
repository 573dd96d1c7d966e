# One command each; every target sets up its own environment first (.venv, about a minute, once).
#
#   make demo         run the example under rotameter and print the report's path
#   make test         the tests
#   make check        ruff, mypy, import order
#   make docs         the documentation, warnings are errors
#   make bench        the benchmarks            (ARGS="NAME --json")
#   make wheel-smoke  build the wheel and try it in a clean environment outside the checkout

ifndef PYTHON
PYTHON := $(shell for p in python3.11 python3 python3.12 python3.13; do \
	$$p -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null \
	&& echo $$p && break; done)
endif
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PIP := $(BIN)/python -m pip --disable-pip-version-check
DEMO := .demo
ARGS ?=

.PHONY: demo test check format docs bench wheel-smoke venv clean
.DEFAULT_GOAL := test

venv: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "error: no Python 3.11 to 3.13 found; hint: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "setting up $(VENV) (about a minute)"
	@$(PIP) install -q -c constraints.txt setuptools wheel
	@$(PIP) install -q -c constraints.txt --no-build-isolation -e '.[dev]'
	@# Its reader of logs needs no more than these; its plots would bring a dozen packages.
	@$(PIP) install -q -c constraints.txt --no-deps darshan cffi pycparser
	@touch $@

demo: $(STAMP)
	@mkdir -p $(DEMO) && rm -rf $(DEMO)/demo.rmt
	$(BIN)/rotameter run -o $(DEMO)/demo.rmt examples/demo.py $(DEMO)/data
	@echo
	@$(BIN)/rotameter diagnose $(DEMO)/demo.rmt
	@echo
	@$(BIN)/rotameter report $(DEMO)/demo.rmt -o $(DEMO)/report.html --force
	@echo "report: $(CURDIR)/$(DEMO)/report.html"

# What only computes, and what mostly waits for a program of its own, runs on both cores; clusters
# and clocks have the machine alone.
SIDE := $(wildcard $(addprefix tests/,adapters allocator conformance cli forecasting property typing viz)\
	$(addprefix tests/profiler/,flow replaying findings laws storing comparing devices)) \
	$(filter-out %test_store.py %test_trace.py,$(wildcard tests/profiler/test_*.py)) \
	$(wildcard tests/test_*.py tests/e2e/test_real_slurm.py tests/e2e/test_report_*.py)
test: $(STAMP)
ifeq ($(ARGS),)
	$(BIN)/python -m pytest -q -n 2 src $(SIDE)
	$(BIN)/python -m pytest -q tests $(SIDE:%=--ignore=%)
else
	$(BIN)/python -m pytest $(ARGS)
endif

check: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(STAMP)
	$(BIN)/python -m sphinx -q -W --keep-going -b html docs docs/_build/html
	@echo "docs: docs/_build/html/index.html"

bench: $(STAMP)
	$(BIN)/python -m benchmarks $(ARGS)

wheel-smoke: $(STAMP)
	$(BIN)/python scripts/smoke_wheel.py

clean:
	rm -rf $(DEMO) build dist docs/_build .mypy_cache .ruff_cache .pytest_cache .import_linter_cache

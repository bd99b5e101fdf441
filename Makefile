# Everything is set up in .venv, inside the checkout. Paths here stay relative and tools are called
# as `.venv/bin/python -m tool`, so that a checkout in a folder with spaces in its name works.

PYTHON ?= python3
ARGS ?=

python := .venv/bin/python
pip := $(python) -m pip --disable-pip-version-check -qq
pytest := $(python) -m pytest -n auto --maxprocesses 4 --dist worksteal

# An editable install holds the absolute path of the checkout: set up again where it has moved.
ifneq ($(shell cat .venv/.place 2>/dev/null),$(shell pwd -P))
moved := moved
endif

.DELETE_ON_ERROR:
.PHONY: help run test quick lint format bench clean $(moved)

help: ## list these commands
	@sed -n 's/^\([a-z]*\): .*## /\1 — /p' Makefile | awk -F ' — ' '{printf "make %-8s %s\n", $$1, $$2}'

run: .venv/.run-ready ## set up what is needed and walk a neuron forward and backward
	@$(python) -m gradwalk $(ARGS)

test: lint ## set up what is needed, then lint, format check, types and every test
	@echo "== every test"
	@$(pytest) $(ARGS)

quick: .venv/.dev-ready ## the tests to run while working; ARGS=tests/ops picks some
	@$(pytest) -q -m "not slow" $(ARGS)

lint: .venv/.dev-ready ## lint, format check and types
	@echo "== lint"
	@$(python) -m ruff check
	@echo "== format check"
	@$(python) -m ruff format --check
	@echo "== types"
	@$(python) -m mypy

format: .venv/.dev-ready ## format the code and mend what the linter can mend
	@$(python) -m ruff check --fix
	@$(python) -m ruff format

bench: .venv/.dev-ready ## run the benchmarks and print their ratios
	@$(python) -m benchmarks $(ARGS)

clean: ## remove all that these commands made: .venv, caches, built packages
	rm -rf .venv .pytest_cache .ruff_cache .hypothesis build dist
	find . \( -name __pycache__ -o -name .mypy_cache \) -type d -prune -exec rm -rf {} +

# Each stamp is touched last, so that an interrupted set-up is taken up again by the next command.

.venv/.run-ready: pyproject.toml $(moved)
	@command -v $(PYTHON) >/dev/null || { \
	    echo "$(PYTHON) was not found: install Python 3.11 or newer," \
	        "or name it: make PYTHON=/path/to/python" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	    echo "gradwalk needs Python 3.11 or newer, and $(PYTHON) is $$($(PYTHON) --version 2>&1);" \
	        "name a newer one: make PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	    echo "$(PYTHON) lacks its venv module; on Debian and Ubuntu: apt install python3-venv" >&2; \
	    exit 1; }
	@$(python) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	    && $(python) -m pip --version >/dev/null 2>&1 || { \
	    echo "== making .venv with $$($(PYTHON) --version)"; \
	    $(PYTHON) -m venv --clear .venv; }
	@echo "== installing gradwalk (editable) and what it needs into .venv"
	@$(pip) install --editable .
	@pwd -P > .venv/.place
	@touch $@

.venv/.dev-ready: .venv/.run-ready
	@echo "== installing the development tools and PyTorch, the tests' oracle (large) into .venv"
	@$(pip) install --editable ".[dev]"
	@touch $@

# Everything is installed into .venv, inside the checkout. Paths are relative and tools are called
# as `.venv/bin/python -m tool`, so that a checkout works in a folder with spaces in its name.

PYTHON ?= python3
ARGS ?=

python := .venv/bin/python
pip := $(python) -m pip --disable-pip-version-check -qq
pytest := $(python) -m pytest --dist worksteal
# The whole suite has one worker more than cores, because tests of the page wait for the browser.
cores := $(shell $(PYTHON) -c "import os; print(min(4, os.cpu_count() or 1))")

# An editable install holds the absolute path of the checkout: reinstall when the checkout has moved.
ifneq ($(shell cat .venv/.place 2>/dev/null),$(shell pwd -P))
moved := moved
endif

.DELETE_ON_ERROR:
.PHONY: help run test devices fresh quick lint format bench torch docs page browser clean $(moved)

help: ## list these commands
	@sed -n 's/^\([a-z]*\): .*## /\1 — /p' Makefile | awk -F ' — ' '{printf "make %-8s %s\n", $$1, $$2}'

run: .venv/.run-ready ## set up what is needed and open the studio
	@$(python) -m gradwalk $(or $(ARGS),studio)

test: lint web/node_modules/.ready browser ## set up what is needed, then lint, format check, types and every test
	@echo "== every test"
	@$(pytest) -n $$(($(cores) + 1)) $(ARGS)

devices: .venv/.devices-ready ## install JAX, then run the tests of devices on XLA's CPU; ARGS=-k mesh selects some
	@$(pytest) -n $(cores) --devices $$(find tests -type d -name xla) $(ARGS)

fresh: ## run and test a clone of the last commit as on a new machine; ARGS=tests/ops selects tests
	@$(PYTHON) tools/fresh.py $(ARGS)

quick: .venv/.dev-ready web/node_modules/.ready ## run the fast tests; ARGS=tests/ops selects some
	@$(pytest) -n $(cores) -q -m "not slow" $(ARGS)

lint: .venv/.dev-ready ## check lint, format and types
	@echo "== lint"
	@$(python) -m ruff check
	@echo "== format check"
	@$(python) -m ruff format --check
	@echo "== types"
	@$(python) -m mypy

format: .venv/.dev-ready ## format the code and apply the linter's fixes
	@$(python) -m ruff check --fix
	@$(python) -m ruff format

bench: .venv/.dev-ready ## run the benchmarks and print their ratios
	@$(python) -m benchmarks $(ARGS)

docs: .venv/.docs-ready ## build the documentation into build/docs; warnings are errors
	@$(python) -m sphinx -E -W --keep-going -n -q -b html docs build/docs
	@echo "to read it: $(python) -m http.server --directory build/docs"

torch: ## test gradwalk.torch with another PyTorch, in build/: make torch VERSION=2.8.0
	@test -n "$(VERSION)" || { echo "name a version: make torch VERSION=2.8.0" >&2; exit 1; }
	@$(PYTHON) -m venv "build/torch-$(VERSION)"
	@"build/torch-$(VERSION)/bin/python" -m pip --disable-pip-version-check -qq install \
	    --editable . "torch==$(VERSION)" pytest pytest-xdist hypothesis expecttest "transformers>=5" "accelerate>=1.10" "pytorch-lightning>=2.5"
	@"build/torch-$(VERSION)/bin/python" -m pytest -n auto --maxprocesses 4 tests/torch $(ARGS)

page: .venv/.run-ready web/node_modules/.ready ## build the studio's page from web/
	@$(python) -m tools.page.tables
	@echo "== types of the page"
	@npm --prefix web run --silent check
	@echo "== the page"
	@npm --prefix web run --silent build

clean: ## remove everything these commands created: .venv, caches, built packages
	rm -rf .venv web/node_modules web/src/generated docs/reference/api build dist \
	    .pytest_cache .ruff_cache .hypothesis
	find . \( -name __pycache__ -o -name .mypy_cache \) -type d -prune -exec rm -rf {} +

# Each stamp is touched last, so that the next command resumes an interrupted setup.

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
	@echo "== installing gradwalk (editable) and its dependencies into .venv"
	@$(pip) install --editable .
	@pwd -P > .venv/.place
	@touch $@

.venv/.dev-ready: .venv/.run-ready
	@echo "== installing the development tools and PyTorch, the tests' oracle (large) into .venv"
	@$(pip) install --editable ".[dev]"
	@touch $@

.venv/.devices-ready: .venv/.dev-ready
	@echo "== installing JAX into .venv"
	@$(pip) install --editable ".[dev,xla]"
	@touch $@

.venv/.docs-ready: .venv/.run-ready
	@echo "== installing Sphinx and PyTorch (large) for the documentation into .venv"
	@$(pip) install --editable ".[docs]"
	@touch $@

# Node is for tests and for changing the page; the built page is committed.
web/node_modules/.ready: web/package-lock.json
	@command -v npm >/dev/null || { \
	    echo "npm was not found: testing and building the page needs Node 20 or newer; on Debian:" \
	        "apt install nodejs npm" >&2; exit 1; }
	@echo "== installing the page's build tools into web/node_modules"
	@npm --prefix web ci --ignore-scripts --no-audit --no-fund --loglevel=error
	@touch $@

# The studio's tests drive a real browser. As root on Debian we install it; otherwise we ask for it.
browser:
	@for name in chromium chromium-browser google-chrome; do \
	    command -v $$name >/dev/null && exit 0; done; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    echo "== installing Chromium for the studio's tests"; \
	    apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq install -y \
	        --no-install-recommends chromium fonts-dejavu-core >/dev/null; \
	else \
	    echo "the studio's tests need Chromium: sudo apt install chromium" >&2; exit 1; fi

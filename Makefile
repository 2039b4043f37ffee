# Every target sets up what it needs first (`dev`), so `make demo` and `make test` work in a fresh clone.
# The set-up is remembered in .venv/.ready and done again only when one of its inputs changed.

BIN := .venv/bin
READY := .venv/.ready
PURE := .venv-pure
PYTEST := $(BIN)/python -m pytest -p tests.plugins.layers

.DEFAULT_GOAL := help
.PHONY: help dev demo test test-pure check format faults lock clean

help: ## show the targets
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  \1\t/' | expand -t 14

dev: $(READY) ## set up .venv: locked packages, fleettrio in place, its extension, the broker and tmux

$(READY): requirements.lock pyproject.toml setup.py src/fleettrio/_fast.pyx scripts/dev.sh
	@bash scripts/dev.sh
	@touch $@

demo: dev ## run the main stories on two hosts of this machine
	@$(BIN)/fleettrio demo

test: dev ## run all tests, with the real broker and tmux
	$(PYTEST) -n 2 --dist loadfile tests --ignore tests/faults
	$(PYTEST) tests/faults

test-pure: dev ## the same in a fresh environment built without a compiler
	@bash scripts/test-pure.sh $(PURE)

check: dev ## formatting, lints, types, layers, change notes
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --strict src tests
	PYTHONPATH=src $(BIN)/lint-imports --no-logo
	PATH="$(CURDIR)/$(BIN):$$PATH" cython-lint src/fleettrio/_fast.pyx
	$(BIN)/towncrier build --draft --version next > /dev/null

format: dev ## let ruff format and mend what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

faults: dev ## the long rounds of killing processes at named steps
	FLEETTRIO_FAULT_ROUNDS=20 $(BIN)/python -m pytest -o faulthandler_timeout=0 tests/faults

lock: dev ## make requirements.lock anew from pyproject.toml
	@bash scripts/relock.sh

clean: ## remove everything that the targets made
	rm -rf .venv $(PURE) build dist src/*.egg-info src/fleettrio/_fast.c src/fleettrio/_fast.html
	rm -rf .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find src -name '_fast*.so' -delete
	find src tests benchmarks -name __pycache__ -prune -exec rm -rf {} + 2> /dev/null || true

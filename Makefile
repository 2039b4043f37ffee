# Every target sets up what it needs first (`dev`), so `make demo` and `make test` work in a fresh clone.
# The set-up is remembered in .venv/.ready and done again only when one of its inputs changed.

BIN := .venv/bin
READY := .venv/.ready
PURE := .venv-pure
FAST := src/fleettrio/_fast.pyx $(wildcard src/fleettrio/_fast_parts/*.pxi)
TEST := bash scripts/test.sh

.DEFAULT_GOAL := help
.PHONY: help dev demo test test-pure check format docs faults panes inspector sim mutants gate peers bench lock clean

help: ## show the targets
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  \1\t/' | expand -t 14

dev: $(READY) ## set up .venv: locked packages, fleettrio in place, its extension, the broker and tmux

$(READY): requirements.lock pyproject.toml setup.py $(FAST) scripts/dev.sh
	@bash scripts/dev.sh
	@touch $@

demo: dev ## run the main stories on two hosts of this machine
	@$(BIN)/fleettrio demo

# Four at a time on two cores: most of them wait for processes. The simulation only computes: it gets no second try.
test: dev ## run all tests, with the real broker and tmux
	$(TEST) $(BIN)/python -n 4 --dist loadfile tests --ignore tests/faults --ignore tests/sim
	$(BIN)/python -m pytest -p tests.plugins.layers -n 2 -o faulthandler_timeout=900 tests/sim
	$(TEST) $(BIN)/python -n 3 --dist loadfile tests/faults

test-pure: dev ## the same in a fresh environment built without a compiler
	@bash scripts/test-pure.sh $(PURE)

check: dev ## formatting, lints, types, layers, change notes
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --strict src tests
	PYTHONPATH=src $(BIN)/lint-imports --no-logo
	PATH="$(CURDIR)/$(BIN):$$PATH" cython-lint $(FAST)
	$(BIN)/towncrier build --draft --version next > /dev/null

format: dev ## let ruff format and mend what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: dev ## draw the tables of the documentation anew from the code and the recorded figures
	$(BIN)/python scripts/render_docs.py

faults: dev ## the long rounds of killing processes at named steps
	FLEETTRIO_FAULT_ROUNDS=20 $(BIN)/python -m pytest -o faulthandler_timeout=0 tests/faults

panes: dev ## twenty rounds of every way in which a tmux pane can be other than it was thought
	FLEETTRIO_PANE_ROUNDS=20 $(BIN)/python -m pytest -n 2 -o faulthandler_timeout=0 tests/local/test_pane_rounds.py

inspector: dev ## the MCP inspector's command line calls every tool; needs npm and its registry
	$(BIN)/python -m tests.surfaces.inspector

real: dev ## the real Claude Code, Codex and opencode, where they are on PATH, against a scripted model
	$(BIN)/python scripts/real-clients/run.py

SEEDS := 20000
sim: dev ## the simulation with many seeds: make sim SEEDS=20000
	$(BIN)/python -m tests.sim $(SEEDS)

mutants: dev ## gateways with one broken rule each: the simulation must find every one
	$(BIN)/python -m tests.sim.mutants

gate: dev ## instructions and CPU ratios against benchmarks/gates.toml; PLANT=fast or PLANT=hop must be red
	$(BIN)/python -m fleettrio.bench.gate $(if $(PLANT),--plant $(PLANT))

peers: dev ## what the peers of `fleettrio bench` need, beside it and (FastStream) in .venv-peers
	$(BIN)/python -m pip install --quiet 'matplotlib>=3.9' 'pika>=1.3,<2' 'py-spy>=0.4' 'uvloop>=0.21'
	$(BIN)/python -m venv .venv-peers
	.venv-peers/bin/python -m pip install --quiet -r benchmarks/peers/requirements-faststream.txt

ROUNDS := 5
bench: peers ## everything that fleettrio bench measures, recorded in benchmarks/results and drawn; then make docs
	$(BIN)/fleettrio bench all --record --rounds $(ROUNDS) --json benchmarks/results/latest.json
	$(BIN)/fleettrio bench hop --record --profile docs/performance/after
	$(BIN)/fleettrio bench plot --out docs/performance

lock: dev ## make requirements.lock anew from pyproject.toml
	@bash scripts/relock.sh

clean: ## remove everything that the targets made
	rm -rf .venv .venv-peers $(PURE) build dist src/*.egg-info src/fleettrio/_fast.c src/fleettrio/_fast.html
	rm -rf .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find src -name '_fast*.so' -delete
	find src tests benchmarks -name __pycache__ -prune -exec rm -rf {} + 2> /dev/null || true

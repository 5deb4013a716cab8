# Everything a newcomer needs: `make demo`, then `make test`. `make help` lists the rest.
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
PYTEST := $(BIN)/python -m pytest
LOCK := $(BIN)/pip-compile --quiet --generate-hashes --no-emit-index-url --no-emit-find-links --strip-extras \
	--allow-unsafe

.DEFAULT_GOAL := help

.PHONY: help
help:  ## What can be made
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

$(READY): requirements.lock pyproject.toml
	@command -v $(PYTHON) >/dev/null || { echo "make: $(PYTHON) is not on the PATH; install Python 3.11, or run make PYTHON=/path/to/python3.11"; exit 1; }
	@echo "Python environment in $(VENV): $$(grep -c == requirements.lock) packages, some minutes the first time"
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

.PHONY: setup
setup: $(READY)  ## Python environment in .venv, from the lock
	@echo "$(VENV) is ready. Next: make demo, then make test; or . $(BIN)/activate and headrace --help"

.PHONY: demo
demo: $(READY)  ## A fleet that follows its load, on this machine; SPEED=5: slower; DEMO=engine: real engines
	$(BIN)/headrace demo $(DEMO) $(if $(SPEED),--speed $(SPEED))

.PHONY: test
test: $(READY)  ## All tests but the soaks, in under 10 minutes on two cores
	$(PYTEST) -m "not slow" --numprocesses 3 --dist loadfile --no-loadscope-reorder

.PHONY: test-slow
test-slow: $(READY)  ## Soaks, long kill runs, whole demos, docker-compose.yml by a real compose
	$(PYTEST) -m slow --timeout 1800

.PHONY: check
check: $(READY)  ## Style, types, import contracts: what CI checks besides the tests
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

.PHONY: format
format: $(READY)  ## Mend style and format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

.PHONY: bench
bench: $(READY)  ## All benches; renews the table in docs/performance.md
	$(BIN)/python -m bench --all --write docs/performance.md

.PHONY: lock
lock: $(READY)  ## Renew both locks from pyproject.toml; the one of run time pins what the other does
	$(LOCK) --build-deps-for editable --extra dev --extra engine --output-file requirements.lock pyproject.toml
	cp requirements.lock requirements-runtime.lock
	$(LOCK) --build-deps-for wheel --output-file requirements-runtime.lock pyproject.toml

.PHONY: docs
docs: $(READY)  ## Renew docs/contract.md from the records
	$(BIN)/python -m wire.contract_docs > docs/contract.md

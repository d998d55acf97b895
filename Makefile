# A machine with python3 (and its venv module), make and git is enough.
PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/.installed

.DEFAULT_GOAL := help
.PHONY: help demo test format bench bench-peers clean

help:  ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' Makefile

demo: $(INSTALLED)  ## install into .venv if need be, and run a short demonstration
	$(BIN)/pann demo

test: $(INSTALLED)  ## formatting, lint, types and every test, the slow ones too
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/pytest

format: $(INSTALLED)  ## format the code and apply the safe lint fixes
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

bench: $(INSTALLED)  ## run the benchmarks
	$(BIN)/python -m benchmarks

bench-peers: $(INSTALLED)  ## set up other libraries in .peers, and run the same work beside them
	$(BIN)/python -m benchmarks peers.steps peers.accuracy peers.regression peers.shapes

clean:  ## remove .venv, .peers, caches and build products
	rm -rf .venv .peers .mypy_cache .pytest_cache .ruff_cache build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The stamp is newer than pyproject.toml exactly when nothing needs to be installed.
$(INSTALLED): pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install -q --disable-pip-version-check -e '.[test]'
	@touch $@

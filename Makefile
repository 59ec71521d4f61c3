# make demo            set up, run the main job on the embedded default, print a table and the path of a report
# make test            set up, lint, type-check and run the tests
# make test-long       the tests that take longer than the suite may: whole studies, load
# make test-lowest     the demo and the suite's core part with the lowest versions that pyproject.toml allows, in build/lowest
# make coverage        the suite again, slower: which lines it runs; TESTS=tests/base measures a part of it
# make test-elsewhere  the suite as on other processors, in the background, under load, with four threads
# make bench           set up, run the speed comparisons (at most half an hour)
# make docs            set up, build the documentation site in build/site; warnings are errors
# make lint            ruff, mypy, spelling, the check of names and of changelog fragments
# make release-check   what users will get: version, changelog, wheel, a clean environment, the demo, the docs (CUT=1: for good)
# make bump VERSION=…  write a version and its day into every file that names it, fold the changelog fragments in
# make clean           remove .venv and build products (the user's cache stays: `longshot cache prune`)
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# One more than processors: many tests wait for servers, browsers and sandboxes.
WORKERS = $$(( $$($(PYTHON) -c 'import os; print(os.cpu_count() or 1)') + 1 ))
.DEFAULT_GOAL := help
.PHONY: help demo test test-long test-lowest coverage test-elsewhere bench docs lint release-check bump clean setup-dev

help:
	@sed -n 's/^# make/make/p' Makefile

# A stamp per set of extras, remade when the requirements change: a second run starts at once.
$(VENV)/.demo: pyproject.toml constraints.txt
	@tools/setup.sh $(PYTHON) $(VENV) efficientnet,serve && touch $@

$(VENV)/.dev: pyproject.toml constraints.txt tools/setup.sh tools/system-packages.sh
	@tools/system-packages.sh
	@tools/setup.sh $(PYTHON) $(VENV) efficientnet,dev && touch $@ $(VENV)/.demo

demo: $(VENV)/.demo
	@tools/timed.sh demo $(BIN)/longshot demo

lint: $(VENV)/.dev
	@tools/timed.sh lint bash -c '$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/python tools/check_names.py src tests benchmarks tools && $(BIN)/codespell && $(BIN)/python tools/release.py fragments && $(BIN)/python tools/budgets.py && $(BIN)/python tools/docstrings.py && $(BIN)/python tools/doors.py && $(BIN)/lint-imports --no-cache && $(BIN)/mypy'

test: lint
	@tools/timed.sh tests env -u PYTHONDONTWRITEBYTECODE $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal --durations=20

test-long: $(VENV)/.dev
	@tools/timed.sh "long tests" env -u PYTHONDONTWRITEBYTECODE $(BIN)/python -m pytest -n auto --dist worksteal --durations=20 -m long

test-lowest:
	@tools/timed.sh "tests with the lowest versions" tools/test-lowest.sh $(PYTHON) build/lowest

coverage: $(VENV)/.dev
	@tools/timed.sh coverage tools/coverage.sh $(BIN)/python $(TESTS)

test-elsewhere: $(VENV)/.dev
	@tools/timed.sh "tests elsewhere" tools/test-elsewhere.sh $(BIN)/python

docs: $(VENV)/.dev
	@tools/timed.sh docs $(BIN)/python -m sphinx -q -W --keep-going -b html docs build/site
	@echo "==> docs: open build/site/index.html"

bench: $(VENV)/.dev
	@tools/timed.sh benchmarks $(BIN)/python -m benchmarks

release-check: $(VENV)/.dev
	@tools/timed.sh "release check" $(BIN)/python tools/release.py check $(if $(CUT),--cut) $(if $(TAG),--tag '$(TAG)')

bump: $(VENV)/.dev
	@$(BIN)/python tools/release.py bump $(VERSION)

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis longshot-demo

# Everything from a bare machine that has Python 3.11 or later: `make run`, `make test`.
PYTHON ?= python3
BIN = .venv/bin
CONFIG ?= configs/khi-laptop.yaml

.PHONY: run test lint bench clean

run: .venv/installed
	$(BIN)/billow run $(CONFIG)

test: .venv/installed-test lint
	$(BIN)/python -m pytest

lint: .venv/installed-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: .venv/installed-test
	$(BIN)/billow bench workflow

.venv/installed: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	touch $@

.venv/installed-test: pyproject.toml .venv/installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[test]'
	touch $@

clean:
	rm -rf .venv build *.egg-info

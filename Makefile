.DEFAULT_GOAL := help
.PHONY: help setup format check test slow reproduce status report docs bench

BASE_PYTHON ?= python3
VENV := .venv
PYTHON := $(VENV)/bin/python

help:  ## list the verbs
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup:  ## make .venv and install clocs with everything needed to work on it
	$(BASE_PYTHON) -m venv $(VENV)
	$(PYTHON) -m pip install 'torch==2.13.0'
	$(PYTHON) -m pip install -e '.[all,dev,docs]'

format:  ## put the code in order: ruff's format and its safe fixes
	$(PYTHON) -m ruff format .
	$(PYTHON) -m ruff check --fix .

check:  ## lint, format and types, without changing anything
	$(PYTHON) -m ruff check .
	$(PYTHON) -m ruff format --check .
	$(PYTHON) -m mypy

test:  ## the tests that every change must pass
	$(PYTHON) -m pytest -n auto --dist worksteal -rs

slow:  ## full-data and long checks
	$(PYTHON) -m pytest -m slow -rs

reproduce:  ## compute the missing cells of tables and figures: make reproduce ARGS="table1 --workers 2"
	$(PYTHON) -m reproduction run $(ARGS)

status:  ## show which cells of the reproduction are done, and what the others cost
	$(PYTHON) -m reproduction status $(ARGS)

report:  ## make docs/results, and the numbers in other pages, from results/
	$(PYTHON) -m reproduction report README.md docs/evaluation.md docs/patient-map.md docs/pretraining.md docs/privacy-audit.md

docs:  ## build the documentation into docs/_build/html; a warning is an error
	rm -rf docs/api
	$(PYTHON) -m sphinx -W --keep-going -b html docs docs/_build/html

bench:  ## measure the speed and memory that the documentation states
	$(PYTHON) benchmarks/run.py

# Needs Python 3.11 or newer and make, nothing else.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# One thread for each process: two cores shared by spinning threads are ten times slower.
export OMP_NUM_THREADS = 1
export OPENBLAS_NUM_THREADS = 1
export MKL_NUM_THREADS = 1

.PHONY: demo test lint clean

# DEMO holds further options, for example DEMO="--seed 1".
demo: $(VENV)/.installed
	$(BIN)/evolve run online_bin_packing --evaluations 2100 --set search.prompts=8 $(DEMO)

test: $(VENV)/.installed-dev lint
	$(BIN)/python -m pytest -n 2 --dist worksteal

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(BIN)/pip install -q -c constraints.txt -e .
	touch $@

$(VENV)/.installed-dev: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(BIN)/pip install -q -c constraints.txt -e ".[dev]"
	touch $(VENV)/.installed $@

clean:
	rm -rf $(VENV) build dist *.egg-info

# `make demo` and `make test` do all their own set-up in .venv; nothing else needs to be installed but Python.
PYTHON ?= $(shell command -v python3.11 || command -v python3.12 || command -v python3.10 || command -v python3)
VENV := .venv
THESIS_VENV := .venv-thesis
PIP_FLAGS := --quiet --disable-pip-version-check
PYTEST := -m pytest -n 2 --dist loadfile
export TF_CPP_MIN_LOG_LEVEL ?= 3

.PHONY: demo test lint format test-thesis clean

demo: $(VENV)/.installed
	$(VENV)/bin/python -m experiments.fair_eval --dataset=glyphs --loss=pnca --pooling=gap,gsp --budget=demo

test: $(VENV)/.installed-dev
	TF_NUM_INTRAOP_THREADS=1 $(VENV)/bin/python $(PYTEST)

lint: $(VENV)/.installed-dev
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .

format: $(VENV)/.installed-dev
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .

test-thesis: $(THESIS_VENV)/.installed-dev
	TF_NUM_INTRAOP_THREADS=1 $(THESIS_VENV)/bin/python $(PYTEST)

$(VENV)/.installed: requirements.txt setup.py
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install $(PIP_FLAGS) -r requirements.txt
	touch $@

$(VENV)/.installed-dev: $(VENV)/.installed requirements-dev.txt requirements-oracles.txt
	$(VENV)/bin/python -m pip install $(PIP_FLAGS) -r requirements-dev.txt -r requirements-oracles.txt
	touch $@

$(THESIS_VENV)/.installed-dev: requirements-thesis.txt requirements-dev.txt setup.py
	$(PYTHON) -m venv $(THESIS_VENV)
	$(THESIS_VENV)/bin/python -m pip install $(PIP_FLAGS) -r requirements-thesis.txt -r requirements-dev.txt
	touch $@

clean:
	rm -rf $(VENV) $(THESIS_VENV) build *.egg-info

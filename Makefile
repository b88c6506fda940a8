# Two commands do all the set-up: `make demo` and `make test`. Both make their own .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

# Two intra-op threads inside tiny matrix products cost more than they give; the tests run in two processes instead.
TEST_ENV := OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 TOKENIZERS_PARALLELISM=false HF_HUB_OFFLINE=1

.PHONY: demo test docs kernels lint pictures wheels clean

demo: $(VENV)/.core
	$(BIN)/dragoman demo

test: lint
	$(TEST_ENV) $(BIN)/python -m pytest -n 2 --dist worksteal -m 'not slow'

# The site, in docs/_build/html; a warning, such as a link that leads nowhere, is an error.
docs: $(VENV)/.docs
	$(BIN)/python docs/make_reference.py
	$(BIN)/python -m sphinx -c docs -b html -W --keep-going -q . docs/_build/html
	@echo docs/_build/html/index.html

# Triton's kernels, in its interpreter where there is no GPU; in a separate process, because Triton reads its settings when it is
# imported. Not every system has Triton.
kernels: $(VENV)/.kernels
	@if $(BIN)/python -c 'import sys; from importlib.util import find_spec; sys.exit(not find_spec("triton"))'; \
	then set -x; $(TEST_ENV) $(BIN)/python -m pytest -n 2 tests/kernels; \
	else echo "there is no Triton for this machine: its kernels are not tried" >&2; fi

# A wheel for each platform, in dist; zig cross-compiles the C libraries for all of them.
wheels: $(VENV)/.wheels
	$(BIN)/python packaging/wheels.py --out dist
	[ ! -d models ] || $(BIN)/python packaging/model_wheel.py models/* --out dist

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# The pictures of the docs, from the demo's model; pages are opened in headless Chromium.
pictures: $(VENV)/.dev
	test -e runs/demo/model/manifest.json || $(BIN)/dragoman demo
	$(BIN)/python docs/pictures/make_pictures.py runs/demo

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit("Dragoman needs Python 3.11 or newer; this is " + sys.version.split()[0] + ". Use: make PYTHON=python3.12 test") if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.core: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) -e '.[train,pictures]'
	touch $@

$(VENV)/.dev: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) -e '.[dev]'
	touch $@ $(VENV)/.core

$(VENV)/.docs: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) -e '.[docs]'
	touch $@

$(VENV)/.wheels: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) -e '.[wheels]'
	touch $@

$(VENV)/.kernels: $(VENV)/.dev
	$(PIP) -e '.[dev,kernels]'
	touch $@

clean:
	rm -rf $(VENV) docs/_build .pytest_cache .mypy_cache .ruff_cache .hypothesis

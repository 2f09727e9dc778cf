# Two commands set everything up: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Two test processes with one BLAS thread each are faster than one with two, and do not fight over cores.
SINGLE := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1 NUMBA_NUM_THREADS=1

.PHONY: demo test test-full lint install browser bench clean

demo: $(VENV)/.installed
	$(BIN)/krepes demo --force

test: $(VENV)/.developed lint
	$(SINGLE) HYPOTHESIS_PROFILE=quick $(BIN)/python -m pytest -n 2 -m "not full"

test-full: $(VENV)/.developed lint
	$(SINGLE) HYPOTHESIS_PROFILE=thorough $(BIN)/python -m pytest -n 2

lint: $(VENV)/.developed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# Chromium for the tests of the report's page; where it cannot be installed, they are skipped with a notice.
browser:
	@command -v chromium >/dev/null && command -v chromedriver >/dev/null || \
	{ [ "$$(id -u)" = 0 ] && apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq chromium chromium-driver; } || \
	echo "Chromium is not here and could not be installed: the browser tests will be skipped. As root: apt-get install chromium chromium-driver"

bench: $(VENV)/.developed
	$(BIN)/python benchmarks/run.py

install: $(VENV)/.installed

$(VENV)/bin/pip:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: $(VENV)/bin/pip pyproject.toml constraints.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[fast]"
	touch $@

$(VENV)/.developed: $(VENV)/bin/pip pyproject.toml constraints.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	touch $@ $(VENV)/.installed

clean:
	rm -rf $(VENV) build dist *.egg-info src/*.egg-info .pytest_cache .mypy_cache .ruff_cache

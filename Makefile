# Two commands set everything up: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
LOWEST := .venv-lowest
# Two test processes with one BLAS thread each are faster than one with two, and do not fight over cores.
SINGLE := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1 NUMBA_NUM_THREADS=1

.PHONY: demo test test-full test-cluster test-lowest fuzz lint install browser bench reproduce docs clean

demo: $(VENV)/.installed
	$(BIN)/krepes demo --force

test: $(VENV)/.developed lint
	$(SINGLE) HYPOTHESIS_PROFILE=quick $(BIN)/python -m pytest -n 2 --dist worksteal -m "not full"

test-full: $(VENV)/.developed lint
	$(SINGLE) HYPOTHESIS_PROFILE=thorough $(BIN)/python -m pytest -n 2 --dist worksteal

# Odd inputs, forged and damaged files, killed fits; prints what it counted. FUZZ="--cases 2000" for less.
fuzz: $(VENV)/.developed
	$(SINGLE) $(BIN)/python tests/fuzz/run.py $(FUZZ)

# The lowest versions that pyproject.toml admits, in an environment of their own.
test-lowest: $(LOWEST)/.developed
	$(SINGLE) HYPOTHESIS_PROFILE=quick $(LOWEST)/bin/python -m pytest -n 2 --dist worksteal -m "not full"

# Everything about clusters, the long checks too: one, two and four workers, killed workers, certificates.
test-cluster: $(VENV)/.developed
	$(SINGLE) HYPOTHESIS_PROFILE=quick $(BIN)/python -m pytest -n 0 tests/scale/test_dask.py tests/scale/test_engine_equality.py \
	tests/scale/test_partitioned_output.py tests/scale/test_cluster_security.py tests/hostile/test_cluster_faults.py

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

# The site, in docs/_build/html; GALLERY=no leaves the examples unexecuted.
GALLERY ?= run
docs: $(VENV)/.documented
	$(SINGLE) KREPES_DOCS_GALLERY=$(GALLERY) $(BIN)/python -m sphinx -b html -W --keep-going -q docs docs/_build/html
	@echo "docs/_build/html/index.html"

bench: $(VENV)/.developed
	$(BIN)/python benchmarks/run.py

# A published table or experiment: make reproduce WHAT="table5 --data FOLDER".
WHAT ?= --help
reproduce: $(VENV)/.installed
	$(BIN)/python -m reproduction $(WHAT)

install: $(VENV)/.installed

$(VENV)/bin/pip:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: $(VENV)/bin/pip pyproject.toml constraints.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[fast]"
	touch $@

$(VENV)/.developed: $(VENV)/bin/pip pyproject.toml constraints.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	touch $@ $(VENV)/.installed

$(VENV)/.documented: $(VENV)/bin/pip pyproject.toml constraints.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[docs]"
	touch $@ $(VENV)/.installed

$(LOWEST)/.developed: pyproject.toml constraints-lowest.txt
	$(PYTHON) -m venv $(LOWEST)
	$(LOWEST)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints-lowest.txt -e ".[dev]"
	touch $@

clean:
	rm -rf $(VENV) $(LOWEST) build dist *.egg-info src/*.egg-info .pytest_cache .mypy_cache .ruff_cache

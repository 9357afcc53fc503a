# make demo | test | test-gpu | docs | bench | lint | setup | clean. Each target sets up what it needs; nothing has to be
# installed first but Python with venv. PYTHON=python3.12 chooses another interpreter for .venv.

PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python

# Test workers: one a core up to four, since the System under test has threads of its own.
WORKERS ?= $(shell $(PYTHON) -c 'import os; print(min(4, len(os.sched_getaffinity(0))))' 2>/dev/null || echo 1)
PYTEST_ARGS ?=
# A skipped test is a failure (exceptions: tests/conftest.py); STRICT= lets tests skip, for example without a browser.
STRICT ?= --fail-on-skip

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-gpu docs bench lint kernels browser clean

help:
	@echo "make demo      throw a ball at a target by gradients; writes out/throw/"
	@echo "make test      ruff and all tests, of which mypy is one"
	@echo "make test-gpu  the GPU against the CPU, number by number; ONLY=maps,heat chooses cases"
	@echo "make docs      the documentation as a site, into site/"
	@echo "make bench     benchmarks/dynamics.py, against the peers it names"
	@echo "make lint      ruff and mypy"
	@echo "make setup     the virtual environment of make test, without running anything"
	@echo "make clean     remove build products, caches and out/ (but not .venv)"

# ---- set-up: one stamp for each set of extras, redone when the requirements change ----

define MAKE_VENV
if ! $(PY) -m pip --version >/dev/null 2>&1; then \
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
		{ echo "error: Python 3.11 or newer is needed as '$(PYTHON)'; choose one with: make PYTHON=python3.12 ..." >&2; exit 1; }; \
	$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
		{ echo "error: '$(PYTHON)' has no venv module; install it (on Debian and Ubuntu: the package python3-venv)" >&2; exit 1; }; \
	$(PYTHON) -m venv $(VENV); \
fi
endef

# Quiet in a log, with progress bars on a terminal: torch is large.
INSTALL = $(PY) -m pip install --disable-pip-version-check $$(test -t 1 || echo -qq) --constraint constraints.txt

$(VENV)/.ready-demo: pyproject.toml constraints.txt
	@$(MAKE_VENV)
	@echo "Installing pullback[view] into $(VENV) ..."
	@$(INSTALL) --editable '.[view]'
	@touch $@

$(VENV)/.ready-test: pyproject.toml constraints.txt
	@$(MAKE_VENV)
	@echo "Installing pullback[test] into $(VENV) ..."
	@$(INSTALL) --editable '.[test]'
	@touch $(VENV)/.ready-demo $@

$(VENV)/.ready-bench: pyproject.toml constraints.txt
	@$(MAKE_VENV)
	@echo "Installing pullback[view,torch,jax,bench] into $(VENV) ..."
	@$(INSTALL) --editable '.[view,torch,jax,bench]'
	@touch $(VENV)/.ready-demo $@

setup: $(VENV)/.ready-test

# ---- what it is for ----

demo: $(VENV)/.ready-demo
	$(PY) -m pullback.cli optimize throw --fresh

# Two test workers that need the same kernel would both compile it.
kernels: $(VENV)/.ready-test
	@echo "Compiling kernels (cached from the second time on) ..."
	@$(PY) tests/compile_kernels.py

# Tests of the viewer look at it in a real browser. Where that is allowed it is installed.
browser:
	@for name in chromium chromium-browser google-chrome; do \
		command -v $$name >/dev/null 2>&1 && exit 0; \
	done; \
	if command -v apt-get >/dev/null 2>&1 && [ "$$(id -u)" = 0 ]; then \
		echo "Installing chromium, for tests of the viewer ..."; \
		quick="-o Acquire::Retries=0 -o Acquire::http::Timeout=20"; \
		(apt-get $$quick update && DEBIAN_FRONTEND=noninteractive apt-get $$quick install -y chromium) \
			>/dev/null 2>&1 || echo "chromium cannot be installed here: tests that need a browser fail; make test STRICT= skips them"; \
	else \
		echo "there is no chromium here: tests that need a browser fail; make test STRICT= skips them"; \
	fi

test: $(VENV)/.ready-test kernels browser
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m pytest $(if $(filter-out 0 1,$(WORKERS)),-n $(WORKERS) --dist worksteal) $(STRICT) --durations 20 $(PYTEST_ARGS)

# A GPU compiles the gradient of one contact model for minutes; ONLY=heat,maps chooses cases by their names.
test-gpu: $(VENV)/.ready-test
	$(PY) tests/gpu/parity.py $(if $(ONLY),--only "$(ONLY)")
	$(PY) -m pytest -k cuda tests/dynamics/test_sharing.py tests/bindings/test_torch_functions.py

# Strict: a broken link or a page that no menu leads to ends it. The variable keeps a note about MkDocs out of the log.
docs: $(VENV)/.ready-test
	NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build --strict
	@echo "site/index.html"

bench: $(VENV)/.ready-bench
	$(PY) benchmarks/dynamics.py

lint: $(VENV)/.ready-test
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy

clean:
	rm -rf build dist out site .pytest_cache .mypy_cache .ruff_cache .hypothesis src/*.egg-info
	find src tests testing benchmarks examples -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

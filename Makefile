# Everything from a clean clone with Python >= 3.11 and make: `make demo`, `make test`, `make help`.
#
# Each target sets up the virtual environment it needs once; a change of pyproject.toml sets it up again.

PYTHON ?= python3
PYTEST_ARGS ?= -n 2 --dist worksteal
REPORT ?= report.html
DEMO_ARGS ?= --inner-cv 2 --methods average,product,best,mkl,mkl-p2,cskl,mkfda-p2,obscure-sdca
DEMO := .venv
DEV := .venv-dev
OLDEST := .venv-oldest
PIP_INSTALL := -m pip install -qq --disable-pip-version-check

.DEFAULT_GOAL := help
.PHONY: help demo test test-oldest lint typecheck format docs dist clean

help: ## this list
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 12

demo: $(DEMO)/.ready ## compare methods on the digits data; writes report.html
	$(DEMO)/bin/multikernel compare --output $(REPORT) $(DEMO_ARGS)
	@echo "The report is at $(abspath $(REPORT))"

test: $(DEV)/.ready ## run all tests, doctests included
	$(DEV)/bin/python -m pytest $(PYTEST_ARGS)

test-oldest: $(OLDEST)/.ready ## run all tests with the oldest versions that pyproject.toml allows
	$(OLDEST)/bin/python -m pytest $(PYTEST_ARGS)

lint: $(DEV)/.ready ## check style and formatting
	$(DEV)/bin/ruff check .
	$(DEV)/bin/ruff format --check .

typecheck: $(DEV)/.ready ## check types, and those of the examples on the pages
	@mkdir -p build/pages
	@for page in README.md docs/*.md; do \
		sed '/^```python$$/,/^```$$/!s/.*//; s/^```.*//' $$page > build/pages/$$(basename $$page .md).py; done
	$(DEV)/bin/mypy src experiments/src build/pages/*.py

format: $(DEV)/.ready ## repair what can be repaired automatically
	$(DEV)/bin/ruff check --fix .
	$(DEV)/bin/ruff format .

docs: $(DEV)/.ready ## build the documentation; warnings are errors
	$(DEV)/bin/python -m sphinx -W --keep-going -q -b html docs docs/_build/html
	@echo "The documentation is at $(abspath docs/_build/html/index.html)"

dist: $(DEV)/.ready ## build wheel and sdist, and try the wheel in a clean environment
	rm -rf dist
	$(DEV)/bin/python -m build
	$(DEV)/bin/python -m build experiments --outdir dist
	$(DEV)/bin/python .ci/check_dist.py

clean: ## remove environments, builds and caches
	rm -rf $(DEMO) $(DEV) $(OLDEST) build dist docs/_build docs/api docs/gallery .pytest_cache .mypy_cache .ruff_cache .hypothesis $(REPORT)
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(DEMO)/.ready: EXTRA := report
$(DEV)/.ready: EXTRA := dev
$(DEV)/.ready $(OLDEST)/.ready: ALSO := ./experiments
$(OLDEST)/.ready: EXTRA := test
$(OLDEST)/.ready: PIP_INSTALL += --constraint $(OLDEST)/oldest.txt
$(DEMO)/.ready $(DEV)/.ready $(OLDEST)/.ready: pyproject.toml experiments/pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Python 3.11 or later is needed: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@echo "Setting up $(@D) (once) ..."
	@$(PYTHON) -m venv $(@D)
	@grep -oE '"[A-Za-z0-9_.-]+>=[0-9.]+"' $< | sed 's/"//g; s/>=/==/' > $(@D)/oldest.txt
	@$(@D)/bin/python $(PIP_INSTALL) --editable '.[$(EXTRA)]' $(addprefix --editable ,$(ALSO))
	@touch $@

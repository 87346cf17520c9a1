# `make run` and `make test` set up what they need on a fresh machine with Python >= 3.10.
PYTHON ?= python3
TASK ?= What is 17 * 23?
VENV := .venv
LOWEST := .venv-lowest
BIN := $(VENV)/bin
# What the other HTTP client has to do as well; see tests/wire/test_transports.py.
WIRE := tests/wire/test_connections.py tests/wire/test_failures.py tests/wire/test_requests.py
FAULTS := tests/wire tests/cancel tests/kernel/test_silence.py tests/kernel/test_retry.py \
	tests/testing/test_quirks.py tests/sessions/test_kill.py

# More workers than two cores: some tests wait. Neighbours stay together, since they share servers.
PYTEST := -m pytest -n 4 --dist worksteal
unexport PYTHONDONTWRITEBYTECODE  # else each worker and each child compiles the tests again

.PHONY: run test check tools tests lowest site dist format clean

run: $(VENV)/.run  ## Set up, and do a task on a real model
	$(BIN)/pure-agent-loop run --download "$(TASK)"

test: check tests lowest  ## Set up, and run every check and test

check: $(VENV)/.dev  ## Format, lint, types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check --no-cache .  # its cache misses a package that appears beside a file
	$(BIN)/mypy
	$(BIN)/mypy --platform win32 --no-warn-unreachable --exclude toolbox/sandbox/ src
	$(BIN)/mypy --platform darwin --no-warn-unreachable --exclude toolbox/sandbox/ src
	$(BIN)/pyright --pythonpath $(BIN)/python tests/typing examples

tools:  ## Programs that tests need: bubblewrap, ripgrep, git, nginx
	@sh scripts/install-test-tools.sh

tests: $(VENV)/.dev tools  ## All tests, on the newest dependencies
	@$(BIN)/python -m compileall -q src  # the tests start our programs hundreds of times
	$(BIN)/python $(PYTEST)
	PAL_HTTP=httpx $(BIN)/python $(PYTEST) $(FAULTS)

lowest: $(LOWEST)/.done  ## The tests of the library, on the oldest dependencies we promise
	PAL_RUNS=800 $(LOWEST)/bin/python $(PYTEST) tests/kernel tests/runs tests/schema tests/tools tests/llm tests/wire tests/cancel tests/support/test_portals.py
	PAL_HTTP=httpx $(LOWEST)/bin/python $(PYTEST) $(WIRE)

site: $(VENV)/.dev  ## The documentation, into build/site
	$(BIN)/python scripts/build_site.py

dist: $(VENV)/.dev  ## Wheel, source archive, list of parts and sums in dist/, built twice and tried
	$(BIN)/python scripts/release.py
	$(BIN)/python -m pytest tests/test_package.py

format: $(VENV)/.dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf $(VENV) $(LOWEST) .servers build dist

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { echo "Python 3.10 or newer is needed; name one with: make $(MAKECMDGOALS) PYTHON=python3.12"; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { echo "Python's venv module is missing; on Debian: apt-get install python3-venv"; exit 1; }

$(VENV)/.run: $(BIN)/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[cli,local]'
	@touch $@

$(VENV)/.dev: $(BIN)/python pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[all,dev]'
	@touch $@

$(LOWEST)/.done: pyproject.toml requirements/lowest.txt
	$(PYTHON) -m venv $(LOWEST)
	$(LOWEST)/bin/python -m pip install --quiet --disable-pip-version-check -c requirements/lowest.txt -e '.[fast]' pytest pytest-timeout pytest-xdist hypothesis uvloop 'griffelib>=2; python_version >= "3.11"'
	@touch $@

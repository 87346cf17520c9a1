# `make run` and `make test` set up what they need on a fresh machine with Python >= 3.10.
PYTHON ?= python3
TASK ?= What is 17 * 23?
VENV := .venv
LOWEST := .venv-lowest
BIN := $(VENV)/bin
# More workers than two cores: some tests wait. Neighbours stay together, since they share servers.
WORKERS := -m pytest -n 4 --dist worksteal --rerun-failed
PYTEST := $(WORKERS) --ignore tests/engines
# On the oldest dependencies: what reads and writes by them, and ten cases of each other file.
OLDEST := tests/schema tests/tools tests/wire tests/llm tests/kernel tests/runs tests/cancel tests/support/test_portals.py
# Runs servers of extras, which the oldest dependencies are tested without.
OF_EXTRAS := tests/runs/test_every_entry.py
SAMPLED := tests/kernel/ tests/runs/ tests/cancel/ tests/support/ tests/llm/test_ tests/llm/tool_modes/
# What both libraries for HTTP have to do; `make test` runs it over both, or over one of them by turns.
OF_TRANSPORTS := tests/wire tests/testing/test_quirks.py tests/sessions/test_kill.py
TOGETHER := $(MAKE) --no-print-directory -j 2 $(if $(filter output-sync,$(.FEATURES)),--output-sync=target)
# A campaign is one test, which may take hours.
ifneq ($(PAL_KILLS)$(filter soak,$(MAKECMDGOALS)),)
export PYTEST_TIMEOUT := 0
endif
unexport PYTHONDONTWRITEBYTECODE  # else each worker and each child compiles the tests again

.PHONY: run test check style linux windows macos examples ready tools tests lowest engines soak site dist format clean

run: $(VENV)/.run  ## Set up, and do a task on a real model
	$(BIN)/pure-agent-loop run --download "$(TASK)"

test: $(VENV)/.dev tools  ## Set up, and run every check and test on the newest dependencies
	@$(TOGETHER) style linux windows macos examples ready
	$(BIN)/python $(PYTEST)

check: $(VENV)/.dev  ## Format, lint, types
	@$(TOGETHER) style linux windows macos examples

style: $(VENV)/.dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check --no-cache .  # its cache misses a package that appears beside a file

linux: $(VENV)/.dev  # each platform keeps a cache, which the next check of that platform reads
	$(BIN)/mypy

windows: $(VENV)/.dev
	$(BIN)/mypy --platform win32 --cache-dir .mypy_cache/windows --no-warn-unreachable --exclude toolbox/sandbox/ src

macos: $(VENV)/.dev
	$(BIN)/mypy --platform darwin --cache-dir .mypy_cache/macos --no-warn-unreachable --exclude toolbox/sandbox/ src

examples: $(VENV)/.dev
	$(BIN)/pyright --pythonpath $(BIN)/python tests/typing examples

ready: $(VENV)/.dev  # compile once what each worker and each program would compile for itself
	@$(BIN)/python -m compileall -q src
	@$(BIN)/python -m pytest --collect-only -qq > /dev/null || true  # the tests will show what is wrong

tools:  ## Programs that tests need: bubblewrap, ripgrep, git, nginx
	@sh scripts/install-test-tools.sh

tests: $(VENV)/.dev tools ready  ## All tests, on the newest dependencies
	$(BIN)/python $(PYTEST)

lowest: $(LOWEST)/.done  ## The tests of what differs by version, on the oldest dependencies we promise
	PAL_SECONDS=8 $(LOWEST)/bin/python $(PYTEST) $(addprefix --sample ,$(SAMPLED)) --ignore $(OF_EXTRAS) $(OLDEST)

engines: $(VENV)/.engines  ## Agents on the engines of others, whose processes and servers are killed: PAL_KILLS=1000
	$(BIN)/python -m pytest -n 2 --dist loadfile tests/engines

soak: $(VENV)/.dev $(LOWEST)/.done tools  ## Before a release: long campaigns, every case over httpx and on the oldest dependencies
	PAL_KILLS=1000 PAL_RUNS=5000 $(BIN)/python $(PYTEST) tests/sessions/test_kill.py tests/kernel/test_any_script.py tests/testing/test_journal_contract.py tests/durable/test_carrier.py
	PAL_HTTP=httpx PAL_KILLS=1000 $(BIN)/python $(PYTEST) $(OF_TRANSPORTS)
	PAL_HTTP=aiohttp $(BIN)/python $(PYTEST) tests/wire/test_fault_matrix.py
	PAL_TESTS_FORK=anew $(BIN)/python $(PYTEST) tests/acp tests/cli tests/docs tests/server
	PAL_RUNS=1600 $(LOWEST)/bin/python $(PYTEST) --ignore $(OF_EXTRAS) $(OLDEST)

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
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[all,dev]' -e ./conformance
	@touch $@

$(VENV)/.engines: $(VENV)/.dev scripts/install-engines.sh
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[restate,ray]'
	PATH="$(abspath $(BIN)):$$PATH" sh scripts/install-engines.sh
	@touch $@

$(LOWEST)/.done: pyproject.toml requirements/lowest.txt
	$(PYTHON) -m venv $(LOWEST)
	$(LOWEST)/bin/python -m pip install --quiet --disable-pip-version-check -c requirements/lowest.txt -e '.[fast,skills]' -e ./conformance markdown-it-py pytest pytest-timeout pytest-xdist hypothesis uvloop 'griffelib>=2; python_version >= "3.11"'
	@touch $@

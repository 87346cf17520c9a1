"""Failed tests once more, each alone: one that passes then is named as flaky and does not fail the session.

``--rerun-failed`` turns it on, as `make test` does. Where more than `MOST` tests failed, none is repeated:
something is broken then.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

MOST = 10
OPTION = "--rerun-failed"


def pytest_addoption(parser):
    parser.addoption(OPTION, action="store_true", help="Repeat failed tests alone; name the flaky ones.")


def pytest_configure(config):
    is_worker = hasattr(config, "workerinput")
    if config.getoption(OPTION) and not is_worker:
        config.pluginmanager.register(Reruns(config.rootpath))


class Reruns:
    """The failed tests of a session, with what came of them alone."""

    def __init__(self, root):
        self.root = root
        self.failed = {}  # whether each passed when it was repeated

    def pytest_runtest_logreport(self, report):
        if report.failed:
            self.failed[report.nodeid] = False

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session, exitstatus):
        if exitstatus != pytest.ExitCode.TESTS_FAILED or not 0 < len(self.failed) <= MOST:
            return
        for name in self.failed:
            self.failed[name] = self.passes_alone(name)
        if all(self.failed.values()):
            session.exitstatus = pytest.ExitCode.OK

    def passes_alone(self, name):
        environment = {key: value for key, value in os.environ.items() if key != "PYTEST_ADDOPTS"}
        command = [sys.executable, "-m", "pytest", "-n", "0", name]
        done = subprocess.run(
            command, cwd=self.root, env=environment, stdin=subprocess.DEVNULL, capture_output=True
        )
        return done.returncode == pytest.ExitCode.OK

    def pytest_terminal_summary(self, terminalreporter):
        for name, passed in self.failed.items():
            if passed:
                terminalreporter.line(f"flaky: {name}", yellow=True)

"""The command ``doctor``: examine the server that ``run`` would use and show the findings."""

from __future__ import annotations

import argparse
import os
import platform
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pure_agent_loop._version import __version__
from pure_agent_loop.cancel import CancelToken
from pure_agent_loop.cli.arguments import add_json, add_options, describe, read_options, seconds
from pure_agent_loop.cli.choose import plan_for
from pure_agent_loop.cli.exits import DONE, FAILED, INTERRUPTED
from pure_agent_loop.cli.interrupts import Interrupts
from pure_agent_loop.cli.options import EndpointOptions
from pure_agent_loop.cli.output import PREFIX, CommandOutput
from pure_agent_loop.cli.questions import TerminalQuestions
from pure_agent_loop.cli.settings.apply import configure
from pure_agent_loop.cli.slow import CLEAR_LINE, SlowSteps
from pure_agent_loop.doctor import Finding, Report, Target, Watch, as_text, examine, paste
from pure_agent_loop.errors import ConfigError, MissingExtraError
from pure_agent_loop.llm.openai_client import DEFAULT_URL
from pure_agent_loop.llm.profiles import DEFAULT_MODEL
from pure_agent_loop.runs import LOCAL_KEY, Embedded, Endpoint, show_url
from pure_agent_loop.support.language import notice, user_text
from pure_agent_loop.support.portal import run_sync
from pure_agent_loop.support.terminal import one_line, safe_text

WIDTH = 100  # columns without a terminal
TIMEOUT, MAX_SECONDS = 60.0, 3600  # seconds per request
_EPILOG = """\
Exit codes: 0 usable by an agent, 1 unreachable, no answer, or no tool calls in any tool mode,
2 wrong usage, 130 stopped by Ctrl-C.

examples:
  pal doctor
  pal doctor --base-url http://127.0.0.1:8080/v1
  pal doctor --model gpt-4o-mini --json | jq .findings
"""


def add_doctor(parser: argparse.ArgumentParser) -> None:
    """Add its arguments."""
    describe(
        parser,
        "Check what a model server supports with small requests, and print a table, the recommended "
        "tool mode and a profile to paste. Default: the model that 'pal run' would use.",
        _EPILOG,
    )
    add_options(parser.add_argument_group("model"), EndpointOptions)
    parser.add_argument(
        "--timeout",
        type=seconds(MAX_SECONDS),
        default=TIMEOUT,
        metavar="S",
        help=f"seconds per request (default: {TIMEOUT:g})",
    )
    add_json(parser)


def doctor(options: argparse.Namespace, output: CommandOutput) -> int:
    """Examine a server and return the exit code."""
    endpoint = read_options(EndpointOptions, options)
    configure(endpoint, output, Path.cwd(), TerminalQuestions.at_terminal(output))
    plan = plan_for(endpoint.model, endpoint.base_url, os.environ, endpoint.configured)
    with _target_for(plan, output) as target:
        report = _examine(target, options.timeout, output)
    has_key = not target.is_embedded and target.api_key != LOCAL_KEY
    if options.json:
        output.json(_as_json(report, has_key))
    else:
        output.result(_as_text(report, has_key, output))
    return _end(report, output)


@contextmanager
def _target_for(plan: Endpoint | Embedded, output: CommandOutput) -> Generator[Target, None, None]:
    """Yield the server of a plan; an embedded one stops after the block."""
    if isinstance(plan, Embedded):
        yield from _embedded(plan, output)
        return
    name = plan.model or (str(DEFAULT_MODEL) if plan.base_url == DEFAULT_URL else "")
    output.info(
        notice(
            "cli.doctor_examining",
            name=name or notice("cli.the_model"),
            base_url=show_url(plan.base_url),
            why=plan.why,
        )
    )
    yield Target(plan.base_url, name, plan.api_key, show_url(plan.base_url))


def _embedded(plan: Embedded, output: CommandOutput) -> Generator[Target, None, None]:
    from pure_agent_loop.local import join_server
    from pure_agent_loop.local.client import ONE_REQUEST_A_CONNECTION
    from pure_agent_loop.local.engine import models

    name = plan.name.removeprefix("local:")
    wanted = models.default_model() if name == "local" else name
    try:
        with SlowSteps(output) as steps:
            path = models.resolve(wanted) if models.is_path(wanted) else models.pull_model(wanted, steps)
            lease = join_server(path, steps)
    except MissingExtraError as error:
        if plan.name == "local":
            raise ConfigError(f"{user_text('cli.nothing_to_use')} {user_text('cli.ways_out')}") from error
        raise
    try:
        output.info(notice("cli.doctor_embedded", name=path.stem, why=plan.why))
        state = lease.state
        headers = ONE_REQUEST_A_CONNECTION
        yield Target(f"{state.url}/v1", path.stem, state.key, headers=headers, is_embedded=True)
    finally:
        lease.release()


def _examine(target: Target, timeout: float, output: CommandOutput) -> Report:
    token = CancelToken()
    progress = _Progress(output)
    with Interrupts(token, output):
        try:
            return run_sync(examine(target, timeout, progress, token))
        finally:
            progress.clear()


class _Progress(Watch):
    """Shows progress: one changing line on a terminal, else one line per question."""

    def __init__(self, output: CommandOutput) -> None:
        self._output = output
        self._changing = output.can_clear and output.out_is_terminal

    def begin(self, name: str) -> None:
        start = f"{CLEAR_LINE}{PREFIX}" if self._changing else ""
        self._output.progress(f"{start}{name} ... ")

    def end(self, finding: Finding) -> None:
        self._output.progress(finding.verdict if self._changing else f"{finding.verdict}\n")

    def clear(self) -> None:
        """Clear the changing line; the table repeats its content."""
        if self._changing:
            self._output.progress(f"{CLEAR_LINE}")


def _as_json(report: Report, has_key: bool) -> dict[str, Any]:
    head = {"package": __version__, "python": platform.python_version(), "key": has_key}
    return {**head, **report.to_dict(), "code": paste(report)}


def _as_text(report: Report, has_key: bool, output: CommandOutput) -> str:
    target = report.target
    head = {
        "package": f"pure-agent-loop {__version__}, Python {platform.python_version()}",
        "server": target.address,
        "model": target.model or user_text("cli.unknown"),
        "key": user_text(
            "cli.present" if has_key else "cli.not_needed" if target.is_embedded else "cli.none"
        ),
    }
    lines = "".join(f"{name:<9}{one_line(text)}\n" for name, text in head.items())
    width = shutil.get_terminal_size((WIDTH, 24)).columns if output.out_is_terminal else WIDTH
    return f"{lines}\n{safe_text(as_text(report, width))}"


def _end(report: Report, output: CommandOutput) -> int:
    if report.stopped:
        return INTERRUPTED
    if report.can_drive:
        return DONE
    if report.answered:
        output.fail(notice("cli.doctor_no_tools"))
    else:
        failed = next(
            (finding for finding in reversed(report.findings) if finding.verdict in ("failed", "no")), None
        )
        output.fail(one_line(failed.detail if failed else report.reason, 400))
    return FAILED

"""The command ``worker``: run durable tasks until a signal stops it."""

from __future__ import annotations

import argparse
import logging
import os
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from pure_agent_loop.agent import Agent
from pure_agent_loop.audit import AuditLog
from pure_agent_loop.cli.arguments import add_options, seconds
from pure_agent_loop.cli.choose import choose
from pure_agent_loop.cli.commands.durable import describe_durable
from pure_agent_loop.cli.commands.run import make_agent
from pure_agent_loop.cli.exits import DONE, INTERRUPTED
from pure_agent_loop.cli.load import load_object
from pure_agent_loop.cli.options import CommandOptions, PermissionOptions, ServingOptions
from pure_agent_loop.cli.output import CommandOutput
from pure_agent_loop.cli.settings.apply import configure
from pure_agent_loop.cli.toolset import RunToolset
from pure_agent_loop.durable import Engine, Rate, Worker
from pure_agent_loop.errors import ConfigError
from pure_agent_loop.schema.build import checked_in_run
from pure_agent_loop.support.language import notice, user_text
from pure_agent_loop.support.numbers import positive
from pure_agent_loop.toolbox import check_workspace, starter_tools

_DEFAULT_AGENT = "default"


def add_worker(parser: argparse.ArgumentParser) -> None:
    """Add its arguments."""
    describe_durable(parser)
    parser.add_argument(
        "--agents",
        metavar="MODULE:NAME",
        help="agent, dict of agents by name, or function that makes it "
        "(default: agent 'default', model of 'pal run', read-only tools)",
    )
    add_options(parser, ServingOptions, only=("deps",))
    add_options(parser, PermissionOptions, only=("any_folder",))
    parser.add_argument(
        "--concurrency",
        type=positive,
        default=4,
        metavar="N",
        help="concurrent runs per model (default: 4)",
    )
    parser.add_argument(
        "--rate",
        action="append",
        default=[],
        metavar="MODEL=N/S",
        help="start at most N runs of MODEL per S seconds; repeatable",
    )
    parser.add_argument(
        "--lease",
        type=seconds(),
        default=10.0,
        metavar="S",
        help="seconds until a silent worker counts as dead (default: 10)",
    )
    parser.add_argument(
        "--grace",
        type=seconds(),
        default=20.0,
        metavar="S",
        help="seconds for running tools after SIGTERM (default: 20)",
    )


def worker(options: argparse.Namespace, output: CommandOutput) -> int:
    """Run tasks until a signal stops the worker; return the exit code."""
    agents = load_agents(options.agents, output, any_folder=options.any_folder)
    engine = Engine(
        options.database,
        agents=agents,
        concurrency=options.concurrency,
        rates=dict(map(_rate, options.rate)),
        lease=options.lease,
        grace=options.grace,
        deps=load_deps(options.deps),
    )

    def ready(begun: Worker) -> None:
        output.info(notice("cli.worker_begun", executor=begun.executor))
        output.info(notice("cli.worker_database", database=engine.database.display_url))
        output.info(notice("cli.worker_agents", agents=", ".join(_described(agents))))
        output.info(notice("cli.worker_queues", queues=", ".join(sorted(set(begun.queues.values())))))

    with closing(engine), _log_shown(output):
        engine.run_worker(ready, _Stopping(options.grace, output).on_signal)
    output.info(notice("cli.worker_stopped"))
    return DONE


def _described(agents: Mapping[str, Agent]) -> list[str]:
    return [
        f"{name} ({getattr(agent.llm, 'model', '') or user_text('cli.own_client')})"
        for name, agent in agents.items()
    ]


def _rate(text: str) -> tuple[str, Rate]:
    model, _, value = text.rpartition("=")
    limit, _, period = value.partition("/")
    try:
        return model, Rate(int(limit), float(period))
    except ValueError as error:
        raise ConfigError(notice("cli.rate", text=text)) from error


def load_deps(where: str | None) -> Callable[..., Any] | None:
    """Load the function that makes the deps of runs; None without ``--deps``.

    Raises:
        ConfigError: The object cannot be loaded or is not a function.
    """
    if where is None:
        return None
    factory: Callable[..., Any] = checked_in_run(f"--deps={where}", load_object("--deps", where, made=False))
    return factory


def load_agents(where: str | None, output: CommandOutput, *, any_folder: bool = False) -> dict[str, Agent]:
    """Load the agents by name. Without ``--agents``, make one that reads this folder.

    Args:
        where: MODULE:NAME, or None.
        any_folder: Allow a home directory and other folders that are not projects.

    Raises:
        PureAgentLoopError: The agents cannot be loaded, or no model is available.
    """
    if where is None:
        return {_DEFAULT_AGENT: _default_agent(output, any_folder)}
    loaded = load_object("--agents", where)
    if isinstance(loaded, Agent):
        return {_DEFAULT_AGENT: loaded}
    if isinstance(loaded, Mapping) and loaded and all(isinstance(agent, Agent) for agent in loaded.values()):
        return dict(loaded)
    raise ConfigError(notice("cli.agents_kind", where=where, kind=type(loaded).__name__))


def _default_agent(output: CommandOutput, any_folder: bool) -> Agent:
    """Make an agent with read-only tools, and with model, limits and rules from ``pal.toml``."""
    options = CommandOptions()
    if not any_folder:
        check_workspace(Path.cwd())
    configure(options, output, Path.cwd(), None)
    choice = choose(options.model, options.base_url, options.thinking, os.environ, output, options.configured)
    toolset = RunToolset(starter_tools(Path.cwd()), audit=AuditLog())
    return make_agent(options, choice, None, toolset, Path.cwd(), trusted=None)


class _Stopping:
    """Signal handler of a worker: the first signal prints a notice, a later Ctrl-C exits at once."""

    def __init__(self, grace: float, output: CommandOutput) -> None:
        self._grace, self._output = grace, output
        self._was_asked = False

    def on_signal(self, number: int) -> None:
        if self._was_asked and number == signal.SIGINT:
            os._exit(INTERRUPTED)  # like a kill: another worker resumes the runs
        if not self._was_asked:
            self._output.info(notice("cli.worker_stopping", grace=self._grace))
        self._was_asked = True


@contextmanager
def _log_shown(output: CommandOutput) -> Iterator[None]:
    """Show the worker's log on standard error within the block."""
    log, handler = logging.getLogger("pure_agent_loop"), _LogOutput(output)
    before = log.level
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        yield
    finally:
        log.setLevel(before)
        log.removeHandler(handler)


class _LogOutput(logging.Handler):
    """Logging handler that writes to the output and skips repeated messages."""

    def __init__(self, output: CommandOutput) -> None:
        super().__init__()
        self._output, self._last = output, ""

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if text != self._last:
            self._last = text
            self._output.info(text)

"""The command ``worker``: run durable tasks until a signal stops it."""

from __future__ import annotations

import argparse
import os
import signal
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

from pure_agent_loop._version import __version__
from pure_agent_loop.agent import Agent
from pure_agent_loop.audit import AuditLog
from pure_agent_loop.cli.arguments import add_options, seconds
from pure_agent_loop.cli.choose import choose
from pure_agent_loop.cli.commands.durable import describe_durable
from pure_agent_loop.cli.commands.run import make_agent
from pure_agent_loop.cli.detached import ConversationAgent, agent_name
from pure_agent_loop.cli.exits import DONE, INTERRUPTED
from pure_agent_loop.cli.load import load_object
from pure_agent_loop.cli.options import CommandOptions, PermissionOptions, ServingOptions
from pure_agent_loop.cli.output import CommandOutput
from pure_agent_loop.cli.questions import TerminalQuestions
from pure_agent_loop.cli.service_log import add_log_options, service_log
from pure_agent_loop.cli.settings.apply import configure
from pure_agent_loop.cli.toolset import RunToolset
from pure_agent_loop.durable import Engine, HealthServer, Rate, Worker, stop_with_stdin
from pure_agent_loop.errors import ConfigError
from pure_agent_loop.schema.calling import checked_in_run
from pure_agent_loop.support.language import notice, user_text
from pure_agent_loop.support.numbers import positive
from pure_agent_loop.toolbox import check_workspace, starter_tools

_DEFAULT_AGENT = "default"


def add_worker(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    describe_durable(parser)
    parser.add_argument(
        "--agents",
        metavar="MODULE:NAME",
        help="agent, dict of agents by name, or function that makes either "
        "(default: agent 'default', model of 'pal run', read-only tools)",
    )
    add_options(parser, ServingOptions, only=("deps", "download"))
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
        help="start at most N runs with MODEL per S seconds; repeatable",
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
    parser.add_argument(
        "--max-attempts",
        type=positive,
        default=3,
        metavar="N",
        help="attempts for a run that crashes its process (default: 3)",
    )
    parser.add_argument(
        "--health",
        type=_address,
        metavar="[ADDRESS:]PORT",
        help="serve /live, /ready and /metrics here, without a token (default address: 127.0.0.1)",
    )
    add_stop_with_stdin(parser)
    add_log_options(parser)


def add_stop_with_stdin(parser: Any) -> None:
    """Add the option that a parent process passes to its child."""
    parser.add_argument(
        "--stop-with-stdin",
        action="store_true",
        help="stop when standard input ends, e.g. when the parent exits",
    )


def worker(options: argparse.Namespace, output: CommandOutput) -> int:
    """Run tasks until a signal stops the worker; return the exit code."""
    if options.stop_with_stdin:
        stop_with_stdin()
    with service_log(options, output.progress):
        return _work(options, output)


def _work(options: argparse.Namespace, output: CommandOutput) -> int:
    agents = load_agents(options.agents, output, any_folder=options.any_folder, download=options.download)
    engine = Engine(
        options.database,
        agents=agents if options.agents else with_conversations(agents, output),
        concurrency=options.concurrency,
        rates=dict(map(_rate, options.rate)),
        lease=options.lease,
        grace=options.grace,
        deps=load_deps(options.deps),
        max_attempts=options.max_attempts,
    )
    return execute(engine, options, output)


def execute(engine: Engine, options: argparse.Namespace, output: CommandOutput) -> int:
    """Execute the runs of an engine until a signal stops the worker; return the exit code."""
    agents = engine.agents
    health: HealthServer | None = None

    def ready(begun: Worker) -> None:
        if health is not None:
            health.worker = begun
        output.info(
            notice(
                "cli.worker_started",
                worker=begun.executor,
                version=__version__,
                database=engine.database.display_url,
                agents=", ".join(_described(agents)),
                queues=", ".join(sorted(set(begun.queues.values()))),
            )
        )
        if health is not None:
            output.info(notice("cli.worker_health", url=health.url))

    with ExitStack() as stack:
        stack.enter_context(closing(engine))
        if getattr(options, "health", None) is not None:
            health = stack.enter_context(HealthServer(engine.database, *options.health))
        engine.run_worker(ready, _Stopping(options.grace, output).on_signal)
    output.info(notice("cli.worker_stopped"))
    return DONE


def _described(agents: Mapping[str, Agent]) -> list[str]:
    models = {name: getattr(agent.llm, "model", "") for name, agent in agents.items()}
    return [f"{name} ({model})" if model not in ("", name) else name for name, model in models.items()]


def _rate(text: str) -> tuple[str, Rate]:
    model, _, value = text.rpartition("=")
    limit, _, period = value.partition("/")
    try:
        return model, Rate(int(limit), float(period))
    except ValueError as error:
        raise ConfigError(notice("cli.rate", text=text)) from error


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not port.isdecimal() or int(port) > 65_535:
        raise argparse.ArgumentTypeError(user_text("cli.port", text=text))
    return host.strip("[]") or "127.0.0.1", int(port)


def load_deps(where: str | None) -> Callable[..., Any] | None:
    """Load the function that creates the deps for runs; None without ``--deps``.

    Raises:
        ConfigError: The object cannot be loaded or is not a function.
    """
    if where is None:
        return None
    factory: Callable[..., Any] = checked_in_run(f"--deps={where}", load_object("--deps", where, made=False))
    return factory


def load_agents(
    where: str | None,
    output: CommandOutput,
    *,
    any_folder: bool = False,
    download: bool = False,
    own_name: bool = False,
) -> dict[str, Agent]:
    """Load the agents by name. Without ``--agents``, create an agent that reads this folder.

    Args:
        where: The agents as MODULE:NAME, or None.
        any_folder: True to allow a home directory and other folders that are not projects.
        download: True to download the demo model without asking if no model is found.
        own_name: True to use the name of a single agent, if it has one, instead of ``default``.

    Raises:
        PureAgentLoopError: The agents cannot be loaded, or no model is available.
    """
    if where is None:
        return {_DEFAULT_AGENT: _default_agent(output, any_folder, download)}
    loaded = load_object("--agents", where)
    if isinstance(loaded, Agent):
        return {(own_name and loaded.config.name) or _DEFAULT_AGENT: loaded}
    if isinstance(loaded, Mapping) and loaded and all(isinstance(agent, Agent) for agent in loaded.values()):
        return dict(loaded)
    raise ConfigError(notice("cli.agents_kind", where=where, kind=type(loaded).__name__))


def with_conversations(agents: Mapping[str, Agent], output: CommandOutput) -> dict[str, Agent]:
    """Return the agents, plus one that continues runs from this user's conversations on this machine."""
    return {**agents, agent_name(): ConversationAgent(output)}


def _default_agent(output: CommandOutput, any_folder: bool, download: bool) -> Agent:
    """Create an agent with read-only tools, and with the model, limits and rules from ``pal.toml``."""
    options = CommandOptions(download=download)
    if not any_folder:
        check_workspace(Path.cwd())
    configure(options, output, Path.cwd(), None)
    choice = choose(options, options.thinking, output, questions=TerminalQuestions.at_terminal(output))
    toolset = RunToolset(starter_tools(Path.cwd()), audit=AuditLog())
    return make_agent(options, choice, None, toolset, Path.cwd(), trusted=None)


class _Stopping:
    """Signal handler of a worker: the first signal prints a notice, a later Ctrl-C exits at once."""

    def __init__(self, grace: float, output: CommandOutput) -> None:
        self._grace, self._output = grace, output
        self._was_asked = False

    def on_signal(self, number: int) -> None:
        if self._was_asked and number == signal.SIGINT:
            os._exit(INTERRUPTED)  # like SIGKILL: another worker resumes the runs
        if not self._was_asked:
            self._output.info(notice("cli.worker_stopping", grace=self._grace))
        self._was_asked = True

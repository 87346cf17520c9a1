"""The command ``run``: run one task and return its exit code."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pure_agent_loop.cli.arguments import add_options, describe
from pure_agent_loop.cli.choose import choose
from pure_agent_loop.cli.exits import INTERRUPTED, USAGE
from pure_agent_loop.cli.first_start import ask_for_model
from pure_agent_loop.cli.options import (
    AnswerOptions,
    CommandOptions,
    LimitOptions,
    ModelOptions,
    OutputOptions,
    PermissionOptions,
    PromptOptions,
    SessionOptions,
    ToolOptions,
    agent_arguments,
    limits_of,
)
from pure_agent_loop.cli.output import CommandOutput
from pure_agent_loop.cli.parser import add_help_all
from pure_agent_loop.cli.questions import TerminalQuestions
from pure_agent_loop.cli.settings.apply import configure
from pure_agent_loop.cli.settings.servers import with_servers
from pure_agent_loop.cli.task import PipedAnswer, media_named, read_task, tasks_of_lines, with_attached
from pure_agent_loop.cli.toolset import (
    RunToolset,
    assistant_settings,
    check_given_rules,
    make_toolset,
    rules_of,
    suggest,
    workspace_of,
)
from pure_agent_loop.cli.trust import may_guide
from pure_agent_loop.cli.which_session import SessionTarget, answer_there, is_resuming, place_for_run
from pure_agent_loop.errors import ConfigError
from pure_agent_loop.permissions import (
    AskFunction,
    Permission,
    PermissionRequest,
)
from pure_agent_loop.prompts import prompts_for
from pure_agent_loop.runs import Choice
from pure_agent_loop.support.language import notice
from pure_agent_loop.tool import ToolRegistry

if TYPE_CHECKING:
    from pure_agent_loop.agent import Agent
    from pure_agent_loop.assistant import Guidance
    from pure_agent_loop.compaction import Compactor

_EPILOG = """\
The model: --model and --base-url, else PAL_MODEL, PAL_BASE_URL and PAL_API_KEY, else OPENAI_MODEL,
OPENAI_BASE_URL and OPENAI_API_KEY, else a model server running on this machine (Ollama, LM Studio,
llama.cpp, vLLM), else the embedded model from the [local] extra. Standard error shows the choice.

Exit codes: 0 done, 1 failed, 2 wrong usage, 3 limit reached, 4 calls denied, or pending without a
terminal to ask on, 75 temporary failure (retry later), 130 stopped by Ctrl-C.

examples:
  pal run "Which files are in the docs folder?"
  git diff | pal run -p "Write a commit message for this change."
  pal run --model ./qwen2.5-0.5b.gguf "What is 17 * 23?"
  pal run --allow edit_file --allow 'shell(npm test)' "Make the tests pass"; pal undo
  pal run --output-format json "Summarise README.md" | jq -r .content
"""


def add_run(parser: argparse.ArgumentParser, arguments: str = "TASK") -> None:
    """Add the arguments of the command.

    Args:
        arguments: The arguments after the options, as shown in the usage line.
    """
    parser.set_defaults(options_type=CommandOptions)
    summary = "Run a task with a model and tools in the working folder, and print the answer."
    describe(parser, summary, _EPILOG)
    add_help_all(parser, arguments)
    parser.add_argument(
        "task",
        nargs="*",
        metavar="TASK",
        help="the task; piped text is its context, or the task if none is given",
    )
    add_options(parser.add_argument_group("model"), ModelOptions)
    add_options(parser.add_argument_group("work"), PromptOptions, ToolOptions, AnswerOptions)
    add_options(parser.add_argument_group("limits"), LimitOptions)
    sessions = parser.add_argument_group("sessions")
    add_options(
        sessions.add_mutually_exclusive_group(),
        SessionOptions,
        only=("session", "continue_last", "resume", "no_session"),
    )
    add_options(sessions, SessionOptions, only=("keep_sessions", "database"))
    add_options(parser.add_argument_group("permissions"), PermissionOptions)
    add_options(parser.add_argument_group("output"), OutputOptions)


def run(options: CommandOptions, output: CommandOutput) -> int:
    """Run the task and return the exit code."""
    if options.explain_run is not None:
        from pure_agent_loop.cli.explain_run import explain_run

        return explain_run(options, output)
    workspace = workspace_of(options.workspace)
    lines = options.input_format == "stream-json"
    if lines and (options.output_format != "stream-json" or options.task or options.explain):
        raise ConfigError(notice("cli.stream_json"))
    typed_task = " ".join(options.task).rstrip()
    task = None if lines else read_task(options.task, output.info, needed=not is_resuming(options)) or None
    questions = TerminalQuestions.at_terminal(output)
    typed = rules_of(options)
    configure(options, output, workspace, questions)
    trusted = may_guide(workspace, questions, output, trust_folder=options.trust_folder)
    text, media = with_attached(task or "", options.attach)
    task = text or None
    with closing(place_for_run(options, workspace, questions, output)) as place, ExitStack() as stack:
        # Invalid tools must be reported before a model starts.
        toolset = make_toolset(options, workspace, output, trusted=trusted)
        toolset = with_servers(toolset, options, workspace, questions, output)
        if task is not None and typed_task.startswith("/"):
            from pure_agent_loop.cli.chat.custom import own_task

            names = [server.name for server in toolset.mcp.servers] if toolset.mcp else []
            task = task.replace(typed_task, own_task(typed_task, workspace, questions, names), 1)
        if toolset.mcp is not None:
            from pure_agent_loop.cli.protocols.mcp_talk import held

            task = stack.enter_context(held(toolset.mcp, task, typed_task))
        check_given_rules(typed, options, toolset, output)
        _answer_settings(options)  # an invalid schema must also be reported before a model starts
        ask_for_model(options, output, questions)
        choice = choose(options, options.thinking, output, questions=questions)
        toolset = toolset.for_model(is_tiny=choice.is_tiny)
        on_ask = _ask_function(options, toolset, questions)
        is_attended = questions is not None
        agent = make_agent(
            options, choice, on_ask, toolset, workspace, trusted=trusted, is_attended=is_attended
        )
        if options.explain and task is not None:
            from pure_agent_loop.cli.one_run import explain

            return explain(agent, task, options.output_format, output)
        if toolset.shell is not None and not options.quiet and options.output_format != "stream-json":
            output.info(toolset.shell.describe())

        from pure_agent_loop.cli.one_run import OneRun

        def do(task: str | None, *, first: bool = True) -> int:
            one = OneRun(options, output, choice.model, workspace, questions, place)
            return one.run(agent, task, first=first, media=media)

        if lines:
            return _conversation(do, place)
        media += media_named(typed_task, workspace)
        return do(task)


def _conversation(do: Callable[..., int], place: SessionTarget) -> int:
    """Run the tasks of standard input in one conversation; return the code of the last run."""
    code, first = USAGE, True
    for line in tasks_of_lines(sys.stdin):
        if isinstance(line, PipedAnswer) and answer_there(place, line):
            continue  # other questions are still pending
        code, first = do(None if isinstance(line, PipedAnswer) else line, first=first), False
        if code == INTERRUPTED:
            break
    if first:
        raise ConfigError(notice("cli.stream_no_task"))
    return code


def make_agent(
    options: CommandOptions,
    choice: Choice,
    on_ask: AskFunction | None,
    toolset: RunToolset,
    workspace: Path,
    *,
    trusted: Guidance | None,
    is_attended: bool = False,
    remembered: str = "",
    compaction: Compactor | bool = True,
    shows_reasoning: bool = False,
) -> Agent:
    """Create the agent that the options describe.

    Args:
        on_ask: Function that answers questions about calls; None if nothing can answer them.
        trusted: Instructions in the folder, if they are trusted.
        is_attended: True if a person can answer questions.
        remembered: The person's notes about the folder.
        shows_reasoning: True to show the reasoning that the server sends, even if it was not requested.
    """
    from pure_agent_loop.agent import Agent

    settings, limits = agent_arguments(options), limits_of(options)
    if options.system is not None:
        settings["system_prompt"] = options.system
    elif not choice.is_tiny:  # a tiny model follows a short prompt better
        settings |= assistant_settings(
            workspace,
            toolset,
            options.permission_mode,
            limits,
            trusted=trusted,
            is_attended=is_attended,
            remembered=remembered,
        )
    if options.append_system:
        prompt = settings.get("system_prompt", prompts_for().system_prompt)
        settings["system_prompt"] = f"{prompt}\n\n{options.append_system}"
    settings |= _answer_settings(options)
    return Agent(
        llm=choice.client,
        tools=[*toolset.tools, *([toolset.mcp] if toolset.mcp else [])],
        audit=toolset.audit,
        snapshots=toolset.snapshots,
        subagents=toolset.subagents,
        name="pal run",
        cwd=workspace,
        limits=limits,
        emit_reasoning_events=shows_reasoning or options.thinking not in ("off", "none"),
        permission_rules=rules_of(options),
        on_ask=on_ask,
        compaction=compaction,
        **settings,
    )


def _answer_settings(options: CommandOptions) -> dict[str, Any]:
    """Return the agent's settings for the type of the answer. Raises `ConfigError` for an invalid schema."""
    if options.schema is None:
        return {}
    from pure_agent_loop.cli.load import answer_type

    return {"output_type": answer_type(options.schema)}


def _ask_function(
    options: CommandOptions, toolset: RunToolset, questions: TerminalQuestions | None
) -> AskFunction | None:
    """Return the function that asks the user.

    The current options may already answer questions that are recorded in a session.
    """
    if options.session is None and not is_resuming(options):
        return None if questions is None else questions.wait
    tools = ToolRegistry(toolset.tools)

    def answer(request: PermissionRequest) -> Permission:
        suggestion = suggest(options, request, tools, attended=questions is not None)
        return suggestion if suggestion.behavior != "ask" or questions is None else questions.wait(request)

    return answer

"""The command ``run``: run one task and return its exit code."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pure_agent_loop.cli.arguments import (
    add_any_folder,
    add_database,
    add_help_all,
    add_limits,
    add_model_choice,
    add_own,
    add_servers,
    add_trust,
    describe,
    limits_of,
)
from pure_agent_loop.cli.choose import choose
from pure_agent_loop.cli.exits import INTERRUPTED, USAGE
from pure_agent_loop.cli.output import CommandOutput
from pure_agent_loop.cli.questions import TerminalQuestions
from pure_agent_loop.cli.settings.apply import configure
from pure_agent_loop.cli.settings.servers import with_servers
from pure_agent_loop.cli.task import PipedAnswer, media_named, read_task, tasks_of_lines, with_attached
from pure_agent_loop.cli.toolset import (
    RunToolset,
    check_given_rules,
    make_toolset,
    rules_of,
    suggest,
    system_prompt,
    workspace_of,
)
from pure_agent_loop.cli.trust import may_guide
from pure_agent_loop.cli.which_session import PICK, SessionTarget, answer_there, is_resuming, place_for_run
from pure_agent_loop.errors import ConfigError
from pure_agent_loop.permissions import (
    PERMISSION_MODES,
    AskFunction,
    Permission,
    PermissionRequest,
)
from pure_agent_loop.prompts import prompts_for
from pure_agent_loop.runs import Choice
from pure_agent_loop.support.language import LANGUAGES, notice
from pure_agent_loop.support.numbers import positive
from pure_agent_loop.tool import ToolRegistry

if TYPE_CHECKING:
    from pure_agent_loop.agent import Agent
    from pure_agent_loop.assistant import Guidance
    from pure_agent_loop.kernel.kit import Compactor

INPUT_FORMATS = ("text", "stream-json")
THEMES = ("auto", "dark", "light", "plain")
OUTPUT_FORMATS = ("text", "json", "stream-json", "code")
MODES = ("react", "single")
SANDBOXES = ("auto", "bubblewrap", "landlock", "none")
_EPILOG = """\
The model: --model and --base-url, else PAL_MODEL, PAL_BASE_URL and PAL_API_KEY, else OPENAI_MODEL,
OPENAI_BASE_URL and OPENAI_API_KEY, else a model server running on this machine (Ollama, LM Studio,
llama.cpp, vLLM), else the embedded model of the extra [local]. Standard error shows the choice.

Exit codes: 0 done, 1 failed, 2 wrong usage, 3 limit reached, 4 calls denied, or pending without a
terminal to ask at, 75 temporary failure (retry later), 130 stopped by Ctrl-C.

examples:
  pal run "Which files are in the docs folder?"
  git diff | pal run -p "Write a commit message for this change."
  pal run --model ./qwen2.5-0.5b.gguf "What is 17 * 23?"
  pal run --allow edit_file --allow 'shell(npm test)' "Make the tests pass"; pal undo
  pal run --output-format json "Summarise README.md" | jq -r .content
"""


def add_run(parser: argparse.ArgumentParser) -> None:
    """Add its arguments."""
    summary = "Run a task with a model and tools in the working folder, and print the answer."
    describe(parser, summary, _EPILOG)
    add_help_all(parser)
    parser.add_argument(
        "task",
        nargs="*",
        help="the task; piped text is its context, or the task if missing",
    )
    add_model_choice(parser.add_argument_group("model"))
    _add_work_options(parser.add_argument_group("work"))
    add_limits(parser.add_argument_group("limits"))
    _add_session_options(parser.add_argument_group("sessions"))
    add_permissions(parser.add_argument_group("permissions"))
    _add_output_options(parser.add_argument_group("output"))


def _add_work_options(group: argparse._ArgumentGroup) -> None:
    group.add_argument("-s", "--system", metavar="TEXT", help="the system prompt")
    group.add_argument(
        "--append-system",
        "--append-system-prompt",
        metavar="TEXT",
        help="text appended to the system prompt",
    )
    group.add_argument(
        "-a",
        "--attach",
        action="append",
        default=[],
        metavar="FILE",
        help="attach a text file, an image or a PDF; repeatable",
    )
    group.add_argument(
        "--workspace",
        metavar="DIR",
        default=".",
        help="folder that the tools can see (default: current folder)",
    )
    add_tool_options(group)
    add_own(group)
    group.add_argument(
        "--mode",
        choices=MODES,
        default="react",
        help="react: steps; single: one round of tools (default: react)",
    )
    group.add_argument(
        "--explain",
        action="store_true",
        help="show the first request and the limits without sending",
    )


def add_tool_options(group: argparse._ArgumentGroup) -> None:
    """Add the options that select tools."""
    group.add_argument(
        "--tools",
        default="all",
        metavar="LIST",
        help="all, read (read-only), none, or tool names (default: all)",
    )
    group.add_argument(
        "--subagents",
        action="store_true",
        help="let the model start subagents (explore, verify, your own)",
    )
    group.add_argument(
        "--subagents-from",
        action="append",
        default=[],
        metavar="DIR",
        help="add subagents defined in Markdown files of DIR; repeatable",
    )
    add_servers(group)
    group.add_argument("--no-tools", action="store_true", help="answer without tools (same as --tools none)")


def _add_session_options(group: argparse._ArgumentGroup) -> None:
    which = group.add_mutually_exclusive_group()
    which.add_argument(
        "--session",
        metavar="ID",
        help="session to record the run in (default: a new one)",
    )
    which.add_argument(
        "-c",
        "--continue",
        action="store_true",
        dest="go_on",
        help="resume this folder's last session; no TASK: finish its run",
    )
    which.add_argument(
        "-r",
        "--resume",
        metavar="ID",
        nargs="?",
        const=PICK,
        help="resume a session; without ID, pick one of this folder",
    )
    which.add_argument("--no-session", action="store_true", help="do not record this run")
    group.add_argument(
        "--keep-sessions",
        type=positive,
        metavar="DAYS",
        help="delete finished sessions unused for DAYS (default: off)",
    )
    add_database(group)


def add_permissions(group: argparse._ArgumentGroup) -> None:
    """Add the options of permissions and of the sandbox."""
    group.add_argument(
        "--permission-mode",
        choices=PERMISSION_MODES,
        default="ask",
        help="ask: before changes; auto: allow unless a rule denies; "
        "plan: read-only tools; bypass: never ask (default: ask)",
    )
    group.add_argument(
        "--sandbox",
        choices=SANDBOXES,
        default="auto",
        help="sandbox for commands (default: best available)",
    )
    group.add_argument("--network", action="store_true", help="allow network access for sandboxed commands")
    add_any_folder(group)
    add_trust(group)
    group.add_argument(
        "--unsandboxed-shell",
        action="store_true",
        help="without a sandbox, let the rules decide instead of asking",
    )
    group.add_argument(
        "--no-snapshots", action="store_true", help="do not take the snapshots that 'pal undo' needs"
    )
    group.add_argument("--no-audit", action="store_true", help="do not write tool calls to the audit log")
    for behavior, aliases, summary in (
        ("allow", ("--allowed",), "allow matching calls"),
        ("deny", ("--denied",), "deny matching calls"),
        ("ask", (), "ask before matching calls"),
    ):
        group.add_argument(
            f"--{behavior}",
            *aliases,
            dest=behavior,
            action="append",
            default=[],
            metavar="RULE",
            help=f"{summary}, e.g. 'shell(npm test)'; repeatable",
        )


def _add_output_options(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--input-format",
        choices=INPUT_FORMATS,
        default="text",
        help="text: the task; stream-json: one JSON object per task",
    )
    group.add_argument(
        "--output-format",
        choices=OUTPUT_FORMATS,
        default="text",
        help="text: the answer; json: one object; stream-json: one object per event; "
        "code: the first code block, or the whole answer without one (default: text)",
    )
    group.add_argument(
        "-x",
        "--extract",
        action="store_const",
        dest="output_format",
        const="code",
        help="same as --output-format code",
    )
    group.add_argument(
        "-p", "--print", action="store_true", dest="quiet", help="print only the answer, no progress"
    )
    group.add_argument("-q", "--quiet", action="store_true", dest="quiet", help="same as --print")
    group.add_argument(
        "--theme",
        choices=THEMES,
        default="auto",
        help="colours; plain disables them (default: auto)",
    )
    group.add_argument(
        "--screen-reader",
        action="store_true",
        help="words instead of symbols, and nothing that moves",
    )
    group.add_argument(
        "--no-color", action="store_const", dest="theme", const="plain", help="same as --theme plain"
    )
    group.add_argument("--language", choices=LANGUAGES, help="language of built-in prompts (default: en)")


def run(options: argparse.Namespace, output: CommandOutput) -> int:
    """Run the task and return the exit code."""
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
        choice = choose(
            options.model, options.base_url, options.thinking, os.environ, output, options.configured
        )
        toolset = toolset.for_model(is_tiny=choice.is_tiny)
        on_ask = _ask_function(options, toolset, questions)
        agent = make_agent(options, choice, on_ask, toolset, workspace, trusted=trusted)
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
            continue  # further questions are pending
        code, first = do(None if isinstance(line, PipedAnswer) else line, first=first), False
        if code == INTERRUPTED:
            break
    if first:
        raise ConfigError(notice("cli.stream_no_task"))
    return code


def make_agent(
    options: argparse.Namespace,
    choice: Choice,
    on_ask: AskFunction | None,
    toolset: RunToolset,
    workspace: Path,
    *,
    trusted: Guidance | None,
    extra_prompt: str = "",
    compaction: Compactor | bool = True,
) -> Agent:
    """Make the agent that the options describe.

    Args:
        on_ask: Asks the user; None without a terminal.
        trusted: Instructions of the folder, if trusted.
    """
    from pure_agent_loop.agent import Agent

    settings: dict[str, Any] = {}
    extra_prompt = "\n\n".join(text for text in (extra_prompt, options.append_system) if text)
    prompt = system_prompt(options.system, trusted, is_tiny=choice.is_tiny)
    if extra_prompt:
        prompt = f"{prompts_for().system_prompt if prompt is None else prompt}\n\n{extra_prompt}"
    if prompt is not None:
        settings["system_prompt"] = prompt
    if options.schema is not None:
        from pure_agent_loop.cli.load import answer_type

        settings["output_type"] = answer_type(options.schema)
    if options.temperature is not None:
        settings["temperature"] = options.temperature
    return Agent(
        llm=choice.client,
        tools=[*toolset.tools, *([toolset.mcp] if toolset.mcp else [])],
        audit=toolset.audit,
        snapshots=toolset.snapshots,
        subagents=toolset.subagents,
        name="pal run",
        cwd=workspace,
        limits=limits_of(options),
        thinking_level=options.thinking,
        tool_mode=options.tool_mode,
        emit_reasoning_events=options.thinking != "off",
        mode=options.mode,
        permission_mode=options.permission_mode,
        permission_rules=rules_of(options),
        on_ask=on_ask,
        compaction=compaction,
        **settings,
    )


def _ask_function(
    options: argparse.Namespace, toolset: RunToolset, questions: TerminalQuestions | None
) -> AskFunction | None:
    """Return the function that asks. The current options may answer questions that a session recorded."""
    if options.session is None and not is_resuming(options):
        return None if questions is None else questions.wait
    tools = ToolRegistry(toolset.tools)

    def answer(request: PermissionRequest) -> Permission:
        suggestion = suggest(options, request, tools, questions)
        return suggestion if suggestion.behavior != "ask" or questions is None else questions.wait(request)

    return answer

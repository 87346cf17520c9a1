"""The command ``run``: one task, from the command line to the exit code."""

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
from pure_agent_loop.cli.output import Output
from pure_agent_loop.cli.questions import Questions
from pure_agent_loop.cli.settings.apply import configure
from pure_agent_loop.cli.settings.servers import with_servers
from pure_agent_loop.cli.task import Answer, media_named, read_task, tasks_of_lines, with_attached
from pure_agent_loop.cli.toolset import (
    Toolset,
    check_given_rules,
    make_toolset,
    rules_of,
    suggest,
    system_prompt,
    workspace_of,
)
from pure_agent_loop.cli.trust import may_guide
from pure_agent_loop.cli.which_session import PICK, Place, answer_there, is_going_on, place_for_run
from pure_agent_loop.errors import ConfigError
from pure_agent_loop.permissions import (
    PERMISSION_MODES,
    AskFunction,
    Permission,
    PermissionRequest,
)
from pure_agent_loop.prompts import prompts_for
from pure_agent_loop.runs.choose import Choice
from pure_agent_loop.support.language import LANGUAGES
from pure_agent_loop.support.numbers import positive
from pure_agent_loop.tool import ToolRegistry

if TYPE_CHECKING:
    from pure_agent_loop.agent import Agent
    from pure_agent_loop.assistant.trust import Guidance
    from pure_agent_loop.kernel.kit import Compactor

INPUT_FORMATS = ("text", "stream-json")
THEMES = ("auto", "dark", "light", "plain")
OUTPUT_FORMATS = ("text", "json", "stream-json", "code")
MODES = ("react", "single")
SANDBOXES = ("auto", "bubblewrap", "landlock", "none")
_EPILOG = """\
The model: --model and --base-url, else PAL_MODEL, PAL_BASE_URL and PAL_API_KEY, else OPENAI_MODEL,
OPENAI_BASE_URL and OPENAI_API_KEY, else a model server running on this machine (Ollama, LM Studio,
llama.cpp, vLLM), else the embedded model of the extra [local]. One line on standard error says which.

Exit codes: 0 done, 1 failed, 2 wrong usage, 3 a limit was reached, 4 calls were not allowed or need
a person's permission and there is no terminal, 75 failed but worth another try, 130 stopped by Ctrl-C.

examples:
  pal run "Which files are in the docs folder?"
  git diff | pal run -p "Write a commit message for this change."
  pal run --model ./qwen2.5-0.5b.gguf "What is 17 * 23?"
  pal run --allow edit_file --allow 'shell(npm test)' "Make the tests pass"; pal undo
  pal run --output-format json "Summarise README.md" | jq -r .content
"""


def add_run(parser: argparse.ArgumentParser) -> None:
    """Add its arguments."""
    about = "Do a task with a model and tools for the working folder, and print the answer."
    describe(parser, about, _EPILOG)
    parser.add_argument(
        "task",
        nargs="*",
        help="what to do; text piped in is its context, or the task itself if there is none",
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
        help="what it says besides",
    )
    group.add_argument(
        "-a",
        "--attach",
        action="append",
        default=[],
        metavar="FILE",
        help="a file for the task: the text of it, or an image or a PDF; repeatable",
    )
    group.add_argument(
        "--workspace", metavar="DIR", default=".", help="the tools see only this folder (default: here)"
    )
    add_tool_options(group)
    add_own(group)
    group.add_argument(
        "--mode",
        choices=MODES,
        default="react",
        help="react: work in steps (the default); single: decide about tools once, then answer",
    )
    group.add_argument(
        "--explain",
        action="store_true",
        help="show the first request and the limits; send nothing to the model",
    )


def add_tool_options(group: argparse._ArgumentGroup) -> None:
    """Add the options that say which tools there are."""
    group.add_argument(
        "--tools",
        default="all",
        metavar="LIST",
        help="all (the default), read (only to look at files), none, or names: read_file,edit_file,shell",
    )
    group.add_argument(
        "--subagents",
        action="store_true",
        help="the model may give tasks to others: 'explore', 'verify', and those in the folder 'agents' of "
        "the data folder",
    )
    group.add_argument(
        "--subagents-from",
        action="append",
        default=[],
        metavar="DIR",
        help="also to those that the Markdown files of this folder define; repeatable",
    )
    add_servers(group)
    group.add_argument("--no-tools", action="store_true", help="answer without tools: --tools none")


def _add_session_options(group: argparse._ArgumentGroup) -> None:
    which = group.add_mutually_exclusive_group()
    which.add_argument(
        "--session",
        metavar="ID",
        help="keep the run in a session of that name, new or old (default: a new one)",
    )
    which.add_argument(
        "-c",
        "--continue",
        action="store_true",
        dest="go_on",
        help="go on with the last session of this folder; without a task, with what was being done",
    )
    which.add_argument(
        "-r",
        "--resume",
        metavar="ID",
        nargs="?",
        const=PICK,
        help="go on with that session, with or without a task; without an ID: pick one of this folder",
    )
    which.add_argument("--no-session", action="store_true", help="keep nothing of this run")
    group.add_argument(
        "--keep-sessions",
        type=positive,
        metavar="DAYS",
        help="delete what is finished and was not used for so long (default: keep all)",
    )
    add_database(group)


def add_permissions(group: argparse._ArgumentGroup) -> None:
    """Add the options that say what may be done, and where."""
    group.add_argument(
        "--permission-mode",
        choices=PERMISSION_MODES,
        default="ask",
        help="ask: about what may change something (the default here; that of the library is auto); "
        "auto: allow what no rule forbids; "
        "plan: only tools that read; bypass: ask about nothing",
    )
    group.add_argument(
        "--sandbox",
        choices=SANDBOXES,
        default="auto",
        help="what holds commands back (default: the best there is here)",
    )
    group.add_argument("--network", action="store_true", help="commands in the sandbox may use the network")
    add_any_folder(group)
    add_trust(group)
    group.add_argument(
        "--unsandboxed-shell",
        action="store_true",
        help="where there is no sandbox, the rules alone decide about commands; else each is asked about",
    )
    group.add_argument("--no-snapshots", action="store_true", help="do not keep what 'pal undo' needs")
    group.add_argument("--no-audit", action="store_true", help="do not write calls to the audit log")
    for behavior, also, meaning in (
        ("allow", ("--allowed",), "are allowed"),
        ("deny", ("--denied",), "are denied"),
        ("ask", (), "are asked about"),
    ):
        group.add_argument(
            f"--{behavior}",
            *also,
            dest=behavior,
            action="append",
            default=[],
            metavar="RULE",
            help=f"calls that {meaning}, such as 'edit_file(path=docs/*)', 'shell(npm test)'; repeatable",
        )


def _add_output_options(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--input-format",
        choices=INPUT_FORMATS,
        default="text",
        help="text: the task; stream-json: one object a line for each task of a conversation",
    )
    group.add_argument(
        "--output-format",
        choices=OUTPUT_FORMATS,
        default="text",
        help="text: the answer; json: one object; stream-json: one object a line for each event; "
        "code: the first piece of code in the answer, or all of it if there is none",
    )
    group.add_argument(
        "-x",
        "--extract",
        action="store_const",
        dest="output_format",
        const="code",
        help="--output-format code",
    )
    group.add_argument(
        "-p", "--print", action="store_true", dest="quiet", help="the answer only, no progress"
    )
    group.add_argument("-q", "--quiet", action="store_true", dest="quiet", help="the same")
    group.add_argument(
        "--theme",
        choices=THEMES,
        default="auto",
        help="colours: auto (the default), for a dark or a light background, or plain: none",
    )
    group.add_argument(
        "--screen-reader",
        action="store_true",
        help="a conversation to be read aloud: words in the place of signs, and nothing that moves",
    )
    group.add_argument("--no-color", action="store_const", dest="theme", const="plain", help="--theme plain")
    group.add_argument(
        "--language", choices=LANGUAGES, help="of what the framework says to the model (default: en)"
    )


def run(options: argparse.Namespace, output: Output) -> int:
    """Do the task and return the exit code."""
    workspace = workspace_of(options.workspace)
    lines = options.input_format == "stream-json"
    if lines and (options.output_format != "stream-json" or options.task or options.explain):
        raise ConfigError(
            "--input-format stream-json takes its tasks from standard input, not from the command line; it "
            "needs --output-format stream-json and goes without --explain."
        )
    typed_task = " ".join(options.task).rstrip()
    task = None if lines else read_task(options.task, output.say, needed=not is_going_on(options)) or None
    questions = Questions.at_terminal(output)
    typed = rules_of(options)
    configure(options, output, workspace, questions)
    trusted = may_guide(workspace, questions, output, given=options.trust_folder)
    text, media = with_attached(task or "", options.attach)
    task = text or None
    with closing(place_for_run(options, workspace, questions, output)) as place, ExitStack() as stack:
        # What is wrong with the tools is said before a model starts.
        found = make_toolset(options, workspace, output, trusted=trusted)
        found = with_servers(found, options, workspace, questions, output)
        if task is not None and typed_task.startswith("/"):
            from pure_agent_loop.cli.chat.custom import own_task

            names = [each.name for each in found.mcp.servers] if found.mcp else []
            task = task.replace(typed_task, own_task(typed_task, workspace, questions, names), 1)
        if found.mcp is not None:
            from pure_agent_loop.cli.protocols.mcp_talk import held

            task = stack.enter_context(held(found.mcp, task, typed_task))
        check_given_rules(typed, options, found, output)
        choice = choose(
            options.model, options.base_url, options.thinking, os.environ, output, options.configured
        )
        toolset = found.for_model(is_tiny=choice.is_tiny)
        on_ask = _answers(options, toolset, questions)
        agent = make_agent(options, choice, on_ask, toolset, workspace, trusted=trusted)
        if options.explain and task is not None:
            from pure_agent_loop.cli.one_run import explain

            return explain(agent, task, options.output_format, output)
        if toolset.shell is not None and not options.quiet and options.output_format != "stream-json":
            output.say(toolset.shell.describe())

        from pure_agent_loop.cli.one_run import OneRun

        def do(task: str | None, *, first: bool = True) -> int:
            one = OneRun(options, output, choice.model, workspace, questions, place)
            return one.run(agent, task, first=first, media=media)

        if lines:
            return _conversation(do, place)
        media += media_named(typed_task, workspace)
        return do(task)


def _conversation(do: Callable[..., int], place: Place) -> int:
    """Each line is a task or an answer; they go on from one another. The code is that of the last run."""
    code, first = USAGE, True
    for line in tasks_of_lines(sys.stdin):
        if isinstance(line, Answer) and answer_there(place, line):
            continue  # there are more questions
        code, first = do(None if isinstance(line, Answer) else line, first=first), False
        if code == INTERRUPTED:
            break
    if first:
        raise ConfigError('There is no task. Write lines such as {"type": "user", "content": "..."}.')
    return code


def make_agent(
    options: argparse.Namespace,
    choice: Choice,
    on_ask: AskFunction | None,
    toolset: Toolset,
    workspace: Path,
    *,
    trusted: Guidance | None,
    more: str = "",
    compaction: Compactor | bool = True,
) -> Agent:
    """The agent that the options ask for.

    Args:
        options: The parsed command line with the settings.
        choice: The model.
        on_ask: Asks the person; None if nobody is there.
        toolset: What it works with.
        workspace: The folder it works in.
        trusted: The folder's own texts, if they may guide the model.
        more: What the system prompt says besides.
        compaction: How a long history is shortened.
    """
    from pure_agent_loop.agent import Agent

    settings: dict[str, Any] = {}
    more = "\n\n".join(each for each in (more, options.append_system) if each)
    prompt = system_prompt(options.system, trusted, is_tiny=choice.is_tiny)
    if more:
        prompt = f"{prompts_for().system_prompt if prompt is None else prompt}\n\n{more}"
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


def _answers(
    options: argparse.Namespace, toolset: Toolset, questions: Questions | None
) -> AskFunction | None:
    """Answers questions. Those that a session has kept may be answered by the options of now."""
    if options.session is None and not is_going_on(options):
        return None if questions is None else questions.wait
    tools = ToolRegistry(toolset.tools)

    def answer(request: PermissionRequest) -> Permission:
        now = suggest(options, request, tools, questions)
        return now if now.behavior != "ask" or questions is None else questions.wait(request)

    return answer

"""The command line: what can be typed. Imports nothing heavy, so that ``--help`` is instant."""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from typing import NoReturn

from pure_agent_loop._version import __version__
from pure_agent_loop.cli.audit_arguments import add_audit
from pure_agent_loop.cli.commands.agents import add_agents
from pure_agent_loop.cli.commands.replay import add_replay
from pure_agent_loop.cli.commands.undo import add_undo
from pure_agent_loop.cli.durable_arguments import add_durable
from pure_agent_loop.cli.numbers import seconds
from pure_agent_loop.cli.schedule_arguments import add_schedule
from pure_agent_loop.cli.session_arguments import add_session_options, add_sessions
from pure_agent_loop.evaluation import command as evaluation
from pure_agent_loop.support.terminal import safe_text

DEFAULT_MAX_STEPS = 25
OUTPUT_FORMATS = ("text", "json", "stream-json")
DOCTOR_TIMEOUT = 60.0
MOST_SECONDS = 3600
THINKING_LEVELS = ("off", "low", "medium", "high")
TOOL_MODES = ("auto", "native", "json", "text")
MODES = ("react", "single")
PERMISSION_MODES = ("ask", "auto", "plan", "bypass")
SANDBOXES = ("auto", "bubblewrap", "landlock", "none")

_RUN_EPILOG = """\
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


_DOCTOR_EPILOG = """\
Exit codes: 0 an agent can work with it, 1 it cannot be reached, does not answer, or calls no tools
in any way, 2 wrong usage, 130 stopped by Ctrl-C.

examples:
  pal doctor
  pal doctor --base-url http://127.0.0.1:8080/v1
  pal doctor --model gpt-4o-mini --json | jq .findings
"""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        hint = ""
        if "invalid choice" in message and "COMMAND" in message:
            hint = '\nTo ask something: pal run "your question"'
        self.exit(2, f"{self.prog}: error: {safe_text(message)}{hint}\n")


class _RefuseKey(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        parser.error(
            "a key on the command line can be read by every user of this machine; "
            "put it into the environment variable PAL_API_KEY"
        )


def build_parser() -> argparse.ArgumentParser:
    """The parser of the whole command line."""
    parser = _Parser(
        prog="pal",
        description="One explicit agent loop for any chat model.",
        epilog='Shortest use: pal run "Which files are in this folder?"',
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"pure-agent-loop {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True, parser_class=_Parser)
    _add_run(commands)
    _add_model(commands)
    _add_eval(commands)
    _add_doctor(commands)
    add_sessions(commands)
    add_replay(commands)
    add_audit(commands)
    add_undo(commands)
    add_durable(commands)
    add_schedule(commands)
    add_agents(commands)
    return parser


def _add_run(commands: argparse._SubParsersAction[_Parser]) -> None:
    run = commands.add_parser(
        "run",
        help="do a task",
        description="Do a task with a model and tools for the working folder, and print the answer.",
        epilog=_RUN_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    run.add_argument(
        "task",
        nargs="*",
        help="what to do; text piped in is its context, or the task itself if there is none",
    )
    _add_model_options(run.add_argument_group("model"))
    _add_work_options(run.add_argument_group("work"))
    add_session_options(run.add_argument_group("sessions"))
    _add_permission_options(run.add_argument_group("permissions"))
    _add_output_options(run.add_argument_group("output"))


def _add_endpoint_options(group: argparse._ArgumentGroup) -> None:
    group.add_argument("-m", "--model", metavar="NAME", help="a model's name, or the path of a .gguf file")
    group.add_argument("--base-url", metavar="URL", help="an OpenAI-compatible server, usually ending in /v1")
    group.add_argument("--api-key", action=_RefuseKey, nargs="?", help=argparse.SUPPRESS)


def _add_model_options(group: argparse._ArgumentGroup) -> None:
    _add_endpoint_options(group)
    group.add_argument("--temperature", type=_temperature, metavar="T", help="0 to 2")
    group.add_argument("--thinking", choices=THINKING_LEVELS, default="off", help="how much to think first")
    group.add_argument(
        "--tool-mode",
        choices=TOOL_MODES,
        default="auto",
        help="how the model is asked for tool calls (default: auto, which finds out)",
    )


def _add_work_options(group: argparse._ArgumentGroup) -> None:
    group.add_argument("-s", "--system", metavar="TEXT", help="the system prompt")
    group.add_argument(
        "--workspace", metavar="DIR", default=".", help="the tools see only this folder (default: here)"
    )
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
    group.add_argument("--no-tools", action="store_true", help="answer without tools: --tools none")
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
    group.add_argument(
        "--max-steps",
        "--max-turns",
        type=evaluation.positive,
        default=DEFAULT_MAX_STEPS,
        metavar="N",
        help=f"hard limit of model requests (default: {DEFAULT_MAX_STEPS})",
    )


def _add_permission_options(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--permission-mode",
        choices=PERMISSION_MODES,
        default="ask",
        help="ask: about what may change something (the default); auto: allow what no rule forbids; "
        "plan: only tools that read; bypass: ask about nothing",
    )
    group.add_argument(
        "--sandbox",
        choices=SANDBOXES,
        default="auto",
        help="what holds commands back (default: the best there is here)",
    )
    group.add_argument("--network", action="store_true", help="commands in the sandbox may use the network")
    group.add_argument(
        "--unsandboxed-shell",
        action="store_true",
        help="where there is no sandbox, the rules alone decide about commands; else each is asked about",
    )
    group.add_argument(
        "--any-folder",
        action="store_true",
        help="work also in a home, in a folder for everybody, or in one with keys in it",
    )
    group.add_argument("--no-snapshots", action="store_true", help="do not keep what 'pal undo' needs")
    group.add_argument("--no-audit", action="store_true", help="do not write calls to the audit log")
    for behavior, meaning in (("allow", "are allowed"), ("deny", "are denied"), ("ask", "are asked about")):
        group.add_argument(
            f"--{behavior}",
            action="append",
            default=[],
            metavar="RULE",
            help=f"calls that {meaning}, such as 'edit_file(path=docs/*)', 'shell(npm test)'; repeatable",
        )


def _add_output_options(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--output-format",
        choices=OUTPUT_FORMATS,
        default="text",
        help="text: the answer; json: one object; stream-json: one object a line for each event",
    )
    group.add_argument(
        "-p", "--print", action="store_true", dest="quiet", help="the answer only, no progress"
    )
    group.add_argument("-q", "--quiet", action="store_true", dest="quiet", help="the same")
    group.add_argument("--no-color", action="store_true", help="no colours (also: NO_COLOR=1)")


def _add_model(commands: argparse._SubParsersAction[_Parser]) -> None:
    model = commands.add_parser(
        "model",
        help="the embedded model",
        description="See, fetch and select models that run on this machine (extra [local]).",
        allow_abbrev=False,
    )
    actions = model.add_subparsers(dest="action", metavar="ACTION", required=True, parser_class=_Parser)
    actions.add_parser("list", help="models known and models here", allow_abbrev=False)
    pull = actions.add_parser("pull", help="fetch a model", allow_abbrev=False)
    pull.add_argument("name", help="a name from 'pal model list', or the address of a .gguf file")
    use = actions.add_parser("use", help="make a model the one that runs by default", allow_abbrev=False)
    use.add_argument("name", help="a name from 'pal model list', or the path of a .gguf file")


def _add_eval(commands: argparse._SubParsersAction[_Parser]) -> None:
    evaluate = commands.add_parser(
        "eval",
        help="measure how well a model calls tools",
        description=evaluation.DESCRIPTION,
        epilog=evaluation.EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    _add_model_options(evaluate.add_argument_group("model"))
    evaluation.add_arguments(evaluate.add_argument_group("questions"))


def _add_doctor(commands: argparse._SubParsersAction[_Parser]) -> None:
    doctor = commands.add_parser(
        "doctor",
        help="find out what a model server can do",
        description="Ask a model server what it can do, one small request a question, and print a table, the "
        "tool mode to use, and a profile to paste. Without options: the model that 'pal run' would use.",
        epilog=_DOCTOR_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    _add_endpoint_options(doctor.add_argument_group("model"))
    doctor.add_argument(
        "--timeout",
        type=seconds(MOST_SECONDS),
        default=DOCTOR_TIMEOUT,
        metavar="S",
        help=f"seconds for each request (default: {DOCTOR_TIMEOUT:g})",
    )
    doctor.add_argument("--json", action="store_true", help="print one JSON object")


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """Read a command line. ``pal -p "..."`` is short for ``pal run -p "..."``.

    Args:
        argv: The words after the program's name.

    Raises:
        SystemExit: It is wrong (code 2), or asked for help or the version (code 0).
    """
    words = list(argv)
    if words and words[0] in ("-p", "--print"):
        words.insert(0, "run")
    return build_parser().parse_args(words)


def _temperature(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 <= number <= 2:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0 to 2")
    return number

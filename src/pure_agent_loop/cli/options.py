"""The options of ``pal run`` and of similar commands, each defined once.

The field of an option determines the command-line arguments, the ``--help`` text, the setting in
``pal.toml``, the environment variables, the file that ``pal init`` writes, and the argument of `Agent`.
docs/cli.md lists them.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn

from pure_agent_loop.cli.arguments import CommandOption, flag, list_option, option, options_of, seconds
from pure_agent_loop.llm.profiles import THINKING_LEVELS
from pure_agent_loop.permissions import PERMISSION_MODES
from pure_agent_loop.runs import Configured
from pure_agent_loop.support.language import LANGUAGE_VARIABLE, LANGUAGES, notice, user_text
from pure_agent_loop.support.numbers import number, positive
from pure_agent_loop.support.variables import FORMER_NAMES

if TYPE_CHECKING:
    from pure_agent_loop import ToolMode
    from pure_agent_loop.agent_options import AgentMode
    from pure_agent_loop.budget import Price
    from pure_agent_loop.limits import LoopLimits
    from pure_agent_loop.llm.profiles import ThinkingLevel
    from pure_agent_loop.support.language import Language

_AMOUNT = number(lambda amount: 0 < amount < math.inf, lambda text: user_text("cli.above_zero", text=text))
PICK = "?"  # value of --resume without an ID; not a valid ID


def _price(text: str) -> Price:
    try:
        amounts = [float(amount) for amount in text.split(",")]
        if 2 <= len(amounts) <= 4:
            from pure_agent_loop.budget import Price

            cached, written, *_ = *amounts[2:], None, None
            return Price(amounts[0], amounts[1], cached, written)
    except (ValueError, TypeError) as error:  # a ConfigError too
        raise argparse.ArgumentTypeError(notice("cli.price", text=text)) from error
    raise argparse.ArgumentTypeError(notice("cli.price", text=text))


class _RefuseKey(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        parser.error(user_text("cli.api_key"))


@dataclass
class EndpointOptions:
    """Select a server and a model.

    Args:
        typed_options: The names of the typed options; settings fill in the other options.
        configured: The origins of the model and the server; set by `configure`.
    """

    model: str | None = option(
        "-m",
        "--model",
        metavar="NAME",
        help="model name, or path of a .gguf file",
        is_main=True,
        key="model",
        variables=("PAL_MODEL", "OPENAI_MODEL"),
        example="gpt-4o-mini",
    )
    base_url: str | None = option(
        "--base-url",
        metavar="URL",
        help="OpenAI-compatible server, or a server name from pal.toml",
        is_main=True,
        key="base_url",
        variables=("PAL_BASE_URL", "OPENAI_BASE_URL"),
        example="work",
    )
    fallback: list[str] = list_option(
        "--fallback",
        metavar="NAME",
        help="model, or server from pal.toml, to use if others fail; repeatable",
        key="fallback",
        example=["anthropic:claude-sonnet-5", "work"],
    )
    profile: str | None = option(
        "-P", "--profile", metavar="NAME", help="use this profile from pal.toml", is_main=True
    )
    download: bool = flag(
        "--download", help="download the demo model (98 MB) if no model is found, without asking"
    )
    env_file: str | None = option(
        "--env-file",
        metavar="FILE",
        help="read keys, URLs and models from a file such as .env",
        also=(CommandOption(("--api-key",), argparse.SUPPRESS, {"action": _RefuseKey, "nargs": "?"}),),
    )
    typed_options: frozenset[str] = frozenset()
    configured: Configured = field(default_factory=Configured)


@dataclass
class ModelOptions(EndpointOptions):
    """Select a model and the way to call it."""

    temperature: float | None = option(
        "--temperature",
        type=number(
            lambda amount: 0 <= amount <= 2,
            lambda text: user_text("cli.number_range", text=text, low=0, high=2),
        ),
        metavar="T",
        help="sampling temperature, 0 to 2",
        key="temperature",
        example=0.7,
        agent="temperature",
    )
    thinking: ThinkingLevel = option(
        "--thinking",
        choices=THINKING_LEVELS,
        default="off",
        help="reasoning effort (default: {default})",
        is_main=True,
        key="thinking",
        agent="thinking_level",
    )
    tool_mode: ToolMode = option(
        "--tool-mode",
        choices=("auto", "native", "json", "text"),
        default="auto",
        help="how the model is asked to call tools (default: {default})",
        key="tool_mode",
        agent="tool_mode",
    )


@dataclass
class PromptOptions:
    """Set the prompt, the attachments and the folder of a task."""

    system: str | None = option(
        "-s",
        "--system",
        metavar="TEXT",
        help="the system prompt",
        is_main=True,
        key="system",
        example="You are a careful engineer.",
    )
    append_system: str | None = option(
        "--append-system",
        "--append-system-prompt",
        metavar="TEXT",
        help="text added to the system prompt",
        key="append_system",
        example="Answer in one paragraph.",
    )
    attach: list[str] = list_option(
        "-a",
        "--attach",
        metavar="FILE",
        help="attach a text file, an image or a PDF; repeatable",
        is_main=True,
    )
    workspace: str = option(
        "--workspace",
        metavar="DIR",
        default=".",
        help="folder that the tools can see (default: current folder)",
        is_main=True,
    )


@dataclass
class ToolOptions:
    """Select tools, subagents and MCP servers.

    Args:
        mcp_tables: The servers of the user's ``pal.toml`` by name, each with the file; set by `configure`.
    """

    tools: str = option(
        "--tools",
        default="all",
        metavar="LIST",
        help="all, read (read-only), none, or tool names (default: {default})",
        is_main=True,
        key="tools",
        is_joined=True,
    )
    subagents: bool = flag(
        "--subagents", help="let the model start subagents (explore, verify, your own)", key="subagents"
    )
    subagents_from: list[str] = list_option(
        "--subagents-from",
        metavar="DIR",
        help="more subagents, from Markdown files in DIR; repeatable",
    )
    mcp_config: list[str] = list_option(
        "--mcp-config", metavar="FILE", help="add MCP servers from a file like mcp.json; repeatable"
    )
    no_mcp: bool = flag("--no-mcp", help="use no MCP servers")
    no_tools: bool = flag("--no-tools", help="answer without tools (same as --tools none)")
    functions: list[str] = list_option(
        "--functions",
        metavar="FILE.py",
        help="add functions from FILE as tools (not sandboxed); repeatable",
    )
    mcp_tables: dict[str, tuple[Mapping[str, Any], str]] = field(default_factory=dict)


@dataclass
class AnswerOptions:
    """Set how the answer is produced."""

    schema: str | None = option(
        "--schema", metavar="JSON|FILE", help="require a JSON answer that matches this JSON Schema"
    )
    mode: AgentMode = option(
        "--mode",
        choices=("react", "single"),
        default="react",
        help="react: steps; single: one round of tools (default: {default})",
        key="mode",
        agent="mode",
    )
    explain: bool = flag("--explain", help="show the first request and the limits without sending")
    explain_run: str | None = option(
        "--explain-run",
        metavar="SESSION",
        help="show a recorded run: each value and the line that made it",
    )


@dataclass
class LimitOptions:
    """Limit a run; `limits_of` reads these options."""

    max_turns: int = option(
        "--max-turns",
        "--max-steps",
        type=positive,
        default=25,
        metavar="N",
        help="maximum steps per run (default: {default})",
        is_main=True,
        key="limits.max_turns",
    )
    max_tokens: int | None = option(
        "--max-tokens",
        type=positive,
        metavar="N",
        help="maximum tokens for all requests (default: no limit)",
        key="limits.max_tokens",
        example=500_000,
    )
    max_seconds: float | None = option(
        "--max-seconds",
        type=seconds(30 * 86_400),
        metavar="S",
        help="maximum seconds per run (default: no limit)",
        is_main=True,
        key="limits.max_seconds",
        example=600,
    )
    max_cost: float | None = option(
        "--max-cost",
        type=_AMOUNT,
        metavar="N",
        help="maximum cost, in US dollars or the currency of --price",
        key="limits.max_cost",
        example=0.5,
    )
    max_cost_per_day: float | None = option(
        "--max-cost-per-day",
        type=_AMOUNT,
        metavar="N",
        help="maximum cost per day (UTC) for all recorded runs",
        key="limits.max_cost_per_day",
        example=20,
    )
    max_cost_per_person_per_day: float | None = option(
        "--max-cost-per-person-per-day",
        type=_AMOUNT,
        metavar="N",
        help="maximum cost per day (UTC) for one person's runs",
        key="limits.max_cost_per_person_per_day",
        example=5,
    )
    price: Price | None = option(
        "--price",
        type=_price,
        metavar="IN,OUT",
        help="price per million tokens: INPUT,OUTPUT[,CACHED[,WRITTEN]]",
        key="limits.price",
        is_joined=True,
        example=[0.15, 0.6],
    )


@dataclass
class SessionOptions:
    """Select the session of a run, and set how long sessions are kept."""

    session: str | None = option(
        "--session", metavar="ID", help="session to record the run in (default: a new one)"
    )
    continue_last: bool = flag(
        "-c",
        "--continue",
        help="continue the last session in this folder",
        is_main=True,
    )
    resume: str | None = option(
        "-r",
        "--resume",
        metavar="ID",
        nargs="?",
        const=PICK,
        help="resume a session; without ID, pick one from this folder",
        is_main=True,
    )
    no_session: bool = flag("--no-session", help="do not record this run", key="sessions")
    keep_sessions: int | None = option(
        "--keep-sessions",
        type=positive,
        metavar="DAYS",
        help="delete finished sessions unused for DAYS (default: off)",
        key="keep_sessions",
        example=90,
    )
    database: str | None = option(
        "--database",
        metavar="URL",
        help="durable-run database: sqlite:///PATH or postgresql://... (default: PAL_DATABASE)",
    )


@dataclass
class PermissionOptions:
    """Select permissions and the sandbox."""

    permission_mode: str = option(
        "--permission-mode",
        choices=PERMISSION_MODES,
        default="ask",
        help="ask: before changes; guard: before changes with values not from you; "
        "auto: allow unless a rule denies; "
        "plan: read-only tools; bypass: never ask (default: {default})",
        is_main=True,
        key="permission_mode",
        in_project=("ask", "plan"),
        agent="permission_mode",
    )
    sandbox: str = option(
        "--sandbox",
        choices=("auto", "bubblewrap", "landlock", "none"),
        default="auto",
        help="sandbox for commands (default: best available)",
        is_main=True,
        key="sandbox",
        in_project=("auto", "bubblewrap", "landlock"),
    )
    network: bool = flag(
        "--network",
        help="allow network access for sandboxed commands",
        is_main=True,
        key="network",
        in_project=(False,),
    )
    any_folder: bool = flag("--any-folder", help="allow home, shared and key-holding directories")
    trust_folder: bool = flag(
        "--trust-folder", help="trust AGENTS.md, skills, pal.toml and .mcp.json here", is_main=True
    )
    unsandboxed_shell: bool = flag(
        "--unsandboxed-shell", help="without a sandbox, let the rules decide instead of asking"
    )
    no_snapshots: bool = flag(
        "--no-snapshots",
        help="do not take the snapshots that 'pal undo' needs",
        key="snapshots",
        in_project=(True,),
    )
    no_audit: bool = flag(
        "--no-audit",
        help="do not write tool calls to the audit log",
        key="audit",
        in_project=(True,),
    )
    allow: list[str] = list_option(
        "--allow",
        "--allowed",
        metavar="RULE",
        help="allow matching calls, e.g. 'shell(npm test)'; repeatable",
        is_main=True,
        key="rules.allow",
        example=["edit_file(path=docs/*)", "shell(npm test)"],
    )
    deny: list[str] = list_option(
        "--deny",
        "--denied",
        metavar="RULE",
        help="deny matching calls, e.g. 'shell(npm test)'; repeatable",
        is_main=True,
        key="rules.deny",
        example=["read_file(path=*.env)"],
    )
    ask: list[str] = list_option(
        "--ask",
        metavar="RULE",
        help="ask before matching calls, e.g. 'shell(npm test)'; repeatable",
        key="rules.ask",
        example=["read_file(path=private/*)"],
    )


@dataclass
class ToolsetOptions(PermissionOptions, ToolOptions):
    """Select the tools of a run, and what these tools may do."""


@dataclass
class ServingOptions(PromptOptions, ToolsetOptions, LimitOptions, EndpointOptions):
    """Select what ``pal serve`` and ``pal mcp`` serve."""

    agents: str | None = option(
        "--agents", metavar="MODULE:NAME", help="agent, dict of agents by name, or function that makes either"
    )
    deps: str | None = option(
        "--deps", metavar="MODULE:NAME", help="function that makes the deps, called once per run"
    )


@dataclass
class OutputOptions:
    """Select the input and output formats."""

    input_format: str = option(
        "--input-format",
        choices=("text", "stream-json"),
        default="text",
        help="text: the task; stream-json: one JSON object per task",
    )
    output_format: str = option(
        "--output-format",
        choices=("text", "json", "stream-json", "code"),
        default="text",
        help="text: the answer; json: one object; stream-json: one object per event; "
        "code: the first code block, or the whole answer if there is none (default: {default})",
        is_main=True,
        also=(
            CommandOption(
                ("-x", "--extract"),
                "same as --output-format code",
                {"action": "store_const", "const": "code"},
            ),
        ),
    )
    quiet: bool = flag(
        "-p",
        "--print",
        help="print only the answer, no progress",
        is_main=True,
        also=(CommandOption(("-q", "--quiet"), "same as --print", {"action": "store_true"}),),
    )
    theme: str = option(
        "--theme",
        choices=("auto", "dark", "light", "plain"),
        default="auto",
        help="colours; plain disables them (default: {default})",
        key="theme",
        variables=("NO_COLOR", "FORCE_COLOR"),
        also=(
            CommandOption(
                ("--no-color",), "same as --theme plain", {"action": "store_const", "const": "plain"}
            ),
        ),
    )
    screen_reader: bool = flag(
        "--screen-reader", help="words instead of symbols, and no animation", key="screen_reader"
    )
    no_bell: bool = flag("--no-bell", help="no bell, notification or title when a question waits", key="bell")
    language: Language | None = option(
        "--language",
        choices=LANGUAGES,
        help="language of the interface and prompts",
        key="language",
        variables=(LANGUAGE_VARIABLE, FORMER_NAMES[LANGUAGE_VARIABLE]),
        example="zh",
    )


@dataclass
class CommandOptions(
    OutputOptions, ToolsetOptions, SessionOptions, LimitOptions, AnswerOptions, PromptOptions, ModelOptions
):
    """All options of ``pal run``."""

    task: list[str] = field(default_factory=list)


def limits_of(options: LimitOptions) -> LoopLimits:
    """Return the limits of `LimitOptions`."""
    from pure_agent_loop.limits import LoopLimits

    return LoopLimits(
        max_turns=options.max_turns,
        max_tokens=options.max_tokens,
        max_seconds=options.max_seconds,
        max_cost=options.max_cost,
        max_cost_per_day=options.max_cost_per_day,
        max_cost_per_person_per_day=options.max_cost_per_person_per_day,
        prices={} if options.price is None else {"*": options.price},
    )


def agent_arguments(options: ToolsetOptions) -> dict[str, Any]:
    """Return the option values that are passed to `Agent` unchanged, by argument name."""
    return {
        row.agent: argument
        for row in options_of(type(options))
        if row.agent and (argument := getattr(options, row.name)) is not None
    }


MAIN_FLAGS = {"--help", "--help-all"}.union(*(row.flags for row in options_of(CommandOptions) if row.is_main))
SETTINGS = {
    row.key: row
    for row in sorted(options_of(CommandOptions), key=lambda row: row.key.startswith("limits."))
    if row.key
}

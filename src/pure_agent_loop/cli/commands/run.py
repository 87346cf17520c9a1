"""The command ``run``: one task, from the command line to the exit code."""

from __future__ import annotations

import argparse
import os
import time
from contextlib import closing
from pathlib import Path
from typing import Any

from pure_agent_loop.agent import Agent
from pure_agent_loop.cancel import CancelToken
from pure_agent_loop.cli.arguments import (
    add_database,
    add_limits,
    add_model_choice,
    describe,
    limits_of,
)
from pure_agent_loop.cli.choose import choose
from pure_agent_loop.cli.exits import DONE, code_for_stop
from pure_agent_loop.cli.interrupts import Interrupts
from pure_agent_loop.cli.output import Output
from pure_agent_loop.cli.questions import Questions, way_out
from pure_agent_loop.cli.task import read_task
from pure_agent_loop.cli.toolset import Toolset, make_toolset, rules_of, suggest, system_prompt
from pure_agent_loop.cli.trust import may_guide
from pure_agent_loop.cli.view import Outcome, Progress, is_question
from pure_agent_loop.cli.which_session import Place, place_for_run, to_resume
from pure_agent_loop.errors import ConfigError
from pure_agent_loop.events import Event, EventType
from pure_agent_loop.kernel.state import QueryState
from pure_agent_loop.permissions import PERMISSION_MODES, AskFunction, Permission, PermissionRequest
from pure_agent_loop.renderer import JsonLinesRenderer
from pure_agent_loop.runs.choose import Choice
from pure_agent_loop.runs.rules import check_rules
from pure_agent_loop.support.terminal import one_line, safe_text
from pure_agent_loop.tool import ToolRegistry

OUTPUT_FORMATS = ("text", "json", "stream-json")
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
    describe(
        parser,
        "Do a task with a model and tools for the working folder, and print the answer.",
        _EPILOG,
    )
    parser.add_argument(
        "task",
        nargs="*",
        help="what to do; text piped in is its context, or the task itself if there is none",
    )
    add_model_choice(parser.add_argument_group("model"))
    _add_work_options(parser.add_argument_group("work"))
    add_limits(parser.add_argument_group("limits"))
    _add_session_options(parser.add_argument_group("sessions"))
    _add_permission_options(parser.add_argument_group("permissions"))
    _add_output_options(parser.add_argument_group("output"))


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


def _add_session_options(group: argparse._ArgumentGroup) -> None:
    which = group.add_mutually_exclusive_group()
    which.add_argument("--session", metavar="ID", help="keep the run in a session of that name, new or old")
    which.add_argument(
        "--continue",
        action="store_true",
        dest="go_on",
        help="go on with the session used last; without a task, with what was being done",
    )
    which.add_argument("--resume", metavar="ID", help="go on with that session, with or without a task")
    add_database(group)


def _add_permission_options(group: argparse._ArgumentGroup) -> None:
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
    group.add_argument(
        "--any-folder",
        action="store_true",
        help="work also in a home, in a folder for everybody, or in one with keys in it",
    )
    group.add_argument(
        "--trust-folder",
        action="store_true",
        help="use AGENTS.md and the skills of this folder without asking whether they are trusted",
    )
    group.add_argument(
        "--unsandboxed-shell",
        action="store_true",
        help="where there is no sandbox, the rules alone decide about commands; else each is asked about",
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


def run(options: argparse.Namespace, output: Output) -> int:
    """Do the task and return the exit code."""
    workspace = _workspace(options.workspace)
    with closing(place_for_run(options)) as place:
        return _run(options, output, workspace, place)


def _run(options: argparse.Namespace, output: Output, workspace: Path, place: Place) -> int:
    if options.go_on or options.resume is not None:
        task = read_task(options.task, output.say, needed=False) or None
    else:
        task = read_task(options.task, output.say)
    questions = Questions.at_terminal(output)
    trusted = may_guide(workspace, questions, output, given=options.trust_folder)
    found = make_toolset(
        options, workspace, output, trusted=trusted
    )  # what is wrong with it is said before a model starts
    check_rules(rules_of(options), found.tools, found.subagents, hint="")
    choice = choose(options.model, options.base_url, options.thinking, os.environ, output)
    toolset = found.for_model(is_tiny=choice.is_tiny)
    agent = _agent(options, choice, questions, toolset, workspace, trusted=trusted)
    if options.explain and task is not None:
        return _explain(agent, task, options.output_format, output)
    if toolset.shell is not None and not options.quiet and options.output_format != "stream-json":
        output.say(toolset.shell.describe())
    return _Session(options, output, choice.model, workspace, questions, place).run(agent, task)


def _workspace(name: str) -> Path:
    folder = Path(name).expanduser()
    if not folder.is_dir():
        raise ConfigError(f"--workspace={name} is not a folder.")
    return folder.resolve()


def _agent(
    options: argparse.Namespace,
    choice: Choice,
    questions: Questions | None,
    toolset: Toolset,
    workspace: Path,
    *,
    trusted: bool,
) -> Agent:
    settings: dict[str, Any] = {}
    prompt = system_prompt(options.system, workspace if trusted else None, is_tiny=choice.is_tiny)
    if prompt is not None:
        settings["system_prompt"] = prompt
    if options.temperature is not None:
        settings["temperature"] = options.temperature
    return Agent(
        llm=choice.client,
        tools=toolset.tools,
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
        on_ask=_answers(options, toolset, questions),
        **settings,
    )


def _answers(
    options: argparse.Namespace, toolset: Toolset, questions: Questions | None
) -> AskFunction | None:
    """Answers questions. Those that a session has kept may be answered by the options of now."""
    is_new = options.session is None and options.resume is None and not options.go_on
    if is_new:
        return None if questions is None else questions.wait
    tools = ToolRegistry(toolset.tools)

    def answer(request: PermissionRequest) -> Permission:
        now = suggest(options, request, tools, questions)
        return now if now.behavior != "ask" or questions is None else questions.wait(request)

    return answer


def _explain(agent: Agent, task: str, form: str, output: Output) -> int:
    explanation = agent.explain(task)
    if form == "text":
        output.result(f"{safe_text(str(explanation))}\n")
    else:
        kind = {"type": "explanation"} if form == "stream-json" else {}
        output.json({**kind, **explanation.to_dict()})
    return DONE


class _Session:
    """One run with its output format."""

    def __init__(
        self,
        options: argparse.Namespace,
        output: Output,
        model: str,
        workspace: Path,
        questions: Questions | None,
        place: Place,
    ) -> None:
        self._format: str = options.output_format
        self._quiet: bool = options.quiet or self._format == "stream-json"
        self._output = output
        self._workspace = workspace
        self._progress = Progress(output, quiet=self._quiet)
        self._outcome = Outcome()
        self._rules = rules_of(options)
        self._questions = questions
        self._place = place
        self._options = options
        self._names = {"model": model, **({"session_id": place.session_id} if place.session_id else {})}

    def run(self, agent: Agent, task: str | None) -> int:
        token = CancelToken()
        begun = time.monotonic()
        prepared = self._place.prepare(agent, task, token)
        kept_questions = self._kept_questions(agent, prepared.state)
        self._begin()
        with Interrupts(token, self._output) as interrupts, closing(prepared.stream_sync()) as events:
            for event in events:
                self._take(event, interrupts)
                if event.type is EventType.LOOP_START:
                    for kept in kept_questions:
                        self._take(kept, interrupts)
        self._end(time.monotonic() - begun)
        return code_for_stop(self._outcome.stop_reason, self._outcome.error_kind)

    def _kept_questions(self, agent: Agent, state: QueryState) -> list[Event]:
        """Calls that the session has been waiting with; no event of this run will tell about them."""
        return [
            Event.permission(each.step, each.tool, each.args, "ask", each.reason, each.call_id)
            for each in state.questions
            if suggest(self._options, each, agent.tools, self._questions).behavior == "ask"
        ]

    def _begin(self) -> None:
        self._lines = JsonLinesRenderer(stream=True)
        if self._format == "stream-json":
            self._output.json({"type": "start", "workspace": str(self._workspace), **self._names})

    def _take(self, event: Event, interrupts: Interrupts) -> None:
        asked = is_question(event) and self._questions is not None
        self._outcome.note(event)
        if not asked:  # a question shows its call itself, and all of it
            self._progress.show(event)
        if self._format == "stream-json":
            self._output.result(self._lines.render(event))
        if asked and self._questions is not None:
            self._questions.ask(event, interrupts)

    def _end(self, seconds: float) -> None:
        outcome = self._outcome
        if self._format == "text":
            self._write_answer()
        else:
            kind = {"type": "result"} if self._format == "stream-json" else {}
            self._output.json({**kind, **outcome.to_dict(), **self._names})
        if outcome.error:
            self._output.fail(outcome.error)
        for question in outcome.questions if outcome.is_waiting else ():
            self._output.fail(way_out(question, self._rules))
        if outcome.stop_reason != "completed" or not self._quiet:
            self._output.say(_footer(outcome, seconds))
            if name := self._place.session_id:
                more = ' "..."' if outcome.stop_reason == "completed" else ""
                words = to_resume(name, self._options.database)
                self._output.say(f"session {name}; to go on: pal run {words}{more}")

    def _write_answer(self) -> None:
        answer = safe_text(self._outcome.content).strip("\n")
        already = safe_text(self._progress.shown_answer).strip("\n")
        if answer and answer != already:
            self._output.result(f"{answer}\n")


def _footer(outcome: Outcome, seconds: float) -> str:
    tokens = outcome.usage.get("total_tokens")
    parts = [
        one_line(outcome.stop_reason),
        f"{outcome.steps} step{'' if outcome.steps == 1 else 's'}",
        *([f"{tokens} tokens"] if tokens else []),
        f"{seconds:.1f} s",
    ]
    return ", ".join(parts)

"""Run one task with an output format and return the exit code."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from pure_agent_loop.cancel import CancelToken
from pure_agent_loop.cli.exits import DONE, code_for_stop
from pure_agent_loop.cli.interrupts import Interrupts
from pure_agent_loop.cli.options import CommandOptions
from pure_agent_loop.cli.output import CommandOutput, counted, currency_of, money
from pure_agent_loop.cli.questions import TerminalQuestions, denial_hint
from pure_agent_loop.cli.slow import Waiting
from pure_agent_loop.cli.toolset import rules_of, suggest
from pure_agent_loop.cli.view import ProgressPrinter, RunOutcome, is_question
from pure_agent_loop.cli.which_session import SessionTarget
from pure_agent_loop.events import Event, EventType
from pure_agent_loop.renderer import JsonLinesRenderer
from pure_agent_loop.support.language import user_text
from pure_agent_loop.support.terminal import one_line, safe_text

_CODE = re.compile(r"^ {0,3}(`{3,}|~{3,})[^\n]*\n(.*?)(?:^ {0,3}\1[`~]*\s*$|\Z)", re.M | re.S)

if TYPE_CHECKING:
    from pure_agent_loop.agent import Agent
    from pure_agent_loop.budget import Price


class OneRun:
    """A run and its output format."""

    def __init__(
        self,
        options: CommandOptions,
        output: CommandOutput,
        model: str,
        workspace: Path,
        questions: TerminalQuestions | None,
        place: SessionTarget,
    ) -> None:
        self._format: str = options.output_format
        self._quiet: bool = options.quiet or self._format in ("stream-json", "code")
        self._output = output
        self._workspace = workspace
        self._progress = ProgressPrinter(output, quiet=self._quiet)
        self._outcome = RunOutcome()
        self._lines = JsonLinesRenderer(stream=True)
        self._questions = questions
        self._place = place
        self._options = options
        self._model = model

    def run(self, agent: Agent, task: str | None, *, first: bool = True, media: Sequence[Path] = ()) -> int:
        """Run a task and return the exit code.

        Args:
            task: The task; None to resume the interrupted run.
            first: True if this is the first run in the output.
            media: Attached images and PDFs.

        Raises:
            PureAgentLoopError: The run cannot start.
            ResultLostError: Standard output cannot be written.
        """
        token = CancelToken()
        begun = time.monotonic()
        prepared = self._place.prepare(agent, task, token, self._output.info, media=media)
        attended = self._questions is not None
        # Questions about pending calls in the session; the run emits no events for them.
        kept_questions = [
            Event.permission(call.step, call.tool, call.args, "ask", call.reason, call.call_id)
            for call in prepared.state.questions
            if suggest(self._options, call, agent.tools, attended=attended).behavior == "ask"
        ]
        if self._format == "stream-json" and first:
            self._output.json({"type": "start", "workspace": str(self._workspace), **self._names})
        with (
            Waiting(self._output, enabled=self._quiet) as self._waiting,
            Interrupts(token, self._output) as interrupts,
            closing(prepared.stream_sync()) as events,
        ):
            for event in events:
                self._take(event, interrupts)
                if event.type is EventType.LOOP_START:
                    for kept in kept_questions:
                        self._take(kept, interrupts)
        if self._options.schema is not None:  # print the typed output, unless no answer matched the schema
            self._outcome.output = output = prepared.result().output
            done = self._outcome.stop_reason == "completed"
            self._outcome.content = json.dumps(output, ensure_ascii=False) if done else ""
        if count := len(prepared.result().media):
            self._output.info(user_text("cli.media_answer", count=count))
        self._end(time.monotonic() - begun)
        return code_for_stop(self._outcome.stop_reason, self._outcome.error_kind)

    @property
    def _names(self) -> dict[str, str]:
        session = self._place.session_id
        return {"model": self._model, **({"session_id": session} if session else {})}

    def _take(self, event: Event, interrupts: Interrupts) -> None:
        asked = is_question(event) and self._questions is not None
        self._outcome.note(event)
        self._waiting.note(event)
        if not asked:  # the question itself shows the whole call
            self._progress.show(event)
        if self._format == "stream-json":
            self._output.result(self._lines.render(event))
        if asked and self._questions is not None:
            self._waiting.wait_for("")
            self._questions.ask(event, interrupts)
            self._waiting.wait_for(event.data["tool"])

    def _end(self, seconds: float) -> None:
        outcome = self._outcome
        if self._format == "text":
            answer = safe_text(outcome.content).strip("\n")
            if answer and answer != safe_text(self._progress.shown_answer).strip("\n"):
                self._output.result(f"{answer}\n")
        elif self._format == "code":
            self._output.result(f"{safe_text(code_of(outcome.content))}\n")
        else:
            kind = {"type": "result"} if self._format == "stream-json" else {}
            self._output.json({**kind, **outcome.to_dict(), **self._names})
        if outcome.error:
            self._output.fail("\n  ".join(outcome.error_lines))
        for question in outcome.questions if outcome.is_waiting else ():
            self._output.fail(denial_hint(question, rules_of(self._options)))
        if outcome.stop_reason != "completed" or not self._quiet:
            self._output.info(_footer(outcome, seconds, self._options.price))
            task_hint = ' "..."' if outcome.stop_reason == "completed" else ""
            if hint := self._place.resume_hint():
                self._output.info(f"{hint}{task_hint}")


def code_of(answer: str) -> str:
    """Return the first fenced code block, or the whole text if it has none."""
    match = _CODE.search(answer)
    return (match[2] if match else answer).strip("\n")


def _footer(outcome: RunOutcome, seconds: float, price: Price | None) -> str:
    tokens, cost = outcome.usage.get("total_tokens"), outcome.usage.get("cost")
    used = user_text("cli.used_tokens", count=tokens) if tokens else ""
    used += user_text("cli.used_cost", cost=money(cost, currency_of(price))) if cost else ""
    return user_text(
        "cli.footer",
        reason=one_line(outcome.stop_reason),
        steps=counted(outcome.steps, "step"),
        tokens=used,
        seconds=f"{seconds:.1f}",
    )


def explain(agent: Agent, task: str, form: str, output: CommandOutput) -> int:
    """Print the request that a run would send, without sending it."""
    explanation = agent.explain(task)
    if form in ("text", "code"):
        output.result(f"{safe_text(str(explanation))}\n")
    else:
        kind = {"type": "explanation"} if form == "stream-json" else {}
        output.json({**kind, **explanation.to_dict()})
    return DONE

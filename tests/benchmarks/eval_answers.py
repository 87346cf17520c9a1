"""Right answers, made from the leaderboard's own lists of right values."""

from __future__ import annotations

import json
from typing import Any

from benchmarks.bfcl.conversion import tool_name
from benchmarks.bfcl.questions import LeaderboardQuestion

from pure_agent_loop.llm.values import ToolCall
from pure_agent_loop.testing import ServerRequest, call

LEFT_OUT = ""  # how the lists say that an argument may be left out


def right_calls(question: LeaderboardQuestion) -> list[ToolCall]:
    """The first right value of each argument."""
    calls = []
    for number, answer in enumerate(question.answers):
        ((name, values),) = answer.items()
        calls.append(ToolCall(f"call_{number}", tool_name(name), _arguments(values)))
    return calls


def _arguments(values: dict[str, list[Any]]) -> dict[str, Any]:
    given = {name: [v for v in choices if v != LEFT_OUT] for name, choices in values.items()}
    return {name: _plain(choices[0]) for name, choices in given.items() if choices}


def _plain(value: Any) -> Any:
    """A value; an object has such lists inside once more, but not deeper."""
    if isinstance(value, dict):
        return {name: choices[0] for name, choices in value.items() if choices[0] != LEFT_OUT}
    return [_plain(item) for item in value] if isinstance(value, list) else value


class Oracle:
    """Answers every request, rightly but for the questions named; for servers and scripted clients.

    Args:
        questions: All that may be asked.
        special: What else to answer, by question; a callable is called.
    """

    def __init__(self, questions: list[LeaderboardQuestion], special: dict[str, Any] | None = None) -> None:
        self._questions = {json.dumps(question.messages): question for question in questions}
        self._special = special or {}
        self.asked: list[str] = []

    def serve(self, request: ServerRequest) -> Any:
        """For `ScriptedServer`."""
        return self.answer(request.messages, request.tools, request.options)

    def answer(self, messages: list[dict[str, Any]], tools: Any, options: dict[str, Any]) -> Any:
        """For `ScriptedLLM`."""
        question = self._questions[json.dumps(messages)]
        assert tools == (question.tools or None)
        assert options["temperature"] == 0
        self.asked.append(question.id)
        if question.id in self._special:
            return self._special[question.id]
        made = right_calls(question)
        if question.set.wanted == "any_call":
            made = [ToolCall("call_0", question.tools[0]["function"]["name"], {})]
        return [call(each.name, **each.arguments) for each in made] or "I cannot help with that."

"""An answer whose end contradicts what came is no answer, and one answer is one, whatever choices came."""

from __future__ import annotations

import json
from typing import Any

import pytest

from llm_client_conformance import ScriptedServer
from llm_client_conformance.quirks import Expected, Quirk, RawBody
from pure_agent_loop import Agent, RetryConfig

SAID = "Let me look."
QUICK = RetryConfig(max_retries=1, base_delay=0.0, jitter=0.0)
LOOK = {
    "index": 0,
    "id": "c1",
    "type": "function",
    "function": {"name": "look", "arguments": '{"word": "a"}'},
}
MORE = {
    "index": 0,
    "id": "c2",
    "type": "function",
    "function": {"name": "look", "arguments": '{"word": "b"}'},
}


def choice(delta: dict[str, Any], finish: str | None = None, index: int = 0) -> dict[str, Any]:
    return {"index": index, "delta": delta, "finish_reason": finish}


def sse(*events: list[dict[str, Any]], done: bool = True) -> RawBody:
    body = b"".join(b"data: " + json.dumps({"choices": each}).encode() + b"\n\n" for each in events)
    return RawBody(Quirk("end", "", body + (b"data: [DONE]\n\n" if done else b""), Expected()))


def whole(*choices: dict[str, Any]) -> RawBody:
    made = [{**each, "message": each["delta"]} for each in choices]
    body = json.dumps({"choices": [{k: v for k, v in each.items() if k != "delta"} for each in made]})
    return RawBody(Quirk("end", "", body.encode(), Expected(), "application/json"))


def run(*script: Any) -> tuple[Any, list[str], int]:
    looked: list[str] = []

    def look(word: str) -> str:
        """Look a word up."""
        looked.append(word)
        return "a fruit"

    with ScriptedServer([*script], strict=False, check=False) as server:
        agent = Agent(model="m", api_key="k", base_url=server.base_url, tools=[look], retry=QUICK)
        return agent.run("What is it?"), looked, len(server.requests)


TEXT = choice({"role": "assistant", "content": SAID})
STOP = choice({}, "stop")
ALTERNATIVE = choice({"content": "I look.", "tool_calls": [LOOK]}, "tool_calls", 1)
LOST = {
    "function_call": sse([TEXT], [choice({}, "function_call")]),
    "tool_use": sse([TEXT], [choice({}, "tool_use")]),
    "upper case": sse([TEXT], [choice({}, "TOOL_CALLS")]),
    "without text": sse([choice({"role": "assistant", "content": ""})], [choice({}, "tool_calls")]),
    "then stop": sse([TEXT], [choice({}, "tool_calls")], [choice({}, "stop")]),
    "begun": sse([TEXT], [choice({"tool_calls": [{"index": 0, "id": "c1"}]})], [choice({}, "stop")]),
    "begun, only done": sse([TEXT], [choice({"tool_calls": [{"index": 0, "id": "c1"}]})]),
    "whole": whole(choice({"role": "assistant", "content": SAID}, "tool_calls")),
    "whole, null": whole(choice({"role": "assistant", "content": SAID, "tool_calls": None}, "function_call")),
}


@pytest.mark.parametrize("lost", LOST.values(), ids=LOST)
def test_calls_that_were_announced_and_never_came_are_asked_for_again(lost):
    result, looked, requests = run(lost, "It is a fruit.")
    assert (result.stop_reason, result.content, looked, requests) == ("completed", "It is a fruit.", [], 2)
    result, looked, requests = run(lost, lost)
    assert (result.stop_reason, looked, requests) == ("error", [], 2)
    assert [e.data["kind"] for e in result.events if e.type.value == "error"] == ["incomplete"]


CALLS = {
    "stop": sse([TEXT], [choice({"tool_calls": [LOOK]})], [choice({}, "stop")]),
    "only done": sse([TEXT], [choice({"tool_calls": [LOOK]})]),
    "length": sse([TEXT], [choice({"tool_calls": [LOOK]})], [choice({}, "length")]),
    "second choice": sse([TEXT], [choice({"tool_calls": [LOOK]}, None, 1)], [choice({}, "tool_calls")]),
    "second choice, its own end": sse([TEXT, choice({"tool_calls": [LOOK]}, "tool_calls", 1)], [STOP]),
    "second choice, no end": sse([TEXT, choice({"tool_calls": [LOOK]}, None, 1)], [STOP], done=False),
    "second choice with text": sse([TEXT], [ALTERNATIVE], [choice({}, "tool_calls")]),
    "whole": whole(TEXT | {"finish_reason": "tool_calls"}, choice({"tool_calls": [LOOK]}, "tool_calls", 1)),
    "whole, stop": whole(TEXT | {"finish_reason": "stop"}, choice({"tool_calls": [LOOK]}, "stop", 1)),
    "two alternatives": sse(
        [choice({"tool_calls": [LOOK]}), choice({"tool_calls": [MORE]}, None, 1)], [choice({}, "tool_calls")]
    ),
}


@pytest.mark.parametrize("came", CALLS.values(), ids=CALLS)
def test_calls_are_made_once_wherever_they_came(came):
    result, looked, requests = run(came, "It is a fruit.")
    assert (looked, requests, result.content) == (["a"], 2, "It is a fruit.")


def test_calls_in_separate_choices_are_all_made():
    events = [choice({"tool_calls": [LOOK]}, None, 1), choice({"tool_calls": [MORE]}, None, 2)]
    for came in (
        sse([TEXT], *([each] for each in events), [choice({}, "stop")]),
        whole(TEXT | {"finish_reason": "stop"}, *events),
    ):
        assert sorted(run(came, "Done.")[1]) == ["a", "b"]


def test_of_two_answers_one_is_taken():
    second = choice({"content": "No."}, "stop", 1)
    assert run(sse([TEXT, second], [choice({}, "stop")]))[0].content == SAID
    assert run(whole(TEXT | {"finish_reason": "stop"}, second))[0].content == SAID
    assert run(sse([TEXT, ALTERNATIVE], [choice({}, "stop")]))[1] == []
    empty = choice({"role": "assistant", "content": ""})
    assert run(sse([empty, second], [choice({}, "stop")]))[0].content == "No."

"""Trials as lines for fine-tuning."""

from __future__ import annotations

import json
import pickle

import pytest

from pure_agent_loop import Agent, BaseLLMClient, ConfigError, LLMResponse, TokenUsage, ToolCall, tool
from pure_agent_loop.evaluation import Case, Contains, Dataset, EvaluationReport
from pure_agent_loop.testing import ScriptedLLM, call

HISTORY = [
    {"role": "system", "content": "Old."},
    {"role": "user", "content": "Hi."},
    {"role": "assistant", "content": "Hello."},
]
MESSAGE_KEYS = {"role", "content", "tool_calls", "tool_call_id"}


@tool
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


def reply(messages, tools, options):
    return "It is 5." if messages[-1]["role"] == "tool" else call("add", a=2, b=3)


def report(**options):
    agent = Agent(llm=ScriptedLLM(reply), tools=[add], system_prompt="Be brief.")
    cases = [Case("2 + 3?", "5", name="sum"), Case("Again?", "6", name="after", messages=HISTORY)]
    return Dataset(cases, [Contains()]).run(agent, **options)


def lines(text):
    return [json.loads(line) for line in text.splitlines()]


def test_line_has_messages_tools_scores_and_ids(tmp_path):
    found = report(out=tmp_path / "o.jsonl")
    text = found.to_chat_jsonl()
    first, second = lines(text)
    call_id = first["messages"][2]["tool_calls"][0]["id"]
    arguments = json.loads(first["messages"][2]["tool_calls"][0]["function"].pop("arguments"))
    assert arguments == {"a": 2, "b": 3}
    assert first == {
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "2 + 3?"},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": call_id, "type": "function", "function": {"name": "add"}}],
            },
            {"role": "tool", "tool_call_id": call_id, "content": "5"},
            {"role": "assistant", "content": "It is 5."},
        ],
        "tools": [{"type": "function", "function": add.to_openai_schema()["function"]}],
        "case": "sum",
        "repeat": 1,
        "session": found.outcomes[0].session,
        "passed": True,
        "scores": {"contains": True},
    }
    assert found.outcomes[0].session
    assert [each["content"] for each in second["messages"][:4]] == ["Old.", "Hi.", "Hello.", "Again?"]
    assert not second["passed"]
    found.to_chat_jsonl(tmp_path / "chat.jsonl")
    assert (tmp_path / "chat.jsonl").read_text() == text
    assert EvaluationReport.load(tmp_path / "o.jsonl").to_chat_jsonl() == text


def test_system_prompt_tools_and_details_are_left_out():
    bare = lines(report().to_chat_jsonl(system=False, tools=False, details=False))
    assert all(each.keys() == {"messages"} for each in bare)
    assert all(message["role"] != "system" for each in bare for message in each["messages"])
    kept = lines(report().to_chat_jsonl(details=False))
    assert all(each.keys() == {"messages", "tools"} for each in kept)


def test_report_without_messages_is_refused_and_nothing_is_written(tmp_path):
    found = report()
    found.save(tmp_path / "r.json")
    with pytest.raises(ConfigError, match=r"'sum' \(1\) has no messages.*messages=True"):
        EvaluationReport.load(tmp_path / "r.json").to_chat_jsonl(tmp_path / "chat.jsonl")
    assert not (tmp_path / "chat.jsonl").exists()
    found.save(tmp_path / "r.json", messages=True)
    assert EvaluationReport.load(tmp_path / "r.json").to_chat_jsonl() == found.to_chat_jsonl()


class Telling(BaseLLMClient):
    """Adds details of its tokens, and a field of its own, to each answer."""

    model, origin = "telling", "telling"

    async def chat(self, messages, tools=None, **options):
        number = len(messages)
        calls = [] if messages[-1]["role"] == "tool" else [ToolCall("c", "add", {"a": 2, "b": 3})]
        return LLMResponse(
            "5" if not calls else None,
            calls,
            TokenUsage(1, 1, 2),
            extra={"signature": "s"},
            origin=self.origin,
            token_details={"token_ids": [number], "logprobs": {"content": [{"logprob": -0.5}]}},
        )


def test_token_details_stand_with_their_assistant_messages():
    found = Dataset([Case("2 + 3?", messages=HISTORY)]).run(Agent(llm=Telling(), tools=[add]))
    (line,) = lines(found.to_chat_jsonl())
    written = [message for message in line["messages"] if message["role"] == "assistant"]
    assert [details and details["token_ids"] for details in line["token_details"]] == [None, [4], [6]]
    assert len(written) == 3
    assert all(message.keys() <= MESSAGE_KEYS for message in line["messages"])


def test_outcomes_are_read_from_their_file_and_travel(tmp_path):
    found = report(out=tmp_path / "o.jsonl", repeats=3)
    assert [outcome.repeat for outcome in found.outcomes[1:3]] == [2, 3]
    assert found.outcomes[-1].case == "after"
    copy = pickle.loads(pickle.dumps(found))
    assert copy == found
    assert isinstance(copy.outcomes, list)
    assert found.outcomes != copy.outcomes[:5]

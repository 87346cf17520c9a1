"""Tokens of the model's own protocol around a name or arguments: one reading is taken, two are told."""

from __future__ import annotations

import json
from typing import Any

import pytest

from llm_client_conformance import ScriptedServer
from llm_client_conformance.quirks import Expected, Quirk, RawBody
from pure_agent_loop import Agent, BaseLLMClient, LLMResponse, ToolCall
from pure_agent_loop.llm.control_tokens import meant_arguments, meant_name

NAMES = {"look", "delete"}


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("look<|channel|>commentary", "look"),
        ("<|start|>assistant<|channel|>commentary to=functions.look", "look"),
        ("functions.look", "look"),
        ("look<｜tool▁sep｜>", "look"),
        ("look</s>", "look"),
        ("look<|im_end|>look", "look"),
        ("look<|channel|>delete", "look<|channel|>delete"),
        ("<|channel|>commentary", "<|channel|>commentary"),
        ("looking<|channel|>json", "looking<|channel|>json"),
    ],
)
def test_a_name_means_the_one_tool_it_can_mean(written, meant):
    assert meant_name(written, NAMES.__contains__) == meant


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ('<|constrain|>json<|message|>{"word": "a"}<|call|>', '{"word": "a"}'),
        ('{"word": "a"}<|im_end|>', '{"word": "a"}'),
        ('{"a": 1}<|call|>{"a": 2}', ""),
        ('{"a": 1}<|call|>and then I deleted "all"!', ""),
    ],
)
def test_arguments_are_the_one_object_there_is(written, meant):
    assert meant_arguments(written) == meant


def run(name: str, arguments: str, **more: Any) -> tuple[list[str], Any, list[Any]]:
    looked: list[str] = []

    def look(word: str) -> str:
        """Look a word up."""
        looked.append(word)
        return "a fruit"

    function = {"name": name, "arguments": arguments}
    delta = {"tool_calls": [{"index": 0, "id": "c", "type": "function", "function": function}]}
    body = json.dumps({"choices": [{"index": 0, "delta": delta, "finish_reason": "tool_calls"}]}).encode()
    odd = RawBody(Quirk("name", "", b"data: " + body + b"\n\ndata: [DONE]\n\n", Expected()))
    with ScriptedServer([odd, "Done."], strict=False) as server:
        agent = Agent(model="m", api_key="k", base_url=server.base_url, tools=[look], **more)
        result = agent.run("What is it?")
        return looked, result, server.requests


def test_the_tool_runs_and_the_history_holds_its_name():
    looked, result, requests = run("look<|channel|>commentary", '{"word": "apple"}<|call|>')
    assert (looked, result.content, len(requests)) == (["apple"], "Done.", 2)
    names = [c["function"]["name"] for m in result.messages for c in m.get("tool_calls") or ()]
    assert names == ["look"]


def test_ambiguous_name_is_reported():
    looked, _, requests = run("look<|channel|>commentary", '{"word": "a"}<|call|>{"word": "b"}')
    assert (looked, len(requests)) == ([], 2)


def test_a_typed_answer_is_recognised_by_its_name_too():
    looked, result, _ = run("final_result<|channel|>json", '{"response": 7}', output_type=int)
    assert (looked, result.output) == ([], 7)


class Own(BaseLLMClient):
    """A client that gives names as its model wrote them."""

    async def chat(self, messages: Any, tools: Any = None, **kwargs: Any) -> LLMResponse:
        if messages[-1]["role"] == "tool":
            return LLMResponse(messages[-1]["content"])
        return LLMResponse(None, [ToolCall("c", "look<|message|>", {"word": "a"})])


def test_custom_clients_get_tool_modes_too():
    def look(word: str) -> str:
        """Look a word up."""
        return f"{word} is a letter"

    assert "a is a letter" in Agent(llm=Own(), tools=[look]).run("What is it?").content

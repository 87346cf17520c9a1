"""What an effect gave, written down and read back."""

from __future__ import annotations

import json

import pytest

from pure_agent_loop import BeforeTool, LLMResponse, Permission, TokenUsage, ToolCall
from pure_agent_loop.kernel.model_call import is_of_one_request
from pure_agent_loop.sessions.transcript import decode, encode
from pure_agent_loop.tool import ToolOutcome


@pytest.mark.parametrize(
    "value",
    [
        LLMResponse(
            "hi", [ToolCall("c", "add", {"a": 1}), ToolCall("d", "x", {}, "broken")], TokenUsage(1, 2, 3)
        ),
        LLMResponse("hi", [], None, {"requests": 3}),
        ToolOutcome("3"),
        ToolOutcome("no luck", is_error=True),
        Permission("deny", "Not now.", interrupt=True),
        BeforeTool(args={"a": 2}, context="note"),
        None,
        "text",
        ["a", 1],
    ],
)
def test_there_and_back(value):
    kind, plain = encode(value)
    assert decode(kind, json.loads(json.dumps(plain))) == value


def test_an_answer_of_several_requests_stays_one():
    several = LLMResponse("hi", [], TokenUsage(900, 2, 902), {"requests": 3})
    assert not is_of_one_request(several)
    assert not is_of_one_request(decode(*encode(several)))

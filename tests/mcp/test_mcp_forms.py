"""A tool asks for several values: in a form of an MCP client, one question after the other elsewhere."""

from __future__ import annotations

import asyncio

import httpx2
import mcp_types
import pytest
from mcp.client.streamable_http import streamable_http_client
from tests.serving import serving_app

from mcp import Client
from pure_agent_loop import Agent, Permission, RunContext, tool
from pure_agent_loop.errors import ConfigError
from pure_agent_loop.mcp import ask_form
from pure_agent_loop.server import create_app
from pure_agent_loop.testing import ScriptedLLM, call

TOKEN = "owner-token-of-tests"
FIELDS = {
    "days": {"type": "integer", "default": 3},
    "how": {"type": "string", "enum": ["train", "bus"]},
    "with": {"type": "array", "items": {"type": "string", "enum": ["ann", "bob", "eve"]}},
    "back": {"type": "boolean"},
}
GOOD = {"days": 5, "how": "bus", "with": ["ann", "eve"], "back": True}


@tool(read_only=True)
async def travel(ctx: RunContext) -> str:
    """Plans a trip."""
    return f"planned: {await ask_form(ctx, 'The trip', FIELDS)}"


def through_mcp(tmp_path, content, mode="legacy"):
    """What the tool gives a client whose user answers so, and the form that was shown."""
    shown = []

    async def fill(_, params):
        shown.append(params)
        action = "decline" if content is None else "accept"
        return mcp_types.ElicitResult(action=action, content=content)

    async def talk():
        app = create_app(Agent(llm=ScriptedLLM([]), tools=[travel]), token=TOKEN, folder=tmp_path)
        headers = {"Authorization": f"Bearer {TOKEN}"}
        async with (
            serving_app(app) as url,
            httpx2.AsyncClient(headers=headers) as own,
            Client(
                streamable_http_client(f"{url}/mcp", http_client=own), mode=mode, elicitation_callback=fill
            ) as client,
        ):
            return await client.call_tool("travel", {})

    result = asyncio.run(talk())
    return result.content[0].text, result.is_error, shown


def test_the_user_of_a_client_fills_in_one_form(tmp_path):
    text, is_error, (shown,) = through_mcp(tmp_path, GOOD)
    assert (text, is_error) == (f"planned: {GOOD}", False)
    assert shown.message == "The trip"
    assert shown.requested_schema["properties"] == FIELDS


def test_declined_form_is_none_and_a_default_fills_a_missing_field(tmp_path):
    assert through_mcp(tmp_path, None)[0] == "planned: None"
    rest = {name: value for name, value in GOOD.items() if name != "days"}
    assert through_mcp(tmp_path, rest)[0] == f"planned: {GOOD | {'days': 3}}"


@pytest.mark.parametrize(
    "wrong", [{"days": True}, {"days": "five"}, {"how": "plane"}, {"with": ["zoe"]}, {"back": "yes"}]
)
def test_mismatched_value_is_a_tool_error(tmp_path, wrong):
    text, is_error, _ = through_mcp(tmp_path, GOOD | wrong)
    assert is_error
    assert repr(next(iter(wrong))) in text


def test_protocol_without_questions_asks_nothing(tmp_path):
    text, is_error, shown = through_mcp(tmp_path, GOOD, mode="auto")
    assert (is_error, shown) == (True, [])
    assert "No person can be asked" in text


def test_elsewhere_it_is_one_question_after_the_other():
    asked, answers = [], iter(["yes", "plane", "bus", "ann, zoe", "ann, eve", "yes"])

    def answer(request):
        asked.append(request.args["question"])
        return Permission("allow", next(answers))

    agent = Agent(llm=ScriptedLLM([call("travel"), "done"]), tools=[travel], on_ask=answer)
    result = agent.run("plan")
    (said,) = (each["content"] for each in result.messages if each["role"] == "tool")
    assert said == f"planned: {GOOD | {'days': 3}}"
    assert len(asked) == 6
    assert "ann | bob | eve" in asked[4]


@pytest.mark.parametrize(("typed", "days"), [("0", 0), ("1", 1), ("yes", 3), ("no", None)])
def test_a_number_is_neither_a_yes_nor_a_no(typed, days):
    @tool(read_only=True)
    async def count(ctx: RunContext) -> str:
        """Counts the days."""
        return f"{await ask_form(ctx, 'The trip', {'days': FIELDS['days']})}"

    llm = ScriptedLLM([call("count"), "done"])
    result = Agent(llm=llm, tools=[count], on_ask=lambda _: Permission("allow", typed)).run("plan")
    (said,) = (each["content"] for each in result.messages if each["role"] == "tool")
    assert said == str(None if days is None else {"days": days})


def test_a_field_of_no_type_is_refused():
    with pytest.raises(ConfigError, match="'when' must have a type"):
        asyncio.run(ask_form(RunContext(None), "?", {"when": {"type": "date"}}))

"""`Agent.explain`: the request a server would get, byte for byte, and nothing sent or changed by asking."""

from __future__ import annotations

import json

import pytest

from pure_agent_loop import (
    Agent,
    AIClient,
    BaseLLMClient,
    Budget,
    ConfigError,
    Explanation,
    HistoryError,
    Hooks,
    LLMError,
    LLMResponse,
    LoopLimits,
    PermissionRules,
    Profile,
    tool,
)
from pure_agent_loop.llm.http_client import encode_body
from pure_agent_loop.testing import ScriptedLLM, ScriptedServer, status
from tests.helpers import add

HISTORY = [
    {"role": "user", "content": "What is 1 + 2? \u4f60\u597d"},
    {
        "role": "assistant",
        "content": "",
        "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1, "b": 2}'}}
        ],
        "meta": {"reasoning": "Let me add."},
    },
    {"role": "tool", "tool_call_id": "c1", "content": "3"},
    {"role": "assistant", "content": "3 \ud800"},
]
OPTIONS = {
    "plain": {},
    "not streamed": {"stream": False},
    "fields": {"top_p": 0.5, "extra_body": {"x": [1e-7, None]}, "seed": 7, "extra_headers": {"X-A": "b"}},
    "thinking": {"thinking_level": "high", "temperature": None},
    "own stop": {"stop": ["END"]},
    "own format": {"response_format": {"type": "text"}, "tool_choice": "auto", "parallel_tool_calls": False},
    "profile": {
        "profile": Profile("mine", reasoning_echo="reasoning_content", echo_scope="history", streaming=False)
    },
    "closing": {"limits": LoopLimits(max_seconds=1e-9)},
    "single": {"mode": "single", "after_tools": "And now?", "language": "zh"},
}


def agent_for(server, **options):
    return Agent("scripted", "k", server.base_url, tools=[add], **options)


@pytest.mark.usefixtures("transport")
@pytest.mark.parametrize("history", [None, HISTORY], ids=["new", "history"])
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize("mode", ["auto", "native", "json", "text"])
def test_explanation_equals_the_request(mode, options, history):
    with ScriptedServer(["ok"], extra_keys=["reasoning_content"]) as server:
        agent = agent_for(server, tool_mode=mode, **options)
        explanation = agent.explain("And 2 + 2?", history)
        assert server.requests == server.other_requests == []
        agent.run("And 2 + 2?", history)
    assert explanation.is_exact
    assert ("stream" in explanation.request) is (options not in (OPTIONS["not streamed"], OPTIONS["profile"]))
    assert encode_body(explanation.request) == server.requests[-1].raw


REFUSALS = {
    "json": "'response_format' of type 'json_schema' is not supported",
    "text": "Unsupported parameter: 'stop' is not supported with this model.",
    "native": "Unsupported parameter: 'temperature' is not supported with this model.",
}


@pytest.mark.usefixtures("transport")
@pytest.mark.parametrize("mode", REFUSALS)
def test_rejected_option_is_left_out(mode):
    with ScriptedServer([status(400, REFUSALS[mode]), "ok", "ok"]) as server:
        agent = agent_for(server, tool_mode=mode)
        before = agent.explain("go")
        agent.run("go")
        after = agent.explain("go")
        agent.run("go")
    first, _, last = (request.raw for request in server.requests)
    assert encode_body(before.request) == first
    assert encode_body(after.request) == last != first


@pytest.mark.usefixtures("transport")
def test_a_switch_of_the_mode_is_followed():
    with ScriptedServer([status(400, "this model does not support tools"), "ok", "ok"]) as server:
        agent = agent_for(server)
        assert agent.explain("go").tool_mode == "auto, native so far"
        agent.run("go")
        explanation = agent.explain("go")
        agent.run("go")
    assert explanation.tool_mode == "auto, json so far"
    assert encode_body(explanation.request) == server.requests[-1].raw


def explain(**options) -> Explanation:
    """Of an agent whose server is never asked."""
    return Agent("m", "k", "http://127.0.0.1:9/v1", **options).explain("go")


@tool(read_only=True)
def look(at: str) -> str:
    """Look."""
    return at


def test_explanation_lists_permissions_by_tool():
    rules = PermissionRules(
        deny=["rm", "add(a=0)"],
        ask=["look(at=secret*)"],
        allow=["add(b=1)", "other(x)", "lo*"],
        shared=True,
    )

    @tool
    def rm() -> str:
        """Remove."""
        return ""

    tools = [look, add, rm]
    assert explain(tools=tools, permission_rules=rules).permissions == {
        "look": "allow; ask calls that match 'look(at=secret*)'",
        "add": "allow; deny calls that match 'add(a=0)'; allow calls that match 'add(b=1)'",
        "rm": "deny (The rule 'rm' forbids it)",
    }
    asked = explain(tools=[add], permission_mode="ask", can_use_tool=lambda *_: "allow").permissions
    assert asked == {"add": "ask (the mode 'ask'); decided by can_use_tool"}
    planned = explain(tools=tools, permission_mode="plan").permissions
    assert planned["look"] == "allow"
    assert planned["add"].startswith("deny (Only read-only tools")
    freed = explain(tools=tools, permission_mode="bypass", permission_rules=rules).permissions
    assert freed["look"] == "allow"


def test_limits_and_notices_are_told():
    budget = Budget(max_tokens=50)
    limits = LoopLimits(max_turns=4, timeout=None, step_limit_prompt="{steps}!")
    explanation = explain(limits=limits, budget=budget, mode="single")
    assert explanation.limits == {
        "max_steps": 10,
        "max_tokens": 100_000,
        "step_limit_prompt": "{steps}!",
        "max_turns": 4,
        "doom_loop_threshold": 3,
        "tool_rounds": 1,
        "budget": {"max_tokens": 50, "used": {"tokens": 0, "tool_calls": 0, "cost": 0.0}},
    }
    assert any(notice.startswith("Model: ") for notice in explanation.notices)
    repaired = Agent(llm=ScriptedLLM([])).explain("go", [{"role": "tool", "content": "x"}])
    assert "became a user message" in repaired.notices[0]


def test_a_used_up_budget_is_seen_in_the_request():
    budget = Budget(max_tool_calls=5, max_tokens=50)
    budget.add(tool_calls=5)
    request = explain(tools=[add], budget=budget).request
    assert "tools" not in request
    assert "No more tools can be used" in request["messages"][-1]["content"]
    budget.add(tokens=50)
    with pytest.raises(LLMError, match=r"would stop before its first request \(budget\)"):
        explain(tools=[add], budget=budget)


def test_asking_changes_nothing():
    def never(*_):
        raise AssertionError

    budget = Budget(max_tokens=50)
    hooks = Hooks(on_stop=[never])
    with ScriptedServer(["ok", "ok"]) as server:
        agent = agent_for(server, budget=budget)
        first = agent.explain("go")
        first.request["messages"].clear()
        first.request["tools"][0]["function"]["name"] = "changed"
        assert agent.explain("go").request["tools"][0]["function"]["name"] == "add"
        agent_for(server, hooks=hooks, can_use_tool=never, on_ask=never).explain("go")
        assert (budget.tokens, budget.cost) == (0, 0.0)
        assert agent.run("go").content == "ok"
        assert agent.run("go").stop_reason == "completed"


def test_client_without_explain_shows_its_arguments():
    class Own(BaseLLMClient):
        model = "own"

        async def chat(self, messages, tools=None, **kwargs) -> LLMResponse:
            raise AssertionError

    explanation = Agent(llm=Own(), tools=[add], top_p=0.5).explain("go")
    assert not explanation.is_exact
    assert explanation.model == "own"
    assert [m["role"] for m in explanation.request["messages"]] == ["system", "user"]
    assert explanation.request["tools"][0]["function"]["name"] == "add"
    assert (explanation.request["temperature"], explanation.request["top_p"]) == (0.7, 0.5)
    assert "as passed to the client" in str(explanation)


def test_it_can_be_read_and_written_down():
    explanation = explain(tools=[add], limits=LoopLimits(max_tokens=None))
    plain = explanation.to_dict()
    assert json.loads(json.dumps(plain)) == plain
    assert plain["request"] == explanation.request
    shown = str(explanation)
    for line in (
        "model: m",
        "tool mode: auto, native so far",
        "limits: doom_loop_threshold=3",
        "notices, after which the run continues: max_steps=10, timeout=300.0",
        "  add: allow",
        f"request, about {explanation.estimated_tokens} tokens, as it would be sent:",
    ):
        assert line in shown.splitlines()
    assert json.loads(shown.rpartition(":\n")[2]) == explanation.request


def test_tokens_are_estimated_with_the_tools():
    bare, with_tools = explain(), explain(tools=[add])
    assert 0 < bare.estimated_tokens < with_tools.estimated_tokens


@pytest.mark.anyio
async def test_it_works_inside_a_running_loop_and_for_the_older_client():
    explanation = AIClient("m", "k", "http://127.0.0.1:9/v1", tools=[add]).explain("go")
    assert explanation.limits["tool_rounds"] == 1
    assert explanation.request["messages"][-1] == {"role": "user", "content": "go"}


def test_unsupported_explain_arguments_are_rejected():
    with pytest.raises(ConfigError, match="task must be text"):
        Agent(llm=ScriptedLLM([])).explain(5)
    with pytest.raises(ConfigError, match="task must be text"):
        Agent(llm=ScriptedLLM([])).explain(None)
    with pytest.raises(HistoryError):
        Agent(llm=ScriptedLLM([])).explain("go", "no list")
    final = tool(name="final_answer")(look.function)
    with pytest.raises(LLMError, match="Rename the tool"):
        explain(tools=[final], tool_mode="json")

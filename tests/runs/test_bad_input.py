"""Wrong input: one clear error, at once, that says what to do."""

from __future__ import annotations

import pytest
from tests.helpers import add, check_events

from llm_client_conformance.faults import refusing_url
from pure_agent_loop import (
    Agent,
    AgentLoop,
    AIClient,
    ConfigError,
    LoopLimits,
    ReactLoop,
    RetryConfig,
    Tool,
    ToolRegistry,
    tool,
)
from pure_agent_loop.testing import ScriptedLLM


def untyped(city):
    """Say the weather."""
    return city


def other_add(x: int) -> int:
    """Add one."""
    return x + 1


LLM = ScriptedLLM([])
MISTAKES = {
    "thinking level": (lambda: Agent(llm=LLM, thinking_level="max"), ["thinking_level", "'max'", "high"]),
    "llm and model": (lambda: Agent("gpt-5", llm=LLM), ["llm", "model", "Pass llm="]),
    "llm and base_url": (lambda: Agent(llm=LLM, base_url="http://x/v1"), ["llm", "base_url"]),
    "llm and api_key": (lambda: Agent(llm=LLM, api_key="k"), ["llm", "api_key"]),
    "a client that is none": (
        lambda: Agent(llm=object()),
        ["chat(messages, tools=None", "object"],
    ),
    "no annotation": (lambda: Agent(llm=LLM, tools=[untyped]), ["untyped", "city", "annotation"]),
    "two of one name": (
        lambda: Agent(llm=LLM, tools=[add, Tool(other_add, name="add")]),
        ["Two tools", "'add'", "@tool(name="],
    ),
    "starters is text": (lambda: Agent(llm=LLM, starters="Begin"), ["starters", "'Begin'", "must be tasks"]),
    "a blank starter": (lambda: Agent(llm=LLM, starters=[" "]), ["starters", "non-blank"]),
    "tools is a function": (lambda: Agent(llm=LLM, tools=add), ["tools must be a list", "Tool('add')"]),
    "tools is text": (lambda: Agent(llm=LLM, tools="add"), ["tools must be a list", "'add'"]),
    "tools is a dict": (lambda: Agent(llm=LLM, tools={"add": add}), ["tools must be a list"]),
    "tools is a number": (lambda: Agent(llm=LLM, tools=5), ["tools must be a list", "5"]),
    "a tool is a number": (lambda: Agent(llm=LLM, tools=[5]), ["tool must be a function", "5"]),
    "permission mode misspelt": (
        lambda: Agent(llm=LLM, permision_mode="plan"),
        ["Agent has no option 'permision_mode'", "Did you mean permission_mode?", "extra_body={"],
    ),
    "model misspelt": (lambda: Agent(modle="m"), ["no option 'modle'", "Did you mean model?"]),
    "max_turns": (lambda: Agent(llm=LLM, max_turns=3), ["limits=LoopLimits(max_turns=...)"]),
    "max_retries": (lambda: Agent(llm=LLM, max_retries=3), ["retry=RetryConfig(max_retries=...)"]),
    "instructions": (lambda: Agent(llm=LLM, instructions="x"), ["Write system_prompt."]),
    "system": (lambda: Agent(llm=LLM, system="x"), ["Write system_prompt."]),
    "output_type": (lambda: Agent(llm=LLM, output_type=LLM), ["output_type: ", "has no JSON Schema"]),
    "output_type of a loop": (
        lambda: ReactLoop(llm=LLM, llm_kwargs={"output_type": int}),
        ["no option 'output_type'", "output_type= of Agent"],
    ),
    "several answers": (lambda: Agent(llm=LLM, n=2), ["no option 'n'", "one answer only"]),
    "a history": (lambda: Agent(llm=LLM, messages=[]), ["no option 'messages'", "run()"]),
    "a field of one server": (lambda: Agent(llm=LLM, top_k=5), ["extra_body={'top_k': ...}"]),
    "a field like no other": (
        lambda: Agent(llm=LLM, zzzz=5),
        ["has no option 'zzzz'. Put server-specific fields"],
    ),
    "a value without JSON": (
        lambda: Agent(llm=LLM, metadata={1, 2}),
        ["metadata={1, 2}", "not JSON-serializable"],
    ),
    "a temperature that is none": (lambda: Agent(llm=LLM, temperature=float("nan")), ["temperature=nan"]),
    "a type as format": (
        lambda: Agent(llm=LLM, response_format=int),
        ["response_format=", "not JSON-serializable"],
    ),
    "extra_headers as a number": (
        lambda: Agent(llm=LLM, extra_headers=5),
        ["extra_headers must be a dict", "5"],
    ),
    "stream as a number": (lambda: Agent(llm=LLM, stream=1), ["stream must be True or False", "1"]),
    "timeout as text": (
        lambda: Agent(llm=LLM, timeout="x"),
        ["timeout must be a positive number of seconds", "'x'"],
    ),
    "timeout of nothing": (
        lambda: Agent(llm=LLM, timeout=0),
        ["timeout must be a positive number of seconds", "0"],
    ),
    "timeout as a truth value": (
        lambda: Agent(llm=LLM, timeout=True),
        ["timeout must be a positive number", "True"],
    ),
    "extra_body as text": (lambda: Agent(llm=LLM, extra_body="x"), ["extra_body must be a dict", "'x'"]),
    "react fields": (lambda: ReactLoop(LLM, llm_kwargs={"max_turn": 1}), ["llm_kwargs has no", "max_turns"]),
    "single round": (lambda: AIClient(llm=LLM, instuctions="x"), ["Did you mean system_prompt?"]),
    "an assistant's": (
        lambda: AgentLoop(LLM, ".", max_iteration=5),
        ["AgentLoop has no option 'max_iteration'", "Did you mean max_iterations?"],
    ),
    "limits is a number": (lambda: Agent(llm=LLM, limits=5), ["limits must be a LoopLimits", "5"]),
    "limits is zero": (lambda: Agent(llm=LLM, limits=0), ["limits must be a LoopLimits", "0"]),
    "retry is a number": (lambda: Agent(llm=LLM, retry=3), ["retry must be a RetryConfig", "3"]),
    "system prompt": (lambda: Agent(llm=LLM, system_prompt=None), ["system_prompt must be text", "None"]),
    "language": (lambda: Agent(llm=LLM, language="fr"), ["language='fr'", "en, zh"]),
    "a limit of zero": (lambda: LoopLimits(max_steps=0), ["LoopLimits.max_steps=0", "None for no limit"]),
    "a negative limit": (lambda: LoopLimits(timeout=-1.0), ["LoopLimits.timeout=-1.0", "positive"]),
    "a limit as text": (lambda: LoopLimits(max_tokens="9"), ["LoopLimits.max_tokens='9'", "positive"]),
    "a limit that is a bool": (lambda: LoopLimits(max_turns=True), ["LoopLimits.max_turns=True"]),
    "a limit that is no number": (lambda: LoopLimits(max_seconds=float("nan")), ["max_seconds=nan"]),
    "a placeholder with a wrong format": (
        lambda: LoopLimits(timeout_prompt="{elapsed:.1f} {steps:.x}"),
        ["LoopLimits.timeout_prompt", "{steps:.x}", "format"],
    ),
    "a placeholder of nothing": (
        lambda: LoopLimits(step_limit_prompt="{} steps"),
        ["LoopLimits.step_limit_prompt", "{}", "{checkpoint_steps}"],
    ),
    "an unknown placeholder with a format": (
        lambda: LoopLimits(step_limit_prompt="{done:.1f}"),
        ["LoopLimits.step_limit_prompt", "{done:.1f}"],
    ),
    **{
        f"the placeholder {bad}": (
            lambda bad=bad: LoopLimits(timeout_prompt=f"Only {bad}"),
            ["LoopLimits.timeout_prompt", bad],
        )
        for bad in (
            *("{", "{steps", "{ steps }", "{steps[0]}", "{steps.__class__}", "{steps!z}", "{steps!}", "{!r}"),
            *("{elapsed:{timeout}}", "{elapsed:{timeout}d}", "{max_steps!r:d}", "{steps:", "{0}", "{a-b}"),
        )
    },
    "an unknown placeholder": (
        lambda: LoopLimits(step_limit_prompt="{steps} of {done}"),
        ["LoopLimits.step_limit_prompt", "{done}", "{current_steps}"],
    ),
    "words that are none": (lambda: LoopLimits(timeout_prompt=5), ["LoopLimits.timeout_prompt", "5"]),
    "no time at all": (lambda: Agent(llm=LLM, tool_timeout=0), ["tool_timeout=0", "None for no limit"]),
    "an idle timeout as text": (lambda: Agent(llm=LLM, idle_timeout="9"), ["idle_timeout='9'", "positive"]),
    "a tool's delay": (lambda: Agent(llm=LLM, tool_retry_delay=-1), ["tool_retry_delay=-1", "0 or more"]),
    "negative retries": (lambda: RetryConfig(max_retries=-1), ["RetryConfig.max_retries=-1", "0 or more"]),
    "a delay as text": (lambda: RetryConfig(base_delay="1"), ["RetryConfig.base_delay='1'"]),
    "task": (lambda: Agent(llm=LLM).run(5), ["task must be text", "5"]),
    "task is none": (lambda: Agent(llm=LLM).run_stream(None), ["task must be text", "None"]),
    "task is a list": (lambda: Agent(llm=LLM).arun_stream(["x"]), ["task must be text", "['x']"]),
    "no client": (lambda: ReactLoop(), ["ReactLoop needs a model client", "llm="]),
    "two clients": (lambda: ReactLoop(LLM, client=LLM), ["ReactLoop needs a model client", "client="]),
    "react tools": (lambda: ReactLoop(LLM, [untyped]), ["untyped", "city"]),
    "react limits": (lambda: ReactLoop(LLM, limits=5), ["limits must be a LoopLimits"]),
    "react retry": (lambda: ReactLoop(LLM, retry=5), ["retry must be a RetryConfig"]),
    "react client": (lambda: ReactLoop(5), ["chat(messages, tools=None, **kwargs)", "int"]),
    "react task": (lambda: ReactLoop(LLM).run(5), ["task must be text"]),
    "react prompt": (lambda: ReactLoop(LLM).run("x", 5), ["system_prompt must be text"]),
    "a name with a space": (
        lambda: tool(name="two words")(other_add),
        ["'two words'", "@tool(name="],
    ),
    "an empty name": (lambda: Tool(other_add, name=""), ["''", "letters"]),
    "a long name": (lambda: Tool(other_add, name="x" * 65), ["xxx", "64"]),
    "a name that is a number": (lambda: Tool(other_add, name=5), ["5", "letters"]),
    "a lambda": (lambda: tool(lambda: 1), ["<lambda>", "@tool(name="]),
    "a timeout of zero": (lambda: Tool(other_add, timeout=0), ["timeout=0", "positive"]),
    "a timeout as text": (lambda: Tool(other_add, timeout="5"), ["timeout='5'", "positive"]),
    "a dict without function": (
        lambda: ToolRegistry([{"name": "x"}]),
        ["the keys name and function"],
    ),
    "a dict with other keys": (
        lambda: ToolRegistry([{"name": "x", "function": add, "schema": {}}]),
        ["optional: description, parameters", "'schema'"],
    ),
    "a dict whose function is none": (
        lambda: ToolRegistry([{"name": "x", "function": None}]),
        ["must be a function", "None"],
    ),
    "a dict whose name is a number": (
        lambda: ToolRegistry([{"name": 5, "function": other_add}]),
        ["5", "letters"],
    ),
    "parameters that are a list": (
        lambda: ToolRegistry([{"name": "x", "function": add, "parameters": []}]),
        ["parameters must be a JSON Schema", "[]"],
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistake_is_reported_clearly(name):
    mistake, words = MISTAKES[name]
    with pytest.raises(ConfigError) as caught:
        mistake()
    assert isinstance(caught.value, ValueError)
    for word in words:
        assert word in str(caught.value)
    assert LLM.requests == []


def test_an_unreachable_server_is_named_in_one_error():
    with refusing_url() as url:
        result = Agent("m", "k", url, retry=RetryConfig(max_retries=1, base_delay=0, jitter=0)).run("go")
    check_events(result.events)
    assert result.stop_reason == "error"
    assert url in result.error
    assert [event.type.value for event in result.events] == [
        "loop_start",
        "notice",
        "retry",
        "error",
        "loop_end",
    ]


def test_a_registry_is_taken_as_it_is():
    registry = ToolRegistry([add])
    assert Agent(llm=LLM, tools=registry).tools is registry


def test_an_unknown_language_of_the_environment_is_said_once_and_ends_nothing(monkeypatch, caplog):
    monkeypatch.setenv("PAL_LANG", "klingon")
    for _ in range(2):
        assert Agent(llm=ScriptedLLM(["hi"])).run("go").content == "hi"
    (said,) = [each.getMessage() for each in caplog.records]
    assert said == "PAL_LANG='klingon': unknown language, using en. Use one of: en, zh."


@pytest.mark.parametrize("agent", [Agent, AIClient])
@pytest.mark.parametrize("parameter", ["llm", "client"])
def test_agent_is_a_model_client_only_of_a_loop(agent, parameter):
    inner = agent(llm=LLM)
    with pytest.raises(ConfigError, match=rf"{agent.__name__} is an agent.* pass its client: agent\.llm"):
        Agent(llm=inner)
    assert ReactLoop(**{parameter: inner})
    assert ReactLoop(**{parameter: inner.llm})


def test_a_result_without_an_answer_is_printed_as_its_error(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    result = Agent("gpt-4o-mini").run("q")
    assert result.content == ""
    assert str(result) == result.error
    assert "No API key" in str(result)
    assert "No API key" in result._repr_html_()
    assert "No API key" in result._repr_markdown_()
    assert str(Agent(llm=ScriptedLLM(["hello"])).run("q")) == "hello"

"""The prompt prefix: what changed first between two requests, who changed it, and what that cost."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.helpers import add

from pure_agent_loop import (
    Agent,
    EventType,
    LoopLimits,
    OpenAIClient,
    TokenUsage,
    tool,
)
from pure_agent_loop.kernel.prefix import PARTS, PrefixChange, entries_of, first_change
from pure_agent_loop.llm.profiles import Profile
from pure_agent_loop.llm.responses.client import ResponsesClient
from pure_agent_loop.llm.values import TokenUsage as Usage
from pure_agent_loop.support.secrets.redaction import Redactor
from pure_agent_loop.testing import ScriptedLLM, ScriptedServer, answer, call
from pure_agent_loop.testing.faults import status

FREE = LoopLimits(max_steps=None, max_tokens=None, doom_loop_threshold=None)
CALL = call("add", a=1, b=2)
MISSED = TokenUsage(
    1_000, 5, 1_005, cached_tokens=0
)  # the server reports that it read nothing from its cache


def chat(*texts: str, system: str = "S", tools: tuple[str, ...] = ("a",)) -> dict[str, Any]:
    messages = [{"role": "system", "content": system}, *({"role": "user", "content": t} for t in texts)]
    return {"model": "m", "messages": messages, "tools": [{"function": {"name": name}} for name in tools]}


def changed(before: dict[str, Any], after: dict[str, Any], **writers: str) -> PrefixChange | None:
    return first_change(entries_of(before), entries_of(after), writers)


def test_a_request_that_continues_the_previous_one_changes_nothing() -> None:
    assert changed(chat("one"), chat("one", "two")) is None


@pytest.mark.parametrize(
    ("after", "place"),
    [
        (chat("one", "two", system="T"), ("system", 0)),
        (chat("one", "2"), ("messages", 1)),
        (chat("one"), ("messages", 1)),
        (chat("one", "two", tools=()), ("tools", 0)),
        (chat("1", "two", system="T", tools=("a", "b")), ("tools", 1)),  # the first in the cache's order
        ({**chat("one", "two"), "model": "n"}, ("model", 0)),
    ],
)
def test_the_first_changed_entry_is_named(after: dict[str, Any], place: tuple[str, int]) -> None:
    change = changed(chat("one", "two"), after)
    assert change is not None
    assert (change.part, change.index) == place


def test_the_offset_is_that_of_the_first_different_character() -> None:
    change = changed(chat("it is 12:00 now"), chat("it is 12:01 now"), messages="compaction:prune")
    assert change is not None
    text = json.dumps({"role": "user", "content": "it is 12:00 now"})
    assert change.offset == text.index("0 now")
    assert "12:00" in change.before
    assert "12:01" in change.after
    assert change.kept + len('0 now"}') == change.total
    assert "compaction (prune)" in change.words()
    assert "压缩" in change.words().translated("zh")


def test_cache_marks_are_not_part_of_the_prompt() -> None:
    client = OpenAIClient("m", "k", "http://127.0.0.1:1/v1", profile=Profile("x", cache_marks=True))
    messages = chat("one", "two")["messages"]
    tools = [{"type": "function", "function": {"name": "add", "parameters": {}}}]
    first, second = (client.request_body(messages[:n], tools, {}, True) for n in (2, 3))
    assert "cache_control" in str(first)
    assert changed(first, second) is None


def test_all_four_protocols_are_read() -> None:
    text = {"type": "text", "text": "S"}
    bodies = [
        {"system": [text], "tools": [{}], "messages": [{"role": "user", "content": [text]}]},
        {"instructions": "S", "tools": [{}], "input": [{"role": "user", "content": "x"}]},
        {"systemInstruction": {"parts": [{"text": "S"}]}, "tools": [{}], "contents": [{"role": "user"}]},
        chat("x"),
    ]
    for body in bodies:
        assert [len(entries_of(body)[part]) for part in PARTS] == [1, 1, 1, 1]


@given(st.lists(st.text(max_size=9), max_size=5), st.lists(st.text(max_size=9), max_size=5))
def test_prefix_before_a_difference_is_equal(old: list[str], new: list[str]) -> None:
    before, after = (entries_of(chat(*texts)) for texts in (old, new))
    left, right = ("".join(text for part in PARTS for text in body[part]) for body in (before, after))
    change = first_change(before, after, {})
    if change is None:
        assert right.startswith(left)
    else:
        assert left[: change.kept] == right[: change.kept]
        assert left[change.kept : change.kept + 1] != right[change.kept : change.kept + 1]


# -- who changed it: notices of a run ---------------------------------------------------------------------


@tool
def read(n: int) -> str:
    """Read a page."""
    return f"page {n}: " + "all is well " * 300


def notices_of(agent: Agent, task: str = "x", **given: Any) -> list[str]:
    events = agent.run(task, **given).events
    return [e.content for e in events if e.type is EventType.NOTICE and e.content.startswith("Prompt cache")]


def test_a_system_prompt_with_the_time_is_named() -> None:
    times = iter(range(60))

    def prompt() -> str:
        return f"It is 12:{next(times):02}."

    llm = ScriptedLLM([answer(CALL), answer(CALL), "3"], usage=MISSED)
    agent = Agent(llm=llm, tools=[add], system_prompt=prompt, system_prompt_per="step", limits=FREE)
    (first,) = notices_of(agent)  # the author of further misses is the same
    assert "system[0]" in first
    assert "function that writes the system prompt" in first
    assert "12:00" in first
    assert "12:01" in first


def test_nothing_is_said_of_a_history_that_only_grows() -> None:
    assert notices_of(Agent(llm=ScriptedLLM([CALL, CALL, "3"], usage=MISSED), tools=[add])) == []


@pytest.mark.parametrize("cached", [None, 1_000])
def test_nothing_is_said_unless_the_server_reports_a_miss(cached: int | None) -> None:
    times = iter(range(60))
    llm = ScriptedLLM([answer(CALL), "3"], usage=used(1_000, cached))
    agent = Agent(llm=llm, tools=[add], system_prompt=lambda: f"{next(times)}", system_prompt_per="step")
    assert notices_of(agent) == []


def test_a_toolset_that_lists_other_tools_is_named() -> None:
    class Growing:
        async def __aenter__(self) -> Any:
            return self

        async def __aexit__(self, *_: object) -> None: ...

        async def call(self, name: str, arguments: Any) -> str:
            return ""

        def list(self, context: Any) -> list[Any]:
            @tool(name=f"extra_{context.step}")
            def extra() -> str:
                """Do more."""
                return ""

            return [extra]

    agent = Agent(llm=ScriptedLLM([answer(CALL), "3"], usage=MISSED), tools=[add, Growing()])
    (text,) = notices_of(agent)
    assert "toolset" in text
    assert "tools[1]" in text


class Fixed:
    """A toolset that always lists the same tool."""

    async def __aenter__(self) -> Any:
        return self

    async def __aexit__(self, *_: object) -> None: ...

    async def call(self, name: str, arguments: Any) -> str:
        return ""

    def list(self, context: Any) -> list[Any]:
        return [read]


def test_a_tool_registered_by_the_program_is_named() -> None:
    @tool
    def grow() -> str:
        """Register another tool."""
        agent.tools.register(add)
        return "ok"

    for others in ([], [Fixed()]):
        agent = Agent(llm=ScriptedLLM([answer(call("grow")), "3"], usage=MISSED), tools=[grow, *others])
        (text,) = notices_of(agent)
        assert "the calling program (tools)" in text


def test_a_pruned_result_is_named() -> None:
    llm = ScriptedLLM([*(answer(call("read", n=n)) for n in range(12)), "done"], usage=MISSED)
    agent = Agent(llm=llm, tools=[read], limits=FREE, context_window=8_000)
    result = agent.run("x")
    rungs = [event.data["rung"] for event in result.events if event.type is EventType.COMPACTION]
    texts = [e.content for e in result.events if e.type is EventType.NOTICE]
    assert rungs
    assert any(f"compaction ({rungs[-1]})" in text for text in texts)


def test_learned_change_has_its_own_notice() -> None:
    refusal = status(400, "Unsupported value: 'messages[0].role' does not support 'system' with this model.")
    with ScriptedServer([answer(CALL), refusal, answer(CALL), "3"], usage=MISSED) as server:
        agent = Agent(llm=OpenAIClient("m", "k", server.base_url), tools=[add], limits=FREE)
        result = agent.run("x")
    (text,) = [event.content for event in result.events if event.type is EventType.NOTICE]
    assert "because the server rejected a request" in text


def test_secrets_are_not_shown() -> None:
    secret = "hunter2-and-more-of-it"
    times = iter(range(9))
    llm = ScriptedLLM([answer(CALL), "3"], usage=MISSED)
    agent = Agent(
        llm=llm, tools=[add], system_prompt=lambda: f"{secret} {next(times)} {secret}",
        system_prompt_per="step", redact=Redactor([secret]),
    )  # fmt: skip
    (text,) = notices_of(agent)
    assert not any(secret[n : n + 6] in text for n in range(len(secret) - 6))


# -- tokens that the cache missed -------------------------------------------------------------------------


def used(prompt: int, cached: int | None) -> TokenUsage:
    return TokenUsage(prompt, 5, prompt + 5, cached_tokens=cached)


def test_each_step_reports_cache_reads_and_misses() -> None:
    usages = [used(1_000, 0), used(1_500, 900), used(400, 100), used(500, None)]
    llm = ScriptedLLM([*(answer(CALL, usage=usage) for usage in usages[:3]), answer("3", usage=usages[3])])
    result = Agent(llm=llm, tools=[add]).run("x")
    steps = [e.data["step_usage"] for e in result.events if e.type is EventType.STEP_END]
    # Of the previous request 1,000 could have been read, then at most 400: the request has no more.
    assert [step.get("cache_missed_tokens") for step in steps] == [0, 100, 300, None]
    assert result.usage.cache_missed_tokens == 400
    assert [step["prompt_tokens"] for step in steps] == [1_000, 1_500, 400, 500]


def test_missed_tokens_survive_the_plain_form() -> None:
    usage = used(10, 4).with_missed(9)
    assert (usage.cache_missed_tokens, Usage.from_dict(usage.to_dict())) == (5, usage)
    assert used(10, None).with_missed(9).cache_missed_tokens is None
    assert "cache_missed_tokens" not in used(10, 3).to_dict()


def test_responses_bodies_have_their_model() -> None:
    body = ResponsesClient("gpt-5", "k").request_body([{"role": "user", "content": "x"}], None, {}, True)
    assert entries_of(body)["model"] == ['"gpt-5"']

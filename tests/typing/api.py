"""Typed calls of the public API. Only type checkers read this file; it is never run."""

from __future__ import annotations

from collections.abc import AsyncIterator, Coroutine, Iterator
from typing import Any

from typing_extensions import assert_type

from pure_agent_loop import (
    Agent,
    AgentResult,
    AIClient,
    AnyEvent,
    BaseLLMClient,
    CancelToken,
    Conversation,
    Delta,
    Event,
    EventType,
    Explanation,
    Inbox,
    LimitChecker,
    LimitResult,
    LLMResponse,
    LoopLimits,
    OpenAIClient,
    QueryState,
    ReactLoop,
    Renderer,
    RetryConfig,
    RetryHandler,
    TokenUsage,
    Tool,
    ToolCall,
    ToolRegistry,
    prompts_for,
    react_prompt,
    tool,
)


@tool
def bare(city: str) -> str:
    """A tool."""
    return city


@tool(name="other", description="Another.", idempotent=True, timeout=5.0)
async def with_arguments(days: int = 3) -> list[str]:
    """Another tool."""
    return ["x"] * days


def plain(x: float) -> float:
    """A plain function."""
    return x


def tools() -> None:
    assert_type(bare("Oslo"), str)
    later: Coroutine[Any, Any, list[str]] = with_arguments(days=1)
    later.close()
    registry = ToolRegistry([bare, plain])
    registry.register({"name": "dict", "description": "d", "parameters": {}, "function": plain})
    registry.register_many([with_arguments])
    assert_type(registry.get("bare"), Tool | None)
    assert_type(registry.to_openai_schema(), list[dict[str, Any]])


class Minimal(BaseLLMClient):
    async def chat(
        self, messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None = None, **kwargs: Any
    ) -> LLMResponse:
        return LLMResponse("hi", [ToolCall("1", "bare", {"city": "Oslo"})], TokenUsage.zero(), None)


class Streaming(Minimal):
    async def chat_stream(
        self, messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None = None, **kwargs: Any
    ) -> AsyncIterator[Delta]:
        yield Delta(text="hi", finish_reason="stop")


class NoSubclass:
    async def chat(
        self, messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None = None, **kwargs: Any
    ) -> LLMResponse:
        return LLMResponse("hi")


def agents() -> None:
    Agent()
    Agent("gpt-4o-mini", "key", "http://127.0.0.1:1/v1", tools=[bare, plain], temperature=None, top_p=0.5)
    Agent(llm=NoSubclass(), limits=LoopLimits(max_turns=3), retry=RetryConfig(max_retries=0))
    agent = Agent(llm=Streaming(), tools=ToolRegistry(), thinking_level="low", prompts=prompts_for("zh"))
    token = CancelToken()
    result = agent.run("task", messages=[{"role": "user", "content": "hi"}], cancel_token=token)
    assert_type(result, AgentResult)
    assert_type(result.content, str)
    assert_type(result.usage, TokenUsage)
    assert_type(result.messages, list[dict[str, Any]])
    assert_type(result.state, QueryState)
    again: Agent = Agent(llm=OpenAIClient("m", api_key="k"))
    again.run("go on", result.messages)
    Agent(llm=Minimal(), mode="single", after_tools="And now?", system_prompt=react_prompt("You count."))
    explanation = agent.explain("task", messages=result.messages)
    assert_type(explanation, Explanation)
    assert_type(explanation.request, dict[str, Any])
    assert_type(explanation.permissions, dict[str, str])
    assert_type(explanation.to_dict(), dict[str, Any])
    assert_type(react_prompt(role="a", constraints=["b"], language=None), str)
    events: Iterator[AnyEvent] = agent.run_stream("task")
    for event in events:
        assert_type(event.content, str)
        assert_type(Renderer().render(event), str)


async def async_agents() -> None:
    async with Agent(llm=Minimal()) as agent:
        assert_type(await agent.arun("task"), AgentResult)
        stream: AsyncIterator[AnyEvent] = agent.arun_stream("task")
        async for event in stream:
            assert_type(event, AnyEvent)
        conversation = agent.conversation()
        assert_type(conversation, Conversation)
        assert_type(await conversation.send("hi", cancel_token=CancelToken(), inbox=Inbox()), AgentResult)
        assert_type(conversation.send_sync("hi"), AgentResult)
        async for event in conversation.send_stream("hi"):
            assert_type(event, AnyEvent)
        for event in conversation.send_stream_sync("hi"):
            assert_type(event, AnyEvent)
    client = AIClient("m", "key", tools=[bare], temperature=0)
    assert_type(client.chat("hi"), str)
    assert_type(await client.achat("hi"), str)
    assert_type(client.run("hi"), AgentResult)
    loop = ReactLoop(Minimal(), [bare], after_tools="And now?")
    assert_type(await loop.run("task"), str)
    async for event in loop.run("task"):
        assert_type(event, AnyEvent)


async def policies() -> None:
    checker = LimitChecker(LoopLimits())
    checker.add_tokens(5)
    assert_type(checker.check(), LimitResult)

    async def answer(x: int) -> str:
        return str(x)

    assert_type(await RetryHandler(RetryConfig()).execute(answer, 1), str)


renderer = Renderer()


@renderer.on_tool("bare")
def show_bare(event: Event) -> str:
    return event.content


@renderer.on_event(EventType.THOUGHT)
def show_thought(event: Event) -> str:
    return event.content


inner = Agent(model="gpt-4o-mini", name="inner")
outer: Agent = Agent(model="gpt-4o-mini", tools=[inner, bare])

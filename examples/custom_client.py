"""A model of your own: one method is enough, and every feature of the loop works with it."""

from typing import Any

from pure_agent_loop import Agent, BaseLLMClient, LLMResponse, TokenUsage, ToolCall


class RuleModel(BaseLLMClient):
    """No language model at all: it asks for the time once, then repeats what it was told."""

    async def chat(
        self, messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None = None, **kwargs: Any
    ) -> LLMResponse:
        last = messages[-1]
        usage = TokenUsage(prompt_tokens=len(messages), completion_tokens=1, total_tokens=len(messages) + 1)
        if last["role"] == "tool":
            return LLMResponse(f"It is {last['content']}.", [], usage, None)
        return LLMResponse(None, [ToolCall("call_1", "get_time", {"zone": "UTC"})], usage, None)


def get_time(zone: str) -> str:
    """Tell the time."""
    return f"12:00 {zone}"


result = Agent(llm=RuleModel(), tools=[get_time]).run("What time is it?")
print(result.content)

"""A model of your own: one method, and everything of the loop works with it."""

from typing import Any

from pure_agent_loop import Agent, BaseLLMClient, LLMResponse, TokenUsage, ToolCall


class RuleModel(BaseLLMClient):
    """Not a language model: it calls a tool once, then repeats what the tool returned."""

    async def chat(
        self, messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None = None, **kwargs: Any
    ) -> LLMResponse:
        last = messages[-1]
        usage = TokenUsage(prompt_tokens=10, completion_tokens=5, total_tokens=15)
        if last["role"] == "tool":
            return LLMResponse(f"It is {last['content']}.", [], usage, None)
        return LLMResponse(None, [ToolCall("call_1", "get_time", {"zone": "UTC"})], usage, None)


def get_time(zone: str) -> str:
    """Get the time in a zone."""
    return f"12:00 {zone}"


result = Agent(llm=RuleModel(), tools=[get_time]).run("What time is it?")
print(f"{result.content} ({result.steps} steps)")

# Output:
# It is 12:00 UTC. (2 steps)

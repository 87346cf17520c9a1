"""Client program over pure-agent-loop: each protocol by its own client."""

import asyncio
import json
import os

from pure_agent_loop import (
    Agent,
    AnthropicClient,
    BedrockClient,
    GeminiClient,
    LLMError,
    OpenAIClient,
    ResponsesClient,
    Tool,
    VertexClient,
)
from pure_agent_loop.llm.base import stream_of, thinks_in_text
from pure_agent_loop.llm.response import assembled

TASK, TIMEOUT = os.environ["CONFORMANCE_TASK"], float(os.environ["CONFORMANCE_TIMEOUT"])
TOOLS = json.loads(os.environ["CONFORMANCE_TOOLS"])
RESULTS = json.loads(os.environ["CONFORMANCE_RESULTS"] or "{}")
CLIENTS = {
    "chat": OpenAIClient,
    "messages": AnthropicClient,
    "responses": ResponsesClient,
    "gemini": GeminiClient,
    "bedrock": BedrockClient,
    "vertex": VertexClient,
}
MORE = {"bedrock": {"region": "us-east-1"}, "vertex": {"region": "us-east5", "project": "p"}}


async def pieces(stream):
    while True:
        try:
            yield await asyncio.wait_for(anext(stream), TIMEOUT)
        except StopAsyncIteration:
            return


async def ask_once(llm):
    messages = [{"role": "user", "content": TASK}]
    tools = [{"type": "function", "function": tool} for tool in TOOLS]
    stream = stream_of(llm, messages, tools, {"max_tokens": 500})
    response = await assembled(pieces(stream), splits_thinking=thinks_in_text(llm))
    calls = [
        {"id": call.id, "name": call.name, "arguments": None if call.invalid else call.arguments}
        for call in response.tool_calls
    ]
    used = response.usage
    usage = used and {
        "input": used.prompt_tokens,
        "output": used.completion_tokens,
        "estimated": used.estimated,
    }
    return {
        "text": response.content,
        "reasoning": response.reasoning_content,
        "calls": calls,
        "finish_reason": response.finish_reason,
        "usage": usage,
    }


def converse(llm):
    tools = [Tool(lambda name=tool["name"], **_: RESULTS[name], **tool) for tool in TOOLS]
    result = Agent(llm=llm, tools=tools, max_tokens=500).run(TASK)
    return {"text": result.content} if result.stop_reason == "completed" else {"error": "unknown"}


def main():
    protocol = os.environ["CONFORMANCE_PROTOCOL"]
    given = [os.environ[f"CONFORMANCE_{name}"] for name in ("MODEL", "API_KEY", "BASE_URL")]
    llm = CLIENTS[protocol](*given, **MORE.get(protocol, {}))
    try:
        result = converse(llm) if RESULTS else asyncio.run(ask_once(llm))
    except LLMError as error:
        result = {"error": error.kind}
    except (TimeoutError, asyncio.TimeoutError):
        result = {"error": "timeout"}
    print(json.dumps(result))


if __name__ == "__main__":
    main()

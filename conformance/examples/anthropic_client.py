"""Client program over the SDK of Anthropic: Messages."""

import json
import os

import anthropic

KINDS = {
    anthropic.AuthenticationError: "auth",
    anthropic.NotFoundError: "not_found",
    anthropic.RateLimitError: "rate_limit",
    anthropic.BadRequestError: "bad_request",
    anthropic.InternalServerError: "overloaded",
    anthropic.APITimeoutError: "timeout",
    anthropic.APIConnectionError: "connection",
}
STOPS = {"end_turn": "stop", "tool_use": "tool_calls", "max_tokens": "length", "refusal": "content_filter"}
TOOLS = [
    {"name": tool["name"], "description": tool["description"], "input_schema": tool["parameters"]}
    for tool in json.loads(os.environ["CONFORMANCE_TOOLS"])
]
RESULTS = json.loads(os.environ["CONFORMANCE_RESULTS"] or "{}")


def ask(client, messages):
    settings = {"model": os.environ["CONFORMANCE_MODEL"], "max_tokens": 500, "tools": TOOLS}
    with client.messages.stream(messages=messages, **settings) as stream:
        message = stream.get_final_message()
    if message.stop_reason is None:
        return {"error": "incomplete"}, message
    blocks = message.content
    return {
        "text": "".join(block.text for block in blocks if block.type == "text"),
        "reasoning": "".join(block.thinking for block in blocks if block.type == "thinking"),
        "calls": [
            {"id": block.id, "name": block.name, "arguments": block.input}
            for block in blocks
            if block.type == "tool_use"
        ],
        "finish_reason": STOPS.get(message.stop_reason, message.stop_reason),
        "usage": {"input": message.usage.input_tokens, "output": message.usage.output_tokens},
    }, message


def run(client):
    messages = [{"role": "user", "content": os.environ["CONFORMANCE_TASK"]}]
    while True:
        result, message = ask(client, messages)
        if not RESULTS or not result.get("calls"):
            return result
        results = [
            {"type": "tool_result", "tool_use_id": call["id"], "content": RESULTS[call["name"]]}
            for call in result["calls"]
        ]
        messages += [{"role": "assistant", "content": message.content}, {"role": "user", "content": results}]


try:
    url, key = os.environ["CONFORMANCE_BASE_URL"], os.environ["CONFORMANCE_API_KEY"]
    timeout = float(os.environ["CONFORMANCE_TIMEOUT"])
    print(json.dumps(run(anthropic.Anthropic(base_url=url, api_key=key, timeout=timeout, max_retries=0))))
except Exception as error:
    print(json.dumps({"error": KINDS.get(type(error), "unknown")}))

"""Client program over the SDK of OpenAI: chat completions."""

import json
import os

import openai
from openai_errors import KINDS

TOOLS = [{"type": "function", "function": tool} for tool in json.loads(os.environ["CONFORMANCE_TOOLS"])]
RESULTS = json.loads(os.environ["CONFORMANCE_RESULTS"] or "{}")


def ask(client, messages):
    text, calls, finish, usage = "", {}, None, None
    settings = {"model": os.environ["CONFORMANCE_MODEL"], "tools": TOOLS, "stream": True}
    for chunk in client.chat.completions.create(messages=messages, **settings):
        usage = chunk.usage or usage
        for choice in chunk.choices:
            text += choice.delta.content or ""
            finish = choice.finish_reason or finish
            for part in choice.delta.tool_calls or ():
                call = calls.setdefault(part.index, {"id": part.id, "name": part.function.name, "text": ""})
                call["text"] += part.function.arguments or ""
    if finish is None:
        return {"error": "incomplete"}, None
    message = {"role": "assistant", "content": text or None}
    if calls:
        message["tool_calls"] = [
            {"id": c["id"], "type": "function", "function": {"name": c["name"], "arguments": c["text"]}}
            for c in calls.values()
        ]
    made = [
        {"id": c["id"], "name": c["name"], "arguments": json.loads(c["text"] or "{}")} for c in calls.values()
    ]
    counts = usage and {"input": usage.prompt_tokens, "output": usage.completion_tokens}
    return {"text": text, "calls": made, "finish_reason": finish, "usage": counts}, message


def run(client):
    messages = [{"role": "user", "content": os.environ["CONFORMANCE_TASK"]}]
    while True:
        result, message = ask(client, messages)
        if not RESULTS or not result.get("calls"):
            return result
        messages.append(message)
        for call in result["calls"]:
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": RESULTS[call["name"]]})


try:
    url, key = os.environ["CONFORMANCE_BASE_URL"], os.environ["CONFORMANCE_API_KEY"]
    timeout = float(os.environ["CONFORMANCE_TIMEOUT"])
    print(json.dumps(run(openai.OpenAI(base_url=url, api_key=key, timeout=timeout, max_retries=0))))
except Exception as error:
    print(json.dumps({"error": KINDS.get(type(error), "unknown")}))

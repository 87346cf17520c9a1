"""Client program over the SDK of OpenAI: Responses."""

import json
import os

import openai
from openai_errors import KINDS

TOOLS = [
    {"type": "function", "strict": False, **tool} for tool in json.loads(os.environ["CONFORMANCE_TOOLS"])
]
RESULTS = json.loads(os.environ["CONFORMANCE_RESULTS"] or "{}")
SETTINGS = {
    "model": os.environ["CONFORMANCE_MODEL"],
    "tools": TOOLS,
    "stream": True,
    "store": False,
    "include": ["reasoning.encrypted_content"],
}


def ask(client, items):
    response = None
    for event in client.responses.create(input=items, **SETTINGS):
        if event.type in ("response.completed", "response.incomplete"):
            response = event.response
    if response is None:
        return {"error": "incomplete"}, []
    made = [
        {"id": item.call_id, "name": item.name, "arguments": json.loads(item.arguments or "{}")}
        for item in response.output
        if item.type == "function_call"
    ]
    finish = "length" if response.status == "incomplete" else "tool_calls" if made else "stop"
    usage = response.usage and {"input": response.usage.input_tokens, "output": response.usage.output_tokens}
    return {
        "text": response.output_text,
        "calls": made,
        "finish_reason": finish,
        "usage": usage,
    }, response.output


def run(client):
    items = [{"role": "user", "content": os.environ["CONFORMANCE_TASK"]}]
    while True:
        result, output = ask(client, items)
        if not RESULTS or not result.get("calls"):
            return result
        items += [item.model_dump(exclude_none=True) for item in output]
        for call in result["calls"]:
            output = RESULTS[call["name"]]
            items.append({"type": "function_call_output", "call_id": call["id"], "output": output})


try:
    url, key = os.environ["CONFORMANCE_BASE_URL"], os.environ["CONFORMANCE_API_KEY"]
    timeout = float(os.environ["CONFORMANCE_TIMEOUT"])
    print(json.dumps(run(openai.OpenAI(base_url=url, api_key=key, timeout=timeout, max_retries=0))))
except Exception as error:
    print(json.dumps({"error": KINDS.get(type(error), "unknown")}))

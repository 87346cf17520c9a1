"""Client program over the SDK of Google: the Gemini API."""

import json
import os

from google import genai
from google.genai import errors, types

CODES = {400: "bad_request", 401: "auth", 403: "auth", 404: "not_found", 429: "rate_limit"}
STOPS = {"STOP": "stop", "MAX_TOKENS": "length", "SAFETY": "content_filter"}
RESULTS = json.loads(os.environ["CONFORMANCE_RESULTS"] or "{}")
CONFIG = types.GenerateContentConfig(
    tools=[
        types.Tool(
            function_declarations=[
                types.FunctionDeclaration(
                    name=tool["name"],
                    description=tool["description"],
                    parameters_json_schema=tool["parameters"],
                )
                for tool in json.loads(os.environ["CONFORMANCE_TOOLS"])
            ]
        )
    ]
)


def ask(client, contents):
    parts, finish, usage = [], None, None
    settings = {"model": os.environ["CONFORMANCE_MODEL"], "config": CONFIG}
    for chunk in client.models.generate_content_stream(contents=contents, **settings):
        usage = chunk.usage_metadata or usage
        for candidate in chunk.candidates or ():
            parts += (candidate.content and candidate.content.parts) or []
            finish = candidate.finish_reason or finish
    if finish is None:
        return {"error": "incomplete"}, parts
    calls = [part.function_call for part in parts if part.function_call]
    made = [{"id": c.id or f"c{n}", "name": c.name, "arguments": c.args or {}} for n, c in enumerate(calls)]
    counts = usage and {"input": usage.prompt_token_count or 0, "output": usage.candidates_token_count or 0}
    return {
        "text": "".join(part.text or "" for part in parts if not part.thought),
        "reasoning": "".join(part.text or "" for part in parts if part.thought),
        "calls": made,
        "finish_reason": "tool_calls" if made else STOPS.get(finish.value, finish.value),
        "usage": counts,
    }, parts


def run(client):
    contents = [types.UserContent(os.environ["CONFORMANCE_TASK"])]
    while True:
        result, parts = ask(client, contents)
        if not RESULTS or not result.get("calls"):
            return result
        contents.append(types.ModelContent(parts))
        responses = [
            types.FunctionResponse(id=part.function_call.id, name=part.function_call.name, response={
                "result": RESULTS[part.function_call.name]
            })
            for part in parts
            if part.function_call
        ]  # fmt: skip
        contents.append(types.UserContent([types.Part(function_response=response) for response in responses]))


try:
    timeout = int(float(os.environ["CONFORMANCE_TIMEOUT"]) * 1000)
    options = types.HttpOptions(base_url=os.environ["CONFORMANCE_BASE_URL"], timeout=timeout)
    print(json.dumps(run(genai.Client(api_key=os.environ["CONFORMANCE_API_KEY"], http_options=options))))
except errors.APIError as error:
    print(json.dumps({"error": CODES.get(error.code, "overloaded")}))
except Exception as error:  # an exception of the installed HTTP client
    name = type(error).__name__
    print(
        json.dumps(
            {"error": "timeout" if "Timeout" in name else "connection" if "Error" in name else "unknown"}
        )
    )

"""OpenAI's chat completions protocol. Agents appear as models."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Sequence
from contextlib import aclosing
from typing import Annotated, Any, Literal

from pydantic import Field
from starlette.responses import JSONResponse, Response

from pure_agent_loop.llm.values import TokenUsage
from pure_agent_loop.server.api.models import INTEGER, ApiModel
from pure_agent_loop.server.api.operation import ApiRequest, Operation
from pure_agent_loop.server.foreign.history import (
    ChatMessage,
    Choice,
    OpenModel,
    apply_tool_choice,
    check_fields,
    parse_messages,
    unsupported_fields,
)
from pure_agent_loop.server.foreign.replies import Frames, StreamResponse, collect, join_text
from pure_agent_loop.server.foreign.run_request import FunctionAbout, RunRequest, outside_tool
from pure_agent_loop.server.foreign.turn import DONE, OutsideCall, RequestRun, agent_named
from pure_agent_loop.server.problems import not_found

# Unsupported fields of the protocol, each with its harmless values, which are accepted.
UNSUPPORTED: dict[str, tuple[Any, ...]] = {
    "audio": (),
    "function_call": (),
    "functions": ([],),
    "logprobs": (False,),
    "modalities": (["text"],),
    "moderation": (),
    "n": (1,),
    "prediction": (),
    "prompt_cache_options": (),
    "service_tier": ("auto", "default"),
    "store": (False,),
    "top_logprobs": (0,),
    "web_search_options": (),
}
FORWARDED = (
    "frequency_penalty", "logit_bias", "max_completion_tokens", "max_tokens", "metadata",
    "parallel_tool_calls", "presence_penalty", "prompt_cache_key", "prompt_cache_retention",
    "reasoning_effort", "response_format", "safety_identifier", "seed", "stop", "temperature",
    "top_p", "user", "verbosity",
)  # fmt: skip
Number = Annotated[float | None, Field(ge=-2, le=2)]
Tokens = Annotated[int | None, Field(ge=1), INTEGER]
STREAM = ("text/event-stream",)


class StreamOptions(OpenModel):
    """Stream options."""

    include_usage: bool | None = None


class ChatTool(OpenModel):
    """A tool from the caller."""

    type: Literal["function"]
    function: FunctionAbout


class OpenAIBody(OpenModel):
    """Request fields that both OpenAI protocols share."""

    model: str
    stream: bool | None = None
    tool_choice: Choice | None = None
    temperature: Annotated[float | None, Field(ge=0, le=2)] = None
    top_p: Annotated[float | None, Field(ge=0, le=1)] = None
    metadata: dict[str, str] | None = None
    parallel_tool_calls: bool | None = None
    prompt_cache_key: str | None = None
    prompt_cache_retention: str | None = None
    safety_identifier: str | None = None
    user: str | None = None


class ChatBody(OpenAIBody):
    """A request for a chat completion. Other fields of the protocol are rejected."""

    model_config = unsupported_fields(UNSUPPORTED)

    messages: Annotated[list[ChatMessage], Field(min_length=1)]
    stream_options: StreamOptions | None = None
    tools: list[ChatTool] | None = None
    frequency_penalty: Number = None
    presence_penalty: Number = None
    logit_bias: dict[str, float] | None = None
    max_completion_tokens: Tokens = None
    max_tokens: Tokens = None
    reasoning_effort: str | None = None
    response_format: dict[str, Any] | None = None
    seed: Annotated[int | None, INTEGER] = None
    stop: str | list[str] | None = None
    verbosity: str | None = None


class Model(ApiModel):
    """An agent in the form of a model."""

    id: str
    object: str = "model"
    created: int = 0
    owned_by: str = "pure-agent-loop"


class ModelList(ApiModel):
    """The agents in the form of a list of models."""

    object: str = "list"
    data: list[Model]


class ChatCompletion(ApiModel):
    """A chat completion."""

    id: str
    object: str
    created: int
    model: str
    choices: list[dict[str, Any]]
    usage: dict[str, Any]


async def _models(request: ApiRequest) -> ModelList:
    return ModelList(data=[Model(id=name) for name in request.service.hub.agents])


async def _model(request: ApiRequest) -> Model:
    if request.path["model"] not in request.service.hub.agents:
        raise not_found("model")
    return Model(id=request.path["model"])


async def _chat(request: ApiRequest) -> Response:
    body: ChatBody = request.body
    headers = check_fields(body, UNSUPPORTED)
    turn = RequestRun(request, _run_request(request, body))
    base = {"id": f"chatcmpl-{secrets.token_hex(12)}", "created": int(time.time()), "model": body.model}
    if body.stream:
        with_usage = body.stream_options is not None and bool(body.stream_options.include_usage)
        return StreamResponse(turn, _events(turn, base, with_usage=with_usage), headers)
    chunks = await collect(turn, request.http.receive)
    calls, thinking = _calls(turn.calls), join_text(chunks, "thinking")
    message: dict[str, Any] = {"role": "assistant", "content": join_text(chunks) or None, "refusal": None}
    message |= {"reasoning_content": thinking} if thinking.strip() else {}
    message |= {"tool_calls": calls} if calls else {}
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": turn.finish}
    completion = {**base, "object": "chat.completion", "choices": [choice], "usage": _usage(turn.usage)}
    return JSONResponse(completion, headers=headers)


def _run_request(request: ApiRequest, body: ChatBody) -> RunRequest:
    agent = agent_named(request, body.model)
    system, messages = parse_messages(body.messages)
    outside_tools = [outside_tool(tool.function) for tool in body.tools or ()]
    tools, fields = apply_tool_choice(body.tool_choice, outside_tools, list(agent.tools))
    for name in FORWARDED:
        if (value := getattr(body, name)) is not None:
            fields[name] = value
    return RunRequest(body.model, messages, system, tools, fields, {"user": body.user} if body.user else {})


async def _events(turn: RequestRun, base: dict[str, Any], *, with_usage: bool) -> Frames:
    def event(delta: dict[str, Any] | None, finish: str | None = None) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        usage = {"usage": None} if with_usage else {}
        return {**base, "object": "chat.completion.chunk", "choices": [choice], **usage}

    yield event({"role": "assistant", "content": ""})
    async with aclosing(turn.chunks()) as chunks:
        async for chunk in chunks:
            if chunk.kind == "thinking":
                yield event({"reasoning_content": chunk.text})
            elif chunk.kind in ("text", "break"):
                yield event({"content": chunk.text or "\n\n"})
    if turn.finish == "error":
        yield {"error": {"message": turn.error, "type": "server_error", "param": None, "code": None}}
    else:
        for index, call in enumerate(_calls(turn.calls)):
            yield event({"tool_calls": [{"index": index, **call}]})
        yield event({}, turn.finish)
        if with_usage:
            yield {**event(None), "choices": [], "usage": _usage(turn.usage)}
    yield DONE


def _calls(calls: Sequence[OutsideCall]) -> list[dict[str, Any]]:
    return [
        {
            "id": call.id,
            "type": "function",
            "function": {"name": call.tool, "arguments": json.dumps(call.args)},
        }
        for call in calls
    ]


def _usage(usage: TokenUsage) -> dict[str, Any]:
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens or 0},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens or 0},
    }


OPERATIONS = [
    Operation("GET", "/v1/models", "openai_models", "List agents as models.", _models, ModelList),
    Operation("GET", "/v1/models/{model}", "openai_model", "Get an agent as a model.", _model, Model,
              problems=(404,)),
    Operation("POST", "/v1/chat/completions", "openai_chat", "Create a chat completion.", _chat,
              ChatCompletion, body=ChatBody, media=STREAM, problems=(404, 503)),
]  # fmt: skip

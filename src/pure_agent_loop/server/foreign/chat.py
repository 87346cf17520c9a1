"""Chat completions: an agent looks like a model whose name is the agent's."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Sequence
from contextlib import aclosing
from typing import Annotated, Any, Literal

from pydantic import Field
from starlette.responses import Response

from pure_agent_loop.llm.values import TokenUsage
from pure_agent_loop.server.api.models import WHOLE, Answer
from pure_agent_loop.server.api.operation import Asked, Operation
from pure_agent_loop.server.foreign.answers import (
    DONE,
    Frames,
    StreamedAnswer,
    json_answer,
    text_in,
    whole,
)
from pure_agent_loop.server.foreign.history import (
    ChatMessage,
    Choice,
    Open,
    ToolName,
    check_fields,
    chosen,
    read_messages,
    refused_fields,
)
from pure_agent_loop.server.foreign.turn import OutsideCall, Turn, agent_named
from pure_agent_loop.server.foreign.wanted import Wanted, outside_tool
from pure_agent_loop.server.problems import not_found

# Fields of the protocol that cannot be done here, with the values that ask for nothing.
REFUSED: dict[str, tuple[Any, ...]] = {
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
PASSED = (
    "frequency_penalty", "logit_bias", "max_completion_tokens", "max_tokens", "metadata",
    "parallel_tool_calls", "presence_penalty", "prompt_cache_key", "prompt_cache_retention",
    "reasoning_effort", "response_format", "safety_identifier", "seed", "stop", "temperature",
    "top_p", "user", "verbosity",
)  # fmt: skip
Number = Annotated[float | None, Field(ge=-2, le=2)]
Tokens = Annotated[int | None, Field(ge=1), WHOLE]


class StreamOptions(Open):
    """What a stream says besides."""

    include_usage: bool | None = None


class FunctionAbout(Open):
    """A function of the caller."""

    name: ToolName
    description: str | None = None
    parameters: dict[str, Any] | None = None


class ChatTool(Open):
    """A tool of the caller."""

    type: Literal["function"]
    function: FunctionAbout


class Asking(Open):
    """What both protocols have."""

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


class ChatBody(Asking):
    """A request for a chat completion. A field that is not listed here is refused, if the protocol has it."""

    model_config = refused_fields(REFUSED)

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
    seed: Annotated[int | None, WHOLE] = None
    stop: str | list[str] | None = None
    verbosity: str | None = None


class Model(Answer):
    """An agent."""

    id: str
    object: str = "model"
    created: int = 0
    owned_by: str = "pure-agent-loop"


class ModelList(Answer):
    """The agents."""

    object: str = "list"
    data: list[Model]


class ChatCompletion(Answer):
    """An answer."""

    id: str
    object: str
    created: int
    model: str
    choices: list[dict[str, Any]]
    usage: dict[str, Any]


async def _models(asked: Asked) -> ModelList:
    return ModelList(data=[Model(id=name) for name in asked.service.hub.agents])


async def _model(asked: Asked) -> Model:
    if asked.path["model"] not in asked.service.hub.agents:
        raise not_found("model")
    return Model(id=asked.path["model"])


async def _chat(asked: Asked) -> Response:
    body: ChatBody = asked.body
    headers = check_fields(body, REFUSED)
    turn = Turn(asked, _wanted(asked, body))
    about = {"id": f"chatcmpl-{secrets.token_hex(12)}", "created": int(time.time()), "model": body.model}
    if body.stream:
        with_usage = body.stream_options is not None and bool(body.stream_options.include_usage)
        return StreamedAnswer(turn, _chunks(turn, about, with_usage=with_usage), headers)
    pieces = await whole(turn, asked.request.receive)
    calls, thinking = _calls(turn.calls), text_in(pieces, "thinking")
    message: dict[str, Any] = {"role": "assistant", "content": text_in(pieces) or None, "refusal": None}
    message |= {"reasoning_content": thinking} if thinking.strip() else {}
    message |= {"tool_calls": calls} if calls else {}
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": turn.finish}
    answer = {**about, "object": "chat.completion", "choices": [choice], "usage": _usage(turn.usage)}
    return json_answer(answer, headers)


def _wanted(asked: Asked, body: ChatBody) -> Wanted:
    agent = agent_named(asked, body.model)
    system, messages = read_messages(body.messages)
    given = [outside_tool(each.function) for each in body.tools or ()]
    tools, fields = chosen(body.tool_choice, given, list(agent.tools))
    for name in PASSED:
        if (value := getattr(body, name)) is not None:
            fields[name] = value
    return Wanted(body.model, messages, system, tools, fields, {"user": body.user} if body.user else {})


async def _chunks(turn: Turn, about: dict[str, Any], *, with_usage: bool) -> Frames:
    def chunk(delta: dict[str, Any] | None, finish: str | None = None) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        more = {"usage": None} if with_usage else {}
        return {**about, "object": "chat.completion.chunk", "choices": [choice], **more}

    yield chunk({"role": "assistant", "content": ""})
    async with aclosing(turn.pieces()) as pieces:
        async for piece in pieces:
            if piece.kind == "thinking":
                yield chunk({"reasoning_content": piece.text})
            elif piece.kind in ("text", "break"):
                yield chunk({"content": piece.text or "\n\n"})
    if turn.finish == "error":
        kind = {"message": turn.error, "type": "server_error", "param": None, "code": None}
        yield {"error": kind}
    else:
        for index, call in enumerate(_calls(turn.calls)):
            yield chunk({"tool_calls": [{"index": index, **call}]})
        yield chunk({}, turn.finish)
        if with_usage:
            yield {**chunk(None), "choices": [], "usage": _usage(turn.usage)}
    yield DONE


def _calls(calls: Sequence[OutsideCall]) -> list[dict[str, Any]]:
    return [
        {
            "id": each.id,
            "type": "function",
            "function": {"name": each.tool, "arguments": json.dumps(each.args)},
        }
        for each in calls
    ]


def _usage(usage: TokenUsage) -> dict[str, Any]:
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens or 0},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens or 0},
    }


STREAM = ("text/event-stream",)
OPERATIONS = [
    Operation("GET", "/v1/models", "openai_models", "The agents, as models.", _models, ModelList),
    Operation("GET", "/v1/models/{model}", "openai_model", "An agent, as a model.", _model, Model,
              problems=(404,)),
    Operation("POST", "/v1/chat/completions", "openai_chat", "A chat completion by an agent.", _chat,
              ChatCompletion, body=ChatBody, media=STREAM, problems=(404, 503)),
]  # fmt: skip

"""What a run may be given besides its task: written once, for every way to start one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, TypedDict

from pure_agent_loop.cancel import CancelToken
from pure_agent_loop.inbox import Inbox
from pure_agent_loop.kernel.state import QueryState
from pure_agent_loop.limits import LoopLimits
from pure_agent_loop.llm.base import ChatModel
from pure_agent_loop.media import MediaItem
from pure_agent_loop.tool import ToolLike, ToolRegistry, Toolset

Given = QueryState | Mapping[str, Any] | None  # where to go on, as a caller gives it
PromptPart = str | Callable[..., str | Awaitable[str]]
SystemPrompt = PromptPart | Sequence[PromptPart]


class RequestFields(TypedDict, total=False):
    """Fields of every request besides ``temperature``, as the chat-completions protocol has them."""

    audio: Mapping[str, Any] | None
    frequency_penalty: float | None
    logit_bias: Mapping[str, int] | None
    logprobs: bool | None
    max_completion_tokens: int | None
    max_tokens: int | None
    metadata: Mapping[str, str] | None
    modalities: Sequence[str] | None
    moderation: Any
    parallel_tool_calls: bool | None
    prediction: Mapping[str, Any] | None
    presence_penalty: float | None
    prompt_cache_key: str | None
    prompt_cache_options: Any
    prompt_cache_retention: str | None
    reasoning_effort: str | None
    response_format: Mapping[str, Any] | None
    safety_identifier: str | None
    seed: int | None
    service_tier: str | None
    stop: str | Sequence[str] | None
    store: bool | None
    stream: bool | None
    stream_options: Mapping[str, Any] | None
    tool_choice: Literal["none", "auto", "required"] | Mapping[str, Any] | None
    top_logprobs: int | None
    top_p: float | None
    user: str | None
    verbosity: str | None
    web_search_options: Mapping[str, Any] | None
    extra_body: Mapping[str, Any] | None
    extra_headers: Mapping[str, str] | None
    extra_query: Mapping[str, Any] | None
    timeout: Any


class ModelSettings(RequestFields, total=False):
    """Fields of every request of a run: ``run(task, model_settings={"top_p": 0.2})``. None leaves one out."""

    temperature: float | None


class RunSettings(TypedDict, total=False):
    """What one run may have otherwise than its agent; `Agent.run` says what each does."""

    model: str | ChatModel | None
    limits: LoopLimits | None
    temperature: float | None
    tools: Iterable[ToolLike | Toolset] | ToolRegistry | None
    system_prompt: SystemPrompt | None
    model_settings: ModelSettings | None
    metadata: Mapping[str, Any] | None


class SendOptions(RunSettings, total=False):
    """Options of one message of a conversation; `Agent.prepare` says what each does."""

    cancel_token: CancelToken | None
    inbox: Inbox | None
    media: Iterable[MediaItem] | None


class RunOptions(SendOptions, total=False):
    """Options of a run of an agent; `Agent.prepare` says what each does."""

    state: Given
    session_id: str | None

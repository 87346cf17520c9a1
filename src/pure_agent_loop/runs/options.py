"""Types for run options, shared by every way to start a run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, TypedDict

from pure_agent_loop.cancel import CancelToken
from pure_agent_loop.inbox import Inbox
from pure_agent_loop.kernel.journal import Journal
from pure_agent_loop.kernel.state import QueryState
from pure_agent_loop.limits import LoopLimits
from pure_agent_loop.llm.base import ChatModel
from pure_agent_loop.media import MediaItem
from pure_agent_loop.tool import ToolLike, ToolRegistry, Toolset

Given = QueryState | Mapping[str, Any] | None  # a state to resume, as an object or in its plain form
TextFunction = Callable[..., str | Awaitable[str]]
PromptPart = str | TextFunction
SystemPrompt = PromptPart | Sequence[PromptPart]


class RequestFields(TypedDict, total=False):
    """Fields for every request in the chat-completions protocol, except ``temperature``."""

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
    """Fields for every request of a run: ``run(task, model_settings={"top_p": 0.2})``. None omits a field."""

    temperature: float | None


class RunSettings(TypedDict, total=False):
    """Settings of one run that replace the agent's; see `Agent.run`."""

    model: str | Sequence[str] | ChatModel | None
    limits: LoopLimits | None
    temperature: float | None
    tools: Iterable[ToolLike | Toolset] | ToolRegistry | None
    system_prompt: SystemPrompt | None
    facts: TextFunction | None
    model_settings: ModelSettings | None
    metadata: Mapping[str, Any] | None


class SendOptions(RunSettings, total=False):
    """Options for one message in a conversation; see `Agent.prepare`."""

    cancel_token: CancelToken | None
    inbox: Inbox | None
    media: Iterable[MediaItem] | None


class RunOptions(SendOptions, total=False):
    """Options of an agent run; see `Agent.prepare`."""

    state: Given
    session_id: str | None
    journal: Journal | None


# All options of `Agent.run` except the task, for code that forwards or rejects them by name.
RUN_OPTIONS = ("messages", "deps", "output_type", *RunOptions.__annotations__)

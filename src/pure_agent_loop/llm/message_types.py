"""Types of messages in the chat-completions shape, with their parts, calls and tools.

A caller's message is a `Message` of `llm.values`: any dict. `repair_history` makes a `HistoryMessage` of it,
whose ``role`` decides its fields. At run time both are plain dicts, so import this module for type checkers
only: the classes take half a millisecond to create.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias, TypedDict

from pure_agent_loop.llm.values import JsonObject


class TextPart(TypedDict):
    """Text."""

    type: Literal["text"]
    text: str


class RefusalPart(TypedDict):
    """A refusal by the model, in words."""

    type: Literal["refusal"]
    refusal: str


class ImageAddress(TypedDict, total=False):
    """A URL, or a ``data:`` URL with the image."""

    url: str
    detail: str


class ImagePart(TypedDict):
    """An image."""

    type: Literal["image_url"]
    image_url: ImageAddress


class FileContent(TypedDict, total=False):
    """A ``data:`` URL with the file, or the id of a file that the server has."""

    file_data: str
    file_id: str
    filename: str


class FilePart(TypedDict):
    """A file such as a PDF."""

    type: Literal["file"]
    file: FileContent


class AudioContent(TypedDict):
    """Sound in base64."""

    data: str
    format: str


class AudioPart(TypedDict):
    """A sound."""

    type: Literal["input_audio"]
    input_audio: AudioContent


ContentPart: TypeAlias = TextPart | RefusalPart | ImagePart | FilePart | AudioPart
Content: TypeAlias = str | list[ContentPart]


class CalledFunction(TypedDict):
    """The function of a call; `arguments` is JSON text."""

    name: str
    arguments: str


class WireCall(TypedDict):
    """A tool call. It may have more fields, added by the server it came from."""

    id: str
    type: Literal["function"]
    function: CalledFunction


class MessageMeta(TypedDict, total=False):
    """Facts about a message that are not sent to any server.

    Args:
        synthetic: Neither a person nor a model wrote the message.
        facts: The message holds facts about the run; see `Kit.facts`.
        reasoning: The model's reasoning.
        origin: The server and model that added fields to the message and its calls; see `origin_of`.
        failed: The message is the result of a failed call.
        model: A model wrote this user message: the task of a subagent.
        before: Texts removed just before this message, each with its author; see `kernel.origins`.
    """

    synthetic: bool
    facts: bool
    reasoning: str
    origin: str
    failed: bool
    model: bool
    before: list[dict[str, Any]]


class _MessageFields(TypedDict, total=False):
    meta: MessageMeta
    name: str


class SystemMessage(_MessageFields):
    """Instructions."""

    role: Literal["system", "developer"]
    content: Content


class UserMessage(_MessageFields):
    """A message from a person, or a notice in that role."""

    role: Literal["user"]
    content: Content


class ToolMessage(_MessageFields):
    """The result of a call."""

    role: Literal["tool"]
    tool_call_id: str
    content: Content


class ToolRecord(TypedDict):
    """Tools that were new in the request for a response; `is_first`: they precede all messages."""

    is_first: bool
    tools: list[JsonObject]


class OriginFields(TypedDict, total=False):
    """Fields that a server added to a response; they are sent back only to this server."""

    content_blocks: list[JsonObject]  # Messages API: all blocks of the response
    server_handles: dict[str, str]  # Messages API: ids of objects on the server
    blocks_after: str
    tools_at_start: list[JsonObject]
    tool_changes: list[JsonObject]
    gemini_parts: list[JsonObject]  # Gemini API: all parts of the response
    response_items: list[JsonObject]  # Responses API: all items of the response
    response_id: str
    response_digest: str
    response_tools: ToolRecord


class _ResponseFields(OriginFields, total=False):
    content: Content | None
    tool_calls: list[WireCall]


class AssistantMessage(_MessageFields, _ResponseFields):
    """A model's response."""

    role: Literal["assistant"]


HistoryMessage: TypeAlias = SystemMessage | UserMessage | AssistantMessage | ToolMessage

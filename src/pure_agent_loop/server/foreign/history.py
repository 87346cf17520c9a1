"""Validation of requests in other protocols. Unknown fields are rejected or reported in a header."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from pure_agent_loop.errors import PureAgentLoopError
from pure_agent_loop.llm.messages import Message
from pure_agent_loop.media import media_parts
from pure_agent_loop.server.api.operation import validated
from pure_agent_loop.server.problems import HttpProblem
from pure_agent_loop.support.text import safe_str
from pure_agent_loop.tool import Tool

IGNORED = "x-ignored-fields"
# Model configuration for parts of a request whose unknown fields must be null.
ONLY_NULLS = ConfigDict(json_schema_extra={"additionalProperties": {"type": "null"}})


class OpenModel(BaseModel):
    """A model that accepts unknown fields. A response header lists the unknown fields."""

    model_config = ConfigDict(extra="allow", strict=True)


def unsupported_fields(unsupported: Mapping[str, Collection[Any]]) -> ConfigDict:
    """Return a configuration that adds unsupported fields, with their harmless values, to a schema."""
    schemas = {name: {"enum": [None, *harmless]} for name, harmless in unsupported.items()}
    return ConfigDict(json_schema_extra=lambda schema: schema["properties"].update(schemas))


def _is_data(url: str) -> str:
    if not url.lower().startswith("data:"):
        raise ValueError("send images as data: URLs; other URLs are not fetched")
    return url


# The server must not fetch URLs on behalf of clients.
DataUrl = Annotated[str, AfterValidator(_is_data), Field(json_schema_extra={"pattern": "^[dD][aA][tT][aA]:"})]
ToolName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")]


class TextPartBody(OpenModel):
    """Text."""

    type: Literal["text"]
    text: str


class RefusalPartBody(OpenModel):
    """A model's refusal to answer."""

    type: Literal["refusal"]
    refusal: str


class ImageUrl(OpenModel):
    """An image's data URL."""

    url: DataUrl


class ImagePartBody(OpenModel):
    """An image part."""

    type: Literal["image_url"]
    image_url: ImageUrl


class FileData(OpenModel):
    """A PDF's data."""

    file_data: str
    filename: str | None = None


class FilePartBody(OpenModel):
    """A PDF part."""

    type: Literal["file"]
    file: FileData


class AudioData(OpenModel):
    """Base64 audio data."""

    data: str
    format: str


class AudioPartBody(OpenModel):
    """An audio part."""

    type: Literal["input_audio"]
    input_audio: AudioData


class Function(OpenModel):
    """The called function; `arguments` is JSON text."""

    name: str
    arguments: str


class ChatCall(OpenModel):
    """A tool call."""

    id: str
    type: Literal["function"] = "function"
    function: Function


class SystemMessageBody(OpenModel):
    """Instructions from the caller."""

    role: Literal["system", "developer"]
    content: str | list[TextPartBody]


_UserPart = Annotated[
    TextPartBody | ImagePartBody | FilePartBody | AudioPartBody, Field(discriminator="type")
]


class UserMessageBody(OpenModel):
    """A message from the user."""

    role: Literal["user"]
    content: str | list[_UserPart]


class AssistantMessageBody(OpenModel):
    """A message from the model."""

    role: Literal["assistant"]
    content: str | list[Annotated[TextPartBody | RefusalPartBody, Field(discriminator="type")]] | None = None
    tool_calls: list[ChatCall] | None = None


class ToolMessageBody(OpenModel):
    """The result of a call."""

    role: Literal["tool"]
    tool_call_id: Annotated[str, Field(min_length=1)]
    content: str | list[TextPartBody]


ChatMessage = Annotated[
    SystemMessageBody | UserMessageBody | AssistantMessageBody | ToolMessageBody, Field(discriminator="role")
]


class _Messages(BaseModel):
    """A list of messages, possibly converted from another protocol."""

    messages: list[ChatMessage]


def check_fields(body: OpenModel, unsupported: Mapping[str, Collection[Any]]) -> dict[str, str]:
    """Reject unsupported fields of the protocol.

    Args:
        unsupported: The unsupported fields, with their harmless values.

    Returns:
        A header that lists unknown fields; empty if there are none.

    Raises:
        HttpProblem: An unsupported field has a value that is not harmless.
    """
    extra = body.model_extra or {}
    for name, harmless in unsupported.items():
        value = extra.get(name)
        if value is not None and not any(value == ok and type(value) is type(ok) for ok in harmless):
            raise HttpProblem(
                400,
                f"{name} is not supported. Remove it.",
                param=name,
                code="unsupported_parameter",
            )
    unknown = [name for name in extra if name not in unsupported]
    listed = ",".join(name for name in unknown if name.isascii() and name.isidentifier())
    return {IGNORED: listed[:1_000] or "?"} if unknown else {}


def reject_extra(extra: Mapping[str, Any] | None, field: str) -> None:
    """Reject unknown fields in a part of a request, unless they are null.

    Raises:
        HttpProblem: An unknown field has a value.
    """
    for name, value in (extra or {}).items():
        if value is not None:
            raise HttpProblem(400, f"{field}.{name} is not supported. Remove it.", param=field)


def parse_messages(messages: Sequence[ChatMessage | Mapping[str, Any]]) -> tuple[str, list[Message]]:
    """Return the joined system messages, and the other messages in the kernel's format.

    Raises:
        HttpProblem: A message is invalid.
    """
    system: list[str] = []
    others: list[Message] = []
    for number, chat_message in enumerate(validated(_Messages, {"messages": messages}, 400).messages):
        if isinstance(chat_message, SystemMessageBody):
            system.append(plain_text(chat_message.content))
            continue
        content = _content(chat_message, f"messages[{number}]")
        message: Message = {"role": chat_message.role, "content": content}
        if isinstance(chat_message, ToolMessageBody):
            message["tool_call_id"] = chat_message.tool_call_id
        if isinstance(chat_message, AssistantMessageBody) and chat_message.tool_calls:
            message["tool_calls"] = [_call(call) for call in chat_message.tool_calls]
        others.append(message)
    return "\n\n".join(filter(None, system)), others


def plain_text(content: str | list[Any] | None) -> str:
    """Return the text of a message's content."""
    if isinstance(content, str):
        return content
    return "".join(part.refusal if part.type == "refusal" else part.text for part in content or ())


def _content(
    message: UserMessageBody | AssistantMessageBody | ToolMessageBody, field: str
) -> str | list[dict[str, Any]]:
    content = message.content
    if not isinstance(content, list) or all(
        isinstance(part, TextPartBody | RefusalPartBody) for part in content
    ):
        return plain_text(content)
    try:
        return [
            kernel_part
            for part in content
            for kernel_part in (
                [{"type": "text", "text": part.text}]
                if isinstance(part, TextPartBody)
                else media_parts([part.model_dump(exclude_none=True)])
            )
        ]
    except PureAgentLoopError as error:
        raise HttpProblem(400, f"{field}: {safe_str(error)}", param="messages") from error


def _call(call: ChatCall) -> dict[str, Any]:
    function = {"name": call.function.name, "arguments": call.function.arguments}
    return {"id": call.id, "type": "function", "function": function}


class ToolChoice(OpenModel):
    """The tool that the model must call, in the format of either OpenAI protocol."""

    type: Literal["function"]
    name: str | None = None
    function: Annotated[dict[str, Any], Field(json_schema_extra={"required": ["name"]})] | None = None


Choice = Literal["none", "auto", "required"] | ToolChoice


def apply_tool_choice(
    choice: Choice | None, tools: list[Tool], own: Collection[Any]
) -> tuple[list[Tool], dict[str, Any]]:
    """Return the caller's tools to expose, and the request fields for `choice`.

    Args:
        choice: ``none``, ``auto``, ``required`` or a function.
        tools: The caller's tools.

    Raises:
        HttpProblem: The agent cannot satisfy the choice.
    """
    if choice is None or choice == "auto":
        return tools, {}
    if choice == "none":  # 'none' applies only to the caller's tools
        return [], {}
    if choice == "required":
        if own or not tools:
            raise HttpProblem(
                400,
                "tool_choice: 'required' needs tools in the request and an agent that has no tools.",
                param="tool_choice",
                code="unsupported_parameter",
            )
        return tools, {"tool_choice": "required"}
    name = choice.name or (choice.function or {}).get("name")
    if not any(tool.name == name for tool in tools):
        raise HttpProblem(400, "tool_choice: not a tool in the request.", param="tool_choice")
    return tools, {"tool_choice": {"type": "function", "function": {"name": name}}}

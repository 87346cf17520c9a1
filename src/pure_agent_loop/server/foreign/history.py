"""What callers say, read: fields that are not known here are never passed over in silence."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from pure_agent_loop.errors import PureAgentLoopError
from pure_agent_loop.llm.messages import Message
from pure_agent_loop.media import media_parts
from pure_agent_loop.server.api.operation import checked
from pure_agent_loop.server.problems import Problem
from pure_agent_loop.support.text import safe_str
from pure_agent_loop.tool import Tool

IGNORED = "x-ignored-fields"


class Open(BaseModel):
    """What clients of others send. What no protocol has is named in a header of the answer."""

    model_config = ConfigDict(extra="allow", strict=True)


def refused_fields(refused: Mapping[str, Collection[Any]]) -> ConfigDict:
    """The document says which values of fields that cannot be done are taken: those that ask for nothing."""
    about = {name: {"enum": [None, *harmless]} for name, harmless in refused.items()}
    return ConfigDict(json_schema_extra=lambda schema: schema["properties"].update(about))


# Parts of a request whose further fields are refused as soon as they say something.
ONLY_NULLS = ConfigDict(json_schema_extra={"additionalProperties": {"type": "null"}})


def _is_data(url: str) -> str:
    if not url.lower().startswith("data:"):
        raise ValueError("send images as data: URLs; addresses are not fetched")
    return url


# An address would be fetched with the rights of a server.
DataUrl = Annotated[str, AfterValidator(_is_data), Field(json_schema_extra={"pattern": "^[dD][aA][tT][aA]:"})]
ToolName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")]


class TextPart(Open):
    """Text."""

    type: Literal["text"]
    text: str


class RefusalPart(Open):
    """What a model said instead of an answer."""

    type: Literal["refusal"]
    refusal: str


class ImageUrl(Open):
    """An image."""

    url: DataUrl


class ImagePart(Open):
    """An image."""

    type: Literal["image_url"]
    image_url: ImageUrl


class FileData(Open):
    """A PDF."""

    file_data: str
    filename: str | None = None


class FilePart(Open):
    """A PDF."""

    type: Literal["file"]
    file: FileData


class AudioData(Open):
    """A sound, in base64."""

    data: str
    format: str


class AudioPart(Open):
    """A sound."""

    type: Literal["input_audio"]
    input_audio: AudioData


class Function(Open):
    """What is called; its arguments are JSON."""

    name: str
    arguments: str


class ChatCall(Open):
    """A call of a tool."""

    id: str
    type: Literal["function"] = "function"
    function: Function


class SystemMessage(Open):
    """What the caller says to the model."""

    role: Literal["system", "developer"]
    content: str | list[TextPart]


_UserPart = Annotated[TextPart | ImagePart | FilePart | AudioPart, Field(discriminator="type")]


class UserMessage(Open):
    """A message of the user."""

    role: Literal["user"]
    content: str | list[_UserPart]


class AssistantMessage(Open):
    """What the model said."""

    role: Literal["assistant"]
    content: str | list[Annotated[TextPart | RefusalPart, Field(discriminator="type")]] | None = None
    tool_calls: list[ChatCall] | None = None


class ToolMessage(Open):
    """The result of a call."""

    role: Literal["tool"]
    tool_call_id: Annotated[str, Field(min_length=1)]
    content: str | list[TextPart]


ChatMessage = Annotated[
    SystemMessage | UserMessage | AssistantMessage | ToolMessage, Field(discriminator="role")
]


class _Messages(BaseModel):
    """Messages, also those that were put together from another protocol."""

    messages: list[ChatMessage]


def check_fields(body: Open, refused: Mapping[str, Collection[Any]]) -> dict[str, str]:
    """Refuse what the protocol has and this server cannot do.

    Args:
        body: The request.
        refused: The fields that cannot be done, with the values that ask for nothing.

    Returns:
        A header that names the fields which no protocol has; empty for none.

    Raises:
        Problem: One of them was asked for.
    """
    extra = body.model_extra or {}
    for name, harmless in refused.items():
        value = extra.get(name)
        if value is not None and not any(value == each and type(value) is type(each) for each in harmless):
            raise Problem(
                400,
                f"{name} is not supported here. Leave it out.",
                param=name,
                code="unsupported_parameter",
            )
    strange = [name for name in extra if name not in refused]
    shown = ",".join(name for name in strange if name.isascii() and name.isidentifier())
    return {IGNORED: shown[:1_000] or "?"} if strange else {}


def refuse(extra: Mapping[str, Any] | None, place: str) -> None:
    """Refuse fields that are not known in a part of a request.

    Raises:
        Problem: One says something.
    """
    for name, value in (extra or {}).items():
        if value is not None:
            raise Problem(400, f"{place}.{name} is not supported here. Leave it out.", param=place)


def read_messages(given: Sequence[ChatMessage | Mapping[str, Any]]) -> tuple[str, list[Message]]:
    """Messages, those of the system apart: they all are said before the others.

    Raises:
        Problem: One cannot be taken.
    """
    system: list[str] = []
    found: list[Message] = []
    for number, each in enumerate(checked(_Messages, {"messages": given}, 400).messages):
        if isinstance(each, SystemMessage):
            system.append(plain_text(each.content))
            continue
        message: Message = {"role": each.role, "content": _content(each, f"messages[{number}]")}
        if isinstance(each, ToolMessage):
            message["tool_call_id"] = each.tool_call_id
        if isinstance(each, AssistantMessage) and each.tool_calls:
            message["tool_calls"] = [_call(call) for call in each.tool_calls]
        found.append(message)
    return "\n\n".join(filter(None, system)), found


def plain_text(content: str | list[Any] | None) -> str:
    """The text of a content."""
    if isinstance(content, str):
        return content
    return "".join(each.refusal if each.type == "refusal" else each.text for each in content or ())


def _content(message: UserMessage | AssistantMessage | ToolMessage, place: str) -> str | list[dict[str, Any]]:
    content = message.content
    if not isinstance(content, list) or all(isinstance(each, TextPart | RefusalPart) for each in content):
        return plain_text(content)
    try:
        return [
            part
            for each in content
            for part in (
                [{"type": "text", "text": each.text}]
                if isinstance(each, TextPart)
                else media_parts([each.model_dump(exclude_none=True)])
            )
        ]
    except PureAgentLoopError as error:
        raise Problem(400, f"{place}: {safe_str(error)}", param="messages") from error


def _call(given: ChatCall) -> dict[str, Any]:
    function = {"name": given.function.name, "arguments": given.function.arguments}
    return {"id": given.id, "type": "function", "function": function}


class ToolChoice(Open):
    """One tool of the request, as both protocols of OpenAI name it."""

    type: Literal["function"]
    name: str | None = None
    function: Annotated[dict[str, Any], Field(json_schema_extra={"required": ["name"]})] | None = None


Choice = Literal["none", "auto", "required"] | ToolChoice


def chosen(
    choice: Choice | None, tools: list[Tool], own: Collection[Any]
) -> tuple[list[Tool], dict[str, Any]]:
    """The tools to offer, and what the model is told of choosing among them.

    Args:
        choice: ``none``, ``auto``, ``required`` or a function, as the protocols have it.
        tools: The caller's tools.
        own: The agent's tools, which work here.

    Raises:
        Problem: It cannot be had.
    """
    if choice is None or choice == "auto":
        return tools, {}
    if choice == "none":  # said of the tools that the caller knows of
        return [], {}
    if choice == "required":
        if own or not tools:
            raise Problem(
                400,
                "tool_choice: 'required' needs tools in the request, and an agent without tools of its own.",
                param="tool_choice",
                code="unsupported_parameter",
            )
        return tools, {"tool_choice": "required"}
    name = choice.name or (choice.function or {}).get("name")
    if not any(each.name == name for each in tools):
        raise Problem(400, "tool_choice names no tool of the request.", param="tool_choice")
    return tools, {"tool_choice": {"type": "function", "function": {"name": name}}}

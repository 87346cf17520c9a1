"""Input items of the responses protocol, and their conversion to messages."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag

from pure_agent_loop.llm.messages import Message
from pure_agent_loop.server.foreign.history import (
    DataUrl,
    OpenModel,
    RefusalPartBody,
)

_ITEMS = {"function_call": "call", "function_call_output": "result", "reasoning": "reasoning"}


class InputText(OpenModel):
    """Text."""

    type: Literal["input_text", "output_text"]
    text: str


class InputImage(OpenModel):
    """An image."""

    type: Literal["input_image"]
    image_url: DataUrl


class InputFile(OpenModel):
    """A PDF."""

    type: Literal["input_file"]
    file_data: str
    filename: str | None = None


_TextContent = Annotated[InputText | RefusalPartBody, Field(discriminator="type")]


_UserContent = Annotated[InputText | RefusalPartBody | InputImage | InputFile, Field(discriminator="type")]


class UserItem(OpenModel):
    """A user message in the input."""

    type: Literal["message"] = "message"
    role: Literal["user"]
    content: str | list[_UserContent]


class MessageItem(OpenModel):
    """A message from the system or the assistant."""

    type: Literal["message"] = "message"
    role: Literal["system", "developer", "assistant"]
    content: str | list[_TextContent]


class CallItem(OpenModel):
    """A tool call."""

    type: Literal["function_call"]
    call_id: str
    name: str
    arguments: str


class ResultItem(OpenModel):
    """The result of a call."""

    type: Literal["function_call_output"]
    call_id: Annotated[str, Field(min_length=1)]
    output: str | list[_TextContent]


class ReasoningItem(OpenModel):
    """A model's reasoning; ignored."""

    type: Literal["reasoning"]


def _kind_of(item: Any) -> str:
    fields: dict[str, Any] = item if isinstance(item, dict) else {}
    kind = str(fields.get("type", "message"))
    return _ITEMS.get(kind, kind) if kind != "message" else "user" if fields.get("role") == "user" else kind


Item = Annotated[
    Annotated[UserItem, Tag("user")]
    | Annotated[MessageItem, Tag("message")]
    | Annotated[CallItem, Tag("call")]
    | Annotated[ResultItem, Tag("result")]
    | Annotated[ReasoningItem, Tag("reasoning")],
    Discriminator(
        _kind_of, custom_error_type="item", custom_error_message="items of this type are not supported"
    ),
]


def messages_of(items: str | list[Item]) -> list[Message]:
    """Convert items to messages. Consecutive calls become one message."""
    if isinstance(items, str):
        return [{"role": "user", "content": items}]
    messages: list[Message] = []
    for item in items:
        if isinstance(item, CallItem):
            if not messages or messages[-1]["role"] != "assistant":
                messages.append({"role": "assistant"})
            function = {"name": item.name, "arguments": item.arguments}
            messages[-1].setdefault("tool_calls", []).append({"id": item.call_id, "function": function})
        elif isinstance(item, ResultItem):
            messages.append({"role": "tool", "tool_call_id": item.call_id, "content": _content(item.output)})
        elif isinstance(item, UserItem | MessageItem):
            messages.append({"role": item.role, "content": _content(item.content)})
    return messages


def _content(content: str | list[Any]) -> str | list[dict[str, Any]]:
    return content if isinstance(content, str) else [_part(part) for part in content]


def _part(part: InputText | RefusalPartBody | InputImage | InputFile) -> dict[str, Any]:
    if isinstance(part, RefusalPartBody):
        return {"type": "text", "text": part.refusal}
    if isinstance(part, InputImage):
        return {"type": "image_url", "image_url": {"url": part.image_url}}
    if isinstance(part, InputFile):
        return {"type": "file", "file": {"file_data": part.file_data, "filename": part.filename}}
    return {"type": "text", "text": part.text}

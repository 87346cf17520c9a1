"""The items of a request for a response: their types, and what they are as messages."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag

from pure_agent_loop.llm.messages import Message
from pure_agent_loop.server.foreign.history import DataUrl, Open, RefusalPart


class InputText(Open):
    """Text."""

    type: Literal["input_text", "output_text"]
    text: str


class InputImage(Open):
    """An image."""

    type: Literal["input_image"]
    image_url: DataUrl


class InputFile(Open):
    """A PDF."""

    type: Literal["input_file"]
    file_data: str
    filename: str | None = None


_Said = Annotated[InputText | RefusalPart, Field(discriminator="type")]
_Asked = Annotated[InputText | RefusalPart | InputImage | InputFile, Field(discriminator="type")]


class UserItem(Open):
    """A message of the user."""

    type: Literal["message"] = "message"
    role: Literal["user"]
    content: str | list[_Asked]


class MessageItem(Open):
    """Another message."""

    type: Literal["message"] = "message"
    role: Literal["system", "developer", "assistant"]
    content: str | list[_Said]


class CallItem(Open):
    """A call of a tool."""

    type: Literal["function_call"]
    call_id: str
    name: str
    arguments: str


class ResultItem(Open):
    """The result of a call."""

    type: Literal["function_call_output"]
    call_id: Annotated[str, Field(min_length=1)]
    output: str | list[_Said]


class ReasoningItem(Open):
    """What a model thought; models think of it anew."""

    type: Literal["reasoning"]


_ITEMS = {"function_call": "call", "function_call_output": "result", "reasoning": "reasoning"}


def _kind_of(item: Any) -> str:
    about: dict[str, Any] = item if isinstance(item, dict) else {}
    kind = str(about.get("type", "message"))
    return _ITEMS.get(kind, kind) if kind != "message" else "user" if about.get("role") == "user" else kind


Item = Annotated[
    Annotated[UserItem, Tag("user")]
    | Annotated[MessageItem, Tag("message")]
    | Annotated[CallItem, Tag("call")]
    | Annotated[ResultItem, Tag("result")]
    | Annotated[ReasoningItem, Tag("reasoning")],
    Discriminator(
        _kind_of, custom_error_type="item", custom_error_message="no item of this type is supported"
    ),
]


def messages_of(given: str | list[Item]) -> list[Message]:
    """Items as messages: calls that stand together are one message."""
    if isinstance(given, str):
        return [{"role": "user", "content": given}]
    found: list[Message] = []
    for item in given:
        if isinstance(item, CallItem):
            if not found or found[-1]["role"] != "assistant":
                found.append({"role": "assistant"})
            function = {"name": item.name, "arguments": item.arguments}
            found[-1].setdefault("tool_calls", []).append({"id": item.call_id, "function": function})
        elif isinstance(item, ResultItem):
            found.append({"role": "tool", "tool_call_id": item.call_id, "content": _plain(item.output)})
        elif isinstance(item, UserItem | MessageItem):
            found.append({"role": item.role, "content": _plain(item.content)})
    return found


def _plain(given: str | list[Any]) -> str | list[dict[str, Any]]:
    return given if isinstance(given, str) else [_part(each) for each in given]


def _part(given: InputText | RefusalPart | InputImage | InputFile) -> dict[str, Any]:
    if isinstance(given, RefusalPart):
        return {"type": "text", "text": given.refusal}
    if isinstance(given, InputImage):
        return {"type": "image_url", "image_url": {"url": given.image_url}}
    if isinstance(given, InputFile):
        return {"type": "file", "file": {"file_data": given.file_data, "filename": given.filename}}
    return {"type": "text", "text": given.text}

"""What callers say, read: fields that are not known here are never passed over in silence."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from pure_agent_loop.errors import PureAgentLoopError
from pure_agent_loop.llm.messages import Message
from pure_agent_loop.media import media_parts
from pure_agent_loop.server.problems import Problem
from pure_agent_loop.support.text import safe_str
from pure_agent_loop.tool import Tool

IGNORED = "x-ignored-fields"


class Open(BaseModel):
    """What clients of others send. What no protocol has is named in a header of the answer."""

    model_config = ConfigDict(extra="allow", strict=True)


class ChatMessage(Open):
    """A message."""

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[dict[str, Any]] | None = None
    tool_calls: list[dict[str, Any]] | None = None
    tool_call_id: str | None = None


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


def read_messages(given: Iterable[ChatMessage]) -> tuple[str, list[Message]]:
    """Messages, those of the system apart: they all are said before the others.

    Raises:
        Problem: One cannot be taken.
    """
    system: list[str] = []
    found: list[Message] = []
    for number, each in enumerate(given):
        place = f"messages[{number}]"
        content = _content(each.content, place, with_media=each.role == "user")
        if each.role in ("system", "developer"):
            system.append(plain_text(content))
            continue
        message: Message = {"role": each.role, "content": content}
        if each.role == "tool":
            if not each.tool_call_id:
                raise Problem(400, f"{place}: a message of a tool needs its tool_call_id.", param="messages")
            message["tool_call_id"] = each.tool_call_id
        elif each.content is None and not (each.role == "assistant" and each.tool_calls):
            raise Problem(400, f"{place}: it has no content.", param="messages")
        if each.role == "assistant" and each.tool_calls:
            message["tool_calls"] = [_call(call, place) for call in each.tool_calls]
        found.append(message)
    return "\n\n".join(filter(None, system)), found


def plain_text(content: str | list[dict[str, Any]]) -> str:
    """The text of a content."""
    return content if isinstance(content, str) else "".join(each.get("text", "") for each in content)


def _content(given: str | list[dict[str, Any]] | None, place: str, *, with_media: bool) -> Any:
    if not isinstance(given, list):
        return given or ""
    parts: list[dict[str, Any]] = []
    for part in given:
        kind = part.get("type")
        if kind in ("text", "refusal") and isinstance(part.get(kind), str):
            parts.append({"type": "text", "text": part[kind]})
        elif kind in ("image_url", "file", "input_audio") and with_media:
            parts += media_of(part, place)
        else:
            raise Problem(
                400, f"{place}: a part of the type {kind!r:.40} is not supported.", param="messages"
            )
    if any(each["type"] != "text" for each in parts):
        return parts
    return "".join(each["text"] for each in parts)


def media_of(part: Mapping[str, Any], place: str) -> list[dict[str, Any]]:
    """An image or a file, checked. Only data: an address would be fetched with the rights of a server.

    Raises:
        Problem: It cannot be sent.
    """
    image = part.get("image_url")
    url = image.get("url") if isinstance(image, Mapping) else None
    if part.get("type") == "image_url" and not str(url).lower().startswith("data:"):
        raise Problem(
            400, f"{place}: send images as data: URLs; addresses are not fetched.", param="messages"
        )
    try:
        return media_parts([part])
    except PureAgentLoopError as error:
        raise Problem(400, f"{place}: {safe_str(error)}", param="messages") from error


def _call(given: Mapping[str, Any], place: str) -> dict[str, Any]:
    function = given.get("function")
    if not isinstance(given.get("id"), str) or not isinstance(function, Mapping):
        raise Problem(400, f"{place}: a tool call needs its id and its function.", param="messages")
    named = {name: function.get(name) for name in ("name", "arguments")}
    if not all(isinstance(value, str) for value in named.values()):
        raise Problem(400, f"{place}: a function has a name and arguments, both texts.", param="messages")
    return {"id": given["id"], "type": "function", "function": named}


def chosen(choice: Any, tools: list[Tool], own: Collection[Any]) -> tuple[list[Tool], dict[str, Any]]:
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
    about = choice.get("function", choice) if isinstance(choice, Mapping) else None
    name = about.get("name") if isinstance(about, Mapping) and choice.get("type") == "function" else None
    if not any(each.name == name for each in tools):
        raise Problem(400, "tool_choice names no tool of the request.", param="tool_choice")
    return tools, {"tool_choice": {"type": "function", "function": {"name": name}}}

"""Requests of the Responses protocol: a history in the chat-completions shape, written as items. Pure.

A response that holds more than plain text and calls (reasoning, phases, server tools) is kept whole, as
`ITEMS` of its message, and sent back to the server and model it came from. Source of the rules: the types of
the ``openai`` package 3.57.0, https://platform.openai.com/docs/api-reference/responses.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pure_agent_loop.errors import ConfigError, LLMError
from pure_agent_loop.llm.messages import META, Message, text_of
from pure_agent_loop.llm.profiles import Default
from pure_agent_loop.media import part_words
from pure_agent_loop.support.language import message as sentence

ITEMS = "response_items"  # of an assistant message: all items of the response, as they came
ENCRYPTED = "reasoning.encrypted_content"  # value of `include`: reasoning that the server does not store
_RENAMED = {"max_tokens": "max_output_tokens", "max_completion_tokens": "max_output_tokens"}
_TRANSLATED = frozenset({"reasoning_effort", "response_format", "tool_choice", "verbosity"})
_FIELDS = frozenset({
    "background", "background_options", "context_management", "include", "max_output_tokens",
    "max_tool_calls", "metadata", "moderation", "parallel_tool_calls", "prompt", "prompt_cache_key",
    "prompt_cache_options", "prompt_cache_retention", "reasoning", "safety_identifier", "service_tier",
    "store", "stream_options", "temperature", "text", "top_logprobs", "top_p", "truncation", "user",
})  # fmt: skip
_NOT_IN_BODY = frozenset(
    {"extra_body", "extra_headers", "extra_query", "timeout", "thinking_level", "stream"}
)
_SYSTEM = ("system", "developer")


@dataclass(frozen=True, slots=True)
class ResponsesWriter:
    """Writes requests for one model.

    Args:
        model: Model name.
        level: Thinking level; None for the model's default.
        origin: Server and model, as in the messages' `meta`.
        encrypts: Whether the server can encrypt reasoning that it does not store.
        sends_reasoning: Whether to send the reasoning of earlier responses.
    """

    model: str
    level: str | None = None
    origin: str = ""
    encrypts: bool = True
    sends_reasoning: bool = True

    def write(
        self,
        messages: Sequence[Message],
        tools: Sequence[Mapping[str, Any]] | None,
        options: Mapping[str, Any],
        stream: bool,
    ) -> dict[str, Any]:
        """Write the body of a request.

        Args:
            messages: The history, system message first; `meta` may name the origin of added fields.
            tools: Tool schemas in the chat-completions shape, or tools of this protocol.
            options: Request options, of chat completions or of this protocol, and ``extra_body``.
            stream: Whether to stream the response.

        Raises:
            ConfigError: An option has no counterpart.
        """
        body: dict[str, Any] = {"model": self.model, "store": False, **self._options(options)}
        if stream:
            body["stream"] = True
        if body["store"] is False and self.encrypts:
            body["include"] = list(dict.fromkeys([*body.get("include", ()), ENCRYPTED]))
        instructions = "\n\n".join(text_of(m["content"]) for m in messages if m["role"] in _SYSTEM)
        if instructions.strip():
            body["instructions"] = instructions
        history = [m for m in messages if m["role"] not in _SYSTEM]
        body["input"] = [item for message in history for item in self._items(message, body["store"])]
        if tools:
            body["tools"] = [_tool(tool) for tool in tools]
            choice = _choice(options.get("tool_choice"))
            if choice is not None:
                body["tool_choice"] = choice
        else:
            body.pop("parallel_tool_calls", None)
        body.update(options.get("extra_body") or {})
        return body

    def _options(self, options: Mapping[str, Any]) -> dict[str, Any]:
        fields: dict[str, Any] = {}
        level = options.get("thinking_level") or self.level
        if level is not None:
            fields["reasoning"] = (
                {"effort": "none"} if level == "off" else {"effort": level, "summary": "auto"}
            )
        for name, value in options.items():
            target = _RENAMED.get(name, name)
            if value is None or name in _NOT_IN_BODY or name in _TRANSLATED:
                continue
            if target not in _FIELDS:
                _refuse(name, value)
            elif target in ("reasoning", "text"):
                fields[target] = {**fields.get(target, {}), **value}
            elif target != "temperature" or not isinstance(value, Default):
                fields[target] = value  # reasoning models reject our default temperature
        effort = options.get("reasoning_effort")
        if effort is not None:
            fields["reasoning"] = {**fields.get("reasoning", {}), "effort": effort}
        text = {
            "format": _format(options.get("response_format")),
            "verbosity": options.get("verbosity"),
        }
        if given := {name: value for name, value in text.items() if value is not None}:
            fields["text"] = {**given, **fields.get("text", {})}
        return fields

    def _items(self, message: Message, store: Any) -> Iterator[dict[str, Any]]:
        role = message["role"]
        if role == "tool":
            output = (
                _parts(message["content"]) if isinstance(message["content"], list) else message["content"]
            )
            yield {"type": "function_call_output", "call_id": message["tool_call_id"], "output": output}
        elif role == "assistant":
            yield from self._response(message, store)
        elif parts := _parts(message["content"]):
            is_text = len(parts) == 1 and parts[0]["type"] == "input_text"
            yield {"role": "user", "content": parts[0]["text"] if is_text else parts}

    def _response(self, message: Message, store: Any) -> Iterator[dict[str, Any]]:
        calls = [_call(call) for call in message.get("tool_calls") or ()]
        is_own = message.get(META, {}).get("origin") == self.origin
        if message.get(ITEMS) and is_own and self.sends_reasoning:
            items = _kept(message, calls, store)
            if items is not None:
                yield from items
                return
        text = plain_text(message.get("content"))
        if text.strip():
            yield {"role": "assistant", "content": text}
        yield from calls


def _refuse(name: str, value: Any) -> None:
    """Reject an option without a counterpart, unless it is a default."""
    if name == "stop":  # tool modes learn from an error of this kind
        said = "stop has no counterpart in OpenAI's Responses API"
        raise LLMError(f"{said}. Leave it out.", kind="bad_request", said=said)
    if not isinstance(value, Default):
        raise ConfigError(f"{name} has no counterpart in OpenAI's Responses API. Leave it out.")


def _kept(message: Message, calls: list[dict[str, Any]], store: Any) -> list[dict[str, Any]] | None:
    """Return the kept items of a response with the history's calls; None if the message has changed.

    A reasoning item goes with what followed it, and only if the server stores it or it is encrypted.
    """
    items: list[dict[str, Any]] = message[ITEMS]
    try:
        text = "".join(text_of_item(item) for item in items)
    except (KeyError, TypeError, AttributeError):  # a damaged record
        return None
    if text.strip() != plain_text(message.get("content")).strip():
        return None
    if sum(item.get("type") == "function_call" for item in items) != len(calls):
        return None
    kept = [item for item in items if store is not False or not _is_lost(item)]
    rest = iter(calls)
    return [
        {**item, **next(rest)} if item.get("type") == "function_call" else item
        for item in (_sent(item, has_ids=len(kept) == len(items)) for item in kept)
    ]


def _is_lost(item: Mapping[str, Any]) -> bool:
    """Return True for reasoning that nobody has: neither stored nor encrypted."""
    return item.get("type") == "reasoning" and not item.get("encrypted_content")


def _sent(item: Mapping[str, Any], *, has_ids: bool) -> dict[str, Any]:
    """Return an item to send. Without its reasoning, a response goes without its ids."""
    fields = {name: value for name, value in item.items() if value is not None}
    if has_ids or item.get("type") not in ("message", "function_call"):
        return fields
    if item["type"] == "function_call":
        return {name: value for name, value in fields.items() if name != "id"}
    phase = {"phase": fields["phase"]} if "phase" in fields else {}
    return {"role": "assistant", "content": text_of_item(item), **phase}


def plain_text(content: Any) -> str:
    """Return the text of an assistant message, refusals included."""
    if isinstance(content, list):
        return "".join(str(part.get("text") or part.get("refusal") or "") for part in content)
    return content or ""


def text_of_item(item: Mapping[str, Any]) -> str:
    """Return the text of a message item, refusals included; empty for other items."""
    if item.get("type") != "message":
        return ""
    return "".join(part.get("text") or part.get("refusal") or "" for part in item.get("content") or ())


def _call(call: Mapping[str, Any]) -> dict[str, Any]:
    function = call["function"]
    return {
        "type": "function_call",
        "call_id": call["id"],
        "name": function["name"],
        "arguments": function["arguments"] or "{}",
    }


def _parts(content: Any) -> list[dict[str, Any]]:
    if isinstance(content, str):
        return [{"type": "input_text", "text": content}] if content else []
    return [_part(part) for part in content or ()]


def _part(part: Mapping[str, Any]) -> dict[str, Any]:
    kind = part["type"]
    if kind == "text":
        return {"type": "input_text", "text": part["text"]}
    if kind == "image_url":
        image = part["image_url"]
        return {"type": "input_image", "image_url": image["url"], "detail": image.get("detail", "auto")}
    if kind == "file":
        names = ("file_id", "filename", "file_data")
        return {"type": "input_file", **{name: part["file"][name] for name in names if name in part["file"]}}
    return {"type": "input_text", "text": sentence("media_gone", what=part_words(part))}


def _tool(tool: Mapping[str, Any]) -> dict[str, Any]:
    """Return a tool of this protocol for one of chat completions; others are tools of the server."""
    function = tool.get("function")
    if not isinstance(function, Mapping):
        return dict(tool)
    written = {
        "type": "function",
        "name": function["name"],
        "parameters": function.get("parameters") or {"type": "object", "properties": {}},
        "strict": bool(function.get("strict")),  # if missing, some routes assume true
    }
    if function.get("description"):
        written["description"] = function["description"]
    return written


def _choice(wanted: Any) -> Any:
    if isinstance(wanted, Mapping) and isinstance(wanted.get("function"), Mapping):
        return {"type": "function", "name": wanted["function"]["name"]}
    return str(wanted) if isinstance(wanted, str) else wanted


def _format(form: Any) -> dict[str, Any] | None:
    if not isinstance(form, Mapping):
        return None
    if form.get("type") != "json_schema":
        return dict(form)
    return {"type": "json_schema", "strict": False, **form["json_schema"]}

"""Requests of the Responses protocol: a history in the chat-completions shape, written as items. Pure.

A response that holds more than plain text and calls (reasoning, phases, server tools) is kept whole, as
`ITEMS` of its message, and sent back to the server and model it came from. If the server stores responses, a
message also has its `RESPONSE_ID` and, as `HELD`, the digest of the history that the server has stored.
Source: the types of the ``openai`` package 3.57.0, https://platform.openai.com/docs/api-reference/responses.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pure_agent_loop.errors import ConfigError, LLMError
from pure_agent_loop.llm.cache_marks import cache_key
from pure_agent_loop.llm.histories import WrittenHistories
from pure_agent_loop.llm.messages import META, SYSTEM_ROLES, Message, plain_text, text_of
from pure_agent_loop.llm.options import OptionNames
from pure_agent_loop.llm.profiles import Default
from pure_agent_loop.llm.values import JsonFields, JsonObject, Options
from pure_agent_loop.media import by_bytes, part_words
from pure_agent_loop.support.language import model_text
from pure_agent_loop.support.parsing import json_or_text

ITEMS = "response_items"  # field of an assistant message: all items of the response, unchanged
RESPONSE_ID = "response_id"  # field of an assistant message: id of the stored response
HELD = "response_digest"  # field of an assistant message: digest of the stored history
TOOLS = "response_tools"  # field of an assistant message: new tools in the request it answers
CALL_TYPE = "response_type"  # field of a call: type of its item, if not a function call
OWN = " (responses)"  # suffix that distinguishes the origin from chat completions on the same server
COMMENTARY = "commentary"  # phase of a message before the answer
ENCRYPTED = "reasoning.encrypted_content"  # value of `include` that requests reasoning in encrypted form
OPTIONS = OptionNames(
    "OpenAI's Responses API",
    fields=frozenset({
        "access_programs", "background", "background_options", "context_management", "image", "include",
        "max_output_tokens", "max_tool_calls", "metadata", "moderation", "parallel_tool_calls", "prompt",
        "prompt_cache_key", "prompt_cache_options", "prompt_cache_retention", "reasoning",
        "safety_identifier", "service_tier", "store", "stream_options", "temperature", "text",
        "top_logprobs", "top_p", "truncation", "user",
    }),
    renamed={"max_tokens": "max_output_tokens", "max_completion_tokens": "max_output_tokens"},
    translated=frozenset({"reasoning_effort", "response_format", "tool_choice", "verbosity"}),
)  # fmt: skip
_HISTORIES = {"conversation", "previous_response_id"}  # fields that refer to a history on the server
_REFUSED = ("stop", *sorted(_HISTORIES))  # options that `_refuse` rejects
_CALLS = ("function_call", "custom_tool_call")
_UNSTREAMED = ("2h", "8h")  # values of `background_options.completion_window` that exclude streaming


class ServerHistory(NamedTuple):
    """Part of a history that the server holds; see `held_by_server`.

    Args:
        response_id: The newest response that the server stores; empty if there is none.
        size: Number of messages up to and including that response, without system messages.
        digest: Hash object of the whole history; further messages can be added to it.
    """

    response_id: str
    size: int
    digest: Any


class Offer(NamedTuple):
    """Tools of a request.

    Args:
        first: Tools in the field ``tools``, before all messages.
        later: Tools that were added later, by the number of the message before which they are sent.
        record: Value of `TOOLS` for the response; None if the tools are unchanged.
        allowed: References to the tools that may be called; None for all.
    """

    first: list[JsonObject]
    later: dict[int, list[JsonObject]]
    record: JsonObject | None = None
    allowed: list[JsonObject] | None = None

    def replaces(self, history: Iterable[Message]) -> bool:
        """Return True if a history has tools that were added later, but this offer has none."""
        if self.later or (self.record is not None and not self.record["is_first"]):
            return False
        has_later = False
        for message in history:
            if TOOLS in message:
                has_later = not message[TOOLS]["is_first"]
        return has_later


def held_by_server(messages: Iterable[Message], origin: str) -> ServerHistory:
    """Return the part of a history that the server holds unchanged, found by the digests in the messages."""
    digest, response_id, size = hashlib.sha256(), "", 0
    for count, message in enumerate((m for m in messages if m["role"] not in SYSTEM_ROLES), 1):
        add_to_digest(digest, message)
        is_own = RESPONSE_ID in message and message.get(META, {}).get("origin") == origin
        if is_own and message.get(HELD) == digest.hexdigest():
            response_id, size = message[RESPONSE_ID], count
    return ServerHistory(response_id, size, digest)


def add_to_digest(digest: Any, message: Message) -> None:
    """Add the content of a message, as the model reads it, to the hash of a history."""
    content = message.get("content")
    if message["role"] == "assistant":
        content = plain_text(content).strip()
    functions = [(call["id"], call["function"]) for call in message.get("tool_calls") or ()]
    calls = [(number, f["name"], json_or_text(f["arguments"] or "{}")) for number, f in functions]
    said = [message["role"], content, calls, message.get("tool_call_id")]
    digest.update(json.dumps(said, sort_keys=True).encode() + b"\n")


@dataclass(frozen=True, slots=True)
class ResponsesWriter:
    """Writes requests for one model.

    Args:
        model: Model name.
        level: Thinking level; None for the model's default.
        origin: Server and model, as in the messages' `meta`.
        encrypts: Whether the server can encrypt reasoning.
        histories: Cache of the input items of earlier requests.
        custom: Formats of the custom tools, by name; None for free text.
        held: Part of the history that the server holds; None if the server does not store responses.
        is_gone: Whether the server has deleted earlier responses, so that everything it held is sent again.
        appends_tools: Whether tools that were added later are sent at their place among the messages.
        sends_cache_key: Whether to send a generated ``prompt_cache_key``.
    """

    model: str
    level: str | None = None
    origin: str = ""
    encrypts: bool = True
    histories: WrittenHistories[list[list[JsonObject]]] | None = None
    custom: Mapping[str, JsonFields | None] = field(default_factory=dict)
    held: ServerHistory | None = None
    is_gone: bool = False
    appends_tools: bool = False
    sends_cache_key: bool = False

    def write(
        self,
        messages: Sequence[Message],
        tools: Sequence[JsonFields] | None,
        options: Options,
        stream: bool,
    ) -> JsonObject:
        """Write the body of a request.

        Args:
            messages: The history, system message first. A message's `meta` may name the server and model that
                its additional fields come from.
            tools: Tool schemas in the shape of chat completions or of this protocol.
            options: Request options, named as in chat completions or as in this protocol, and ``extra_body``.
            stream: Whether to stream the response.

        Raises:
            ConfigError: The Responses API has no such option.
        """
        fields, extra = self._options(options), options.get("extra_body") or {}
        for name in _HISTORIES & extra.keys():
            _refuse(name, extra[name])
        asked = {**fields, **extra}
        need = "continues" if self.held is not None else "background" if asked.get("background") else ""
        if need and asked.get("store") is False:
            raise ConfigError(f"store=False: {need}=True needs a stored response. Leave store out.")
        body: JsonObject = {"model": self.model, "store": bool(need), **fields}
        window = (asked.get("background_options") or {}).get("completion_window")
        if stream and window not in _UNSTREAMED:
            body["stream"] = True
        if self.encrypts:  # requested even for stored responses, because the server may delete them
            body["include"] = list(dict.fromkeys([*body.get("include", ()), ENCRYPTED]))
        instructions = "\n\n".join(text_of(m["content"]) for m in messages if m["role"] in SYSTEM_ROLES)
        if instructions.strip():
            body["instructions"] = instructions
        if self.sends_cache_key and body.get("prompt_cache_key") is None:
            body["prompt_cache_key"] = cache_key(messages, tools)
        history = [m for m in messages if m["role"] not in SYSTEM_ROLES]
        offer, start = self.offer(history, tools, options.get("tool_choice")), 0
        if self.held is not None and not self.is_gone and not offer.replaces(history[: self.held.size]):
            start = self.held.size
            body |= {"previous_response_id": self.held.response_id} if start else {}
        has_stored = {**body, **extra}["store"] is not False and not self.is_gone
        body["input"] = list(self._input(history, start, offer, has_stored=has_stored))
        if offer.first:
            body["tools"] = offer.first
            if (choice := self._limited_choice(options.get("tool_choice"), offer)) is not None:
                body["tool_choice"] = choice
        else:
            body.pop("parallel_tool_calls", None)
        body.update(extra)
        return body

    def _options(self, options: Options) -> JsonObject:
        fields: JsonObject = {}
        level = options.get("thinking_level") or self.level
        if level not in (None, "off"):
            fields["reasoning"] = {"effort": level, **({} if level == "none" else {"summary": "auto"})}
        for name in _REFUSED:
            if (value := options.get(name)) is not None:
                _refuse(name, value)
        for name, value in OPTIONS.read(options):
            if name in ("reasoning", "text"):
                fields[name] = {**fields.get(name, {}), **value}
            elif name != "temperature" or not isinstance(value, Default):
                fields[name] = value  # reasoning models reject the default temperature of this package
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

    def _by_message(self, history: list[Message], *settings: Any) -> list[list[JsonObject]]:
        """Return the items of each message; reuse those that an earlier request wrote."""
        kept_with = (self.origin, self.custom, settings)
        written, known = self.histories.find(kept_with, history) if self.histories else (None, 0)
        new = (list(self._items(message, *settings)) for message in history[known:])
        written = [*(written or ()), *new]
        if self.histories:
            self.histories.keep(kept_with, history, written, known)
        return written

    def _input(
        self, history: list[Message], start: int, offer: Offer, *, has_stored: bool
    ) -> Iterator[JsonObject]:
        """Yield the items of the messages from `start` on, and the tools that were added later."""
        written = self._by_message(history, has_stored, self._custom_ids(history))
        for number in range(start, len(history) + 1):
            if number in offer.later:
                yield {"type": "additional_tools", "role": "developer", "tools": offer.later[number]}
            if number < len(history):
                yield from written[number]

    def _items(self, message: Message, has_stored: bool, custom_ids: frozenset[str]) -> Iterator[JsonObject]:
        role, content = message["role"], message["content"]
        if role == "tool":
            call_id = message["tool_call_id"]
            kind = "custom_tool_call_output" if call_id in custom_ids else "function_call_output"
            output = _parts(content) if isinstance(content, list) else content
            yield {"type": kind, "call_id": call_id, "output": output}
        elif role == "assistant":
            yield from self._response(message, has_stored, custom_ids)
        elif parts := _parts(content):
            is_text = len(parts) == 1 and parts[0]["type"] == "input_text"
            yield {"role": "user", "content": parts[0]["text"] if is_text else parts}

    def _response(
        self, message: Message, has_stored: bool, custom_ids: frozenset[str]
    ) -> Iterator[JsonObject]:
        calls = [_call(call, call["id"] in custom_ids) for call in message.get("tool_calls") or ()]
        is_own = self._is_own(message)
        if message.get(ITEMS) and is_own:
            items = _kept(message, calls, has_stored)
            if items is not None:
                yield from items
                return
        text = plain_text(message.get("content"))
        if text.strip():
            yield {"role": "assistant", "content": text, **_phase(message if is_own else {})}
        yield from calls

    # -- calls and tools -----------------------------------------------------------------------------------

    def _custom_ids(self, history: Iterable[Message]) -> frozenset[str]:
        """Return the ids of the calls that are written as calls of custom tools."""
        return frozenset(
            call["id"]
            for message in history
            if "tool_calls" in message
            for call in message["tool_calls"]
            if (CALL_TYPE in call or self.custom) and self._is_custom(message, call)
        )

    def _is_custom(self, message: Message, call: JsonFields) -> bool:
        if self._is_own(message):
            is_meant = call.get(CALL_TYPE) == "custom_tool_call"
        else:
            is_meant = call["function"]["name"] in self.custom
        return is_meant and _only_text(call) is not None

    def _is_own(self, message: Message) -> bool:
        return message.get(META, {}).get("origin") in (self.origin, self.origin.removesuffix(OWN))

    def offer(
        self, history: Sequence[Message], tools: Sequence[JsonFields] | None, choice: Any = None
    ) -> Offer:
        """Return the tools of a request.

        With `appends_tools`, the field ``tools`` stays the same until a definition changes.

        Args:
            history: The history without system messages.
            tools: The tools for the request.
            choice: The option ``tool_choice``.
        """
        wanted = [self._tool(tool) for tool in tools or ()]
        if not self.appends_tools:
            return Offer(wanted, {})
        first: list[JsonObject] = []
        later: dict[int, list[JsonObject]] = {}
        for number, message in enumerate(history):
            record = message.get(TOOLS)
            if record is None or message.get(META, {}).get("origin") != self.origin:
                continue
            if record["is_first"]:
                first, later = record["tools"], {}
            elif first:
                later[number] = record["tools"]
        if first and (choice == "none" or not wanted):
            return Offer(first, later, allowed=[])
        known = [tool for group in (first, *later.values()) for tool in group]
        new = [tool for tool in wanted if tool not in known]
        names = [_name(tool) for tool in known]
        if not first or any(_name(tool) in names for tool in new):  # a changed definition
            return Offer(wanted, {}, {"is_first": True, "tools": wanted} if wanted else None)
        record = None
        if new:
            later[len(history)] = new
            record = {"is_first": False, "tools": new}
        has_all = all(tool in wanted for tool in known)
        return Offer(first, later, record, None if has_all else [_reference(tool) for tool in wanted])

    def _tool(self, tool: JsonFields) -> JsonObject:
        """Convert a chat-completions tool to this protocol; server tools stay unchanged."""
        function = tool.get("function")
        if not isinstance(function, Mapping):
            return dict(tool)
        described = {"description": function["description"]} if function.get("description") else {}
        if function["name"] in self.custom:
            text_parameter(function)
            form = self.custom[function["name"]]
            formed = {} if form is None else {"format": dict(form)}
            return {"type": "custom", "name": function["name"], **formed, **described}
        return {
            "type": "function",
            "name": function["name"],
            "parameters": function.get("parameters") or {"type": "object", "properties": {}},
            # Always sent, because some servers assume true for a missing field.
            "strict": bool(function.get("strict")),
            **described,
        }

    def _limited_choice(self, wanted: object, offer: Offer) -> Any:
        """Return the request's ``tool_choice``, which also excludes tools that must no longer be called."""
        choice = self._choice(wanted)
        if offer.allowed is None or choice not in (None, "auto", "required"):
            return choice
        allowed = {"type": "allowed_tools", "mode": choice or "auto", "tools": offer.allowed}
        return allowed if offer.allowed else "none"

    def _choice(self, wanted: object) -> Any:
        if not isinstance(wanted, Mapping):
            return str(wanted) if isinstance(wanted, str) else wanted
        if isinstance(wanted.get("function"), Mapping):
            name = wanted["function"]["name"]
            return {"type": "custom" if name in self.custom else "function", "name": name}
        allowed = wanted.get("allowed_tools")
        if isinstance(allowed, Mapping):
            return {"type": "allowed_tools", **allowed, "tools": [self._choice(t) for t in allowed["tools"]]}
        return dict(wanted)


def _call(call: JsonFields, is_custom: bool) -> JsonObject:
    function = call["function"]
    named = {"call_id": call["id"], "name": function["name"]}
    if is_custom:
        return {"type": "custom_tool_call", **named, "input": _only_text(call)}
    return {"type": "function_call", **named, "arguments": function["arguments"] or "{}"}


def _only_text(call: JsonFields) -> str | None:
    """Return the only argument of a call, if it is a string."""
    arguments = json_or_text(call["function"]["arguments"] or "{}")
    values = list(arguments.values()) if isinstance(arguments, dict) else []
    return values[0] if len(values) == 1 and isinstance(values[0], str) else None


def _reference(tool: JsonFields) -> JsonObject:
    """Return the part of a tool's definition that identifies the tool."""
    return {name: tool[name] for name in ("type", "name", "server_label") if name in tool}


def _name(tool: JsonFields) -> Any:
    return tool.get("name") or (tool.get("type"), tool.get("server_label"))


def text_parameter(function: JsonFields) -> str:
    """Return the name of the only parameter of a custom tool.

    Raises:
        ConfigError: The tool has other parameters.
    """
    properties = (function.get("parameters") or {}).get("properties") or {}
    if [schema.get("type") for schema in properties.values()] != ["string"]:
        raise ConfigError(
            f"custom_tools[{function['name']!r}]: the tool must have one parameter, a string; it has "
            f"{', '.join(properties) or 'none'}. Change the function, or leave it out of custom_tools."
        )
    return str(next(iter(properties)))


def _refuse(name: str, value: object) -> None:
    """Reject an option of `_REFUSED`."""
    if name == "stop":  # an LLMError, because the tool modes then retry without `stop`
        said = "stop has no counterpart in OpenAI's Responses API"
        raise LLMError(f"{said}. Leave it out.", kind="bad_request", said=said)
    raise ConfigError(
        f"{name}={value!r:.80}: the history is sent already, so the model would read it twice. Leave it "
        "out, and pass continues=True to ResponsesClient."
    )


def _kept(message: Message, calls: list[JsonObject], has_stored: bool) -> list[JsonObject] | None:
    """Return a response's kept items with the history's calls; None if the message has changed.

    Reasoning that is neither stored by the server nor encrypted is left out.
    """
    items: list[JsonObject] = message[ITEMS]
    try:
        text = answer_of(items)
    except (KeyError, TypeError, AttributeError):  # a damaged record
        return None
    if text.strip() != plain_text(message.get("content")).strip():
        return None
    if [item["type"] for item in items if item.get("type") in _CALLS] != [call["type"] for call in calls]:
        return None
    kept = [item for item in items if has_stored or not _is_lost(item)]
    rest = iter(calls)
    return [
        {**item, **next(rest)} if item.get("type") in _CALLS else item
        for item in (_sent(item, has_ids=len(kept) == len(items)) for item in kept)
    ]


def _phase(message: JsonFields) -> JsonObject:
    """Return the phase of a response whose text has changed, if all its texts had the same phase."""
    phases = {item.get("phase") for item in message.get(ITEMS) or () if item.get("type") == "message"}
    return {"phase": phase} if len(phases) == 1 and (phase := phases.pop()) else {}


def _is_lost(item: JsonFields) -> bool:
    """Return True for reasoning that is neither stored nor encrypted, and therefore lost."""
    return item.get("type") == "reasoning" and not item.get("encrypted_content")


def _sent(item: JsonFields, *, has_ids: bool) -> JsonObject:
    """Return an item to send. If its reasoning is left out, a response is sent without ids."""
    fields = {name: value for name, value in item.items() if value is not None}
    if has_ids or item.get("type") not in ("message", *_CALLS):
        return fields
    if item["type"] in _CALLS:
        return {name: value for name, value in fields.items() if name != "id"}
    phase = {"phase": fields["phase"]} if "phase" in fields else {}
    return {"role": "assistant", "content": text_of_item(item), **phase}


def text_of_item(item: JsonFields) -> str:
    """Return the text of a message item, refusals included; empty for other items."""
    if item.get("type") != "message":
        return ""
    parts = filter(None, item.get("content") or ())
    return "".join(part.get("text") or part.get("refusal") or "" for part in parts)


def answer_of(items: Iterable[JsonFields]) -> str:
    """Return a response's answer: its text, or its commentary if no other text comes before a call."""
    text, comments, may_comment = "", "", True
    for item in items:
        said = text_of_item(item)
        if item.get("type") in _CALLS and may_comment:
            text, may_comment = text if text.strip() else comments, False
        elif said and may_comment and item.get("phase") == COMMENTARY:
            comments = f"{comments}\n\n{said}" if comments else said
        else:
            text += said
    return text if text.strip() or not may_comment else comments


def _parts(content: Any) -> list[JsonObject]:
    if isinstance(content, str):
        return [{"type": "input_text", "text": content}] if content else []
    return [_part(part) for part in content or ()]


def _part(part: JsonFields) -> JsonObject:
    part = by_bytes(part)
    kind = part["type"]
    if kind == "text":
        return {"type": "input_text", "text": part["text"]}
    if kind == "image_url":
        image = part["image_url"]
        return {"type": "input_image", "image_url": image["url"], "detail": image.get("detail", "auto")}
    if kind == "file":
        names = ("file_id", "filename", "file_data")
        return {"type": "input_file", **{name: part["file"][name] for name in names if name in part["file"]}}
    return {"type": "input_text", "text": model_text("media_gone", what=part_words(part))}


def _format(form: object) -> JsonObject | None:
    if not isinstance(form, Mapping):
        return None
    if form.get("type") != "json_schema":
        return dict(form)
    return {"type": "json_schema", "strict": False, **form["json_schema"]}

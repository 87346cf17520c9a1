"""Requests of the Messages protocol: a history in the chat-completions shape, written as blocks. Pure.

A response that holds more than text and calls (thinking, citations, server tools) is kept whole, as `BLOCKS`
of its message, and sent back to the server and model it came from. Thinking of another model is never sent:
it has no valid signature. Source of the rules: https://docs.anthropic.com/en/api/messages.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pure_agent_loop.errors import ConfigError, LLMError
from pure_agent_loop.llm.anthropic.families import ClaudeFamily
from pure_agent_loop.llm.messages import META, Message, is_question
from pure_agent_loop.llm.profiles import Default
from pure_agent_loop.media import part_words
from pure_agent_loop.support.language import message as sentence

BLOCKS = "content_blocks"  # of an assistant message: all blocks of the response, as they came
PREFIX = "blocks_after"  # digest of what came before them
MAX_MARKS = 4  # cache marks a request may hold
MARK_EVERY = 15  # blocks; the server looks 20 blocks back for a cached prefix
BINDING_BETA = "thinking-binding-controls-2026-08-01"
CONTINUE = "Continue."  # a request must end with a user's message, and begin with one
_NOT_IN_ID = re.compile(r"[^a-zA-Z0-9_-]")
_THINKING = ("thinking", "redacted_thinking")
_DATA_URL = re.compile(r"data:(?P<type>[^;,]*)[^,]*;base64,(?P<data>.*)", re.S)
# Options of chat completions, by their place in this protocol.
_RENAMED = {"max_completion_tokens": "max_tokens", "stop": "stop_sequences"}
_TRANSLATED = frozenset({
    "parallel_tool_calls", "reasoning_effort", "response_format", "safety_identifier", "tool_choice", "user",
})  # fmt: skip
_SAMPLING = ("temperature", "top_p", "top_k")
# Fields of the protocol, those of its betas included. `betas` becomes a header.
_FIELDS = frozenset({
    "betas", "cache_control", "compaction", "container", "context_management", "diagnostics",
    "fallback_credit_token", "fallbacks", "inference_geo", "max_tokens", "mcp_servers", "metadata",
    "output_config", "service_tier", "speed", "stop_sequences", "temperature", "thinking", "thread", "top_k",
    "top_p",
})  # fmt: skip
_NOT_IN_BODY = frozenset(
    {"extra_body", "extra_headers", "extra_query", "timeout", "thinking_level", "stream"}
)


@dataclass(frozen=True, slots=True)
class MessagesRequest:
    """One request.

    Args:
        body: The body.
        betas: Values of the header ``anthropic-beta``.
        prefix: Digest of the system prompt, tools and messages; empty if the model does not bind thinking.
        left_out: Digests of responses whose thinking is no longer valid and was left out.
    """

    body: dict[str, Any]
    betas: tuple[str, ...] = ()
    prefix: str = ""
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RequestWriter:
    """Writes requests for one model.

    Args:
        model: Model name.
        family: What the model accepts.
        level: Thinking level; None for the model's default.
        origin: Server and model, as in the messages' `meta`.
        caches: Whether to mark what the server shall cache.
    """

    model: str
    family: ClaudeFamily
    level: str | None = None
    origin: str = ""
    caches: bool = True

    def write(
        self,
        messages: Sequence[Message],
        tools: Sequence[Mapping[str, Any]] | None,
        options: Mapping[str, Any],
        stream: bool,
    ) -> MessagesRequest:
        """Write a request.

        Args:
            messages: The history, system message first; `meta` may name the origin of added fields.
            tools: Tool schemas in the chat-completions shape, or tools of this protocol.
            options: Request options, of chat completions or of this protocol, and ``extra_body``.
            stream: Whether to stream the response.

        Raises:
            ConfigError: An option has no counterpart, or the model rejects it.
        """
        body: dict[str, Any] = {"model": self.model, "max_tokens": self.family.max_output}
        if stream:
            body["stream"] = True
        body.update(self._options(options))
        system = [text for m in messages if m["role"] in _SYSTEM for text in _text_blocks(m["content"])]
        history = [m for m in messages if m["role"] not in _SYSTEM]
        written = [_tool(tool) for tool in tools or ()] or _tools_in(history)
        choice = self._choice(options, body, has_tools=bool(tools))
        if not tools and written:
            choice = {"type": "none"}
        if written:
            body["tools"] = written
            if choice is not None:
                body["tool_choice"] = choice
        if system:
            body["system"] = system
        can_drop = (body.get("thinking") or {}).get("type") == "adaptive"
        turns = _Turns(self.family.binds_thinking, self.origin, system, written, can_drop)
        for number, message in enumerate(history):
            turns.add(message, is_open=number > _last_question(history))
        body["messages"] = turns.finish()
        betas = [*options.get("betas", ())]
        prefix = turns.digest()  # without cache marks, which move
        extra = options.get("extra_body") or {}
        if self.caches and not (_has_marks(body) or extra.keys() & {"cache_control", "system", "messages"}):
            _mark(body)
        body.update(extra)
        thinking = body.get("thinking") or {}
        if turns.keeps_invalid and thinking.get("type") == "adaptive":
            binding = {"prefix_mismatch_behavior": "drop_block", **(thinking.get("block_binding") or {})}
            body["thinking"] = {**thinking, "block_binding": binding}
            betas.append(BINDING_BETA)
        if self.family.thinking == "budget":
            _fit_open_round(body)
        return MessagesRequest(body, tuple(dict.fromkeys(betas)), prefix, tuple(turns.left_out))

    def _options(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return the fields for the options, thinking included."""
        level = options.get("thinking_level") or self.level
        fields: dict[str, Any] = self.family.thinking_fields(level)
        for name, value in options.items():
            if value is None or name in _NOT_IN_BODY or name in _TRANSLATED:
                continue
            target = _RENAMED.get(name, name)
            if target not in _FIELDS:
                if not isinstance(value, Default):
                    raise ConfigError(f"{name} has no counterpart in Anthropic's Messages API. Leave it out.")
            elif target == "stop_sequences":
                fields[target] = [value] if isinstance(value, str) else list(value)
            elif target == "output_config":
                fields[target] = {**fields.get(target, {}), **value}
            elif target in _SAMPLING:
                self._sample(fields, name, value)
            elif target != "betas":
                fields[target] = value
        self._translate(fields, options)
        budget = (fields.get("thinking") or {}).get("budget_tokens")
        limit = fields.get("max_tokens", self.family.max_output)
        if isinstance(budget, int) and budget >= limit:
            raise ConfigError(
                f"max_tokens={limit} must exceed the budget for thinking of {budget} tokens. "
                "Raise max_tokens, or use a lower thinking_level."
            )
        return fields

    def _sample(self, fields: dict[str, Any], name: str, value: Any) -> None:
        if isinstance(value, Default):  # the model's own default is better than ours
            return
        if not self.family.takes_sampling:
            raise ConfigError(f"{name}={value!r}: {self.family.name} rejects sampling options. Leave it out.")
        fields[name] = value

    def _translate(self, fields: dict[str, Any], options: Mapping[str, Any]) -> None:
        """Add the options that have another form in this protocol."""
        user = options.get("safety_identifier") or options.get("user")
        if user is not None:
            fields["metadata"] = {"user_id": user, **fields.get("metadata", {})}
        effort = options.get("reasoning_effort")
        if effort is not None:
            self._config(fields, effort=effort)
        form = options.get("response_format")
        if form is not None and not self.family.takes_format and not isinstance(form, Default):
            raise ConfigError(f"response_format: {self.family.name} rejects it. Use output_type=... instead.")
        if form is not None and not self.family.takes_format:
            return
        if form is not None and form.get("type") == "json_schema":
            schema = form["json_schema"]["schema"]
            if not is_closed(schema):  # the typed answer is then asked for in another way
                said = "output_config.format: the json_schema has free keys or refers to itself"
                raise LLMError(f"{said}. Use output_mode='tool'.", kind="bad_request", said=said)
            self._config(fields, format={"type": "json_schema", "schema": _strict(schema)})
        elif form is not None and form.get("type") != "text" and not isinstance(form, Default):
            said = f"response_format {form.get('type')!r} has no counterpart in the Messages API"
            raise LLMError(f"{said}. Use 'json_schema'.", kind="bad_request", said=said)
        efforts = self.family.efforts
        effort = fields.get("output_config", {}).get("effort")
        if effort is not None and effort not in efforts:
            raise ConfigError(
                f"effort {effort!r} is not supported by {self.family.name}. "
                + (f"Use one of: {', '.join(efforts)}." if efforts else "Leave it out.")
            )

    def _config(self, fields: dict[str, Any], **settings: Any) -> None:
        fields["output_config"] = {**fields.get("output_config", {}), **settings}

    def _choice(
        self, options: Mapping[str, Any], body: Mapping[str, Any], *, has_tools: bool
    ) -> dict[str, Any] | None:
        """Return the ``tool_choice``; None for the default."""
        wanted = options.get("tool_choice")
        choice: dict[str, Any] | None = None
        if isinstance(wanted, Mapping):
            function = wanted.get("function")
            choice = (
                {"type": "tool", "name": function["name"]} if isinstance(function, Mapping) else {**wanted}
            )
        elif wanted is not None:
            choice = {"type": "any" if wanted == "required" else str(wanted)}
        if choice is not None and choice["type"] in ("any", "tool"):
            choice = self._forced(choice, wanted, body)
        if options.get("parallel_tool_calls") is False and has_tools:
            choice = choice or {"type": "auto"}
            if choice["type"] != "none":
                choice["disable_parallel_tool_use"] = True
        return choice

    def _forced(self, choice: dict[str, Any], wanted: Any, body: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return a choice that forces a call, if the model accepts it; None to drop a default."""
        rule = self.family.takes_forced_choice
        is_thinking = body.get("thinking", {}).get("type") in ("enabled", "adaptive")
        if rule == "yes" or (rule == "without_thinking" and not is_thinking):
            return choice
        if isinstance(wanted, Default):
            return None
        way_out = "Use tool_choice='auto'" + (
            " or thinking_level='off'"
            if rule == "without_thinking"
            else ", and ask for the call in the prompt"
        )
        raise ConfigError(f"tool_choice={wanted!r}: {self.family.name} rejects a forced call. {way_out}.")


_SYSTEM = ("system", "developer")


def _last_question(history: Sequence[Message]) -> int:
    return next((n for n in range(len(history) - 1, -1, -1) if is_question(history[n])), -1)


# -- turns -----------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Turns:
    """Messages of a request, neighbours of one role merged, and the digest of what they hold so far.

    Args:
        binds: Whether thinking is valid only after the same bytes.
        origin: Server and model of the request.
        system: Blocks of the system prompt.
        tools: Tools of the request.
        can_drop: Whether the server can be asked to drop thinking that is no longer valid.
    """

    binds: bool
    origin: str
    system: list[dict[str, Any]]
    tools: list[dict[str, Any]]
    can_drop: bool
    left_out: list[str] = field(default_factory=list)
    keeps_invalid: bool = False
    _turns: list[dict[str, Any]] = field(default_factory=list)
    _ids: dict[str, str] = field(default_factory=dict)
    _digested: int = 0
    _hash: Any = None

    def add(self, message: Message, *, is_open: bool) -> None:
        """Add a message.

        Args:
            is_open: Whether the message belongs to the newest question.
        """
        role = message["role"]
        if role == "assistant":
            blocks = self._response(message, is_open=is_open)
        elif role == "tool":
            content = _result_content(message["content"])
            blocks = [
                {"type": "tool_result", "tool_use_id": self._id(message["tool_call_id"]), "content": content}
            ]
        else:
            blocks = _parts(message["content"])
        if not blocks:
            return
        role = "assistant" if role == "assistant" else "user"
        if role == "assistant" and not self._turns:
            self._turns.append({"role": "user", "content": [_text(CONTINUE)]})
        if self._turns and self._turns[-1]["role"] == role:
            if self._turns[-1]["content"][0]["type"] not in _THINKING:  # only first blocks may be thinking
                blocks = [block for block in blocks if block["type"] not in _THINKING]
            self._turns[-1]["content"] += blocks
        else:
            self._turns.append({"role": role, "content": blocks})

    def finish(self) -> list[dict[str, Any]]:
        """Return the messages; the last is a user's."""
        if not self._turns or self._turns[-1]["role"] == "assistant":
            self._turns.append({"role": "user", "content": [_text(CONTINUE)]})
        return self._turns

    def digest(self) -> str:
        """Return the digest of the system prompt, the tools and all messages so far."""
        if not self.binds:
            return ""
        if self._hash is None:
            self._hash = hashlib.blake2b(_encoded([self.system, self.tools]), digest_size=12)
        # The last turn may still grow, so it is hashed apart.
        whole, last = self._turns[self._digested : -1], self._turns[-1:]
        for turn in whole:
            self._hash.update(_encoded(turn))
        self._digested += len(whole)
        now = self._hash.copy()
        now.update(_encoded(last))
        return str(now.hexdigest())

    def _response(self, message: Message, *, is_open: bool) -> list[dict[str, Any]]:
        calls = [self._call(call) for call in message.get("tool_calls") or ()]
        blocks = None
        if message.get(BLOCKS) and message.get(META, {}).get("origin") == self.origin:
            blocks = _kept(message, calls)
        if blocks is None:
            return [*_parts(message.get("content")), *calls]
        after = message.get(PREFIX)
        if not self.binds or not after or after == self.digest():
            return blocks
        if is_open and self.can_drop:  # the newest round needs its thinking; the server decides
            self.keeps_invalid = True
            return blocks
        self.left_out.append(after)
        return [block for block in blocks if block["type"] not in _THINKING]

    def _call(self, call: Mapping[str, Any]) -> dict[str, Any]:
        function = call["function"]
        arguments = json.loads(function["arguments"] or "{}")
        return {"type": "tool_use", "id": self._id(call["id"]), "name": function["name"], "input": arguments}

    def _id(self, call_id: str) -> str:
        """Return an id of letters, digits, ``_`` and ``-``, different for different ids."""
        if call_id not in self._ids:
            clean = _NOT_IN_ID.sub("_", call_id)
            if clean != call_id or not clean:
                clean = f"{clean[:40]}_{hashlib.sha256(call_id.encode('utf-8', 'replace')).hexdigest()[:12]}"
            self._ids[call_id] = clean
        return self._ids[call_id]


def _kept(message: Message, calls: list[dict[str, Any]]) -> list[dict[str, Any]] | None:
    """Return the kept blocks of a response with the history's calls; None if the message has changed."""
    try:
        blocks = [block for block in message[BLOCKS] if block["type"] != "text" or block["text"].strip()]
        text = "".join(block["text"] for block in blocks if block["type"] == "text")
    except (KeyError, TypeError, AttributeError):  # a damaged record
        return None
    if text.strip() != _plain(message.get("content")).strip():
        return None
    if sum(block["type"] == "tool_use" for block in blocks) != len(calls):
        return None
    rest = iter(calls)
    return [{**block, **next(rest)} if block["type"] == "tool_use" else dict(block) for block in blocks]


def _plain(content: Any) -> str:
    if isinstance(content, list):
        return "".join(str(part.get("text") or part.get("refusal") or "") for part in content)
    return content or ""


def _encoded(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


# -- content ---------------------------------------------------------------------------------------------


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _text_blocks(content: Any) -> list[dict[str, Any]]:
    return [block for block in _parts(content) if block["type"] == "text"]


def _parts(content: Any) -> list[dict[str, Any]]:
    """Return blocks for a content; blank texts are rejected by the server, so they are left out."""
    if isinstance(content, str):
        return [_text(content)] if content.strip() else []
    return [block for part in content or () for block in _block(part)]


def _block(part: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    kind = part["type"]
    if kind in ("text", "refusal"):
        if part[kind].strip():
            yield _text(part[kind])
    elif kind == "image_url":
        yield {"type": "image", "source": _source(part["image_url"]["url"], "image/png")}
    elif kind == "file" and "file_id" in part["file"]:
        yield {"type": "document", "source": {"type": "file", "file_id": part["file"]["file_id"]}}
    elif kind == "file":
        yield _document(part["file"])
    else:
        yield _text(sentence("media_gone", what=part_words(part)))


def _document(file: Mapping[str, Any]) -> dict[str, Any]:
    source = _source(file["file_data"], "application/pdf")
    if source.get("media_type", "").startswith("text/"):
        data = base64.b64decode(source["data"]).decode("utf-8", "replace")
        source = {"type": "text", "media_type": "text/plain", "data": data}
    title = {"title": file["filename"]} if file.get("filename") else {}
    return {"type": "document", "source": source, **title}


def _source(url: str, default: str) -> dict[str, Any]:
    match = _DATA_URL.fullmatch(url)
    if match is None:
        return {"type": "url", "url": url}
    return {"type": "base64", "media_type": match["type"] or default, "data": match["data"]}


def _result_content(content: Any) -> str | list[dict[str, Any]]:
    return content if isinstance(content, str) else _parts(content)


# -- tools -----------------------------------------------------------------------------------------------


def _tool(tool: Mapping[str, Any]) -> dict[str, Any]:
    """Return a tool of this protocol for one of chat completions; others are tools of the server."""
    function = tool.get("function")
    if not isinstance(function, Mapping):
        return dict(tool)
    written = {
        "name": function["name"],
        "input_schema": {"type": "object", **(function.get("parameters") or {})},
    }
    if function.get("description"):
        written["description"] = function["description"]
    if function.get("strict"):
        written["strict"] = True
        written["input_schema"] = _strict(written["input_schema"])
    return written


def _tools_in(history: Iterable[Message]) -> list[dict[str, Any]]:
    """Return tools for the calls of a history: the server rejects calls in a request without tools."""
    names = (call["function"]["name"] for m in history for call in m.get("tool_calls") or ())
    return [{"name": name, "input_schema": {"type": "object"}} for name in dict.fromkeys(names)]


# Keywords that constrained output rejects, by Anthropic's page "Structured outputs".
_NOT_STRICT = frozenset({
    "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength",
    "pattern", "maxItems", "uniqueItems", "minProperties", "maxProperties", "default",
})  # fmt: skip
_NAMED = ("properties", "$defs", "definitions")


def _strict(schema: Any) -> Any:
    """Return a schema in the subset of constrained output: closed objects without bounds."""
    if isinstance(schema, list):
        return [_strict(item) for item in schema]
    if not isinstance(schema, Mapping):
        return schema
    closed = {
        key: {name: _strict(inner) for name, inner in value.items()} if key in _NAMED else _strict(value)
        for key, value in schema.items()
        if key not in _NOT_STRICT and not (key == "minItems" and value not in (0, 1))
    }
    is_object = schema.get("type") == "object" or "object" in _listed(schema.get("type"))
    if (is_object or "properties" in schema) and not isinstance(schema.get("additionalProperties"), Mapping):
        closed["additionalProperties"] = False
    return closed


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def is_closed(schema: Any, above: tuple[str, ...] = (), root: Any = None) -> bool:
    """Return True if constrained output can produce every value: no free keys, no recursion."""
    root = schema if root is None else root
    if isinstance(schema, list):
        return all(is_closed(item, above, root) for item in schema)
    if not isinstance(schema, Mapping):
        return True
    is_object = schema.get("type") == "object" or "object" in _listed(schema.get("type"))
    if schema.get("additionalProperties", False) is not False or (is_object and not schema.get("properties")):
        return False
    reference = schema.get("$ref")
    if isinstance(reference, str):
        if reference in above:
            return False
        name = reference.rpartition("/")[2]
        target: Any = next((root[key][name] for key in _NAMED[1:] if name in root.get(key, {})), {})
        return is_closed(target, (*above, reference), root)
    parts = [value for key, value in schema.items() if key not in ("enum", "const", "$defs", "definitions")]
    named = [list(value.values()) if isinstance(value, Mapping) else value for value in parts]
    return all(is_closed(part, above, root) for part in named)


# -- cache marks -----------------------------------------------------------------------------------------


def _has_marks(body: Mapping[str, Any]) -> bool:
    """Return True if the caller places cache marks."""
    return "cache_control" in body or any("cache_control" in tool for tool in body.get("tools", ()))


def _fit_open_round(body: dict[str, Any]) -> None:
    """Fit thinking and the newest round to each other, for models with a budget.

    With thinking, the response of an open round must begin with its thinking; without, it must hold none.
    """
    turns = body["messages"]
    if len(turns) < 2 or turns[-1]["content"][0].get("type") != "tool_result":
        return
    content = turns[-2]["content"]
    has_thinking = content[0].get("type") in _THINKING
    if (body.get("thinking") or {}).get("type") != "enabled":
        turns[-2]["content"] = [block for block in content if block.get("type") not in _THINKING]
    elif not has_thinking:
        del body["thinking"]


def _mark(body: dict[str, Any]) -> None:
    """Mark for the cache: the fixed prefix, the end of the history, and points between them."""
    mark = {"type": "ephemeral"}
    fixed = body.get("system") or body.get("tools")
    marks = MAX_MARKS
    if isinstance(fixed, list) and fixed:
        fixed[-1] = {**fixed[-1], "cache_control": mark}
        marks -= 1
    distance = MARK_EVERY  # since the last mark: the last block gets one
    for message in reversed(body["messages"]):
        content = message["content"]
        for number in range(len(content) - 1, -1, -1):
            if distance >= MARK_EVERY and marks and content[number]["type"] not in _THINKING:
                content[number] = {**content[number], "cache_control": mark}
                marks, distance = marks - 1, 0
            distance += 1
        if not marks:
            return

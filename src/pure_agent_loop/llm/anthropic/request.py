"""Requests of the Messages protocol: a history in the chat-completions shape, written as blocks. Pure.

A response that holds more than text and calls (thinking, citations, server tools) is kept whole, as `BLOCKS`
of its message, and sent back to the server and model it came from. Another model's thinking is never sent,
because it has no valid signature. Source of the rules: https://docs.anthropic.com/en/api/messages.
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
from pure_agent_loop.llm.cache_marks import CACHE_MARK, MARK_EVERY, MAX_MARKS
from pure_agent_loop.llm.histories import WrittenHistories
from pure_agent_loop.llm.messages import (
    META,
    SYSTEM_ROLES,
    Message,
    has_failed,
    newest_question_at,
    plain_text,
    split_data_url,
    written_content,
)
from pure_agent_loop.llm.options import OptionNames, as_list
from pure_agent_loop.llm.profiles import Default, LearnedLimit
from pure_agent_loop.llm.values import JsonFields, JsonObject, Options, Tools, get
from pure_agent_loop.support.parsing import read_json
from pure_agent_loop.support.text import present

BLOCKS = "content_blocks"  # field of an assistant message: all blocks of the response, unchanged
HANDLES = "server_handles"  # message field: ids of the server's objects, by request field such as `container`
PREFIX = "blocks_after"  # message field: digest of everything before the response's blocks
TOOLS = "tools_at_start"  # message field: the request's `tools`, if no earlier response records them
CHANGES = "tool_changes"  # message field: tool changes that were sent as a system entry before the response
BINDING_BETA = "thinking-binding-controls-2026-08-01"
TOOLS_BETA = "inline-tools-2026-09-15"
SUMMARY_BETA = "compact-2026-09-04"
# Beta header for each edit, by the first word of the edit's type.
_EDIT_BETAS = {"compact": "compact-2026-01-12", "clear": "context-management-2025-06-27"}
MAX_ID = 64  # maximum length of a call's id, in characters
MIN_BUDGET = 1_024  # smallest thinking budget, in tokens
CONTINUE = "Continue."  # user message that is added, because a request must begin and end with one
_NOT_IN_ID = re.compile(r"[^a-zA-Z0-9_-]")
_THINKING = ("thinking", "redacted_thinking")
_SAMPLING = ("temperature", "top_p", "top_k")
# Fields of the protocol and of its beta features; the option `betas` becomes a header.
OPTIONS = OptionNames(
    "Anthropic's Messages API",
    fields=frozenset({
        "betas", "cache_control", "compaction", "container", "context_management", "diagnostics",
        "fallback_credit_token", "fallbacks", "inference_geo", "max_tokens", "mcp_servers", "metadata",
        "output_config", "service_tier", "speed", "stop_sequences", "temperature", "thinking", "thread",
        "top_k", "top_p",
    }),
    renamed={"max_completion_tokens": "max_tokens", "stop": "stop_sequences"},
    translated=frozenset({
        "parallel_tool_calls", "reasoning_effort", "response_format", "safety_identifier", "tool_choice",
        "user",
    }),
)  # fmt: skip
# Keywords that constrained output rejects, according to Anthropic's page "Structured outputs".
_NOT_STRICT = frozenset({
    "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength",
    "pattern", "maxItems", "uniqueItems", "minProperties", "maxProperties", "default",
})  # fmt: skip
_NAMED = ("properties", "$defs", "definitions")


@dataclass(frozen=True, slots=True)
class MessagesRequest:
    """One request.

    Args:
        body: The body.
        betas: Values of the header ``anthropic-beta``.
        kept: Fields to store with the response of a model that binds thinking: `PREFIX`; and `TOOLS` or
            `CHANGES` if needed to know the tools at that point.
        left_out: Digests of responses whose thinking was omitted because it is no longer valid.
    """

    body: JsonObject
    betas: tuple[str, ...] = ()
    kept: JsonFields = field(default_factory=dict)
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RequestWriter:
    """Writes requests for one model.

    Args:
        model: Model name.
        family: What the model accepts.
        level: Thinking level; None for the model's default.
        origin: Server and model, as in the messages' `meta`.
        caches: Whether to mark parts for the prompt cache.
        histories: Cache of the messages written for earlier requests.
    """

    model: str
    family: ClaudeFamily
    level: str | None = None
    origin: str = ""
    caches: bool = True
    histories: WrittenHistories[_Turns] | None = None

    def write(
        self,
        messages: Sequence[Message],
        tools: Sequence[JsonFields] | None,
        options: Options,
        stream: bool,
    ) -> MessagesRequest:
        """Write a request.

        Args:
            messages: The history, system message first. A message's `meta` may name the server and model that
                its additional fields come from.
            tools: Tool schemas in the shape of chat completions or of this protocol.
            options: Request options, named as in chat completions or as in this protocol, and ``extra_body``.
            stream: Whether to stream the response.

        Raises:
            ConfigError: The Messages API has no such option, or the model rejects it.
        """
        limits = {"max_tokens": self.family.max_output, **present(stream=stream or None)}
        body: JsonObject = {"model": self.model, **limits, **self._options(options)}
        # `extra_body` takes precedence over the other options; both affect what is written.
        extra = options.get("extra_body") or {}
        asked = {**body, **extra}
        if "compaction" in asked and "context_management" in asked:
            raise ConfigError("compaction and context_management exclude each other. Leave one of them out.")
        # Write the history with the tools that keep its thinking valid.
        instructions = [
            block for m in messages if m["role"] in SYSTEM_ROLES for block in _parts(m["content"])
        ]
        system = [block for block in instructions if block["type"] == "text"]
        history = self._since_summary([m for m in messages if m["role"] not in SYSTEM_ROLES])
        turns = self._turns(history, system, [_tool(tool) for tool in tools or ()], asked)
        choice = self._choice(options, body, has_tools=bool(tools))
        if not tools and turns.tools:
            choice = {"type": "none"}
        if turns.tools:
            body["tools"] = [*turns.tools]
            if choice is not None:
                body["tool_choice"] = choice
        if system:
            body["system"] = system
        body["messages"] = turns.messages
        # Add cache marks first, then the caller's own fields.
        kept = turns.kept()  # taken before the cache marks are added, because marks change with each request
        if self.caches and not (_has_marks(body) or extra.keys() & {"cache_control", "system", "messages"}):
            _mark(body)
        body.update(extra)
        body = with_handles(body, self._handles(messages))
        # Let the server drop thinking that is no longer valid in this history.
        thinking = body.get("thinking") or {}
        if turns.keeps_invalid and thinking.get("type") == "adaptive":
            binding = {"prefix_mismatch_behavior": "drop_block", **(thinking.get("block_binding") or {})}
            body["thinking"] = {**thinking, "block_binding": binding}
        if self.family.thinking == "budget":
            _fit_open_round(body)
        betas = (*options.get("betas", ()), *_betas(body, turns))
        return MessagesRequest(body, tuple(dict.fromkeys(betas)), kept, tuple(turns.left_out))

    def _handles(self, messages: Iterable[Message]) -> dict[str, str]:
        """Return the newest ids of the objects that the server holds, including any from before a summary."""
        own = (m[HANDLES] for m in messages if HANDLES in m and get(m.get(META), "origin") == self.origin)
        return {name: handle for held in own for name, handle in held.items()}

    def _since_summary(self, history: list[Message]) -> list[Message]:
        """Return the history from the server's newest summary on, which replaces everything before it."""
        for number in range(len(history) - 1, -1, -1):
            message = history[number]
            if BLOCKS not in message or not _may_hold_summary(message[BLOCKS]):
                continue
            if any(map(_is_summary, _own_blocks(message, self.origin) or ())):
                return history[number:]
        return history

    def _turns(
        self,
        history: list[Message],
        system: list[JsonObject],
        tools: Tools,
        body: JsonFields,
    ) -> _Turns:
        """Write the history with the tools, earlier or current, that keep the most thinking valid.

        If earlier tools are used, each later change to them is a system entry at the place where it was first
        sent. Of the tools recorded in responses, only the newest are tried, because older ones keep even less
        thinking valid.
        """

        def written(start: list[JsonObject], *, is_earlier: bool) -> _Turns:
            turns = self._written(history, _Turns(self.family, self.origin, system, start, body, is_earlier))
            turns.finish(tools)
            return turns

        earlier: _Turns | None = None
        if self.family.binds_thinking and self.family.takes_tool_changes:
            known = (m for m in reversed(history) if TOOLS in m and _are_tools(m[TOOLS]))
            start = next((m[TOOLS] for m in known if get(m.get(META), "origin") == self.origin), None)
            earlier = written(start, is_earlier=True) if start else None
            if earlier is not None and earlier.reaches_now and not earlier.invalid:
                return earlier
        now = written(tools or _tools_in(history), is_earlier=False)
        if earlier is not None and earlier.reaches_now and earlier.valid >= max(now.valid, 1):
            return earlier
        return now

    def _written(self, history: list[Message], turns: _Turns) -> _Turns:
        """Add a history to empty turns; reuse what an earlier request wrote for its beginning."""
        binds = self.family.binds_thinking
        settings = (
            self.origin,
            turns.edits,
            *((turns.system, turns.tools, turns.is_earlier) if binds else ()),
        )
        earlier, known = self.histories.find(settings, history) if self.histories else (None, 0)
        if earlier is not None:
            turns = earlier.copy(turns.tools, turns.body)
        last_question = newest_question_at(history) if binds else -1
        for number in range(known, len(history)):
            turns.add(history[number], is_open=number > last_question)
        turns.digest()
        if self.histories and not (turns.left_out or turns.keeps_invalid):
            self.histories.keep(settings, history, turns.copy(turns.tools, turns.body), known)
        return turns

    def _options(self, options: Options) -> JsonObject:
        """Return the request fields for the options, including thinking."""
        fields: JsonObject = self.family.thinking_fields(options.get("thinking_level") or self.level)
        for name, value in OPTIONS.read(options):
            if name == "stop_sequences":
                fields[name] = as_list(value)
            elif name == "output_config":
                fields[name] = {**fields.get(name, {}), **value}
            elif name in _SAMPLING:
                self._sample(fields, name, value)
            elif name != "betas":
                fields[name] = value
        self._translate(fields, options)
        self._check_sampling(fields)
        budget = (fields.get("thinking") or {}).get("budget_tokens")
        limit = fields.get("max_tokens", self.family.max_output)
        if isinstance(budget, int) and isinstance(limit, LearnedLimit) and budget >= limit > MIN_BUDGET:
            budget = max(limit // 2, MIN_BUDGET)
            fields["thinking"] = {**fields["thinking"], "budget_tokens": budget}
        if isinstance(budget, int) and budget >= limit:
            raise ConfigError(
                f"max_tokens={limit} must exceed the thinking budget of {budget} tokens. "
                "Raise max_tokens, or use a lower thinking_level."
            )
        return fields

    def _sample(self, fields: JsonObject, name: str, value: object) -> None:
        if isinstance(value, Default):  # leave the default to the model
            return
        if not self.family.takes_sampling:
            raise ConfigError(f"{name}={value!r}: {self.family.name} rejects sampling options. Leave it out.")
        fields[name] = value

    def _check_sampling(self, fields: JsonFields) -> None:
        """Reject sampling options that thinking excludes. Source: Anthropic's page "Extended thinking"."""
        kind = (fields.get("thinking") or {}).get("type")
        if kind not in ("enabled", "adaptive") or self.family.thinking == "enabled":  # another vendor's
            return
        for name in fields.keys() & _SAMPLING:
            value = fields[name]
            is_close = name == "top_p" and 0.95 <= value <= 1
            if not is_close and (name != "temperature" or value != 1):
                raise ConfigError(
                    f"{name}={value!r}: {self.family.name} rejects it while it thinks. Leave it out, or use "
                    "thinking_level='none'."
                )

    def _translate(self, fields: JsonObject, options: Options) -> None:
        """Add the options that this protocol writes differently from chat completions."""
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
            if not is_closed(schema):  # raise a refusal, so that the next response format is tried
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

    def _config(self, fields: JsonObject, **settings: Any) -> None:
        fields["output_config"] = {**fields.get("output_config", {}), **settings}

    def _choice(self, options: Options, body: JsonFields, *, has_tools: bool) -> JsonObject | None:
        """Return the ``tool_choice``; None for the default."""
        wanted = options.get("tool_choice")
        choice: JsonObject | None = None
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

    def _forced(self, choice: JsonObject, wanted: object, body: JsonFields) -> JsonObject | None:
        """Return a choice that forces a call; None to drop a default that the model rejects."""
        rule = self.family.takes_forced_choice
        is_thinking = body.get("thinking", {}).get("type") in ("enabled", "adaptive")
        if rule == "yes" or (rule == "without_thinking" and not is_thinking):
            return choice
        if isinstance(wanted, Default):
            return None
        way_out = "Use tool_choice='auto'" + (
            " or thinking_level='none'"
            if rule == "without_thinking"
            else ", and ask for the call in the prompt"
        )
        raise ConfigError(f"tool_choice={wanted!r}: {self.family.name} rejects a forced call. {way_out}.")


def with_handles(body: JsonFields, handles: JsonFields) -> JsonObject:
    """Add the ids of objects on the server to a body; ids that the caller has set take precedence."""
    own = {
        name: {"id": handles[name], **body[name]} for name in handles if isinstance(body.get(name), Mapping)
    }
    return {**handles, **body, **own}


# -- turns -----------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Turns:
    """Messages of a request, with adjacent messages of the same role merged, and a digest of their content.

    Args:
        family: What the model accepts.
        origin: Server and model of the request.
        system: Blocks of the system prompt.
        tools: The field ``tools`` of the request.
        body: Other fields of the request.
        is_earlier: Whether `tools` come from an earlier response in the history, so that they may have
            changed since.
    """

    family: ClaudeFamily
    origin: str
    system: list[JsonObject]
    tools: Tools
    body: JsonFields
    is_earlier: bool
    left_out: list[str] = field(default_factory=list)
    keeps_invalid: bool = False
    valid: int = 0  # number of responses whose thinking is valid
    invalid: int = 0  # number of responses whose thinking is no longer valid
    reaches_now: bool = True  # whether system entries can turn `tools` into the current tools
    changes_tools: bool = False
    has_summary: bool = False
    _in_force: JsonObject | None = None  # tools in force, by name; None until the response that has `tools`
    _new_changes: list[JsonObject] = field(default_factory=list)
    _turns: list[JsonObject] = field(default_factory=list)
    _ids: dict[str, str] = field(default_factory=dict)
    _digested: int = 0
    _hash: Any = None

    def add(self, message: Message, *, is_open: bool) -> None:
        """Add a message.

        Args:
            is_open: Whether the message comes after the newest question.
        """
        role = message["role"]
        if role == "assistant":
            self._change_tools(message)
            blocks = self._response(message, is_open=is_open)
        elif role == "tool":
            content = message["content"]
            content = content if isinstance(content, str) else _parts(content)
            failed = {"is_error": True} if has_failed(message) else {}
            call_id = self._id(message["tool_call_id"])
            blocks = [{"type": "tool_result", "tool_use_id": call_id, "content": content, **failed}]
        else:
            blocks = _parts(message["content"])
        if not blocks:
            if self._turns and self._turns[-1]["role"] == "system":  # drop a system entry without a response
                self._turns.pop()
                self._in_force = None
            return
        role = "assistant" if role == "assistant" else "user"
        if role == "assistant" and not self._turns and not _is_summary(blocks[0]):
            self._turns.append({"role": "user", "content": [_text(CONTINUE)]})
        if self._turns and self._turns[-1]["role"] == role:
            if self._turns[-1]["content"][0]["type"] not in _THINKING:  # thinking must come first in a turn
                blocks = [block for block in blocks if block["type"] not in _THINKING]
            self._turns[-1] = {"role": role, "content": [*self._turns[-1]["content"], *blocks]}
        else:
            self._turns.append({"role": role, "content": blocks})

    @property
    def edits(self) -> list[str]:
        """Edits requested from the server; see `_edits`."""
        return _edits(self.body)

    def copy(self, tools: Tools, body: JsonFields) -> _Turns:
        """Return a copy that grows independently, for another request; the turns are shared."""
        twin = _Turns(self.family, self.origin, self.system, tools, body, self.is_earlier)
        twin.left_out, twin.keeps_invalid = [*self.left_out], self.keeps_invalid
        twin.valid, twin.invalid, twin.reaches_now = self.valid, self.invalid, self.reaches_now
        twin.changes_tools, twin.has_summary = self.changes_tools, self.has_summary
        twin._turns, twin._ids, twin._digested = [*self._turns], {**self._ids}, self._digested
        twin._in_force = self._in_force and {**self._in_force}
        twin._hash = self._hash and self._hash.copy()
        return twin

    @property
    def messages(self) -> list[JsonObject]:
        """The messages; later requests share the same objects."""
        return [*self._turns]

    def finish(self, tools: Tools) -> None:
        """Add a final user message, if needed, and the changes to the tools.

        Args:
            tools: The current tools; empty if no call is allowed.
        """
        ends_with_response = bool(self._turns) and self._turns[-1]["role"] == "assistant"
        if not self._turns or (ends_with_response and "compaction" not in self.body):
            self._turns.append({"role": "user", "content": [_text(CONTINUE)]})
        if self.is_earlier and tools:
            changes = None if self._in_force is None else _changes(self._in_force, tools)
            self.reaches_now = changes is not None and not (
                changes and self._turns[-1]["role"] == "assistant"
            )
            self._new_changes = (changes or []) if self.reaches_now else []
            self._add_changes(self._new_changes)

    def _change_tools(self, message: Message) -> None:
        """Add the system entry that came before a response."""
        if not self.is_earlier or (message.get(META) or {}).get("origin") != self.origin:
            return
        if TOOLS in message:
            is_start = message[TOOLS] == self.tools
            self._in_force = {tool.get("name", ""): tool for tool in self.tools} if is_start else None
            summary = next(filter(_is_summary, _own_blocks(message, self.origin) or ()), {})
            if is_start and summary:
                self.changes_tools = bool(summary.get("tool_changes"))
                _apply(self._in_force or {}, summary.get("tool_changes") or ())
        elif self._in_force is not None and self._turns and self._turns[-1]["role"] == "user":
            try:
                self._add_changes(message.get(CHANGES) or [])
            except (KeyError, TypeError, AttributeError):  # a damaged record
                self._in_force = None

    def _add_changes(self, changes: list[JsonObject]) -> None:
        if changes:
            _apply(self._in_force or {}, changes)
            self.changes_tools = True
            self._turns.append({"role": "system", "content": changes})

    def kept(self) -> JsonObject:
        """Return the fields to keep with the response."""
        if not self.family.binds_thinking:
            return {}
        kept: JsonObject = {PREFIX: self.digest()}
        if self.family.takes_tool_changes and _are_tools(self.tools):
            if not self.is_earlier or "compaction" in self.body:
                kept[TOOLS] = self.tools
            if self._new_changes:
                kept[CHANGES] = self._new_changes
        return kept

    def digest(self) -> str:
        """Return the digest of the system prompt, the tools and all messages so far."""
        if not self.family.binds_thinking:
            return ""
        if self._hash is None:
            self._hash = hashlib.blake2b(_encoded([self.system, self.tools]), digest_size=12)
        # The last turn may still grow, so it is hashed separately.
        whole, last = self._turns[self._digested : -1], self._turns[-1:]
        for turn in whole:
            self._hash.update(_encoded(turn))
        self._digested += len(whole)
        now = self._hash.copy()
        now.update(_encoded(last))
        return str(now.hexdigest())

    def _response(self, message: Message, *, is_open: bool) -> list[JsonObject]:
        calls = [self._call(call) for call in message.get("tool_calls") or ()]
        blocks = _own_blocks(message, self.origin, calls)
        if blocks is None:
            return [*_parts(message.get("content")), *calls]
        self.has_summary = self.has_summary or any(map(_is_summary, blocks))
        if "compact" not in self.edits:  # only this edit uses compaction blocks other than summaries
            blocks = [block for block in blocks if block["type"] != "compaction" or _is_summary(block)]
            blocks = blocks or _parts(message["content"])
        after = message.get(PREFIX)
        has_thinking = any(block["type"] in _THINKING for block in blocks)
        if not self.family.binds_thinking or not has_thinking or not after:
            return blocks
        if after == self.digest():
            self.valid += 1
            return blocks
        self.invalid += 1
        can_drop = (self.body.get("thinking") or {}).get("type") == "adaptive"
        # Thinking since the newest question is needed, so keep it; the server decides whether it is valid.
        if is_open and can_drop:
            self.keeps_invalid = True
            return blocks
        self.left_out.append(after)
        return [block for block in blocks if block["type"] not in _THINKING]

    def _call(self, call: JsonFields) -> JsonObject:
        function = call["function"]
        arguments = read_json(function["arguments"] or "{}")
        return {"type": "tool_use", "id": self._id(call["id"]), "name": function["name"], "input": arguments}

    def _id(self, call_id: str) -> str:
        """Return an id of letters, digits, ``_`` and ``-`` that is unique to this call id."""
        if call_id not in self._ids:
            clean = _NOT_IN_ID.sub("_", call_id)
            if clean != call_id or not clean or len(clean) > MAX_ID:
                clean = f"{clean[:40]}_{hashlib.sha256(call_id.encode('utf-8', 'replace')).hexdigest()[:12]}"
            self._ids[call_id] = clean
        return self._ids[call_id]


def _own_blocks(
    message: Message, origin: str, calls: Sequence[JsonObject] | None = None
) -> list[JsonObject] | None:
    """Return a response's kept blocks, with its calls as they are in the history.

    None if the message has no blocks, has changed, or came from another server or model.
    """
    if not message.get(BLOCKS) or (message.get(META) or {}).get("origin") != origin:
        return None
    calls = message.get("tool_calls") or () if calls is None else calls
    try:
        blocks = [block for block in message[BLOCKS] if block["type"] != "text" or block["text"].strip()]
        text = "".join(block["text"] for block in blocks if block["type"] == "text")
        if len(blocks) == 1 and blocks[0]["type"] == "compaction":
            text = blocks[0]["content"]
    except (KeyError, TypeError, AttributeError):  # a damaged record
        return None
    if text.strip() != plain_text(message.get("content")).strip():
        return None
    if sum(block["type"] == "tool_use" for block in blocks) != len(calls):
        return None
    rest = iter(calls)
    return [{**block, **next(rest)} if block["type"] == "tool_use" else dict(block) for block in blocks]


def _betas(body: JsonFields, turns: _Turns) -> Iterator[str]:
    """Yield the values of the header ``anthropic-beta`` that a request needs."""
    if turns.changes_tools:
        yield TOOLS_BETA
    if "block_binding" in (body.get("thinking") or {}):
        yield BINDING_BETA
    if turns.has_summary or "compaction" in body:
        yield SUMMARY_BETA
    yield from (_EDIT_BETAS[word] for word in _edits(body) if word in _EDIT_BETAS)


def _is_summary(block: JsonFields) -> bool:
    """Return True for a summary that the server has signed; it replaces the messages before it."""
    return bool(block["type"] == "compaction" and block.get("signature") and block.get("content"))


def _may_hold_summary(blocks: object) -> bool:
    kinds = [get(block, "type") for block in blocks] if isinstance(blocks, list) else []
    return "compaction" in kinds


def _edits(body: JsonFields) -> list[str]:
    """Return the first word of each edit in ``context_management``: ``compact`` or ``clear``."""
    edits = (body.get("context_management") or {}).get("edits") or ()
    return [str(edit.get("type")).partition("_")[0] for edit in edits]


def _encoded(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


# -- content ---------------------------------------------------------------------------------------------


def _text(text: str) -> JsonObject:
    return {"type": "text", "text": text}


def _parts(content: Any) -> list[JsonObject]:
    """Return the blocks for a message's content; blank texts are omitted, because the server rejects them."""
    written = written_content(content, _text, _media)
    return [{**block, **_mark_of(part)} if part else block for part, block in written]


def _mark_of(part: JsonFields) -> JsonObject:
    """Return the caller's own cache mark on a part or a tool; empty if there is none."""
    return {"cache_control": part["cache_control"]} if part.get("cache_control") else {}


def _media(part: JsonFields) -> JsonObject | None:
    if part["type"] == "image_url":
        return {"type": "image", "source": _source(part["image_url"]["url"], "image/png")}
    if part["type"] == "file" and "file_id" in part["file"]:
        return {"type": "document", "source": {"type": "file", "file_id": part["file"]["file_id"]}}
    return _document(part["file"]) if part["type"] == "file" else None


def _document(file: JsonFields) -> JsonObject:
    source = _source(file["file_data"], "application/pdf")
    if source.get("media_type", "").startswith("text/"):
        data = base64.b64decode(source["data"]).decode("utf-8", "replace")
        source = {"type": "text", "media_type": "text/plain", "data": data}
    title = {"title": file["filename"]} if file.get("filename") else {}
    return {"type": "document", "source": source, **title}


def _source(url: str, default: str) -> JsonObject:
    parts = split_data_url(url)
    if parts is None:
        return {"type": "url", "url": url}
    return {"type": "base64", "media_type": parts[0] or default, "data": parts[1]}


# -- tools -----------------------------------------------------------------------------------------------


def _tool(tool: JsonFields) -> JsonObject:
    """Convert a chat-completions tool to this protocol; server tools stay unchanged."""
    function = tool.get("function")
    if not isinstance(function, Mapping):
        return dict(tool)
    written = {
        "name": function["name"],
        "input_schema": {"type": "object", **(function.get("parameters") or {})},
        **_mark_of(tool),
        **present(description=function.get("description") or None),
    }
    if function.get("strict"):
        written["strict"] = True
        written["input_schema"] = _strict(written["input_schema"])
    return written


def _tools_in(history: Iterable[Message]) -> list[JsonObject]:
    """Return stub tools for the calls in a history; the server rejects calls in a request without tools."""
    names = (call["function"]["name"] for m in history for call in m.get("tool_calls") or ())
    return [{"name": name, "input_schema": {"type": "object"}} for name in dict.fromkeys(names)]


def _changes(in_force: JsonFields, tools: Tools) -> list[JsonObject] | None:
    """Return the blocks that turn the current tools into `tools`; None if no blocks can do that."""
    wanted = {tool.get("name", ""): tool for tool in tools}
    if "" in wanted or "" in in_force:  # an entry without a name is a whole MCP server
        return None
    if any(_kind(in_force[name]) != _kind(tool) for name, tool in wanted.items() if name in in_force):
        return None
    new = [tool for name, tool in wanted.items() if in_force.get(name) != tool]
    if any(_kind(tool).startswith("computer") for tool in new):  # this type is only allowed in `tools`
        return None
    gone = [{"type": "tool_reference", "name": name} for name in in_force if name not in wanted]
    return [
        *({"type": "tool_removal", "tool": tool} for tool in gone),
        *({"type": "tool_addition", "tool": {"type": "tool_definition", "definition": t}} for t in new),
    ]


def _are_tools(value: object) -> bool:
    """Return True for a list of named tools, as in a request."""
    items = value if isinstance(value, list) else []
    return bool(items) and all(isinstance(tool, Mapping) and tool.get("name") for tool in items)


def _kind(tool: JsonFields) -> str:
    """Return the type of a tool without its version."""
    return str(tool.get("type") or "custom").rstrip("_0123456789")


def _apply(in_force: JsonObject, changes: Iterable[JsonFields]) -> None:
    """Apply changes to the current tools, in place."""
    for change in changes:
        tool = change["tool"]
        if change["type"] == "tool_removal":
            in_force.pop(tool.get("name"), None)
        elif "definition" in tool:
            in_force[tool["definition"]["name"]] = tool["definition"]


def _strict(schema: object) -> Any:
    """Convert a schema to the subset that constrained output accepts: closed objects, no limits on values."""
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


def _listed(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def is_closed(schema: Any, above: tuple[str, ...] = (), root: Any = None) -> bool:
    """Return True if constrained output can produce every valid value: no free keys, no recursion."""
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


def _has_marks(body: JsonFields) -> bool:
    """Return True if the caller has placed cache marks."""
    turns = [block for turn in body["messages"] for block in turn["content"]]
    blocks = [body, *body.get("tools", ()), *body.get("system", ()), *turns]
    # Inline comparisons instead of function calls, because a history may be long.
    contents = [block["content"] for block in blocks if "content" in block]
    blocks += [part for content in contents if content.__class__ is list for part in content]
    return bool([True for block in blocks if "cache_control" in block])


def _fit_open_round(body: JsonObject) -> None:
    """Make the newest response and the thinking options consistent, for models with a thinking budget.

    If the history ends with tool results, the response before them must begin with thinking while thinking is
    on, and must not hold any while thinking is off.
    """
    turns = body["messages"]
    if len(turns) < 2 or turns[-1]["content"][0].get("type") != "tool_result":
        return
    content = turns[-2]["content"]
    has_thinking = content[0].get("type") in _THINKING
    if (body.get("thinking") or {}).get("type") != "enabled":
        kept = [block for block in content if block.get("type") not in _THINKING]
        turns[-2] = {**turns[-2], "content": kept}
    elif not has_thinking:
        del body["thinking"]


def _mark(body: JsonObject) -> None:
    """Mark for the cache: the fixed prefix, the end of the history, and points between them."""
    fixed = body.get("system") or body.get("tools")
    marks = MAX_MARKS
    if isinstance(fixed, list):
        loaded = [number for number, block in enumerate(fixed) if not block.get("defer_loading")]
        for number in loaded[-1:]:  # a deferred tool is not part of the prefix
            fixed[number] = {**fixed[number], **CACHE_MARK}
            marks -= 1
    # Number of blocks since the last mark; starts high, so that the last block is marked.
    distance = MARK_EVERY
    turns = body["messages"]
    for place in range(len(turns) - 1, -1, -1):
        content = turns[place]["content"]
        for number in range(len(content) - 1, -1, -1):
            if distance >= MARK_EVERY and marks and content[number]["type"] not in _THINKING:
                content = [*content[:number], {**content[number], **CACHE_MARK}, *content[number + 1 :]]
                turns[place] = {**turns[place], "content": content}
                marks, distance = marks - 1, 0
            distance += 1
        if not marks:
            return

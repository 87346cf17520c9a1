"""Responses of the Responses protocol, decoded from bytes to deltas. Pure: no I/O.

Unknown items are kept and unknown events ignored; neither is an error. Some servers send an item without its
first event, without an index, or only at the end. If the final form of an item differs from its deltas, the
final form is used. Source of the event grammar: the types of the ``openai`` package 3.57.0 and the streaming
guide.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from pure_agent_loop.errors import ConfigError, ErrorKind, LLMError
from pure_agent_loop.llm.calls import RejectedArguments
from pure_agent_loop.llm.protocol_reader import ProtocolReader, checked_string, is_error
from pure_agent_loop.llm.responses.request import (
    CALL_TYPE,
    COMMENTARY,
    HELD,
    ITEMS,
    RESPONSE_ID,
    TOOLS,
    ServerHistory,
    add_to_digest,
    answer_of,
    text_of_item,
    text_parameter,
)
from pure_agent_loop.llm.values import Delta, JsonFields, JsonObject, TokenUsage, ToolCallDelta, count_of, get
from pure_agent_loop.llm.wire import parse_json
from pure_agent_loop.support.language import model_text
from pure_agent_loop.support.text import shorten

_REASONS = {"content_filter": "content_filter"}  # any other reason means a truncated response: ``length``
# Error kinds by the code of a failed response; other errors are classified by their messages.
_BUSY = ("server_error", "vector_store_timeout", "failed_to_download_image")
_BAD = (
    "invalid_prompt", "data_residency_mismatch", "bio_policy", "misalignment_policy_violation",
    "invalid_image", "invalid_image_format", "invalid_base64_image", "invalid_image_url", "image_too_large",
    "image_too_small", "image_parse_error", "image_content_policy_violation", "invalid_image_mode",
    "image_file_too_large", "unsupported_image_media_type", "empty_image_file", "image_file_not_found",
)  # fmt: skip
_KINDS: dict[str, ErrorKind] = {
    "rate_limit_exceeded": "rate_limit",
    **dict.fromkeys(_BUSY, "overloaded"),
    **dict.fromkeys(_BAD, "bad_request"),
}
_TEXTS = ("response.output_text.delta", "response.refusal.delta")
_WHOLE_TEXTS = ("response.output_text.done", "response.refusal.done")  # used if a server sends no deltas
_THOUGHTS = ("response.reasoning_summary_text.delta", "response.reasoning_text.delta")
_ENDS = ("response.completed", "response.incomplete", "response.failed", "response.done")
_NO_ITEM = -1  # output index used for deltas that lack one
_PLAIN = {
    "message": {"type", "id", "role", "status", "content"},
    "function_call": {"type", "id", "call_id", "name", "arguments", "status"},
    "custom_tool_call": {"type", "id", "call_id", "name", "input", "status"},
}
_CALLS = {"function_call": "arguments", "custom_tool_call": "input"}
_CALL_DELTAS = ("response.function_call_arguments.delta", "response.custom_tool_call_input.delta")
_RUNNING = ("queued", "in_progress")
# Item types that streamed pieces belong to, by kind of piece.
_STREAMED = {"text": ("message",), "thought": ("reasoning",), "arguments": tuple(_CALLS)}


class ResponsesReader(ProtocolReader):
    """Reader of a response; see `ProtocolReader`.

    Args:
        held: Part of the earlier history that the server holds, if the server stores responses.
        tools: Tool schemas of the request, in the chat-completions shape.
        record: Record of the new tools in the request; None if there are none.
    """

    def __init__(
        self,
        held: ServerHistory | None = None,
        tools: Sequence[JsonFields] | None = None,
        record: JsonFields | None = None,
    ) -> None:
        super().__init__()
        self.response_id = ""
        self.is_running = False  # True while the server is still working on the response
        self._held = held
        self._tools, self._record = tools or (), record
        self._items: dict[int, JsonObject] = {}  # complete items, by output index
        self._open: dict[int, dict[str, list[str]]] = {}  # streamed pieces of incomplete items
        self._calls: dict[int, int] = {}  # number of each call, by output index
        self._indexes: dict[
            Any, int
        ] = {}  # indexes of items by their ids, for events without an output index
        self._announced: dict[int, JsonFields] = {}  # newest form of each announced item
        self._comments: list[str] = []  # commentary held back until it is known what follows
        self._commented = _NO_ITEM  # index of the newest commentary
        self._has_answer = False  # True once text other than commentary has arrived
        self._custom: dict[int, str] = {}  # parameter name of each call of a custom tool, by output index

    def read_whole(self, response: object) -> Iterator[Delta]:
        """Read the state of a background response; if it has ended, yield its remaining deltas."""
        self.is_document, self._document = True, bytearray(json.dumps(response).encode())
        yield from self.close()

    def _whole(self, response: JsonFields) -> Iterator[Delta]:
        if response.get("status") in _RUNNING and response.get("id"):
            self._begin(response)
            return
        self.is_running = False
        if response.get("error"):
            raise error_of(response["error"])
        if not isinstance(response.get("output"), list):
            raise LLMError("The server's response is not one of the Responses API.", kind="incomplete")
        yield from self._end(response)

    def _begin(self, response: JsonFields) -> None:
        self.response_id = checked_string(response.get("id") or "")
        self.is_running = bool(self.response_id)

    def _end_of_stream(self) -> Iterator[Delta]:
        raise LLMError("The model's response ended early: the server sent no final event.", kind="incomplete")

    def _event(self, event: JsonFields) -> Iterator[Delta]:
        kind = event.get("type")
        if kind == "response.created":
            self._begin(event.get("response") or {})
        elif kind in _TEXTS or kind in _WHOLE_TEXTS:
            yield from self._text(event, is_whole=kind in _WHOLE_TEXTS)
        elif kind in _CALL_DELTAS:
            yield from self._arguments(self._index(event), checked_string(event.get("delta") or ""))
        elif kind in _THOUGHTS:
            thought = checked_string(event.get("delta") or "")
            self._streamed(self._index(event))["thought"].append(thought)
            yield Delta(reasoning=thought)
        elif kind == "response.reasoning_summary_part.added" and event.get("summary_index"):
            yield Delta(reasoning="\n\n")
        elif kind == "response.output_item.added" and event.get("item"):
            yield from self._added(self._index(event), event["item"])
        elif kind == "response.output_item.done" and event.get("item"):
            yield from self._complete(self._index(event), event["item"])
        elif kind in _ENDS:
            response = event.get("response") or {}
            yield from self._end({**response, "status": response.get("status") or kind.rpartition(".")[2]})
        elif is_error(event):
            raise error_of(event.get("error") or event)

    def _index(self, event: JsonFields, otherwise: int | None = None) -> int:
        """Return the output index of an event, even if the server sends only the item's id, or neither.

        Args:
            otherwise: Index to use for an unknown item; None for a new index.
        """
        index, item = event.get("output_index"), event.get("item") or {}
        if index in self._announced and not item:
            return int(index)
        names = [name for name in (item.get("call_id"), item.get("id"), event.get("item_id")) if name]
        known = [self._indexes[name] for name in names if name in self._indexes]
        if known and (
            index == known[0]
            or item == self._items.get(known[0])
            or not item
            or self._is_same(known[0], item)
        ):
            index = known[0]
        elif index is None:
            index = self._new_index() if otherwise is None and names else otherwise
        index = _NO_ITEM if index is None else int(index)
        self._indexes.update(dict.fromkeys(names, index))
        return index

    def _is_same(self, known: int, item: JsonFields) -> bool:
        """Return True if `item` is the item at the index `known`, which has the same id.

        Some servers give one id to several items, which differ in their types, call ids or texts.
        """
        before = self._announced.get(known, item)
        call_ids = {each["call_id"] for each in (before, item) if each.get("call_id")}
        is_other = known in self._items and text_of_item(before) != text_of_item(item)
        return before.get("type") == item.get("type") and len(call_ids) < 2 and not is_other

    def _new_index(self) -> int:
        return max((_NO_ITEM, *self._indexes.values(), *self._items, *self._open)) + 1

    def _streamed(self, index: int) -> dict[str, list[str]]:
        """Return the streamed pieces of an item. Some gateways neither announce an item nor send its id."""
        known = self._open if index not in self._items else {}
        return known.setdefault(index, {"text": [], "thought": [], "arguments": []})

    def _text(self, event: JsonFields, *, is_whole: bool) -> Iterator[Delta]:
        index = self._index(event)
        pieces = self._streamed(index)["text"]
        text = event.get("delta") or event.get("text") or event.get("refusal") or ""
        if index not in self._items and not (is_whole and pieces):
            pieces.append(checked_string(text))
            yield from self._say(index, text)

    def _say(self, index: int, text: str) -> Iterator[Delta]:
        """Yield text of the answer; hold back commentary, which is the answer only if no other text comes."""
        if self._announced.get(index, {}).get("phase") == COMMENTARY and not self._calls:
            is_next = self._comments and index != self._commented
            self._comments += ["\n\n", text] if is_next else [text]
            self._commented = index
            return
        self._has_answer = self._has_answer or bool(text.strip())
        if self._has_answer:
            yield from self._release()
        yield Delta(text)

    def _release(self) -> Iterator[Delta]:
        """Yield the commentary: as reasoning if there is an answer, else as text."""
        comments, self._comments = "".join(self._comments), []
        if comments:
            yield Delta(reasoning=comments) if self._has_answer else Delta(comments)

    def _added(self, index: int, item: JsonFields) -> Iterator[Delta]:
        streamed, is_call = self._streamed(index), item.get("type") in _CALLS
        self._announced[index] = item
        if is_call and item.get("name") and index not in self._calls:
            yield from self._release()
            self._calls[index] = number = len(self._calls)
            call_id = checked_string(item.get("call_id") or item.get("id") or "")
            name = checked_string(item["name"])
            begun, extra = "", None
            if item["type"] == "custom_tool_call":
                self._custom[index] = self._parameter(name)
                begun, extra = f'{{{json.dumps(self._custom[index])}: "', {CALL_TYPE: item["type"]}
            # Add the arguments that arrived before the name.
            begun += self._escaped(index, "".join(streamed["arguments"]))
            yield Delta(tool_calls=(ToolCallDelta(number, call_id, name, begun or None, extra),))

    def _parameter(self, name: str) -> str:
        """Return the parameter that receives a custom tool's text."""
        for tool in self._tools:
            if get(tool.get("function"), "name") == name:
                with suppress(ConfigError):  # without such a parameter, the tool rejects the call
                    return text_parameter(tool["function"])
        return "input"

    def _arguments(self, index: int, piece: str) -> Iterator[Delta]:
        self._streamed(index)["arguments"].append(piece)
        if index in self._calls and index not in self._items:  # a complete item already has all arguments
            yield self._piece(index, self._escaped(index, piece))

    def _escaped(self, index: int, piece: str) -> str:
        """Return a piece of arguments as JSON text, even for a custom tool."""
        return json.dumps(piece)[1:-1] if index in self._custom else piece

    def _piece(self, index: int, arguments: object) -> Delta:
        return Delta(tool_calls=(ToolCallDelta(self._calls[index], arguments=arguments),))

    def _complete(self, index: int, item: JsonFields) -> Iterator[Delta]:
        """Store a complete item; yield the parts that its deltas lacked."""
        if index in self._items:  # repeated
            if item.get("status"):
                self._items[index]["status"] = item["status"]
            return
        yield from self._added(index, item)
        streamed = {name: "".join(pieces) for name, pieces in self._open.pop(index).items()}
        loose = self._open.get(_NO_ITEM, {})
        self._items[index] = dict(item)
        kind = item.get("type")
        if kind in _CALLS and index not in self._calls:
            raise LLMError("The server sent a call without a name.", kind="incomplete")
        if kind in _CALLS:
            yield from self._rest(
                index, streamed["arguments"], item.get(_CALLS[kind]) or streamed["arguments"]
            )
        elif kind == "message" and not loose.get("text"):
            text = text_of_item(item)
            if text.startswith(streamed["text"]) and (rest := text[len(streamed["text"]) :]):
                yield from self._say(index, rest)
        elif kind == "reasoning" and not (streamed["thought"] or loose.get("thought")):
            parts = [*(item.get("summary") or ()), *(item.get("content") or ())]
            if thought := "\n\n".join(part["text"] for part in parts if part.get("text")):
                yield Delta(reasoning=thought)

    def _rest(self, index: int, streamed: str, final: str) -> Iterator[Delta]:
        """Yield the rest of a call's arguments, according to the final form of the call."""
        is_custom = index in self._custom
        rest = final[len(streamed) :]
        if is_custom and final.startswith(streamed):
            yield self._piece(index, json.dumps(rest)[1:-1] + '"}')
        elif is_custom:
            yield self._piece(index, {self._custom[index]: final})
        elif not final.startswith(streamed):
            yield self._piece(index, dict(parse_json(final.encode())))
        elif rest:
            yield self._piece(index, rest)

    def _end(self, response: JsonFields) -> Iterator[Delta]:
        status = response.get("status")
        self.is_running = False
        if status in ("failed", "cancelled") or response.get("error"):
            yield Delta(usage=_usage(response.get("usage")))
            raise error_of(response.get("error") or {"message": f"The response has status {status!r}."})
        if status in _RUNNING:
            raise LLMError("The server ended the stream of an unfinished response.", kind="incomplete")
        places: dict[int, int] = {}
        for place, item in enumerate(response.get("output") or ()):
            if item is None:
                continue
            index = self._index({"item": item}, place)
            is_named = bool(item.get("call_id") or item.get("id"))
            if (index in places and not (is_named and self._is_same(index, item))) or not self._fits(
                index, item
            ):
                index = self._new_index()
            places[index] = place
            yield from self._complete(index, item)  # does nothing if an event has already completed the item
        yield from self._release()
        yield from self._unfinished(is_cut=status == "incomplete")
        if not self._calls and any(pieces["arguments"] for pieces in self._open.values()):
            raise LLMError("The server sent the arguments of a call without the call.", kind="incomplete")
        reason = "tool_calls" if self._calls else "stop"
        if status == "incomplete":
            reason = _REASONS.get(str(get(response.get("incomplete_details"), "reason")), "length")
        self._items = {n: self._items[n] for n in sorted(self._items, key=lambda n: places.get(n, n))}
        items = list(self._items.values())
        self.is_done = True
        is_known = self._open.keys() <= {_NO_ITEM}  # False if the final list lacks items that are still open
        extra: JsonObject = {ITEMS: items} if is_known and not all(map(_is_plain, items)) else {}
        if self._record is not None:
            extra[TOOLS] = self._record
        if self._held is not None and status == "completed" and response.get("id"):
            digest = self._held.digest.copy()
            add_to_digest(digest, self._message())
            extra |= {RESPONSE_ID: str(response["id"]), HELD: digest.hexdigest()}
        yield Delta(finish_reason=reason, usage=_usage(response.get("usage")), extra=extra or None)

    def _fits(self, index: int, item: JsonFields) -> bool:
        """Return True if the pieces streamed at an index can belong to an item."""
        streamed = self._open.get(index, {})
        return all(item.get("type") in _STREAMED[name] for name, pieces in streamed.items() if pieces)

    def _unfinished(self, *, is_cut: bool) -> Iterator[Delta]:
        """Reject the calls that the model has not finished writing, whatever their arguments are."""
        for index in self._calls:
            item = self._items.get(index)
            if is_cut if item is None else item.get("status") in ("incomplete", "in_progress"):
                written = shorten(str((item or {}).get("arguments") or ""), 200)
                reason = model_text("cut_off", reason="incomplete", written=written)
                yield self._piece(index, RejectedArguments(reason))

    def _message(self) -> JsonObject:
        """Return the message that the history will hold for the response."""
        calls = []
        for index, item in self._items.items():
            if item.get("type") in _CALLS:
                custom = {self._custom.get(index, ""): item.get("input") or ""}
                arguments = json.dumps(custom) if index in self._custom else item.get("arguments") or "{}"
                function = {"name": item.get("name"), "arguments": arguments}
                calls.append({"id": item.get("call_id") or "", "function": function})
        return {"role": "assistant", "content": answer_of(self._items.values()), "tool_calls": calls}


def _is_plain(item: JsonFields) -> bool:
    """Return True if the text and the calls contain everything that an item holds."""
    named = {name for name, value in item.items() if value is not None}
    if named - _PLAIN.get(str(item.get("type")), set()):
        return False
    return not any(part.get("annotations") for part in item.get("content") or ())


def _usage(usage: object) -> TokenUsage | None:
    if not isinstance(usage, Mapping):
        return None
    prompt, written = count_of(usage, "input_tokens") or 0, count_of(usage, "output_tokens") or 0
    cached = count_of(usage.get("input_tokens_details"), "cached_tokens")
    thought = count_of(usage.get("output_tokens_details"), "reasoning_tokens")
    stored = count_of(usage.get("input_tokens_details"), "cache_write_tokens")
    total = count_of(usage, "total_tokens") or prompt + written
    return TokenUsage(prompt, written, total, thought, cached, cache_write_tokens=stored)


def error_of(error: object) -> LLMError:
    """Return the error that a server sent in place of a response."""
    from pure_agent_loop.llm.failures import error_from_body  # loaded only after a failure

    failure = error_from_body(error)
    failure.kind = _KINDS.get(str(get(error, "code")), failure.kind)
    return failure

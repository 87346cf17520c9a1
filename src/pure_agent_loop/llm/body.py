"""The body of an answer: bytes to deltas, whether it is a stream of events or one document. Pure: no I/O."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pure_agent_loop.errors import LLMError
from pure_agent_loop.llm.sse import BOM, SSEDecoder
from pure_agent_loop.llm.values import Delta, get
from pure_agent_loop.llm.wire import (
    CLOSED,
    choice_index,
    first_choice,
    parse_chunk,
    parse_completion,
    parse_json,
)

DONE = b"[DONE]"
_WHITE = b" \t\r\n"


class BodyReader:
    """Deltas from the body of an answer: a stream of events, or one JSON document, whichever it is.

    Servers are not always asked for what they send, nor do they always label it rightly; so the first
    bytes decide.

    Args:
        content_type: As the server labelled it.
    """

    def __init__(self, content_type: str = "") -> None:
        self.is_done = False  # nothing that follows belongs to the answer
        self._labelled_html = "html" in content_type.lower()
        self._kind = ""  # "events" or "document", once it is known
        self._document: list[bytes] = []
        self._decoder = SSEDecoder()
        self._has_finished = self._has_written = False
        self._choice: int | None = None  # the answer that is read, where a server sends several

    def feed(self, data: bytes) -> Iterator[Delta]:
        """Take in bytes; yield the deltas they complete.

        Raises:
            LLMError: They cannot be read, or say that the request failed.
        """
        if not self._kind:
            data = data.lstrip(_WHITE + BOM)  # may come in pieces, and means nothing
            self._kind = self._look_at(data)
        if self._kind == "document":
            self._document.append(data)
        elif self._kind and not self.is_done:
            yield from self._read(self._decoder.feed(data))

    def close(self) -> Iterator[Delta]:
        """Yield what was held back, once the body has ended. Raises what `feed` raises."""
        if self._kind == "document":
            data = parse_json(b"".join(self._document))
            yield parse_completion(data)._replace(raw=data)
        elif not self.is_done:
            yield from self._read(self._decoder.flush())

    def _look_at(self, data: bytes) -> str:
        first = data[:1]
        if first == b"<" or (self._labelled_html and first and first not in b"{[:deir"):
            raise LLMError(
                "The server answered with a web page instead of an API answer. "
                "Check base_url; it usually ends in /v1.",
                kind="bad_request",
            )
        if first and first in b"{[":
            return "document"
        return "events" if first else ""

    def _read(self, payloads: Iterator[bytes]) -> Iterator[Delta]:
        for payload in payloads:
            text = payload.strip()
            if text == DONE:
                self.is_done = True
                # It is a finish signal too, for servers that send no finish reason with their answer.
                if self._has_written and not self._has_finished:
                    yield Delta(finish_reason=CLOSED)
                return
            if text:
                yield self._delta(parse_json(text))

    def _delta(self, data: Mapping[str, Any]) -> Delta:
        text = _only_text(data)
        if text and not self._choice:
            self._has_written, self._choice = True, 0
            return Delta(text)
        delta = parse_chunk(data)
        choice = first_choice(data)
        index = choice_index(choice)
        if index is not None:
            self._choice = index if self._choice is None else self._choice
            if index != self._choice:
                return Delta(usage=delta.usage)
        if self._has_written and _is_summary(choice):
            delta = delta._replace(text="", reasoning="", tool_calls=())
        self._has_finished = self._has_finished or delta.finish_reason is not None
        self._has_written = self._has_written or bool(delta.text or delta.tool_calls)
        return delta


def _only_text(data: Mapping[str, Any]) -> str:
    """The text of a chunk that carries nothing else, empty for any other: nearly all chunks are such."""
    choices = data.get("choices")
    if type(choices) is not list or len(choices) != 1:
        return ""
    choice = choices[0]
    delta = choice.get("delta") if type(choice) is dict else None
    if type(delta) is not dict:
        return ""
    content = delta.get("content")
    if type(content) is not str or data.get("usage") or data.get("error"):
        return ""
    # One with an index is not the first of several answers.
    if choice.get("finish_reason") is not None or choice.get("usage") or choice.get("index"):
        return ""
    return "" if any(delta[key] for key in delta if key not in ("content", "role")) else content


def _is_summary(choice: Any) -> bool:
    """True for a chunk that repeats the whole answer, as some servers send at the end of their stream."""
    return choice is not None and not get(choice, "delta") and bool(get(choice, "message"))

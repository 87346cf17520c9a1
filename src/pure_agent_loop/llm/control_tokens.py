"""Break up control tokens in request data, and restore them in responses. Pure: no I/O.

Servers of open models turn the text ``<|im_end|>`` into the token that ends a turn, even if it comes from a
person, a file or a tool. With a joiner after its first character, it stays plain text. The joiner is U+2060
(word joiner): invisible, without effect on shapes or line breaks, kept by tokenizers, and rare in text.

A token that already holds joiners gets one more, and exactly one is removed again, so a round trip changes
nothing. Characters may be JSON escapes of any depth: text and raw JSON are treated alike.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import lru_cache

from pure_agent_loop.llm.profiles import CONTROL_TOKENS
from pure_agent_loop.llm.values import Delta, JsonFields, JsonObject, ToolCallDelta
from pure_agent_loop.support.lazy import lazy_pattern
from pure_agent_loop.support.parsing import read_json
from pure_agent_loop.support.text import to_jsonable

JOINER = "\u2060"
JOINER_BYTES = JOINER.encode()
_JOINER = rf"(?:{JOINER}|\\+u2060)"
_JOINED = lazy_pattern(_JOINER)
_ESCAPED = "<>&|'+"  # ASCII characters that some JSON writers escape needlessly
_HEX = r"[0-9a-fA-F]"
# Pattern for `*` in a token. At most 64 characters, so that little text has to be buffered.
_NOT_ANY = "2060|003[cCeE]|007[cC]|005[bBdD]|[fF]{2}5[cC]|00(?:0[89aAcCdD]|20)"
_ANY = rf"""(?:[^ \t\n\r\f\b<>|｜\[\]\\{JOINER}]|\\+(?:["/]|u(?!{_NOT_ANY}){_HEX}{{4}})){{1,64}}"""
_MESSAGE_FIELDS = frozenset(
    {"content", "name", "tool_calls", "tool_call_id", "reasoning_content", "reasoning"}
)
_CALL_FIELDS = frozenset({"id", "function", "name", "arguments"})
_HELD = 700  # maximum characters of a token, escapes included
_SEEN = 16  # maximum characters of an escaped first character


def _hex(character: str) -> str:
    return "".join(f"[{x}{x.upper()}]" if x.isalpha() else x for x in f"{ord(character):04x}")


def _spelled(character: str) -> str:
    """Return a pattern for a character, plain or JSON-escaped."""
    if character == "*":
        return _ANY
    if character in '"/':
        return rf"\\*{character}"
    may_be_escaped = character in _ESCAPED or not character.isascii()
    plain = re.escape(character)
    return rf"(?:{plain}|\\+u{_hex(character)})" if may_be_escaped else plain


class ControlTokens:
    """Breaks up and restores the tokens of one table.

    Args:
        tokens: See `Profile.control_tokens`.
    """

    def __init__(self, tokens: Sequence[str]) -> None:
        rests: dict[str, list[str]] = {}
        for token in tokens:
            rests.setdefault(token[0], []).append("".join(map(_spelled, token[1:])))
        firsts = "".join(map(re.escape, rests))
        # A leading character set makes the search fast; the first character may also be escaped.
        head = rf"([{firsts}\\](?:(?<!\\)|(?<=\\)\\*u{_HEX}{{4}}))"
        bodies = [
            rf"(?:(?<={re.escape(first)})|(?<=u{_hex(first)})){_JOINER}*(?:{'|'.join(rest)})"
            for first, rest in rests.items()
        ]
        self._token = lazy_pattern(rf"{head}({'|'.join(bodies)})")
        seconds: dict[str, set[str]] = {first: {JOINER} for first in rests}
        for token in tokens:
            seconds[token[0]] |= {token[1], "\\"} if token[1] in '"/' else {token[1]}
        # One pattern per first character, because searching for a literal is much faster than for a set.
        self._starts = {
            first: re.compile(re.escape(first) + ("." if "*" in those else f"[{re.escape(''.join(those))}]"))
            for first, those in seconds.items()
        }
        self._partial_token = lazy_pattern(
            rf"{head}(?:{_JOINER}+\S{{0,{_HELD}}}|\\+(?:u(?:2(?:0(?:60?)?)?)?)?)\Z"
        )

    def broken(self, text: str) -> str:
        """Return text or JSON with all tokens broken up."""
        return self._token.sub(rf"\1{JOINER}\2", text)

    def mended(self, text: str) -> str:
        """Restore the tokens in a string; the reverse of `broken`."""
        return self._token.sub(_without_joiner, text)

    def pieces(self, text: str) -> list[str]:
        """Return the pieces of text between tokens, without white space around them."""
        return [piece.strip() for piece in self._token.sub("\0", text).split("\0")]

    def are_in(self, encoded: bytes) -> bool:
        """Return True if a request, encoded as JSON, contains a token anywhere."""
        return self._holds_token(encoded.decode())

    def break_request(self, body: JsonObject, history: Sequence[JsonFields]) -> None:
        """Break up the tokens in the messages and tools of a request, in place.

        Tokens at the start of the system prompt are kept, because some models are controlled by one there
        (``<|think|>``).

        Args:
            history: The messages before the profile was applied.
        """
        import pydantic_core as core

        parts = [body["messages"], body.get("tools")]
        try:
            text = core.to_json(parts, inf_nan_mode="null").decode()
        except (core.PydanticSerializationError, UnicodeEncodeError, ValueError):
            text = json.dumps(to_jsonable(parts), ensure_ascii=False)
        if not self._holds_token(text):
            return
        messages, tools = read_json(self.broken(text))
        for kept, message in zip(body["messages"], messages, strict=True):
            _restore(message, kept, _MESSAGE_FIELDS)
            for own_call, call in zip(
                kept.get("tool_calls") or (), message.get("tool_calls") or (), strict=True
            ):
                _restore(call, own_call, _CALL_FIELDS)
                _restore(call["function"], own_call["function"], _CALL_FIELDS)
        own = self._lead(history[0]) if messages else ""
        if own and isinstance(first := messages[0]["content"], str):
            messages[0]["content"] = own + first.removeprefix(self.broken(own))
        body["messages"] = messages
        if tools:
            body["tools"] = tools

    def _holds_token(self, text: str) -> bool:
        return self._may_hold_token(text) and self._token.search(text) is not None

    def _may_hold_token(self, text: str) -> bool:
        """Return False if no token can begin in a string; much faster than a search for whole tokens."""
        starts = self._starts.items()
        return "\\u" in text or any(first in text and start.search(text) for first, start in starts)

    def _lead(self, message: JsonFields) -> str:
        """Return the control tokens at the start of a system prompt."""
        text, end = message.get("content"), 0
        if message["role"] not in ("system", "developer") or not isinstance(text, str):
            return ""
        while (token := self._token.match(text, end)) is not None:
            end = token.end()
        return text[:end]

    def mender(self) -> TokenMender:
        """Return an object that restores the tokens of one response."""
        return TokenMender(self)

    def mend_part(self, text: str, start: int) -> tuple[str, str]:
        """Restore tokens in unfinished text; return it, and separately an end that may be a partial token.

        Args:
            start: Index before which no text is held back.
        """
        end = 0
        for token in self._token.finditer(text):
            end = token.end()
        partial = self._partial_token.search(text, max(end, len(text) - _HELD))
        end = len(text) if partial is None else max(start, partial.end(1))
        return self.mended(text[:end]), text[end:]


class TokenMender:
    """Restores the tokens in a streamed response: `take` each delta, then `finish`."""

    def __init__(self, tokens: ControlTokens) -> None:
        self._tokens = tokens
        self._text, self._reasoning = _RestoredText(tokens), _RestoredText(tokens)
        self._calls: dict[int | None, _RestoredText] = {}

    def take(self, delta: Delta) -> Delta:
        """Return the delta without added joiners; a possible partial token is buffered."""
        text, reasoning = self._text.feed(delta.text), self._reasoning.feed(delta.reasoning)
        return delta._replace(
            text=text, reasoning=reasoning, tool_calls=tuple(map(self._part, delta.tool_calls))
        )

    def finish(self) -> Delta:
        """Return the buffered text."""
        calls = [(index, mended.flush()) for index, mended in self._calls.items()]
        parts = tuple(ToolCallDelta(index, arguments=rest) for index, rest in calls if rest)
        return Delta(self._text.flush(), self._reasoning.flush(), parts)

    def _part(self, part: ToolCallDelta) -> ToolCallDelta:
        arguments = part.arguments
        if isinstance(arguments, str):
            arguments = self._calls.setdefault(part.index, _RestoredText(self._tokens)).feed(arguments)
        elif type(arguments) is dict:  # an object with duplicate keys is rejected anyway
            arguments = read_json(self._tokens.mended(json.dumps(arguments)))
        return replace(part, name=part.name and self._tokens.mended(part.name), arguments=arguments)


class _RestoredText:
    """One text of a response, restored piece by piece."""

    def __init__(self, tokens: ControlTokens) -> None:
        self._tokens = tokens
        self._seen = self._held = ""

    def feed(self, text: str) -> str:
        if self._held or JOINER in text or "\\" in text:
            return self._give(self._held + text, is_last=False)
        if text:
            self._seen = (self._seen + text)[-_SEEN:]
        return text

    def flush(self) -> str:
        return self._give(self._held, is_last=True) if self._held else ""

    def _give(self, text: str, *, is_last: bool) -> str:
        start, whole = len(self._seen), self._seen + text
        known, self._held = (
            (self._tokens.mended(whole), "") if is_last else self._tokens.mend_part(whole, start)
        )
        # Keep only what follows the last joiner, because restored text must not be restored again.
        self._seen = _JOINED.split(known[-_SEEN:])[-1]
        return known[start:]


def _restore(broken: JsonObject, kept: JsonFields, ours: frozenset[str]) -> None:
    """Restore tokens in the fields that a server added, because the server may have signed the fields."""
    broken.update({name: value for name, value in kept.items() if name not in ours})


def _without_joiner(token: re.Match[str]) -> str:
    joined = _JOINED.match(token[2])
    return token[1] + token[2][joined.end() :] if joined else token[0]


def meant_name(name: str, known: Callable[[str], object]) -> str:
    """Return the name of the tool meant by a name with control tokens or a protocol namespace.

    Args:
        name: The name as received: ``look<|channel|>commentary`` or
            ``assistant<|channel|>commentary to=functions.look``.
        known: Returns a true value if a tool of that name exists.

    Returns:
        The name of the only tool that matches; else `name` itself.
    """
    tokens = control_tokens(None)
    pieces = [] if tokens is None or known(name) else tokens.pieces(name)
    words = {piece.rpartition("to=")[2].removeprefix("functions.") for piece in pieces}
    meant = [word for word in words if word and known(word)]
    return meant[0] if len(meant) == 1 else name


def meant_arguments(text: str) -> str:
    """Return the JSON object between control tokens if there is exactly one; else an empty string."""
    tokens = control_tokens(None)
    pieces = [] if tokens is None else tokens.pieces(text)
    objects = [piece for piece in pieces if piece.startswith("{")]
    others = [piece for piece in pieces if not piece.startswith("{")]
    is_clear = len(objects) == 1 and all(re.fullmatch(r"[\w .=-]{0,80}", piece) for piece in others)
    return objects[0] if is_clear else ""


@lru_cache(maxsize=32)
def _cached_tokens(tokens: tuple[str, ...] | None) -> ControlTokens | None:
    table = CONTROL_TOKENS if tokens is None else tokens
    return ControlTokens(table) if table else None


# The cached function itself, without a wrapper, because it is called for each request.
control_tokens: Callable[[Collection[str] | None], ControlTokens | None] = _cached_tokens  # type: ignore[assignment] # a tuple

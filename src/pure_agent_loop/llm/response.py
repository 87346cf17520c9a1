"""One whole answer, and how it is put together from whatever a server streams. Pure: no I/O.

Rules of the assembler:

1.  Text and reasoning are joined in order; ``<think>`` tags in the text become reasoning.
2.  A fragment of a call belongs to the call with its index, unless it clearly starts another one.
3.  A fragment without index and id goes on with the last call, unless it brings a new name after
    complete arguments.
4.  The order of the calls is the order of their first fragments; ids are unique, made up if missing.
5.  Arguments are parsed once, at the end; what does not parse is marked, never guessed.
6.  Calls make the finish reason ``tool_calls``, whatever the server said, unless it was cut off.
7.  An answer without any finish reason is not an answer: `finish` raises.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pure_agent_loop.errors import LLMError
from pure_agent_loop.llm.arguments import loads_strictly, parse_arguments
from pure_agent_loop.llm.think import ThinkSplitter
from pure_agent_loop.llm.values import Delta, TokenUsage, ToolCall, ToolCallDelta, as_mapping
from pure_agent_loop.llm.wire import parse_chunk
from pure_agent_loop.text import clean_text

FINISH_REASONS = {"function_call": "tool_calls", "max_tokens": "length", "end_turn": "stop", "eos": "stop"}
CUT_OFF = ("length", "content_filter")
_HIGH_SURROGATE = re.compile("[\ud800-\udbff]$")


@dataclass(frozen=True, slots=True)
class LLMResponse:
    """One whole answer of a model.

    Args:
        content: The text, or None if there was none.
        tool_calls: The calls it asked for, in order.
        usage: Tokens of this request, or None where the server did not say.
        raw: Whatever the client wants to keep of the original answer; not used by the loop.
        reasoning_content: The thinking, or None.
        finish_reason: ``stop``, ``tool_calls``, ``length``, ``content_filter``, or None.
    """

    content: str | None
    tool_calls: list[ToolCall] = field(default_factory=list)
    usage: TokenUsage | None = None
    raw: Any = None
    reasoning_content: str | None = None
    finish_reason: str | None = None

    @property
    def has_tool_calls(self) -> bool:
        """True if the model asked for at least one tool."""
        return bool(self.tool_calls)

    @classmethod
    def from_openai(cls, response: Any) -> LLMResponse:
        """Read a whole (not streamed) chat completion, given as the SDK's object or as a dict.

        Raises:
            LLMError: It holds no choice, or an error object instead of one.
        """
        data = as_mapping(response)
        if not data.get("choices") and not data.get("error"):
            raise LLMError("The server answered without any choice.", kind="incomplete")
        assembler = Assembler()
        assembler.feed(parse_chunk(data)._replace(raw=response))
        return assembler.finish()

    def to_delta(self) -> Delta:
        """The whole answer as one delta: how a client without streaming takes part in a streamed run."""
        calls = tuple(
            ToolCallDelta(
                i, call.id, call.name, call.arguments if call.invalid is None else _Marked(call.invalid)
            )
            for i, call in enumerate(self.tool_calls)
        )
        finish = self.finish_reason or ("tool_calls" if calls else "stop")
        return Delta(self.content or "", self.reasoning_content or "", calls, finish, self.usage, self.raw)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON form, without `raw`."""
        return {
            "content": self.content,
            "tool_calls": [call.to_dict() for call in self.tool_calls],
            "usage": None if self.usage is None else self.usage.to_dict(),
            "reasoning_content": self.reasoning_content,
            "finish_reason": self.finish_reason,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> LLMResponse:
        """The reverse of :meth:`to_dict`."""
        usage = data.get("usage")
        return cls(
            content=data.get("content"),
            tool_calls=[ToolCall.from_dict(call) for call in data.get("tool_calls", ())],
            usage=None if usage is None else TokenUsage.from_dict(usage),
            reasoning_content=data.get("reasoning_content"),
            finish_reason=data.get("finish_reason"),
        )


@dataclass(frozen=True, slots=True)
class _Marked:
    """Arguments that a client already found unusable, with its reason."""

    reason: str


@dataclass(slots=True)
class _OpenCall:
    """A call whose fragments are still coming in."""

    index: int | None
    id: str = ""
    name: str = ""
    pieces: list[str] = field(default_factory=list)
    whole: Any = None  # arguments that came as an object

    def add(self, part: ToolCallDelta) -> None:
        self.id = self.id or part.id or ""
        if part.name and part.name != self.name:
            # A name comes once, repeated, growing, or (rarely) in pieces.
            self.name = part.name if part.name.startswith(self.name) else self.name + part.name
        if isinstance(part.arguments, str):
            if part.arguments:
                self.pieces.append(part.arguments)
        elif part.arguments is not None:
            self.whole = part.arguments

    @property
    def has_arguments(self) -> bool:
        return self.whole is not None or bool(self.pieces)

    @property
    def is_complete(self) -> bool:
        """True if the arguments so far are a whole JSON object."""
        return self.whole is not None or _is_object("".join(self.pieces))

    def arguments(self) -> tuple[dict[str, Any], str | None]:
        if isinstance(self.whole, _Marked):
            return {}, self.whole.reason
        if self.whole is not None:
            return parse_arguments(self.whole)
        parsed, invalid = parse_arguments("".join(self.pieces))
        if invalid and len(self.pieces) > 1 and self.pieces[-1].startswith(self.pieces[-2]):
            return parse_arguments(self.pieces[-1])  # the server repeats all of it in each fragment
        return parsed, invalid


def _is_object(text: str) -> bool:
    if not text.rstrip().endswith("}"):
        return False
    try:
        return isinstance(loads_strictly(text), dict)
    except (ValueError, RecursionError):
        return False


class Assembler:
    """Puts the deltas of one answer together.

    `feed` each delta as it comes (it returns what a reader may be shown), then `finish`.
    """

    def __init__(self) -> None:
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._calls: list[_OpenCall] = []
        self._think = ThinkSplitter()
        self._held = ""  # a high surrogate that waits for its other half in the next delta
        self._finish_reason: str | None = None
        self._usage: TokenUsage | None = None
        self._raw: Any = None

    def feed(self, delta: Delta) -> Delta:
        """Take in one delta.

        Returns:
            What may be shown: clean text and reasoning, with tags and torn characters held back.
        """
        text, reasoning = self._split(delta.text)
        reasoning = clean_text(delta.reasoning) + reasoning
        if text:
            self._text.append(text)
        if reasoning:
            self._reasoning.append(reasoning)
        for part in delta.tool_calls:
            self._add_call_part(part)
        self._finish_reason = delta.finish_reason or self._finish_reason
        self._usage = delta.usage or self._usage
        self._raw = self._raw if delta.raw is None else delta.raw
        return delta._replace(text=text, reasoning=reasoning)

    def flush(self) -> Delta:
        """Give out what `feed` held back, once no more deltas come."""
        held, self._held = self._held, ""
        text, reasoning = self._think.feed(clean_text(held))
        more_text, more_reasoning = self._think.flush()
        shown = Delta(text + more_text, reasoning + more_reasoning)
        self._text.append(shown.text)
        self._reasoning.append(shown.reasoning)
        return shown

    def partial(self) -> LLMResponse:
        """What has come so far, without judging it: calls are left out."""
        text, reasoning = self._joined()
        return LLMResponse(text or None, [], self._usage, self._raw, reasoning or None, self._finish_reason)

    def finish(self) -> LLMResponse:
        """The whole answer.

        Raises:
            LLMError: The stream ended without saying that the answer was finished (``incomplete``).
        """
        self.flush()
        if self._finish_reason is None:
            raise LLMError(
                "The model's answer ended early: the server closed it without a finish reason.",
                kind="incomplete",
            )
        calls = self._finished_calls()
        reason = FINISH_REASONS.get(self._finish_reason, self._finish_reason)
        if calls and reason not in CUT_OFF:
            reason = "tool_calls"
        text, reasoning = self._joined()
        return LLMResponse(text or None, calls, self._usage, self._raw, reasoning or None, reason)

    def _joined(self) -> tuple[str, str]:
        text, reasoning = "".join(self._text), "".join(self._reasoning)
        # A lone closing tag: the template opened the thinking in the prompt, so it began unmarked.
        before, closing, after = text.partition(self._think.CLOSE)
        if closing and self._think.OPEN not in before:
            return after.lstrip("\n"), before.strip("\n") + reasoning
        return text, reasoning

    def _split(self, text: str) -> tuple[str, str]:
        if not text and not self._held:
            return "", ""
        text, self._held = self._held + text, ""
        if _HIGH_SURROGATE.search(text):
            text, self._held = text[:-1], text[-1]
        return self._think.feed(clean_text(text))

    def _add_call_part(self, part: ToolCallDelta) -> None:
        call = self._call_for(part)
        if call is None:
            call = _OpenCall(part.index)
            self._calls.append(call)
        call.add(part)

    def _call_for(self, part: ToolCallDelta) -> _OpenCall | None:
        """The call this fragment goes on with, or None if it starts a new one."""
        if not self._calls:
            return None
        if part.index is None:
            call = next((c for c in reversed(self._calls) if part.id and c.id == part.id), self._calls[-1])
        else:
            same = [c for c in self._calls if c.index == part.index]
            if not same:
                return None
            call = same[-1]
        return None if _starts_another(call, part) else call

    def _finished_calls(self) -> list[ToolCall]:
        calls: list[ToolCall] = []
        used: set[str] = set()
        for number, open_call in enumerate(self._calls, 1):
            arguments, invalid = open_call.arguments()
            call_id = unique_id(clean_text(open_call.id) or f"call_{number}", used)
            calls.append(
                ToolCall(call_id, clean_text(open_call.name), arguments, invalid and clean_text(invalid))
            )
        return calls


def unique_id(wanted: str, used: set[str]) -> str:
    """`wanted`, or `wanted` with a number behind it if it is taken; the result is added to `used`."""
    candidate, number = wanted, 1
    while candidate in used:
        number += 1
        candidate = f"{wanted}_{number}"
    used.add(candidate)
    return candidate


def _starts_another(call: _OpenCall, part: ToolCallDelta) -> bool:
    """Decide whether a fragment that could belong to `call` really begins a new one (rules 2 and 3)."""
    if not part.name:
        return False  # nothing new is named, whatever the id says
    new_id = bool(part.id) and bool(call.id) and part.id != call.id
    if call.is_complete:
        return new_id or bool(part.arguments)
    if call.has_arguments:
        return part.name != call.name
    if new_id:
        return part.name != call.name or not part.arguments
    return False

"""One whole answer, and how it is put together from whatever a server streams. Pure: no I/O.

Rules of the assembler:

1.  Text and reasoning are joined in order; ``<think>`` tags in the text become reasoning.
2.  Fragments of calls are sorted as `calls` says; arguments that do not parse are marked, never guessed.
3.  Calls make the finish reason ``tool_calls``, whatever the server said, unless it was cut off.
4.  An answer without any finish reason is not an answer, nor is one whose reason is a failure of the
    server: `finish` raises.
5.  White space alone is no content.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, Mapping
from dataclasses import field, replace
from typing import Any

from pure_agent_loop.errors import LLMError
from pure_agent_loop.llm.calls import CallGatherer, Marked, unique_id
from pure_agent_loop.llm.think import ThinkSplitter, split_unopened
from pure_agent_loop.llm.values import NOTHING, Delta, TokenUsage, ToolCall, ToolCallDelta
from pure_agent_loop.llm.wire import CLOSED, parse_completion
from pure_agent_loop.support.text import clean_text
from pure_agent_loop.support.typed import dataclass

__all__ = ["Assembler", "LLMResponse", "assembled", "unique_id"]

OUTPUT_LIMIT = "output_limit"  # cut off, and not to be gone on with
CUT_OFF = ("length", "content_filter", OUTPUT_LIMIT)
_REASONS = {  # as servers say it, in lower case -> as the rest of the package knows it
    "stop": "stop end end_turn eos eos_token stop_sequence complete completed",
    "tool_calls": "function_call function_calls tool_call tool_use",
    "length": "max_tokens max_output_tokens model_length model_context_window_exceeded",
    "content_filter": "content_filtered safety recitation blocklist prohibited_content sensitive refusal",
}
FINISH_REASONS = {theirs: ours for ours, words in _REASONS.items() for theirs in words.split()}
# The server gave up: what it wrote so far is no answer.
FAILED = (
    "error",
    "network_error",
    "abort",
    "cancel",
    "timeout",
    "insufficient_system_resource",
    "malformed_function_call",
    "function_call_filter",
)


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
        """Read a whole (not streamed) chat completion: a dict, or an object like the SDK's.

        Raises:
            LLMError: It holds no choice, or an error object instead of one.
        """
        assembler = Assembler()
        assembler.feed(parse_completion(response)._replace(raw=response))
        return assembler.finish()

    def to_delta(self) -> Delta:
        """The whole answer as one delta: how a client without streaming takes part in a streamed run."""
        calls = tuple(
            ToolCallDelta(
                i, call.id, call.name, call.arguments if call.invalid is None else Marked(call.invalid)
            )
            for i, call in enumerate(self.tool_calls or ())
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


class _Pairs:
    """Joins surrogates that were cut between two pieces of text, and replaces lone ones."""

    def __init__(self) -> None:
        self._held = ""

    def feed(self, text: str) -> str:
        """More text; what comes back ends with a whole character."""
        if not text:
            return text
        text, self._held = self._held + text, ""
        if text and "\ud800" <= text[-1] <= "\udbff":
            text, self._held = text[:-1], text[-1]
        return clean_text(text)

    def flush(self) -> str:
        """What was held back."""
        if not self._held:
            return ""
        held, self._held = self._held, ""
        return clean_text(held)


class _Cleaner:
    """Makes of text and reasoning what may be shown, with tags and torn characters held back."""

    def __init__(self) -> None:
        self._think = ThinkSplitter()
        self._text, self._reasoning = _Pairs(), _Pairs()

    @property
    def has_opened(self) -> bool:
        """True if there was thinking in the text."""
        return self._think.has_opened

    def feed(self, text: str, reasoning: str) -> tuple[str, str]:
        """More of both."""
        text, thinking = self._think.feed(self._text.feed(text))
        reasoning = self._reasoning.feed(reasoning)
        return text, reasoning + thinking if thinking else reasoning

    def flush(self) -> tuple[str, str]:
        """What was held back."""
        text, thinking = self._think.feed(self._text.flush())
        more_text, more_thinking = self._think.flush()
        return text + more_text, self._reasoning.flush() + thinking + more_thinking


class Assembler:
    """Puts the deltas of one answer together.

    `feed` each delta as it comes (it returns what a reader may be shown), then `finish`.
    """

    def __init__(self) -> None:
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._calls: CallGatherer | None = None
        self._cleaner: _Cleaner | None = None  # like the calls, not before there is something for it
        self._finish_reason: str | None = None
        self._usage: TokenUsage | None = None
        self._raw: Any = None
        self._is_flushed = True  # nothing is held back

    def feed(self, delta: Delta) -> Delta:
        """Take in one delta.

        Returns:
            What may be shown: clean text and reasoning, with tags and torn characters held back.
        """
        text, reasoning = delta.text, delta.reasoning
        if text or reasoning:
            self._is_flushed = False
            self._cleaner = self._cleaner or _Cleaner()
            text, reasoning = self._cleaner.feed(text, reasoning)
            self._keep(text, reasoning)
        if delta.tool_calls:
            self._calls = self._calls or CallGatherer()
            self._calls.add(delta.tool_calls)
        if delta.finish_reason and self._finish_reason not in CUT_OFF:
            self._finish_reason = FINISH_REASONS.get(delta.finish_reason.lower(), delta.finish_reason)
        if delta.usage and (delta.usage.total_tokens or self._usage is None):
            self._usage = delta.usage
        self._raw = self._raw if delta.raw is None else delta.raw
        shown = delta.tool_calls and _showable(delta.tool_calls)
        if reasoning is delta.reasoning and shown is delta.tool_calls and text is delta.text:
            return delta
        return delta._replace(text=text, reasoning=reasoning, tool_calls=shown)

    def flush(self) -> Delta:
        """Give out what `feed` held back, once no more deltas come."""
        if self._is_flushed or self._cleaner is None:
            return NOTHING
        self._is_flushed = True
        shown = Delta(*self._cleaner.flush())
        self._keep(shown.text, shown.reasoning)
        return shown

    def partial(self) -> LLMResponse:
        """What has come so far, without judging it: calls are left out."""
        text, reasoning = self._joined()
        return LLMResponse(text, [], self._usage, self._raw, reasoning, self._finish_reason)

    def finish(self) -> LLMResponse:
        """The whole answer.

        Raises:
            LLMError: The stream ended without saying that the answer was finished, or saying that the
                server gave up (``incomplete``).
        """
        self.flush()
        reason = self._finish_reason
        if reason is None or (reason == CLOSED and self._calls is not None and self._calls.is_cut):
            raise LLMError(
                "The model's answer ended early: the server closed it without a finish reason.",
                kind="incomplete",
            )
        if reason.lower().startswith(FAILED):
            raise LLMError(f"The server gave up in the middle of its answer: {reason}.", kind="incomplete")
        calls = [] if self._calls is None else self._calls.finish(reason if reason in CUT_OFF else "")
        if reason == CLOSED:
            reason = "stop"
        if calls and reason not in CUT_OFF:
            reason = "tool_calls"
        text, reasoning = self._joined()
        return LLMResponse(text, calls, self._usage, self._raw, reasoning, reason)

    def _keep(self, text: str, reasoning: str) -> None:
        if text:
            self._text.append(text)
        if reasoning:
            self._reasoning.append(reasoning)

    def _joined(self) -> tuple[str | None, str | None]:
        text, reasoning = "".join(self._text), "".join(self._reasoning)
        if self._cleaner is not None and not self._cleaner.has_opened and not reasoning:
            text, reasoning = split_unopened(text)
        return text if text.strip() else None, reasoning or None


async def assembled(deltas: AsyncIterable[Delta]) -> LLMResponse:
    """The whole answer of a stream.

    Args:
        deltas: The stream.

    Raises:
        LLMError: See `Assembler.finish`.
    """
    assembler = Assembler()
    async for delta in deltas:
        assembler.feed(delta)
    return assembler.finish()


def _showable(parts: tuple[ToolCallDelta, ...]) -> tuple[ToolCallDelta, ...]:
    """The same parts, with clean text as their arguments."""
    for each in parts:
        if isinstance(each.arguments, str) and not each.arguments.isascii():
            return tuple(map(_cleaned, parts))
    return parts


def _cleaned(part: ToolCallDelta) -> ToolCallDelta:
    if not isinstance(part.arguments, str):
        return part
    return replace(part, arguments=clean_text(part.arguments))

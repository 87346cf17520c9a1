"""Model responses, and their assembly from streamed deltas. Pure: no I/O.

Rules of the assembler:

1.  Text and reasoning are joined in order; text in ``<think>`` tags becomes reasoning.
2.  Fragments of calls are sorted as described in `calls`; arguments that do not parse are marked, never
    guessed.
3.  A response with calls gets the finish reason ``tool_calls``, unless it was cut off.
4.  `finish` raises for a response without a finish reason, with a reason that means a server failure, or with
    announced calls that never arrived.
5.  White space alone does not count as content.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pure_agent_loop.errors import LLMError
from pure_agent_loop.llm.calls import CallGatherer, RejectedArguments, unique_id
from pure_agent_loop.llm.extra import joined
from pure_agent_loop.llm.values import (
    CLOSED,
    NOTHING,
    Delta,
    ServedPart,
    TokenUsage,
    ToolCall,
    ToolCallDelta,
)
from pure_agent_loop.media import made_media
from pure_agent_loop.support.text import clean_text

__all__ = ["Assembler", "LLMResponse", "assembled", "unique_id"]
OUTPUT_LIMIT = "output_limit"  # internal reason: the response was cut off but must not be continued
REFUSED = "refused"  # internal reason: the model refused, so the response so far is discarded, calls included
CUT_OFF = ("length", "content_filter", OUTPUT_LIMIT, REFUSED)
_REASONS = {  # spellings that servers use, in lower case, by this package's finish reason
    "stop": "stop end end_turn eos eos_token stop_sequence complete completed",
    "tool_calls": "function_call function_calls tool_call tool_use",
    "length": "max_tokens max_output_tokens model_length model_context_window_exceeded",
    "content_filter": "content_filtered safety recitation blocklist prohibited_content sensitive refusal",
}
FINISH_REASONS = {theirs: ours for ours, words in _REASONS.items() for theirs in (ours, *words.split())}
# Finish reasons that mean a server failure; the text so far is not a response.
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


# -- reasoning that a server leaves in the text, between ``<think>`` and ``</think>`` --------------------


class ThinkSplitter:
    """Splits streamed text into text and reasoning; tags may be split anywhere.

    An opening tag counts only before any other text; later, the model is merely writing about the tag.
    """

    OPEN = "<think>"
    CLOSE = "</think>"

    def __init__(self) -> None:
        self.has_opened = False
        self._buffer = ""
        self._state = "start"  # start -> opened -> thinking -> closed -> answer, or start -> answer

    def feed(self, text: str) -> tuple[str, str]:
        """Add text; return the (text, reasoning) that is certain so far."""
        if not text or (self._state == "answer" and not self._buffer):
            return text, ""
        self._buffer += text
        thinking = ""
        if self._state == "start":
            self._look_for_opening()
        if self._state == "opened":
            self._skip_newlines("thinking")
        if self._state == "thinking":
            thinking = self._think()
        if self._state == "closed":
            self._skip_newlines("answer")
        if self._state != "answer":
            return "", thinking
        answer, self._buffer = self._buffer, ""
        return answer, thinking

    def flush(self) -> tuple[str, str]:
        """Return the buffered (text, reasoning) at the end of the text."""
        rest, self._buffer = self._buffer, ""
        return ("", rest) if self.has_opened else (rest, "")

    def _look_for_opening(self) -> None:
        stripped = self._buffer.lstrip()
        if stripped.startswith(self.OPEN):
            self.has_opened, self._state = True, "opened"
            self._buffer = stripped[len(self.OPEN) :]
        elif not self.OPEN.startswith(stripped):  # the text cannot be the beginning of the tag
            self._state = "answer"

    def _skip_newlines(self, then: str) -> None:
        self._buffer = self._buffer.lstrip("\n")
        if self._buffer:
            self._state = then

    def _think(self) -> str:
        thinking, closing, answer = self._buffer.partition(self.CLOSE)
        if closing:
            self._state, self._buffer = "closed", answer
            return thinking.rstrip("\n")
        held = _overlap(self._buffer, self.CLOSE)
        sure = self._buffer[: len(self._buffer) - held].rstrip("\n")
        self._buffer = self._buffer[len(sure) :]
        return sure


def _overlap(text: str, tag: str) -> int:
    """Return the length of the longest suffix of `text` that is a prefix of `tag`."""
    sizes = range(min(len(tag) - 1, len(text)), 0, -1)
    return next((size for size in sizes if text.endswith(tag[:size])), 0)


def split_unopened(text: str) -> tuple[str, str]:
    """Split text whose opening tag is in the prompt template into (text, reasoning).

    The first closing tag is used only if it is neither quoted nor inside a code block.
    """
    before, closing, after = text.partition(ThinkSplitter.CLOSE)
    is_quoted = before[-1:] in ("`", "'", '"') and before[-1:] == after[:1]
    if not closing or is_quoted or before.count("```") % 2 or ThinkSplitter.OPEN in before:
        return text, ""
    return after.lstrip("\n"), before.strip("\n")


@dataclass(frozen=True, slots=True)
class LLMResponse:
    """One whole response from a model.

    Args:
        content: The text, or None if there was none.
        tool_calls: The tool calls, in order.
        usage: Tokens of this request, or None if the server did not report them.
        raw: The client's original response object; not used by the loop.
        reasoning_content: The reasoning, or None.
        finish_reason: ``stop``, ``tool_calls``, ``length``, ``content_filter``, or None.
        extra: Server-specific fields of the message, to be sent back, or None.
        origin: The server and model that added `extra`, or the extra fields of a call; else empty.
        spent: Tokens of failed attempts before this response; None if there were none.
        served: The parts of the text and the models that wrote them; empty for a client of one model.
        token_details: Token data that the caller requested, as the server sent it: ``logprobs``,
            ``token_ids``, ``prompt_logprobs``, ``prompt_token_ids``; None if there is none.
    """

    content: str | None
    tool_calls: list[ToolCall] = field(default_factory=list)
    usage: TokenUsage | None = None
    raw: Any = None
    reasoning_content: str | None = None
    finish_reason: str | None = None
    extra: dict[str, Any] | None = None
    origin: str = ""
    spent: TokenUsage | None = None
    served: tuple[ServedPart, ...] = ()
    token_details: dict[str, Any] | None = None

    @property
    def has_tool_calls(self) -> bool:
        """True if the response holds at least one tool call."""
        return bool(self.tool_calls)

    @property
    def media(self) -> list[dict[str, Any]]:
        """Images and sounds that the model made, as parts of a message."""
        return made_media(self.extra) if self.extra else []

    @classmethod
    def from_openai(cls, response: object) -> LLMResponse:
        """Read a whole (not streamed) chat completion: a dict, or an object with the SDK's attributes.

        Raises:
            LLMError: The completion holds no choice, or an error object.
        """
        # Imported here, because only custom clients need it.
        from pure_agent_loop.llm.completions import parse_completion

        assembler = Assembler()
        assembler.feed(parse_completion(response)._replace(raw=response))
        return assembler.finish()

    def to_delta(self) -> Delta:
        """Return the whole response as one delta, for clients without streaming."""
        calls = tuple(
            ToolCallDelta(
                i,
                call.id,
                call.name,
                call.arguments if call.invalid is None else RejectedArguments(call.invalid),
                call.extra,
            )
            for i, call in enumerate(self.tool_calls or ())
        )
        finish = self.finish_reason or ("tool_calls" if calls else "stop")
        text, thinking = self.content or "", self.reasoning_content or ""
        details = self.token_details
        return Delta(
            text, thinking, calls, finish, self.usage, self.raw, extra=self.extra, token_details=details
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the plain JSON form, without `raw`."""
        return {
            "content": self.content,
            "tool_calls": [call.to_dict() for call in self.tool_calls],
            "usage": None if self.usage is None else self.usage.to_dict(),
            "reasoning_content": self.reasoning_content,
            "finish_reason": self.finish_reason,
            **({"extra": self.extra} if self.extra else {}),
            **({"origin": self.origin} if self.origin else {}),
            **({} if self.spent is None else {"spent": self.spent.to_dict()}),
            **({"served": [[part.model, part.start] for part in self.served]} if self.served else {}),
            **({"token_details": self.token_details} if self.token_details else {}),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> LLMResponse:
        """Read the form that :meth:`to_dict` returns."""
        usage, spent = data.get("usage"), data.get("spent")
        return cls(
            content=data.get("content"),
            tool_calls=[ToolCall.from_dict(call) for call in data.get("tool_calls", ())],
            usage=None if usage is None else TokenUsage.from_dict(usage),
            reasoning_content=data.get("reasoning_content"),
            finish_reason=data.get("finish_reason"),
            extra=data.get("extra"),
            origin=data.get("origin", ""),
            spent=None if spent is None else TokenUsage.from_dict(spent),
            served=tuple(ServedPart(model, start) for model, start in data.get("served", ())),
            token_details=data.get("token_details"),
        )


class _Pairs:
    """Joins surrogate pairs split between two pieces of text, and replaces lone surrogates."""

    def __init__(self) -> None:
        self._held = ""

    def feed(self, text: str) -> str:
        """Add text; return text that ends with a whole character."""
        if not text:
            return text
        text, self._held = self._held + text, ""
        if text and "\ud800" <= text[-1] <= "\udbff":
            text, self._held = text[:-1], text[-1]
        return clean_text(text)

    def flush(self) -> str:
        """Return the buffered text."""
        if not self._held:
            return ""
        held, self._held = self._held, ""
        return clean_text(held)


class _Cleaner:
    """Cleans text and reasoning for display; buffers partial tags and split characters."""

    def __init__(self, *, splits_thinking: bool) -> None:
        self._splits_thinking = splits_thinking
        self._think = ThinkSplitter()
        self._text, self._reasoning = _Pairs(), _Pairs()

    @property
    def has_opened(self) -> bool:
        """True if the text held reasoning."""
        return self._think.has_opened

    def feed(self, text: str, reasoning: str) -> tuple[str, str]:
        """Add text and reasoning; return the complete part of both, without tags."""
        text, reasoning = self._text.feed(text), self._reasoning.feed(reasoning)
        if not self._splits_thinking:
            return text, reasoning
        text, thinking = self._think.feed(text)
        return text, reasoning + thinking if thinking else reasoning

    def flush(self) -> tuple[str, str]:
        """Return the buffered text and reasoning."""
        if not self._splits_thinking:
            return self._text.flush(), self._reasoning.flush()
        text, thinking = self._think.feed(self._text.flush())
        last_text, last_thinking = self._think.flush()
        return text + last_text, self._reasoning.flush() + thinking + last_thinking


class Assembler:
    """Assembles a response from its deltas.

    `feed` each delta as it comes (it returns the delta to display), then call `finish`.

    Args:
        splits_thinking: Whether ``<think>`` tags in the text hold reasoning; see `thinks_in_text`.
    """

    def __init__(self, *, splits_thinking: bool = True) -> None:
        self._splits_thinking = splits_thinking
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._calls: CallGatherer | None = None
        self._cleaner: _Cleaner | None = None  # created on first use
        self._finish_reason: str | None = None
        self._usage: TokenUsage | None = None
        self.refused_usage: TokenUsage | None = None
        """A usage report with a count below zero, which is ignored."""
        self._raw: Any = None
        self._is_flushed = True  # True while the buffer is empty
        self._extra: list[dict[str, Any]] = []
        self.has_extra = False  # True if the message or a call has server-specific fields
        self._token_details: list[dict[str, Any]] = []
        self.has_begun = False
        """True once the response has begun."""
        self.served: list[ServedPart] = []
        self._spent: TokenUsage | None = None
        self.is_settled = False
        """True if the client has counted the tokens so far, because the model failed."""

    def feed(self, delta: Delta) -> Delta:
        """Add one delta.

        Returns:
            The delta to display: clean text and reasoning, without partial tags or split characters.
        """
        text, reasoning = delta.text, delta.reasoning
        if delta.served is not None or delta.spent is not None:
            return self._change_model(delta)
        self.has_begun = self.has_begun or not delta.notice
        if text or reasoning:
            self._is_flushed = False
            self._cleaner = self._cleaner or _Cleaner(splits_thinking=self._splits_thinking)
            text, reasoning = self._cleaner.feed(text, reasoning)
            self._keep(text, reasoning)
        if delta.tool_calls:
            self._calls = self._calls or CallGatherer()
            self._calls.add(delta.tool_calls)
            for part in delta.tool_calls:
                self.has_extra = self.has_extra or part.extra is not None
        if delta.extra or delta.token_details:
            self._take_fields(delta)
        if delta.finish_reason and self._finish_reason not in CUT_OFF:
            reason = FINISH_REASONS.get(delta.finish_reason.lower(), delta.finish_reason)
            # A specific reason replaces a general one.
            if self._finish_reason is None or reason not in ("stop", CLOSED):
                self._finish_reason = reason
        if delta.usage:
            usage, known = delta.usage.checked(), self._usage
            self.refused_usage = self.refused_usage if usage else delta.usage
            self._usage = usage.after(known) if usage and known else usage or known
        self._raw = self._raw if delta.raw is None else delta.raw
        shown = delta.tool_calls and _showable(delta.tool_calls)
        if reasoning is delta.reasoning and shown is delta.tool_calls and text is delta.text:
            return delta
        return delta._replace(text=text, reasoning=reasoning, tool_calls=shown)

    def _take_fields(self, delta: Delta) -> None:
        if delta.extra:
            self._extra.append(delta.extra)
            self.has_extra = True
        if delta.token_details:
            self._token_details.append(delta.token_details)

    def flush(self) -> Delta:
        """Return the text that `feed` has buffered, after the last delta."""
        if self._is_flushed or self._cleaner is None:
            return NOTHING
        self._is_flushed = True
        shown = Delta(*self._cleaner.flush())
        self._keep(shown.text, shown.reasoning)
        return shown

    def _change_model(self, delta: Delta) -> Delta:
        """Count the usage of a failed part, or begin another model's part, keeping only earlier text."""
        if delta.spent is not None:
            delta = delta._replace(spent=delta.spent.checked())
        if delta.spent is not None:
            self._spent = delta.spent if self._spent is None else self._spent + delta.spent
            self.is_settled = True
        if delta.served is None:
            return delta
        held, start = self.flush(), delta.served.start
        self._text = ["".join(self._text)[:start]] if start else []
        self._reasoning, self._calls, self._cleaner = [], None, None
        self._finish_reason = self._usage = self.refused_usage = self._raw = None
        self._token_details = []
        self._extra, self.has_extra, self.has_begun, self.is_settled = [], False, False, False
        self.served = [*(part for part in self.served if part.start < start), delta.served]
        return delta._replace(text=held.text, reasoning=held.reasoning) if start else delta

    def partial(self) -> LLMResponse:
        """Return the response so far, unchecked and without calls."""
        text, reasoning = self._joined()
        return LLMResponse(text, [], self._usage, self._raw, reasoning, self._finish_reason)

    def written(self) -> str:
        """Return all text of the newest part, including reasoning and call arguments."""
        calls = "" if self._calls is None else self._calls.written
        text = "".join(self._text)[self.served[-1].start if self.served else 0 :]
        return "".join([text, *self._reasoning, calls])

    def finish(self) -> LLMResponse:
        """Return the whole response.

        Raises:
            LLMError: The response is incomplete; see rule 4 of this module.
        """
        self.flush()
        reason = self._finish_reason
        if reason is None or (reason == CLOSED and self._calls is not None and self._calls.is_cut):
            raise LLMError(
                "The model's response ended early: the server closed it without a finish reason.",
                kind="incomplete",
            )
        if reason.lower().startswith(FAILED):
            raise LLMError(f"The server aborted its response: {reason}.", kind="incomplete")
        if reason == REFUSED:
            _, reasoning = self._joined()
            refusal = LLMResponse(None, [], self._usage, self._raw, reasoning, "content_filter")
            return self._of_models(refusal) if self.served else refusal
        # Drop the calls of a filtered response, because the removed text may have qualified them.
        is_filtered = reason == "content_filter"
        gathered = None if is_filtered else self._calls
        calls = [] if gathered is None else gathered.finish(reason if reason in CUT_OFF else "")
        is_begun = self._calls is not None and not calls and self._calls.is_begun and reason not in CUT_OFF
        if is_begun or (reason == "tool_calls" and not calls):
            raise LLMError(
                f"The model's response is incomplete: it announced a tool call but holds none (finish reason "
                f"{reason!r}).",
                kind="incomplete",
            )
        if reason == CLOSED:
            reason = "stop"
        if calls and reason not in CUT_OFF:
            reason = "tool_calls"
        text, reasoning = self._joined()
        extra = joined(self._extra) if self._extra and gathered is self._calls else None
        details = _in_sequence(self._token_details) if self._token_details else None
        rest = self._usage, self._raw, reasoning, reason, extra
        response = LLMResponse(text, calls, *rest, token_details=details)
        return self._of_models(response) if self.served else response

    def _of_models(self, response: LLMResponse) -> LLMResponse:
        usage = response.usage and response.usage.of_model(self.served[-1].model)
        return replace(response, usage=usage, served=tuple(self.served), spent=self._spent)

    def _keep(self, text: str, reasoning: str) -> None:
        if text:
            self._text.append(text)
        if reasoning:
            self._reasoning.append(reasoning)

    def _joined(self) -> tuple[str | None, str | None]:
        text, reasoning = "".join(self._text), "".join(self._reasoning)
        may_hold_tag = self._cleaner is not None and self._splits_thinking
        if may_hold_tag and not reasoning and not (self._cleaner and self._cleaner.has_opened):
            text, reasoning = split_unopened(text)
        return text if text.strip() else None, reasoning or None


async def assembled(deltas: AsyncIterable[Delta], *, splits_thinking: bool = True) -> LLMResponse:
    """Assemble the whole response of a stream.

    Args:
        splits_thinking: As in `Assembler`.

    Raises:
        LLMError: See `Assembler.finish`.
    """
    assembler = Assembler(splits_thinking=splits_thinking)
    async for delta in deltas:
        assembler.feed(delta)
    return assembler.finish()


def _in_sequence(pieces: list[dict[str, Any]]) -> dict[str, Any]:
    """Join the pieces of a stream; concatenate lists at any depth."""
    whole: dict[str, Any] = {}
    for name in dict.fromkeys(name for piece in pieces for name in piece):
        values = [value for piece in pieces if (value := piece.get(name)) is not None]
        if values and all(isinstance(value, dict) for value in values):
            whole[name] = _in_sequence(values)
        elif values and all(isinstance(value, list) for value in values):
            whole[name] = [item for value in values for item in value]
        else:
            whole[name] = values[-1] if values else None
    return whole


def _showable(parts: tuple[ToolCallDelta, ...]) -> tuple[ToolCallDelta, ...]:
    """Return the parts with clean arguments."""
    for part in parts:
        if isinstance(part.arguments, str) and not part.arguments.isascii():
            return tuple(map(_cleaned, parts))
    return parts


def _cleaned(part: ToolCallDelta) -> ToolCallDelta:
    if not isinstance(part.arguments, str):
        return part
    return replace(part, arguments=clean_text(part.arguments))

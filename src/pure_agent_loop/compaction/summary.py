"""Summaries by the model, in pieces if the text is too long, with a record of the calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from pure_agent_loop.compaction.record import collect
from pure_agent_loop.compaction.shape import CompletedCall, calls_in, content_text
from pure_agent_loop.errors import LimitExceededError, LLMError
from pure_agent_loop.kernel.kit import Kit
from pure_agent_loop.kernel.long_results import ResultFolder, result_file_in
from pure_agent_loop.kernel.model_call import Attempts, client_failure
from pure_agent_loop.kernel.redacting import ResponseRedactor
from pure_agent_loop.kernel.request import Request
from pure_agent_loop.kernel.state import QueryState
from pure_agent_loop.kernel.step import Step
from pure_agent_loop.llm.adapt import TOKEN_LIMITS
from pure_agent_loop.llm.messages import as_messages, calls_of, is_facts
from pure_agent_loop.llm.response import LLMResponse
from pure_agent_loop.llm.tokens import estimate_message, estimate_tokens, estimate_usage
from pure_agent_loop.llm.values import Delta, TokenUsage
from pure_agent_loop.support.language import model_text
from pure_agent_loop.support.text import shorten

if TYPE_CHECKING:
    from pure_agent_loop.llm.message_types import HistoryMessage

MAX_PIECES = 8
# Share of the window for one piece; the remainder is for the response and estimation errors.
PIECE_SHARE = 0.5
_COLLECTED_SHARE = 0.5  # share of the summary for the record collected without the model
SMALL_WINDOW = 32_000
MIN_TOKENS = 100
_MIN_CHARS = 80
_OF_TOOLS = ("tools", "tool_choice", "parallel_tool_calls", "response_format", "stop", *TOKEN_LIMITS)


class Summariser:
    """Write summaries with a run's model.

    Args:
        state: State of the run, to which the used tokens are added.
        kit: Kit with the model, the journal and the texts.
        name: Name for the journal's keys, which are ``STEP:NAME:NUMBER``.
    """

    def __init__(self, state: QueryState, kit: Kit, name: str) -> None:
        self._state = state
        self._kit = kit
        self._name = name
        self._step, self._asked = state.step, 0

    async def summarise(self, messages: Sequence[HistoryMessage], window: int, tokens: int) -> str:
        """Return a summary written by the model, followed by a record of the calls.

        Raises:
            LLMError: A request failed, or returned no text.
        """
        pieces = pieces_of(messages, int(PIECE_SHARE * window), self._kit)
        share = max(MIN_TOKENS, int((1 - _COLLECTED_SHARE) * tokens)) // max(1, len(pieces))
        texts = [await self._ask(piece, share, window) for piece in pieces]
        return "\n\n".join([*texts, self.record(messages, tokens)]).strip()

    def record(self, messages: Sequence[HistoryMessage], tokens: int) -> str:
        """Return a record of the messages, made without calling the model."""
        return collect(messages, self._kit.prompts).write(int(_COLLECTED_SHARE * tokens), self._kit.prompts)

    async def _ask(self, text: str, tokens: int, window: int) -> str:
        words = self._kit.prompts
        task = words.summary_task.format(words=max(40, tokens * 2 // 3), text=text)
        messages: list[HistoryMessage] = [
            {"role": "system", "content": words.summary_system},
            {"role": "user", "content": task},
        ]
        request = Request(as_messages(messages), None, self._options(tokens, window))
        attempts = SummaryAttempts(request, Step(self._state, self._kit))
        try:
            response = await self._kit.journal.effect(self._key(), attempts.run)
        except (LLMError, LimitExceededError) as error:
            attempts.take(error.spent)
            raise
        attempts.take(response.spent)
        self._state.count(self._kit.charge(response.usage or attempts.estimate(response)))
        summary = (response.content or "").strip()
        if not summary:
            raise LLMError("The model returned an empty summary.", kind="incomplete")
        return _within(summary, 2 * tokens)

    def _options(self, tokens: int, window: int) -> dict[str, Any]:
        options = {k: v for k, v in self._kit.options.items() if k not in _OF_TOOLS}
        # Small models may repeat themselves endlessly, so limit the output; a large model may need more to
        # reason.
        if window < SMALL_WINDOW:
            options["max_tokens"] = max(MIN_TOKENS, 2 * tokens)
        return options

    def _key(self) -> str:
        if self._step != self._state.step:
            self._step, self._asked = self._state.step, 0
        self._asked += 1
        return f"{self._step}:{self._name}:{self._asked}"


class SummaryAttempts(Attempts):
    """Attempts to get a summary from the model; the summary's text is not shown to the user."""

    def prompt_tokens(self) -> int:
        """Estimate the tokens of the request."""
        return sum(map(estimate_message, self.request.messages))

    def next_usage(self) -> TokenUsage:
        """Estimate the usage of the next attempt."""
        tokens = self.prompt_tokens()
        return TokenUsage(tokens, 0, tokens, estimated=True)

    def estimate(self, response: LLMResponse) -> TokenUsage:
        """Estimate the usage of a response whose server did not report it."""
        return estimate_usage(self.request.messages, response)

    async def finish(self, response: LLMResponse) -> LLMResponse:
        """Return the summary, redacted."""
        return response if self.kit.redactor is None else ResponseRedactor(self.kit.redactor).redact(response)

    async def show(self, delta: Delta) -> None:
        """Show nothing, because a summary is not part of the answer."""

    async def run(self) -> LLMResponse:
        """Return the summary. See `Attempts.run`."""
        try:
            return replace(await super().run(), spent=self.spent)
        except BaseException as error:
            self.break_off(error)
            if isinstance(error, (LLMError, LimitExceededError)) or not isinstance(error, Exception):
                raise
            raise client_failure(error) from error


class _Line(NamedTuple):
    who: str
    text: str

    def written(self, limit: float) -> str:
        return f"{self.who}: {shorten(self.text, max(_MIN_CHARS, int(limit)))}"


def pieces_of(messages: Sequence[HistoryMessage], tokens: int, kit: Kit) -> list[str]:
    """Split messages into text pieces of about `tokens` tokens; shorten the texts if there are too many."""
    calls, folder = calls_in(messages), ResultFolder(kit.results.folder)
    lines = [line for message in messages for line in _lines(message, calls, folder)]
    total = sum(estimate_tokens(line.text) for line in lines)
    chars = sum(len(line.text) for line in lines)
    room = tokens * max(1.0, chars) / max(1, total)  # the room converted to characters
    longest = max((len(line.text) for line in lines), default=0)
    limit, max_chars = min(longest, room / 2), 0.8 * MAX_PIECES * room
    while limit > _MIN_CHARS and sum(min(len(line.text), limit) for line in lines) > max_chars:
        limit *= 0.7
    pieces = _packed([line.written(limit) for line in lines], tokens)
    if len(pieces) > MAX_PIECES:  # many short messages: keep the beginning and the end
        half = MAX_PIECES // 2
        return [*pieces[:half], *pieces[-half:]]
    return pieces


def _packed(texts: Sequence[str], tokens: int) -> list[str]:
    pieces: list[list[str]] = []
    left = 0
    for text in texts:
        size = estimate_tokens(text) + 2
        if not pieces or size > left:
            pieces.append([])
            left = tokens
        pieces[-1].append(text)
        left -= size
    return ["\n".join(piece) for piece in pieces]


def _lines(message: HistoryMessage, calls: dict[str, CompletedCall], folder: ResultFolder) -> list[_Line]:
    text = content_text(message)
    if is_facts(message):  # facts are not summarised, because they are sent again after the compaction
        return []
    if message["role"] == "tool":
        call = calls.get(message["tool_call_id"])
        who = model_text("result_of", tool=call.name) if call else model_text("result_of_unknown")
        return [_Line(who, _whole(text, folder))]
    made = [calls[call["id"]] for call in calls_of(message)]
    lines = [_Line(message["role"], text)] if text else []
    return [*lines, *(_Line(model_text("call_of", tool=call.name), call.arguments) for call in made)]


def _whole(text: str, folder: ResultFolder) -> str:
    """Return the original of a truncated or pruned result, if it is still stored."""
    kept = result_file_in(text)
    try:
        return folder.read(kept) if kept else text
    except OSError:
        return text


def _within(text: str, tokens: int) -> str:
    size = estimate_tokens(text)
    return text if size <= tokens else shorten(text, len(text) * tokens // size)

"""A summary written by the model, in pieces where the text is too long, and what it must not lose."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from pure_agent_loop.compaction.record import collect
from pure_agent_loop.compaction.shape import MadeCall, calls_in, content_text
from pure_agent_loop.errors import LLMError
from pure_agent_loop.kernel.kit import Kit
from pure_agent_loop.kernel.model_call import charge, client_failure, listen, tell_retry
from pure_agent_loop.kernel.request import Request
from pure_agent_loop.kernel.state import QueryState
from pure_agent_loop.kernel.tools.long_results import ResultFolder, mentioned
from pure_agent_loop.llm.adapt import TOKEN_LIMITS
from pure_agent_loop.llm.messages import Message
from pure_agent_loop.llm.response import Assembler, LLMResponse
from pure_agent_loop.llm.tokens import estimate_tokens, estimate_usage
from pure_agent_loop.llm.values import Delta
from pure_agent_loop.prompts.words import say
from pure_agent_loop.retry import RetryAttempt, RetryHandler
from pure_agent_loop.support.text import shorten

MOST_PIECES = 8
PIECE_SHARE = 0.5  # of the window: the text of one request; the rest is for the answer and for bad guesses
RECORD_SHARE = 0.5  # of the summary: what was collected without the model
SMALL_WINDOW = 32_000
LEAST_TOKENS = 100
_LEAST_CHARS = 80
_OF_TOOLS = ("tools", "tool_choice", "parallel_tool_calls", "response_format", "stop", *TOKEN_LIMITS)


class Summariser:
    """Writes summaries with the model of a run.

    Args:
        state: Its tokens are counted there.
        kit: The model, the journal and the words.
        name: Stands in the journal's keys, between the step and a number.
    """

    def __init__(self, state: QueryState, kit: Kit, name: str) -> None:
        self._state = state
        self._kit = kit
        self._name = name
        self._step, self._asked = state.step, 0

    async def summarise(self, messages: Sequence[Message], window: int, tokens: int) -> str:
        """A summary in the words of the model, and a record of the calls behind it.

        Args:
            window: Tokens that fit into one request.
            tokens: About how long it may be.

        Raises:
            LLMError: A request failed, or gave nothing.
        """
        pieces = pieces_of(messages, int(PIECE_SHARE * window), self._kit)
        share = max(LEAST_TOKENS, int((1 - RECORD_SHARE) * tokens)) // max(1, len(pieces))
        texts = [await self._ask(piece, share, window) for piece in pieces]
        return "\n\n".join([*texts, self.record(messages, tokens)]).strip()

    def record(self, messages: Sequence[Message], tokens: int) -> str:
        """What is collected without the model."""
        return collect(messages, self._kit.prompts).write(int(RECORD_SHARE * tokens), self._kit.prompts)

    async def _ask(self, text: str, tokens: int, window: int) -> str:
        words = self._kit.prompts
        task = words.summary_task.format(words=max(40, tokens * 2 // 3), text=text)
        messages: list[Message] = [
            {"role": "system", "content": words.summary_system},
            {"role": "user", "content": task},
        ]
        request = Request(messages, None, self._options(tokens, window))
        response = await self._kit.journal.effect(self._key(), _Asking(request, self._state, self._kit).run)
        usage = response.usage or estimate_usage(messages, response)
        self._state.count(usage, charge(usage, self._kit))
        said = (response.content or "").strip()
        if not said:
            raise LLMError("The model gave an empty summary.", kind="incomplete")
        return _within(said, 2 * tokens)

    def _options(self, tokens: int, window: int) -> dict[str, Any]:
        options = {k: v for k, v in self._kit.options.items() if k not in _OF_TOOLS}
        if window < SMALL_WINDOW:  # a small model may not find an end; a big one may think before it writes
            options["max_tokens"] = max(LEAST_TOKENS, 2 * tokens)
        return options

    def _key(self) -> str:
        if self._step != self._state.step:
            self._step, self._asked = self._state.step, 0
        self._asked += 1
        return f"{self._step}:{self._name}:{self._asked}"


class _Asking:
    """One request and its repetitions. Nothing of its answer is shown."""

    def __init__(self, request: Request, state: QueryState, kit: Kit) -> None:
        self._request, self._state, self._kit = request, state, kit

    async def run(self) -> LLMResponse:
        try:
            handler = RetryHandler(self._kit.retry, self._kit.clock)
            return await handler.execute(self._once, on_retry=self._on_retry)
        except LLMError:
            raise
        except Exception as error:
            raise client_failure(error) from error

    async def _once(self) -> LLMResponse:
        return await listen(self._request, self._kit, Assembler(), _show_nothing)

    async def _on_retry(self, attempt: RetryAttempt) -> None:
        await tell_retry(attempt, self._state, self._kit, discard=False)


async def _show_nothing(delta: Delta) -> None:
    """A summary is no part of the answer."""


class _Line(NamedTuple):
    who: str
    text: str

    def written(self, limit: float) -> str:
        return f"{self.who}: {shorten(self.text, max(_LEAST_CHARS, int(limit)))}"


def pieces_of(messages: Sequence[Message], tokens: int, kit: Kit) -> list[str]:
    """The messages as text, in pieces of about so many tokens; shortened until few are enough."""
    calls, folder = calls_in(messages), ResultFolder(kit.results.folder)
    lines = [line for message in messages for line in _lines(message, calls, folder)]
    total = sum(estimate_tokens(line.text) for line in lines)
    chars = sum(len(line.text) for line in lines)
    room = tokens * max(1.0, chars) / max(1, total)  # in characters, of text like this
    longest = max((len(line.text) for line in lines), default=0)
    limit, most = min(longest, room / 2), 0.8 * MOST_PIECES * room
    while limit > _LEAST_CHARS and sum(min(len(line.text), limit) for line in lines) > most:
        limit *= 0.7
    pieces = _packed([line.written(limit) for line in lines], tokens)
    if len(pieces) > MOST_PIECES:  # very many short messages: the beginning and the end say most
        half = MOST_PIECES // 2
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


def _lines(message: Message, calls: dict[str, MadeCall], folder: ResultFolder) -> list[_Line]:
    text = content_text(message)
    if message["role"] == "tool":
        call = calls.get(message["tool_call_id"])
        who = say("result_of", tool=call.name) if call else say("result_of_unknown")
        return [_Line(who, _whole(text, folder))]
    made = [calls[call["id"]] for call in message.get("tool_calls") or ()]
    said = [_Line(message["role"], text)] if text else []
    return [*said, *(_Line(say("call_of", tool=call.name), call.arguments) for call in made)]


def _whole(text: str, folder: ResultFolder) -> str:
    """A result that was cut or pruned, as it was, if it is still kept."""
    kept = mentioned(text)
    try:
        return folder.read(kept) if kept else text
    except OSError:
        return text


def _within(text: str, tokens: int) -> str:
    size = estimate_tokens(text)
    return text if size <= tokens else shorten(text, len(text) * tokens // size)

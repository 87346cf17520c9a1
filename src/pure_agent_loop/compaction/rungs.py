"""Compaction stages without a model: prune old results, drop repeated ones, trim the oldest rounds."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from pure_agent_loop.compaction.shape import (
    CompletedCall,
    MessageGroup,
    calls_in,
    collect,
    content_text,
    estimate,
    first_line,
    is_summary,
    joined,
    take_over,
    units_of,
)
from pure_agent_loop.errors import ConfigError, LimitExceededError, LLMError
from pure_agent_loop.events import Event
from pure_agent_loop.kernel.kit import Compactor, Kit, KitAware, force
from pure_agent_loop.kernel.long_results import ResultFolder, result_file_in
from pure_agent_loop.kernel.model_call import Attempts, client_failure
from pure_agent_loop.kernel.request import Request, measure
from pure_agent_loop.kernel.state import QueryState
from pure_agent_loop.kernel.step import Step
from pure_agent_loop.llm.adapt import TOKEN_LIMITS
from pure_agent_loop.llm.messages import as_messages, calls_of, in_words, is_media, user_message
from pure_agent_loop.llm.response import LLMResponse
from pure_agent_loop.llm.tokens import estimate_message, estimate_tokens, estimate_usage
from pure_agent_loop.llm.values import Delta, TokenUsage
from pure_agent_loop.prompts import Prompts
from pure_agent_loop.support.abilities import as_protocol, check_method
from pure_agent_loop.support.language import model_text
from pure_agent_loop.support.locking import MEMORY_FILE, append_section
from pure_agent_loop.support.text import safe_str, shorten
from pure_agent_loop.support.threads import in_thread

if TYPE_CHECKING:
    from pure_agent_loop.llm.message_types import HistoryMessage, ToolMessage, WireCall

Keep = Callable[
    [str], "str | None"
]  # stores a string and returns its id; None if the model cannot read it back
SHORT_CHARS = 200  # shorter texts are not replaced by a record
_UNKNOWN = CompletedCall("unknown", "{}")
_LIMITS = (8_000, 4_000, 2_000, 1_000, 500, SHORT_CHARS)
TRIM_TO = 0.7  # share of the room, so that the next step need not trim again
RECORD_SHARE = 0.1  # share of the room for the record of calls in the notice
BIG_SHARE = 0.1  # share of the room: longer messages of the user are trimmed like any other
MAX_PIECES = 8
PIECE_SHARE = 0.5  # share of the window for a text; the rest is for the response and wrong estimates
_COLLECTED_SHARE = 0.5  # share of the summary for the record collected without the model
SMALL_WINDOW = 32_000
MIN_TOKENS = 100
_MIN_CHARS = 80
_OF_TOOLS = ("tools", "tool_choice", "parallel_tool_calls", "response_format", "stop", *TOKEN_LIMITS)
SECTION_TOKENS = 1_000
DEFAULT_WINDOW = 32_000


def prune(
    messages: Sequence[HistoryMessage], keep_tokens: int, keep: Keep, prompts: Prompts
) -> list[HistoryMessage]:
    """Reduce old results to a record: the call, the sizes, the first line.

    Args:
        keep_tokens: Tokens of the newest results to keep complete; the last round is always kept.
    """
    calls, used, pruned = calls_in(messages), 0, list(messages)
    last_round = len(messages) - len(units_of(messages)[-1].messages) if messages else 0
    for index in range(len(messages) - 1, -1, -1):
        message = messages[index]
        if message["role"] != "tool" and not is_media(message):
            continue
        used += estimate_message(message)
        if used <= keep_tokens or index >= last_round:
            continue
        if message["role"] == "tool":
            call = calls.get(message["tool_call_id"], _UNKNOWN)
            pruned[index] = _recorded(message, call, keep, prompts)
        else:
            pruned[index] = in_words(message)
    return pruned


def _recorded(message: ToolMessage, call: CompletedCall, keep: Keep, prompts: Prompts) -> ToolMessage:
    text = content_text(message)
    if len(text) <= 2 * SHORT_CHARS or text.startswith(prompts.pruned_result.partition("{")[0]):
        return message
    kept = result_file_in(text) or keep(text)
    hint = f"{prompts.cut_kept.format(id=kept, offset=0)} " if kept else ""
    record = prompts.pruned_result.format(
        call=call.shortened(), chars=len(text), lines=text.count("\n") + 1, how=hint, title=first_line(text)
    )
    return {**message, "content": record} if len(record) < len(text) else message


def drop_repeated(messages: Sequence[HistoryMessage], prompts: Prompts) -> list[HistoryMessage]:
    """Keep only the newest of identical results of repeated calls."""
    calls, seen = calls_in(messages), dict[tuple[CompletedCall, str], str]()
    changed = list(messages)
    for index in range(len(messages) - 1, -1, -1):
        message = messages[index]
        if message["role"] != "tool":
            continue
        text, call_id = content_text(message), message["tool_call_id"]
        newest = seen.setdefault((calls.get(call_id, _UNKNOWN), text), call_id)
        if newest != call_id and len(text) > SHORT_CHARS:
            changed[index] = {**message, "content": prompts.repeated_result.format(id=newest)}
    return changed


def trim(messages: Sequence[HistoryMessage], room: int, prompts: Prompts) -> list[HistoryMessage]:
    """Replace the oldest rounds by a notice and a record; shorten the rest if needed.

    The user's messages are removed last. The last round is kept.

    Args:
        room: Maximum tokens of the result.
    """
    units = units_of(messages)
    total, target = sum(unit.tokens for unit in units), TRIM_TO * room
    removed: set[int] = set()
    for index in _by_worth(units, BIG_SHARE * room, prompts):
        if total <= target:
            break
        removed.add(index)
        total -= units[index].tokens
    left = _with_notice(units, removed, int(RECORD_SHARE * room), prompts)
    return left if estimate(left) <= room else _shortened(left, room)


def _by_worth(units: list[MessageGroup], max_kept: float, prompts: Prompts) -> list[int]:
    """Return the removable units, least important first."""
    free = [index for index, unit in enumerate(units[:-1]) if not unit.fixed]

    def worth(index: int) -> bool:
        unit = units[index]
        return (unit.spoken and unit.tokens <= max_kept) or is_summary(unit.messages[0], prompts)

    return sorted(free, key=worth)  # stable: the oldest first among equals


def _with_notice(
    units: list[MessageGroup], removed: set[int], tokens: int, prompts: Prompts
) -> list[HistoryMessage]:
    if not removed:
        return joined(units)
    old = [message for index in sorted(removed) for message in units[index].messages]
    parts = [prompts.trimmed.format(count=len(old)), collect(old, prompts).write(tokens, prompts)]
    notice = user_message("\n\n".join(filter(None, parts)), synthetic=True)
    first = min(removed)
    kept = [unit for index, unit in enumerate(units) if index not in removed and index > first]
    return [*joined(units[:first]), notice, *joined(kept)]


def _shortened(messages: list[HistoryMessage], room: int) -> list[HistoryMessage]:
    """Truncate texts and arguments more and more until they fit; the newest question stays complete."""
    units = units_of(messages)
    free = room - sum(unit.tokens for unit in units if unit.fixed)
    cut = units
    for limit in _LIMITS if free > 0 else _LIMITS[-1:]:
        cut = [
            unit
            if unit.fixed
            else unit._replace(messages=[_short(message, limit) for message in unit.messages])
            for unit in units
        ]
        if estimate(joined(unit for unit in cut if not unit.fixed)) <= free:
            break
    return joined(cut)


def _short(message: HistoryMessage, limit: int) -> HistoryMessage:
    changed = message.copy()
    content = message.get("content")
    if isinstance(content, list):
        content = in_words(message).get("content")
    if isinstance(content, str):
        changed["content"] = _ends_of(content, limit)
    if changed["role"] == "assistant" and (calls := changed.get("tool_calls")):
        changed["tool_calls"] = [_short_call(call, limit) for call in calls]
    return changed


def _short_call(call: WireCall, limit: int) -> WireCall:
    arguments = call["function"]["arguments"]
    if len(arguments) <= limit:
        return call
    try:
        short = json.dumps(_short_value(json.loads(arguments), limit), ensure_ascii=False)
    except (ValueError, RecursionError):
        short = "{}"
    return {**call, "function": {**call["function"], "arguments": short}}


def _short_value(value: object, limit: int) -> Any:
    if isinstance(value, str):
        return _ends_of(value, limit)
    if isinstance(value, dict):
        return {key: _short_value(item, limit) for key, item in value.items()}
    return [_short_value(item, limit) for item in value[:limit]] if isinstance(value, list) else value


def _ends_of(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit * 2 // 3]}\n[...]\n{text[-limit // 3 :]}"


# -- summaries by the model, in pieces if the text is too long, with a record of the calls ---------------


class Summariser:
    """Write summaries with the model of a run.

    Args:
        state: Counts the tokens.
        kit: Model, journal and texts.
        name: Part of the journal's keys, between the step and a number.
    """

    def __init__(self, state: QueryState, kit: Kit, name: str) -> None:
        self._state = state
        self._kit = kit
        self._name = name
        self._step, self._asked = state.step, 0

    async def summarise(self, messages: Sequence[HistoryMessage], window: int, tokens: int) -> str:
        """Return a summary by the model, followed by a record of the calls.

        Raises:
            LLMError: A request failed, or returned no text.
        """
        pieces = pieces_of(messages, int(PIECE_SHARE * window), self._kit)
        share = max(MIN_TOKENS, int((1 - _COLLECTED_SHARE) * tokens)) // max(1, len(pieces))
        texts = [await self._ask(piece, share, window) for piece in pieces]
        return "\n\n".join([*texts, self.record(messages, tokens)]).strip()

    def record(self, messages: Sequence[HistoryMessage], tokens: int) -> str:
        """Return the record collected without the model."""
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
        if window < SMALL_WINDOW:  # a small model may never stop; a large one may need tokens to reason
            options["max_tokens"] = max(MIN_TOKENS, 2 * tokens)
        return options

    def _key(self) -> str:
        if self._step != self._state.step:
            self._step, self._asked = self._state.step, 0
        self._asked += 1
        return f"{self._step}:{self._name}:{self._asked}"


class SummaryAttempts(Attempts):
    """Attempts to get a summary, which is not shown."""

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

    async def show(self, delta: Delta) -> None:
        """Show nothing: a summary is not part of the answer."""

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
    """Split the messages into text pieces of about `tokens` tokens; shorten them if there are too many."""
    calls, folder = calls_in(messages), ResultFolder(kit.results.folder)
    lines = [line for message in messages for line in _lines(message, calls, folder)]
    total = sum(estimate_tokens(line.text) for line in lines)
    chars = sum(len(line.text) for line in lines)
    room = tokens * max(1.0, chars) / max(1, total)  # in characters, of text like this
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


# -- move the oldest messages, summarised, into a file of the workspace ----------------------------------


class HasRoot(Protocol):
    """A workspace: an object with a root folder."""

    root: Path


@dataclass(frozen=True, slots=True)
class MemoryOverflow:
    """Move the oldest messages into ``MEMORY.md`` when the history has too many.

    Args:
        workspace: A `Workspace`, or a folder.
        max_history: Maximum number of messages.
        keep: Number of messages afterwards; None for half of `max_history`.

    Raises:
        ConfigError: A number is invalid.
    """

    workspace: HasRoot | str | os.PathLike[str]
    max_history: int = 100
    keep: int | None = None

    def __post_init__(self) -> None:
        if self.max_history < 2 or not 0 < (self.keep or 1) < self.max_history:
            raise ConfigError("MemoryOverflow: max_history must be at least 2, and keep below it.")

    @property
    def file(self) -> Path:
        """The file for moved messages."""
        root = self.workspace if isinstance(self.workspace, (str, os.PathLike)) else self.workspace.root
        return Path(root) / MEMORY_FILE

    def with_kit(self, kit: Kit) -> Compactor:
        """Return the compactor of one run."""
        return _MemoryRun(self, kit)

    async def compact(self, state: QueryState) -> None:  # noqa: ARG002 - the protocol's shape
        """Raise ConfigError: a kit is required.

        Raises:
            ConfigError: Always; a run uses the compactor that `with_kit` returns.
        """
        raise ConfigError("MemoryOverflow needs the kit of a run: MemoryOverflow(...).with_kit(kit).")


class _MemoryRun:
    def __init__(self, settings: MemoryOverflow, kit: Kit) -> None:
        self._settings = settings
        self._kit = kit

    async def compact(self, state: QueryState) -> None:
        settings = self._settings
        if len(state.messages) <= settings.max_history:
            return
        old, left = _oldest(state.messages, settings.keep or settings.max_history // 2)
        if not old:
            return
        text = await self._short(old, state)
        when = datetime.fromtimestamp(self._kit.clock.now(), timezone.utc)
        section = f"## {when:%Y-%m-%d %H:%M} UTC\n\n{text}\n"

        async def write() -> None:  # may wait for another writer, so it runs in a thread
            await in_thread(partial(append_section, settings.file, section))

        try:
            await self._kit.journal.effect(f"{state.step}:memory:write", write)
        except OSError as error:  # keep messages that were not written
            message = f"{settings.file} cannot be written: {error.strerror or safe_str(error)}"
            await self._kit.emit(Event.notice(state.step, message))
            return
        await self._replace(old, left, text, state)

    async def force(self, state: QueryState) -> None:
        """Do nothing: the message count is unrelated to a rejected request."""

    async def _short(self, old: list[HistoryMessage], state: QueryState) -> str:
        summariser = Summariser(state, self._kit, "memory")
        window = measure(state, self._kit).window or DEFAULT_WINDOW
        try:
            return await summariser.summarise(old, window, SECTION_TOKENS)
        except LLMError as error:
            message = f"No summary could be written: {safe_str(error)}"
            await self._kit.emit(Event.notice(state.step, message))
            spoken = [unit.messages[0].get("content") for unit in units_of(old) if unit.spoken]
            lines = [f"- {text[:500]}" for text in spoken if isinstance(text, str)]
            return "\n".join([*lines, summariser.record(old, SECTION_TOKENS)]).strip()

    async def _replace(
        self, old: list[HistoryMessage], left: list[HistoryMessage], text: str, state: QueryState
    ) -> None:
        words = self._kit.prompts.memory_note
        note = user_message(words.format(count=len(old), file=MEMORY_FILE, text=text), synthetic=True)
        system_count = 1 if left and left[0]["role"] in ("system", "developer") else 0
        await take_over("memory", [*left[:system_count], note, *left[system_count:]], state, self._kit)


def _oldest(messages: list[HistoryMessage], keep: int) -> tuple[list[HistoryMessage], list[HistoryMessage]]:
    """Split off the oldest complete rounds; the rest has `keep` messages including the new notice."""
    units, count = units_of(messages), len(messages) + 1
    removed: set[int] = set()
    for index, unit in enumerate(units[:-1]):
        if count <= keep:
            break
        if not unit.fixed:
            removed.add(index)
            count -= len(unit.messages)
    return (
        joined(unit for index, unit in enumerate(units) if index in removed),
        joined(unit for index, unit in enumerate(units) if index not in removed),
    )


class Chain:
    """Run several compactors in order.

    Args:
        compactors: For example ``MemoryOverflow(folder)``, ``Ladder()``.
    """

    def __init__(self, *compactors: Compactor) -> None:
        for compactor in compactors:
            check_method("Chain: each of its compactors", compactor, "compact", "state")
        self.compactors = compactors

    def with_kit(self, kit: Kit) -> Chain:
        """Return the chain of one run."""
        known = [(compactor, as_protocol(compactor, KitAware)) for compactor in self.compactors]
        return Chain(
            *(compactor if knowing is None else knowing.with_kit(kit) for compactor, knowing in known)
        )

    async def compact(self, state: QueryState) -> None:
        """Run each compactor in turn."""
        for compactor in self.compactors:
            await compactor.compact(state)

    async def force(self, state: QueryState) -> None:
        """Force each compactor in turn, regardless of the history's length."""
        for compactor in self.compactors:
            await force(compactor, state)

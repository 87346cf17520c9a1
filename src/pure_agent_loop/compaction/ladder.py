"""The ladder: four compaction stages, cheapest first, until the history fits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pure_agent_loop.compaction.replacing import take_over
from pure_agent_loop.compaction.shape import MessageGroup, estimate, joined, units_of
from pure_agent_loop.errors import ConfigError, LimitExceededError, LLMError
from pure_agent_loop.events import Event
from pure_agent_loop.kernel.kit import Compactor, Kit
from pure_agent_loop.kernel.long_results import READ_RESULT, ReadableTools, ResultFolder
from pure_agent_loop.kernel.request import find_window, fixed_tokens, measure, window_in_step
from pure_agent_loop.kernel.state import QueryState
from pure_agent_loop.llm.adapt import TOKEN_LIMITS
from pure_agent_loop.llm.messages import user_message
from pure_agent_loop.support.checks import require_value
from pure_agent_loop.support.text import safe_str

if TYPE_CHECKING:
    from pure_agent_loop.compaction.summary import Summariser
    from pure_agent_loop.llm.message_types import HistoryMessage

RUNGS = ("prune", "repeated", "summary", "trim")
CHEAP = ("prune", "repeated")
WORTH_ASKING = 1_000  # tokens; a history shorter than this fits any window, so no window lookup is needed
FORCED_SHARE = 0.5  # shorten the history to this share of a rejected request's tokens
TAIL_SHARE = 0.25  # share of the room that is for the newest messages, which a summary does not replace
SPOKEN_SHARE = 0.15  # share of the room for older user messages, which are kept verbatim
SUMMARY_SHARE = 0.2  # share of the room for the summary
MIN_SUMMARY = 200  # tokens


@dataclass(frozen=True, slots=True)
class Ladder:
    """Shorten a history that approaches the model's context window.

    Args:
        share: Share of the window above which a request is shortened.
        unknown_window_tokens: Limit in tokens if the window is unknown.
        keep_tool_tokens: Tokens of the newest tool results to keep complete; in a small window, at most half
            the room for messages.
        summarise: True to let the model write a summary.

    Raises:
        ConfigError: A number is invalid.
    """

    share: float = 0.8
    unknown_window_tokens: int = 100_000
    keep_tool_tokens: int = 40_000
    summarise: bool = True

    def __post_init__(self) -> None:
        require_value(0 < self.share <= 1, "Ladder.share", self.share, "a number above 0, up to 1")
        if self.unknown_window_tokens < 1 or self.keep_tool_tokens < 0:
            raise ConfigError("Ladder.unknown_window_tokens and keep_tool_tokens must be positive numbers.")

    def with_kit(self, kit: Kit) -> Compactor:
        """Return the ladder for one run."""
        return LadderRun(self, kit)

    async def compact(self, state: QueryState) -> None:  # noqa: ARG002 - the protocol's shape
        """Raise ConfigError, because a kit is required.

        Raises:
            ConfigError: Always; a run uses the compactor that `with_kit` returns.
        """
        raise ConfigError("A Ladder needs the kit of a run: Ladder().with_kit(kit).compact(state).")


class LadderRun:
    """The ladder of one run; see `Ladder`."""

    def __init__(self, settings: Ladder, kit: Kit) -> None:
        self._settings = settings
        self._kit = kit
        self._asked_for_window = False
        self._ceiling = math.inf  # token limit learned from rejected requests
        self._summariser: Summariser | None = None

    async def compact(self, state: QueryState) -> None:
        """Shorten the history if the next request approaches the window."""
        tokens, _, _ = measure(state, self._kit)
        if tokens > WORTH_ASKING and not self._asked_for_window:
            self._asked_for_window = True
            await find_window(state, self._kit)
        limit = self._limit(state)
        if tokens > limit:
            await self._climb(state, limit)

    async def force(self, state: QueryState) -> None:
        """Shorten the history after a rejected request, whatever the estimated length is."""
        tokens = measure(state, self._kit).tokens
        self._ceiling = min(self._ceiling, self._settings.share * tokens)
        await self._climb(state, min(self._limit(state), int(FORCED_SHARE * tokens)))

    def _limit(self, state: QueryState) -> int:
        """Return the token limit above which the history is shortened."""
        window = window_in_step(state, self._kit)
        if window is None:
            return int(min(self._settings.unknown_window_tokens, self._ceiling))
        options = self._kit.options
        output = max((options[n] for n in TOKEN_LIMITS if isinstance(options.get(n), int)), default=0)
        free = max(window - output, window // 2)
        return int(min(self._settings.share * window, free, self._ceiling))

    async def _climb(self, state: QueryState, limit: int) -> None:
        for rung in RUNGS:
            if measure(state, self._kit).tokens <= limit:
                return
            messages = await self._try(rung, state, limit)
            if messages is not None:
                await take_over(rung, messages, state, self._kit, limit, chooses=rung in CHEAP)

    async def _try(self, rung: str, state: QueryState, limit: int) -> list[HistoryMessage] | None:
        from pure_agent_loop.compaction.rungs import drop_repeated, prune, trim

        words, room = self._kit.prompts, self._room(state, limit)
        if rung == "prune":
            keep_tokens = min(self._settings.keep_tool_tokens, room // 2)
            return prune(state.messages, keep_tokens, self._keep, words)
        if rung == "repeated":
            return drop_repeated(state.messages, words)
        if rung == "summary":
            return await self._summarised(state, limit, room) if self._settings.summarise else None
        return trim(state.messages, room, words)

    def _room(self, state: QueryState, limit: int) -> int:
        """Convert a token limit in the server's count into a limit on the messages' estimated tokens."""
        fixed, guessed = fixed_tokens(state, self._kit), state.context.estimate(state.messages)
        measured = max(1, measure(state, self._kit).tokens)
        return max(0, int(limit * (fixed + guessed) / measured) - fixed)

    def _keep(self, text: str) -> str | None:
        tools = self._kit.tools
        if not isinstance(tools, ReadableTools) or not len(tools) or READ_RESULT in tools:
            return None
        try:
            return ResultFolder(self._kit.results.folder).keep(text)
        except OSError:
            return None

    async def _summarised(self, state: QueryState, limit: int, room: int) -> list[HistoryMessage] | None:
        from pure_agent_loop.compaction.summary import Summariser

        kept_units, old, tail = divide(units_of(state.messages), room)
        tokens = max(MIN_SUMMARY, int(SUMMARY_SHARE * room))
        if estimate(joined(old)) <= 2 * tokens:  # a summary would not be much shorter than the messages
            return None
        summariser = self._summariser = self._summariser or Summariser(state, self._kit, "compact")
        try:
            text = await summariser.summarise(joined(old), limit, tokens)
        except (LLMError, LimitExceededError) as error:
            message = f"No summary could be written: {safe_str(error)}"
            await self._kit.emit(Event.notice(state.step, message))
            return None
        summary = user_message(f"{self._kit.prompts.summary_head}\n\n{text}", synthetic=True)
        return [*joined(kept_units), summary, *joined(tail)]


def divide(
    units: Sequence[MessageGroup], room: int
) -> tuple[list[MessageGroup], list[MessageGroup], list[MessageGroup]]:
    """Split the history into the messages before a summary, those that the summary replaces, and the rest."""
    begin, left = len(units) - 1, TAIL_SHARE * room - (units[-1].tokens if units else 0)
    while begin > 0 and left >= units[begin - 1].tokens:
        begin -= 1
        left -= units[begin].tokens
    head, tail = list(units[: max(begin, 0)]), list(units[max(begin, 0) :])
    kept = _spoken(head, SPOKEN_SHARE * room)
    kept_units = [unit for index, unit in enumerate(head) if unit.fixed or index in kept]
    old = [unit for index, unit in enumerate(head) if not unit.fixed and index not in kept]
    return kept_units, old, tail


def _spoken(units: Sequence[MessageGroup], tokens: float) -> set[int]:
    """Return the user messages to keep verbatim: the first one, then the newest ones that fit."""
    spoken = [index for index, unit in enumerate(units) if unit.spoken and not unit.fixed]
    kept: set[int] = set()
    for index in [*spoken[:1], *reversed(spoken[1:])]:
        if units[index].tokens <= tokens:
            kept.add(index)
            tokens -= units[index].tokens
    return kept

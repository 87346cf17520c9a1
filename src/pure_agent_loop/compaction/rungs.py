"""Compaction stages without a model: prune old results, drop repeated ones, trim the oldest rounds."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from pure_agent_loop.compaction.record import collect
from pure_agent_loop.compaction.shape import (
    CompletedCall,
    MessageGroup,
    calls_in,
    content_text,
    estimate,
    first_line,
    is_summary,
    joined,
    units_of,
)
from pure_agent_loop.kernel.long_results import result_file_in
from pure_agent_loop.llm.messages import in_words, is_media, user_message
from pure_agent_loop.llm.tokens import estimate_message
from pure_agent_loop.prompts import Prompts
from pure_agent_loop.support.parsing import json_or_text

if TYPE_CHECKING:
    from pure_agent_loop.llm.message_types import HistoryMessage, ToolMessage, WireCall

Keep = Callable[
    [str], "str | None"
]  # function that stores a string and returns its id; None if the model cannot read it back
SHORT_CHARS = 200  # shorter texts are not replaced by a record
_UNKNOWN = CompletedCall("unknown", "{}")
_LIMITS = (8_000, 4_000, 2_000, 1_000, 500, SHORT_CHARS)
TRIM_TO = 0.7  # share of the room to fill: some stays free, so that the next step need not trim again
RECORD_SHARE = 0.1  # share of the room that the notice's record of calls may use
BIG_SHARE = 0.1  # share of the room above which a user message is trimmed like any other message


def prune(
    messages: Sequence[HistoryMessage], keep_tokens: int, keep: Keep, prompts: Prompts
) -> list[HistoryMessage]:
    """Replace each old result with a record: the call, the result's size, and its first line.

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
    """If repeated calls returned identical results, keep only the newest one."""
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
    """Replace the oldest rounds with a notice and a record; shorten the rest if needed.

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

    return sorted(free, key=worth)  # `sorted` is stable: of equal units, the oldest comes first


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
    """Truncate texts and arguments, except for the newest question, to ever lower limits until they fit."""
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
    value = json_or_text(arguments)
    short = _short_value({} if value is arguments else value, limit)  # the text itself: it is not JSON
    return {**call, "function": {**call["function"], "arguments": json.dumps(short, ensure_ascii=False)}}


def _short_value(value: object, limit: int) -> Any:
    if isinstance(value, str):
        return _ends_of(value, limit)
    if isinstance(value, dict):
        return {key: _short_value(item, limit) for key, item in value.items()}
    return [_short_value(item, limit) for item in value[:limit]] if isinstance(value, list) else value


def _ends_of(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit * 2 // 3]}\n[...]\n{text[-limit // 3 :]}"

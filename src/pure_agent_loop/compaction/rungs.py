"""The rungs that need no model: old output, repeated output, the oldest rounds. Pure but for what is kept."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from pure_agent_loop.compaction.record import collect
from pure_agent_loop.compaction.shape import (
    MadeCall,
    Unit,
    calls_in,
    content_text,
    estimate,
    first_line,
    is_summary,
    joined,
    units_of,
)
from pure_agent_loop.kernel.tools.long_results import mentioned
from pure_agent_loop.llm.messages import Message, in_words, is_media, user_message
from pure_agent_loop.llm.tokens import estimate_message
from pure_agent_loop.prompts import Prompts

Keep = Callable[[str], "str | None"]  # writes a text down and says under which id; None if it cannot be read
SHORT_CHARS = 200  # a text shorter than this is not worth a record in its place
_UNKNOWN = MadeCall("unknown", "{}")
_LIMITS = (8_000, 4_000, 2_000, 1_000, 500, SHORT_CHARS)
TRIM_TO = 0.7  # of the room, so that not every step has to trim again
RECORD_SHARE = 0.1  # of the room: what was called, in the notice
BIG_SHARE = 0.1  # of the room: longer messages of the user are trimmed like any other


def prune(messages: Sequence[Message], keep_tokens: int, keep: Keep, prompts: Prompts) -> list[Message]:
    """Reduce old results to a record: the call, the sizes, the first line.

    Args:
        keep_tokens: So many tokens of the newest results stay whole; those of the last round always do.
    """
    calls, used, pruned = calls_in(messages), 0, list(messages)
    last_round = len(messages) - len(units_of(messages)[-1].messages) if messages else 0
    for index in range(len(messages) - 1, -1, -1):
        message = messages[index]
        if message["role"] != "tool" and not is_media(message):
            continue
        used += estimate_message(message)
        if used > keep_tokens and index < last_round and is_media(message):
            pruned[index] = in_words(message)
        elif used > keep_tokens and index < last_round:
            call = calls.get(message["tool_call_id"], _UNKNOWN)
            pruned[index] = _recorded(message, call, keep, prompts)
    return pruned


def _recorded(message: Message, call: MadeCall, keep: Keep, prompts: Prompts) -> Message:
    text = content_text(message)
    if len(text) <= 2 * SHORT_CHARS or text.startswith(prompts.pruned_result.partition("{")[0]):
        return message
    kept = mentioned(text) or keep(text)
    how = f"{prompts.cut_kept.format(id=kept, offset=0)} " if kept else ""
    record = prompts.pruned_result.format(
        call=call.shortened(), chars=len(text), lines=text.count("\n") + 1, how=how, title=first_line(text)
    )
    return {**message, "content": record} if len(record) < len(text) else message


def drop_repeated(messages: Sequence[Message], prompts: Prompts) -> list[Message]:
    """Where a call was made again with the same result, only the newest result stays."""
    calls, seen = calls_in(messages), dict[tuple[MadeCall, str], str]()
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


def trim(messages: Sequence[Message], room: int, prompts: Prompts) -> list[Message]:
    """Leave out the oldest rounds, with a notice and a record in their place; shorten the rest if need be.

    What the user has said goes last. The last round stays.

    Args:
        room: Tokens it may have.
    """
    units = units_of(messages)
    total, target = sum(unit.tokens for unit in units), TRIM_TO * room
    gone: set[int] = set()
    for index in _by_worth(units, BIG_SHARE * room, prompts):
        if total <= target:
            break
        gone.add(index)
        total -= units[index].tokens
    left = _with_notice(units, gone, int(RECORD_SHARE * room), prompts)
    return left if estimate(left) <= room else _shortened(left, room)


def _by_worth(units: list[Unit], big: float, prompts: Prompts) -> list[int]:
    """The units that may go, the least important first."""
    free = [index for index, unit in enumerate(units[:-1]) if not unit.fixed]

    def worth(index: int) -> bool:
        unit = units[index]
        return (unit.spoken and unit.tokens <= big) or is_summary(unit.messages[0], prompts)

    return sorted(free, key=worth)  # stable: the oldest first among equals


def _with_notice(units: list[Unit], gone: set[int], tokens: int, prompts: Prompts) -> list[Message]:
    if not gone:
        return joined(units)
    old = [message for index in sorted(gone) for message in units[index].messages]
    parts = [prompts.trimmed.format(count=len(old)), collect(old, prompts).write(tokens, prompts)]
    notice = user_message("\n\n".join(filter(None, parts)), synthetic=True)
    first = min(gone)
    kept = [unit for index, unit in enumerate(units) if index not in gone and index > first]
    return [*joined(units[:first]), notice, *joined(kept)]


def _shortened(messages: list[Message], room: int) -> list[Message]:
    """Texts and arguments cut to ever shorter pieces until it fits; the newest question stays whole."""
    units = units_of(messages)
    free = room - sum(unit.tokens for unit in units if unit.fixed)
    for limit in _LIMITS if free > 0 else _LIMITS[-1:]:
        cut = [
            unit if unit.fixed else unit._replace(messages=[_short(each, limit) for each in unit.messages])
            for unit in units
        ]
        if estimate(joined(unit for unit in cut if not unit.fixed)) <= free:
            break
    return joined(cut)


def _short(message: Message, limit: int) -> Message:
    changed = dict(message)
    content = message.get("content")
    if isinstance(content, list):
        content = in_words(message)["content"]
    if isinstance(content, str):
        changed["content"] = _ends_of(content, limit)
    if message.get("tool_calls"):
        changed["tool_calls"] = [_short_call(call, limit) for call in message["tool_calls"]]
    return changed


def _short_call(call: dict[str, Any], limit: int) -> dict[str, Any]:
    arguments = call["function"]["arguments"]
    if len(arguments) <= limit:
        return call
    try:
        short = json.dumps(_short_value(json.loads(arguments), limit), ensure_ascii=False)
    except (ValueError, RecursionError):
        short = "{}"
    return {**call, "function": {**call["function"], "arguments": short}}


def _short_value(value: Any, limit: int) -> Any:
    if isinstance(value, str):
        return _ends_of(value, limit)
    if isinstance(value, dict):
        return {key: _short_value(each, limit) for key, each in value.items()}
    return [_short_value(each, limit) for each in value[:limit]] if isinstance(value, list) else value


def _ends_of(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit * 2 // 3]}\n[...]\n{text[-limit // 3 :]}"

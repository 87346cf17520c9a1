"""Server prompt caches: marks in a request, and the request's cache key."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from pure_agent_loop.llm.messages import (
    SYSTEM_ROLES,
    Message,
    text_of,
)
from pure_agent_loop.llm.values import JsonObject

CACHE_MARK = {"cache_control": {"type": "ephemeral"}}
MAX_MARKS = 4  # maximum cache marks in a request to Anthropic or Alibaba
MARK_EVERY = 15  # blocks between marks; both servers look 20 blocks back from a mark for a cached prefix


def cache_key(messages: Sequence[Message], tools: object) -> str:
    """Return the ``prompt_cache_key`` of a conversation, or of a question without tools.

    All steps of a conversation share the first message, so the key is made from it. Questions without tools
    seldom have a second step, so their key is made from the system prompt.
    """
    first = next((m for m in messages if (m["role"] not in SYSTEM_ROLES) == bool(tools)), None)
    text = text_of(first.get("content") or "") if first else ""
    return f"pal-{hashlib.blake2b(text.encode('utf-8', 'replace'), digest_size=12).hexdigest()}"


def mark_for_cache(body: JsonObject) -> None:
    """Add cache marks to a request, in place: at the system prompt, at the end, and between them.

    A single question without tools is not marked, because writing to the cache costs more than it saves. A
    request that the caller has marked is not changed. Assistant messages are not marked.
    """
    messages: list[Message] = body["messages"]
    if not body.get("tools") and not any(message["role"] == "assistant" for message in messages):
        return
    if any("cache_control" in part for item in messages for part in _parts_of(item)):
        return
    left, distance = MAX_MARKS, MARK_EVERY
    if messages[0]["role"] in SYSTEM_ROLES and messages[0].get("content"):
        messages[0] = _marked(messages[0])
        left -= 1
    for index in range(len(messages) - 1, 0, -1):
        message = messages[index]
        if not left:
            return
        if distance >= MARK_EVERY and message["role"] != "assistant" and message.get("content"):
            messages[index] = _marked(message)
            left, distance = left - 1, 0
        distance += max(1, len(_parts_of(message)) + len(message.get("tool_calls") or ()))


def _parts_of(message: Message) -> list[JsonObject]:
    content = message.get("content")
    return content if isinstance(content, list) else []


def _marked(message: Message) -> Message:
    parts = _parts_of(message) or [{"type": "text", "text": message["content"]}]
    return {**message, "content": [*parts[:-1], {**parts[-1], **CACHE_MARK}]}

"""Guessing token counts where a server reports none. No tokenizer, no network.

The weights are those of a small fit over twelve texts in English, Chinese and code against a real
tokenizer (o200k): between -17 % and +7 % of the true count there, where ``len/4`` is off by up to 48 %.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

from pure_agent_loop.llm.response import LLMResponse
from pure_agent_loop.llm.values import TokenUsage

_WORD = re.compile(r"[^\W\d_\u2e80-\u9fff\uac00-\ud7af]+")
_DIGITS = re.compile(r"\d+")
_CJK = re.compile(r"[\u2e80-\u9fff\uac00-\ud7af]")
_PUNCTUATION = re.compile(r"[^\w\s]+")
OTHER_PART_TOKENS = 1_000  # an image or a sound, however long its bytes are
MESSAGE_OVERHEAD = 4  # role and separators of the usual chat templates


def estimate_tokens(text: str) -> int:
    """About how many tokens a text has."""
    words = _WORD.findall(text)
    letters = sum(map(len, words))
    digits = sum(math.ceil(len(run) / 3) for run in _DIGITS.findall(text))
    chinese = len(_CJK.findall(text))
    punctuation = len(_PUNCTUATION.findall(text))
    weighted = 0.5 * len(words) + 0.125 * letters + 0.9 * digits + 0.72 * chinese
    return math.ceil(1.1 * (weighted + 0.75 * punctuation + 0.4 * text.count("\n")))


def estimate_message(message: Mapping[str, Any]) -> int:
    """About how many tokens a message has."""
    content = message.get("content")
    text, more = (content, 0) if isinstance(content, str) else _text_of_parts(content)
    calls = message.get("tool_calls")
    if calls:
        text += json.dumps(calls, ensure_ascii=False)
    return estimate_tokens(text) + more + MESSAGE_OVERHEAD


def _text_of_parts(content: Any) -> tuple[str, int]:
    """The text in a content of parts, and the tokens of what is beside it."""
    parts = content if isinstance(content, list) else [content or ""]
    texts = [
        part["text"] for part in parts if isinstance(part, Mapping) and isinstance(part.get("text"), str)
    ]
    others = sum(isinstance(part, Mapping) and part.get("type") not in (None, "text") for part in parts)
    rest = [part for part in parts if not isinstance(part, Mapping)]
    return "\n".join([*texts, json.dumps(rest, ensure_ascii=False) if rest else ""]), len(
        parts
    ) + others * OTHER_PART_TOKENS


def estimate_usage(messages: Iterable[Mapping[str, Any]], response: LLMResponse) -> TokenUsage:
    """Usage of a request whose server did not report it, marked as estimated."""
    return usage_of(sum(map(estimate_message, messages)), response)


def usage_of(prompt: int, response: LLMResponse) -> TokenUsage:
    """The same where the tokens of the request are known."""
    written = (response.content or "") + (response.reasoning_content or "")
    written += "".join(f"{call.name}{json.dumps(call.arguments)}" for call in response.tool_calls)
    completion = estimate_tokens(written)
    return TokenUsage(prompt, completion, prompt + completion, estimated=True)

"""The frame around words of others: what a model reads as data."""

from __future__ import annotations

import re

from pure_agent_loop.prompts import CHINESE, ENGLISH, Prompts


def framed(prompts: Prompts, source: str, mark: str, text: str) -> str:
    """A text in its frame.

    Args:
        mark: What stands at both ends, and nowhere in the text.
    """
    head = prompts.untrusted.format(source=source, mark=mark)
    return f"{head}\n{text}\n{prompts.untrusted_end.format(mark=mark)}"


def unframed(prompts: Prompts, text: str) -> str:
    """A text without its frame; as it is where it has none."""
    parts = (re.escape(prompts.untrusted), re.escape(prompts.untrusted_end))
    head, end = (
        each.replace(re.escape("{source}"), r"[^\n]*?").replace(re.escape("{mark}"), mark)
        for each, mark in zip(parts, (r"(?P<mark>[0-9a-f]+)", "(?P=mark)"), strict=True)
    )
    found = re.match(f"{head}\n(?P<text>.*)\n{end}", text, re.S)
    return text if found is None else found["text"] + text[found.end() :]


def for_people(text: str) -> str:
    """A result as a person reads it: without a frame in one of our languages."""
    for prompts in (ENGLISH, CHINESE):
        text = unframed(prompts, text)
    return text

"""Frames around untrusted text, which a model must read as data."""

from __future__ import annotations

import re

from pure_agent_loop.prompts import CHINESE, ENGLISH, Prompts


def framed(prompts: Prompts, source: str, mark: str, text: str) -> str:
    """Return a text in its frame.

    Args:
        mark: The delimiter at both ends, which must not occur in the text.
    """
    head = prompts.untrusted.format(source=source, mark=mark)
    return f"{head}\n{text}\n{prompts.untrusted_end.format(mark=mark)}"


def _form(prompts: Prompts) -> str:
    parts = (re.escape(prompts.untrusted), re.escape(prompts.untrusted_end))
    head, end = (
        part.replace(re.escape("{source}"), r"[^\n]*?").replace(re.escape("{mark}"), mark)
        for part, mark in zip(parts, (r"(?P<mark>[0-9a-f]+)", "(?P=mark)"), strict=True)
    )
    return f"{head}\n(?P<text>.*)\n{end}"


def unframed(prompts: Prompts, text: str) -> str:
    """Return a text without its frame; unchanged if it has none."""
    match = re.match(_form(prompts), text, re.S)
    return text if match is None else match["text"] + text[match.end() :]


def without_framed(text: str) -> str:
    """Return a text without the frames in it, of any language, and without what is in them."""
    for prompts in (ENGLISH, CHINESE):
        text = re.sub(_form(prompts), "", text, flags=re.S)
    return text


def for_people(text: str) -> str:
    """Return a result for people: without the frame of any language."""
    for prompts in (ENGLISH, CHINESE):
        text = unframed(prompts, text)
    return text

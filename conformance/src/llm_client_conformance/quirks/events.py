"""Rows, events and results that the quirks of the vendors' own protocols share."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from llm_client_conformance.quirks.bodies import (
    ADD_FIVE,
    ADD_NINE,
    TOKENS,
    calls,
    text,
)
from llm_client_conformance.quirks.quirk import Expected, Quirk
from llm_client_conformance.scripted.completions import sse

SAID = "It is 5."
FIVE_SAID = text(SAID, usage=TOKENS)
UNCOUNTED = text(SAID)
CALLED_FIVE = calls(ADD_FIVE, usage=TOKENS)
CALLED_BOTH = calls(ADD_FIVE, ADD_NINE, usage=TOKENS)
EARLY = Expected(error="incomplete")
PAGE = b"<!doctype html><title>Sign in</title><h1>Sign in</h1>"


def rows(protocol: str, *rows: tuple[Any, ...]) -> tuple[Quirk, ...]:
    """Return the quirks of a protocol; the items of a row are the first arguments of `Quirk`."""
    return tuple(replace(Quirk(*row), protocol=protocol) for row in rows)


def named_events(*events: Mapping[str, Any]) -> bytes:
    """Return a stream of events, each with its name, as Anthropic and OpenAI send them."""
    return b"".join(sse(json.dumps(event).encode(), str(event.get("type", ""))) for event in events)


def unnamed_events(*events: Any) -> bytes:
    """Return a stream of events without names, as Google sends them."""
    return b"".join(sse(json.dumps(event).encode()) for event in events)

"""Messages of subagents to models, in English and Chinese, from the catalogue."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from pure_agent_loop.support.language import LANGUAGES, in_language, message_in

Words = Callable[..., str]


def words_for(language: str | None = None) -> Words:
    """Return a function that formats a message in the section ``subagents`` by its name.

    Args:
        language: ``"en"``, ``"zh"``, or None for the language of the run, else of the environment.

    Raises:
        ConfigError: The language is not supported.
    """
    return partial(_word, in_language({name: name for name in LANGUAGES}, language))


def _word(language: str, name: str, /, **values: object) -> str:
    return message_in(language, f"subagents.{name}", **values)

"""Texts of the assistant for models, in English and Chinese. Each text can be replaced."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pure_agent_loop.prompts import ToolWords
from pure_agent_loop.support.language import in_language, table
from pure_agent_loop.tool import Tool


@dataclass(frozen=True, slots=True)
class AssistantWords:
    """The texts of one language. Names in braces are placeholders; an empty text drops its section."""

    identity: str
    tools: str
    memory: str
    safety: str
    notes: str
    always: str
    skills: str
    context: str
    now: str
    channel: str
    chat: str
    remembered: str
    starts_again: str
    waiting: str
    memory_write: str
    memory_search: str
    memory_read: str
    load_skill: str
    written: str
    known: str
    nothing_found: str
    nothing_yet: str
    memory_full: str
    entry_too_long: str
    entry_empty: str
    not_written: str
    no_skill: str
    skill_files: str
    skill_cut: str
    skill_binary: str
    skill_changed: str
    work: str = ""
    about: str = "{text}"


ENGLISH = AssistantWords(**table("assistant", "en"))
CHINESE = AssistantWords(**table("assistant", "zh"))
_BY_LANGUAGE = {"en": ENGLISH, "zh": CHINESE}


def words_for(language: str | None = None) -> AssistantWords:
    """Return the assistant's texts in a language.

    Args:
        language: ``"en"``, ``"zh"``, or None for the language of the run, else of the environment.

    Raises:
        ConfigError: The language is not supported.
    """
    return in_language(_BY_LANGUAGE, language)


def described_tool(
    function: Callable[..., str], words: AssistantWords | None, suffix: str = "", **options: Any
) -> Tool:
    """Return a tool described by the text of the same name, in the agent's language unless `words` is set."""
    name = function.__name__

    def text(source: AssistantWords) -> str:
        return f"{getattr(source, name)}\n{suffix}".strip()

    by_language = {language: ToolWords(text(words or texts)) for language, texts in _BY_LANGUAGE.items()}
    return Tool(function, description=text(words or words_for()), words=by_language, **options)

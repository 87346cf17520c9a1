"""In which language a model is spoken to: one lookup for every table, and the voice of the run that is on."""

from __future__ import annotations

import logging
import os
import string
from collections.abc import Mapping
from contextlib import suppress
from contextvars import ContextVar
from functools import lru_cache
from typing import Literal, Protocol, TypeVar, get_args

from pure_agent_loop.errors import ConfigError

LOG = logging.getLogger("pure_agent_loop")
LANGUAGE_VARIABLE = "PURE_AGENT_LOOP_LANG"
Language = Literal["en", "zh"]
LANGUAGES: tuple[str, ...] = get_args(Language)
Pairs = Mapping[str, tuple[str, str]]
_T = TypeVar("_T")


class Voice(Protocol):
    """Who speaks in a run; `Prompts` is one."""

    @property
    def language(self) -> str:
        """Which of `LANGUAGES`."""
        ...

    @property
    def sentences(self) -> Mapping[str, str]:
        """Sentences said in other words than ours, by their names."""
        ...


_VOICE: ContextVar[Voice | None] = ContextVar("pure_agent_loop_voice", default=None)


class speaking:  # noqa: N801 - it stands behind `with`
    """Let what is said inside, in tasks and tool threads too, be said by a voice."""

    __slots__ = ("_token", "_voice")

    def __init__(self, voice: Voice) -> None:
        self._voice = voice

    def __enter__(self) -> None:
        self._token = _VOICE.set(self._voice)

    def __exit__(self, *_: object) -> None:
        with suppress(ValueError):  # what was left behind is closed from elsewhere
            _VOICE.reset(self._token)


def current_voice() -> Voice | None:
    """The voice of the run this code is in; None outside of one."""
    return _VOICE.get()


def default_language() -> str:
    """The language of the run this code is in; else that of ``PURE_AGENT_LOOP_LANG``, else ``"en"``."""
    voice = _VOICE.get()
    if voice is not None:
        return voice.language
    given = os.environ.get(LANGUAGE_VARIABLE, "")
    wanted = given[:2].lower()
    if wanted in LANGUAGES:
        return wanted
    if given:
        _warn_once(given)
    return "en"


@lru_cache(maxsize=16)
def _warn_once(given: str) -> None:
    known = ", ".join(LANGUAGES)
    LOG.warning("%s=%r is not known, so it is en. Use one of: %s.", LANGUAGE_VARIABLE, given[:40], known)


def in_language(table: Mapping[str, _T], language: str | None = None) -> _T:
    """What a table has for a language.

    Args:
        table: By language.
        language: ``"en"``, ``"zh"``, or None for the default; see `default_language`.

    Raises:
        ConfigError: The table has nothing for it.
    """
    try:
        return table[language or default_language()]
    except KeyError:
        raise ConfigError(f"language={language!r} is not known. Use one of: {', '.join(table)}.") from None


class Sentences:
    """The sentences of one package, by name: each in English and Chinese, with names in braces to fill in.

    Args:
        pairs: English and Chinese by name.
    """

    def __init__(self, pairs: Pairs) -> None:
        self.pairs = pairs

    def __call__(self, name: str, /, **values: object) -> str:
        """A sentence as the run at hand says it."""
        voice = _VOICE.get()
        text = None if voice is None else voice.sentences.get(name)
        if text is None:
            text = self.pairs[name][LANGUAGES.index(default_language())]
        return text.format(**values) if values else text

    def check(self, name: str, text: str) -> None:
        """Refuse a text that could not be said in the place of a sentence.

        Raises:
            ConfigError: It has a name in braces that is not filled in there.
        """
        known, wanted = set[str]().union(*map(blanks, self.pairs[name])), blanks(text)
        if not wanted <= known:
            raise ConfigError(
                f"sentences[{name!r}]: {', '.join(sorted(wanted - known))} is not filled in there. "
                f"Known: {', '.join(sorted(known)) or 'none'}."
            )


def blanks(text: str) -> set[str]:
    """The names in braces."""
    try:
        return {name for _, name, _, _ in string.Formatter().parse(text) if name is not None}
    except ValueError as error:
        raise ConfigError(f"{text!r:.80} cannot be filled in: {error}.") from None

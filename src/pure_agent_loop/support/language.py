"""Messages in two languages: one lookup per table, the prompts of the current run, messages to people."""

from __future__ import annotations

import logging
import os
import string
from collections.abc import Mapping
from contextlib import suppress
from contextvars import ContextVar
from functools import lru_cache
from typing import Any, Literal, Protocol, TypeVar, final, get_args

from pure_agent_loop.errors import ConfigError, checked_choice
from pure_agent_loop.support.variables import variable

LOG = logging.getLogger("pure_agent_loop")
LANGUAGE_VARIABLE = "PAL_LANG"
Language = Literal["en", "zh"]
LANGUAGES: tuple[str, ...] = get_args(Language)
Pairs = Mapping[str, tuple[str, str]]
_T = TypeVar("_T")


@final
class TranslatedText(str):
    """Message to a person: a string in English that can also be read in other languages.

    Args:
        pairs: English and Chinese by id, with placeholders in braces.
        id: Id of the message in `pairs`.
        values: Values of the placeholders; one may be a `TranslatedText` itself.
    """

    __slots__ = ("_pair", "id", "values")
    _pair: tuple[str, str]
    id: str
    values: Mapping[str, Any]

    def __new__(cls, pairs: Pairs, id: str, /, **values: object) -> TranslatedText:  # noqa: A002, D102 - positional; see the class
        message = super().__new__(cls, pairs[id][0].format(**values))
        message._pair, message.id, message.values = pairs[id], id, values
        return message

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        return str, (str(self),)  # what is stored or sent to another process is plain English

    def translated(self, language: str) -> str:
        """Return the message in one of `LANGUAGES`."""
        values = {name: translated(value, language) for name, value in self.values.items()}
        return self._pair[LANGUAGES.index(language)].format(**values)


def translated(value: _T, language: str) -> _T | str:
    """Return a `TranslatedText` in one of `LANGUAGES`, and any other value unchanged."""
    return value.translated(language) if isinstance(value, TranslatedText) else value


class Messages(Protocol):
    """Message source of a run; `Prompts` is one."""

    @property
    def language(self) -> str:
        """One of `LANGUAGES`."""
        ...

    @property
    def sentences(self) -> Mapping[str, str]:
        """Overrides of sentences, by name."""
        ...


_MESSAGES: ContextVar[Messages | None] = ContextVar("pure_agent_loop_messages", default=None)


class use_messages:  # noqa: N801 - used as `with use_messages(...)`
    """Use these messages inside, in tasks and tool threads too."""

    __slots__ = ("_messages", "_token")

    def __init__(self, messages: Messages) -> None:
        self._messages = messages

    def __enter__(self) -> None:
        self._token = _MESSAGES.set(self._messages)

    def __exit__(self, *_: object) -> None:
        with suppress(ValueError):  # an abandoned generator is closed in another context
            _MESSAGES.reset(self._token)


def current_messages() -> Messages | None:
    """Return the messages of the current run, or None outside a run."""
    return _MESSAGES.get()


def default_language() -> str:
    """Return the language of the current run, else of ``PAL_LANG``, else ``"en"``."""
    messages = _MESSAGES.get()
    if messages is not None:
        return messages.language
    value = variable(LANGUAGE_VARIABLE)
    code = value[:2].lower()
    if code in LANGUAGES:
        return code
    if value:
        _warn_once(value)
    return "en"


def user_language(environ: Mapping[str, str] = os.environ) -> str:
    """Return the language of the user: ``PAL_LANG``, else that of the locale, else ``"en"``."""
    locale = (environ.get(name, "") for name in ("LC_ALL", "LC_MESSAGES", "LANG"))
    settings = (variable(LANGUAGE_VARIABLE, environ), *locale)
    language = next((setting for setting in settings if setting), "")[:2].lower()
    return language if language in LANGUAGES else LANGUAGES[0]


def in_user_language(text: str, environ: Mapping[str, str] = os.environ) -> str:
    """Return a `TranslatedText` in the language of `user_language`, and any other text unchanged."""
    return translated(text, user_language(environ))


@lru_cache(maxsize=16)
def _warn_once(value: str) -> None:
    known = ", ".join(LANGUAGES)
    LOG.warning("%s=%r: unknown language, using en. Use one of: %s.", LANGUAGE_VARIABLE, value[:40], known)


def in_language(table: Mapping[str, _T], language: str | None = None) -> _T:
    """Return the entry of a table for a language.

    Args:
        table: Entries by language.
        language: ``"en"``, ``"zh"``, or None for the default; see `default_language`.

    Raises:
        ConfigError: The table lacks the language.
    """
    return table[checked_choice("language", language or default_language(), table)]


class Sentences:
    """Sentences of one package by name, in English and Chinese, with placeholders in braces."""

    def __init__(self, pairs: Pairs) -> None:
        self.pairs = pairs

    def __call__(self, name: str, /, **values: object) -> str:
        """Return a sentence in the language and words of the current run."""
        return self._sentence(name, default_language(), values)

    def for_user(self, name: str, /, **values: object) -> str:
        """Return a sentence for a person, in the language of `user_language` and the words of the run."""
        return self._sentence(name, user_language(), values)

    def _sentence(self, name: str, language: str, values: Mapping[str, object]) -> str:
        messages = _MESSAGES.get()
        text = None if messages is None else messages.sentences.get(name)
        if text is None:
            text = self.pairs[name][LANGUAGES.index(language)]
        return text.format(**values) if values else text

    def check(self, name: str, text: str) -> None:
        """Reject a text that cannot replace a sentence.

        Raises:
            ConfigError: It has a placeholder that the sentence lacks.
        """
        known = set[str]().union(*map(placeholders, self.pairs[name]))
        unknown = placeholders(text) - known
        if unknown:
            raise ConfigError(
                f"sentences[{name!r}]: unknown placeholder {', '.join(sorted(unknown))}. "
                f"Known: {', '.join(sorted(known)) or 'none'}."
            )


def placeholders(text: str) -> set[str]:
    """Return the placeholders of a text."""
    try:
        return {name for _, name, _, _ in string.Formatter().parse(text) if name is not None}
    except ValueError as error:
        raise ConfigError(f"{text!r:.80}: invalid placeholder: {error}.") from None

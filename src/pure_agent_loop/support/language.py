"""Message catalogue: one lookup for messages to models (in the language of a run) and to people."""

from __future__ import annotations

import logging
import os
import string
from collections.abc import Collection, Mapping
from contextlib import suppress
from contextvars import ContextVar
from functools import cache, lru_cache
from importlib import import_module
from typing import Any, Literal, Protocol, TypeVar, cast, final, get_args

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.support.variables import variable

LOG = logging.getLogger("pure_agent_loop")
LANGUAGE_VARIABLE = "PAL_LANG"
Language = Literal["en", "zh"]
LANGUAGES: tuple[str, ...] = get_args(Language)
_T = TypeVar("_T")
_Word = TypeVar("_Word", bound=str)


_FOLDERS = {"en": "english", "zh": "chinese"}  # packages in pure_agent_loop.prompts, by language
_MESSAGES: ContextVar[Messages | None] = ContextVar("pure_agent_loop_messages", default=None)


@cache
def table(section: str, language: str) -> Mapping[str, str]:
    """Return a table from the catalogue: the messages in a section by name, in one of `LANGUAGES`.

    Args:
        section: The name of a module in ``prompts/english`` and ``prompts/chinese``.
    """
    module = import_module(f"pure_agent_loop.prompts.{_FOLDERS[language]}.{section}")
    return cast("Mapping[str, str]", module.MESSAGES)


def message_in(language: str, id: str, /, **values: object) -> str:  # noqa: A002 - positional
    """Return a message from the catalogue in one of `LANGUAGES`, with its placeholders filled in.

    Args:
        id: ``SECTION.NAME``; a name without a section is in the section ``model``.
        values: Values of the placeholders. A `TranslatedText`, or an error with one, is translated too.
    """
    section, _, name = id.rpartition(".")
    text = table(section or "model", language)[name]
    return text.format(**{key: translated(value, language) for key, value in values.items()})


def in_each_language(id: str, /, **values: object) -> dict[str, str]:  # noqa: A002 - positional
    """Return a message from the catalogue in each language, without surrounding white space."""
    return {language: message_in(language, id, **values).strip() for language in LANGUAGES}


@final
class TranslatedText(str):
    """Message to a person: a string in English that can be translated later.

    Args:
        id: Id of the message in the catalogue; see `message_in`.
        values: Values of the placeholders.
    """

    __slots__ = ("id", "values")
    id: str
    values: Mapping[str, Any]

    def __new__(cls, id: str, /, **values: object) -> TranslatedText:  # noqa: A002, D102 - positional; see the class
        text = super().__new__(cls, message_in(LANGUAGES[0], id, **values))
        text.id, text.values = id, values
        return text

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        return str, (str(self),)  # pickle as plain English text

    def translated(self, language: str) -> str:
        """Return the message in one of `LANGUAGES`."""
        return message_in(language, self.id, **self.values)


notice = TranslatedText


def translated(value: _T, language: str) -> _T | str:
    """Return a `TranslatedText`, or an error with such a message, in one of `LANGUAGES`; else the value."""
    text = value.args[0] if isinstance(value, BaseException) and value.args else value
    if not isinstance(text, TranslatedText) or str(value) != str(text):
        return value
    return text.translated(language)


class Messages(Protocol):
    """Message source of a run; `Prompts` is one."""

    @property
    def language(self) -> str:
        """One of `LANGUAGES`."""

    @property
    def sentences(self) -> Mapping[str, str]:
        """Custom messages, by name."""


class use_messages:  # noqa: N801 - used as `with use_messages(...)`
    """Use these messages in this block, including its tasks and tool threads."""

    __slots__ = ("_messages", "_token")

    def __init__(self, messages: Messages) -> None:
        self._messages = messages

    def __enter__(self) -> None:
        self._token = _MESSAGES.set(self._messages)

    def __exit__(self, *_: object) -> None:
        # An abandoned generator is closed in another context, where the token is invalid.
        with suppress(ValueError):
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
    """Return the language of the user: ``PAL_LANG``, else the language of the locale, else ``"en"``."""
    locale = (environ.get(name, "") for name in ("LC_ALL", "LC_MESSAGES", "LANG"))
    settings = (variable(LANGUAGE_VARIABLE, environ), *locale)
    language = next((setting for setting in settings if setting), "")[:2].lower()
    return language if language in LANGUAGES else LANGUAGES[0]


def in_user_language(text: str, environ: Mapping[str, str] = os.environ) -> str:
    """Return a `TranslatedText` in the language of `user_language`, and any other text unchanged."""
    return translated(text, user_language(environ))


@lru_cache(maxsize=16)
def _warn_once(value: str) -> None:
    LOG.warning(
        "%s=%r: unknown language, using en. Use one of: %s.",
        LANGUAGE_VARIABLE,
        value[:40],
        ", ".join(LANGUAGES),
    )


def checked_choice(name: str, value: _Word | None, choices: Collection[_Word]) -> _Word:
    """Return a value that is one of the choices.

    Args:
        name: Name of the option, for the message.

    Raises:
        ConfigError: The value is not a choice; the message lists the choices.
    """
    if value is None or value not in choices:
        raise ConfigError(
            notice("library.unknown_choice", name=name, value=value, choices=", ".join(choices))
        )
    return value


def in_language(table: Mapping[str, _T], language: str | None = None) -> _T:
    """Return the entry of a table for a language.

    Args:
        table: Entries by language.
        language: ``"en"``, ``"zh"``, or None for the default; see `default_language`.

    Raises:
        ConfigError: The table lacks the language.
    """
    return table[checked_choice("language", language or default_language(), table)]


def model_text(id: str, /, **values: object) -> str:  # noqa: A002 - positional
    """Return a message for a model, in the run's language or custom wording; see `message_in`."""
    messages = _MESSAGES.get()
    text = None if messages is None else messages.sentences.get(id)
    if text is None:
        text = table("model", default_language())[id]
    return text.format(**values) if values else text


def user_text(id: str, /, **values: object) -> str:  # noqa: A002 - positional
    """Return a message for a person, in the language of `user_language`, with the run's custom messages."""
    messages = _MESSAGES.get()
    if messages is not None and id in messages.sentences:
        return messages.sentences[id].format(**values)
    return message_in(user_language(), id, **values)


def check_replacement(name: str, text: str) -> None:
    """Reject a text that cannot replace a message for a model.

    Raises:
        ConfigError: The name is unknown, or the text has a placeholder that the message lacks.
    """
    if name not in table("model", LANGUAGES[0]):
        raise ConfigError(f"sentences: unknown name {name!r}. See pure_agent_loop.prompts.english.model.")
    known = set[str]().union(*(placeholders(table("model", language)[name]) for language in LANGUAGES))
    if unknown := placeholders(text) - known:
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

"""Help and usage errors of `argparse` in the user's language, translated by looking up the English texts."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable

from pure_agent_loop.support.language import LANGUAGES, table, user_language, user_text
from pure_agent_loop.support.terminal import wrap_text

_EXAMPLES = "examples:"


class WrappedHelp(argparse.RawDescriptionHelpFormatter):
    """Formatter of ``--help`` that wraps between words; texts around the options keep their lines."""

    def _split_lines(self, text: str, width: int) -> list[str]:
        return wrap_text(text, width).split("\n")

    def _format_action(self, action: argparse.Action) -> str:
        return wrap_text(super()._format_action(action), self._width)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return indent + wrap_text(text, width).replace("\n", f"\n{indent}")


class TranslatedHelp(WrappedHelp):
    """Formatter of ``--help`` in the user's language."""

    def add_usage(  # noqa: D102 - of the base class
        self,
        usage: str | None,
        actions: Iterable[argparse.Action],
        groups: Iterable[argparse._MutuallyExclusiveGroup],
        prefix: str | None = None,
    ) -> None:
        super().add_usage(usage, actions, groups, user_text("cli.usage_prefix") if prefix is None else prefix)

    def start_section(self, heading: str | None) -> None:  # noqa: D102 - of the base class
        super().start_section(heading and help_text(heading))

    def add_text(self, text: str | None) -> None:  # noqa: D102 - of the base class
        super().add_text(text and "\n\n".join(map(help_text, text.strip("\n").split("\n\n"))))

    def _get_help_string(self, action: argparse.Action) -> str | None:
        return action.help and help_text(action.help)


def help_text(text: str) -> str:
    """Return a text of ``--help`` in the user's language, or unchanged if there is no translation."""
    if user_language() == LANGUAGES[0]:
        return text
    if text.startswith(_EXAMPLES):
        return user_text("cli.examples") + text.removeprefix(_EXAMPLES)
    messages = table("help", user_language())
    if text in messages or not text.endswith("."):
        return messages.get(text, text)
    summary = messages.get(f"{text[0].lower()}{text[1:-1]}")  # a summary that is written as a sentence
    return text if summary is None else f"{summary}{user_text('cli.stop')}"


def usage_error(text: str) -> str:
    """Return an error of `argparse` in the user's language."""
    for pattern, message in table("usage", user_language()).items():
        if match := re.fullmatch(pattern, text, re.DOTALL):
            return message.format(*map(usage_error, match.groups()))
    return text

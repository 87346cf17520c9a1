"""Titles of calls: templates over the arguments, such as ``Refund {amount} for {order}?``."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from string import Formatter
from typing import Any

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.support.checks import require
from pure_agent_loop.support.terminal import one_line

MAX_TITLE, MAX_VALUE = 160, 60  # characters


def check_title(owner: str, template: str, known: Collection[str]) -> None:
    """Check the template of a title.

    Args:
        owner: The tool and the option, for messages.
        known: The arguments of the tool.

    Raises:
        ConfigError: The template is not a string, is malformed, or names something that is not an argument.
    """
    require(isinstance(template, str), owner, template, "a text such as 'Refund {amount} for {order}?'")
    try:
        fields = [field for field in Formatter().parse(template) if field[1] is not None]
    except ValueError as error:
        raise ConfigError(f"{owner}: {template!r} is no template: {error}. Write {{{{ for a brace.") from None
    for _, name, form, conversion in fields:
        if name not in known or form or conversion:
            written = f"{name}{f'!{conversion}' if conversion else ''}{f':{form}' if form else ''}"
            raise ConfigError(
                f"{owner}: {{{written}}} is no argument of the tool. It has "
                f"{', '.join(known) or 'none'}; write a name in braces, and {{{{ for a brace."
            )


def title_of(template: str, args: Mapping[str, Any], fields: Mapping[str, Any]) -> str:
    """Return a call's title on one safe line; empty if an argument that the template names is missing.

    Args:
        fields: The schema of each argument, for the defaults.
    """
    parts = []
    for text, name, _, _ in Formatter().parse(template):
        parts.append(text)
        if name is not None:
            value = args.get(name, fields.get(name, {}).get("default"))
            if value is None:
                return ""
            shown = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
            parts.append(one_line(shown, MAX_VALUE))
    return one_line("".join(parts), MAX_TITLE)

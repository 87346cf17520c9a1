"""Worked examples that the author of a tool gives."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pure_agent_loop.errors import ConfigError

Example = tuple[str, Mapping[str, Any]]


def _is_example(value: Any) -> bool:
    is_pair = isinstance(value, (tuple, list)) and len(value) == 2
    return is_pair and isinstance(value[0], str) and isinstance(value[1], Mapping)


def checked_examples(name: str, examples: Iterable[Example]) -> tuple[Example, ...]:
    """Worked examples of a tool, if they are some.

    Raises:
        ConfigError: One is no pair of a text and a dict of arguments.
    """
    found = tuple(examples)
    for each in found:
        if not _is_example(each):
            raise ConfigError(
                f'Tool {name!r}: an example must be ("question", {{"argument": value}}); it is {each!r:.80}.'
            )
    return found

"""Request options in a model maker's protocol: which ones exist there, and their names."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.llm.profiles import Default
from pure_agent_loop.llm.values import Options

# Options for the client, and options that the client itself adds to the body.
NOT_IN_BODY = frozenset(
    {"extra_body", "extra_headers", "extra_query", "timeout", "thinking_level", "stream", "server_tools"}
)


class OptionNames(NamedTuple):
    """Names of options in one protocol.

    Args:
        api: Name of the protocol in errors.
        fields: Fields of the protocol that an option may set.
        renamed: Fields of the protocol by their name in chat completions.
        translated: Chat-completions options that are converted elsewhere.
        is_camel_case: Whether the protocol spells names in camel case; an option may be in snake case.
    """

    api: str
    fields: Collection[str]
    renamed: Mapping[str, str]
    translated: Collection[str]
    is_camel_case: bool = False

    def spellings(self, name: str) -> set[str]:
        """Return the names that an option may have in the protocol."""
        return {name, self.renamed.get(name, name), _camel(name)}

    def read(self, options: Options) -> Iterator[tuple[str, Any]]:
        """Yield the fields that options set, with their values.

        Default values of options that the protocol lacks are left out.

        Raises:
            ConfigError: The protocol lacks an option.
        """
        for name, value in options.items():
            if value is None or name in NOT_IN_BODY or name in self.translated:
                continue
            field = self.renamed.get(name) or (_camel(name) if self.is_camel_case else name)
            if field in self.fields:
                yield field, value
            elif not isinstance(value, Default):
                raise ConfigError(f"{name} has no counterpart in {self.api}. Leave it out.")


def _camel(name: str) -> str:
    """Return the spelling of a name in camel case."""
    return re.sub(r"_([a-z])", lambda match: match[1].upper(), name)


def as_list(value: str | Collection[str]) -> list[str]:
    """Return the strings of an option that takes one or several, such as ``stop``."""
    return [value] if isinstance(value, str) else list(value)

"""Which settings there are. Each is an option of ``pal run``, which knows its kind, choices and help."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pure_agent_loop.cli.nearest import did_you_mean
from pure_agent_loop.cli.parser import parser_of
from pure_agent_loop.errors import ConfigError
from pure_agent_loop.permissions import Rule

GROUPS = ("rules", "limits")
OPTIONS: Mapping[str, str] = {
    "model": "--model",
    "base_url": "--base-url",
    "temperature": "--temperature",
    "thinking": "--thinking",
    "tool_mode": "--tool-mode",
    "system": "--system",
    "append_system": "--append-system",
    "mode": "--mode",
    "tools": "--tools",
    "subagents": "--subagents",
    "permission_mode": "--permission-mode",
    "sandbox": "--sandbox",
    "network": "--network",
    "sessions": "--no-session",
    "snapshots": "--no-snapshots",
    "audit": "--no-audit",
    "keep_sessions": "--keep-sessions",
    "theme": "--theme",
    "screen_reader": "--screen-reader",
    "language": "--language",
    **{f"rules.{name}": f"--{name}" for name in ("allow", "ask", "deny")},
    **{f"limits.{name}": f"--{name.replace('_', '-')}" for name in ("max_turns", "max_tokens")},
    **{f"limits.{name}": f"--{name.replace('_', '-')}" for name in ("max_seconds", "max_cost", "price")},
}
VARIABLES: Mapping[str, tuple[str, ...]] = {
    "model": ("PAL_MODEL", "OPENAI_MODEL"),
    "base_url": ("PAL_BASE_URL", "OPENAI_BASE_URL"),
    "language": ("PURE_AGENT_LOOP_LANG",),
    "theme": ("NO_COLOR", "FORCE_COLOR"),
}
# What a project may say of these, even if it is trusted: less, never more.
IN_PROJECT: Mapping[str, tuple[Any, ...]] = {
    "permission_mode": ("ask", "plan"),
    "sandbox": ("auto", "bubblewrap", "landlock"),
    "network": (False,),
    "snapshots": (True,),
    "audit": (True,),
}
_JOINED = ("tools", "limits.price")  # a list may stand for words between commas


@dataclass(frozen=True, slots=True)
class Key:
    """A setting.

    Args:
        name: As it stands in a file.
        action: The option that it is.
    """

    name: str
    action: argparse.Action

    @property
    def is_switch(self) -> bool:
        """True if it is on or off."""
        return self.action.nargs == 0

    @property
    def is_inverse(self) -> bool:
        """True if the option says that it is off."""
        return OPTIONS[self.name].startswith("--no-")

    @property
    def is_list(self) -> bool:
        """True if values add up."""
        return self.name.startswith("rules.")

    @property
    def default(self) -> Any:
        """What holds where nobody says anything."""
        return not self.action.default if self.is_inverse else self.action.default

    def checked(self, value: Any, where: str) -> Any:
        """The value as the option would have it.

        Args:
            value: As it stands in a file.

        Raises:
            ConfigError: It cannot be one.
        """
        try:
            return self._read(value)
        except (argparse.ArgumentTypeError, ConfigError) as error:
            raise ConfigError(f"{where}: {self.name} = {value!r:.80}: {error}.") from None

    def _read(self, value: Any) -> Any:
        if self.is_switch:
            return _of_kind(value, bool, "true or false")
        if self.is_list:
            rules = _of_kind(value, list, "a list of rules")
            return [Rule.parse(_of_kind(each, str, "a rule")).text for each in rules]
        if self.name in _JOINED and isinstance(value, list):
            value = ",".join(map(str, value))
        if self.action.type is None:
            _of_kind(value, str, "text in quotes")
        read = self.action.type(str(value)) if callable(self.action.type) else value
        if self.action.choices is not None and read not in self.action.choices:
            choices = list(map(str, self.action.choices))
            raise ConfigError(
                f"use one of: {', '.join(choices)}.{did_you_mean(str(read), choices)}".rstrip(".")
            )
        return read


def _of_kind(value: Any, kind: type, called: str) -> Any:
    if not isinstance(value, kind):
        raise ConfigError(f"it must be {called}")
    return value


def all_keys() -> dict[str, Key]:
    """The settings by name."""
    by_option = {word: each for each in parser_of("run")._actions for word in each.option_strings}
    return {name: Key(name, by_option[option]) for name, option in OPTIONS.items()}

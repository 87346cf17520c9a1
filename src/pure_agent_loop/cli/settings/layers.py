"""Which value of a setting holds: typed options > profile > environment > project > user > default."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pure_agent_loop.cli.nearest import did_you_mean
from pure_agent_loop.cli.settings.files import Server, Sheet
from pure_agent_loop.cli.settings.keys import VARIABLES, Key
from pure_agent_loop.errors import ConfigError

DEFAULT = "default"


@dataclass(frozen=True, slots=True)
class Setting:
    """A value and where it comes from.

    Args:
        value: What holds.
        origin: Where it was said, for people.
        rank: How strong that is; the strongest is 0.
        is_filed: A file says so, and not the command line or the environment.
    """

    value: Any
    origin: str
    rank: int
    is_filed: bool = False


@dataclass(frozen=True, slots=True)
class _Layer:
    origins: Mapping[str, str]  # by name of the setting
    values: Mapping[str, Any]
    is_filed: bool = False
    is_project: bool = False


def resolve(
    keys: Mapping[str, Key],
    options: argparse.Namespace,
    sheets: Sequence[Sheet],
    environ: Mapping[str, str],
) -> dict[str, Setting]:
    """What holds of each setting.

    Args:
        options: The parsed command line; `given` names the options that were typed.
        sheets: What the files say: that of the project first, then that of the user.

    Raises:
        ConfigError: There is no such profile, or a project gives an address.
    """
    layers = [_typed(keys, options), *_profiles(sheets, options.profile), _variables(environ)]
    layers += [_filed(sheet.shown, sheet, sheet.values) for sheet in sheets]
    servers = servers_of(sheets)
    for layer in layers:
        if layer.is_project and layer.values.get("base_url", "") not in ("", *servers):
            hint = did_you_mean(layer.values["base_url"], servers)
            raise ConfigError(
                f"{layer.origins['base_url']}: base_url = {layer.values['base_url']!r} is none of your own "
                f"[servers]: {', '.join(servers) or 'there are none'}. No project says where keys go.{hint}"
            )
    return {name: _found(name, key, layers) for name, key in keys.items()}


def servers_of(sheets: Sequence[Sheet]) -> dict[str, Server]:
    """The servers with names."""
    return {name: each for sheet in sheets for name, each in sheet.servers.items()}


def _typed(keys: Mapping[str, Key], options: argparse.Namespace) -> _Layer:
    values = {
        name: (not getattr(options, key.action.dest)) if key.is_inverse else getattr(options, key.action.dest)
        for name, key in keys.items()
        if key.action.dest in options.given
    }
    return _Layer({name: keys[name].action.option_strings[-1] for name in values}, values)


def _profiles(sheets: Sequence[Sheet], profile: str | None) -> Iterator[_Layer]:
    if profile is None:
        return
    known = [name for sheet in sheets for name in sheet.profiles]
    if profile not in known:
        there = (
            f"There are: {', '.join(dict.fromkeys(known))}." if known else "There are none in your pal.toml."
        )
        raise ConfigError(f"There is no profile {profile!r}.{did_you_mean(profile, known)} {there}")
    for sheet in sheets:
        if profile in sheet.profiles:
            yield _filed(f"profile {profile} of {sheet.shown}", sheet, sheet.profiles[profile])


def _filed(origin: str, sheet: Sheet, values: Mapping[str, Any]) -> _Layer:
    return _Layer(dict.fromkeys(values, origin), values, is_filed=True, is_project=sheet.is_project)


def _variables(environ: Mapping[str, str]) -> _Layer:
    found = {
        name: next((each for each in variables if environ.get(each, "").strip()), "")
        for name, variables in VARIABLES.items()
    }
    origins = {name: variable for name, variable in found.items() if variable}
    values = {name: environ[variable].strip() for name, variable in origins.items()}
    if "theme" in values:
        values["theme"] = "plain" if origins["theme"] == "NO_COLOR" else "auto"
    return _Layer(origins, values)


def _found(name: str, key: Key, layers: Sequence[_Layer]) -> Setting:
    saying = [(rank, each) for rank, each in enumerate(layers) if name in each.values]
    if not saying:
        return Setting(key.default, DEFAULT, len(layers))
    rank, first = saying[0]
    if not key.is_list:
        return Setting(first.values[name], first.origins[name], rank, first.is_filed)
    rules = list(dict.fromkeys(rule for _, each in saying for rule in each.values[name]))
    origins = dict.fromkeys(each.origins[name] for _, each in saying)
    return Setting(rules, " + ".join(origins), rank, any(each.is_filed for _, each in saying))

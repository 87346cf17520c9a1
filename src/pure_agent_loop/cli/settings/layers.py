"""Precedence of settings: typed options > profile > environment > project > user > default."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pure_agent_loop.cli.arguments import CommandOption
from pure_agent_loop.cli.options import SETTINGS, EndpointOptions
from pure_agent_loop.cli.parser import did_you_mean
from pure_agent_loop.cli.settings.files import ParsedConfig, Server
from pure_agent_loop.errors import ConfigError
from pure_agent_loop.support.language import notice

DEFAULT = "default"


@dataclass(frozen=True, slots=True)
class EffectiveSetting:
    """A value and the origin of the value.

    Args:
        origin: The option, variable or file that set it.
        rank: Precedence; 0 is the highest.
    """

    value: Any
    origin: str
    rank: int
    is_filed: bool = False


@dataclass(frozen=True, slots=True)
class _Layer:
    origins: Mapping[str, str]  # keyed by setting name
    values: Mapping[str, Any]
    is_filed: bool = False
    is_project: bool = False


def resolve(
    options: EndpointOptions,
    sheets: Sequence[ParsedConfig],
    environ: Mapping[str, str],
) -> dict[str, EffectiveSetting]:
    """Resolve every setting.

    Args:
        options: The parsed command line; `typed_options` names the typed options.
        sheets: The files, the project's first, then the user's.

    Raises:
        ConfigError: The profile is unknown, or a project sets a URL.
    """
    layers = [_typed(options), *_profiles(sheets, options.profile), _variables(environ)]
    layers += [_filed(sheet.shown, sheet, sheet.values) for sheet in sheets]
    servers = servers_of(sheets)
    for layer in layers:
        if layer.is_project and layer.values.get("base_url", "") not in ("", *servers):
            hint = did_you_mean(layer.values["base_url"], servers)
            raise ConfigError(
                notice(
                    "cli.project_url",
                    origins=layer.origins["base_url"],
                    values=layer.values["base_url"],
                    servers=", ".join(servers) or notice("cli.none_defined"),
                    hint=hint,
                )
            )
    return {name: _setting(option, layers) for name, option in SETTINGS.items()}


def servers_of(sheets: Sequence[ParsedConfig]) -> dict[str, Server]:
    """Return the named servers from all files."""
    return {name: server for sheet in sheets for name, server in sheet.servers.items()}


def _typed(options: EndpointOptions) -> _Layer:
    typed = {
        name: option
        for name, option in SETTINGS.items()
        if option.name in options.typed_options and hasattr(options, option.name)
    }
    values = {name: option.converted(getattr(options, option.name)) for name, option in typed.items()}
    return _Layer({name: option.flags[-1] for name, option in typed.items()}, values)


def _profiles(sheets: Sequence[ParsedConfig], profile: str | None) -> Iterator[_Layer]:
    if profile is None:
        return
    known = [name for sheet in sheets for name in sheet.profiles]
    if profile not in known:
        available = (
            notice("cli.available", names=", ".join(dict.fromkeys(known)))
            if known
            else notice("cli.no_profiles")
        )
        raise ConfigError(
            notice(
                "cli.unknown_profile",
                profile=profile,
                did_you_mean=did_you_mean(profile, known),
                available=available,
            )
        )
    for sheet in sheets:
        if profile in sheet.profiles:
            yield _filed(f"profile {profile} of {sheet.shown}", sheet, sheet.profiles[profile])


def _filed(origin: str, sheet: ParsedConfig, values: Mapping[str, Any]) -> _Layer:
    return _Layer(dict.fromkeys(values, origin), values, is_filed=True, is_project=sheet.is_project)


def _variables(environ: Mapping[str, str]) -> _Layer:
    sources = {
        name: next((variable for variable in option.variables if environ.get(variable, "").strip()), "")
        for name, option in SETTINGS.items()
    }
    origins = {name: variable for name, variable in sources.items() if variable}
    values = {name: environ[variable].strip() for name, variable in origins.items()}
    if "theme" in values:
        values["theme"] = "plain" if origins["theme"] == "NO_COLOR" else "auto"
    return _Layer(origins, values)


def _setting(option: CommandOption, layers: Sequence[_Layer]) -> EffectiveSetting:
    name = option.key
    matches = [(rank, layer) for rank, layer in enumerate(layers) if name in layer.values]
    if not matches:
        return EffectiveSetting(option.converted(option.default), DEFAULT, len(layers))
    rank, first = matches[0]
    if option.default != []:
        return EffectiveSetting(first.values[name], first.origins[name], rank, first.is_filed)
    rules = list(dict.fromkeys(rule for _, layer in matches for rule in layer.values[name]))
    origins = dict.fromkeys(layer.origins[name] for _, layer in matches)
    return EffectiveSetting(rules, " + ".join(origins), rank, any(layer.is_filed for _, layer in matches))

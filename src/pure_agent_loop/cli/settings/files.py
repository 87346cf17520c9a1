"""Find, read and check ``pal.toml``."""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pure_agent_loop.cli.arguments import CommandOption
from pure_agent_loop.cli.options import SETTINGS
from pure_agent_loop.cli.parser import did_you_mean
from pure_agent_loop.errors import ConfigError, MissingExtraError
from pure_agent_loop.permissions import Rule
from pure_agent_loop.support.folders import data_folder, private_folder
from pure_agent_loop.support.language import notice
from pure_agent_loop.support.terminal import safe_text

NAME = "pal.toml"
GROUPS = ("rules", "limits")
KEYS = "keys.env"  # file next to the settings, with the API keys that the user typed
MAX_BYTES = 64 * 1024
_KEY = re.compile(r"""[!-~]+(?<!["'])""")
_SERVER = ("base_url", "api_key_env", "model")


def _checked(option: CommandOption, value: Any, where: str) -> Any:
    """Convert a value from a file as the option would.

    Raises:
        ConfigError: The value is invalid.
    """
    try:
        return _read(option, value)
    except (argparse.ArgumentTypeError, ConfigError) as error:
        raise ConfigError(
            notice("cli.setting_invalid", where=where, name=option.key, value=value, error=error)
        ) from None


def _read(option: CommandOption, value: Any) -> Any:
    if option.default is False:
        return _of_kind(value, bool, "switch")
    if option.default == []:
        rules = _of_kind(value, list, "rules")
        return [Rule.parse(_of_kind(rule, str, "rule")).text for rule in rules]
    if option.is_joined and isinstance(value, list):
        value = ",".join(map(str, value))
    parse = option.argument.get("type")
    if parse is None:
        _of_kind(value, str, "text")
    read = value if parse is None else parse(str(value))
    if option.choices and read not in option.choices:
        hint = did_you_mean(str(read), option.choices)
        hint = notice("cli.then_hint", hint=hint) if hint else ""
        raise ConfigError(notice("cli.use_one_of", choices=", ".join(option.choices), hint=hint))
    return read


def _of_kind(value: Any, kind: type, name: str) -> Any:
    if not isinstance(value, kind):
        raise ConfigError(notice("cli.setting_must_be", description=notice(f"cli.kind_{name}")))
    return value


@dataclass(frozen=True, slots=True)
class Server:
    """A named model server.

    Args:
        api_key_env: The environment variable with the key; empty for no key or the default variable.
        model: The default model on this server.
    """

    base_url: str
    api_key_env: str = ""
    model: str = ""


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """An existing settings file.

    Args:
        is_project: True if the file belongs to a project and is untrusted.
    """

    shown: str
    data: bytes
    is_project: bool


@dataclass(frozen=True, slots=True)
class ParsedConfig:
    """The parsed content of a settings file.

    Args:
        servers: The named servers; only in the user's file.
        mcp: The raw MCP server tables by name; only in the user's file.
    """

    shown: str
    values: Mapping[str, Any] = field(default_factory=dict)
    profiles: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    servers: Mapping[str, Server] = field(default_factory=dict)
    mcp: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    is_project: bool = False

    @property
    def lines(self) -> list[str]:
        """Lines of text with the settings, one per setting."""
        groups = [
            ("", self.values),
            *((f"profiles.{name}.", profile) for name, profile in self.profiles.items()),
        ]
        return [f"{start}{key} = {value!r}" for start, values in groups for key, value in values.items()]


def user_path() -> Path:
    """Return the path of the user's file, which may not exist."""
    return data_folder() / NAME


def user_file() -> ConfigFile | None:
    """Read the user's file; None if missing.

    Raises:
        ConfigError: The file cannot be read.
    """
    path = user_path()
    try:
        if path.exists() and not path.is_file():
            raise ConfigError(notice("cli.not_a_file", path=path))
        return ConfigFile(str(path), path.read_bytes(), is_project=False) if path.exists() else None
    except OSError as error:
        raise ConfigError(notice("cli.cannot_be_read", path=path, error=error.strerror)) from error


def keep_settings(values: Mapping[str, str], name: str = "", server: Server | None = None) -> str:
    """Add settings and a named server to the user's file, keeping all other lines; return the path.

    Raises:
        ConfigError: The settings cannot be added safely; the file is unchanged.
    """
    path, existing = user_path(), user_file()
    before = "" if existing is None else existing.data.decode("utf-8-sig")
    text = "".join(f"{key} = {_quoted(value)}\n" for key, value in values.items()) + before
    try:
        old = ParsedConfig("") if existing is None else read(existing)
        if server is not None and name not in old.servers:
            rows = (f"{key} = {_quoted(value)}\n" for key, value in asdict(server).items() if value)
            text = f"{text.rstrip()}\n\n[servers.{_quoted(name)}]\n{''.join(rows)}"
        new = read(ConfigFile(str(path), text.encode(), is_project=False))
    except (ConfigError, MissingExtraError) as error:
        raise ConfigError(notice("cli.not_changed", path=path, error=error)) from error
    if new.values != {**old.values, **values} or new.servers.get(name) != server:
        raise ConfigError(notice("cli.not_changed", path=path, error=notice("cli.set_already", name=name)))
    _write_private(path, text, os.O_TRUNC)
    return str(path)


def check_key(key: str) -> None:
    """Raise `ConfigError` for a text with characters that cannot occur in a key."""
    if not _KEY.fullmatch(key):
        raise ConfigError(notice("cli.not_a_key"))


def keep_key(variable: str, key: str) -> str:
    """Save the key of a named server in a file that only the user can read; return its path.

    Raises:
        ConfigError: The text cannot be a key, or the file cannot be written.
    """
    check_key(key)
    _write_private(data_folder() / KEYS, f'{variable}="{key}"\n', os.O_APPEND)
    return str(data_folder() / KEYS)


def _write_private(path: Path, text: str, mode: int) -> None:
    try:
        private_folder(path.parent)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | mode, 0o600), "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise ConfigError(
            notice("cli.cannot_be_written", path=path, error=error.strerror or error)
        ) from error


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def project_file(workspace: Path, name: str = NAME) -> ConfigFile | None:
    """Find the nearest settings file from a folder up to the git root; without git, only in the folder.

    Links that lead out of the project are not followed.
    """
    root = next(
        (folder for folder in (workspace, *workspace.parents) if (folder / ".git").exists()), workspace
    )
    for folder in (workspace, *workspace.parents):
        if (folder / name).is_file() and (folder / name) != user_path():
            return ConfigFile(str(folder / name), _read_inside(root, folder / name), is_project=True)
        if folder == root:
            break
    return None


def _read_inside(root: Path, path: Path) -> bytes:
    from pure_agent_loop.toolbox import Workspace, WorkspaceError

    try:
        with Workspace(root).open_for_reading(path.relative_to(root).as_posix()) as file:
            return file.read(MAX_BYTES + 1)
    except (WorkspaceError, OSError) as error:
        raise ConfigError(notice("cli.cannot_be_read_why", path=path, error=safe_text(str(error)))) from error


def read(file: ConfigFile) -> ParsedConfig:
    """Parse and check a file.

    Raises:
        ConfigError: The file is not valid TOML, or has an unknown name or an invalid value.
        MissingExtraError: Python 3.10 needs a package to read TOML.
    """
    reader = _TableReader(file)
    table = _toml(file)
    servers = {name: reader.server(name, fields) for name, fields in reader.tables(table, "servers").items()}
    profiles = {
        name: dict(reader.values(fields, f"profiles.{name}."))
        for name, fields in reader.tables(table, "profiles").items()
    }
    mcp = reader.tables(table, "mcp")
    return ParsedConfig(file.shown, dict(reader.values(table)), profiles, servers, mcp, file.is_project)


def _toml(file: ConfigFile) -> dict[str, Any]:
    if len(file.data) > MAX_BYTES:
        raise ConfigError(notice("cli.file_too_long", shown=file.shown, max_bytes=MAX_BYTES))
    toml = _toml_module()
    try:
        table: dict[str, Any] = toml.loads(file.data.decode("utf-8-sig"))
    except (
        ValueError,
        RecursionError,
    ) as error:  # TOML and UTF-8 errors are both ValueErrors
        raise ConfigError(notice("cli.not_toml", shown=file.shown, error=safe_text(str(error)))) from None
    return table


def _toml_module() -> Any:
    """Import the TOML reader; `tomllib` exists since Python 3.11."""
    module = next((name for name in ("tomllib", "tomli") if importlib.util.find_spec(name)), None)
    if module is None:
        raise MissingExtraError("pal.toml", "cli")
    return importlib.import_module(module)


class _TableReader:
    """Checks the tables of one file."""

    def __init__(self, file: ConfigFile) -> None:
        self._file = file

    def tables(self, table: dict[str, Any], name: str) -> dict[str, dict[str, Any]]:
        """Remove the named subtables from a file's table and return them."""
        subtables = table.pop(name, {})
        if not isinstance(subtables, dict) or not all(isinstance(sub, dict) for sub in subtables.values()):
            raise self._wrong("table", name)
        if subtables and name == "servers" and self._file.is_project:
            raise self._wrong("servers", name)
        if subtables and name == "mcp" and self._file.is_project:
            raise self._wrong("mcp", name)
        return subtables

    def server(self, name: str, table: dict[str, Any]) -> Server:
        """Return one named server."""
        for key, value in table.items():
            if key not in _SERVER:
                note = notice("cli.setting_key") if key == "api_key" else ""
                raise self._unknown(f"servers.{name}.{key}", _SERVER, note)
            if not isinstance(value, str) or not value.strip():
                raise self._wrong("text", f"servers.{name}.{key}")
        if "base_url" not in table:
            raise self._wrong("url", f"servers.{name}")
        return Server(**table)

    def values(self, table: dict[str, Any], inside: str = "", group: str = "") -> dict[str, Any]:
        """Return the settings in a table and in its groups."""
        settings: dict[str, Any] = {}
        for name, value in table.items():
            key = f"{group}{name}"
            if key in GROUPS and isinstance(value, dict):
                settings |= self.values(value, inside, f"{key}.")
            elif key not in SETTINGS:
                raise self._unknown(
                    f"{inside}{key}", [*SETTINGS, *(() if inside else ("servers", "profiles", "mcp"))]
                )
            else:
                settings[key] = _checked(SETTINGS[key], value, self._file.shown)
                self._check_project(key, settings[key])
        return settings

    def _check_project(self, key: str, value: Any) -> None:
        if self._file.is_project and value not in (SETTINGS[key].in_project or (value,)):
            raise self._wrong("project", key, value=value)

    def _unknown(self, key: str, known: Any, note: str = "") -> ConfigError:
        hint = did_you_mean(key.rpartition(".")[2], known) or did_you_mean(key, known)
        return ConfigError(
            notice("cli.unknown_setting", shown=self._file.shown, key=safe_text(key), hint=hint, note=note)
        )

    def _wrong(self, why: str, key: str, **values: object) -> ConfigError:
        return ConfigError(notice(f"cli.setting_{why}", shown=self._file.shown, key=key, **values))

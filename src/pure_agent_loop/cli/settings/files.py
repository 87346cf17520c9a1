"""Finding, reading and checking ``pal.toml``."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pure_agent_loop.cli.nearest import did_you_mean
from pure_agent_loop.cli.settings.keys import GROUPS, IN_PROJECT, Key
from pure_agent_loop.errors import ConfigError, MissingExtraError
from pure_agent_loop.support.paths import data_folder
from pure_agent_loop.support.terminal import safe_text

NAME = "pal.toml"
MOST_BYTES = 64 * 1024
_SERVER = ("base_url", "api_key_env", "model")


@dataclass(frozen=True, slots=True)
class Server:
    """A server with a name.

    Args:
        base_url: Its address.
        api_key_env: The variable with its key; empty if it needs none, or the usual one.
        model: The one to use there, unless another one is named.
    """

    base_url: str
    api_key_env: str = ""
    model: str = ""


@dataclass(frozen=True, slots=True)
class File:
    """A file of settings that is there.

    Args:
        shown: Its place for people.
        data: What it holds.
        is_project: It is that of a project, and so perhaps a stranger's.
    """

    shown: str
    data: bytes
    is_project: bool


@dataclass(frozen=True, slots=True)
class Sheet:
    """What a file says.

    Args:
        shown: Its place for people.
        values: The settings, by name.
        profiles: The same for each profile.
        servers: By name; only the user has some.
        mcp: MCP servers as they are written, by name; only the user has some.
        is_project: It is that of a project.
    """

    shown: str
    values: Mapping[str, Any] = field(default_factory=dict)
    profiles: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    servers: Mapping[str, Server] = field(default_factory=dict)
    mcp: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    is_project: bool = False

    @property
    def lines(self) -> list[str]:
        """All it sets, one line each."""
        groups = [("", self.values), *((f"profiles.{name}.", each) for name, each in self.profiles.items())]
        return [f"{start}{key} = {value!r}" for start, values in groups for key, value in values.items()]


def user_path() -> Path:
    """Where the user's file is, or would be."""
    return data_folder() / NAME


def user_file() -> File | None:
    """The user's own; None if there is none.

    Raises:
        ConfigError: It cannot be read.
    """
    path = user_path()
    try:
        if path.exists() and not path.is_file():
            raise ConfigError(f"{path} is no file. Move it away.")
        return File(str(path), path.read_bytes(), is_project=False) if path.exists() else None
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}.") from error


def project_file(workspace: Path, name: str = NAME) -> File | None:
    """The nearest one from a folder up to the root of its git project; without one, only of that folder.

    A link that leads out of the project is not followed.

    Args:
        name: Of the file.
    """
    root = next((each for each in (workspace, *workspace.parents) if (each / ".git").exists()), workspace)
    for folder in (workspace, *workspace.parents):
        if (folder / name).is_file() and (folder / name) != user_path():
            return File(str(folder / name), _read_inside(root, folder / name), is_project=True)
        if folder == root:
            break
    return None


def _read_inside(root: Path, path: Path) -> bytes:
    from pure_agent_loop.toolbox.complaints import WorkspaceError
    from pure_agent_loop.toolbox.files.workspace import Workspace

    try:
        with Workspace(root).open_for_reading(path.relative_to(root).as_posix()) as file:
            return file.read(MOST_BYTES + 1)
    except (WorkspaceError, OSError) as error:
        raise ConfigError(f"{path} cannot be read: {safe_text(str(error))}") from error


def read(file: File, keys: Mapping[str, Key]) -> Sheet:
    """What a file says, checked.

    Raises:
        ConfigError: It is no TOML, has an unknown name or a value that cannot be; it says the nearest name.
        MissingExtraError: Python 3.10 needs a package to read it.
    """
    reader = _Reader(file, keys)
    table = _toml(file)
    servers = {name: reader.server(name, each) for name, each in reader.tables(table, "servers").items()}
    profiles = {
        name: dict(reader.values(each, f"profiles.{name}."))
        for name, each in reader.tables(table, "profiles").items()
    }
    mcp = reader.tables(table, "mcp")
    return Sheet(file.shown, dict(reader.values(table)), profiles, servers, mcp, file.is_project)


def _toml(file: File) -> dict[str, Any]:
    if len(file.data) > MOST_BYTES:
        raise ConfigError(f"{file.shown} is longer than {MOST_BYTES} bytes.")
    toml = _toml_module()
    try:
        found: dict[str, Any] = toml.loads(file.data.decode("utf-8-sig"))
    except (
        ValueError,
        RecursionError,
    ) as error:  # what TOML and what UTF-8 refuses are both of the first kind
        raise ConfigError(f"{file.shown} is no TOML: {safe_text(str(error))}.") from None
    return found


def _toml_module() -> Any:
    """The first came with Python 3.11."""
    found = next((name for name in ("tomllib", "tomli") if importlib.util.find_spec(name)), None)
    if found is None:
        raise MissingExtraError("pal.toml", "cli")
    return importlib.import_module(found)


class _Reader:
    """Checks the tables of one file."""

    def __init__(self, file: File, keys: Mapping[str, Key]) -> None:
        self._file, self._keys = file, keys

    def tables(self, table: dict[str, Any], name: str) -> dict[str, dict[str, Any]]:
        """Take tables with names of their own out of a file's table."""
        found = table.pop(name, {})
        if not isinstance(found, dict) or not all(isinstance(each, dict) for each in found.values()):
            raise self._wrong(name, f"is written as a table: [{name}.NAME]")
        if found and name == "servers" and self._file.is_project:
            raise self._wrong(name, "belong into your own file (pal init): no project says where keys go")
        if found and name == "mcp" and self._file.is_project:
            raise self._wrong(name, "belongs into your own file; a project brings its servers in .mcp.json")
        return found

    def server(self, name: str, table: dict[str, Any]) -> Server:
        """One of the servers."""
        for key, value in table.items():
            if key not in _SERVER:
                note = (
                    " A key never stands in a file: api_key_env names its variable."
                    if key == "api_key"
                    else ""
                )
                raise self._unknown(f"servers.{name}.{key}", _SERVER, note)
            if not isinstance(value, str) or not value.strip():
                raise self._wrong(f"servers.{name}.{key}", "must be text in quotes")
        if "base_url" not in table:
            raise self._wrong(f"servers.{name}", 'needs base_url = "http://.../v1"')
        return Server(**table)

    def values(self, table: dict[str, Any], inside: str = "", group: str = "") -> dict[str, Any]:
        """The settings of a table and of the groups in it."""
        found: dict[str, Any] = {}
        for name, value in table.items():
            key = f"{group}{name}"
            if key in GROUPS and isinstance(value, dict):
                found |= self.values(value, inside, f"{key}.")
            elif key not in self._keys:
                raise self._unknown(
                    f"{inside}{key}", [*self._keys, *(() if inside else ("servers", "profiles", "mcp"))]
                )
            else:
                found[key] = self._keys[key].checked(value, self._file.shown)
                self._check_project(key, found[key])
        return found

    def _check_project(self, key: str, value: Any) -> None:
        if self._file.is_project and value not in IN_PROJECT.get(key, (value,)):
            raise self._wrong(
                f"{key} = {value!r}", "cannot be said by a project. Say it in your own file, or type it"
            )

    def _unknown(self, key: str, known: Any, note: str = "") -> ConfigError:
        hint = did_you_mean(key.rpartition(".")[2], known) or did_you_mean(key, known)
        return ConfigError(f"{self._file.shown}: {safe_text(key)!r} is no setting.{hint}{note}")

    def _wrong(self, key: str, why: str) -> ConfigError:
        return ConfigError(f"{self._file.shown}: {key} {why}.")

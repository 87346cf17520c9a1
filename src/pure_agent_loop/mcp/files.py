"""``mcp.json``: servers by name, in the form that editors use, and the user's own file of them."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.mcp.settings import OAuth, ServerSettings
from pure_agent_loop.support.paths import data_folder, private_folder
from pure_agent_loop.support.shared_file import change_file

MOST_BYTES = 256 * 1024
_TYPES = {"stdio": "", "http": "http", "streamable-http": "http", "streamableHttp": "http", "sse": "sse"}
_SAME = [each.name for each in fields(ServerSettings) if each.name not in ("name", "command", "transport")]
FIELDS = ("type", "command", "args", "disabled", *_SAME)
_VARIABLE = re.compile(r"\$\{(?:env:)?(\w+)(?::-([^}]*))?\}")
_INPUT = "${input:"  # what VS Code asks for itself


class UnsetError(ConfigError):
    """A variable is not set."""


def user_path() -> Path:
    """Where the user's own servers stand."""
    return data_folder() / "mcp.json"


def tables_of(data: bytes, shown: str) -> dict[str, dict[str, Any]]:
    """The servers of a file, as they are written there, by name.

    Args:
        data: The file.
        shown: Its place for people.

    Raises:
        ConfigError: It has no such form.
    """
    try:
        found = json.loads(data[: MOST_BYTES + 1].decode("utf-8-sig"))
    except (ValueError, RecursionError):
        raise ConfigError(f"{shown} is no JSON of at most {MOST_BYTES} bytes.") from None
    servers = found.get("mcpServers", found.get("servers")) if found and isinstance(found, dict) else found
    if not isinstance(servers, dict) or not all(isinstance(each, dict) for each in servers.values()):
        raise ConfigError(
            f'{shown} must be like {{"mcpServers": {{"NAME": {{"command": "...", "args": []}}}}}}, or have '
            '"servers" for it, as in VS Code.'
        )
    return servers


def settings_of(
    name: str, table: Mapping[str, Any], shown: str, environ: Mapping[str, str] = os.environ
) -> ServerSettings | None:
    """A server as it is written; None if it is switched off.

    Args:
        shown: Where it is written, for people.
        environ: Fills in ``${NAME}`` and ``${NAME:-default}``.

    Raises:
        ConfigError: A field is unknown or cannot be used, or a variable is not set.
    """
    where = f"{shown}: {name!r:.60}"
    _check_names(table, FIELDS, "a server", where)
    if not isinstance(is_off := table.get("disabled", False), bool):
        raise ConfigError(f"{where}: disabled is {is_off!r:.60}; it must be true or false.")
    if is_off:
        return None
    kind = table.get("type", "http" if "url" in table else "stdio")
    if not isinstance(kind, str) or kind not in _TYPES:
        raise ConfigError(f"{where}: type={kind!r:.60} must be one of {', '.join(_TYPES)}.")
    if (other := "url" if kind == "stdio" else "command") in table:
        raise ConfigError(f"{where}: type={kind!r} is for servers without {other}; leave one of them out.")
    command, args = table.get("command", ""), table.get("args", [])
    if not isinstance(command, str) or not isinstance(args, list):
        raise ConfigError(f"{where}: command must be text, and args a list.")
    given = {key: _filled(table[key], where, environ) for key in _SAME if key in table}
    if kind != "stdio":
        given["transport"] = _TYPES[kind]
    try:
        if isinstance(about := given.get("oauth"), dict):
            given["oauth"] = _oauth(about, where)
        words = _filled([command, *args] if command else args, where, environ)
        return ServerSettings(name, command=words, **given)
    except ConfigError as error:
        raise type(error)(f"{shown}: {error}" if shown not in str(error) else str(error)) from None


def _oauth(about: Mapping[str, Any], where: str) -> OAuth:
    _check_names(about, [each.name for each in fields(OAuth)], "oauth", where)
    try:
        return OAuth(**about)
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from None


def _check_names(table: Mapping[str, Any], known: Sequence[str], what: str, where: str) -> None:
    if unknown := [key for key in table if key not in known]:
        raise ConfigError(f"{where}: {unknown[0]!r:.60} is no field of {what}. Known: {', '.join(known)}.")


def _filled(value: Any, where: str, environ: Mapping[str, str]) -> Any:
    if isinstance(value, list):
        return [_filled(each, where, environ) for each in value]
    if isinstance(value, dict):
        return {key: _filled(each, where, environ) for key, each in value.items()}
    if not isinstance(value, str):
        return value
    if _INPUT in value:
        raise ConfigError(f"{where}: {value!r:.60} is filled in by VS Code only. Write ${{NAME}} instead.")

    def fill(found: re.Match[str]) -> str:
        name, default = found[1], found[2]
        if name not in environ and default is None:
            raise UnsetError(f"{where} needs the variable {name}, which is not set.")
        return environ.get(name) or default or ""

    return _VARIABLE.sub(fill, value)


def user_tables() -> dict[str, dict[str, Any]]:
    """Those of the user's own file.

    Raises:
        ConfigError: The file cannot be read.
    """
    path = user_path()
    try:
        return tables_of(path.read_bytes(), str(path)) if path.exists() else {}
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}.") from error


def change_user(change: Callable[[dict[str, dict[str, Any]]], None]) -> None:
    """Change the user's own file; what else stands in it stays.

    Args:
        change: Changes the servers by name.

    Raises:
        ConfigError: The file cannot be read, or not be written.
    """
    path = user_path()
    user_tables()  # what cannot be read is not written over

    def changed(old: bytes) -> bytes:
        found = json.loads(old) if path.exists() and old.strip() else {}
        servers = found.setdefault("mcpServers", {})
        change(servers)
        return json.dumps(found, indent=2, ensure_ascii=False).encode() + b"\n"

    try:
        private_folder(path.parent)
        change_file(path, changed)
    except OSError as error:
        raise ConfigError(f"{error.filename or path}: {error.strerror or error}") from error

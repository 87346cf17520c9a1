"""Read and write ``mcp.json`` files, in the form that editors use, and the user's own server file."""

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
from pure_agent_loop.support.folders import data_folder, private_folder
from pure_agent_loop.support.language import notice
from pure_agent_loop.support.locking import change_file
from pure_agent_loop.support.parsing import read_json

MAX_BYTES = 256 * 1024
_TYPES = {"stdio": "", "http": "http", "streamable-http": "http", "streamableHttp": "http", "sse": "sse"}
_SAME = [field.name for field in fields(ServerSettings) if field.name not in ("name", "command", "transport")]
FIELDS = ("type", "command", "args", "disabled", *_SAME)
_VARIABLE = re.compile(r"\$\{(?:env:)?(\w+)(?::-([^}]*))?\}")
_INPUT = "${input:"  # a reference to a value for which VS Code asks the user


class UnsetVariableError(ConfigError):
    """An environment variable that an entry needs is not set."""


def user_servers_path() -> Path:
    """Return the path of the user's own server file."""
    return data_folder() / "mcp.json"


def server_tables(data: bytes, shown: str) -> dict[str, dict[str, Any]]:
    """Return the raw entries of a file's servers, by name.

    Raises:
        ConfigError: The file does not have the form of ``mcp.json``.
    """
    try:
        document = read_json(data[: MAX_BYTES + 1].decode("utf-8-sig"))
    except ValueError:
        raise ConfigError(notice("library.mcp_not_json", shown=shown, max_bytes=MAX_BYTES)) from None
    servers = (
        document.get("mcpServers", document.get("servers"))
        if document and isinstance(document, dict)
        else document
    )
    if not isinstance(servers, dict) or not all(isinstance(table, dict) for table in servers.values()):
        raise ConfigError(notice("library.mcp_form", shown=shown))
    return servers


def settings_from_table(
    name: str, table: Mapping[str, Any], shown: str, environ: Mapping[str, str] = os.environ
) -> ServerSettings | None:
    """Return the settings of a server's entry; None if it is switched off.

    Args:
        environ: Values for ``${NAME}`` and ``${NAME:-default}``.

    Raises:
        ConfigError: A field is unknown or invalid, or a variable is not set.
    """
    where = f"{shown}: {name!r:.60}"
    _check_names(table, FIELDS, "a server", where)
    if not isinstance(is_off := table.get("disabled", False), bool):
        raise ConfigError(notice("library.mcp_disabled", where=where, is_off=is_off))
    if is_off:
        return None
    kind = table.get("type", "http" if "url" in table else "stdio")
    if not isinstance(kind, str) or kind not in _TYPES:
        raise ConfigError(notice("library.mcp_type", where=where, kind=kind, types=", ".join(_TYPES)))
    if (other := "url" if kind == "stdio" else "command") in table:
        raise ConfigError(notice("library.mcp_type_conflict", where=where, kind=kind, other=other))
    command, args = table.get("command", ""), table.get("args", [])
    if not isinstance(command, str) or not isinstance(args, list):
        raise ConfigError(notice("library.mcp_command", where=where))
    values = {key: _filled(table[key], where, environ) for key in _SAME if key in table}
    if kind != "stdio":
        values["transport"] = _TYPES[kind]
    try:
        if isinstance(oauth := values.get("oauth"), dict):
            values["oauth"] = _oauth(oauth, where)
        words = _filled([command, *args] if command else args, where, environ)
        return ServerSettings(name, command=words, **values)
    except ConfigError as error:
        raise type(error)(f"{shown}: {error}" if shown not in str(error) else str(error)) from None


def _oauth(table: Mapping[str, Any], where: str) -> OAuth:
    _check_names(table, [field.name for field in fields(OAuth)], "oauth", where)
    try:
        return OAuth(**table)
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from None


def _check_names(table: Mapping[str, Any], known: Sequence[str], what: str, where: str) -> None:
    if unknown := [key for key in table if key not in known]:
        raise ConfigError(
            notice("library.mcp_field", where=where, unknown=unknown[0], what=what, known=", ".join(known))
        )


def _filled(value: Any, where: str, environ: Mapping[str, str]) -> Any:
    if isinstance(value, list):
        return [_filled(item, where, environ) for item in value]
    if isinstance(value, dict):
        return {key: _filled(item, where, environ) for key, item in value.items()}
    if not isinstance(value, str):
        return value
    if _INPUT in value:
        raise ConfigError(notice("library.mcp_vscode", where=where, value=value))

    def fill(match: re.Match[str]) -> str:
        name, default = match[1], match[2]
        if name not in environ and default is None:
            raise UnsetVariableError(notice("library.mcp_unset", where=where, name=name))
        return environ.get(name) or default or ""

    return _VARIABLE.sub(fill, value)


def user_servers() -> dict[str, dict[str, Any]]:
    """Return the entries in the user's own server file.

    Raises:
        ConfigError: The file cannot be read.
    """
    path = user_servers_path()
    try:
        return server_tables(path.read_bytes(), str(path)) if path.exists() else {}
    except OSError as error:
        raise ConfigError(notice("library.cannot_be_read", path=path, error=error.strerror)) from error


def change_user_servers(change: Callable[[dict[str, dict[str, Any]]], None]) -> None:
    """Change the servers in the user's own server file; other content is kept.

    Args:
        change: Modifies the entries, by name.

    Raises:
        ConfigError: The file cannot be read or written.
    """
    path = user_servers_path()
    user_servers()  # never overwrite an unreadable file

    def changed(old: bytes) -> bytes:
        document = read_json(old) if path.exists() and old.strip() else {}
        change(document.setdefault("mcpServers", {}))
        return json.dumps(document, indent=2, ensure_ascii=False).encode() + b"\n"

    try:
        private_folder(path.parent)
        change_file(path, changed)
    except OSError as error:
        raise ConfigError(f"{error.filename or path}: {error.strerror or error}") from error

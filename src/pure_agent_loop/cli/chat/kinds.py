"""Rules that speak of one kind of call and no more, and writing them down for the project."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import urlsplit

from pure_agent_loop.assistant.trust import is_trusted, trust
from pure_agent_loop.cli.chat.words import chat_word
from pure_agent_loop.cli.questions import rule_for
from pure_agent_loop.cli.settings.files import NAME, File, project_file, read
from pure_agent_loop.cli.settings.keys import all_keys
from pure_agent_loop.cli.trust import settings_guidance
from pure_agent_loop.errors import ConfigError, MissingExtraError
from pure_agent_loop.toolbox.shell.policy import ShellPolicy
from pure_agent_loop.toolbox.shell.syntax import read_line

EDITS = ("write_file", "edit_file")
_PLAIN = re.compile(r"[^*?()\n\r\\]+")  # a star would stand for more than what was asked about
_ALLOW = re.compile(r"^allow\s*=\s*\[", re.M)
_RULES = re.compile(r"^\[rules\][ \t]*(?:#.*)?$", re.M)


def kind_of(tool: str, args: Mapping[str, Any]) -> list[str]:
    """Rules that allow calls of this kind; empty if none says it narrowly enough.

    Args:
        tool: The tool.
        args: The arguments in force.
    """
    if tool == "shell":
        return _of_commands(args.get("command"))
    if tool in EDITS:
        return _of_edits(args.get("path"))
    if tool == "fetch":
        return _of_pages(args.get("url"))
    rule = rule_for(tool, args)
    return [rule] if rule != tool and _PLAIN.fullmatch("".join(map(str, args.values()))) else []


def _of_commands(command: object) -> list[str]:
    """Each simple command that no rule of ours allows anyway, as it is written."""
    if not isinstance(command, str):
        return []
    rules = []
    for simple in read_line(command).commands:
        text = simple.text.strip()
        if not _PLAIN.fullmatch(text) or _refused(text):
            return []
        rules.append(f"shell({text})")
    return list(dict.fromkeys(rules))


def _refused(text: str) -> bool:
    """Whether no rule can allow this command."""
    try:
        return ShellPolicy(allow=(text,)).judge(text).behavior != "allow"
    except ConfigError:
        return True


def _of_edits(path: object) -> list[str]:
    """Edits below the same first folder; of a file at the top only that file."""
    if not isinstance(path, str) or not _PLAIN.fullmatch(path):
        return []
    parts = PurePosixPath(path).parts
    if not parts or parts[0] == "/" or ".." in parts or "=" in path or "," in path:
        return []
    place = parts[0] if len(parts) == 1 else f"{parts[0]}/*"
    return [f"{tool}(path={place})" for tool in EDITS]


def _of_pages(url: object) -> list[str]:
    """Pages of the same host."""
    try:
        parts = urlsplit(url if isinstance(url, str) else "")
        host, port = parts.hostname, parts.port
    except ValueError:
        return []
    if parts.scheme not in ("http", "https") or not host or not _PLAIN.fullmatch(host) or "@" in parts.netloc:
        return []
    return [f"fetch(url={parts.scheme}://{host}{f':{port}' if port else ''}/*)"]


def keep_rules(workspace: Path, rules: list[str]) -> str:
    """Add allow rules to the project's ``pal.toml``, and return its place.

    Args:
        workspace: The folder.
        rules: What is allowed from now on.

    Raises:
        ConfigError: It cannot be written so that it says just that; nothing is changed then.
    """
    found = project_file(workspace)
    path = Path(found.shown) if found is not None else workspace / NAME
    if found is not None and not is_trusted(settings_guidance(found)):
        raise ConfigError(chat_word("not_trusted", place=path))
    before = "" if found is None else found.data.decode("utf-8-sig")
    after = _with_rules(before, rules)
    try:
        keys = all_keys()
        old = dict(read(found, keys).values) if found is not None else {}
        written = File(str(path), after.encode(), is_project=True)
        new = dict(read(written, keys).values)
    except (ConfigError, MissingExtraError) as error:
        raise ConfigError(f"{path} was left as it is: {error}") from error
    known = old.pop("rules.allow", [])
    if new.pop("rules.allow", []) != [*rules, *known] or new != old:
        raise ConfigError(f"{path} is written so that a rule cannot be added; add it yourself.")
    try:
        path.write_bytes(written.data)
        trust(settings_guidance(written))  # the person trusts what it said, and has just said the rest
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}.") from error
    return str(path)


def _with_rules(text: str, rules: list[str]) -> str:
    lines = "".join(f"\n  {_quoted(rule)}," for rule in rules)
    table = _RULES.search(text)
    if table is None:
        return f"{text.rstrip()}\n\n[rules]\nallow = [{lines}\n]\n".lstrip()
    end = text.find("\n[", table.end())
    allow = _ALLOW.search(text, table.end(), len(text) if end < 0 else end)
    if allow is None:
        return f"{text[: table.end()]}\nallow = [{lines}\n]{text[table.end() :]}"
    return f"{text[: allow.end()]}{lines}{text[allow.end() :]}"


def _quoted(rule: str) -> str:
    return json.dumps(rule, ensure_ascii=False)

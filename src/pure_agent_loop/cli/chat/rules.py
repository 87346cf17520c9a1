"""Convert a person's answers to rules, and save them in the project's ``pal.toml``."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pure_agent_loop.assistant import is_trusted, trust_guidance
from pure_agent_loop.cli.questions import rule_for
from pure_agent_loop.cli.settings.files import NAME, ConfigFile, project_file, read
from pure_agent_loop.cli.trust import settings_guidance
from pure_agent_loop.errors import ConfigError, MissingExtraError
from pure_agent_loop.permissions import EDIT_TOOLS, wider_rules
from pure_agent_loop.support.language import notice, user_text
from pure_agent_loop.support.lazy import lazy_pattern
from pure_agent_loop.toolbox import ShellPolicy

_PLAIN = lazy_pattern(r"[^*?()\n\r\\]+")  # a wildcard would allow more than the call in question
_ALLOW = lazy_pattern(r"^allow\s*=\s*\[", re.M)
_RULES = lazy_pattern(r"^\[rules\][ \t]*(?:#.*)?$", re.M)


def kind_of(tool: str, args: Mapping[str, Any]) -> list[str]:
    """Return rules that allow similar calls; empty if every such rule would be too broad."""
    if tool == "shell":
        return _of_commands(args.get("command"))
    if wider := wider_rules(tool, args):
        return wider
    rule = "" if tool in (*EDIT_TOOLS, "fetch") else rule_for(tool, args)
    is_narrow = rule not in ("", tool) and _PLAIN.fullmatch("".join(map(str, args.values())))
    return [rule] if is_narrow else []


def kind_words(kind: Sequence[str]) -> str:
    """Describe for a person what rules allow: the folder in which edits are allowed, or else the rules."""
    path = kind[0].partition("(path=")[2][:-1] if len(kind) == len(EDIT_TOOLS) else ""
    if not path or kind != [f"{tool}(path={path})" for tool in EDIT_TOOLS]:
        return ", ".join(kind)
    name = "kind_edits_below" if path.endswith("/*") else "kind_edits"
    return user_text(f"chat.{name}", path=path.removesuffix("*"))


def _of_commands(command: object) -> list[str]:
    """Return rules for the simple commands not yet allowed; empty if they would not allow the whole line."""
    from pure_agent_loop.toolbox.shell.syntax import read_line

    texts = (
        [simple.text.strip() for simple in read_line(command).commands] if isinstance(command, str) else []
    )
    if not all(map(_PLAIN.fullmatch, texts)):
        return []
    new = [text for text in dict.fromkeys(texts) if not _allows((), text)]
    return [f"shell({text})" for text in new] if _allows(new, str(command)) else []


def _allows(rules: Iterable[str], command: str) -> bool:
    try:
        return ShellPolicy(allow=rules).judge(command).behavior == "allow"
    except ConfigError:  # no rule can express this command
        return False


def keep_rules(workspace: Path, rules: list[str]) -> str:
    """Add allow rules to the project's ``pal.toml``; return the path of that file.

    Raises:
        ConfigError: The rules cannot be added safely; the file is unchanged.
    """
    existing = project_file(workspace)
    path = Path(existing.shown) if existing is not None else workspace / NAME
    if existing is not None and not is_trusted(settings_guidance(existing)):
        raise ConfigError(user_text("chat.not_trusted", place=path))
    before = "" if existing is None else existing.data.decode("utf-8-sig")
    after = _with_rules(before, rules)
    try:
        old = dict(read(existing).values) if existing is not None else {}
        written = ConfigFile(str(path), after.encode(), is_project=True)
        new = dict(read(written).values)
    except (ConfigError, MissingExtraError) as error:
        raise ConfigError(notice("cli.not_changed", path=path, error=error)) from error
    known = old.pop("rules.allow", [])
    if new.pop("rules.allow", []) != [*rules, *known] or new != old:
        raise ConfigError(notice("cli.rule_by_hand", path=path))
    try:
        path.write_bytes(written.data)
        trust_guidance(
            settings_guidance(written)
        )  # the user trusted the old content and approved the new rules
    except OSError as error:
        raise ConfigError(notice("cli.cannot_be_written", path=path, error=error.strerror)) from error
    return str(path)


def _with_rules(text: str, rules: list[str]) -> str:
    lines = "".join(f"\n  {json.dumps(rule, ensure_ascii=False)}," for rule in rules)
    table = _RULES.search(text)
    if table is None:
        return f"{text.rstrip()}\n\n[rules]\nallow = [{lines}\n]\n".lstrip()
    end = text.find("\n[", table.end())
    allow = _ALLOW.search(text, table.end(), len(text) if end < 0 else end)
    if allow is None:
        return f"{text[: table.end()]}\nallow = [{lines}\n]{text[table.end() :]}"
    return f"{text[: allow.end()]}{lines}{text[allow.end() :]}"

"""Questions of a conversation: all that is asked is shown, and the next line that is typed is the answer."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import urlsplit

from pure_agent_loop.assistant.trust import is_trusted, trust
from pure_agent_loop.cli.chat import diffs
from pure_agent_loop.cli.chat.talk import Shared
from pure_agent_loop.cli.chat.words import chat_word
from pure_agent_loop.cli.questions import blanks_shown, question_text, rule_for
from pure_agent_loop.cli.settings.files import NAME, File, project_file, read
from pure_agent_loop.cli.settings.keys import all_keys
from pure_agent_loop.cli.toolset import suggest
from pure_agent_loop.cli.trust import settings_guidance
from pure_agent_loop.errors import ConfigError, MissingExtraError
from pure_agent_loop.permissions import Permission, PermissionRequest
from pure_agent_loop.support.lazy import lazy_pattern
from pure_agent_loop.support.terminal import excerpt
from pure_agent_loop.tool import ToolRegistry
from pure_agent_loop.toolbox.complaints import WorkspaceError
from pure_agent_loop.toolbox.files.workspace import Workspace
from pure_agent_loop.toolbox.shell.policy import ShellPolicy

EDITS = ("write_file", "edit_file")
_PLAIN = lazy_pattern(r"[^*?()\n\r\\]+")  # a star would stand for more than what was asked about
_ALLOW = lazy_pattern(r"^allow\s*=\s*\[", re.M)
_RULES = lazy_pattern(r"^\[rules\][ \t]*(?:#.*)?$", re.M)
MOST_LINES, MOST_WIDTH, MOST_DIFF = 40, 2_000, 30
IN_DIFF = ("content", "old_text", "new_text", "replace_all")
_MAX_BYTES = 300_000  # comparing more takes too long
_YES = Permission("allow")


@dataclass(slots=True)
class Pending:
    """A question that waits for its answer.

    Args:
        question: The call; None for a question of ours, which only yes and no answer.
        answered: Becomes the answer.
        kind: Rules for calls of this kind.
        text: All that is asked.
        diff: What would be changed; empty if that is no change of a file.
        is_edited: The next line is the call as the person wants it.
    """

    question: PermissionRequest | None
    answered: asyncio.Future[Permission]
    kind: list[str]
    text: str = ""
    diff: str = ""
    is_edited: bool = False

    @property
    def is_open(self) -> bool:
        """Whether any words are an answer: a tool at work wants to know something."""
        question = self.question
        return question is not None and question.args == {"question": question.reason}


class Desk:
    """Asks one question at a time.

    Args:
        shared: Its options take the rules that a person agrees to.
        say: Shows words; its second argument is their role.
        show_diff: Shows a diff: its name, its text, and how many lines at most.
        changed: Called when a question comes or goes.
    """

    def __init__(
        self,
        shared: Shared,
        say: Callable[[str, str], None],
        show_diff: Callable[[str, str, int | None], None],
        changed: Callable[[], None],
    ) -> None:
        self.pending: Pending | None = None
        self._seen: set[tuple[str, ...]] = set()  # changes that were shown and agreed to
        self._shared, self._say, self._show_diff, self._changed = shared, say, show_diff, changed
        self._one_at_a_time = asyncio.Lock()

    async def ask(self, request: PermissionRequest) -> Permission:
        """The answer of the person, or of a rule that was agreed to meanwhile; for ``Agent(on_ask=...)``."""
        async with self._one_at_a_time:
            now = suggest(self._shared.options, request, ToolRegistry(self._shared.toolset.tools), None)
            if now.behavior == "allow" and now.updated_args is None and not now.read_only:
                return now
            data = {"tool": request.tool, "args": request.args, "reason": request.reason}
            diff = await asyncio.to_thread(planned_diff, self._shared.workspace, request)
            text = question_text(data, IN_DIFF if diff else ())
            kind = kind_of(request.tool, request.args)
            return await self._wait(Pending(request, _future(), kind, text, diff))

    async def confirm(self, text: str) -> bool:
        """Ask something of our own; only a yes is one."""
        async with self._one_at_a_time:
            return (await self._wait(Pending(None, _future(), [], text))).behavior == "allow"

    async def _wait(self, pending: Pending) -> Permission:
        self.pending = pending
        self._show(pending, in_full=False)
        self._changed()
        try:
            return await pending.answered
        finally:
            self.pending = None
            self._changed()

    def _show(self, pending: Pending, *, in_full: bool) -> None:
        text = pending.text if in_full else excerpt(pending.text, MOST_LINES, MOST_WIDTH)
        self._say(text, "warning")
        if pending.diff and pending.question is not None:
            name = str(pending.question.args.get("path", ""))
            diff = blanks_shown(pending.diff, is_code=True)
            self._show_diff(name, diff, None if in_full else MOST_DIFF)

    def has_shown(self, diff: str) -> bool:
        """Whether this change was shown, all of it, with a question that was answered with yes."""
        return _changes(diff) in self._seen

    def choices(self) -> str:
        """What can be typed now."""
        pending = self.pending
        if pending is None:
            return ""
        if pending.is_edited:
            return chat_word("edit_call")
        if pending.question is None:
            return chat_word("choose_yes_no")
        if pending.is_open:
            return chat_word("choose_open")
        kind = chat_word("choose_kind", kind=", ".join(pending.kind)) if pending.kind else ""
        return chat_word("choose", kind=kind)

    def answer(self, line: str) -> str | None:
        """Take a line that was typed.

        Args:
            line: The line.

        Returns:
            What the person is to change now, for the input line; None if there is nothing.
        """
        pending = self.pending
        if pending is None:
            return None
        if pending.is_edited:
            return self._edited(pending, line)
        letter, _, rest = line.strip().partition(" ")
        letter = {"yes": "y", "no": "n", "是": "y", "否": "n"}.get(letter.lower(), letter.lower())
        if letter == "n":
            self._end(pending, Permission("deny", rest.strip()))
        elif pending.is_open and line.strip() and letter != "y":
            self._end(pending, Permission("allow", line.strip()))
        elif rest:
            self._say(chat_word("no_answer"), "dim")
        elif letter == "y":
            self._end(pending, _YES)
        elif letter == "d":
            self._show(pending, in_full=True)
        elif pending.question is not None:
            return self._more(pending, pending.question, letter)
        return None

    def _more(self, pending: Pending, question: PermissionRequest, letter: str) -> str | None:
        if letter in ("s", "a") and pending.kind:
            if letter == "a" and not self._keep(pending.kind):
                return None
            options = self._shared.options
            options.allow = list(dict.fromkeys([*options.allow, *pending.kind]))
            self._say(chat_word("allowed", rules=", ".join(pending.kind)), "dim")
            self._end(pending, _YES)
        elif letter == "e":
            pending.is_edited = True
            self._changed()
            args = question.args
            return str(args["command"]) if question.tool == "shell" else json.dumps(args, ensure_ascii=False)
        else:
            self._say(chat_word("no_answer"), "dim")
        return None

    def _keep(self, kind: list[str]) -> bool:
        try:
            place = keep_rules(self._shared.workspace, kind)
        except ConfigError as error:
            self._say(str(error), "error")
            return False
        self._say(chat_word("kept", place=place), "dim")
        return True

    def _edited(self, pending: Pending, line: str) -> str | None:
        question = pending.question
        assert question is not None
        args: Any = {**question.args, "command": line}
        if question.tool != "shell":
            try:
                args = json.loads(line)
            except ValueError as error:
                args = str(error)
        if not isinstance(args, dict) or not line.strip():
            self._say(chat_word("no_call", why=args if isinstance(args, str) else "{...}"), "error")
            return line
        self._end(pending, Permission("allow", updated_args=args))
        return None

    def _end(self, pending: Pending, permission: Permission) -> None:
        if pending.diff and permission is _YES and _fits(pending.diff):
            self._seen.add(_changes(pending.diff))
        if not pending.answered.done():
            pending.answered.set_result(permission)


def _fits(diff: str) -> bool:
    lines = diff.split("\n")
    return len(lines) <= MOST_DIFF and max(map(len, lines)) <= diffs.MOST_WIDTH


def _changes(diff: str) -> tuple[str, ...]:
    return tuple(line for line in diff.split("\n") if line[:1] in "+-" and line[:3] not in ("+++", "---"))


def _future() -> asyncio.Future[Permission]:
    return asyncio.get_running_loop().create_future()


def planned_diff(workspace: Path, request: PermissionRequest) -> str:
    """What a call would change in a file, as far as that can be said for sure; else empty.

    Args:
        workspace: The folder.
        request: The call.
    """
    planned = planned_change(Workspace(workspace), request.tool, request.args)
    if planned is None:
        return ""
    from pure_agent_loop.snapshots.differ import unified

    path, before, after = planned
    return unified(path, before or "", after, None)[0]


def planned_change(
    workspace: Workspace, tool: str, args: Mapping[str, Any]
) -> tuple[str, str | None, str] | None:
    """The file that a call would change, its text and the new one, if that can be said for sure.

    Args:
        workspace: The folder.
        tool: The tool.
        args: The arguments in force.
    """
    path, old, new = args.get("path"), args.get("old_text"), args.get("new_text")
    if tool not in EDITS or not isinstance(path, str):
        return None
    before = _text_of(workspace, path)
    if tool == "write_file":
        after = args.get("content")
    elif before is None or not (isinstance(old, str) and isinstance(new, str)) or not old:
        return None
    else:
        count = before.count(old)
        is_sure = count == 1 or (count > 1 and args.get("replace_all") is True)
        after = before.replace(old, new) if is_sure else None
    return (path, before, after) if isinstance(after, str) else None


def _text_of(workspace: Workspace, path: str) -> str | None:
    try:
        with workspace.open_for_reading(path) as file:
            data = file.read(_MAX_BYTES + 1)
            return data.decode() if len(data) <= _MAX_BYTES else None
    except (WorkspaceError, OSError, UnicodeDecodeError):
        return None


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
    """Each simple command that is not allowed anyway, if such rules allow the whole line."""
    from pure_agent_loop.toolbox.shell.syntax import read_line

    texts = [each.text.strip() for each in read_line(command).commands] if isinstance(command, str) else []
    if not all(map(_PLAIN.fullmatch, texts)):
        return []
    asked = [text for text in dict.fromkeys(texts) if not _allows((), text)]
    return [f"shell({text})" for text in asked] if _allows(asked, str(command)) else []


def _allows(rules: Iterable[str], command: str) -> bool:
    try:
        return ShellPolicy(allow=rules).judge(command).behavior == "allow"
    except ConfigError:  # nothing can be a rule for that
        return False


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

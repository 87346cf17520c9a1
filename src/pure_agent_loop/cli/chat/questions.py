"""Permission prompts of a conversation: a question is shown and the next typed line answers it."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pure_agent_loop.cli.chat import diffs
from pure_agent_loop.cli.chat.rules import keep_rules, kind_of, kind_words
from pure_agent_loop.cli.chat.styling import reads_right_to_left
from pure_agent_loop.cli.chat.talk import ChatConfig
from pure_agent_loop.cli.output import error_text
from pure_agent_loop.cli.questions import KNOWN, YES, blanks_shown, question_text, question_title, read_reply
from pure_agent_loop.cli.toolset import settled
from pure_agent_loop.errors import ConfigError
from pure_agent_loop.permissions import EDIT_TOOLS, Permission, PermissionRequest
from pure_agent_loop.support.language import user_text
from pure_agent_loop.support.parsing import read_json
from pure_agent_loop.support.terminal import excerpt, one_line
from pure_agent_loop.support.text import yes_or_no
from pure_agent_loop.toolbox import Workspace, WorkspaceError

MAX_LINES, MAX_WIDTH, MAX_DIFF = 40, 2_000, 30
QUIET_SECONDS = 0.6  # seconds after a question appears during which keys still go to the input
IN_DIFF = ("content", "old_text", "new_text", "replace_all")
_MAX_BYTES = 300_000  # maximum size; larger diffs take too long


@dataclass(slots=True)
class Pending:
    """A pending question.

    Args:
        request: The request from an agent; None for a yes/no question from the program.
        diff: The file change; empty if the call does not change a file.
        is_edited: True while the user is editing the call; the next line is then the new call.
        is_unclear: True if the last line was not an answer.
        chosen: Number of the selected answer; see `letters`.
        whole: The tool, if one answer may allow all its calls (only for tools of MCP servers); else empty.
        shown_at: When the question appeared, in seconds of the monotonic clock.
    """

    request: PermissionRequest | None
    kind: list[str]
    text: str = ""
    diff: str = ""
    is_edited: bool = False
    is_unclear: bool = False
    chosen: int = 0
    whole: str = ""
    shown_at: float = field(default_factory=time.monotonic)
    answered: asyncio.Future[Permission] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )

    @property
    def letters(self) -> str:
        """Letters of the answers to choose from; empty if the answer is typed."""
        if self.is_edited or self.is_open:
            return ""
        return f"y{'s' if self.kind else ''}{'t' if self.whole else ''}n"

    @property
    def is_guarded(self) -> bool:
        """True if the mode ``guard`` asks the question."""
        return self.request is not None and bool(self.request.origins)

    @property
    def numbers(self) -> list[str]:
        """Numbers of the answers, which can be typed in place of the letters."""
        return [str(number + 1) for number in range(len(self.letters))]

    @property
    def height(self) -> int:
        """Number of lines that the question takes, without the answers."""
        return self.text.count("\n") + 1 + min(len(self.diff.split("\n")), MAX_DIFF)

    @property
    def title(self) -> str:
        """The first line of the question."""
        return self.text.partition("\n")[0]

    @property
    def short(self) -> str:
        """The title without the reason; if the title names only the tool, the first argument is added."""
        lines, request = self.text.split("\n"), self.request
        if request is None or request.question is not None:
            return " ".join(lines[:2])
        title, hidden = question_title(request, IN_DIFF if self.diff else ())
        return title if hidden or request.title or request.tool == "shell" else " ".join([title, *lines[1:2]])

    @property
    def pinned(self) -> list[str]:
        """The lines below the title, then the changed lines of the diff."""
        return [*self.text.split("\n")[1:], *_changes(self.diff)]

    @property
    def is_open(self) -> bool:
        """True if any text is an answer, because a running tool asked the question."""
        return self.request is not None and self.request.question is not None


class PermissionPrompt:
    """Asks the user one question at a time.

    Args:
        shared: The configuration whose options receive the rules that the user approves.
        show_diff: Function that shows a diff, called with the name, the text and the maximum number of lines.
        changed: Function called when a question appears or is answered.
        call: Function that alerts the person about a question; called with "" when the question ends.
    """

    def __init__(
        self,
        shared: ChatConfig,
        notify: Callable[[str, str], None],
        show_diff: Callable[[str, str, int | None], None],
        changed: Callable[[], None],
        call: Callable[[str], None],
    ) -> None:
        self.pending: Pending | None = None
        self._seen: set[tuple[str, ...]] = set()  # approved diffs that were shown completely
        self._shared, self._notify, self._show_diff, self._changed = shared, notify, show_diff, changed
        self._one_at_a_time, self._call = asyncio.Lock(), call

    async def ask(self, request: PermissionRequest) -> Permission:
        """Ask about a call, unless a newly approved rule allows it; for ``Agent(on_ask=...)``."""
        async with self._one_at_a_time:
            permission = settled(self._shared.options, request, self._shared.toolset)
            if permission.behavior != "ask":
                return permission
            diff = await asyncio.to_thread(planned_diff, self._shared.workspace, request)
            text = question_text(request, IN_DIFF if diff else ())
            if reads_right_to_left(json.dumps(request.args, ensure_ascii=False, default=str)):
                text += f"\n  ({user_text('screen.right_to_left')})"
            # In the mode `guard`, an answer can make recipients known, but cannot allow further calls.
            kind = request.recipients if request.origins else kind_of(request.tool, request.args)
            whole = request.tool if not request.origins and self._is_of_server(request.tool) else ""
            return await self._wait(Pending(request, kind, text, diff, whole=whole))

    def _is_of_server(self, name: str) -> bool:
        """Return True for a tool of an MCP server, unless it is destructive or has a decision function."""
        servers = self._shared.toolset.mcp
        tools = servers.known_tools if servers is not None else ()
        return any(tool.name == name and not tool.destructive and tool.judge is None for tool in tools)

    async def confirm(self, text: str) -> bool:
        """Ask a yes/no question; return True only for yes."""
        async with self._one_at_a_time:
            return (await self._wait(Pending(None, [], text))).behavior == "allow"

    async def _wait(self, pending: Pending) -> Permission:
        self.pending = pending
        self._show(pending, in_full=False)
        self._changed()
        self._call(pending.short)
        quiet = asyncio.get_running_loop().call_later(QUIET_SECONDS, self._changed)  # draws a marker
        try:
            return await pending.answered
        finally:
            quiet.cancel()
            self.pending = None
            self._changed()
            self._call("")

    def _show(self, pending: Pending, *, in_full: bool) -> None:
        text = pending.text if in_full else excerpt(pending.text, MAX_LINES, MAX_WIDTH)
        self._notify(text, "warning")
        if in_full and pending.kind and not pending.is_guarded:
            self._notify(user_text("chat.rules_of_answer", rules=", ".join(pending.kind)), "dim")
        if pending.diff and pending.request is not None:
            has_title = "\n" not in pending.text  # the diff names the file
            name = "" if has_title else str(pending.request.args.get("path", ""))
            diff = blanks_shown(pending.diff, is_code=True)
            self._show_diff(name, diff, None if in_full else MAX_DIFF)

    def has_shown(self, diff: str) -> bool:
        """Return True if the whole diff was shown with a question that the user approved."""
        return _changes(diff) in self._seen

    def choices(self) -> str:
        """Return the possible answers to the pending question."""
        pending = self.pending
        if pending is None:
            return ""
        if pending.is_edited:
            return user_text("chat.edit_call")
        if pending.is_open:
            return user_text("chat.choose_open")
        kind = ", ".join(pending.kind) if pending.is_guarded else kind_words(pending.kind)
        tool, names = one_line(pending.whole), {"s": "known"} if pending.is_guarded else {}
        words = [
            user_text(f"chat.choice_{names.get(letter, letter)}", kind=kind, tool=tool)
            for letter in pending.letters
        ]
        answers = [f"  {letter}  {text}" for letter, text in zip(pending.letters, words, strict=True)]
        if self.keys:
            answers[pending.chosen] = f"❯{answers[pending.chosen][1:]}"
        if pending.is_unclear:
            letters = user_text("chat.comma").join(f"{pending.letters[:-1]}{'a' if pending.kind else ''}")
            return "\n".join([*answers, user_text("chat.no_answer", letters=letters)])
        if pending.request is None:
            return "\n".join([*answers, user_text("chat.choose_yes_no")])
        always = user_text("chat.choose_always") if pending.kind and not pending.is_guarded else ""
        return "\n".join([*answers, always + user_text("chat.choose")])

    @property
    def keys(self) -> list[str]:
        """Keys that choose or give an answer.

        There are none at first, because the user may have pressed a key before seeing the question.
        """
        pending = self.pending
        if pending is None or time.monotonic() - pending.shown_at < QUIET_SECONDS or not pending.letters:
            return []
        return ["up", "down", "enter", *pending.numbers]

    def press(self, key: str) -> None:
        """Handle a key: ``up`` and ``down`` choose an answer; ``enter`` or a number gives an answer."""
        pending = self.pending
        if pending is None:
            return
        if key in ("up", "down"):
            by = 1 if key == "down" else -1
            pending.chosen = (pending.chosen + by) % len(pending.letters)
            self._changed()
        else:
            self.answer(pending.letters[pending.chosen] if key == "enter" else key)

    def answer(self, line: str) -> str | None:
        """Handle a typed line as an answer.

        Returns: A text for the user to edit in the input; None if there is none.
        """
        pending = self.pending
        if pending is None:
            return None
        if pending.is_edited:
            return self._edited(pending, line)
        if pending.is_open and line.strip():
            self._end(pending, read_reply(line))
            return None
        word, _, rest = line.strip().partition(" ")
        if word in pending.numbers:
            word = pending.letters[pending.numbers.index(word)]
        pending.is_unclear = False
        agreed = yes_or_no(word)
        if agreed is False:
            self._end(pending, Permission("deny", rest.strip()))
        elif agreed and not rest:
            self._end(pending, YES)
        else:
            return self._answer_by_letter(pending, "" if rest else word.lower(), line)
        return None

    def _answer_by_letter(self, pending: Pending, letter: str, line: str) -> str | None:
        question = pending.request
        if letter == "d":
            self._show(pending, in_full=True)
        elif letter == "s" and pending.kind and pending.is_guarded:
            self._end(pending, KNOWN)
        elif letter in ("s", "a") and pending.kind and not pending.is_guarded:
            if letter == "a" and not self._save_rules(pending.kind):
                return None
            self._allow(pending, pending.kind)
        elif letter == "t" and pending.whole:
            self._allow(pending, [pending.whole])
        elif letter == "e" and question is not None:
            pending.is_edited = True
            self._changed()
            args = question.args
            return str(args["command"]) if question.tool == "shell" else json.dumps(args, ensure_ascii=False)
        else:
            pending.is_unclear = True
            self._changed()
            return line  # so that the user can edit the text
        return None

    def _allow(self, pending: Pending, rules: list[str]) -> None:
        options = self._shared.options
        options.allow = list(dict.fromkeys([*options.allow, *rules]))
        self._notify(user_text("chat.allowed", kind=kind_words(rules)), "dim")
        self._end(pending, YES)

    def _save_rules(self, kind: list[str]) -> bool:
        try:
            path = keep_rules(self._shared.workspace, kind)
        except ConfigError as error:
            self._notify(error_text(error), "error")
            return False
        self._notify(user_text("chat.kept", place=path), "dim")
        return True

    def _edited(self, pending: Pending, line: str) -> str | None:
        question = pending.request
        assert question is not None
        args: Any = {**question.args, "command": line}
        if question.tool != "shell":
            try:
                args = read_json(line)
            except ValueError as error:
                args = str(error)
        if not isinstance(args, dict) or not line.strip():
            self._notify(user_text("chat.no_call", why=args if isinstance(args, str) else "{...}"), "error")
            return line
        self._end(pending, Permission("allow", updated_args=args))
        return None

    def _end(self, pending: Pending, permission: Permission) -> None:
        if pending.diff and permission is YES and _fits(pending.diff):
            self._seen.add(_changes(pending.diff))
        if not pending.answered.done():
            pending.answered.set_result(permission)


def _fits(diff: str) -> bool:
    lines = diff.split("\n")
    return len(lines) <= MAX_DIFF and max(map(len, lines)) <= diffs.MAX_WIDTH


def _changes(diff: str) -> tuple[str, ...]:
    return tuple(line for line in diff.split("\n") if line[:1] in "+-" and line[:3] not in ("+++", "---"))


def planned_diff(workspace: Path, request: PermissionRequest) -> str:
    """Return the diff that a call would cause; empty if it cannot be predicted."""
    planned = planned_change(Workspace(workspace), request.tool, request.args)
    if planned is None:
        return ""
    from pure_agent_loop.snapshots.report import unified

    path, before, after = planned
    return unified(path, before or "", after, None)[0]


def planned_change(
    workspace: Workspace, tool: str, args: Mapping[str, Any]
) -> tuple[str, str | None, str] | None:
    """Return the file that a call would change, the old text and the new text; None if unpredictable."""
    path, old, new = args.get("path"), args.get("old_text"), args.get("new_text")
    if tool not in EDIT_TOOLS or not isinstance(path, str):
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

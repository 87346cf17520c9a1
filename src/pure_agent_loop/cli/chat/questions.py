"""Permission prompts of a conversation: a question is shown and the next typed line answers it."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pure_agent_loop.assistant import is_trusted, trust_guidance
from pure_agent_loop.cli.chat import diffs
from pure_agent_loop.cli.chat.markdown import Flow, Page
from pure_agent_loop.cli.chat.output import Cleaner, reads_right_to_left
from pure_agent_loop.cli.chat.talk import ChatConfig
from pure_agent_loop.cli.output import error_text
from pure_agent_loop.cli.questions import YES, blanks_shown, question_text, read_reply, rule_for
from pure_agent_loop.cli.settings.files import NAME, ConfigFile, project_file, read
from pure_agent_loop.cli.toolset import settled
from pure_agent_loop.cli.trust import settings_guidance
from pure_agent_loop.errors import ConfigError, MissingExtraError
from pure_agent_loop.permissions import EDIT_TOOLS, Permission, PermissionRequest, wider_rules
from pure_agent_loop.support.language import notice, user_text
from pure_agent_loop.support.lazy import lazy_pattern
from pure_agent_loop.support.terminal import excerpt
from pure_agent_loop.support.text import yes_or_no
from pure_agent_loop.toolbox import ShellPolicy, Workspace, WorkspaceError

if TYPE_CHECKING:
    from rich.text import Text

_PLAIN = lazy_pattern(r"[^*?()\n\r\\]+")  # a wildcard would allow more than the call in question
_ALLOW = lazy_pattern(r"^allow\s*=\s*\[", re.M)
_RULES = lazy_pattern(r"^\[rules\][ \t]*(?:#.*)?$", re.M)
MAX_LINES, MAX_WIDTH, MAX_DIFF = 40, 2_000, 30
QUIET_SECONDS = 0.6  # after a question appears, in which keys go into the input
IN_DIFF = ("content", "old_text", "new_text", "replace_all")
_MAX_BYTES = 300_000  # larger diffs take too long
# A word, or one character of a script without spaces.
_WORD = lazy_pattern(
    "[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]|[^\\W\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]+"
)


@dataclass(slots=True)
class Pending:
    """A pending question.

    Args:
        request: What an agent asks; None for a yes-or-no question of the program.
        diff: The file change; empty if the call does not change a file.
        is_edited: The user is editing the call; the next line is the new call.
        is_unclear: The last line was no answer.
        chosen: Number of the chosen answer; see `PermissionPrompt.letters`.
        shown_at: When the question appeared, in seconds of the monotonic clock.
    """

    request: PermissionRequest | None
    answered: asyncio.Future[Permission]
    kind: list[str]
    text: str = ""
    diff: str = ""
    is_edited: bool = False
    is_unclear: bool = False
    chosen: int = 0
    shown_at: float = field(default_factory=time.monotonic)

    @property
    def letters(self) -> str:
        """Letters of the answers to choose from; empty if the answer is typed."""
        if self.is_edited or self.is_open:
            return ""
        return "ysn" if self.kind else "yn"

    @property
    def numbers(self) -> list[str]:
        """Numbers of the answers, which can be typed in place of the letters."""
        return [str(number + 1) for number in range(len(self.letters))]

    @property
    def height(self) -> int:
        """Lines that the question takes, without those of its answers."""
        return self.text.count("\n") + 1 + min(len(self.diff.split("\n")), MAX_DIFF)

    @property
    def title(self) -> str:
        """The first line of the question."""
        return self.text.partition("\n")[0]

    @property
    def pinned(self) -> list[str]:
        """The lines below the title, then the changed ones of the diff."""
        return [*self.text.split("\n")[1:], *_changes(self.diff)]

    @property
    def is_open(self) -> bool:
        """True if any text is an answer, because a running tool asked the question."""
        return self.request is not None and self.request.question is not None


class PermissionPrompt:
    """Asks the user one question at a time.

    Args:
        shared: Its options receive the rules that the user approves.
        show_diff: Shows a diff: its name, its text and the maximum number of lines.
        changed: Called when a question appears or is answered.
    """

    def __init__(
        self,
        shared: ChatConfig,
        notify: Callable[[str, str], None],
        show_diff: Callable[[str, str, int | None], None],
        changed: Callable[[], None],
    ) -> None:
        self.pending: Pending | None = None
        self._seen: set[tuple[str, ...]] = set()  # diffs that were shown and approved
        self._shared, self._notify, self._show_diff, self._changed = shared, notify, show_diff, changed
        self._one_at_a_time = asyncio.Lock()

    async def ask(self, request: PermissionRequest) -> Permission:
        """Ask about a call, unless a rule approved meanwhile allows it; for ``Agent(on_ask=...)``."""
        async with self._one_at_a_time:
            permission = settled(self._shared.options, request, self._shared.toolset)
            if permission.behavior != "ask":
                return permission
            diff = await asyncio.to_thread(planned_diff, self._shared.workspace, request)
            text = question_text(request, IN_DIFF if diff else ())
            if reads_right_to_left(json.dumps(request.args, ensure_ascii=False, default=str)):
                text += f"\n  ({user_text('screen.right_to_left')})"
            kind = kind_of(request.tool, request.args)
            return await self._wait(Pending(request, _future(), kind, text, diff))

    async def confirm(self, text: str) -> bool:
        """Ask a yes-or-no question; return True only for a yes."""
        async with self._one_at_a_time:
            return (await self._wait(Pending(None, _future(), [], text))).behavior == "allow"

    async def _wait(self, pending: Pending) -> Permission:
        self.pending = pending
        self._show(pending, in_full=False)
        self._changed()
        quiet = asyncio.get_running_loop().call_later(QUIET_SECONDS, self._changed)  # shows the mark
        try:
            return await pending.answered
        finally:
            quiet.cancel()
            self.pending = None
            self._changed()

    def _show(self, pending: Pending, *, in_full: bool) -> None:
        text = pending.text if in_full else excerpt(pending.text, MAX_LINES, MAX_WIDTH)
        self._notify(text, "warning")
        if in_full and pending.kind:
            self._notify(user_text("chat.rules_of_answer", rules=", ".join(pending.kind)), "dim")
        if pending.diff and pending.request is not None:
            has_title = "\n" not in pending.text  # which names the file
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
        kind = kind_words(pending.kind)
        words = [user_text(f"chat.choice_{letter}", kind=kind) for letter in pending.letters]
        answers = [f"  {letter}  {text}" for letter, text in zip(pending.letters, words, strict=True)]
        if self.keys:
            answers[pending.chosen] = f"❯{answers[pending.chosen][1:]}"
        if pending.is_unclear:
            letters = "no_answer" if pending.kind else "no_answer_yes_no"
            return "\n".join([*answers, user_text(f"chat.{letters}")])
        if pending.request is None:
            return "\n".join([*answers, user_text("chat.choose_yes_no")])
        always = user_text("chat.choose_always") if pending.kind else ""
        return "\n".join([*answers, always + user_text("chat.choose")])

    @property
    def keys(self) -> list[str]:
        """Keys that choose or give an answer; none while what is typed may be from before the question."""
        pending = self.pending
        if pending is None or time.monotonic() - pending.shown_at < QUIET_SECONDS or not pending.letters:
            return []
        return ["up", "down", "enter", *pending.numbers]

    def press(self, key: str) -> None:
        """Choose an answer with ``up`` and ``down``; ``enter`` gives it, a number the one of its row."""
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

        Returns:
            The text for the user to edit in the input; None for none.
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
        elif letter in ("s", "a") and pending.kind:
            if letter == "a" and not self._save_rules(pending.kind):
                return None
            options = self._shared.options
            options.allow = list(dict.fromkeys([*options.allow, *pending.kind]))
            self._notify(user_text("chat.allowed", kind=kind_words(pending.kind)), "dim")
            self._end(pending, YES)
        elif letter == "e" and question is not None:
            pending.is_edited = True
            self._changed()
            args = question.args
            return str(args["command"]) if question.tool == "shell" else json.dumps(args, ensure_ascii=False)
        else:
            pending.is_unclear = True
            self._changed()
            return line  # to be edited, not lost
        return None

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
                args = json.loads(line)
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


def _future() -> asyncio.Future[Permission]:
    return asyncio.get_running_loop().create_future()


def planned_diff(workspace: Path, request: PermissionRequest) -> str:
    """Return the diff that a call would make; empty if it cannot be predicted."""
    planned = planned_change(Workspace(workspace), request.tool, request.args)
    if planned is None:
        return ""
    from pure_agent_loop.snapshots.report import unified

    path, before, after = planned
    return unified(path, before or "", after, None)[0]


def planned_change(
    workspace: Workspace, tool: str, args: Mapping[str, Any]
) -> tuple[str, str | None, str] | None:
    """Return the file that a call would change, its old and its new text; None if unpredictable."""
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


def kind_of(tool: str, args: Mapping[str, Any]) -> list[str]:
    """Return rules that allow similar calls; empty if no rule is narrow enough."""
    if tool == "shell":
        return _of_commands(args.get("command"))
    if wider := wider_rules(tool, args):
        return wider
    rule = "" if tool in (*EDIT_TOOLS, "fetch") else rule_for(tool, args)
    is_narrow = rule not in ("", tool) and _PLAIN.fullmatch("".join(map(str, args.values())))
    return [rule] if is_narrow else []


def kind_words(kind: Sequence[str]) -> str:
    """Return what rules allow, in words for a person: the folder of edits, else the rules themselves."""
    path = kind[0].partition("(path=")[2][:-1] if len(kind) == len(EDIT_TOOLS) else ""
    if not path or kind != [f"{tool}(path={path})" for tool in EDIT_TOOLS]:
        return ", ".join(kind)
    name = "kind_edits_below" if path.endswith("/*") else "kind_edits"
    return user_text(f"chat.{name}", path=path.removesuffix("*"))


def _of_commands(command: object) -> list[str]:
    """Return rules for the simple commands not yet allowed, if those rules allow the whole line."""
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
    """Add allow rules to the project's ``pal.toml``; return its path.

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


# -- the answer in progress: its reasoning, its text and the call being written --------------------------


class AnswerInProgress:
    """Collects an answer, in pieces or whole."""

    def __init__(self, page: Page) -> None:
        self.writing = ""  # the tool of the call that is being written
        self.has_text = self.has_reasoning = self.has_printed = False
        self.words = 0  # words of the reasoning in progress
        self.speed = 0  # tokens a second of the text in progress, about; 0 in its first second
        self._tokens, self._written_since, self._last_piece = 0, 0.0, 0.0
        self._since = 0.0
        self._reasoning: list[str] = []
        self._cleaner = Cleaner()
        self._flow = Flow(page)
        self._ready: list[Text] = []  # finished lines, kept in the live region while they fit

    def think(self, piece: str, now: float) -> None:
        """Add a piece of reasoning."""
        self.has_reasoning = True
        self._since = self._since or now
        self._reasoning.append(piece)
        self.words += len(_WORD.findall(piece))

    def end_thinking(self, now: float) -> tuple[str, float, int] | None:
        """End the reasoning; return its text, seconds and words, or None if there was none."""
        if not self._reasoning:
            return None
        text, took = "".join(self._reasoning), max(now - self._since, 0.0)
        self._reasoning, self._since, self.words = [], 0.0, 0
        return text, took, len(_WORD.findall(text))

    def note_speed(self, piece: str, now: float) -> None:
        """Take a piece of text into the speed, which changes once a second at most."""
        from pure_agent_loop.llm.tokens import estimate_tokens

        self._written_since = self._written_since or now
        before, took = self._last_piece - self._written_since, now - self._written_since
        if took >= 1 and int(took) > int(before):
            self.speed = round(self._tokens / took)
        self._last_piece = now
        self._tokens += estimate_tokens(piece)

    def write(self, piece: str, width: int, room: int | None) -> list[Text]:
        """Add a piece of text; return finished lines, in batches because each print costs a redraw.

        Args:
            room: Lines of the live region that may hold finished lines; None to return them at once.
        """
        piece = piece if self.has_text else piece.lstrip("\r\n")  # many models begin with empty lines
        self.has_text = self.has_text or bool(piece)
        self._ready += self._flow.feed(self._cleaner.feed(piece), width)
        if room is not None:
            if len(self._ready) + self._flow.rows(width) <= room:
                return []
            self._ready += self._flow.cut(width)  # leaves few lines to redraw
        ready, self._ready = self._ready, []
        return ready

    def close(self, width: int) -> list[Text]:
        """End the text; return its remaining lines."""
        self.writing, self.speed = "", 0
        lines = [*self._ready, *self._flow.feed(self._cleaner.close(), width), *self._flow.close(width)]
        self._ready = []
        return lines

    def tail(self, width: int, max_lines: int) -> list[Text]:
        """Return the last lines of the unprinted text."""
        lines = [*self._ready, *self._flow.tail(width)]
        return lines[-max_lines:] if max_lines > 0 else []

"""Ask the user at the terminal about calls; if there is no terminal, explain denials."""

from __future__ import annotations

import io
import json
import os
import queue
import re
import shlex
import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from typing import Any

from pure_agent_loop.cli.interrupts import Interrupts
from pure_agent_loop.cli.output import CommandOutput
from pure_agent_loop.errors import ConfigError
from pure_agent_loop.events import Event
from pure_agent_loop.permissions import EDIT_TOOLS, Permission, PermissionRequest, PermissionRules, Rule
from pure_agent_loop.support.control import without_reports
from pure_agent_loop.support.language import in_each_language, user_text
from pure_agent_loop.support.terminal import excerpt, is_terminal, one_line, safe_text
from pure_agent_loop.support.text import yes_or_no

TERMINAL = "/dev/tty"
MAX_LINES, MAX_WIDTH = 60, 2_000  # maximum lines and columns of arguments to show at first
MAX_TITLE = 100  # maximum length of a command in the title of a question
MAX_RULE = 120  # maximum length of a rule that a user can still check
LINE_BYTES = 4_096
YES, NO, ALWAYS = Permission("allow"), Permission("deny"), Permission("allow", always=True)
KNOWN = Permission(
    "allow", similar=True
)  # in the mode `guard`: allow the call, and treat its recipients as known afterwards
_ALWAYS, _SHOW = ("a", "always"), ("s", "show")
MAX_BLANKS = 8  # maximum successive blanks to show as they are; of more blanks, the number is shown
_BLANKS = re.compile(r" {2,}|[^\S \n]+")
_WIDE = re.compile(r"[^\S\n]{41,}")
# Printable but invisible characters: Unicode's "default ignorable" characters, and two blank symbols.
_NO_INK = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0"
    "\U0001d159\U000e0000-\U000e0fff]"
)


class _QuestionStream(io.StringIO):
    """Stream that shows everything written to it as a question."""

    def __init__(self, output: CommandOutput) -> None:
        super().__init__()
        self._output = output

    def write(self, text: str) -> int:
        """Show the text."""
        self._output.question(text)
        return len(text)


class TerminalQuestions:
    """Asks the user about calls, one at a time.

    The run needs answers in another thread while this thread shows the events. To keep the order, `ask` asks
    the question when its event is shown, and the run blocks in `wait` until then.
    """

    def __init__(self, output: CommandOutput, descriptor: int) -> None:
        self._output = output
        self._descriptor = descriptor
        self._answers: dict[str, queue.SimpleQueue[Permission]] = {}

    @classmethod
    def at_terminal(cls, output: CommandOutput) -> TerminalQuestions | None:
        """Return an instance for the terminal; None if there is no terminal."""
        if not output.err_is_terminal:
            return None
        if is_terminal(sys.stdin):
            return cls(output, sys.stdin.fileno())
        try:  # stdin is a pipe, but there may still be a terminal
            return cls(output, os.open(TERMINAL, os.O_RDONLY))
        except OSError:
            return None

    def wait(self, request: PermissionRequest) -> Permission:
        """Return the user's answer about a call, for ``Agent(on_ask=...)``.

        This method blocks until `ask` has received the answer.

        A question from a running tool has no event and is therefore asked here.
        """
        if request.question is not None:
            return read_reply(self.line(f"{safe_text(request.reason)}\n{user_text('cli.yes_no_answer')}"))
        return self._answer_of(request.call_id).get()

    def ask(self, event: Event, interrupts: Interrupts) -> None:
        """Ask about a call and pass on the answer. Ctrl-C and the end of input count as no."""
        data = event.data
        about = (data["call_id"], data["tool"], data["args"], data["reason"], event.step)
        request = PermissionRequest(*about, origins=data.get("origins", []), title=data.get("title", ""))
        answers: list[Permission] = []

        def answer() -> bool:
            answers.append(self._answer(request))
            return True

        answered = interrupts.wait_for(answer)
        self._answer_of(request.call_id).put(answers[0] if answered else NO)

    def confirm(self, question: str, text: str = "", more: Callable[[], str] | None = None) -> bool:
        """Ask a yes/no question before a run; any answer other than yes counts as no.

        Args:
            text: The text to decide about; the middle of a long text is shown on request.
        """
        is_cut = (self._show(text) if text else False) or more is not None
        while True:
            line = self.line(user_text("cli.show_or", question=question) if is_cut else question)
            if line is None or not (is_cut and line.strip().lower() in _SHOW):
                return yes_or_no(line or "") is True
            self._output.info(more() if more else text)

    def _show(self, text: str) -> bool:
        """Show a text; return True if it was cut."""
        shown = excerpt(text, MAX_LINES, MAX_WIDTH)
        self._output.info(shown)
        return shown != text

    def line(self, question: str) -> str | None:
        """Ask a question before a run and return the typed line; None at end of input."""
        _forget_typed(self._descriptor)
        self._output.question(question)
        line = self._read_line()
        if line is None:
            self._output.end_line()
        return line

    def secret(self, question: str) -> str:
        """Ask for a text that is not shown while it is typed; empty at end of input."""
        import getpass  # imported lazily: used only at the first start

        try:  # the question is shown only after the terminal has stopped echoing input
            return without_reports(getpass.getpass(question, _QuestionStream(self._output))).strip()
        except EOFError:
            return ""
        finally:
            self._output.typed_line()

    def _answer_of(self, call_id: str) -> queue.SimpleQueue[Permission]:
        return self._answers.setdefault(call_id, queue.SimpleQueue())  # atomic, because two threads call this

    def _answer(self, request: PermissionRequest) -> Permission:
        text = question_text(request)
        is_cut = self._show(text)
        _forget_typed(self._descriptor)
        while True:
            question = user_text(_allow_words(request))
            self._output.question(user_text("cli.show_or", question=question) if is_cut else question)
            line = self._read_line()
            if line is None:
                self._output.end_line()
                return NO
            if (agreed := yes_or_no(line)) is not None:
                return YES if agreed else NO
            word = line.strip().lower()
            if word in _ALWAYS and not request.origins:
                return ALWAYS
            if word in _ALWAYS and request.recipients:
                return KNOWN
            if is_cut and word in _SHOW:
                self._output.info(text)

    def _read_line(self) -> str | None:
        """Read a line from the terminal; return None at the end of input."""
        try:
            data = os.read(self._descriptor, LINE_BYTES)
        except OSError:  # the terminal is no longer available
            return None
        if data.endswith(b"\n"):
            self._output.typed_line()
        return without_reports(data.decode("utf-8", "replace")) if data else None


def _allow_words(request: PermissionRequest) -> str:
    if not request.origins:
        return "cli.allow"
    return "cli.allow_known" if request.recipients else "cli.allow_once"


def read_reply(line: str | None) -> Permission:
    """Read the line that answers a running tool: a plain yes or no, or a text.

    The end of input counts as no.
    """
    text = (line or "").strip()
    agreed = yes_or_no(text)
    if agreed is None and text:
        return Permission("allow", text)
    return YES if agreed else NO


def question_title(request: PermissionRequest, hidden: Collection[str] = ()) -> tuple[str, Collection[str]]:
    """Return the title of a question about a call, and the arguments to omit from the lines below.

    Args:
        hidden: Arguments that a diff shows.
    """
    named = "command" if request.tool == "shell" else "path"
    text = request.args.get(named)
    shown = blanks_shown(one_line(str(text or ""), MAX_TITLE if named == "command" else MAX_WIDTH))
    # The title alone shows the argument if it fits without escapes or quotes.
    is_plain = isinstance(text, str) and _as_json(text)[1:-1] == shown == text
    if is_plain and (hidden or named == "command"):
        hidden = {*hidden, named}
    if named == "command" or named in hidden:
        title = user_text(f"cli.ask_{request.tool}", **{named: shown})
    else:
        title = blanks_shown(request.title) or user_text("cli.ask", tool=one_line(request.tool))
    return title, hidden


def question_text(request: PermissionRequest, hidden: Collection[str] = ()) -> str:
    """Return the full question: the call, its arguments, and each command of a shell line."""
    if request.question is not None:
        head = user_text("cli.wants", tool=one_line(request.tool))
        return f"{head}\n  {blanks_shown(_as_json(request.question))}"
    title, hidden = question_title(request, hidden)
    # If values have strange origins, the reason is short, because the lines below name the values.
    is_strange = any(origin["is_strange"] for origin in request.origins)
    reason = user_text("guard_asks_you") if is_strange else request.reason
    stays = in_each_language("background_stays", reason="").values()  # reasons that imply `background`
    hidden = {*hidden, *("background" for words in stays if words in reason)}
    is_usual = not reason or request.reason in in_each_language("mode_asks").values()
    lines = [title if is_usual else f"{title}{user_text('cli.reason', reason=one_line(reason))}"]
    # JSON keeps each argument on one line, so that a text cannot imitate another argument.
    lines += [
        f"  {one_line(name)}: {blanks_shown(_as_json(value))}"
        for name, value in request.args.items()
        if name not in hidden
    ]
    lines += origin_lines(request.origins)
    if request.tool == "shell":
        from pure_agent_loop.toolbox.shell.syntax import simple_commands

        commands = list(simple_commands("shell", request.args))
        lines += [
            f"    {number}. {blanks_shown(_as_json(command)[1:-1])}"
            for number, command in enumerate(commands, start=1)
            if commands != [request.args.get("command")] or "command" not in hidden
        ]
    return "\n".join(lines).rstrip()


def origin_lines(origins: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return lines that tell a person where each value of a call comes from."""
    lines = []
    for origin in origins:
        shown = {name: one_line(str(origin[name]), 200) for name in ("argument", "value", "source", "around")}
        kind = f"{origin['kind']}_strange" if origin["is_strange"] else origin["kind"]
        lines.append(f"  {user_text(f'origin_{kind}', **shown)}")
        if origin["is_strange"] and origin["around"]:
            lines.append(f"    {blanks_shown(_as_json(shown['around']))}")
    return lines


def blanks_shown(text: str, *, is_code: bool = False) -> str:
    """Make blanks, invisible and bidirectional characters visible, so that a text cannot hide content.

    Args:
        is_code: The text is file content, where indentation and tabs are normal.
    """
    shown = (_WIDE if is_code else _BLANKS).sub(lambda match: _blanks(match[0]), text)
    usual = "\n\t" if is_code else ""
    shown = "".join(char if char.isprintable() or char in usual else _code(char) for char in shown)
    return _NO_INK.sub(lambda match: _code(match[0]), shown)


def _blanks(run: str) -> str:
    if len(run) > MAX_BLANKS:
        return f"·({len(run)} blanks)·"
    return "".join("·" if sign == " " else _code(sign) for sign in run)


def _code(sign: str) -> str:
    return f"\\u{ord(sign):04x}" if ord(sign) < 0x10000 else f"\\U{ord(sign):08x}"


def _forget_typed(descriptor: int) -> None:
    """Discard typed-ahead input, which cannot be an answer to this question."""
    if sys.platform == "win32":
        return
    import termios

    with suppress(OSError, termios.error):
        termios.tcflush(descriptor, termios.TCIFLUSH)


def _as_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def denial_hint(question: Mapping[str, Any], rules: PermissionRules) -> str:
    """Explain how to allow a call that needs an approval when there is no terminal.

    Args:
        question: The fields `tool`, `args` and `reason` of the call.
    """
    tool, args = question["tool"], question["args"]
    told = {"path": args["path"]} if tool in EDIT_TOOLS and "path" in args else args
    pairs = ", ".join(f"{name}={_as_json(value)}" for name, value in told.items())
    pairs += ", ..." if told is not args else ""
    reason = user_text("cli.reason", reason=one_line(question["reason"])) if question["reason"] else ""
    ask_rule = rules.find("ask", tool, args)
    if ask_rule is not None:
        how = user_text("cli.how_leave_out", rule=shlex.quote(ask_rule.text))
    else:
        rule = rule_for(tool, told)
        how = user_text("cli.how_allow", rule=shlex.quote(rule)) if rule else ""
    return user_text("cli.no_terminal", call=one_line(f"{tool}({pairs})", 400), reason=reason, how=how)


def rule_for(tool: str, args: Mapping[str, Any]) -> str:
    """Return a rule for exactly this call, or else for every call to the tool; empty if none is possible."""
    words = (
        value if isinstance(value, str) else json.dumps(value, sort_keys=True) for value in args.values()
    )
    inside = ", ".join(f"{name}={word}" for name, word in zip(args, words, strict=True))
    exact = f"{tool}({inside})" if inside else tool
    is_clear = len(exact) <= MAX_RULE and one_line(exact, MAX_RULE + 1) == exact
    return next((rule for rule in (exact if is_clear else tool, tool) if _allows(rule, tool, args)), "")


def _allows(rule: str, tool: str, args: Mapping[str, Any]) -> bool:
    try:
        return Rule.parse(rule).matches(tool, args)
    except ConfigError:
        return False

"""Asking the person at the terminal whether a call may run; and what to do where there is no terminal."""

from __future__ import annotations

import json
import os
import queue
import re
import shlex
import sys
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from typing import Any

from pure_agent_loop.cli.interrupts import Interrupts
from pure_agent_loop.cli.output import Output
from pure_agent_loop.cli.words import say
from pure_agent_loop.errors import ConfigError
from pure_agent_loop.events import Event
from pure_agent_loop.permissions import Permission, PermissionRequest, PermissionRules, Rule
from pure_agent_loop.support.terminal import excerpt, is_terminal, one_line, safe_text
from pure_agent_loop.tool_context import current_call

QUESTION = "Allow? [y]es, [n]o, [a]lways this tool: "
SHOW = "[s]how what was left out, or: "
QUESTION_CUT = f"{SHOW}{QUESTION}"
ANSWER = "[y]es, [n]o, or your answer: "
TERMINAL = "/dev/tty"
MOST_LINES, MOST_WIDTH = 60, 2_000  # of the arguments; what is left out is said
MOST_RULE = 120  # characters of a rule that a person can still check
LINE_BYTES = 4_096
NO = Permission("deny")
_ANSWERS = {"y": Permission("allow"), "n": NO, "a": Permission("allow", always=True)}
_WORDS = {**_ANSWERS, "yes": _ANSWERS["y"], "no": NO, "always": _ANSWERS["a"]}
_SHOW = ("s", "show")
MOST_BLANKS = 8  # of a run that are shown one by one; of a longer one the number is shown
_BLANKS = re.compile(r" {2,}|[^\S \n]+")
_WIDE = re.compile(r"[^\S\n]{41,}")
# What counts as printable and has no ink: the default ignorable characters of Unicode, and two blank signs.
_NO_INK = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0"
    "\U0001d159\U000e0000-\U000e0fff]"
)


class Questions:
    """Asks about calls, one at a time.

    The run asks from a thread of its own, while this one shows the events. So that a question never comes
    between them, it is put where its event has its turn (`ask`), and the run waits for that (`wait`).

    Args:
        output: Where to ask.
        descriptor: The terminal to read the answer from.
    """

    def __init__(self, output: Output, descriptor: int) -> None:
        self._output = output
        self._descriptor = descriptor
        self._answers: dict[str, queue.SimpleQueue[Permission]] = {}

    @classmethod
    def at_terminal(cls, output: Output) -> Questions | None:
        """For the terminal where the question would be read; None if there is none."""
        if not output.err_is_terminal:
            return None
        if is_terminal(sys.stdin):
            return cls(output, sys.stdin.fileno())
        try:  # standard input is a pipe: the person is there all the same
            return cls(output, os.open(TERMINAL, os.O_RDONLY))
        except OSError:
            return None

    def wait(self, request: PermissionRequest) -> Permission:
        """The answer about a call; for ``Agent(on_ask=...)``. Blocks until `ask` was called for it.

        What a tool at work wants to know is asked here, because no event tells of it.
        """
        call = current_call()
        if call is not None and call.call_id == request.call_id:
            return self._told(str(request.args.get("question", request.reason)))
        return self._answer_of(request.call_id).get()

    def ask(self, event: Event, interrupts: Interrupts) -> None:
        """Ask about a call and hand the answer over. Ctrl-C and the end of the input mean no.

        Args:
            event: It says that the call is asked about.
        """
        found: list[Permission] = []

        def answer() -> bool:
            found.append(self._answer(event.data))
            return True

        answered = interrupts.wait_for(answer)
        self._answer_of(event.data["call_id"]).put(found[0] if answered else NO)

    def _told(self, question: str) -> Permission:
        line = self.line(f"{safe_text(question)}\n{ANSWER}")
        if line is None or line.strip().lower() in ("", "n", "no"):
            return NO
        words = line.strip()
        return Permission("allow", "" if words.lower() in ("y", "yes") else words)

    def confirm(self, question: str, text: str = "", more: Callable[[], str] | None = None) -> bool:
        """Ask something before a run; only a yes is one.

        Args:
            question: With the answers it takes.
            text: What it is about; of a long one the middle is shown if the person asks for it.
            more: What is shown then instead.
        """
        is_cut = (self._show(text) if text else False) or more is not None
        while True:
            line = self.line(f"{SHOW}{question}" if is_cut else question)
            word = "" if line is None else line.strip().lower()
            if not is_cut or word not in _SHOW:
                return word in ("y", "yes")
            self._output.say(more() if more else text)

    def _show(self, text: str) -> bool:
        """Show a text; says whether something was left out."""
        shown = excerpt(text, MOST_LINES, MOST_WIDTH)
        self._output.say(shown)
        return shown != text

    def line(self, question: str) -> str | None:
        """What a person types to a question before a run; None at the end of the input."""
        _forget_typed(self._descriptor)
        self._output.progress(question)
        line = self._read_line()
        if line is None:
            self._output.end_line()
        return line

    def _answer_of(self, call_id: str) -> queue.SimpleQueue[Permission]:
        return self._answers.setdefault(call_id, queue.SimpleQueue())  # atomic: both threads come here

    def _answer(self, data: Mapping[str, Any]) -> Permission:
        text = question_text(data)
        is_cut = self._show(text)
        _forget_typed(self._descriptor)
        while True:
            self._output.progress(QUESTION_CUT if is_cut else QUESTION)
            line = self._read_line()
            if line is None:
                self._output.end_line()
                return NO
            if (word := line.strip().lower()) in _WORDS:
                return _WORDS[word]
            if is_cut and word in _SHOW:
                self._output.say(text)

    def _read_line(self) -> str | None:
        """A line from the terminal; None at its end."""
        try:
            data = os.read(self._descriptor, LINE_BYTES)
        except OSError:  # the terminal is gone
            return None
        if data.endswith(b"\n"):
            self._output.typed_line()
        return data.decode("utf-8", "replace") if data else None


def question_text(data: Mapping[str, Any], hidden: Collection[str] = ()) -> str:
    """All that is asked: the call, its arguments, and each command of a line for the shell.

    Args:
        data: `tool`, `args` and `reason`.
        hidden: Arguments that are shown in another way.
    """
    if data["args"] == {"question": data["reason"]}:  # a tool at work wants to know something
        return f"{say('wants', tool=one_line(data['tool']))}\n  {blanks_shown(_as_json(data['reason']))}"
    reason = f" ({one_line(data['reason'])})" if data["reason"] else ""
    lines = [say("asks", tool=one_line(data["tool"]), reason=reason)]
    # As JSON each argument is one line, so that no text can pass for another argument.
    lines += [
        f"  {one_line(name)}: {blanks_shown(_as_json(value))}"
        for name, value in data["args"].items()
        if name not in hidden
    ]
    if data["tool"] == "shell":
        from pure_agent_loop.toolbox.shell.syntax import simple_commands

        for number, each in enumerate(simple_commands("shell", data["args"]), start=1):
            lines.append(f"    {number}. {blanks_shown(_as_json(each)[1:-1])}")
    return "\n".join(lines).rstrip()


def blanks_shown(text: str, *, is_code: bool = False) -> str:
    """Text in which no blanks can push anything out of sight or pass for others; no sign turns it round.

    Args:
        text: What is asked about.
        is_code: It is lines of a file, where some blanks and tabs are usual.
    """
    shown = (_WIDE if is_code else _BLANKS).sub(lambda found: _blanks(found[0]), text)
    usual = "\n\t" if is_code else ""
    shown = "".join(each if each.isprintable() or each in usual else _code(each) for each in shown)
    return _NO_INK.sub(lambda found: _code(found[0]), shown)


def _blanks(run: str) -> str:
    if len(run) > MOST_BLANKS:
        return f"·({len(run)} blanks)·"
    return "".join("·" if sign == " " else _code(sign) for sign in run)


def _code(sign: str) -> str:
    return f"\\u{ord(sign):04x}" if ord(sign) < 0x10000 else f"\\U{ord(sign):08x}"


def _forget_typed(descriptor: int) -> None:
    """What was typed before the question was there is no answer to it."""
    with suppress(ImportError, OSError):
        import termios

        with suppress(termios.error):
            termios.tcflush(descriptor, termios.TCIFLUSH)


def _as_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def way_out(question: Mapping[str, Any], rules: PermissionRules) -> str:
    """What to say about a call that nobody could be asked about, and how to permit it.

    Args:
        question: `tool`, `args` and `reason` of the call.
    """
    tool, args = question["tool"], question["args"]
    pairs = ", ".join(f"{name}={_as_json(value)}" for name, value in args.items())
    reason = f" ({one_line(question['reason'])})" if question["reason"] else ""
    call = f"{one_line(f'{tool}({pairs})', 400)} needs a person's permission{reason}"
    asked = rules.find("ask", tool, args)
    if asked is not None:
        how = f" To permit it, leave out --ask {shlex.quote(asked.text)}."
    else:
        rule = rule_for(tool, args)
        how = f" To permit it: --allow {shlex.quote(rule)}" if rule else ""
    return f"{call}, and there is no terminal to ask at.{how}"


def rule_for(tool: str, args: Mapping[str, Any]) -> str:
    """A rule that allows a call: only that call if it can be written so, else the tool; empty if neither."""
    words = (
        value if isinstance(value, str) else json.dumps(value, sort_keys=True) for value in args.values()
    )
    inside = ", ".join(f"{name}={word}" for name, word in zip(args, words, strict=True))
    exact = f"{tool}({inside})" if inside else tool
    is_clear = len(exact) <= MOST_RULE and one_line(exact, MOST_RULE + 1) == exact
    return next((rule for rule in (exact if is_clear else tool, tool) if _allows(rule, tool, args)), "")


def _allows(rule: str, tool: str, args: Mapping[str, Any]) -> bool:
    try:
        return Rule.parse(rule).matches(tool, args)
    except ConfigError:
        return False

"""Call syntax of model families, as data, and where in a text a call could begin: no I/O.

Add a syntax with `register_form`.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass

from pure_agent_loop.errors import ConfigError

_FENCE_LINE = re.compile(r"^[ \t]*```", re.M)
_JSON_LINE = re.compile(r"^[ \t]*(?=[{\[])", re.M)
_CANDIDATE = re.compile(r"[<\[`{]")
_MISTRAL_TAG = "[TOOL_CALLS]"
_LONG_LINE = 400


@dataclass(frozen=True, slots=True)
class CallForm:
    """Syntax of calls. Between the tags: JSON, a name followed by JSON, or calls in the syntax of `call`.

    Args:
        opens: Tags before calls.
        closes: Tags after calls.
        call: Syntax of one call, such as ``<invoke name="{name}">{arguments}</invoke>``; empty if there is
            only JSON between the tags.
        argument: Syntax of one argument, such as ``<parameter name="{key}">{value}</parameter>``, optionally
            with ``{is_text}``, which is ``true`` for a text value and ``false`` for JSON.

    Raises:
        ConfigError: A placeholder is missing.
    """

    name: str
    opens: tuple[str, ...] = ()
    closes: tuple[str, ...] = ()
    call: str = ""
    argument: str = ""

    def __post_init__(self) -> None:
        for field, text, needed in (
            ("call", self.call, ("{name}", "{arguments}")),
            ("argument", self.argument, ("{key}", "{value}")),
        ):
            at = [text.find(placeholder) for placeholder in needed]
            if bool(self.call) and (min(at) < 1 or at != sorted(at)):
                raise ConfigError(f"CallForm.{field}={text!r} must contain {' followed by '.join(needed)}.")


def _invoking(name: str, mark: str, *opens: str, attribute: str = "") -> CallForm:
    """Return Claude's form; other families use it with a prefix in each tag."""
    return CallForm(
        name,
        tuple(f"<{tag}>" for tag in opens),
        tuple(f"</{tag}>" for tag in opens),
        f'<{mark}invoke name="{{name}}">{{arguments}}</{mark}invoke>',
        f'<{mark}parameter name="{{key}}"{attribute}>{{value}}</{mark}parameter>',
    )


CALL_FORMS: list[CallForm] = [
    CallForm("Hermes, Qwen, GLM", ("<tool_call>", "<tool_calls>", "<function_call>"), (
        "</tool_call>", "</tool_calls>", "</function_call>", "<|im_end|>")),
    CallForm("Qwen3-Coder, Step, Seed-OSS", ("<seed:tool_call>",), ("</seed:tool_call>",),
        "<function={name}>{arguments}</function>", "<parameter={key}>{value}</parameter>"),
    _invoking("Claude", "", "function_calls"),
    _invoking("Claude", "antml:", "antml:function_calls"),
    _invoking("MiniMax", "", "minimax:tool_call"),
    _invoking("DeepSeek", "｜DSML｜", "｜DSML｜function_calls", "｜DSML｜tool_calls",
        attribute=' string="{is_text}"'),
    _invoking("Step", "steptml:", "steptml:toolcall"),
    CallForm("DeepSeek", ("<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>"), (
        "<｜tool▁call▁end｜>", "<｜tool▁calls▁end｜>")),
    CallForm("Step", (
        "<｜tool_calls_begin｜>", "<｜tool_call_begin｜>", "<｜tool_call_begin｜>function<｜tool_sep｜>"), (
        "<｜tool_call_end｜>", "<｜tool_calls_end｜>")),
    CallForm("Kimi", ("<|tool_calls_section_begin|>", "<|tool_call_begin|>"), (
        "<|tool_call_end|>", "<|tool_calls_section_end|>")),
    CallForm("gpt-oss", (
        "<|start|>assistant<|channel|>commentary to=", "<|channel|>commentary to=",
        "<|start|>assistant to="), ("<|call|>",)),
    CallForm("Llama", ("<|python_tag|>",), ("<|eom_id|>", "<|eot_id|>")),
    CallForm("Mistral", ("[TOOL_CALLS]",), ("</s>",)),
    CallForm("Granite, Phi", ("<|tool_call|>",), ("<|/tool_call|>",)),
    CallForm("LFM2", ("<|tool_call_start|>",), ("<|tool_call_end|>",)),
    CallForm("Cohere", ("<|START_ACTION|>",), ("<|END_ACTION|>",)),
    CallForm("Nemotron", ("<TOOLCALL>",), ("</TOOLCALL>",)),
]  # fmt: skip


def register_form(form: CallForm) -> None:
    """Register a form before all others, for this process."""
    CALL_FORMS.insert(0, form)


class Element:
    """Parser for forms with a separate tag per argument."""

    def __init__(self, form: CallForm) -> None:
        self.prefix, _, rest = form.call.partition("{name}")
        self.suffix, _, self.close = rest.partition("{arguments}")
        start = re.escape(form.argument.partition("{key}")[0])
        before, _, after = map(re.escape, form.argument.partition("{value}"))
        before = before.replace(r"\{key\}", r"(?P<key>[\w.-]+)").replace(
            r"\{is_text\}", "(?P<is_text>true|false)"
        )
        self._argument = re.compile(rf"{before}\n?(?P<value>.*?)\n?(?:{after}|(?={start})|\Z)", re.S)

    def arguments(self, text: str) -> list[tuple[str, str, str]]:
        """Return name, value and ``is_text`` ("true", "false" or empty) of each argument."""
        return [
            (match["key"], match["value"], match.groupdict().get("is_text") or "")
            for match in self._argument.finditer(text)
        ]


class FormPatterns:
    """Tags and patterns of several forms."""

    def __init__(self, forms: tuple[CallForm, ...]) -> None:
        self.openings = tuple(dict.fromkeys(tag for form in forms for tag in form.opens))
        self.closings = tuple(dict.fromkeys(tag for form in forms for tag in form.closes))
        self.elements = {part.prefix: part for part in (Element(form) for form in forms if form.call)}
        self.tags = (*self.openings, *self.closings, *self.elements)
        words = sorted(map(re.escape, self.openings), key=len, reverse=True)
        closing = "|".join(map(re.escape, self.closings))
        self.opening = re.compile("|".join(words))
        self.between = re.compile(rf"(?:{'|'.join(words)}|{closing}|[\s;,])*")
        self.closers = re.compile(rf"(?:[ \t\r\n}}\])]*(?:{closing}))*")

    def element_at(self, text: str, start: int) -> Element | None:
        """Return the parser for a call in tags that begins at `start`, if there is one."""
        return next(
            (self.elements[prefix] for prefix in self.elements if text.startswith(prefix, start)), None
        )


_cached_forms: list[tuple[list[CallForm], FormPatterns]] = []


def forms_in_use() -> FormPatterns:
    """Return the registered forms, rebuilt when the table has changed."""
    if (
        not _cached_forms or _cached_forms[0][0] != CALL_FORMS
    ):  # identical objects, so the comparison is cheap
        _cached_forms[:] = [([*CALL_FORMS], FormPatterns(tuple(CALL_FORMS)))]
    return _cached_forms[0][1]


# -- positions: lines, fences and tags -------------------------------------------------------------------


def may_hold_call(text: str) -> bool:
    """Return False if no call could begin anywhere in a text."""
    return _CANDIDATE.search(text) is not None


class TextPosition:
    """A position in a text, with its line and code block, which decide where a call could begin."""

    def __init__(self) -> None:
        self._line = ""
        self._fences = 0  # in the lines before

    def move(self, text: str) -> None:
        """Advance to the end of `text`."""
        if "\n" in text:
            before, newline, self._line = (self._line + text).rpartition("\n")
            self._fences += len(_FENCE_LINE.findall(before + newline))
        else:
            self._line += text
        if len(self._line) > _LONG_LINE:  # its start no longer matters, and scanning it again is slow
            self._line = "x" + self._line[-8:]

    def candidates(self, text: str) -> Iterator[int]:
        """Yield the positions in the following `text` where a call could begin, in order."""
        whole, offset = self._line + text, len(self._line)
        fences = [match.end() for match in _FENCE_LINE.finditer(whole)]
        own_line = {match.end() for match in _JSON_LINE.finditer(whole)}
        ticks, last = self._line.count("`"), offset
        for match in _CANDIDATE.finditer(whole, offset):
            position, character = match.start(), match.group()
            ticks = ticks if whole.find("\n", last, position) < 0 else 0
            is_quoted, last = character != "`" and ticks % 2 == 1, position
            ticks += character == "`"
            is_in_block = (self._fences + bisect_right(fences, position)) % 2 == 1
            if is_in_block or is_quoted or whole[position - 1 : position] == "`":
                continue
            is_tag = character == "<" or _MISTRAL_TAG.startswith(whole[position : position + 12])
            if character == "`" or is_tag or position in own_line:
                yield position - offset

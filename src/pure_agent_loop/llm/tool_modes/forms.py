"""Call syntax of model families, as data. Pure: no I/O.

Add a syntax with `register_form`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.support.lazy import lazy_pattern

_MISTRAL_TAG = "[TOOL_CALLS]"


@dataclass(frozen=True, slots=True)
class CallForm:
    """Syntax of calls. The tags enclose JSON, a name followed by JSON, or calls in the syntax of `call`.

    Args:
        opens: Tags that open a call or a list of calls.
        closes: Tags that close this call or list.
        call: Syntax of one call, such as ``<invoke name="{name}">{arguments}</invoke>``; empty if there is
            only JSON between the tags.
        argument: Syntax of one argument, such as ``<parameter name="{key}">{value}</parameter>``, optionally
            with ``{is_text}``, which is ``true`` for a string and ``false`` for JSON.

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


class Marker:
    """Finds a word with a colon (``Action:``, ``**Action:**``), anywhere or at the start of a line."""

    def __init__(self, words: str) -> None:
        bold, end = r"(?P<bold>\*{1,2})?", r"[ \t]{0,2}(?(bold)\*{0,2})[ \t]{0,2}[:：](?(bold)\*{0,2})[ \t]*"
        marker = rf"{bold}(?:{words}){end}"
        self.at = lazy_pattern(marker, re.I)
        self.in_line = lazy_pattern(rf"^[ \t#>]{{0,8}}{marker}", re.I | re.M)
        self._words = words.lower().replace("[ _]", " ").split("|")
        self._begun = lazy_pattern(rf"\*{{0,2}}(?:{words})[ \t*]{{0,6}}", re.I)

    def may_begin(self, text: str) -> bool:
        """Return True if `text` could be the start of the marker."""
        word = text.removeprefix("*").removeprefix("*").lower().replace("_", " ")
        return any(each.startswith(word) for each in self._words) or bool(self._begun.fullmatch(text))


ACTION = Marker("Action|Act|行动|动作|操作")
INPUT = Marker("Action[ _]Input|行动输入|动作输入|操作输入|输入")
ANSWER = Marker("Final[ _]Answer|最终答案|最终回答")
OBSERVATION = Marker("Observation|Observe|观察|观察结果")
THOUGHT = Marker("Thought|Think|思考|想法")


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
        self._argument = lazy_pattern(rf"{before}\n?(?P<value>.*?)\n?(?:{after}|(?={start})|\Z)", re.S)

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
    """Return the patterns of the registered forms; rebuild them if the forms have changed."""
    if (
        not _cached_forms or _cached_forms[0][0] != CALL_FORMS
    ):  # a cheap comparison, because the lists hold identical objects
        _cached_forms[:] = [([*CALL_FORMS], FormPatterns(tuple(CALL_FORMS)))]
    return _cached_forms[0][1]

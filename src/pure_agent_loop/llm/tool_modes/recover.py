"""Tool calls that a model or its server left in the text, found again. Pure: no I/O.

Rules:

1.  Only a call that names a tool that was offered, and whose arguments fit its schema, is a call.
    Everything else stays text.
2.  Behind a tag that models use for nothing else (``<tool_call>`` and its kin) a call counts anywhere,
    but not inside a code block or quotes.
3.  A fenced or bare JSON object or list counts only where the text ends with it: in the middle of an
    explanation it is an example. A bare one begins on a line of its own.
4.  Text is held back only while it can still become a call, so that answers stream as before. What is
    found does not depend on how the text was cut into pieces: a "no" is said only when no further text
    could change it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pure_agent_loop.llm.arguments import loads_strictly, parse_arguments
from pure_agent_loop.llm.think import ThinkSplitter, split_unopened
from pure_agent_loop.llm.tool_modes.json_check import (
    ARGUMENT_KEYS,
    NAME_KEYS,
    OTHER_KEYS,
    could_fit,
    end_of_json,
    items_in,
    name_and_arguments,
)
from pure_agent_loop.llm.tool_modes.place import Place, may_hold_call
from pure_agent_loop.llm.values import ToolCall
from pure_agent_loop.support.lazy import lazy_pattern

Schemas = Mapping[str, Mapping[str, Any]]
# What stands in front of calls and behind them: Qwen and Hermes, Llama, Mistral, GLM, DeepSeek, Kimi.
_OPENING_WORDS = (
    "<tool_call> <tool_calls> <function_call> <|tool_call|> <|python_tag|> [TOOL_CALLS] "
    "<｜tool▁calls▁begin｜> <｜tool▁call▁begin｜> <|tool_calls_section_begin|> <|tool_call_begin|>"
)
_CLOSING_WORDS = (
    "</tool_call> </tool_calls> </function_call> <|/tool_call|> <|eom_id|> <|eot_id|> <|im_end|> </s> "
    "<｜tool▁call▁end｜> <｜tool▁calls▁end｜> <|tool_call_end|> <|tool_calls_section_end|>"
)
_OPENINGS, _CLOSINGS = tuple(_OPENING_WORDS.split()), tuple(_CLOSING_WORDS.split())
_FUNCTION = "<function="
_OPENING = lazy_pattern("|".join(map(re.escape, _OPENINGS)))
_BETWEEN = lazy_pattern("(?:" + "|".join([*map(re.escape, _OPENINGS + _CLOSINGS), r"[\s;,]"]) + ")*")
_JUNK = " \t\r\n}])"
_BEHIND = lazy_pattern(r"(?:[ \t\r\n}\])]*(?:" + "|".join(map(re.escape, _CLOSINGS)) + "))*")
_FENCE = lazy_pattern(r"```(?:json|tool_calls?|tool|xml)?\s*(?=[{\[<])", re.I)
_FENCE_BEGUN = lazy_pattern(r"`{1,2}|```(\w*)(\s*)")
_FENCE_WORDS = ("json", "tool_calls", "tool_call", "tool", "xml")
_BRACKETS = lazy_pattern(r"[\[{][\s\[{]*")
_KEY = lazy_pattern(r'"([^"\\]*)("?)')
_VALUE = lazy_pattern(r'"[^"\\]*"\s*:\s*"([^"\\]*)("?)')
_GAP = lazy_pattern(r"[\s;,]*")
_XML_NAME = lazy_pattern(r"<function=([\w.:-]*)(>?)")
_XML_PARAMETER = lazy_pattern(r"<parameter=([\w.-]+)>\n?(.*?)\n?(?:</parameter>|(?=<parameter=)|\Z)", re.S)
_WORD = lazy_pattern(r"(?:function<｜tool▁sep｜>)?([\w.-]+)(?::\d*)?")
_SEPARATOR = lazy_pattern(
    r"\s*(?:\[CALL_ID\]\w+)?(?:\[ARGS\]|<｜tool▁sep｜>|<\|tool_call_argument_begin\|>)?\s*(?:```(?:json)?\s*)?"
)
_NAME_ENDS = ("[CALL_ID]", "[ARGS]", "<｜tool▁sep｜>", "<|tool_call_argument_begin|>", "```", "<arg_key>")
_PAIRS = lazy_pattern(r"\s*(?:<arg_key>[^<]*</arg_key>\s*<arg_value>.*?</arg_value>\s*)*", re.S)
_PAIR = lazy_pattern(r"<arg_key>([^<]*)</arg_key>\s*<arg_value>(.*?)</arg_value>", re.S)
_LOOK_AGAIN = 1.1  # a long call is looked at again when it has grown by so much, to stay linear


class _Found(NamedTuple):
    """Calls, and where what they were written in ends. None instead means no, an empty one not yet."""

    calls: tuple[ToolCall, ...]
    end: int


_NOT_YET = _Found((), 0)


class TextCalls:
    """Watches streamed text for calls. `feed` it, then `finish`.

    Args:
        tools: The schemas that were offered, in the shape of a request's ``tools``.
        more: Further tools: their schemas by name.
    """

    def __init__(self, tools: Sequence[Mapping[str, Any]], more: Schemas | None = None) -> None:
        self._schemas = {**schemas_of(tools), **(more or {})}
        self._shown: list[str] = []
        self._place = Place()
        self._held = ""
        self._look_at = 0

    def feed(self, text: str) -> str:
        """Take in more text; return what is surely no call."""
        if not self._held and not may_hold_call(text):  # nearly always
            self._shown.append(text)
            self._place.move(text)
            return text
        self._held += text
        if len(self._held) < self._look_at:
            return ""
        reader = _Reader(self._schemas, self._held, is_final=False)
        places = self._place.candidates(self._held)
        start = next((each for each in places if reader.read(each) is not None), len(self._held))
        shown, self._held = self._held[:start], self._held[start:]
        self._shown.append(shown)
        self._place.move(shown)
        self._look_at = int(len(self._held) * _LOOK_AGAIN) if len(self._held) > 2000 else 0
        return shown

    def finish(self, *, is_cut: bool = False, has_thought: bool = False) -> tuple[list[ToolCall], str]:
        """The calls found in what was held back, and the rest of it, which is text.

        Args:
            is_cut: The answer ended at a limit: a call without its end is none.
            has_thought: The thinking was in tags that are gone. Else what stands before a lone
                ``</think>`` is thinking, and calls in it are none.
        """
        held, self._held = self._held, ""
        thinking, close, answer = held.partition(ThinkSplitter.CLOSE)
        if has_thought or not close or not split_unopened("".join([*self._shown, held]))[1]:
            thinking, close, answer = "", "", held
        self._place.move(thinking + close)
        reader = _Reader(self._schemas, answer, is_final=True, is_cut=is_cut)
        calls, rest = reader.read_all(self._place)
        if calls and not rest.strip():
            rest = ""
        return calls, thinking + close + rest

    @property
    def held(self) -> str:
        """What is held back so far."""
        return self._held


def find_calls(text: str, schemas: Schemas, *, is_cut: bool = False) -> tuple[list[ToolCall], str]:
    """All calls in a finished text.

    Args:
        text: What the model wrote.
        schemas: JSON Schema of the arguments of each tool, by name.
        is_cut: It ended at a limit: a call without its end is none.

    Returns:
        The calls, and the text without them.
    """
    calls, rest = _Reader(schemas, text, is_final=True, is_cut=is_cut).read_all(Place())
    return calls, rest.strip() if calls else text


def schemas_of(tools: Sequence[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """JSON Schema of the arguments of each tool, by name."""
    return {tool["function"]["name"]: tool["function"].get("parameters") or {} for tool in tools}


class _Reader:
    """Reads calls at places of one text.

    Args:
        schemas: JSON Schema of the arguments of each tool, by name.
        text: The text so far.
        is_final: No more text comes.
        is_cut: Because it was cut off.
    """

    def __init__(self, schemas: Schemas, text: str, *, is_final: bool, is_cut: bool = False) -> None:
        self._schemas = schemas
        self._text = text
        self._is_final = is_final
        self._is_cut = is_cut

    def read_all(self, place: Place) -> tuple[list[ToolCall], str]:
        """All calls in a text that begins at `place`, and the text without them."""
        calls: list[ToolCall] = []
        kept, done = [], 0
        for position in place.candidates(self._text):
            found = self.read(position) if position >= done else None
            if found is not None and found.calls:
                calls += found.calls
                kept.append(self._text[done:position])
                done = found.end
        return calls, "".join([*kept, self._text[done:]])

    def read(self, start: int) -> _Found | None:
        """The calls that begin at `start`; None if none can begin there."""
        text = self._text
        if text[start] == "`" or (text[start] in "{[" and not text.startswith("[T", start)):
            return self._untagged(start)
        if text.startswith(_FUNCTION, start) or _OPENING.match(text, start):
            return self._tagged(start)
        return self._pending(any(each.startswith(text[start:]) for each in (*_OPENINGS, _FUNCTION)))

    def _pending(self, condition: bool = True) -> _Found | None:
        return _NOT_YET if condition and not self._is_final else None

    def _untagged(self, start: int) -> _Found | None:
        """JSON and code blocks behind each other up to the end of the text."""
        calls: list[ToolCall] = []
        position = start
        while position < len(self._text):
            is_block = self._text[position] == "`"
            found = self._block(position) if is_block else self._json(position)
            if found is None or not found.calls:
                return found
            calls += found.calls
            position = self._after_gap(found.end)
        return _Found(tuple(calls), position)

    def _block(self, start: int) -> _Found | None:
        text = self._text
        fence = _FENCE.match(text, start)
        if fence is None:
            begun = _FENCE_BEGUN.fullmatch(text, start)
            word = (begun[1] or "").lower() if begun else "?"
            is_whole = begun is not None and bool(begun[2])
            return self._pending(
                word in ("", *_FENCE_WORDS) or (not is_whole and _begins(_FENCE_WORDS, word))
            )
        calls: list[ToolCall] = []
        position = fence.end()
        while position < len(text) and text[position] != "`":
            is_tag = text[position] == "<" or text.startswith("[T", position)
            found = self.read(position) if is_tag else self._json(position)
            if found is None or not found.calls:
                return found
            calls += found.calls
            position = self._after_gap(found.end)
        if text.startswith("```", position):
            return _Found(tuple(calls), position + 3)
        if "```".startswith(text[position:]):
            return _Found(tuple(calls), len(text))
        return None

    def _after_gap(self, position: int) -> int:
        gap = _GAP.match(self._text, position)
        return gap.end() if gap else position

    def _json(self, start: int) -> _Found | None:
        """One JSON value that is a call, or holds nothing but calls."""
        if self._text[start] not in "{[" or not self._may_be_json_call(start):
            return None
        end = end_of_json(self._text, start)
        if end is None:
            return self._pending()
        try:
            items = items_in(loads_strictly(self._text[start:end]))
        except (ValueError, RecursionError):
            return None
        calls = [self._call_of(item) for item in items]
        good = tuple(call for call in calls if call is not None)
        return _Found(good, end) if good and len(good) == len(calls) else None

    def _may_be_json_call(self, start: int) -> bool:
        """Judge by the first key and, if that is for a name, its value."""
        brackets = _BRACKETS.match(self._text, start)
        rest = brackets.end() if brackets else start
        if rest == len(self._text):
            return True
        key = _KEY.match(self._text, rest)
        if key is None:
            return False
        keys = (*NAME_KEYS, *ARGUMENT_KEYS, *OTHER_KEYS, *self._schemas)
        if not key.group(2):
            return _begins(keys, key.group(1))
        value = _VALUE.match(self._text, rest)
        if value is None or key.group(1) not in NAME_KEYS:
            return key.group(1) in keys
        return self._may_be_name(value.group(1), is_whole=bool(value.group(2)))

    def _may_be_name(self, name: str, *, is_whole: bool) -> bool:
        if is_whole:
            return self._known(name) is not None
        return _begins([*self._schemas, *(f"functions.{each}" for each in self._schemas)], name)

    def _known(self, name: str) -> str | None:
        short = name.removeprefix("functions.")
        return name if name in self._schemas else short if short in self._schemas else None

    def _tagged(self, start: int) -> _Found | None:
        """Everything behind opening tags that can be read as calls."""
        calls: list[ToolCall] = []
        position = end = start
        while True:
            between = _BETWEEN.match(self._text, position)
            position = between.end() if between else position
            found = self._body(position)
            if found is None or not found.calls:
                if found is None and calls:
                    more = self._pending(_begins(_CLOSINGS, self._text[end:].lstrip(_JUNK)))
                    return more or _Found(tuple(calls), end)
                return found
            calls += found.calls
            behind = _BEHIND.match(self._text, found.end)
            position = end = behind.end() if behind else found.end

    def _body(self, start: int) -> _Found | None:
        """One value behind a tag: JSON, XML, or a name with JSON or pairs behind it."""
        text = self._text
        if start == len(text):
            return self._pending()
        if text.startswith(_FUNCTION, start):
            return self._xml(start)
        if text[start] in "{[" and not text.startswith("[T", start):
            return self._json(start)
        if text[start] in "<[":
            tags = (*_OPENINGS, *_CLOSINGS, _FUNCTION)
            return self._pending(any(each.startswith(text[start:]) for each in tags))
        return self._named(start)

    def _named(self, start: int) -> _Found | None:
        """``name{...}``, ``name[ARGS]{...}``, or ``name`` and pairs of ``<arg_key>`` and ``<arg_value>``."""
        text = self._text
        word = _WORD.match(text, start)
        if word is None:
            return None
        if word.end() == len(text):
            return self._pending("function".startswith(word[1]) or self._may_be_name(word[1], is_whole=False))
        name = self._known(word[1])
        if name is None:
            return self._pending("function<｜tool▁sep｜>".startswith(text[start:]))
        separator = _SEPARATOR.match(text, word.end())
        after = separator.end() if separator else word.end()
        if text.startswith("{", after):
            return self._arguments(name, after)
        pairs = _PAIRS.match(text, word.end())
        after = pairs.end() if pairs else word.end()
        if any(text.startswith(each, after) for each in _CLOSINGS):
            properties = self._schemas[name].get("properties") or {}
            given = {
                k.strip(): _typed(v, properties.get(k.strip())) for k, v in _PAIR.findall(text, start, after)
            }
            return self._checked(name, given, after)
        rest, ends = text[word.end() :].lstrip(), (*_NAME_ENDS, *_CLOSINGS)
        return self._pending(_begins(ends, rest) or rest.startswith(ends))

    def _arguments(self, name: str, start: int) -> _Found | None:
        end = end_of_json(self._text, start)
        if end is None:
            return self._pending()
        closing = re.compile(r"\s*```").match(self._text, end)
        return self._checked(name, self._text[start:end], closing.end() if closing else end)

    def _xml(self, start: int) -> _Found | None:
        """``<function=name>`` with JSON in it, or with a ``<parameter=...>`` for each argument."""
        text = self._text
        opening = _XML_NAME.match(text, start)
        if opening is None or not self._may_be_name(opening[1], is_whole=bool(opening[2])):
            return None
        name = self._known(opening[1]) if opening[2] else None
        if name is None:
            return self._pending(opening.end() == len(text))
        close = text.find("</function>", opening.end())
        if close < 0 and (not self._is_final or self._is_cut):
            return self._pending()
        inside = text[opening.end() :] if close < 0 else text[opening.end() : close]
        end = len(text) if close < 0 else close + len("</function>")
        properties = self._schemas[name].get("properties") or {}
        parameters = _XML_PARAMETER.findall(inside)
        if not parameters:
            return self._checked(name, inside.strip(), end)
        return self._checked(name, {key: _typed(each, properties.get(key)) for key, each in parameters}, end)

    def _call_of(self, value: Any) -> ToolCall | None:
        named = name_and_arguments(value)
        found = self._checked(*named, 0) if named else None
        return found.calls[0] if found else None

    def _checked(self, name: str, given: Any, end: int) -> _Found | None:
        """Rule 1."""
        known = self._known(name)
        if known is None:
            return None
        arguments, invalid = parse_arguments(given)
        if invalid or not could_fit(arguments, self._schemas[known]):
            return None
        return _Found((ToolCall("", known, arguments),), end)


def _begins(words: Sequence[str], text: str) -> bool:
    return any(word.startswith(text) for word in words)


def _typed(text: str, schema: Any) -> Any:
    """A value written without quotes: text where the schema wants text, else the JSON it is."""
    if isinstance(schema, Mapping) and schema.get("type") == "string":
        return text
    try:
        return loads_strictly(text)
    except (ValueError, RecursionError):
        return text

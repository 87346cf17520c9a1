"""Tool calls as constrained output: the model writes one JSON object per step. Pure: no I/O.

{"tool": "get_weather", "arguments": {"city": "Oslo"}}
{"tool": "final_answer", "arguments": {"answer": "Take an umbrella."}}

Not every server supports constraints, so the output may also be fenced or broken, hold several objects, or be
plain text. An invalid action still becomes a call, so that the loop reports the error to the model.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from pure_agent_loop.llm.arguments import loads_strictly
from pure_agent_loop.llm.messages import text_of
from pure_agent_loop.llm.tool_modes.recover import (
    ARGUMENT_KEYS,
    NAME_KEYS,
    OTHER_KEYS,
    TextCalls,
    end_of_json,
    items_in,
    schemas_of,
)
from pure_agent_loop.llm.values import Delta, JsonFields, JsonObject, ToolCallDelta
from pure_agent_loop.support.lazy import lazy_pattern
from pure_agent_loop.support.parsing import read_json

FINAL = "final_answer"
ANSWER = "answer"
_LIST_KEYS = frozenset(("actions", "calls"))
_FINAL_SCHEMA = {"type": "object", "properties": {ANSWER: {"type": "string"}}, "required": [ANSWER]}

_ACTION = lazy_pattern(r"\s*(?:```(?:json)?\s*)?(?=\{)", re.I)
_ACTION_BEGUN = lazy_pattern(r"\s*(?:`{1,2}|```(?:j|js|jso|json)?\s*)?", re.I)
_NAMED = r'\{\s*"(?:tool|name)"\s*:\s*"%s"\s*,\s*"(?:arguments|parameters|args|input)"\s*:\s*'
_ANSWER_BEGUN = lazy_pattern(_NAMED % FINAL + r'\{\s*"answer"\s*:\s*"')
_CALL_BEGUN = lazy_pattern(_NAMED % r'([^"\\]*)')
_NEVER = lazy_pattern(r"(?!)")
_PIECES = lazy_pattern(r'(?:[^"\\]|\\[^u]|\\u(?:[0-9a-fA-F]{4}|(?![0-9a-fA-F]{0,3}\Z)))+', re.S)
_ESCAPE = lazy_pattern(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.S)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "/": "/", '"': '"', "\\": "\\"}


def action_schema(
    tools: Sequence[JsonFields], answer: JsonFields | None = None, *, has_to_call: bool = False
) -> JsonObject:
    """Return the JSON Schema of one action: a tool call, with the final answer as one more tool.

    Args:
        answer: Schema of a typed answer, used as the arguments of the final answer.
    """
    definitions: JsonObject = {}
    choices = []
    final = {} if has_to_call else {FINAL: _FINAL_SCHEMA if answer is None else answer}
    for name, parameters in {**schemas_of(tools), **final}.items():
        moved = _with_references_moved(parameters, f"#/$defs/{name}")
        if moved != parameters:  # in a nested schema, references would break
            definitions[name] = moved
            moved = {"$ref": f"#/$defs/{name}"}
        choices.append(_action(name, moved or {"type": "object", "properties": {}}))
    schema = choices[0] if len(choices) == 1 else {"type": "object", "anyOf": choices}
    return {**schema, "$defs": definitions} if definitions else schema


def _action(name: str, schema: JsonFields) -> JsonObject:
    return {
        "type": "object",
        "properties": {"tool": {"type": "string", "enum": [name]}, "arguments": dict(schema)},
        "required": ["tool", "arguments"],
        "additionalProperties": False,
    }


def _with_references_moved(value: object, root: str) -> Any:
    if isinstance(value, list):
        return [_with_references_moved(item, root) for item in value]
    if not isinstance(value, Mapping):
        return value
    moved = {key: _with_references_moved(part, root) for key, part in value.items()}
    reference = value.get("$ref")
    if isinstance(reference, str) and reference.startswith("#"):
        moved["$ref"] = root + reference[1:].rstrip("/")
    return moved


def response_formats(
    tools: Sequence[JsonFields], answer: JsonFields | None = None, *, has_to_call: bool = False
) -> list[JsonObject | None]:
    """Return the response formats to try, best first. None means plain prompting.

    Without tools, there is only the final answer. ``json_object`` is then skipped unless the answer is typed,
    because servers require the word JSON in the prompt, and only the instructions for tools or for a typed
    answer have this word.
    """
    schema = {"name": "action", "schema": action_schema(tools, answer, has_to_call=has_to_call)}
    second = {"type": "json_object"} if tools or answer else None
    return [{"type": "json_schema", "json_schema": schema}, second, None]


def write_action(message: JsonFields) -> str:
    """Write an assistant message as an action; several calls on separate lines."""
    text = text_of(message.get("content") or "")
    calls = message.get("tool_calls") or ()
    if not calls:
        return _action_text(FINAL, {ANSWER: text})
    functions = [call["function"] for call in calls]
    lines = [_action_text(function["name"], _parsed(function["arguments"])) for function in functions]
    return "\n".join([text, *lines] if text.strip() else lines)


def _action_text(tool: str, arguments: object) -> str:
    return json.dumps({"tool": tool, "arguments": arguments}, ensure_ascii=False)


def _parsed(arguments: object) -> Any:
    try:
        return read_json(arguments) if isinstance(arguments, str) else arguments
    except ValueError:
        return {}


class JsonReader:
    """Converts a streamed action to ordinary deltas. Pass the text to `feed`, then call `finish`.

    Text that is not an action is the answer, and is streamed.

    Args:
        typed: Whether the answer is typed, and therefore consists of the final answer's JSON arguments.
    """

    def __init__(self, tools: Sequence[JsonFields], *, typed: bool = False) -> None:
        self._answer_of = _as_json if typed else _answer_of
        self._answer_begun = _NEVER if typed else _ANSWER_BEGUN
        self._schemas = schemas_of(tools)
        self._prose = TextCalls(tools, {FINAL: _FINAL_SCHEMA})
        self._text = ""  # text not yet classified or, in an answer, not yet decoded
        self._state = "start"  # "start", then "action" (then "answer", "ended") or "prose"

    def feed(self, text: str) -> Delta:
        """Add text; return the text that is certainly part of the final answer."""
        self._text += text
        if self._state == "start":
            self._begin()
        if self._state == "prose":
            held, self._text = self._text, ""
            return Delta(text=self._prose.feed(held))
        if self._state == "action":
            begun = self._answer_begun.match(self._text)
            if begun is not None:
                self._state, self._text = "answer", self._text[begun.end() :]
        return Delta(text=self._decoded() if self._state == "answer" else "")

    def _begin(self) -> None:
        action = _ACTION.match(self._text)
        if action is not None:
            self._state, self._text = "action", self._text[action.end() :]
        elif not _ACTION_BEGUN.fullmatch(self._text):
            self._state = "prose"

    def _decoded(self) -> str:
        """Decode the next piece of the answer's JSON string."""
        pieces = _PIECES.match(self._text)
        end = pieces.end() if pieces else 0
        if self._text.startswith('"', end):
            self._state = "ended"
        decoded, self._text = _ESCAPE.sub(_unescaped, self._text[:end]), self._text[end:]
        return decoded

    def finish(self, *, is_cut: bool = False) -> Delta:
        """Return the rest at the end of the text."""
        text, self._text = self._text, ""
        if self._state == "action":
            return self._read_action(text, is_cut)
        if self._state in ("answer", "ended"):
            return Delta()
        prose = self._prose.feed(text)
        actions, rest = self._prose.finish(is_cut=is_cut)
        answers = [self._answer_of(call.arguments) for call in actions if call.name == FINAL]
        calls = [(call.name, call.arguments) for call in actions if call.name != FINAL]
        return _calls_delta(calls, prose + rest) if calls else Delta(text=prose + "".join([rest, *answers]))

    def _read_action(self, text: str, is_cut: bool) -> Delta:
        """Read a text that begins with a JSON object: actions, up to the first other text, or an answer."""
        calls: list[tuple[str, Any]] = []
        position = 0
        while text.startswith("{", position):
            end = end_of_json(text, position)
            named = self._as_actions(text[position:end])
            if end is None or named is None:
                break
            final = next((arguments for name, arguments in named if name == FINAL), None)
            if final is not None and not calls and len(named) == 1:
                return Delta(text=self._answer_of(final))
            calls += [(name, arguments) for name, arguments in named if name != FINAL]
            if final is not None:
                break  # ignore a final answer that was written before the result of a call
            position = end + len(text[end:]) - len(text[end:].lstrip(" \t\r\n;,"))
        if calls:
            return _calls_delta(calls)
        begun = _CALL_BEGUN.match(text)
        if begun is not None and begun[1] != FINAL and (is_cut or begun[1] in self._schemas):
            return _calls_delta([(begun[1], text[begun.end() :])])  # the loop reports the error to the model
        return Delta(tool_calls=(ToolCallDelta(0, None, "unknown", text),)) if is_cut else Delta(text=text)

    def _as_actions(self, text: str) -> list[tuple[str, Any]] | None:
        try:
            items = items_in(_unwrapped(loads_strictly(text)))
        except ValueError:
            return None
        named = [self._as_action(item) for item in items]
        actions = [action for action in named if action is not None]
        return actions if actions and len(actions) == len(named) else None

    def _as_action(self, value: object) -> tuple[str, Any] | None:
        """Return name and arguments; the name may be unknown if the value is clearly an action."""
        inner = value.get("function") if isinstance(value, Mapping) else None
        value = inner if isinstance(inner, Mapping) else value
        if not isinstance(value, Mapping):
            return None
        name_key = next((key for key in ("tool", *NAME_KEYS) if isinstance(value.get(key), str)), None)
        arguments_key = next((key for key in ARGUMENT_KEYS if key in value), None)
        if name_key is None:
            name, arguments = next(iter(value.items()), ("", None))
            return (name, arguments) if len(value) == 1 and name in (*self._schemas, FINAL) else None
        name = value[name_key]
        if name_key != "tool" and arguments_key is None and name not in (*self._schemas, FINAL):
            return None
        others = {key: field for key, field in value.items() if key not in (*NAME_KEYS, *OTHER_KEYS)}
        return name, value[arguments_key] if arguments_key is not None else others


def _unwrapped(value: Any) -> Any:
    """Return the list of actions that a model has wrapped in an object; other values unchanged."""
    inner = next(iter(value.values())) if isinstance(value, Mapping) and len(value) == 1 else None
    return inner if isinstance(inner, list) and _LIST_KEYS & set(value) else value


def _calls_delta(calls: Sequence[tuple[str, Any]], text: str = "") -> Delta:
    return Delta(text, tool_calls=tuple(ToolCallDelta(i, None, *call) for i, call in enumerate(calls)))


def _answer_of(arguments: object) -> str:
    """Return the text of a final answer, even with wrong argument names."""
    if isinstance(arguments, Mapping):
        if ANSWER in arguments or len(arguments) == 1:
            return _answer_of(arguments.get(ANSWER, next(iter(arguments.values()))))
        return json.dumps(arguments, ensure_ascii=False) if arguments else ""
    if arguments is None or isinstance(arguments, str):
        return arguments or ""
    return json.dumps(arguments, ensure_ascii=False)


def _as_json(arguments: object) -> str:
    return json.dumps(arguments, ensure_ascii=False)


def _unescaped(match: re.Match[str]) -> str:
    code, character = match.groups()
    return chr(int(code, 16)) if code else _ESCAPED.get(character, match.group())

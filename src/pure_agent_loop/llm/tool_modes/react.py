"""ReAct text format: tools in the prompt, calls and the final answer in plain text. Pure: no I/O.

    Thought: I need the weather.
    Action: get_weather
    Action Input: {"city": "Oslo"}
    Observation: rain                 (inserted by the framework)
    Final Answer: Take an umbrella.

Format: Yao et al., "ReAct: Synergizing Reasoning and Acting in Language Models", arXiv:2210.03629.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Any

from pure_agent_loop.llm.extra import MESSAGE_FIELDS
from pure_agent_loop.llm.messages import Message, joined_content, text_of
from pure_agent_loop.llm.response import split_unopened
from pure_agent_loop.llm.tool_modes.forms import ACTION, ANSWER, INPUT, OBSERVATION, THOUGHT
from pure_agent_loop.llm.tool_modes.recover import (
    TextCalls,
    end_of_json,
    find_calls,
    only_argument,
    python_arguments,
    schemas_of,
    value_in_line,
)
from pure_agent_loop.llm.values import Delta, JsonFields, JsonObject, ToolCall, ToolCallDelta
from pure_agent_loop.support.lazy import lazy_pattern

STOP = ["\nObservation:", "\n观察："]  # only at the start of a line, because an answer may contain the word
_NO_ACTION = lazy_pattern(r"(?:none|no action|n/?a|无|不需要|没有|final[ _]answer|finish|-)\W*", re.I)
_CALL = lazy_pattern(r"([\w.-]+)\s*[\(\[](.*)[\)\]]\s*", re.S)
_FENCE = lazy_pattern(r"\A```[a-z_]*\s*\n?(.*?)\n?\s*```", re.S)
_NAME = lazy_pattern(r"[\w.-]+")
_MARKER_CHARS = 36  # maximum length of a marker; a shorter last line may still become one


_MARKERS = [marker.in_line for marker in (ACTION, ANSWER, OBSERVATION, THOUGHT)]


def describe_tools(tools: Sequence[JsonFields]) -> str:
    """Describe the tools for a prompt: names, descriptions and JSON Schemas of the arguments."""
    lines = []
    for tool in tools:
        function = tool["function"]
        parameters = function.get("parameters") or {}
        required = ", ".join(parameters.get("required") or ()) or "-"
        lines.append(f"- {function['name']}: {function.get('description') or ''}")
        lines.append(f"  Arguments: {_json(parameters.get('properties') or {})} Required: {required}")
        lines += [
            f"  Example: {question} -> {_json(dict(arguments))}"
            for question, arguments in function.get("examples") or _made_examples(parameters)
        ]
        lines += [
            f"  {key}: {_json(parameters[key])}" for key in ("$defs", "definitions") if key in parameters
        ]
    return "\n".join(lines)


def _made_examples(parameters: JsonFields) -> list[tuple[str, JsonObject]]:
    """Return an example of the arguments if the schema has an example value for each required argument."""
    properties = parameters.get("properties") or {}
    values: JsonObject = {}
    for name in parameters.get("required") or ():
        examples = (properties.get(name) or {}).get("examples")
        if not isinstance(examples, list) or not examples:
            return []
        values[name] = examples[0]
    return [("...", values)] if values else []


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def write_history(
    messages: Sequence[Message], instructions: str, write: Callable[[Message], str]
) -> list[Message]:
    """Build a history in which every call and result is text. The given messages are not changed.

    Args:
        instructions: Text to append to the system message, or to use as one if there is none; may be empty.
    """
    out: list[Message] = []
    systems: list[Any] = []
    for message in messages:
        new = _as_text(message, write)
        if new["role"] == "system":
            if new["content"] in systems:
                continue  # a duplicate
            systems.append(new["content"])
        if out and out[-1]["role"] == new["role"]:  # roles must alternate
            out[-1] = {**out[-1], "content": joined_content(out[-1]["content"], new["content"], "\n")}
        elif new["content"]:
            out.append(new)
    if instructions and out and out[0]["role"] == "system":
        out[0] = {**out[0], "content": joined_content(out[0]["content"], instructions, "\n\n")}
    elif instructions:
        out.insert(0, {"role": "system", "content": instructions})
    return out


def _as_text(message: Message, write: Callable[[Message], str]) -> Message:
    role, content = message["role"], message.get("content") or ""
    if role in ("tool", "function"):
        return {"role": "user", "content": joined_content("Observation:", content, " ")}
    if role == "assistant":
        rest = {name: field for name, field in message.items() if name not in MESSAGE_FIELDS}
        return {"role": role, "content": write(message), **rest}
    return {**message, "role": "system" if role == "developer" else role, "content": content}


def write_react(message: JsonFields) -> str:
    """Write an assistant message in the ReAct format."""
    content = text_of(message.get("content") or "")
    calls = message.get("tool_calls") or ()
    if not calls:
        return f"Final Answer: {content}"
    lines = [f"Thought: {content}"] if content.strip() else []
    for call in calls:
        function = call["function"]
        lines += [f"Action: {function['name']}", f"Action Input: {function['arguments']}"]
    return "\n".join(lines)


def write_words(message: JsonFields) -> str:
    """Write an assistant message as its text and calls, without a special format."""
    content = text_of(message.get("content") or "")
    functions = [call["function"] for call in message.get("tool_calls") or ()]
    lines = [content] if content.strip() else []
    return "\n".join([*lines, *(f"{function['name']}({function['arguments']})" for function in functions)])


class ReactReader:
    """Converts a streamed ReAct response to ordinary deltas. Pass the text to `feed`, then call `finish`.

    Thoughts before a call become the response's text; thoughts before the final answer become reasoning. Only
    the first action is used, because later text was written without the result of that action. A response in
    any other format is the answer; it is streamed once its first paragraph has ended without a marker.
    """

    def __init__(self, tools: Sequence[JsonFields]) -> None:
        self._schemas = schemas_of(tools)
        self._held = ""
        self._state = "start"  # "start", then "answer" or "prose" (then "answer" or "action")
        self._prose = TextCalls(tools)
        self._is_in_line = False  # True if the start of the current line has already been streamed

    def feed(self, text: str) -> Delta:
        """Add text; return the text that is certainly part of the final answer."""
        if self._state == "answer":
            return Delta(text=text)
        self._held += text
        if self._state == "start":
            paragraph, end, _ = self._held.lstrip().partition("\n\n")
            if not end or any(marker.search(paragraph) for marker in _MARKERS):
                return self._look_for_answer()
            self._state = "prose"
        return Delta(text=self._lines(is_final=False))

    def _look_for_answer(self) -> Delta:
        marker = ANSWER.in_line.search(self._held)
        if marker is None or not self._held[marker.end() :].strip():
            return Delta()  # white space alone is not an answer
        if self._action_in(self._held[: marker.start()]) is not None:
            return Delta()
        self._state = "answer"
        return Delta(self._held[marker.end() :].lstrip(), _thought(self._held[: marker.start()]))

    def _lines(self, *, is_final: bool) -> str:
        """Return the text to stream from a response without markers: all but a possible partial marker."""
        shown = ""
        while self._state == "prose" and self._held:
            line, newline, rest = self._held.partition("\n")
            is_whole = bool(newline) or is_final
            answer = None if self._is_in_line else ANSWER.in_line.match(line)
            action = None if self._is_in_line else ACTION.in_line.match(line)
            if answer is not None and (is_whole or line[answer.end() :].strip()):
                shown += self._prose.held + self._held[answer.end() :].lstrip(" \t")
                self._state, self._held = "answer", ""
            elif action is not None and is_whole and self._is_action(action, line):
                self._state = "action"
            elif not is_whole and not self._is_in_line and (answer or action or len(line) < _MARKER_CHARS):
                break
            else:
                shown += self._prose.feed(line + newline)
                self._held, self._is_in_line = rest, not newline
        return shown

    def finish(self, *, is_cut: bool = False) -> Delta:
        """Return the rest at the end of the text: a call, or an answer without its marker."""
        if self._state == "answer":
            return Delta()
        if self._state == "start":
            return self._finish_start(is_cut)
        shown = self._lines(is_final=True)
        if self._state == "answer":
            return Delta(shown)
        calls, rest = self._prose.finish(is_cut=is_cut)
        if calls:
            return Delta(shown + rest, tool_calls=(_first(calls),))
        action = self._action_in(self._held)
        return Delta(shown + rest, tool_calls=(self._call(action, self._held, is_cut),) if action else ())

    def _finish_start(self, is_cut: bool) -> Delta:
        held, thinking = split_unopened(self._held)
        action = self._action_in(held)
        if action is not None:
            call = self._call(action, held, is_cut)
            return Delta(_thought(held[: action.start()]), thinking, (call,))
        calls, rest = find_calls(held, self._schemas, is_cut=is_cut)
        if calls:  # the response has another format
            return Delta(_thought(rest), thinking, (_first(calls),))
        answer = ANSWER.in_line.search(held)
        if answer is not None:
            return Delta(held[answer.end() :].strip(), thinking + _thought(held[: answer.start()]))
        return Delta(_thought(held) if THOUGHT.in_line.search(held) else held, thinking)

    def _action_in(self, text: str) -> re.Match[str] | None:
        """Return the first action in a string."""
        return next((match for match in ACTION.in_line.finditer(text) if self._is_action(match, text)), None)

    def _is_action(self, action: re.Match[str], text: str) -> bool:
        """Return False for ``Action: None``, and for prose that happens to begin with the marker."""
        name, raw_input = _name_and_input(action, text)
        if not name or _NO_ACTION.fullmatch(name):
            return False
        return (
            raw_input is not None
            or name.startswith("{")
            or bool(self._tool_in(name) or _NAME.fullmatch(name))
        )

    def _tool_in(self, name: str) -> str | None:
        """Return the only tool that a line names, possibly in a sentence."""
        if name in self._schemas:
            return name
        names = {word.rstrip(".") for word in _NAME.findall(name)} & self._schemas.keys()
        return names.pop() if len(names) == 1 else None

    def _call(self, action: re.Match[str], text: str, is_cut: bool) -> ToolCallDelta:
        name, raw_input = _name_and_input(action, text)
        if name.startswith("{"):
            calls, _ = find_calls(name, self._schemas, is_cut=is_cut)
            if calls:
                return _first(calls)
        inline = _CALL.fullmatch(name)
        if raw_input is None and inline is not None:  # Action: search("tea")  or  search[tea]
            return ToolCallDelta(0, None, inline[1], self._in_brackets(inline[1], inline[2]))
        known = self._tool_in(name) or name
        return ToolCallDelta(0, None, known, self._arguments(known, raw_input or "", is_cut))

    def _arguments(self, name: str, body: str, is_cut: bool) -> Any:
        """Return JSON text unchanged; other text as the argument of a tool that has only one."""
        fenced = _FENCE.match(body.lstrip())
        body = (fenced[1] if fenced else body).strip()
        if body.startswith("{"):
            end = end_of_json(body, 0)
            return body if end is None else body[:end]  # ignore trailing text
        ends = [match.start() for marker in _MARKERS if (match := marker.search(body))]
        body = body[: min(ends, default=len(body))].strip()
        only = only_argument(self._schemas.get(name, {}))
        if only is None or not body or _NO_ACTION.fullmatch(body) or is_cut:
            return "" if _NO_ACTION.fullmatch(body) and only is None else body
        return {only: value_in_line(body)}

    def _in_brackets(self, name: str, body: str) -> Any:
        """Parse the text in brackets: ``"tea"``, ``tea``, ``query="tea"``, or JSON."""
        if body.lstrip().startswith("{"):
            return body
        names = list(self._schemas.get(name, {}).get("properties") or ())
        arguments = python_arguments(f"f({body})", names)
        return self._arguments(name, body, is_cut=False) if arguments is None else arguments


def _name_and_input(action: re.Match[str], text: str) -> tuple[str, str | None]:
    """Return the text after ``Action:``, on its line or the next, and the text after ``Action Input:``."""
    after = text[action.end() :]
    markers = _MARKERS[:3]
    ends = [match.start() for marker in markers if (match := marker.search(after))]
    marker = INPUT.at.search(after, 0, min(ends, default=len(after)))
    name = (after[: marker.start()] if marker else after[: min(ends, default=len(after))]).strip()
    if not name.startswith("{"):
        name = name.partition("\n")[0]
    return name.strip(" \t*`\"'[]") if _CALL.fullmatch(name) is None else name, marker and after[
        marker.end() :
    ]


def _first(calls: Sequence[ToolCall]) -> ToolCallDelta:
    return ToolCallDelta(0, None, calls[0].name, calls[0].arguments)


def _thought(text: str) -> str:
    return THOUGHT.in_line.sub("", text).strip()

"""The ReAct text format: tools in the prompt, calls and the final answer in plain text. Pure: no I/O.

    Thought: I need the weather.
    Action: get_weather
    Action Input: {"city": "Oslo"}
    Observation: rain                 (this line is ours)
    Final Answer: Take an umbrella.

Format: Yao et al., "ReAct: Synergizing Reasoning and Acting in Language Models", arXiv:2210.03629.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pure_agent_loop.llm.messages import joined_content, text_of
from pure_agent_loop.llm.think import split_unopened
from pure_agent_loop.llm.tool_modes.json_check import end_of_json
from pure_agent_loop.llm.tool_modes.recover import TextCalls, find_calls, schemas_of
from pure_agent_loop.llm.values import Delta, ToolCall, ToolCallDelta
from pure_agent_loop.support.lazy import lazy_pattern

Message = dict[str, Any]
STOP = ["\nObservation:", "\n观察："]  # at a line's start: an answer may hold the word


def _marker(words: str, start: str = r"^[ \t#>]{0,8}") -> re.Pattern[str]:
    """A word with a colon behind it, perhaps printed bold."""
    bold = r"(?P<bold>\*{1,2})?"
    end = r"[ \t]{0,2}(?(bold)\*{0,2})[ \t]{0,2}[:：](?(bold)\*{0,2})"
    return lazy_pattern(rf"{start}{bold}(?:{words}){end}[ \t]*", re.I | re.M)


_ACTION = _marker("Action|行动|动作|操作")
_INPUT = _marker("Action[ _]Input|行动输入|动作输入|操作输入|输入", start="")
_ANSWER = _marker("Final[ _]Answer|最终答案|最终回答")
_OBSERVATION = _marker("Observation|观察|观察结果")
_THOUGHT = _marker("Thought|思考|想法")
_MARKERS = (_ACTION, _ANSWER, _OBSERVATION, _THOUGHT)
_NO_ACTION = lazy_pattern(r"(?:none|no action|n/?a|无|不需要|没有|final[ _]answer|finish|-)\W*", re.I)
_CALL = lazy_pattern(r"([\w.-]+)\s*[\(\[](.*)[\)\]]\s*", re.S)
_FENCE = lazy_pattern(r"\A```[a-z_]*\s*\n?(.*?)\n?\s*```", re.S)
_NAME = lazy_pattern(r"[\w.-]+")
_MARKER_CHARS = 36  # no marker is longer; a shorter last line may still become one


def describe_tools(tools: Sequence[Mapping[str, Any]]) -> str:
    """The tools as lines of a prompt: name, description, JSON Schema of the arguments."""
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


def _made_examples(parameters: Mapping[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """An example of the arguments, where the schema itself gives a value for each that is required."""
    properties = parameters.get("properties") or {}
    values: dict[str, Any] = {}
    for name in parameters.get("required") or ():
        given = (properties.get(name) or {}).get("examples")
        if not isinstance(given, list) or not given:
            return []
        values[name] = given[0]
    return [("...", values)] if values else []


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def write_history(
    messages: Sequence[Message], instructions: str, write: Callable[[Message], str]
) -> list[Message]:
    """A history in which every call and result is text. The messages given are not changed.

    Args:
        messages: The history in wire form.
        instructions: Put behind the system message, or in front where there is none; may be empty.
        write: How a message of the assistant is written.
    """
    out: list[Message] = []
    systems: list[Any] = []
    for message in messages:
        new = _as_text(message, write)
        if new["role"] == "system":
            if new["content"] in systems:
                continue  # said already
            systems.append(new["content"])
        if out and out[-1]["role"] == new["role"]:  # sides must take turns
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
        return {"role": role, "content": write(message)}
    return {**message, "role": "system" if role == "developer" else role, "content": content}


def write_react(message: Mapping[str, Any]) -> str:
    """A message of the assistant in the format."""
    content = text_of(message.get("content") or "")
    calls = message.get("tool_calls") or ()
    if not calls:
        return f"Final Answer: {content}"
    lines = [f"Thought: {content}"] if content.strip() else []
    for call in calls:
        function = call["function"]
        lines += [f"Action: {function['name']}", f"Action Input: {function['arguments']}"]
    return "\n".join(lines)


def write_words(message: Mapping[str, Any]) -> str:
    """A message of the assistant without any format: what it said, and which calls it made."""
    content = text_of(message.get("content") or "")
    calls = [each["function"] for each in message.get("tool_calls") or ()]
    lines = [content] if content.strip() else []
    return "\n".join([*lines, *(f"{each['name']}({each['arguments']})" for each in calls)])


class ReactReader:
    """Reads a streamed answer in the format back into ordinary deltas. `feed` it, then `finish`.

    Thoughts before a call are its text; thoughts before the final answer are reasoning. Of several
    actions only the first counts: what follows it was made up. An answer that does not keep to the format
    is taken as it is: without ``Thought:`` in front, it streams from its second paragraph on.

    Args:
        tools: The schemas that were offered.
    """

    def __init__(self, tools: Sequence[Mapping[str, Any]]) -> None:
        self._schemas = schemas_of(tools)
        self._held = ""
        self._state = "start"  # -> answer, or -> prose (-> answer or action)
        self._prose = TextCalls(tools)
        self._is_in_line = False  # the beginning of the line was shown

    def feed(self, text: str) -> Delta:
        """Take in more text; return what is surely part of the final answer."""
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
        found = _ANSWER.search(self._held)
        if found is None or not self._held[found.end() :].strip():
            return Delta()  # white space is no answer yet
        if self._action_in(self._held[: found.start()]) is not None:
            return Delta()
        self._state = "answer"
        return Delta(self._held[found.end() :].lstrip(), _thought(self._held[: found.start()]))

    def _lines(self, *, is_final: bool) -> str:
        """What of an answer without markers can be shown: all but a line that may become a marker."""
        shown = ""
        while self._state == "prose" and self._held:
            line, newline, rest = self._held.partition("\n")
            is_whole = bool(newline) or is_final
            answer = None if self._is_in_line else _ANSWER.match(line)
            action = None if self._is_in_line else _ACTION.match(line)
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
        """What is left once no more text comes: a call, or an answer without its marker.

        Args:
            is_cut: The answer ended at a limit.
        """
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
        if calls:  # written in another way
            return Delta(_thought(rest), thinking, (_first(calls),))
        answer = _ANSWER.search(held)
        if answer is not None:
            return Delta(held[answer.end() :].strip(), thinking + _thought(held[: answer.start()]))
        return Delta(_thought(held) if _THOUGHT.search(held) else held, thinking)

    def _action_in(self, text: str) -> re.Match[str] | None:
        """The first action of a text."""
        return next((each for each in _ACTION.finditer(text) if self._is_action(each, text)), None)

    def _is_action(self, action: re.Match[str], text: str) -> bool:
        """False for ``Action: None``, and for a line of an ordinary answer that happens to begin so."""
        name, given = _named(action, text)
        if not name or _NO_ACTION.fullmatch(name):
            return False
        return given is not None or name.startswith("{") or bool(self._tool_in(name) or _NAME.fullmatch(name))

    def _tool_in(self, name: str) -> str | None:
        """The one tool a line names, be it in a sentence."""
        if name in self._schemas:
            return name
        found = {word for each in _NAME.findall(name) if (word := each.rstrip(".")) in self._schemas}
        return found.pop() if len(found) == 1 else None

    def _call(self, action: re.Match[str], text: str, is_cut: bool) -> ToolCallDelta:
        name, given = _named(action, text)
        if name.startswith("{"):
            calls, _ = find_calls(name, self._schemas, is_cut=is_cut)
            if calls:
                return _first(calls)
        inline = _CALL.fullmatch(name)
        if given is None and inline is not None:  # Action: search("tea")  or  search[tea]
            arguments = self._in_brackets(inline[1], inline[2])
            return ToolCallDelta(0, None, inline[1], arguments)
        known = self._tool_in(name) or name
        return ToolCallDelta(0, None, known, self._arguments(known, given or "", is_cut))

    def _arguments(self, name: str, body: str, is_cut: bool) -> Any:
        """JSON text as it is; anything else as the one argument of a tool that has just one."""
        fenced = _FENCE.match(body.lstrip())
        body = (fenced[1] if fenced else body).strip()
        if body.startswith("{"):
            end = end_of_json(body, 0)
            return body if end is None else body[:end]  # what follows is not part of it
        ends = [found.start() for marker in _MARKERS if (found := marker.search(body))]
        body = body[: min(ends, default=len(body))].strip()
        only = self._only_argument(name)
        if only is None or not body or _NO_ACTION.fullmatch(body) or is_cut:
            return "" if _NO_ACTION.fullmatch(body) and only is None else body
        try:
            return {only: json.loads(body)}
        except (ValueError, RecursionError):
            return {only: body.strip("\"'`")}

    def _only_argument(self, name: str) -> str | None:
        schema = self._schemas.get(name, {})
        names = list(schema.get("required") or schema.get("properties") or ())
        return names[0] if len(names) == 1 else None

    def _in_brackets(self, name: str, body: str) -> Any:
        """``"tea"``, ``tea``, ``query="tea"``, or JSON."""
        if body.lstrip().startswith("{"):
            return body
        try:
            parsed = ast.parse(f"f({body})", mode="eval").body
            assert isinstance(parsed, ast.Call)
            names = list(self._schemas.get(name, {}).get("properties") or ())
            given = dict(zip(names, map(ast.literal_eval, parsed.args), strict=False))
            given |= {each.arg: ast.literal_eval(each.value) for each in parsed.keywords if each.arg}
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            return self._arguments(name, body, is_cut=False)
        return given if len(given) == len(parsed.args) + len(parsed.keywords) else body


def _named(action: re.Match[str], text: str) -> tuple[str, str | None]:
    """What stands behind ``Action:``, on its line or the next one, and what behind ``Action Input:``."""
    after = text[action.end() :]
    ends = [found.start() for marker in (_ACTION, _ANSWER, _OBSERVATION) if (found := marker.search(after))]
    given = _INPUT.search(after, 0, min(ends, default=len(after)))
    name = (after[: given.start()] if given else after[: min(ends, default=len(after))]).strip()
    if not name.startswith("{"):
        name = name.partition("\n")[0]
    return name.strip(" \t*`\"'[]") if _CALL.fullmatch(name) is None else name, given and after[given.end() :]


def _first(calls: Sequence[ToolCall]) -> ToolCallDelta:
    return ToolCallDelta(0, None, calls[0].name, calls[0].arguments)


def _thought(text: str) -> str:
    return _THOUGHT.sub("", text).strip()

"""Rules by which strict servers reject requests.

1.  A message is an object with a known role and, apart from ``role`` and ``content``, only the keys of
    that role.
2.  Only the first message may be a system (or developer) message.
3.  Content is text or a list of typed parts; only an assistant message with calls may have no content.
4.  Calls have a string id that is neither empty nor used before, the type ``function``, a name of
    letters, digits, ``_`` and ``-``, and as arguments the text of a JSON object without NaN, infinities
    or duplicate keys.
5.  The results directly follow the message with the calls, exactly one per call, in the same order.
6.  No text has a lone surrogate, and no number is NaN or infinite.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_COMMON = frozenset({"role", "content", "name"})
_KEYS: dict[str, frozenset[str]] = {
    "system": _COMMON,
    "developer": _COMMON,
    "user": _COMMON,
    "assistant": _COMMON | {"tool_calls", "refusal", "audio"},
    "tool": _COMMON | {"tool_call_id"},
}


def check_history(messages: Sequence[Any], *, extra_keys: Iterable[str] = ()) -> list[str]:
    """Check a history as the strictest servers do.

    Args:
        messages: Chat messages in the form that is sent to a server.
        extra_keys: Keys of messages and calls that this server accepts in addition to the standard ones, such
            as ``reasoning_content``.

    Returns:
        One sentence per violation; empty if the history is valid.
    """
    return _HistoryCheck(frozenset(extra_keys)).run(messages)


def check_request(body: Any, *, extra_keys: Iterable[str] = ()) -> list[str]:
    """Check the body of a chat-completions request: its history, its model name and its tools.

    Args:
        body: The parsed JSON.
        extra_keys: See `check_history`.

    Returns:
        One sentence per violation; empty if the request is valid.
    """
    if not isinstance(body, Mapping):
        return ["the body is not a JSON object"]
    problems = [] if isinstance(body.get("model"), str) and body["model"] else ["'model' is not a string"]
    messages = body.get("messages")
    if isinstance(messages, list) and messages:
        problems += check_history(messages, extra_keys=extra_keys)
    else:
        problems.append("'messages' is not a list with at least one message")
    rest = {key: value for key, value in body.items() if key != "messages"}
    return [*problems, *_check_tools(body.get("tools")), *_bad_values(rest, "body")]


def loads_exactly(text: str | bytes) -> Any:
    """Parse JSON as strict servers do: no NaN, no infinities, no duplicate keys.

    Raises:
        ValueError: The text is not such JSON.
        RecursionError: The text is nested too deeply.
    """
    return json.loads(text, parse_constant=_refuse, object_pairs_hook=_unique)


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError("duplicate key")
    return result


class _HistoryCheck:
    """Checks a history in one pass; see the rules in the module's docstring."""

    def __init__(self, extra_keys: frozenset[str]) -> None:
        self._extra = extra_keys
        self._problems: list[str] = []
        self._used: set[str] = set()
        self._open: list[str] = []
        self._where = ""

    def run(self, messages: Sequence[Any]) -> list[str]:
        for number, message in enumerate(messages):
            self._where = f"messages[{number}]"
            self._message(message, number)
        self._where = "the end"
        self._close()
        return self._problems

    def _add(self, problem: str) -> None:
        self._problems.append(f"{self._where}: {problem}")

    def _message(self, message: Any, number: int) -> None:
        role = message.get("role") if isinstance(message, Mapping) else None
        if not isinstance(role, str) or role not in _KEYS:
            self._add(f"not an object with a known role: {message!r:.80}")
            return
        self._keys(message, _KEYS[role] | self._extra, "message")
        if role == "tool":
            self._result(message)
        else:
            self._close()
        if role in ("system", "developer") and number > 0:
            self._add(f"a {role} message that is not the first")
        if role == "assistant" and "tool_calls" in message:
            self._calls(message["tool_calls"])
        self._content(message, role)
        self._problems += _bad_values(message, self._where)

    def _keys(self, mapping: Mapping[str, Any], known: Iterable[str], kind: str) -> None:
        for key in mapping:
            if key not in known:
                self._add(f"unknown key {key!r} in a {kind}")

    def _content(self, message: Mapping[str, Any], role: str) -> None:
        content = message.get("content")
        if content is None and role == "assistant" and message.get("tool_calls"):
            return
        if isinstance(content, list):
            if not content or not all(
                isinstance(p, dict) and isinstance(p.get("type"), str) for p in content
            ):
                self._add("content is not a list of typed parts")
        elif not isinstance(content, str):
            self._add(f"content of a {role} message is {type(content).__name__}, not text")

    def _calls(self, calls: Any) -> None:
        if not isinstance(calls, list) or not calls:
            self._add("tool_calls is not a list with at least one call")
            return
        for call in calls:
            self._call(call)

    def _call(self, call: Any) -> None:
        function = call.get("function") if isinstance(call, Mapping) else None
        if not isinstance(function, Mapping):
            self._add(f"a call is not an object with a function: {call!r:.80}")
            return
        self._keys(call, {"id", "type", "function"} | self._extra, "call")
        self._keys(function, {"name", "arguments"} | self._extra, "function")
        if call.get("type") != "function":
            self._add(f"a call has the type {call.get('type')!r}, not 'function'")
        if not _is_name(function.get("name")):
            self._add(f"a call has the name {function.get('name')!r}")
        self._call_id(call.get("id"))
        self._arguments(function.get("arguments"))

    def _call_id(self, call_id: Any) -> None:
        if not isinstance(call_id, str) or not call_id:
            self._add(f"a call has the id {call_id!r}")
            return
        if call_id in self._used:
            self._add(f"the call id {call_id!r} is used twice")
        self._used.add(call_id)
        self._open.append(call_id)

    def _arguments(self, text: Any) -> None:
        if not isinstance(text, str):
            self._add(f"arguments are {type(text).__name__}, not a JSON string")
            return
        try:
            value = loads_exactly(text)
        except (ValueError, RecursionError) as error:
            self._add(f"arguments are not JSON ({error}): {text!r:.80}")
            return
        if not isinstance(value, dict):
            self._add(f"arguments are a JSON {type(value).__name__}, not a JSON object")
        self._problems += _bad_values(value, f"{self._where} arguments")

    def _result(self, message: Mapping[str, Any]) -> None:
        call_id = message.get("tool_call_id")
        if not self._open:
            self._add(f"a result for {call_id!r}, but no call is open")
        elif call_id == self._open[0]:
            self._open.pop(0)
        elif call_id in self._open:
            self._add(f"the result for {call_id!r} comes before the one for {self._open[0]!r}")
            self._open.remove(call_id)
        else:
            self._add(f"a result for {call_id!r}, which is not among the open calls {self._open}")

    def _close(self) -> None:
        for call_id in self._open:
            self._add(f"the call {call_id!r} has no result")
        self._open.clear()


def _is_name(name: Any) -> bool:
    return isinstance(name, str) and _NAME.fullmatch(name) is not None


def _check_tools(tools: Any) -> list[str]:
    if tools is None:
        return []
    if not isinstance(tools, list) or not tools:
        return ["'tools' is not a list with at least one tool; leave it out instead"]
    problems: list[str] = []
    seen: set[str] = set()
    for number, tool in enumerate(tools):
        function = tool.get("function") if isinstance(tool, Mapping) else None
        name = function.get("name") if isinstance(function, Mapping) else None
        if not isinstance(function, Mapping) or tool.get("type") != "function" or not _is_name(name):
            problems.append(f"tools[{number}] is not a function with a name of letters, digits, _ and -")
            continue
        if name in seen:
            problems.append(f"tools[{number}]: the name {name!r} is used twice")
        seen.add(str(name))
        if not isinstance(function.get("parameters", {}), Mapping):
            problems.append(f"tools[{number}]: parameters are not a JSON schema object")
    return problems


def _bad_values(value: Any, where: str) -> list[str]:
    """Return the problems of values that strict JSON does not allow."""
    return [f"{where}: {problem}" for problem in dict.fromkeys(_walk(value))]


def _walk(root: Any) -> Iterator[str]:
    # Use a stack instead of recursion, because a history may be nested deeper than Python's recursion limit.
    stack = [root]
    while stack:
        value = stack.pop()
        if isinstance(value, str):
            if not _is_unicode(value):
                yield f"a lone surrogate in {value!r:.60}"
        elif isinstance(value, float) and not math.isfinite(value):
            yield f"the number {value} is not JSON"
        elif isinstance(value, Mapping):
            stack.extend(value.keys())
            stack.extend(value.values())
        elif isinstance(value, (list, tuple)):
            stack.extend(value)


def _is_unicode(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True

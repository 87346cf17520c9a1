"""Where a conversation stands, and its form for a model that knows no tool messages. Pure: no I/O."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pure_agent_loop.llm.arguments import parse_arguments

Message = dict[str, Any]
_NOTICE_MARKS = ("[Notice]", "【提示】")
_LONGEST_RESULT = 4000
_LONGEST_VALUE = 200


def as_mapping(value: Any) -> Mapping[str, Any]:
    """The value, or an empty mapping where something else stands."""
    return value if isinstance(value, Mapping) else {}


@dataclass(frozen=True, slots=True)
class Result:
    """What a tool gave back.

    Args:
        tool: Its name.
        arguments: What it was called with.
        text: What it said.
    """

    tool: str
    arguments: Mapping[str, Any]
    text: str

    @property
    def call(self) -> str:
        """The call in a short form: ``read_file(notes.txt)``."""
        values = ", ".join(_short(value) for value in self.arguments.values())
        return f"{self.tool}({values})"


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}..."


@dataclass(frozen=True, slots=True)
class Turn:
    """The state of a conversation.

    Args:
        question: What the user asked last; notices of the loop are not questions.
        results: The results that came after it.
        answered: True if the assistant has already written something after it.
        before: The arguments of the calls before it, the last ones last.
    """

    question: str
    results: tuple[Result, ...]
    answered: bool
    before: tuple[Mapping[str, Any], ...] = ()


def read_turn(messages: Sequence[Message]) -> Turn:
    """Find the last question and what has happened since."""
    start = max((i for i, m in enumerate(messages) if _is_question(m)), default=-1)
    question = text_of(messages[start]) if start >= 0 else ""
    calls: dict[str, tuple[str, Mapping[str, Any]]] = {}
    results, answered = [], False
    for message in messages[start + 1 :]:
        if message.get("role") == "assistant":
            calls.update(_calls(message))
            answered = bool(text_of(message).strip()) and not message.get("tool_calls")
        elif message.get("role") == "tool":
            name, arguments = calls.get(str(message.get("tool_call_id")), ("tool", {}))
            results.append(Result(name, arguments, text_of(message)))
    before = [arguments for m in messages[: max(start, 0)] for _, arguments in _calls(m).values()]
    return Turn(question, tuple(results), answered, tuple(before))


def _is_question(message: Message) -> bool:
    return message.get("role") == "user" and not text_of(message).lstrip().startswith(_NOTICE_MARKS)


def _calls(message: Message) -> dict[str, tuple[str, Mapping[str, Any]]]:
    found: dict[str, tuple[str, Mapping[str, Any]]] = {}
    for call in message.get("tool_calls") or ():
        function = as_mapping(as_mapping(call).get("function"))
        arguments, _ = parse_arguments(function.get("arguments"))
        found[str(call.get("id"))] = (str(function.get("name") or "tool"), arguments)
    return found


def text_of(message: Message) -> str:
    """The text of a message; pictures and other parts are left out."""
    content = message.get("content")
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else ()
    return "\n".join(str(p.get("text", "")) for p in parts if isinstance(p, dict) and p.get("type") == "text")


def flatten(messages: Sequence[Message]) -> list[Message]:
    """The conversation without calls and tool messages: results become text of the user's side.

    Neighbours of one role are joined, because some templates insist that the sides take turns.
    """
    flat: list[Message] = []
    for message in messages:
        role, text = _plain(message)
        if not text:
            continue
        if flat and flat[-1]["role"] == role:
            flat[-1] = {"role": role, "content": f"{flat[-1]['content']}\n\n{text}"}
        else:
            flat.append({"role": role, "content": text})
    return flat


def _plain(message: Message) -> tuple[str, str]:
    role, text = str(message.get("role")), text_of(message)
    if role == "tool":
        return "user", f"Result: {text[:_LONGEST_RESULT]}"
    if role == "assistant":
        calls = [Result(name, arguments, "").call for name, arguments in _calls(message).values()]
        return role, "\n".join([text, *calls]).strip()
    return ("system" if role == "developer" else role), text


def few_shot(system: str, shots: Sequence[tuple[str, str]], question: str) -> list[Message]:
    """A conversation in which the shots have already happened."""
    messages: list[Message] = [{"role": "system", "content": system}]
    for asked, said in shots:
        messages += [{"role": "user", "content": asked}, {"role": "assistant", "content": said}]
    return [*messages, {"role": "user", "content": question}]

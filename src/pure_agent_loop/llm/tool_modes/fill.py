"""The arguments of a tool that was chosen, constrained by its schema.

A model that is able may write several calls, and values of its own. One that is not writes one call, and what
stands nowhere in what the user said was made up: an argument that may be left out is left out, and another
that is short enough to be a copy is asked for once more, among the pieces that do stand there. Not so an
argument that the tool's own worked examples do not copy either.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pure_agent_loop.llm.arguments import loads_strictly
from pure_agent_loop.llm.messages import Message
from pure_agent_loop.llm.response import CUT_OFF
from pure_agent_loop.llm.tool_modes.ask import Asking
from pure_agent_loop.llm.tool_modes.choose import last_question
from pure_agent_loop.llm.tool_modes.examples import Filled, filled_examples
from pure_agent_loop.prompts import Prompts
from pure_agent_loop.support.lazy import lazy_pattern

LONGEST_PIECE = 8  # words
MOST_PIECES = 400
MOST_CALLS = 8
_LONGEST_COPY = 120
_TEST_TOKENS = 120
_WORD = lazy_pattern(r"[^\W_]+(?:[^\w\s]+[^\W_]+)*|\S")
_NUMBER = lazy_pattern(r"(?<![\w.])-?\d+(?:\.\d+)?(?![\w]|\.\d)")
_EDGES = " \t\r\n.,;:!?\"'()[]，。；：！？“”「」（）"

Arguments = dict[str, Any]


async def fill(
    asking: Asking,
    messages: Sequence[Message],
    tool: Mapping[str, Any],
    prompts: Prompts,
    *,
    is_able: bool,
    several: bool,
    max_tokens: int,
) -> list[Arguments | str]:
    """The arguments of one call, or of several.

    Args:
        asking: Where to ask.
        messages: The conversation.
        tool: Its schema; it may hold ``examples``.
        prompts: The words.
        is_able: What `is_able_model` found.
        several: Whether more than one call may come of it.
        max_tokens: Limit of the answer.

    Returns:
        For each call its arguments; the text itself where it is no JSON, such as one that was cut off.

    Raises:
        LLMError: A request failed.
    """
    function, said = tool["function"], last_question(messages)
    parameters = function.get("parameters") or {}
    if not is_able:
        parameters = _complete(parameters)
    if not parameters.get("properties"):
        return [{}]
    shots = [*filled_examples(prompts), *_own_examples(function, prompts)]
    about = describe(function["name"], function, parameters, prompts)
    lead = _lead(shots, about, said, prompts, several=is_able)
    calls, text = await _ask(asking, lead, parameters, is_able and several, max_tokens)
    if calls is None:
        return [text]
    if is_able:
        return list(calls)
    composed = _composed(function)
    call = _without_made_up(parameters, calls[0], said, composed)
    narrowed = _narrowed(parameters, call, said, composed)
    if narrowed is not None:
        lead += [
            {"role": "assistant", "content": json.dumps(call, ensure_ascii=False)},
            {"role": "user", "content": prompts.fill_again.format(question=said)},
        ]
        [call, *_] = (await _ask(asking, lead, narrowed, False, max_tokens))[0] or [call]
    return [call]


async def is_able_model(asking: Asking, prompts: Prompts) -> bool:
    """Whether a model gets each worked example right that it was not shown the solution of.

    Raises:
        LLMError: A request failed.
    """
    shots = filled_examples(prompts)
    for number, shot in enumerate(shots):
        others = [*shots[:number], *shots[number + 1 :]]
        lead = _lead(others, shot.function, shot.request, prompts, several=True)
        values = {name: {"type": ["string", "number", "boolean"]} for name in shot.calls[0]}
        schema = {"type": "object", "properties": values, "required": list(values)}
        calls, _ = await _ask(asking, lead, schema, True, _TEST_TOKENS)
        if calls != shot.calls:
            return False
    return True


async def _ask(
    asking: Asking, messages: list[Message], parameters: Mapping[str, Any], several: bool, max_tokens: int
) -> tuple[list[Arguments] | None, str]:
    """The calls, or None where the answer is no JSON; and the answer."""
    one: dict[str, Any] = {**parameters, "type": "object", "additionalProperties": False}
    definitions: dict[str, Any] = {key: one.pop(key) for key in ("$defs", "definitions") if key in one}
    schema: dict[str, Any] = (
        {"type": "array", "items": one, "minItems": 1, "maxItems": MOST_CALLS} if several else one
    )
    answer = await asking.ask(messages, {**schema, **definitions}, max_tokens=max_tokens)
    text = answer.content or ""
    if answer.finish_reason in CUT_OFF:
        return None, text
    try:
        value = loads_strictly(text)
    except (ValueError, RecursionError):
        return None, text
    calls = [each for each in (value if isinstance(value, list) else [value]) if isinstance(each, dict)]
    distinct = [call for number, call in enumerate(calls) if call not in calls[:number]]
    return distinct or None, text


def _complete(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The schema; where everything may be left out, one that wants it all."""
    return {**parameters, "required": parameters.get("required") or list(parameters.get("properties") or ())}


def _own_examples(function: Mapping[str, Any], prompts: Prompts) -> list[Filled]:
    about = describe(function["name"], function, function.get("parameters") or {}, prompts)
    given = function.get("examples") or ()
    return [Filled(about, question, [dict(arguments)]) for question, arguments in given]


def _lead(
    shots: Sequence[Filled], about: str, said: str, prompts: Prompts, *, several: bool
) -> list[Message]:
    system = f"{prompts.fill} {prompts.fill_several}" if several else prompts.fill
    lead: list[Message] = [{"role": "system", "content": system}]
    asks = prompts.fill_question.format
    for shot in shots:
        solution: Any = shot.calls if several else shot.calls[0]
        lead += [
            {
                "role": "user",
                "content": asks(function=shot.function, question=shot.request),
            },
            {"role": "assistant", "content": json.dumps(solution, ensure_ascii=False)},
        ]
    return [*lead, {"role": "user", "content": asks(function=about, question=said)}]


def describe(name: str, function: Mapping[str, Any], parameters: Mapping[str, Any], prompts: Prompts) -> str:
    """A tool and its arguments, a line each."""
    lines = [f"{name}: {(function.get('description') or '').strip()}"]
    for argument, schema in (parameters.get("properties") or {}).items():
        about = schema if isinstance(schema, Mapping) else {}
        choices = about.get("enum")
        hint = f" {json.dumps(choices, ensure_ascii=False)}" if choices else ""
        kind = about.get("type", "any")
        if argument not in (parameters.get("required") or ()):
            kind = prompts.fill_optional.format(type=kind)
        lines.append(f"- {argument} ({kind}): {about.get('description') or ''}{hint}")
    return "\n".join(lines)


def _composed(function: Mapping[str, Any]) -> set[str]:
    """The arguments that a worked example does not copy from its question."""
    given = function.get("examples") or ()
    return {
        name
        for question, arguments in given
        for name, value in arguments.items()
        if not _stands_in(value, question)
    }


def _without_made_up(
    parameters: Mapping[str, Any], values: Arguments, said: str, composed: set[str]
) -> Arguments:
    """The values without those that may be left out, could have been said, and were not."""
    needed = {*parameters["required"], *composed}
    return {name: value for name, value in values.items() if name in needed or _stands_in(value, said)}


def _narrowed(
    parameters: Mapping[str, Any], values: Arguments, said: str, composed: set[str]
) -> dict[str, Any] | None:
    """The schema with choices where a value was made up; None where each stands in what was said."""
    properties = {name: each for name, each in parameters["properties"].items() if name in values}
    changed = False
    for name, value in values.items():
        about = properties.get(name)
        if not isinstance(about, Mapping) or _is_chosen(about):
            continue
        if name in composed or _stands_in(value, said):
            properties[name] = {"const": value}
        elif choices := _choices(value, said):
            properties[name], changed = {"enum": choices}, True
    return {**parameters, "properties": properties, "required": list(values)} if changed else None


def _is_chosen(about: Mapping[str, Any]) -> bool:
    """True where the schema itself says what the value may be."""
    return any(key in about for key in ("enum", "const", "format", "pattern", "$ref", "default"))


def _stands_in(value: Any, said: str) -> bool:
    return not _is_piece(value) or _is_said(value, said)


def _is_said(value: Any, said: str) -> bool:
    if isinstance(value, str):
        return bool(value.strip()) and value.casefold() in said.casefold()
    return _is_piece(value) and value in numbers_in(said)


def _is_piece(value: Any) -> bool:
    """True for what a text can hold; truth, lists and objects are no pieces of one."""
    return isinstance(value, (str, int, float)) and not isinstance(value, bool)


def _choices(value: Any, said: str) -> list[Any]:
    """The pieces it could have been taken from; none where it is too long for a copy."""
    if isinstance(value, str):
        return pieces_of(said) if len(value) <= _LONGEST_COPY else []
    return [each for each in numbers_in(said) if isinstance(value, float) or isinstance(each, int)]


def numbers_in(text: str) -> list[int | float]:
    """The numbers that stand in a text."""
    found = _NUMBER.findall(text.replace(",", ""))
    return [float(each) if "." in each else int(each) for each in dict.fromkeys(found)]


def pieces_of(text: str) -> list[str]:
    """Each run of up to eight words of a text, as it stands there."""
    words = [(match.start(), match.end()) for match in _WORD.finditer(text)]
    found: dict[str, None] = {}
    for first, (start, _) in enumerate(words):
        for _, end in words[first : first + LONGEST_PIECE]:
            piece = text[start:end].strip(_EDGES)
            if piece:
                found[piece] = None
    return list(found)[:MOST_PIECES]

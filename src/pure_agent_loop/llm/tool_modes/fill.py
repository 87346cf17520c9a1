"""Send the constrained requests of a choice by likelihood, and fill in the chosen tool's arguments.

An able model may write several calls, with any values. Other models write one call. If one of them writes a
value that does not occur in the question, the value is treated as invented: an optional value is dropped; a
required value that is short is requested again, restricted to pieces of the question. Arguments that the
tool's worked examples do not copy from the question are exempt.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from pure_agent_loop.llm.arguments import loads_strictly
from pure_agent_loop.llm.base import ChatModel
from pure_agent_loop.llm.messages import Message, is_question, text_of
from pure_agent_loop.llm.response import CUT_OFF, LLMResponse
from pure_agent_loop.llm.tool_modes.examples import WorkedRequest, filled_examples
from pure_agent_loop.llm.values import JsonFields, JsonObject, Options, TokenUsage
from pure_agent_loop.prompts import Prompts
from pure_agent_loop.support.lazy import lazy_pattern

MAX_PIECE_WORDS = 8
MAX_PIECES = 400
MAX_CALLS = 8
_MAX_COPY_CHARS = 120
_TEST_TOKENS = 120
_WORD = lazy_pattern(r"[^\W_]+(?:[^\w\s]+[^\W_]+)*|\S")
_NUMBER = lazy_pattern(r"(?<![\w.])-?\d+(?:\.\d+)?(?![\w]|\.\d)")
# Keywords that restrict a value.
_RESTRICTIONS = frozenset({"enum", "const", "format", "pattern", "$ref", "default"})
_EDGES = " \t\r\n.,;:!?\"'()[]，。；：！？“”「」（）"

Arguments: TypeAlias = "JsonObject"

# -- requests --------------------------------------------------------------------------------------------

# Disables thinking, because the next token has to be the answer. Templates that do not support the field
# ignore it.
_NO_THINKING = {"chat_template_kwargs": {"enable_thinking": False}}
_PASSED_OPTIONS = ("extra_headers", "extra_query", "timeout")


class AuxiliaryRequests:
    """Sends auxiliary requests for one response.

    Args:
        options: The caller's request options; only headers, query and timeout are passed on.
    """

    def __init__(self, client: ChatModel, options: Options) -> None:
        self._client = client
        self._options = {name: options[name] for name in _PASSED_OPTIONS if name in options}
        self.usage: TokenUsage | None = None
        self.sent = 0

    async def ask(self, messages: Sequence[Message], schema: JsonFields, **fields: Any) -> LLMResponse:
        """Send a request constrained by a JSON Schema, at temperature 0.

        Raises:
            LLMError: The request failed.
        """
        self.sent += 1
        response_format = {"type": "json_schema", "json_schema": {"name": "choice", "schema": dict(schema)}}
        response = await self._client.chat(
            list(messages),
            None,
            **self._options,
            temperature=0,
            response_format=response_format,
            extra_body=_NO_THINKING,
            **fields,
        )
        self.count(response.usage)
        return response

    def count(self, usage: TokenUsage | None) -> None:
        """Add the usage of a request."""
        if usage is not None:
            self.usage = usage if self.usage is None else self.usage + usage


def last_question(messages: Sequence[Message]) -> str:
    """Return the user's last two questions, because "And in Paris?" needs the question before it."""
    return "\n".join([text_of(m.get("content") or "") for m in messages if is_question(m)][-2:])


# -- arguments -------------------------------------------------------------------------------------------


async def fill(
    requests: AuxiliaryRequests,
    messages: Sequence[Message],
    tool: JsonFields,
    prompts: Prompts,
    *,
    is_able: bool,
    several: bool,
    max_tokens: int,
) -> list[Arguments | str]:
    """Return the arguments of one call, or of several.

    Args:
        tool: The tool's schema; it may hold ``examples``.
        is_able: The result of `is_able_model`.

    Returns:
        The arguments of each call, or the raw text if it is not JSON, for instance because it was truncated.

    Raises:
        LLMError: A request failed.
    """
    function, question = tool["function"], last_question(messages)
    parameters = function.get("parameters") or {}
    if not is_able:
        # If the schema requires no arguments, require all of them.
        required = parameters.get("required") or list(parameters.get("properties") or ())
        parameters = {**parameters, "required": required}
    if not parameters.get("properties"):
        return [{}]
    shots = [*filled_examples(prompts), *_own_examples(function, prompts)]
    description = describe(function["name"], function, parameters, prompts)
    lead = _lead(shots, description, question, prompts, several=is_able)
    calls, text = await _ask(requests, lead, parameters, is_able and several, max_tokens)
    if calls is None:
        return [text]
    if is_able:
        return list(calls)
    composed = _composed(function)
    call = _without_made_up(parameters, calls[0], question, composed)
    narrowed = _narrowed(parameters, call, question, composed)
    if narrowed is not None:
        lead += [
            {"role": "assistant", "content": json.dumps(call, ensure_ascii=False)},
            {"role": "user", "content": prompts.fill_again.format(question=question)},
        ]
        [call, *_] = (await _ask(requests, lead, narrowed, False, max_tokens))[0] or [call]
    return [call]


async def is_able_model(requests: AuxiliaryRequests, prompts: Prompts) -> bool:
    """Return True if a model solves each worked example, given the solutions of the others.

    Raises:
        LLMError: A request failed.
    """
    shots = filled_examples(prompts)
    for number, shot in enumerate(shots):
        others = [*shots[:number], *shots[number + 1 :]]
        lead = _lead(others, shot.function, shot.request, prompts, several=True)
        values = {name: {"type": ["string", "number", "boolean"]} for name in shot.calls[0]}
        schema = {"type": "object", "properties": values, "required": list(values)}
        calls, _ = await _ask(requests, lead, schema, True, _TEST_TOKENS)
        if calls != shot.calls:
            return False
    return True


async def _ask(
    requests: AuxiliaryRequests,
    messages: list[Message],
    parameters: JsonFields,
    several: bool,
    max_tokens: int,
) -> tuple[list[Arguments] | None, str]:
    """Return the calls (None if the response is not JSON), and the text of the response."""
    one: JsonObject = {**parameters, "type": "object", "additionalProperties": False}
    definitions: JsonObject = {key: one.pop(key) for key in ("$defs", "definitions") if key in one}
    schema: JsonObject = (
        {"type": "array", "items": one, "minItems": 1, "maxItems": MAX_CALLS} if several else one
    )
    answer = await requests.ask(messages, {**schema, **definitions}, max_tokens=max_tokens)
    text = answer.content or ""
    if answer.finish_reason in CUT_OFF:
        return None, text
    try:
        value = loads_strictly(text)
    except ValueError:
        return None, text
    calls = [call for call in (value if isinstance(value, list) else [value]) if isinstance(call, dict)]
    distinct = [call for number, call in enumerate(calls) if call not in calls[:number]]
    return distinct or None, text


def _own_examples(function: JsonFields, prompts: Prompts) -> list[WorkedRequest]:
    description = describe(function["name"], function, function.get("parameters") or {}, prompts)
    examples = function.get("examples") or ()
    return [WorkedRequest(description, question, [dict(arguments)]) for question, arguments in examples]


def _lead(
    shots: Sequence[WorkedRequest], description: str, question: str, prompts: Prompts, *, several: bool
) -> list[Message]:
    system = f"{prompts.fill} {prompts.fill_several}" if several else prompts.fill
    lead: list[Message] = [{"role": "system", "content": system}]
    format_question = prompts.fill_question.format
    for shot in shots:
        solution: Any = shot.calls if several else shot.calls[0]
        lead += [
            {
                "role": "user",
                "content": format_question(function=shot.function, question=shot.request),
            },
            {"role": "assistant", "content": json.dumps(solution, ensure_ascii=False)},
        ]
    return [*lead, {"role": "user", "content": format_question(function=description, question=question)}]


def describe(name: str, function: JsonFields, parameters: JsonFields, prompts: Prompts) -> str:
    """Describe a tool and its arguments, one line each."""
    lines = [f"{name}: {(function.get('description') or '').strip()}"]
    for argument, schema in (parameters.get("properties") or {}).items():
        details = schema if isinstance(schema, Mapping) else {}
        choices = details.get("enum")
        hint = f" {json.dumps(choices, ensure_ascii=False)}" if choices else ""
        kind = details.get("type", "any")
        if argument not in (parameters.get("required") or ()):
            kind = prompts.fill_optional.format(type=kind)
        lines.append(f"- {argument} ({kind}): {details.get('description') or ''}{hint}")
    return "\n".join(lines)


def _composed(function: JsonFields) -> set[str]:
    """Return the names of arguments that a worked example does not copy from its question."""
    examples = function.get("examples") or ()
    return {
        name
        for question, arguments in examples
        for name, value in arguments.items()
        if not _occurs_in(value, question)
    }


def _without_made_up(
    parameters: JsonFields, values: Arguments, question: str, composed: set[str]
) -> Arguments:
    """Drop optional values that could have been copied from the question but are not in it."""
    needed = {*parameters["required"], *composed}
    return {name: value for name, value in values.items() if name in needed or _occurs_in(value, question)}


def _narrowed(
    parameters: JsonFields, values: Arguments, question: str, composed: set[str]
) -> JsonObject | None:
    """Return a schema that restricts made-up values to pieces of the question; None if there are none."""
    properties = {name: schema for name, schema in parameters["properties"].items() if name in values}
    changed = False
    for name, value in values.items():
        schema = properties.get(name)
        if not isinstance(schema, Mapping) or not _RESTRICTIONS.isdisjoint(schema):
            continue
        if name in composed or _occurs_in(value, question):
            properties[name] = {"const": value}
        elif choices := _choices(value, question):
            properties[name], changed = {"enum": choices}, True
    return {**parameters, "properties": properties, "required": list(values)} if changed else None


def _occurs_in(value: object, question: str) -> bool:
    return not _is_piece(value) or _is_in_question(value, question)


def _is_in_question(value: object, question: str) -> bool:
    if isinstance(value, str):
        return bool(value.strip()) and value.casefold() in question.casefold()
    return _is_piece(value) and value in numbers_in(question)


def _is_piece(value: object) -> bool:
    """Return True for a value that can be copied from a text: a string or a number."""
    return isinstance(value, (str, int, float)) and not isinstance(value, bool)


def _choices(value: object, question: str) -> list[Any]:
    """Return the pieces of the question that a value may be copied from; none for a long value."""
    if isinstance(value, str):
        return pieces_of(question) if len(value) <= _MAX_COPY_CHARS else []
    return [number for number in numbers_in(question) if isinstance(value, float) or isinstance(number, int)]


def numbers_in(text: str) -> list[int | float]:
    """Return the numbers in a string."""
    numbers = _NUMBER.findall(text.replace(",", ""))
    return [float(number) if "." in number else int(number) for number in dict.fromkeys(numbers)]


def pieces_of(text: str) -> list[str]:
    """Return the sequences of up to eight words in a string, verbatim."""
    words = [(match.start(), match.end()) for match in _WORD.finditer(text)]
    pieces: dict[str, None] = {}
    for first, (start, _) in enumerate(words):
        for _, end in words[first : first + MAX_PIECE_WORDS]:
            if piece := text[start:end].strip(_EDGES):
                pieces[piece] = None
    return list(pieces)[:MAX_PIECES]

"""Rules by which the Responses API rejects requests, each with its source.

Sources: ``[O]`` types of the ``openai`` package 3.57.0; issues are named by repository and number.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from llm_client_conformance.protocols.responses_answers import IssuedItems
from llm_client_conformance.scripted.history import loads_exactly

_INCOMPLETE = {"length": "max_output_tokens", "content_filter": "content_filter"}
_TOP_LEVEL = frozenset({
    "access_programs", "background", "background_options", "context_management", "conversation", "image",
    "include", "input", "instructions", "max_output_tokens", "max_tool_calls", "metadata", "model",
    "moderation", "parallel_tool_calls", "previous_response_id", "prompt", "prompt_cache_key",
    "prompt_cache_options", "prompt_cache_retention", "reasoning", "safety_identifier",
    "service_tier", "store", "stream", "stream_options", "temperature",
    "text", "tool_choice", "tools", "top_logprobs", "top_p", "truncation", "user",
})  # fmt: skip
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def check_responses_request(body: Any, *, issued: IssuedItems | None = None) -> list[str]:
    """Check the body of a Responses request as the API does.

    Args:
        body: The parsed JSON.
        issued: Reasoning that was sent before; None to skip the rules for reasoning.

    Returns:
        One sentence per violation, with the source of the rule; empty if the request is valid.
    """
    if not isinstance(body, Mapping):
        return ["the body is not a JSON object"]
    problems = [f"{name}: unknown parameter [O]" for name in body if name not in _TOP_LEVEL]
    problems += [*_check_tools(body), *_check_background(body)]
    items = body.get("input")
    if not isinstance(items, list):
        return [*problems, "input: a list of items is required [O]"]
    stored = [] if issued is None else issued.stored.get(str(body.get("previous_response_id")), [])
    items = [*stored, *items]
    return [*problems, *_check_items(items, len(stored)), *_check_reasoning(items, body, issued)]


def _check_background(body: Mapping[str, Any]) -> Iterator[str]:
    if body.get("background") and body.get("store") is False:
        yield "store: a response in the background must be stored (vllm-project/vllm: Responses entrypoint)"
    window = (body.get("background_options") or {}).get("completion_window", "soonest")
    if window != "soonest" and (not body.get("background") or body.get("stream")):
        yield f"background_options.completion_window: {window} needs background and no stream [O]"


def _check_tools(body: Mapping[str, Any]) -> Iterator[str]:
    tools = body.get("tools") or ()
    yield from _check_definitions(tools, "tools")
    choice = body.get("tool_choice")
    if choice not in (None, "auto", "none") and not tools:
        yield "tool_choice: only allowed with tools [O]"
    if not isinstance(choice, Mapping):
        return
    if choice.get("type") in ("function", "custom") and "name" not in choice:
        yield "tool_choice.name: missing required parameter [O]"
    if choice.get("type") == "allowed_tools" and (choice.get("mode") not in ("auto", "required")):
        yield "tool_choice.mode: auto or required [O]"


def _check_definitions(tools: Iterable[Mapping[str, Any]], place: str) -> Iterator[str]:
    for number, tool in enumerate(tools):
        kind = tool.get("type")
        for name in {"function": ("name", "parameters", "strict"), "custom": ("name",)}.get(str(kind), ()):
            if name not in tool:
                yield f"{place}[{number}].{name}: missing required parameter [O]"
        if kind in ("function", "custom") and not _NAME.fullmatch(str(tool.get("name"))):
            yield f"{place}[{number}].name: letters, digits, _ and - only [O]"


def _check_items(items: list[Any], stored: int) -> Iterator[str]:
    """Check the items of a conversation; the first items are those that the server has stored."""
    open_calls: dict[str, str] = {}
    for number, item in enumerate(items):
        kind = item.get("type", "message")
        if kind in ("function_call", "custom_tool_call"):
            if number >= stored:
                yield from _check_call(item, number)
            open_calls[str(item.get("call_id"))] = kind
        elif kind in ("function_call_output", "custom_tool_call_output"):
            if open_calls.pop(str(item.get("call_id")), None) != kind.removesuffix("_output"):
                yield f"input[{number}]: no tool call found for call_id {item.get('call_id')!r} [O]"
        elif kind == "additional_tools":
            if item.get("role") != "developer":
                yield f"input[{number}].role: only developer is supported [O]"
            yield from _check_definitions(item["tools"], f"input[{number}].tools")
        elif kind == "message":
            yield from _check_message(item, number)
    for call in open_calls:
        yield f"input: no tool output found for function call {call} [O]"


def _check_call(item: Mapping[str, Any], number: int) -> Iterator[str]:
    is_function = item["type"] == "function_call"
    text = item.get("arguments" if is_function else "input")
    if not item.get("call_id") or not isinstance(text, str):
        yield f"input[{number}]: a call needs call_id and its input as text [O]"
    elif is_function:
        yield from _check_arguments(text, number)


def _check_arguments(text: str, number: int) -> Iterator[str]:
    try:
        loads_exactly(text)
    except (ValueError, RecursionError):
        yield f"input[{number}].arguments: invalid JSON [O]"


def _check_message(item: Mapping[str, Any], number: int) -> Iterator[str]:
    role, content = item.get("role"), item.get("content")
    if role not in ("user", "assistant", "system", "developer"):
        yield f"input[{number}].role: {role!r} is invalid [O]"
    if not isinstance(content, (str, list)):
        yield f"input[{number}].content: text or a list is required [O]"
    wrong = "output_text" if role == "user" else "input_text"
    if isinstance(content, list) and any(part.get("type") == wrong for part in content):
        yield f"input[{number}].content: {wrong} is invalid for the role {role} [O]"


def _check_reasoning(items: list[Any], body: Mapping[str, Any], issued: IssuedItems | None) -> Iterator[str]:
    """Check that reasoning is unchanged, precedes the item that followed it, and that no item is repeated."""
    if issued is None:
        return
    ids = [item["id"] for item in items if item.get("id")]
    for twice in sorted({name for name in ids if ids.count(name) > 1}):
        yield f"input: duplicate item found with id {twice} (vercel/ai#15492)"
    for number, item in enumerate(items):
        if item.get("type") != "reasoning":
            continue
        content = item.get("encrypted_content")
        if body.get("store") is False and not content:
            yield f"input[{number}]: item {item.get('id')} not found (openai/openai-agents-python#919)"
        elif content and issued.reasoning.get(content, {}).get("summary") != item.get("summary"):
            yield f"input[{number}]: the encrypted content could not be verified [O]"
        follower = issued.followers.get(str(content))
        after = items[number + 1].get("type", "message") if number + 1 < len(items) else None
        if follower is not None and after != follower:
            yield (
                f"input[{number}]: reasoning without its following item (openai/openai-agents-python#2503)"
            )

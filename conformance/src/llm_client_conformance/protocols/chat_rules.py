"""Rules by which a vendor's chat-completions server rejects requests."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from llm_client_conformance.protocols.chat_dialects import DIALECTS, ChatDialect
from llm_client_conformance.protocols.models import STAND_IN
from llm_client_conformance.scripted.history import check_request

# Request fields of the protocol, from the types of the ``openai`` package 3.57.0.
PROTOCOL_FIELDS = frozenset((
    "audio", "frequency_penalty", "logit_bias", "logprobs", "max_completion_tokens", "max_tokens",
    "metadata", "modalities", "moderation", "parallel_tool_calls", "prediction", "presence_penalty",
    "prompt_cache_key", "prompt_cache_options", "prompt_cache_retention", "reasoning_effort",
    "response_format", "safety_identifier", "seed", "service_tier", "stop", "store", "stream",
    "stream_options", "temperature", "tool_choice", "top_logprobs", "top_p", "user", "verbosity",
    "web_search_options",
))  # fmt: skip


def check_chat_request(
    body: Any, dialect: str | ChatDialect = "deepseek", *, signed: Mapping[str, str] | None = None
) -> list[str]:
    """Check the body of a chat-completions request as a vendor's server does.

    Args:
        body: The parsed JSON.
        dialect: Name of a dialect, or a `ChatDialect`.
        signed: Signatures that were sent before, as in `ChatServer.signed`; None to skip the rules for
            signatures.

    Returns:
        One sentence per violation; empty if the request is valid. Sentences about rules of the dialect name
        the vendor.
    """
    rules = DIALECTS[dialect] if isinstance(dialect, str) else dialect
    extra = ["reasoning_content"] if rules.reasoning_back else []
    extra += ["reasoning", "reasoning_details"] if rules.signs_reasoning else []
    problems = check_request(body, extra_keys=[*extra, "extra_content"] if rules.signs_calls else extra)
    if not isinstance(body, Mapping) or not isinstance(body.get("messages"), list):
        return problems
    messages = [message for message in body["messages"] if isinstance(message, Mapping)]
    found = [*_check_fields(body, rules), *_check_messages(messages, rules)]
    is_kept = not rules.back_if_kept or (body.get("thinking") or {}).get("clear_thinking") is False
    if _is_thinking(body, rules) and is_kept:
        found += _check_reasoning(messages, rules)
    if rules.signs_reasoning and signed is not None:
        found += _check_details(messages, signed)
    if rules.signs_calls:
        found += _check_signatures(messages, signed)
    return [*problems, *(f"{problem} ({rules.name})" for problem in found)]


def _is_thinking(body: Mapping[str, Any], rules: ChatDialect) -> bool:
    kind, effort = (body.get("thinking") or {}).get("type"), body.get("reasoning_effort")
    if "enable_thinking" in body:
        return bool(body["enable_thinking"])
    if kind is not None:
        return bool(kind != "disabled")
    return rules.thinks if effort is None else effort != "none"


def _check_fields(body: Mapping[str, Any], rules: ChatDialect) -> Iterator[str]:
    known = {"model", "messages", "tools", *PROTOCOL_FIELDS, *rules.fields} - {*rules.refuses}
    for name in body:
        if name not in known:
            yield f"{name}: unknown field"
    is_thinking, choice = _is_thinking(body, rules), body.get("tool_choice")
    choice = "function" if isinstance(choice, Mapping) else choice
    if choice in rules.no_choices and (is_thinking or not rules.choices_without_thinking):
        yield f"tool_choice: {choice!r} is not supported"
    if rules.efforts and body.get("reasoning_effort") not in (None, *rules.efforts):
        yield f"reasoning_effort: use one of {', '.join(rules.efforts)}"
    form = (body.get("response_format") or {}).get("type", "text")
    if form not in rules.formats:
        yield f"response_format: the type {form!r} is unavailable"
    temperature = body.get("temperature")
    if rules.temperature is not None and is_thinking and temperature not in (None, rules.temperature):
        yield f"temperature: only {rules.temperature} is allowed"
    if not rules.strict_tools and any(
        "strict" in tool.get("function", {}) for tool in body.get("tools") or ()
    ):
        yield "tools: strict is not supported"


def _check_messages(messages: Sequence[Mapping[str, Any]], rules: ChatDialect) -> Iterator[str]:
    previous = ""
    for number, message in enumerate(messages):
        role, content = message.get("role"), message.get("content")
        parts = content if isinstance(content, list) else []
        kinds = {str(part.get("type")) for part in parts if isinstance(part, Mapping)}
        if unknown := sorted(kinds - {*rules.takes_parts}):
            yield f"messages[{number}]: unknown variant {', '.join(unknown)}, expected {rules.takes_parts[0]}"
        if not rules.user_after_tool and (previous, role) == ("tool", "user"):
            yield f"messages[{number}]: unexpected role 'user' after role 'tool'"
        for call in message.get("tool_calls") or ():
            if rules.call_id and not re.fullmatch(rules.call_id, str(call.get("id"))):
                yield f"messages[{number}]: the call id {call.get('id')!r} does not match {rules.call_id}"
        previous = str(role)


def _check_reasoning(messages: Sequence[Mapping[str, Any]], rules: ChatDialect) -> Iterator[str]:
    """Check that messages contain the reasoning that must be returned, which may be empty."""
    rounds: list[list[tuple[int, Mapping[str, Any]]]] = [[]]
    for number, message in enumerate(messages):
        if message.get("role") == "user":
            rounds.append([])
        elif message.get("role") == "assistant":
            rounds[-1].append((number, message))
    for answers in rounds:
        has_calls = any(message.get("tool_calls") for _, message in answers)
        for number, message in answers:
            wanted = has_calls if rules.reasoning_back == "rounds" else bool(message.get("tool_calls"))
            if rules.reasoning_back and wanted and not isinstance(message.get("reasoning_content"), str):
                yield f"messages[{number}]: reasoning_content is missing, and must be passed back"


def _check_details(messages: Sequence[Mapping[str, Any]], signed: Mapping[str, str]) -> Iterator[str]:
    """Check that details of reasoning equal those that were sent."""
    for number, message in enumerate(messages):
        for detail in message.get("reasoning_details") or ():
            if signed.get(str(detail.get("signature"))) != detail.get("text"):
                yield f"messages[{number}]: reasoning_details must not be modified, nor made up"


def _check_signatures(
    messages: Sequence[Mapping[str, Any]], signed: Mapping[str, str] | None
) -> Iterator[str]:
    """Check that the first call of each message has a signature that was sent with it."""
    for number, message in enumerate(messages):
        for position, call in enumerate(message.get("tool_calls") or ()):
            google = (call.get("extra_content") or {}).get("google") or {}
            signature = google.get("thought_signature")
            name = (call.get("function") or {}).get("name")
            if position == 0 and not signature:
                yield f"messages[{number}]: the call {name} is missing a thought_signature"
            elif signature not in (None, STAND_IN) and signed is not None and signed.get(signature) != name:
                yield f"messages[{number}]: the thought_signature of {name} is not valid"

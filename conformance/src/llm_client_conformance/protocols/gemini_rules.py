"""Rules by which the Gemini API rejects requests, each with its source.

Sources: ``[G]`` types and docstrings of the ``google-genai`` package 3.6.1, ``[P]`` pydantic-ai 2.68.0, which
probed the API, ``[R]`` error texts of the API that public repositories quote.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from llm_client_conformance.protocols.gemini_answers import IssuedSignatures
from llm_client_conformance.protocols.models import SIGNATURE, STAND_IN, is_gemini_3

_REASONS = {"stop": "STOP", "tool_calls": "STOP", "length": "MAX_TOKENS", "content_filter": "SAFETY"}
_STATUSES = {
    "authentication_error": "UNAUTHENTICATED",
    "not_found_error": "NOT_FOUND",
    "rate_limit_error": "RESOURCE_EXHAUSTED",
    "server_error": "UNAVAILABLE",
}
_MODEL = re.compile(r"/models/([^/:]+)")
_TOP_LEVEL = frozenset({
    "cachedContent", "contents", "generationConfig", "labels", "safetySettings", "serviceTier", "store",
    "systemInstruction", "toolConfig", "tools",
})  # fmt: skip
_DATA = frozenset({
    "text", "inlineData", "fileData", "functionCall", "functionResponse", "executableCode",
    "codeExecutionResult", "toolCall", "toolResponse",
})  # fmt: skip


def check_gemini_request(
    body: Any, model: str = "gemini-3-flash", *, issued: IssuedSignatures | None = None
) -> list[str]:
    """Check the body of a request as the Gemini API does.

    Args:
        body: The parsed JSON.
        model: The model's name in the URL.
        issued: Signatures that were sent before; None to skip the rules for them.

    Returns:
        One sentence per violation, with the source of the rule; empty if the request is valid.
    """
    if not isinstance(body, Mapping):
        return ["the body is not a JSON object"]
    problems = [f"{name}: unknown name [G]" for name in body if name not in _TOP_LEVEL]
    problems += [*_check_tools(body, model), *_check_config(body, model)]
    contents = body.get("contents")
    if not isinstance(contents, list) or not contents:
        return [*problems, "contents: a list with contents is required [G]"]
    problems += [*_check_contents(contents, model), *_check_results(contents)]
    return [*problems, *_check_signatures(contents, model, issued)]


def _check_tools(body: Mapping[str, Any], model: str) -> Iterator[str]:
    declared = [tool for group in body.get("tools") or () for tool in group.get("functionDeclarations") or ()]
    for number, tool in enumerate(declared):
        if not tool.get("name"):
            yield f"functionDeclarations[{number}].name: missing [G]"
        if "parameters" in tool and "parametersJsonSchema" in tool:
            yield f"functionDeclarations[{number}]: a schema in parameters and parametersJsonSchema [P]"
    kinds = {name for group in body.get("tools") or () for name in group}
    includes = (body.get("toolConfig") or {}).get("includeServerSideToolInvocations")
    if declared and len(kinds) > 1 and is_gemini_3(model) and not includes:
        yield "toolConfig: enable includeServerSideToolInvocations to use built-in tools with functions [R]"
    config = (body.get("toolConfig") or {}).get("functionCallingConfig") or {}
    if includes and config.get("mode") == "AUTO":
        yield "functionCallingConfig.mode: AUTO is not possible with includeServerSideToolInvocations [R]"
    allowed = config.get("allowedFunctionNames")
    if config.get("mode", "AUTO") not in ("AUTO", "ANY", "NONE", "VALIDATED"):
        yield f"functionCallingConfig.mode: {config['mode']!r} is invalid [G]"
    if allowed and config.get("mode") not in ("ANY", "VALIDATED"):
        yield "allowedFunctionNames: only allowed with the modes ANY and VALIDATED [G]"
    if allowed and not {tool.get("name") for tool in declared} >= set(allowed):
        yield "allowedFunctionNames: a name is not declared [G]"
    excluded = [name for name in ("systemInstruction", "tools", "toolConfig") if name in body]
    if "cachedContent" in body and excluded:
        yield f"cachedContent: excludes {', '.join(excluded)} [P]"


def _check_config(body: Mapping[str, Any], model: str) -> Iterator[str]:
    config = body.get("generationConfig") or {}
    has_schema = "responseSchema" in config or "responseJsonSchema" in config
    if "responseSchema" in config and "responseJsonSchema" in config:
        yield "generationConfig: a schema in responseSchema and responseJsonSchema [G]"
    if has_schema and "responseMimeType" not in config:
        yield "generationConfig: a schema needs responseMimeType [G]"
    if has_schema and body.get("tools") and not is_gemini_3(model):
        yield "generationConfig: a schema together with tools is unsupported before Gemini 3 [P]"
    thinking = config.get("thinkingConfig") or {}
    if "thinkingLevel" in thinking and not is_gemini_3(model):
        yield "thinkingLevel: unsupported before Gemini 3 [P]"
    if "thinkingBudget" in thinking and "thinkingLevel" in thinking:
        yield "thinkingConfig: thinkingBudget and thinkingLevel exclude each other [R]"
    level = thinking.get("thinkingLevel")
    if level == "MINIMAL" and re.search(r"gemini-3\.[78]-flash(?!-lite)", model):
        yield "thinkingLevel: MINIMAL is not supported for this model (earendil-works/pi#9455) [R]"
    always = "pro" in model and "flash" not in model
    if always and (thinking.get("thinkingBudget") == 0 or thinking.get("thinkingLevel") == "MINIMAL"):
        yield f"thinkingConfig: {model} only works with thinking [P]"


def _check_contents(contents: list[Any], model: str) -> Iterator[str]:
    for number, content in enumerate(contents):
        place = f"contents[{number}]"
        role, parts = content.get("role"), content.get("parts")
        if role not in ("user", "model"):
            yield f"{place}.role: {role!r} is invalid, use user or model [G]"
        if not isinstance(parts, list) or not parts:
            yield f"{place}.parts: a content without parts [P]"
            continue
        for index, part in enumerate(parts):
            if len(_DATA & set(part)) != 1:
                yield f"{place}.parts[{index}]: exactly one kind of data is required [G]"
            if ("functionCall" in part and role != "model") or (
                "functionResponse" in part and role != "user"
            ):
                yield f"{place}.parts[{index}]: wrong for the role {role} [G]"
            if "functionResponse" in part:
                yield from _check_response(part["functionResponse"], f"{place}.parts[{index}]", model)
    if contents[0].get("role") != "user":
        yield "contents[0]: the first must be a user's [R]"


def _check_response(response: Mapping[str, Any], place: str, model: str) -> Iterator[str]:
    if not response.get("name") or not isinstance(response.get("response"), Mapping):
        yield f"{place}: a response needs a name and an object [G]"
    if response.get("parts") and not is_gemini_3(model):
        yield f"{place}: files in results are unsupported before Gemini 3 [P]"


def _check_results(contents: list[Any]) -> Iterator[str]:
    """Check that the results of calls follow the calls, all in the next content."""
    called: list[Any] = []
    for number, content in enumerate(contents):
        parts = content.get("parts") or ()
        results = [_matched(part["functionResponse"]) for part in parts if "functionResponse" in part]
        if sorted(map(repr, called)) != sorted(map(repr, results)):
            yield f"contents[{number}]: the results {results} do not match the calls {called} before them [R]"
        called = [_matched(part["functionCall"]) for part in parts if "functionCall" in part]
        if called and number and contents[number - 1].get("role") != "user":
            yield f"contents[{number}]: calls must come after a user's content [R]"
    if called:
        yield f"contents: the calls {called} have no results [R]"


def _matched(item: Mapping[str, Any]) -> tuple[Any, Any]:
    return item.get("name"), item.get("id")


def _check_signatures(contents: list[Any], model: str, issued: IssuedSignatures | None) -> Iterator[str]:
    """Check that signed parts are unchanged, and that the first call of each content is signed."""
    for number, content in enumerate(contents):
        parts = content.get("parts") or ()
        calls = [index for index, part in enumerate(parts) if "functionCall" in part]
        if calls and is_gemini_3(model) and not parts[calls[0]].get(SIGNATURE):
            yield f"contents[{number}].parts[{calls[0]}]: the call is missing a thought_signature [P]"
        for index, part in enumerate(parts):
            signature = part.get(SIGNATURE)
            if signature in (None, STAND_IN) or issued is None:
                continue
            if signature not in issued.parts:
                yield f"contents[{number}].parts[{index}]: the thought signature is not valid [P]"
            elif issued.parts[signature] != part:
                yield f"contents[{number}].parts[{index}]: a changed or merged part with a signature [P]"

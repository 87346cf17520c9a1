"""Rules by which the Messages API rejects requests, each with its source.

Sources of the rules: ``[A]`` types and docstrings of the ``anthropic`` package 2.14.0, ``[P]`` pydantic-ai
2.68.0, which probed the API, ``[S]`` Anthropic's skill ``claude-api`` of July 2026, ``[D]`` Anthropic's pages
"Mid-conversation system messages" and "Compaction" of September 2026.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from llm_client_conformance.protocols.messages_answers import IssuedThinking
from llm_client_conformance.protocols.models import VERSION, ClaudeRules, claude_rules

_STOP_REASONS = {
    "stop": "end_turn",
    "tool_calls": "tool_use",
    "length": "max_tokens",
    "content_filter": "refusal",
}
_ERROR_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}
_TOP_LEVEL = frozenset({
    "model", "max_tokens", "messages", "cache_control", "container", "diagnostics", "inference_geo",
    "metadata", "output_config", "service_tier", "speed", "stop_sequences", "stream", "system", "temperature",
    "thinking", "tool_choice", "tools", "top_k", "top_p",
})  # fmt: skip
_BETA_FIELDS = frozenset({
    "compaction", "context_management", "fallback_credit_token", "fallbacks", "mcp_servers", "thread",
})  # fmt: skip
_IMAGES = {"iVBORw0KGgo": "image/png", "/9j/": "image/jpeg", "R0lGOD": "image/gif", "UklGR": "image/webp"}
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_BINDING_BETA = "thinking-binding-controls-2026-08-01"
_TOOLS_BETA = "inline-tools-2026-09-15"


def check_messages_request(
    body: Any, headers: Mapping[str, str] | None = None, *, issued: IssuedThinking | None = None
) -> list[str]:
    """Check the body of a Messages request as the API does.

    Args:
        body: The parsed JSON.
        headers: Headers with lower-case names; None to skip the rules for headers.
        issued: Thinking that was sent before; None to skip the rules for thinking.

    Returns:
        One sentence per violation, with the source of the rule; empty if the request is valid.
    """
    if not isinstance(body, Mapping):
        return ["the body is not a JSON object"]
    return _RequestCheck(body, headers, issued).run()


class _RequestCheck:
    """Checker of one request."""

    def __init__(
        self, body: Mapping[str, Any], headers: Mapping[str, str] | None, issued: IssuedThinking | None
    ) -> None:
        self._body, self._headers, self._issued = body, headers, issued
        self._family: ClaudeRules = claude_rules(str(body.get("model")))
        self._problems: list[str] = []
        self._marks = 0
        self._calls: list[str] = []
        self._betas = (headers or {}).get("anthropic-beta", "")
        self._names: set[str] = set()  # names of the tools known so far

    def run(self) -> list[str]:
        body = self._body
        if not isinstance(body.get("model"), str) or not body["model"]:
            self._add("model: a text is required [A]")
        limit = body.get("max_tokens")
        if type(limit) is not int or not 0 <= limit <= self._family.max_output:
            self._add(f"max_tokens: an integer up to {self._family.max_output} is required [A]")
        for name in body:
            if name not in _TOP_LEVEL and not (name in _BETA_FIELDS and self._betas):
                self._add(f"{name}: extra inputs are not permitted [A]")
        self._check_headers()
        self._check_thinking()
        self._check_tools()
        self._check_messages()
        self._check_choice()  # the choice of tools, which messages may have added
        self._check_compaction()
        if self._marks > 4:
            self._add(f"at most 4 blocks with cache_control; found {self._marks} [S]")
        return self._problems

    def _add(self, problem: str) -> None:
        self._problems.append(problem)

    def _check_headers(self) -> None:
        headers = self._headers
        if headers is None:
            return
        if not headers.get("anthropic-version"):
            self._add("anthropic-version: header is required [A]")
        if "authorization" in headers and "x-api-key" in headers:
            self._add("x-api-key and authorization together are refused [S]")
        if headers.get("anthropic-version") == VERSION and self._sampling():
            self._add(f"{', '.join(self._sampling())}: not supported in this API version [A]")

    def _sampling(self) -> list[str]:
        return [name for name in ("temperature", "top_p", "top_k") if name in self._body]

    def _check_thinking(self) -> None:
        family, body = self._family, self._body
        if self._sampling() and not family.takes_sampling:
            self._add(f"{', '.join(self._sampling())}: not supported by this model [P]")
        thinking = body.get("thinking") or {}
        kind = thinking.get("type")
        allowed = {
            "none": {None, "disabled"},
            "budget": {None, "enabled", "disabled"},
            "adaptive": {None, "adaptive", family.off},
            "enabled": {None, "enabled", "disabled"},
        }[family.thinking]
        if kind not in allowed:
            self._add(f"thinking.type: {kind!r} is not supported by this model [P]")
        budget = thinking.get("budget_tokens")
        is_budget = type(budget) is int and 1024 <= budget < body.get("max_tokens", 0)
        if kind == "enabled" and family.thinking == "budget" and not is_budget:
            self._add("thinking.budget_tokens: at least 1024 and less than max_tokens [A]")
        changes = body.get("temperature", 1) != 1 or "top_k" in body or not 0.95 <= body.get("top_p", 1) <= 1
        if changes and kind in ("enabled", "adaptive") and family.thinking != "enabled":
            self._add("temperature may only be set to 1 when thinking is enabled or in adaptive mode [D]")
        lacks_beta = self._headers is not None and _BINDING_BETA not in self._betas
        if "block_binding" in thinking and (kind != "adaptive" or lacks_beta):
            self._add(f"thinking.block_binding: needs 'adaptive' and the beta {_BINDING_BETA} [A]")
        effort = (body.get("output_config") or {}).get("effort")
        if effort is not None and effort not in family.efforts:
            self._add(f"output_config.effort: {effort!r} is not supported by this model [P]")

    def _check_tools(self) -> None:
        tools = self._body.get("tools")
        if tools is not None and (not isinstance(tools, list) or not tools):
            self._add("tools: a list with at least one tool is required [A]")
        names: set[str] = set()
        for number, tool in enumerate(tools or ()):
            self._count_mark(tool)
            if "cache_control" in tool and tool.get("defer_loading"):
                self._add(f"tools.{number}.cache_control: not on a deferred tool [D]")
            name = tool.get("name")
            if not isinstance(name, str) or not _NAME.fullmatch(name) or name in names:
                self._add(f"tools.{number}.name: {name!r} is invalid or used twice [A]")
            names.add(str(name))
            schema = tool.get("input_schema")
            if tool.get("type") in (None, "custom") and (
                not isinstance(schema, Mapping) or schema.get("type") != "object"
            ):
                self._add(f"tools.{number}.input_schema: type 'object' is required [A]")
        self._names = names

    def _check_choice(self) -> None:
        tools, choice = self._body.get("tools"), self._body.get("tool_choice") or {}
        kind = choice.get("type")
        if choice and not tools:
            self._add("tool_choice: may only be specified with tools [A]")
        if kind == "tool" and choice["name"] not in self._names:
            self._add(f"tool_choice.name: {choice['name']!r} is not among the tools [A]")
        if kind in ("any", "tool"):
            is_thinking = (self._body.get("thinking") or {}).get("type") in ("enabled", "adaptive")
            rule = self._family.takes_forced_choice
            if rule == "no" or (rule == "without_thinking" and is_thinking):
                self._add(f"tool_choice.type: {kind!r} is not supported here [P]")

    def _check_messages(self) -> None:
        body = self._body
        system = body.get("system")
        for number, block in enumerate(system if isinstance(system, list) else ()):
            self._check_text(block, f"system.{number}")
        messages = body.get("messages")
        if not isinstance(messages, list) or not messages:
            self._add("messages: a list with at least one message is required [A]")
            return
        if messages[0].get("role") != "user" and not _compactions(messages[:1]):
            self._add("messages.0.role: the first message must be a user's [A]")
        if messages[-1].get("role") == "assistant" and self._family.version == VERSION:
            self._add("messages: the conversation must end with a user message [A]")
        pending: list[str] = []
        for number, message in enumerate(messages):
            pending = self._check_message(message, number, pending)
        self._check_open_round(messages)
        if pending:
            self._add(f"tool_use ids without tool_result blocks: {', '.join(map(str, pending))} [A]")

    def _check_open_round(self, messages: Sequence[Mapping[str, Any]]) -> None:
        """Check that the newest response matches the thinking option (pydantic/pydantic-ai#2075)."""
        content = messages[-1].get("content")
        is_open = isinstance(content, list) and content and content[0].get("type") == "tool_result"
        if not is_open or self._family.thinking != "budget" or len(messages) < 2:
            return
        kinds = [block.get("type") for block in messages[-2]["content"]]
        is_thinking = (self._body.get("thinking") or {}).get("type") == "enabled"
        if is_thinking and kinds[0] not in ("thinking", "redacted_thinking"):
            self._add("messages: with thinking, a final assistant message must start with a thinking block")
        if not is_thinking and "thinking" in kinds:
            self._add("messages: without thinking, the final assistant message cannot contain thinking")

    def _check_message(self, message: Mapping[str, Any], number: int, pending: list[str]) -> list[str]:
        """Check a message; return the ids of its calls."""
        place, role, content = f"messages.{number}", message.get("role"), message.get("content")
        if role == "system":
            self._check_system(message, number, pending)
            return pending
        if role not in ("user", "assistant"):
            self._add(f"{place}.role: {role!r} [A]")
        if isinstance(content, str):
            content = [{"type": "text", "text": content}]
        if not isinstance(content, list) or not content:
            self._add(f"{place}.content: must not be empty [A]")
            return []
        self._check_results(content, pending, place)
        for index, block in enumerate(content):
            self._check_block(block, str(role), f"{place}.content.{index}")
        calls = [str(block.get("id")) for block in content if block.get("type") == "tool_use"]
        if len({*calls, *self._calls}) < len(calls) + len(self._calls):
            self._add(f"{place}: tool_use ids must be unique [A]")
        self._calls += calls
        if role == "assistant":
            kinds = [block.get("type") for block in content]
            if "thinking" in kinds and kinds[0] not in ("thinking", "redacted_thinking", "compaction"):
                self._add(f"{place}: the first block must be thinking if there is any [A]")
            self._check_thoughts(number, content)
        return calls

    def _check_system(self, message: Mapping[str, Any], number: int, pending: list[str]) -> None:
        """Check a system entry: the position, and the tools that it changes."""
        place, messages = f"messages.{number}", self._body["messages"]
        if not self._family.takes_tool_changes:
            self._add(f"{place}.role: 'system' is not supported by this model [D]")
        after = messages[number + 1].get("role") if number + 1 < len(messages) else "assistant"
        if number == 0 or messages[number - 1].get("role") != "user" or after != "assistant" or pending:
            self._add(
                f"{place}: a system entry must follow a user's message, and last or before a response [D]"
            )
        for index, block in enumerate(message["content"]):
            self._count_mark(block)
            change = block.get("tool") or {}
            if block.get("type") not in ("text", "tool_addition", "tool_removal"):
                self._add(f"{place}.content.{index}: {block.get('type')!r} [A]")
            elif change and self._headers is not None and _TOOLS_BETA not in self._betas:
                self._add(f"{place}.content.{index}: needs the beta {_TOOLS_BETA} [D]")
            if change.get("type") == "tool_definition" and block.get("type") == "tool_addition":
                self._names.add(change["definition"]["name"])
            elif change and change.get("name") not in self._names:
                self._add(f"{place}.content.{index}: tool_reference_unresolved: {change.get('name')!r} [D]")

    def _check_compaction(self) -> None:
        """Check that summaries are unchanged and come first, and that the required betas are present."""
        body = self._body
        messages = body.get("messages") or []
        if "compaction" in body and "context_management" in body:
            self._add("compaction: cannot be combined with context_management [A]")
        edits = [str(edit.get("type")) for edit in (body.get("context_management") or {}).get("edits") or ()]
        if (
            "compact_20260112" in edits
            and self._headers is not None
            and "compact-2026-01-12" not in self._betas
        ):
            self._add("context_management.edits: needs the beta compact-2026-01-12 [A]")
        signed = [block for block in _compactions(messages) if block.get("signature")]
        if signed or "compaction" in body:
            if self._headers is not None and "compact-2026-09-04" not in self._betas:
                self._add("compaction: needs the beta compact-2026-09-04 [A]")
            if len(signed) > 1 or (signed and signed != _compactions(messages[:1])):
                self._add("compaction_block_misplaced: one summary, first in messages [D]")
        elif _compactions(messages) and "compact_20260112" not in edits:
            self._add("compaction blocks require a compact_20260112 strategy [D]")
        issued = {} if self._issued is None else self._issued.texts
        for block in signed if self._issued is not None else ():
            if issued.get(block["signature"], ("",))[0] != block.get("content"):
                self._add("compaction_content_mismatch: a summary must not be modified [D]")

    def _check_results(self, content: Sequence[Mapping[str, Any]], pending: list[str], place: str) -> None:
        results = [block.get("tool_use_id") for block in content if block.get("type") == "tool_result"]
        if missing := [call for call in pending if call not in results]:
            self._add(
                f"{place}: tool_use ids without tool_result blocks right after: {', '.join(missing)} [A]"
            )
        if unknown := [str(call) for call in results if call not in pending]:
            self._add(f"{place}: unexpected tool_use_id: {', '.join(unknown)} [A]")
        if (
            pending
            and results
            and [b.get("type") for b in content[: len(results)]] != ["tool_result"] * len(results)
        ):
            self._add(f"{place}: tool_result blocks must come first [A]")

    def _check_block(self, block: Mapping[str, Any], role: str, place: str) -> None:
        kind = block.get("type")
        if kind == "text":
            self._check_text(block, place)
            return
        self._count_mark(block)
        if kind in ("thinking", "redacted_thinking") and "cache_control" in block:
            self._add(f"{place}: thinking takes no cache_control [A]")
        if kind == "tool_use":
            if not isinstance(block.get("input"), Mapping):
                self._add(f"{place}.input: must be an object [A]")
            call_id = str(block.get("id") or "")
            if not _NAME.fullmatch(call_id) or len(call_id) > 64:
                self._add(f"{place}.id: at most 64 letters, digits, _ and - [A]")
            if not self._body.get("tools"):
                self._add(f"{place}: requests with tool_use blocks must define tools [A]")
        self._check_opaque(block, role, place)
        if kind == "tool_result" and role != "user":
            self._add(f"{place}: tool_result belongs into a user message [A]")
        if kind in ("tool_use", "thinking", "redacted_thinking") and role != "assistant":
            self._add(f"{place}: {kind} belongs into an assistant message [A]")

    def _check_opaque(self, block: Mapping[str, Any], role: str, place: str) -> None:
        """Check what the block refers to: a container, or the bytes of an image."""
        called_by = str((block.get("caller") or {}).get("type"))
        if called_by.startswith("code_execution") and not self._body.get("container"):
            self._add(f"{place}: container_id is required for pending tool uses of code execution [S]")
        source = block.get("source") or {}
        found = _image_type(source.get("data")) if source.get("type") == "base64" else ""
        if found and found != source.get("media_type"):
            self._add(
                f"{place}.source: media_type is {source.get('media_type')}, but the image is {found} [S]"
            )
        if block.get("type") == "tool_result":
            for number, inner in enumerate(
                block["content"] if isinstance(block.get("content"), list) else ()
            ):
                self._check_block(inner, role, f"{place}.content[{number}]")

    def _check_text(self, block: Mapping[str, Any], place: str) -> None:
        self._count_mark(block)
        if not str(block.get("text") or "").strip():
            self._add(f"{place}.text: text blocks must contain non-whitespace text [A]")

    def _count_mark(self, block: Mapping[str, Any]) -> None:
        self._marks += "cache_control" in block

    def _check_thoughts(self, number: int, content: Sequence[Mapping[str, Any]]) -> None:
        """Check that thinking is unchanged, and valid after the preceding messages."""
        issued = self._issued
        if issued is None:
            return
        for block in content:
            if block.get("type") != "thinking":
                continue
            known = issued.texts.get(str(block.get("signature")))
            if known is None or known[0] != block.get("thinking"):
                self._add(f"messages.{number}: thinking must not be modified, nor made up [A]")
                continue
            binding = (self._body.get("thinking") or {}).get("block_binding") or {}
            drops = binding.get("prefix_mismatch_behavior") == "drop_block"
            if self._family.binds_thinking and not drops and known[1] != digest_of(self._body, number):
                self._add(f"messages.{number}: thinking came after another system, tools or messages [A]")


def _image_type(data: object) -> str:
    """Return the media type of an image in base64, by its first letters; empty if it is another."""
    return next((kind for start, kind in _IMAGES.items() if str(data).startswith(start)), "")


def digest_of(body: Mapping[str, Any], end: int | None) -> str:
    """Return a digest of the system prompt, the tools and the first messages, without cache marks.

    A summary replaces the messages before it.
    """
    messages = (body.get("messages") or [])[:end]
    begin = max((n for n, message in enumerate(messages) if _compactions([message])), default=0)
    parts = [body.get("system"), body.get("tools"), messages[begin:]]
    return hashlib.sha256(json.dumps(_unmarked(parts), sort_keys=True).encode()).hexdigest()


def _compactions(messages: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    contents = [message.get("content") for message in messages]
    blocks = [block for content in contents if isinstance(content, list) for block in content]
    return [block for block in blocks if block.get("type") == "compaction"]


def _unmarked(value: Any) -> Any:
    if isinstance(value, list):
        return [_unmarked(item) for item in value]
    if isinstance(value, Mapping):
        return {name: _unmarked(item) for name, item in value.items() if name != "cache_control"}
    return value

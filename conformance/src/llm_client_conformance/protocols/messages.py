"""Server with Anthropic's Messages protocol, which plays a script and rejects invalid requests."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from llm_client_conformance.protocols.limits import messages_refusal
from llm_client_conformance.protocols.messages_answers import IssuedThinking, MessagesWriting
from llm_client_conformance.protocols.messages_rules import check_messages_request, digest_of
from llm_client_conformance.protocols.models import EFFORTS, claude_rules
from llm_client_conformance.scripted.completions import Writing
from llm_client_conformance.scripted.request import ServerRequest
from llm_client_conformance.scripted.server import ScriptedServer

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
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_BINDING_BETA = "thinking-binding-controls-2026-08-01"
_TOOLS_BETA = "inline-tools-2026-09-15"


class MessagesServer(ScriptedServer):
    """Messages server that plays a script over real sockets; see `ScriptedServer`.

    It answers ``POST .../v1/messages``, ``POST .../v1/messages/count_tokens`` and ``GET .../v1/models/NAME``.
    Thinking gets a signature and must be returned unchanged; for models that bind thinking, it must also
    follow the same system prompt, tools and messages. Scripts may contain `message_blocks` in addition to the
    usual items.

    Args:
        script: See `ScriptedServer`.
        options: Further arguments of `ScriptedServer`.

    Example:
        with MessagesServer([answer("It is 3.", reasoning="1 + 2")]) as server:
            client = AnthropicClient("claude-opus-4-6", api_key="k", base_url=server.base_url)
    """

    _path: str | tuple[str, ...] = "/messages"
    _always_counts = True

    def __init__(self, script: Any = None, **options: Any) -> None:
        super().__init__(script, **options)
        self.issued = IssuedThinking()

    def _new_writing(self, number: int, request: ServerRequest) -> Writing:
        digest = digest_of(request.body, None) if isinstance(request.body, dict) else ""
        model, summarizes = str(request.options.get("model")), "compaction" in request.options
        return MessagesWriting(number, model, issued=self.issued, digest=digest, summarizes=summarizes)

    def _key_of(self, request: ServerRequest) -> str:
        return request.headers.get("x-api-key", "")

    def _refusal_of(self, request: ServerRequest) -> str:
        return messages_refusal(request.body)

    def _problems_of(self, request: ServerRequest) -> list[str]:
        return check_messages_request(request.body, request.headers, issued=self.issued)

    def _other(self, request: ServerRequest, path: str) -> Any:
        if request.method == "POST" and path.endswith("/messages/count_tokens"):
            return {"input_tokens": len(request.raw) // 4}
        name = path.rpartition("/models/")[2]
        if request.method == "GET" and "/models/" in path and name:
            return model_info(name)
        return None


def model_info(name: str) -> dict[str, Any]:
    """Return the response of ``GET /v1/models/NAME`` for a Claude model [A]."""
    family = claude_rules(name)
    thinking = {"adaptive": family.thinking == "adaptive", "enabled": family.thinking == "budget"}
    thinking |= {kind: family.off == kind for kind in ("disabled", "between_tools")}
    efforts = {level: level in family.efforts for level in EFFORTS}
    always = ("batch", "citations", "code_execution", "image_input", "pdf_input")

    def support(value: bool, **details: Any) -> dict[str, Any]:
        return {"supported": value, **details}

    def supports(values: Mapping[str, bool]) -> dict[str, Any]:
        return {kind: support(value) for kind, value in values.items()}

    return {
        "type": "model",
        "id": name,
        "display_name": name,
        "created_at": "2026-01-01T00:00:00Z",
        "lifecycle": "active",
        "max_tokens": family.max_output,
        "max_input_tokens": 200_000,
        "capabilities": {
            **supports(dict.fromkeys(always, True)),
            "context_management": support(True),
            "effort": support(any(efforts.values()), **supports(efforts)),
            "server_tools": support(True, **supports({"code_execution": True, "web_search": True})),
            "structured_outputs": support(family.takes_format),
            "thinking": support(family.thinking != "none", types=supports(thinking)),
        },
    }

"""Server with Google's Gemini API, which plays a script and rejects the same requests as the real one."""

from __future__ import annotations

import re
from typing import Any

from llm_client_conformance.protocols.gemini_answers import GeminiWriting, IssuedSignatures
from llm_client_conformance.protocols.gemini_rules import check_gemini_request
from llm_client_conformance.scripted.completions import Writing
from llm_client_conformance.scripted.request import ServerRequest
from llm_client_conformance.scripted.server import ScriptedServer

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


class GeminiServer(ScriptedServer):
    """Gemini server that plays a script over real sockets; see `ScriptedServer`.

    It answers ``POST .../models/NAME:generateContent`` and ``:streamGenerateContent``, and
    ``GET .../models/NAME``. From Gemini 3 on, the first call of a response and the end of a text get a
    signature; with earlier models, this is so only after reasoning. Signed parts must be returned unchanged.
    Scripts may contain `model_parts` in addition to the usual items.

    Args:
        script: See `ScriptedServer`.
        options: Further arguments of `ScriptedServer`.
    """

    _path = (":generateContent", ":streamGenerateContent")
    _always_counts = True

    def __init__(self, script: Any = None, **options: Any) -> None:
        super().__init__(script, **options)
        self.issued = IssuedSignatures()

    def _new_writing(self, number: int, request: ServerRequest) -> Writing:
        return GeminiWriting(number, _model_of(request), issued=self.issued)

    def _key_of(self, request: ServerRequest) -> str:
        return request.headers.get("x-goog-api-key", "")

    def _problems_of(self, request: ServerRequest) -> list[str]:
        problems = check_gemini_request(request.body, _model_of(request), issued=self.issued)
        if request.streamed and "alt=sse" not in request.path.partition("?")[2].split("&"):
            problems.append("alt: a stream without alt=sse does not consist of events [G]")
        return problems

    def _other(self, request: ServerRequest, path: str) -> Any:
        if request.method != "GET" or _MODEL.search(path) is None:
            return None
        limits = {"inputTokenLimit": 1_048_576, "outputTokenLimit": 65_536}
        return {"name": f"models/{_model_of(request)}", "version": "001", **limits}


def _model_of(request: ServerRequest) -> str:
    match = _MODEL.search(request.path)
    return match[1] if match else ""

"""A server with Google's Gemini API that plays a script and refuses what the real one refuses.

Sources of the refusals: ``[G]`` types and docstrings of the ``google-genai`` package 3.6.1, ``[P]``
pydantic-ai 2.68.0, which probed the API, ``[R]`` error texts of the API, as public repositories quote them.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pure_agent_loop.llm.gemini.request import SIGNATURE, STAND_IN, GeminiModel
from pure_agent_loop.llm.values import Delta, TokenUsage, ToolCallDelta
from pure_agent_loop.testing.completions import Writing, sse, to_json
from pure_agent_loop.testing.exchange import Exchange
from pure_agent_loop.testing.faults import ServerFault
from pure_agent_loop.testing.request import ServerRequest
from pure_agent_loop.testing.server import ScriptedServer

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
    signature, before only after reasoning; signed parts must come back as they were sent. Scripts may hold
    `model_parts` besides the usual items.

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


# -- answers ---------------------------------------------------------------------------------------------


@dataclass(slots=True)
class IssuedSignatures:
    """Signed parts that a server has sent, by signature."""

    parts: dict[str, dict[str, Any]] = field(default_factory=dict)

    def sign(self, part: Mapping[str, Any]) -> dict[str, Any]:
        """Return a part with a new signature."""
        seed = f"{len(self.parts)} {part}"
        signature = hashlib.sha256(seed.encode("utf-8", "replace")).hexdigest()[:32]
        self.parts[signature] = signed = {**part, SIGNATURE: signature}
        return signed


@dataclass(slots=True)
class GeminiWriting(Writing):
    """Writer of one response.

    Args:
        issued: Where signatures are kept.
    """

    issued: IssuedSignatures = field(default_factory=IssuedSignatures)
    _pieces: dict[int | None, list[ToolCallDelta]] = field(default_factory=dict)  # calls not yet sent
    _has_thought: bool = False
    _is_signed: bool = False
    _reason: str | None = None
    _usage: TokenUsage | None = None

    def frames(self, delta: Delta) -> list[bytes]:
        """Return the events for a delta."""
        return [self._frame([part]) for part in self._parts(delta)]

    def last_frames(self, *, done: bool) -> list[bytes]:
        """Return the events that end the response; without a finish reason unless `done`."""
        parts = self._rest()
        if self._reason is None or not done:
            return [self._frame([part]) for part in parts]
        return [self._frame([part]) for part in parts[:-1]] + [self._frame(parts[-1:], self._reason)]

    def error(self, body: bytes) -> bytes:
        """Return the error in this protocol's form."""
        try:
            error = json.loads(body)["error"]
        except (ValueError, KeyError, TypeError):
            return body
        status = _STATUSES.get(str(error.get("type")), "INVALID_ARGUMENT")
        code = {"code": error["code"]} if isinstance(error.get("code"), int) else {}
        return to_json({"error": {**code, "message": error.get("message", ""), "status": status}})

    def prefix(self) -> bytes:
        """Return the start of a whole response."""
        return to_json(self._start())[:-1]

    def body(self) -> bytes:
        """Return the whole response."""
        parts: list[dict[str, Any]] = []
        for part in [part for delta in self._deltas for part in self._parts(delta)] + self._rest():
            last = parts[-1] if parts else {}
            if "text" in part and {*part, *last} <= {"text", "thought"} and set(part) == set(last):
                last["text"] += part["text"]
            else:
                parts.append(dict(part))
        return to_json(self._response(parts, self._reason))

    def _parts(self, delta: Delta) -> Iterator[dict[str, Any]]:
        """Yield the parts of a delta; a call is one part, sent after its last piece."""
        if delta.reasoning:
            self._has_thought = True
            yield {"text": delta.reasoning, "thought": True}
        if delta.text:
            yield from self._made()
            yield {"text": delta.text}
        for piece in delta.tool_calls:
            self._pieces.setdefault(piece.index, []).append(piece)
        self._reason = _REASONS.get(delta.finish_reason or "", delta.finish_reason) or self._reason
        self._usage = delta.usage or self._usage

    def _made(self) -> Iterator[dict[str, Any]]:
        """Yield the complete calls; the first of a response is signed."""
        pieces, self._pieces = self._pieces, {}
        for call in pieces.values():
            part = {"functionCall": _call(call)}
            yield part if self._is_signed or not self._signs else self._signed(part)

    def _rest(self) -> list[dict[str, Any]]:
        """Return the last parts: calls, or an empty text with a signature."""
        parts = list(self._made())
        if not parts and self._signs and not self._is_signed:
            parts = [self._signed({"text": ""})]
        return parts

    @property
    def _signs(self) -> bool:
        return self._has_thought or GeminiModel(self.model).is_3

    def _signed(self, part: Mapping[str, Any]) -> dict[str, Any]:
        self._is_signed = True
        return self.issued.sign(part)

    def _start(self) -> dict[str, Any]:
        return {"modelVersion": self.model, "responseId": f"response-{self.number}"}

    def _response(self, parts: Sequence[Mapping[str, Any]], reason: str | None = None) -> dict[str, Any]:
        content = {"role": "model", **({"parts": list(parts)} if parts else {})}
        candidate = {"content": content, "index": 0, **({"finishReason": reason} if reason else {})}
        usage = {"usageMetadata": _usage(self._usage)} if self._usage else {}
        return {**self._start(), "candidates": [candidate], **usage, "aFieldOfTheFuture": 1}

    def _frame(self, parts: Sequence[Mapping[str, Any]], reason: str | None = None) -> bytes:
        return sse(to_json(self._response(parts, reason)))


def _call(pieces: Sequence[ToolCallDelta]) -> dict[str, Any]:
    """Return a call for its pieces; arguments that are not a JSON object become an empty one."""
    whole = next((piece.arguments for piece in pieces if isinstance(piece.arguments, dict)), None)
    if whole is None:
        try:
            whole = json.loads("".join(str(piece.arguments or "") for piece in pieces) or "{}")
        except ValueError:
            whole = {}
    named: dict[str, Any] = {"name": next(piece.name for piece in pieces if piece.name)}
    named |= {"args": whole if isinstance(whole, dict) else {}}
    call_id = next((piece.id for piece in pieces if piece.id), None)
    return {"id": call_id, **named} if call_id else named


def _usage(usage: TokenUsage) -> dict[str, Any]:
    thought = usage.reasoning_tokens or 0
    counts = {
        "promptTokenCount": usage.prompt_tokens,
        "candidatesTokenCount": usage.completion_tokens - thought,
        "totalTokenCount": usage.total_tokens,
    }
    if usage.reasoning_tokens is not None:
        counts["thoughtsTokenCount"] = thought
    if usage.cached_tokens is not None:
        counts["cachedContentTokenCount"] = usage.cached_tokens
    return counts


@dataclass(frozen=True, slots=True)
class GeminiParts(ServerFault):
    """A response made of parts of the protocol; make one with `model_parts`."""

    parts: tuple[Mapping[str, Any], ...]
    fields: Mapping[str, Any]
    response: Mapping[str, Any]

    async def play(self, out: Exchange) -> bool:
        """Send the response."""
        writing = out.writing
        assert isinstance(writing, GeminiWriting)
        parts = [
            writing.issued.sign(part) if part.get(SIGNATURE) == "" else dict(part) for part in self.parts
        ]
        if not out.streamed:
            await out.respond(200, to_json(self._message(writing, parts, last=True)))
            return False
        for part in parts:
            await out.write(sse(to_json(self._message(writing, [part], last=False))))
        await out.write(sse(to_json(self._message(writing, [], last=True))))
        await out.end()
        return False

    def _message(self, writing: GeminiWriting, parts: list[dict[str, Any]], *, last: bool) -> dict[str, Any]:
        response = writing._response(parts)
        if last:
            response["candidates"][0] |= self.fields
            response |= self.response
        return response


def model_parts(
    *parts: Mapping[str, Any],
    finish_reason: str = "STOP",
    finish_message: str = "",
    **response: Any,
) -> GeminiParts:
    """Return a response made of these parts, for `GeminiServer`.

    Args:
        parts: Parts. An empty ``thoughtSignature`` becomes a new one.
        finish_reason: Why the response ended.
        finish_message: Details of it.
        response: Fields of the response, such as ``usageMetadata`` or ``candidates``.
    """
    fields = {"finishReason": finish_reason, **({"finishMessage": finish_message} if finish_message else {})}
    return GeminiParts(parts, fields, response)


# -- refusals --------------------------------------------------------------------------------------------


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
    kind = GeminiModel(model)
    problems += [*_check_tools(body), *_check_config(body, kind)]
    contents = body.get("contents")
    if not isinstance(contents, list) or not contents:
        return [*problems, "contents: a list with contents is required [G]"]
    problems += [*_check_contents(contents, kind), *_check_results(contents)]
    return [*problems, *_check_signatures(contents, kind, issued)]


def _check_tools(body: Mapping[str, Any]) -> Iterator[str]:
    declared = [tool for group in body.get("tools") or () for tool in group.get("functionDeclarations") or ()]
    for number, tool in enumerate(declared):
        if not tool.get("name"):
            yield f"functionDeclarations[{number}].name: missing [G]"
        if "parameters" in tool and "parametersJsonSchema" in tool:
            yield f"functionDeclarations[{number}]: a schema in parameters and parametersJsonSchema [P]"
    config = (body.get("toolConfig") or {}).get("functionCallingConfig") or {}
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


def _check_config(body: Mapping[str, Any], kind: GeminiModel) -> Iterator[str]:
    config = body.get("generationConfig") or {}
    has_schema = "responseSchema" in config or "responseJsonSchema" in config
    if "responseSchema" in config and "responseJsonSchema" in config:
        yield "generationConfig: a schema in responseSchema and responseJsonSchema [G]"
    if has_schema and "responseMimeType" not in config:
        yield "generationConfig: a schema needs responseMimeType [G]"
    if has_schema and body.get("tools") and not kind.is_3:
        yield "generationConfig: a schema together with tools is unsupported before Gemini 3 [P]"
    thinking = config.get("thinkingConfig") or {}
    if "thinkingLevel" in thinking and not kind.is_3:
        yield "thinkingLevel: unsupported before Gemini 3 [P]"
    if "thinkingBudget" in thinking and "thinkingLevel" in thinking:
        yield "thinkingConfig: thinkingBudget and thinkingLevel exclude each other [R]"
    level = thinking.get("thinkingLevel")
    if level == "MINIMAL" and re.search(r"gemini-3\.[78]-flash(?!-lite)", kind.name):
        yield "thinkingLevel: MINIMAL is not supported for this model (earendil-works/pi#9455) [R]"
    always = "pro" in kind.name and "flash" not in kind.name
    if always and (thinking.get("thinkingBudget") == 0 or thinking.get("thinkingLevel") == "MINIMAL"):
        yield f"thinkingConfig: {kind.name} only works with thinking [P]"


def _check_contents(contents: list[Any], kind: GeminiModel) -> Iterator[str]:
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
                yield from _check_response(part["functionResponse"], f"{place}.parts[{index}]", kind)
    if contents[0].get("role") != "user":
        yield "contents[0]: the first must be a user's [R]"


def _check_response(response: Mapping[str, Any], place: str, kind: GeminiModel) -> Iterator[str]:
    if not response.get("name") or not isinstance(response.get("response"), Mapping):
        yield f"{place}: a response needs a name and an object [G]"
    if response.get("parts") and not kind.is_3:
        yield f"{place}: files in results are unsupported before Gemini 3 [P]"


def _check_results(contents: list[Any]) -> Iterator[str]:
    """Check that calls are followed by their results, all in the next content."""
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


def _check_signatures(
    contents: list[Any], kind: GeminiModel, issued: IssuedSignatures | None
) -> Iterator[str]:
    """Check that signed parts are unchanged, and that the first call of each content is signed."""
    for number, content in enumerate(contents):
        parts = content.get("parts") or ()
        calls = [index for index, part in enumerate(parts) if "functionCall" in part]
        if calls and kind.is_3 and not parts[calls[0]].get(SIGNATURE):
            yield f"contents[{number}].parts[{calls[0]}]: the call is missing a thought_signature [P]"
        for index, part in enumerate(parts):
            signature = part.get(SIGNATURE)
            if signature in (None, STAND_IN) or issued is None:
                continue
            if signature not in issued.parts:
                yield f"contents[{number}].parts[{index}]: the thought signature is not valid [P]"
            elif issued.parts[signature] != part:
                yield f"contents[{number}].parts[{index}]: a changed or merged part with a signature [P]"

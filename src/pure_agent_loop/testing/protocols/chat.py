"""Chat-completions servers that play a script and refuse what the servers of named vendors refuse.

What a vendor refuses, ignores and sends back is data: a `ChatDialect`. Sources of the rules: ``[D]``
DeepSeek's documentation (Thinking Mode, JSON Output), ``[P]`` pydantic-ai 2.68.0, which probed the APIs, and
issues, named by repository and number.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.llm.gemini.request import STAND_IN
from pure_agent_loop.llm.profiles import PROTOCOL_FIELDS
from pure_agent_loop.llm.values import Delta, TokenUsage
from pure_agent_loop.testing.completions import Writing, to_json
from pure_agent_loop.testing.history import check_request
from pure_agent_loop.testing.request import ServerRequest
from pure_agent_loop.testing.server import ScriptedServer

_PLAIN_FORMATS = ("text", "json_object")


@dataclass(frozen=True, slots=True)
class ChatDialect:
    """Rules of one vendor's chat-completions server, in addition to those of `check_request`.

    Args:
        name: The vendor.
        host: Host name, which `ChatServer.base_url` holds, so that clients recognise the vendor.
        fields: Request fields besides those of the protocol.
        refuses: Fields of the protocol that are refused.
        ignores: Fields that are accepted without effect.
        takes_parts: Types of the parts of messages that are accepted.
        efforts: Values of ``reasoning_effort`` that are accepted; empty for any.
        thinks: Whether the model thinks unless the request says otherwise.
        reasoning_back: Messages that must hold ``reasoning_content`` while the model thinks: those with
            ``calls``, or all assistant messages of ``rounds`` with calls; empty for none.
        thinking_in_content: Whether thinking is sent as a chunk of ``content``, not as ``reasoning_content``.
        back_if_kept: Whether reasoning must come back only if the request keeps it, with
            ``thinking.clear_thinking`` false.
        no_choices: Values of ``tool_choice`` that are refused; ``function`` is a named function.
        choices_without_thinking: Whether these values are accepted while the model does not think.
        formats: Types of ``response_format`` that are accepted.
        strict_tools: Whether ``strict`` is accepted in tools.
        temperature: The only temperature that is accepted while the model thinks; None for any.
        call_id: Regular expression of call ids; empty for any.
        user_after_tool: Whether a user message may follow a tool's result.
        signs_reasoning: Whether reasoning has signed ``reasoning_details``, which must come back unchanged.
        signs_calls: Whether the first call of a response gets a signature, which must come back unchanged.
        usage: Form of cached tokens in ``usage``.
        counts_unasked: Whether streams carry the usage without ``stream_options``.
        errors_in_list: Whether an error body is a list with one object.
    """

    name: str
    host: str
    fields: Collection[str] = ()
    refuses: Collection[str] = ()
    ignores: Collection[str] = ()
    takes_parts: Sequence[str] = ("text", "image_url", "file", "input_audio")
    efforts: Collection[str] = ()
    thinks: bool = False
    reasoning_back: Literal["", "calls", "rounds"] = ""
    back_if_kept: bool = False
    thinking_in_content: bool = False
    no_choices: Collection[str] = ()
    choices_without_thinking: bool = False
    formats: Collection[str] = (*_PLAIN_FORMATS, "json_schema")
    strict_tools: bool = True
    temperature: float | None = None
    call_id: str = ""
    user_after_tool: bool = True
    signs_reasoning: bool = False
    signs_calls: bool = False
    usage: Literal["openai", "deepseek", "kimi", "mistral"] = "openai"
    counts_unasked: bool = False
    errors_in_list: bool = False


DIALECTS = {
    "deepseek": ChatDialect(
        "DeepSeek",
        "api.deepseek.com",
        fields=["thinking"],
        ignores=["max_completion_tokens"],  # [P]; only `max_tokens` is documented [D]
        thinks=True,  # [D]
        # All rounds with calls, for ever [D]; their final answers too (openclaw/openclaw#73417,
        # MoonshotAI/kimi-cli#2141).
        reasoning_back="rounds",
        no_choices=["required", "function"],  # deepseek-ai/awesome-deepseek-integration#598
        choices_without_thinking=True,
        formats=_PLAIN_FORMATS,  # EvoScientist/EvoScientist#348
        takes_parts=["text"],  # 1jehuang/jcode#310
        usage="deepseek",
    ),
    "kimi": ChatDialect(
        "Kimi",
        "api.moonshot.ai",
        fields=["thinking"],
        thinks=True,
        reasoning_back="calls",  # mastra-ai/mastra#12592
        no_choices=["required"],  # [P]
        strict_tools=False,  # [P]
        temperature=1,  # HKUDS/nanobot#4967
        usage="kimi",
    ),
    "qwen": ChatDialect(
        "Qwen",
        "dashscope-intl.aliyuncs.com",
        fields=["enable_thinking", "thinking_budget", "preserve_thinking", "enable_search", "top_k"],
        takes_parts=["text", "image_url", "input_audio", "video_url"],  # [P]
        no_choices=["required", "function"],  # cloudwego/eino#994, QwenLM/qwen-code#7659
        choices_without_thinking=True,
    ),
    "glm": ChatDialect(
        "GLM",
        "api.z.ai",
        fields=["thinking", "tool_stream", "do_sample", "request_id"],
        efforts=["low", "high", "max"],  # of 5.3: charmbracelet/catwalk#603
        thinks=True,
        reasoning_back="rounds",
        back_if_kept=True,  # its guide "Thinking Mode"; adolfousier/opencrabs#1348
        no_choices=["required", "function"],  # vectorize-io/hindsight#4246
    ),
    "mistral": ChatDialect(
        "Mistral",
        "api.mistral.ai",
        fields=["safe_prompt", "prompt_mode", "random_seed", "guardrails"],
        # Extra fields are forbidden: editor-code-assistant/eca#231, Gitlawb/openclaude#739; `stream_options`
        # is not a field of `ChatCompletionRequest` in Mistral's own client.
        refuses=["max_completion_tokens", "store", "stream_options"],
        thinking_in_content=True,  # [P]
        call_id=r"[a-zA-Z0-9]{9}",  # jackmpcollins/magentic#276
        user_after_tool=False,  # datapizza-labs/datapizza-ai#98
        usage="mistral",
        counts_unasked=True,
    ),
    "openrouter": ChatDialect(
        "OpenRouter",
        "openrouter.ai",
        fields=["reasoning", "provider", "models", "plugins", "transforms", "route", "usage"],
        ignores=["max_completion_tokens"],  # [P]
        signs_reasoning=True,  # its guide "Reasoning Tokens": the whole sequence, unmodified
    ),
    "gemini": ChatDialect(
        "Gemini's compatible endpoint",
        "generativelanguage.googleapis.com",
        fields=["extra_body"],
        signs_calls=True,  # langroid/langroid#969, labring/aiproxy#450
        errors_in_list=True,  # mattermost/mattermost-plugin-agents#1020
    ),
}


class ChatServer(ScriptedServer):
    """Chat-completions server of a named vendor, on loopback, that plays a script; see `ScriptedServer`.

    Its `base_url` holds the vendor's host name, so that profiles that look for it match.

    Args:
        script: See `ScriptedServer`.
        dialect: ``deepseek``, ``kimi``, ``qwen``, ``glm``, ``mistral``, ``openrouter``, ``gemini``, or
            your own `ChatDialect`.
        options: Further arguments of `ScriptedServer`.

    Raises:
        ConfigError: The dialect is unknown.

    Example:
        with ChatServer([answer(call("add", a=1, b=2), reasoning="hm"), "It is 3."]) as server:
            client = OpenAIClient("deepseek-v4", api_key="k", base_url=server.base_url)
    """

    def __init__(self, script: Any = None, dialect: str | ChatDialect = "deepseek", **options: Any) -> None:
        super().__init__(script, **options)
        if isinstance(dialect, str) and dialect not in DIALECTS:
            raise ConfigError(f"dialect={dialect!r} is unknown. Use one of: {', '.join(DIALECTS)}.")
        self.dialect = DIALECTS[dialect] if isinstance(dialect, str) else dialect
        self.ignored: list[str] = []
        """Fields of requests that had no effect, as the vendor ignores them."""
        self.signed: dict[str, str] = {}
        """Signatures that were sent, with the reasoning or the name of the tool that they belong to."""
        self._always_counts = self.dialect.counts_unasked

    @property
    def base_url(self) -> str:
        """Base URL for clients: this machine, and a path with the vendor's host name and ``/v1``."""
        return super().base_url.removesuffix("/v1") + f"/{self.dialect.host}/v1"

    def _new_writing(self, number: int, request: ServerRequest) -> Writing:
        return ChatWriting(
            number, str(request.options.get("model")), dialect=self.dialect, signed=self.signed
        )

    def _problems_of(self, request: ServerRequest) -> list[str]:
        self.ignored += [name for name in self.dialect.ignores if name in request.options]
        return check_chat_request(request.body, self.dialect, signed=self.signed)


# -- answers ---------------------------------------------------------------------------------------------


@dataclass(slots=True)
class ChatWriting(Writing):
    """Writer of one answer in a dialect.

    Args:
        dialect: The rules.
        signed: Where signatures are kept, with the reasoning or the name of the tool that they belong to.
    """

    dialect: ChatDialect = field(default_factory=lambda: DIALECTS["deepseek"])
    signed: dict[str, str] = field(default_factory=dict)
    _has_signed: bool = False
    _thought: str = ""

    def error(self, body: bytes) -> bytes:
        """Return the error, in a list if the vendor sends it so."""
        return b"[" + body + b"]" if self.dialect.errors_in_list and body[:1] == b"{" else body

    def chunk(self, delta: Delta) -> bytes:
        """Return the payload of one streamed chunk."""
        return self._translated(super(ChatWriting, self).chunk(delta), delta.usage)

    def body(self) -> bytes:
        """Return the whole answer."""
        usage = next((delta.usage for delta in reversed(self._deltas) if delta.usage), None)
        return self._translated(super(ChatWriting, self).body(), usage)

    def _translated(self, data: bytes, usage: TokenUsage | None) -> bytes:
        value = json.loads(data)
        for choice in value["choices"]:
            message = choice.get("delta") or choice.get("message") or {}
            if self.dialect.thinking_in_content and "reasoning_content" in message:
                thought = {"type": "text", "text": message.pop("reasoning_content")}
                chunks = [{"type": "thinking", "thinking": [thought], "closed": True}]
                text = message.get("content")
                message["content"] = [*chunks, *([{"type": "text", "text": text}] if text else [])]
            if self.dialect.signs_reasoning:
                self._detail(message, is_whole="message" in choice)
            if self.dialect.signs_calls and message.get("tool_calls") and not self._has_signed:
                self._has_signed = True
                call = message["tool_calls"][0]
                signature = self._signature(str(call["function"]["name"]))
                call["extra_content"] = {"google": {"thought_signature": signature}}
        if usage is not None:
            value["usage"] |= _usage(usage, self.dialect)
        return to_json(value)

    def _detail(self, message: dict[str, Any], *, is_whole: bool) -> None:
        """Send reasoning with its details; the signature comes after the last piece."""
        thought = message.pop("reasoning_content", "")
        self._thought += thought
        detail = {"type": "reasoning.text", "format": "anthropic-claude-v1", "index": 0}
        if thought:
            message["reasoning"], detail["text"] = thought, thought
        if self._thought and not self._has_signed and (is_whole or not thought):
            self._has_signed = True
            detail["signature"] = self._signature(self._thought)
        if thought or "signature" in detail:
            message["reasoning_details"] = [detail]

    def _signature(self, signed: str) -> str:
        signature = hashlib.sha256(f"{len(self.signed)} {signed}".encode("utf-8", "replace")).hexdigest()[:32]
        self.signed[signature] = signed
        return signature


def _usage(usage: TokenUsage, dialect: ChatDialect) -> dict[str, Any]:
    """Return the vendor's fields for cached tokens."""
    cached = usage.cached_tokens or 0
    if dialect.usage == "deepseek":
        missed = usage.prompt_tokens - cached
        return {"prompt_cache_hit_tokens": cached, "prompt_cache_miss_tokens": missed}
    return {"kimi": {"cached_tokens": cached}, "mistral": {"num_cached_tokens": cached}}.get(
        dialect.usage, {}
    )


# -- refusals --------------------------------------------------------------------------------------------


def check_chat_request(
    body: Any, dialect: str | ChatDialect = "deepseek", *, signed: Mapping[str, str] | None = None
) -> list[str]:
    """Check the body of a chat-completions request as a vendor's server does.

    Args:
        body: The parsed JSON.
        dialect: Name of a dialect, or a `ChatDialect`.
        signed: Signatures that were sent before, as in `ChatServer.signed`; None to skip their rules.

    Returns:
        One sentence per violation; empty if the request is valid. Rules of the dialect name the vendor.
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
    """Check that messages hold the reasoning that must come back; it may be empty."""
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
    """Check that details of reasoning are those that were sent."""
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

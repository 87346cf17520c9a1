"""Requests of the Gemini API: a history in the chat-completions shape, written as contents. Pure.

A response that holds more than text and calls (thought signatures, parts of server tools) is kept whole, as
`PARTS` of its message, and sent back to the server and model it came from. Source of the rules: the types of
the ``google-genai`` package 3.6.1, https://ai.google.dev/api/generate-content and
https://ai.google.dev/gemini-api/docs/thought-signatures.
"""

from __future__ import annotations

import mimetypes
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.llm.histories import WrittenHistories
from pure_agent_loop.llm.messages import (
    META,
    SYSTEM_ROLES,
    Message,
    has_failed,
    split_data_url,
    text_of,
    written_content,
)
from pure_agent_loop.llm.options import OptionNames, as_list
from pure_agent_loop.llm.profiles import Default
from pure_agent_loop.llm.values import JsonFields, JsonObject, Options
from pure_agent_loop.support.parsing import read_json
from pure_agent_loop.support.text import present

PARTS = "gemini_parts"  # field of an assistant message: all parts of the response, unchanged
SIGNATURE = "thoughtSignature"
STAND_IN = "skip_thought_signature_validator"  # signature for calls that another model made
CONTINUE = "Continue."  # user content that is added, because a request must begin and end with it
# Thinking tokens by thinking level, for models before Gemini 3.
BUDGETS = {"minimal": 512, "low": 1_024, "medium": 8_192, "high": 24_576}
# Thinking levels by model name, from Gemini 3 on, as of 2026-11-27; the first match is used. Sources:
# https://ai.google.dev/gemini-api/docs/generate-content/thinking#thinking-levels, BerriAI/litellm#41201.
LEVELS = (
    (r"gemini-3-pro", ("low", "high")),
    (r"flash-lite|gemini-3(\.[0-6])?-flash", ("minimal", "low", "medium", "high")),
    (r"gemini-3\.\d+-(pro|flash)", ("low", "medium", "high")),
    (r"", ("low", "medium", "high", "xhigh")),  # newer models
)
_MODES = {"auto": "AUTO", "required": "ANY", "none": "NONE", "validated": "VALIDATED"}
_GENERATION = frozenset({
    "audioTimestamp", "candidateCount", "enableAffectiveDialog", "enableEnhancedCivicAnswers",
    "frequencyPenalty", "imageConfig", "logprobs", "maxOutputTokens", "mediaResolution", "presencePenalty",
    "responseFormat", "responseJsonSchema", "responseLogprobs", "responseMimeType", "responseModalities",
    "responseSchema", "seed", "speechConfig", "stopSequences", "temperature", "thinkingConfig", "topK",
    "topP",
})  # fmt: skip
_TOP_LEVEL = frozenset({
    "cachedContent", "generationConfig", "labels", "safetySettings", "serviceTier", "store", "toolConfig",
})  # fmt: skip
OPTIONS = OptionNames(
    "the Gemini API",
    fields=_GENERATION | _TOP_LEVEL,
    renamed={
        "max_tokens": "maxOutputTokens",
        "max_completion_tokens": "maxOutputTokens",
        "stop": "stopSequences",
    },
    translated=frozenset({"reasoning_effort", "response_format", "tool_choice"}),
    is_camel_case=True,
)
# File types that results may hold from Gemini 3 on; other files are sent after the results.
_IN_RESULTS = frozenset({"image/png", "image/jpeg", "image/webp", "application/pdf", "text/plain"})
_VERSION = re.compile(r"gemini-(\d+)(?:\.(\d+))?")
_NEWEST = (3, 0)  # version assumed for names without a number, such as gemini-flash-latest


@dataclass(frozen=True, slots=True)
class GeminiModel:
    """Capabilities of a model, by its name; checked 2026-11-27.

    Args:
        name: Model name.
    """

    name: str

    @property
    def version(self) -> tuple[int, int]:
        """Version of a Gemini model; (0, 0) for other models."""
        if match := _VERSION.search(self.name):
            return int(match[1]), int(match[2] or 0)
        return _NEWEST if "gemini" in self.name else (0, 0)

    @property
    def is_3(self) -> bool:
        """True from Gemini 3 on; adds signed calls, thinking levels, files in results, schemas with tools."""
        return self.version >= (3, 0)

    @property
    def thinks(self) -> bool:
        """True if the model thinks by default."""
        return self.version >= (2, 5) and not re.search("image|tts|audio|live", self.name)

    def thinking_config(self, level: str | None) -> JsonObject | None:
        """Return the ``thinkingConfig`` for a level; None if the field must be omitted.

        Args:
            level: ``none``, ``minimal``, ``low``, ``medium``, ``high`` or ``xhigh``; None or ``off`` for
                the model's default.

        Raises:
            ConfigError: The model has no such level.
        """
        if not self.thinks:
            if level in (None, "off", "none"):
                return None
            raise ConfigError(
                f"thinking_level={level!r}: {self.name} cannot think. Use 'off', or leave it out."
            )
        if level in (None, "off"):
            return {"includeThoughts": True}
        levels = tuple(BUDGETS)
        if self.is_3:
            levels = next(names for pattern, names in LEVELS if re.search(pattern, self.name))
        if level == "none":
            is_pro = "pro" in self.name and "flash" not in self.name
            if is_pro or "minimal" not in levels:
                raise ConfigError(
                    f"thinking_level='none': {self.name} always thinks. Use 'low', or leave it out."
                )
            return {"thinkingLevel": "MINIMAL"} if self.is_3 else {"thinkingBudget": 0}
        if level not in levels:
            raise ConfigError(
                f"Thinking level {level!r} is unknown to {self.name}. Use one of: {', '.join(levels)}."
            )
        amount = {"thinkingLevel": level.upper()} if self.is_3 else {"thinkingBudget": BUDGETS[level]}
        return {"includeThoughts": True, **amount}


@dataclass(frozen=True, slots=True)
class GeminiWriter:
    """Writes requests for one model.

    Args:
        model: Model name.
        level: Thinking level; None for the model's default.
        origin: Server and model, as in the messages' `meta`.
        histories: Cache of the contents written for earlier requests.
    """

    model: str
    level: str | None = None
    origin: str = ""
    histories: WrittenHistories[_Contents] | None = None

    def write(
        self,
        messages: Sequence[Message],
        tools: Sequence[JsonFields] | None,
        options: Options,
    ) -> JsonObject:
        """Write the body of a request.

        Args:
            messages: The history, system message first. A message's `meta` may name the server and model that
                its additional fields come from.
            tools: Tool schemas in the shape of chat completions or of this protocol.
            options: Request options, named as in chat completions or as in this protocol, and ``extra_body``.

        Raises:
            ConfigError: The Gemini API has no such option, or the model rejects it.
        """
        model = GeminiModel(self.model)
        body = self._options(model, options, has_tools=bool(tools))
        body["contents"] = self._contents(messages, signs=model.is_3)
        # Cached content already includes the system prompt and the tools; the request must not add others.
        if "cachedContent" not in body:
            system = [
                _text(text) for m in messages if m["role"] in SYSTEM_ROLES for text in _texts(m["content"])
            ]
            if system:
                body["systemInstruction"] = {"parts": system}
            if tools:
                body["tools"] = _tools(tools)
                kinds = {name for tool in body["tools"] for name in tool}
                choice = options.get("tool_choice")
                config = body.get("toolConfig") or {}
                if (
                    "functionDeclarations" in kinds and len(kinds) > 1 and model.is_3
                ):  # the request also has server tools
                    config = {"includeServerSideToolInvocations": True, **config}
                    choice = None if choice == "auto" else choice  # VALIDATED is the default here
                config = {**_choice(choice), **config}
                if config and "functionDeclarations" in kinds:
                    body["toolConfig"] = config
        if not body.get("tools"):
            body.pop("toolConfig", None)
        body.update(options.get("extra_body") or {})
        return body

    def _contents(self, messages: Sequence[Message], *, signs: bool) -> list[JsonObject]:
        """Write the contents of a history; reuse those that an earlier request wrote for its beginning."""
        history = [message for message in messages if message["role"] not in SYSTEM_ROLES]
        settings = (self.origin, signs)
        contents, known = self.histories.find(settings, history) if self.histories else (None, 0)
        contents = contents.copy() if contents else _Contents(*settings)
        for number in range(known, len(history)):
            contents.add(history[number])
        if self.histories:
            self.histories.keep(settings, history, contents.copy(), known)
        return contents.finish()

    def _options(self, model: GeminiModel, options: Options, *, has_tools: bool) -> JsonObject:
        """Return the request fields for the options, including thinking."""
        body: JsonObject = {}
        config: JsonObject = {}
        for name, value in OPTIONS.read(options):
            if name in _TOP_LEVEL:
                body[name] = value
            elif name == "stopSequences":
                config[name] = as_list(value)
            elif name != "temperature" or not isinstance(value, Default):
                config[name] = value  # this package's default is omitted, because Gemini 3 needs its own
        config = {**config, **body.get("generationConfig", {})}
        config.update(_format(model, options.get("response_format"), has_tools=has_tools))
        level = options.get("reasoning_effort") or options.get("thinking_level") or self.level
        if "thinkingConfig" not in config:
            thinking = model.thinking_config(level)
            config.update({} if thinking is None else {"thinkingConfig": thinking})
        return {**body, **present(generationConfig=config or None)}


def _format(model: GeminiModel, form: object, *, has_tools: bool) -> JsonObject:
    """Return the fields of ``generationConfig`` for a ``response_format``."""
    if not isinstance(form, Mapping) or form.get("type") == "text":
        return {}
    if has_tools and not model.is_3:
        if isinstance(form, Default):
            return {}
        raise ConfigError(
            f"response_format: {model.name} rejects it together with tools. Use output_type=... instead."
        )
    if form.get("type") == "json_object":
        return {"responseMimeType": "application/json"}
    if form.get("type") != "json_schema":
        raise ConfigError(
            f"response_format={form!r:.80} has no counterpart in the Gemini API. Use 'json_schema'."
        )
    return {"responseMimeType": "application/json", "responseJsonSchema": form["json_schema"]["schema"]}


def _tools(tools: Iterable[JsonFields]) -> list[JsonObject]:
    """Convert chat-completions tools to this protocol; server tools stay unchanged."""
    declared = [_declaration(tool["function"]) for tool in tools if isinstance(tool.get("function"), Mapping)]
    others = [dict(tool) for tool in tools if not isinstance(tool.get("function"), Mapping)]
    return [{"functionDeclarations": declared}, *others] if declared else others


def _declaration(function: JsonFields) -> JsonObject:
    return {
        "name": function["name"],
        **present(
            description=function.get("description") or None,
            parametersJsonSchema=function.get("parameters") or None,
        ),
    }


def _choice(wanted: object) -> JsonObject:
    """Return the ``toolConfig`` for a ``tool_choice``; empty for the default."""
    if wanted is None:
        return {}
    if isinstance(wanted, Mapping) and isinstance(wanted.get("function"), Mapping):
        return _allowed("ANY", [wanted])
    allowed = wanted.get("allowed_tools") if isinstance(wanted, Mapping) else None
    if isinstance(allowed, Mapping):
        return _allowed("ANY" if allowed.get("mode") == "required" else "VALIDATED", allowed["tools"])
    if not isinstance(wanted, str) or wanted.lower() not in _MODES:
        raise ConfigError(
            f"tool_choice={wanted!r:.80} has no counterpart in the Gemini API. "
            f"Use one of: {', '.join(_MODES)}; or toolConfig=..."
        )
    return {"functionCallingConfig": {"mode": _MODES[wanted.lower()]}}


def _allowed(mode: str, tools: Iterable[JsonFields]) -> JsonObject:
    names = [tool["function"]["name"] for tool in tools]
    return {"functionCallingConfig": {"mode": mode, "allowedFunctionNames": names}}


# -- contents ---------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Contents:
    """Contents of a request, with adjacent contents of the same role merged.

    Args:
        origin: Server and model of the request.
        signs: Whether the first call of each content needs a signature, and results may hold files.
    """

    origin: str
    signs: bool
    _contents: list[JsonObject] = field(default_factory=list)
    _calls: dict[str, JsonObject] = field(default_factory=dict)  # calls as written, by id in the history

    def add(self, message: Message) -> None:
        """Add a message."""
        role = "user"
        if message["role"] == "assistant":
            role, parts = "model", self._response(message)
        elif message["role"] == "tool":
            parts = self._result(message)
        else:
            parts = _parts(message["content"])
        if not parts:
            return
        if role == "model" and not self._contents:
            self._contents.append({"role": "user", "parts": [_text(CONTINUE)]})
        if self._contents and self._contents[-1]["role"] == role:
            parts = [*self._contents.pop()["parts"], *parts]
        if role == "model" and self.signs:
            first = next((n for n, part in enumerate(parts) if "functionCall" in part), None)
            if first is not None and SIGNATURE not in parts[first]:
                parts[first] = {**parts[first], SIGNATURE: STAND_IN}
        self._contents.append({"role": role, "parts": parts})

    def copy(self) -> _Contents:
        """Return a copy that grows independently; the contents are shared."""
        return _Contents(self.origin, self.signs, [*self._contents], {**self._calls})

    def finish(self) -> list[JsonObject]:
        """Return the contents; the last one is from the user."""
        if not self._contents or self._contents[-1]["role"] == "model":
            self._contents.append({"role": "user", "parts": [_text(CONTINUE)]})
        return self._contents

    def _response(self, message: Message) -> list[JsonObject]:
        calls = [_call(call) for call in message.get("tool_calls") or ()]
        parts = None
        if message.get(PARTS) and message.get(META, {}).get("origin") == self.origin:
            parts = _kept(message, calls)
        if parts is None:
            parts = [*_parts(message.get("content")), *({"functionCall": call} for call in calls)]
        sent = [part["functionCall"] for part in parts if "functionCall" in part]
        ids = [call["id"] for call in message.get("tool_calls") or ()]
        self._calls.update(zip(ids, sent, strict=True))
        return parts

    def _result(self, message: Message) -> list[JsonObject]:
        """Return the parts for a result: the name and id of the call are repeated as sent."""
        call = self._calls.get(message["tool_call_id"], {"id": message["tool_call_id"]})
        content = message["content"]
        is_text = isinstance(content, str)
        media = [] if is_text else [part for part in _parts(content) if "text" not in part]
        inner = [
            part for part in media if self.signs and part.get("inlineData", {}).get("mimeType") in _IN_RESULTS
        ]
        text = content if is_text else "\n".join(_texts(content))
        outcome = {"error" if has_failed(message) else "output": text}
        response = {
            "name": call.get("name") or "unknown",
            "response": outcome,
            **({"id": call["id"]} if "id" in call else {}),
            **present(parts=inner or None),
        }
        return [{"functionResponse": response}, *(part for part in media if part not in inner)]


def _call(call: JsonFields) -> JsonObject:
    function = call["function"]
    return {
        "id": call["id"],
        "name": function["name"],
        "args": read_json(function["arguments"] or "{}"),
    }


def _kept(message: Message, calls: list[JsonObject]) -> list[JsonObject] | None:
    """Return the kept parts of a response, unchanged; None if the message has changed."""
    parts: list[JsonObject] = message[PARTS]
    text = "".join(part["text"] for part in parts if "text" in part and not part.get("thought"))
    if text.strip() != text_of(message.get("content") or "").strip():
        return None
    made = [part["functionCall"] for part in parts if "functionCall" in part]
    if [_said(call) for call in made] != [_said(call) for call in calls]:
        return None
    return [dict(part) for part in parts]


def _said(call: JsonFields) -> tuple[Any, Any]:
    return call.get("name"), call.get("args") or {}


# -- content ---------------------------------------------------------------------------------------------


def _text(text: str) -> JsonObject:
    return {"text": text}


def _texts(content: object) -> list[str]:
    return [part["text"] for part in _parts(content) if "text" in part]


def _parts(content: Any) -> list[JsonObject]:
    """Return the parts for a message's content; blank texts are omitted."""
    return [written for _, written in written_content(content, _text, _media)]


def _media(part: JsonFields) -> JsonObject | None:
    if part["type"] == "image_url":
        return _data(part["image_url"]["url"], "image/png")
    if part["type"] == "file":
        return _data(part["file"].get("file_id") or part["file"]["file_data"], "application/pdf")
    if part["type"] != "input_audio":
        return None
    audio = part["input_audio"]
    return {"inlineData": {"mimeType": f"audio/{audio['format']}", "data": audio["data"]}}


def _data(url: str, default: str) -> JsonObject:
    if (parts := split_data_url(url)) is not None:
        return {"inlineData": {"mimeType": parts[0] or default, "data": parts[1]}}
    return {"fileData": {"fileUri": url, "mimeType": mimetypes.guess_type(url)[0] or default}}

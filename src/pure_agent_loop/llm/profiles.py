"""Request fields, and the profiles of providers and model families, as data.

The first matching profile is used; `register` adds a profile before all others.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, get_args

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.llm.values import JsonFields, JsonObject, Options
from pure_agent_loop.media import MEDIA_KINDS
from pure_agent_loop.support.language import checked_choice

# The chat-completions protocol, as listed in `CompletionCreateParamsBase` of openai.types.chat (SDK 3.54),
# without the fields that a run sets (model, messages, tools) and `n`: a run reads one response.
PROTOCOL_FIELDS = frozenset((
    "audio", "frequency_penalty", "logit_bias", "logprobs", "max_completion_tokens", "max_tokens",
    "metadata", "modalities", "moderation", "parallel_tool_calls", "prediction", "presence_penalty",
    "prompt_cache_key", "prompt_cache_options", "prompt_cache_retention", "reasoning_effort",
    "response_format", "safety_identifier", "seed", "service_tier", "stop", "store", "stream",
    "stream_options", "temperature", "tool_choice", "top_logprobs", "top_p", "user", "verbosity",
    "web_search_options",
))  # fmt: skip
# Keyword arguments of the SDK's methods; only `extra_body` becomes part of the request's body.
TRANSPORT_FIELDS = frozenset({"extra_headers", "extra_query", "timeout"})
REQUEST_FIELDS = PROTOCOL_FIELDS | TRANSPORT_FIELDS | {"extra_body"}
# Default models with their shutdown dates, per OpenAI's deprecation list of 2026-11-25. If a server reports
# that a model no longer exists, the next model is used.
DEFAULT_MODELS = {"gpt-4o-mini": "2027-01-14", "gpt-6-luna": "", "gpt-6.1-terra": ""}
DEFAULT_TEMPERATURE = 0.7
# Request fields that switch thinking on; "{level}" becomes low, medium or high.
REASONING_EFFORT = {"reasoning_effort": "{level}"}  # OpenAI
THINKING_ENABLED = {"thinking": {"type": "enabled"}}  # DeepSeek, GLM, Kimi, Doubao and others
ENABLE_THINKING = {"enable_thinking": True}  # Qwen on DashScope
TEMPLATE_KWARGS = {"chat_template_kwargs": {"enable_thinking": True}}  # vLLM, SGLang, llama.cpp
REASONING = {"reasoning": {"effort": "{level}"}}  # OpenRouter
THINKING_DISABLED = {"thinking": {"type": "disabled"}}
NO_EFFORT = {"reasoning_effort": "none"}
# Strings that servers of open models turn into control tokens; `*` matches up to 64 characters. Other
# models read them as plain text, so one table also serves unknown models.
CONTROL_TOKENS = (
    "<|*|>", "<|*>", "<*|>",  # ChatML, Qwen, Llama 3, gpt-oss, GLM, Kimi, Phi, Granite, LFM2, Gemma 4
    "<｜*｜>", "｜DSML｜",  # DeepSeek, Hunyuan
    "<s>", "</s>", "<<SYS>>", "<</SYS>>", "[INST]", "[/INST]",  # Llama 2 and Mistral; next lines: Mistral
    "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]", "[TOOL_CALLS]",
    "[CALL_ID]", "[ARGS]", "[TOOL_RESULTS]", "[/TOOL_RESULTS]", "[TOOL_CONTENT]", "[THINK]", "[/THINK]",
    "[IMG]", "[IMG_*]",
    "<bos>", "<eos>", "<start_*>", "<end_*>", "<unused*>",  # Gemma
    "<tool_response>", "</tool_response>",  # Qwen: separates a tool's text from a person's
    "]~b]", "]~!b[", "[e~[", "<minimax:*>", "</minimax:*>",  # MiniMax
    "<seed:*>", "</seed:*>", "[|*|]", "[gMASK]", "<sop>", "<eop>",  # Seed-OSS, EXAONE, GLM
    "<reserved_*>", "<SPECIAL_*>", "<extra_id_*>",  # Baichuan, Nemotron
)  # fmt: skip
_DATE = r"(-\d{4}-\d\d-\d\d)?$"
# Providers of closed models: their servers never read text as control tokens.
_HOSTED = r"(api\.openai|openai\.azure|api\.anthropic)\.com"
# https://developers.openai.com/api/docs/guides/prompt-caching; Azure has the same field.
_TAKES_CACHE_KEY = r"https://(api\.openai|[\w-]+\.openai\.azure)\.com(/|:|$)"


class Default:
    """Marks the default value of a field; the field may be omitted if a server refuses it."""

    __slots__ = ()


class DefaultFloat(Default, float):
    """A default number."""

    __slots__ = ()


class DefaultInt(Default, int):
    """A default integer."""

    __slots__ = ()


class LearnedLimit(DefaultInt):
    """An output limit that the caller did not set: it comes from a profile or from a refusal."""

    __slots__ = ()


class DefaultText(Default, str):
    """A default string."""

    __slots__ = ()


class AnswerFormat(Default, dict[str, Any]):
    """The ``response_format`` of a typed answer. `tool_modes` decides how it is requested."""

    __slots__ = ()

    @property
    def schema(self) -> JsonObject:
        """The answer's JSON Schema."""
        schema: JsonObject = self["json_schema"]["schema"]
        return schema


class ForeignTool(Default, dict[str, Any]):
    """The entry in a request's ``tools`` for a tool from a toolset, such as an MCP server."""

    __slots__ = ()


class DefaultModel(str):
    """Name of the default model: equal to the plain string, but distinguishable by its type."""

    __slots__ = ()


DEFAULT_MODEL = DefaultModel(next(iter(DEFAULT_MODELS)))
NO_CALLS = DefaultText("none")  # default value of `tool_choice`


def chosen_fields(options: Options) -> frozenset[str]:
    """Return the fields that the caller set, including the fields in ``extra_body``."""
    own = {name for name, value in options.items() if value is not None and not isinstance(value, Default)}
    return frozenset(own | set(options.get("extra_body") or ()))


ThinkingLevel = Literal["off", "none", "low", "medium", "high"]
OutputMode = Literal["native", "tool", "prompted"]
THINKING_LEVELS: tuple[str, ...] = get_args(ThinkingLevel)


def _check_tokens(tokens: Collection[str]) -> None:
    for token in tokens:
        text = str(token)
        if text != token or len(text) < 2 or text[0] in "*\\" or not text.isprintable():
            raise ConfigError(
                f"Profile.control_tokens holds {token!r}. Use texts of two or more characters on one line; "
                "`*` matches some characters, but not the first."
            )


@dataclass(frozen=True, slots=True)
class Profile:
    """Settings for one provider or model family. Only differences from a plain server are set.

    Args:
        name: Display name.
        url: Regular expression searched in the base URL; empty matches all.
        model: Regular expression searched in the model name; empty matches all.
        thinking: Request fields that enable thinking.
        thinking_off: Request fields for ``thinking_level="none"``, for models that think by default; None for
            models that always think, for which the level is an error.
        levels: Thinking levels of the model, other than ``off`` and ``none``; any other level is an error.
        refuses: Request fields to omit, such as ``temperature`` or ``thinking.display``.
        output_limit_field: Name of the output limit, ``max_tokens`` or ``max_completion_tokens``; empty
            keeps the caller's.
        reasoning_echo: The field for sending reasoning back, such as ``reasoning_content``; empty sends none.
        echo_scope: Which reasoning to send back: ``round`` for that of messages with calls since the last
            question, ``history`` for that of all messages.
        system_role: The role of the leading system message: ``system``, ``developer``, or ``user``, which
            puts its text before the first question; empty keeps the role.
        alternates: Whether roles must alternate; if so, consecutive messages of one role are joined.
        user_after_tool: Whether a user message may follow a tool's result; if not, an assistant message is
            inserted.
        parallel_calls: Whether a message may hold several calls; if not, the history has one message per
            call.
        null_content: Whether a message with calls may lack content; if not, the content is an empty string.
        call_stand_in: Fields to add to the first call of a message if it lacks them, as calls by another
            model do.
        call_id_length: Number of letters and digits in a call id; None allows any id.
        call_id_limit: Maximum length of a call id, which may hold only letters, digits, ``_`` and ``-``;
            other ids are replaced. None allows any id.
        property_names: Regular expression that the names of properties in schemas must match as a whole;
            other names are replaced in requests and restored in responses. Empty allows any name.
        schema_without: JSON Schema keywords that tool schemas must not use.
        description_limit: Maximum characters of a tool's description; None for no limit.
        streaming: True if every request must be streamed, False if none may be, None for both.
        window: Tokens of the context window, input and output together; None if unknown.
        likelihoods: Whether the server returns token likelihoods, even in constrained output; None to detect.
        able: Whether the model, in JSON tool mode, may write several calls at once, continue after a result
            and use values that are not in the question; None to test it on worked examples.
        max_output: Default limit of output tokens; None for the server's limit.
        tool_mode: Mode that ``tool_mode="auto"`` tries first; empty for ``native``.
        takes: Accepted media: any of ``image``, ``file``, ``audio``. Other media are described in words,
            except in the newest question. None to detect.
        output_mode: How typed answers are requested: ``native``, ``tool`` or ``prompted``; empty chooses by
            whether there are tools.
        message_refuses: Fields to leave out of messages and of the calls in them, such as ``annotations``.
        control_tokens: Strings that the server would read as control tokens, such as ``<|im_end|>``; ``*``
            matches 1 to 64 characters. These strings are broken up in requests, so that no data can end a
            turn. None for `CONTROL_TOKENS`; empty to break up nothing.
        cache_key: Whether to send a generated ``prompt_cache_key``, which keeps the requests of a
            conversation on one machine; None sends it to OpenAI only.
        cache_marks: Whether to mark parts of messages for the cache, with ``cache_control``.
    """

    name: str
    url: str = ""
    model: str = ""
    thinking: JsonFields = field(default_factory=lambda: THINKING_ENABLED)
    thinking_off: JsonFields | None = field(default_factory=dict, kw_only=True)
    levels: Collection[str] = field(default=("low", "medium", "high"), kw_only=True)
    refuses: Collection[str] = ()
    output_limit_field: str = ""
    reasoning_echo: str = ""
    echo_scope: Literal["round", "history"] = "round"
    system_role: Literal["", "system", "developer", "user"] = ""
    alternates: bool = False
    user_after_tool: bool = True
    parallel_calls: bool = True
    null_content: bool = True
    call_stand_in: JsonFields = field(default_factory=dict, kw_only=True)
    call_id_length: int | None = None
    call_id_limit: int | None = field(default=None, kw_only=True)
    property_names: str = field(default="", kw_only=True)
    schema_without: Collection[str] = ()
    description_limit: int | None = None
    streaming: bool | None = None
    window: int | None = None
    likelihoods: bool | None = None
    able: bool | None = None
    max_output: int | None = None
    tool_mode: Literal["", "native", "json", "text"] = ""
    takes: Collection[str] | None = None
    output_mode: Literal["", "native", "tool", "prompted"] = ""
    message_refuses: Collection[str] = ()
    control_tokens: Collection[str] | None = None
    cache_key: bool | None = None
    cache_marks: bool = False

    def __post_init__(self) -> None:
        for name in ("levels", "refuses", "message_refuses", "schema_without", "takes", "control_tokens"):
            value = getattr(self, name)
            if value is None and name in ("takes", "control_tokens"):
                continue
            if isinstance(value, str):
                raise ConfigError(f"Profile.{name}={value!r} must be a list of names: [{value!r}].")
            object.__setattr__(self, name, tuple(value))  # a tuple, so that equal profiles compare equal
        if wrong := [kind for kind in self.takes or () if kind not in MEDIA_KINDS]:
            raise ConfigError(f"Profile.takes holds unknown {wrong!r}. Use: {', '.join(MEDIA_KINDS)}.")
        _check_tokens(self.control_tokens or ())
        for name in ("url", "model", "property_names"):
            pattern = getattr(self, name)
            try:
                re.compile(pattern, re.I)
            except re.error as error:
                problem = f"Profile.{name}={pattern!r} is not a regular expression: {error}."
                raise ConfigError(problem) from error

    def to_code(self) -> str:
        """Return the profile as Python code, without default values."""
        arguments = [
            f"{setting.name}={getattr(self, setting.name)!r}"
            for setting in fields(self)[1:]
            if getattr(self, setting.name) != getattr(PLAIN, setting.name)
        ]
        return f"Profile({', '.join([repr(self.name), *arguments])})"

    def matches(self, base_url: str, model: str) -> bool:
        """Return True if this profile applies to a model at a base URL."""
        return bool(re.search(self.url, base_url, re.I) and re.search(self.model, model, re.I))

    def thinking_fields(self, level: str) -> JsonObject:
        """Return the request fields for a thinking level; none for ``off``.

        Raises:
            ConfigError: The level is unknown, or the model has no such level.
        """
        check_thinking_level(level)
        if level == "off":
            return {}
        if level == "none":
            if self.thinking_off is None:
                raise ConfigError(
                    f"thinking_level='none': {self.name} always thinks. Use 'low', or leave it out."
                )
            return dict(self.thinking_off)
        if level not in self.levels:
            known = " or ".join(map(repr, self.levels))
            raise ConfigError(f"thinking_level={level!r}: {self.name} has no such level. Use {known}.")
        return dict(_filled(self.thinking, level))


_OPENAI_REASONING = Profile(
    "OpenAI reasoning models",
    model=r"^(openai/)?(o[134](-|$)|gpt-([5-9]|\d\d)(?!.*chat))",
    thinking=REASONING_EFFORT,
    refuses=["temperature"],
    output_limit_field="max_completion_tokens",
    output_mode="native",
    control_tokens=(),
)
_OPENAI = Profile("OpenAI", output_mode="native", control_tokens=())
# Windows from OpenAI's list of models; families with uncertain windows are omitted.
_OPENAI_WINDOWS = [
    replace(_OPENAI_REASONING, model=rf"^gpt-5(-mini|-nano)?{_DATE}", window=400_000),
    replace(_OPENAI_REASONING, model=rf"^(o1|o1-pro|o3|o3-mini|o3-pro|o4-mini){_DATE}", window=200_000),
    replace(_OPENAI, name="OpenAI GPT-4.1", model=rf"^gpt-4\.1(-mini|-nano)?{_DATE}", window=1_047_576),
    replace(_OPENAI, name="OpenAI GPT-4o", model=rf"^gpt-4(o|o-mini){_DATE}", window=128_000),
    Profile("OpenAI GPT-4 Turbo", model=rf"^gpt-4-turbo{_DATE}", window=128_000, control_tokens=()),
    Profile(
        "OpenAI GPT-3.5",
        model=r"^gpt-3\.5-turbo(-0125|-1106)?$",
        window=16_385,
        takes=(),
        control_tokens=(),
    ),
]


PLAIN = Profile("any other server")

_OPENROUTER = Profile(
    "OpenRouter",
    url=r"openrouter\.ai",
    thinking=REASONING,
    thinking_off={"reasoning": {"enabled": False}},
    output_limit_field="max_tokens",
)
_DASHSCOPE = Profile(
    "DashScope",
    url=r"dashscope[\w-]*\.aliyuncs\.com",
    thinking=ENABLE_THINKING,
    thinking_off={"enable_thinking": False},
)
# From the providers' documentation and the provider packages of pydantic-ai 2.68 and the AI SDK, checked
# 2026-11-25; other settings are learned from refusals (`lessons`).
PROFILES: list[Profile] = [
    # At OpenRouter only Claude needs marks. Gemini caches by default, and a mark near the end doubles the
    # cost.
    replace(_OPENROUTER, model=r"^~?anthropic/", cache_marks=True),
    _OPENROUTER,
    # With marks, a cached token costs 0.1 of the input price; without marks 0.2, and not every prefix is
    # found: https://www.alibabacloud.com/help/en/model-studio/context-cache
    replace(_DASHSCOPE, model="^qwen", cache_marks=True),
    _DASHSCOPE,
    Profile(
        "DeepSeek",
        url=r"api\.deepseek\.com",
        thinking={**THINKING_ENABLED, **REASONING_EFFORT},
        thinking_off=THINKING_DISABLED,
        output_limit_field="max_tokens",  # the server ignores `max_completion_tokens`
        reasoning_echo="reasoning_content",
        echo_scope="history",
        takes=(),
        output_mode="tool",  # the server does not support json_schema
    ),
    Profile(
        "Kimi K3",
        url=r"api\.moonshot\.(ai|cn)",
        model="^kimi-k3",
        thinking=REASONING_EFFORT,
        refuses=["temperature"],
        reasoning_echo="reasoning_content",
        echo_scope="history",
    ),
    Profile(
        "Kimi",
        url=r"api\.moonshot\.(ai|cn)",
        thinking_off=THINKING_DISABLED,
        refuses=["temperature"],
        reasoning_echo="reasoning_content",
        echo_scope="history",
    ),
    Profile(
        "GLM 5.3",
        url=r"(api\.z\.ai|open\.bigmodel\.cn)",
        model=r"^glm-5\.3",
        thinking={"thinking": {"type": "enabled", "clear_thinking": False}, **REASONING_EFFORT},
        thinking_off=None,
        levels=[
            "low",
            "high",
        ],  # efforts are low, high and max; any other is an error: charmbracelet/catwalk#603
        reasoning_echo="reasoning_content",
        echo_scope="history",
        # The model returns arguments as text if their schema is a reference.
        schema_without=["$ref", "$defs"],
    ),
    Profile(
        "GLM 5.2",
        url=r"(api\.z\.ai|open\.bigmodel\.cn)",
        model=r"^glm-5\.2",
        thinking={"thinking": {"type": "enabled", "clear_thinking": False}, **REASONING_EFFORT},
        thinking_off=THINKING_DISABLED,
        reasoning_echo="reasoning_content",
        echo_scope="history",
    ),
    Profile(
        "GLM",
        url=r"(api\.z\.ai|open\.bigmodel\.cn)",
        thinking={"thinking": {"type": "enabled", "clear_thinking": False}},
        thinking_off=THINKING_DISABLED,
        reasoning_echo="reasoning_content",
        echo_scope="history",
    ),
    Profile(
        "MiniMax M2",
        url=r"api\.minimaxi?\.(io|com|chat)",
        model="minimax-m2",
        thinking={},  # no field, because the server ignores a thinking switch
        thinking_off=None,
    ),
    Profile(
        "MiniMax",
        url=r"api\.minimaxi?\.(io|com|chat)",
        thinking={"thinking": {"type": "adaptive"}},
        thinking_off=THINKING_DISABLED,
    ),
    Profile(
        "Mistral",
        url=r"api\.mistral\.ai",
        thinking={"reasoning_effort": "high"},
        thinking_off=NO_EFFORT,
        refuses=["stream_options"],
        output_limit_field="max_tokens",
        user_after_tool=False,
        call_id_length=9,
    ),
    Profile(
        "gpt-oss at Groq and Cerebras",
        url=r"api\.(groq\.com|cerebras\.ai)",
        model="gpt-oss",
        thinking=REASONING_EFFORT,
        thinking_off=None,  # Cerebras rejects the value "none"
    ),
    # https://console.groq.com/docs/reasoning
    Profile(
        "Qwen3 at Groq",
        url=r"api\.groq\.com",
        model="qwen3",
        thinking={"reasoning_effort": "default"},
        thinking_off=NO_EFFORT,
    ),
    # https://inference-docs.cerebras.ai/capabilities/reasoning
    Profile("Cerebras", url=r"api\.cerebras\.ai", thinking=REASONING_EFFORT, thinking_off=NO_EFFORT),
    # https://docs.x.ai/guides/reasoning
    Profile(
        "Grok 4.3",
        url=r"api\.x\.ai",
        model=r"^grok-4\.3",
        thinking=REASONING_EFFORT,
        thinking_off=NO_EFFORT,
    ),
    Profile(
        "Grok 4.5 and later",
        url=r"api\.x\.ai",
        model=r"^grok-(4\.[5-9]|[5-9]|\d\d)(?!\d)",
        thinking=REASONING_EFFORT,
        thinking_off=None,
    ),
    Profile("Groq and xAI", url=r"api\.(groq\.com|x\.ai)", thinking=REASONING_EFFORT),
    # https://docs.ollama.com/api/openai-compatibility
    Profile(
        "Ollama",
        url=r"(:11434(/|$)|//ollama\.com(/|$))",
        thinking=REASONING_EFFORT,
        thinking_off=NO_EFFORT,
    ),
    Profile(
        "Gemini",
        url=r"generativelanguage\.googleapis\.com",
        thinking=REASONING_EFFORT,
        thinking_off=NO_EFFORT,
        # The signature that Google documents for calls from other models.
        call_stand_in={
            "extra_content": {"google": {"thought_signature": "skip_thought_signature_validator"}}
        },
        control_tokens=(),
    ),
    *_OPENAI_WINDOWS,
    _OPENAI_REASONING,
    Profile("OpenAI and Anthropic", url=_HOSTED, control_tokens=()),
    PLAIN,
]


def takes_cache_key(base_url: str) -> bool:
    """Return True for a server that is known to accept a ``prompt_cache_key``."""
    return re.match(_TAKES_CACHE_KEY, base_url, re.I) is not None


def register(profile: Profile) -> None:
    """Register a profile before all others, for this process."""
    PROFILES.insert(0, profile)


def profile_for(base_url: str, model: str) -> Profile:
    """Return the first matching profile."""
    return next(profile for profile in PROFILES if profile.matches(base_url, model))


def check_thinking_level(level: str) -> None:
    """Reject an unknown thinking level.

    Raises:
        ConfigError: The level is unknown.
    """
    checked_choice("thinking_level", level, THINKING_LEVELS)


def _filled(template: object, level: str) -> Any:
    if isinstance(template, Mapping):
        return {key: _filled(value, level) for key, value in template.items()}
    return level if template == "{level}" else template

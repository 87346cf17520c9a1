"""Fields of requests, and what providers and model families need of them, as data.

Of the profiles the first match wins; yours go first with `register`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import field, fields, replace
from typing import Any, Literal, get_args

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.media import MEDIA_KINDS
from pure_agent_loop.support.typed import dataclass

# The chat-completions protocol, as `CompletionCreateParamsBase` of openai.types.chat (SDK 3.54) lists it,
# without what a run writes itself (model, messages, tools) and `n`: a run reads one answer.
PROTOCOL_FIELDS = frozenset((
    "audio", "frequency_penalty", "logit_bias", "logprobs", "max_completion_tokens", "max_tokens",
    "metadata", "modalities", "moderation", "parallel_tool_calls", "prediction", "presence_penalty",
    "prompt_cache_key", "prompt_cache_options", "prompt_cache_retention", "reasoning_effort",
    "response_format", "safety_identifier", "seed", "service_tier", "stop", "store", "stream",
    "stream_options", "temperature", "tool_choice", "top_logprobs", "top_p", "user", "verbosity",
    "web_search_options",
))  # fmt: skip
# Keywords of the SDK's own calls; of these only `extra_body` becomes part of the request's body.
TRANSPORT_FIELDS = frozenset({"extra_headers", "extra_query", "timeout"})
REQUEST_FIELDS = PROTOCOL_FIELDS | TRANSPORT_FIELDS | {"extra_body"}


class Default:
    """Marks the value of a field that this package chose, so that it may be left out where it is refused."""

    __slots__ = ()


class DefaultFloat(Default, float):
    """A number of ours."""

    __slots__ = ()


class DefaultInt(Default, int):
    """A whole number of ours."""

    __slots__ = ()


class DefaultText(Default, str):
    """A word of ours."""

    __slots__ = ()


class AnswerFormat(Default, dict[str, Any]):
    """The ``response_format`` of a typed answer. `tool_modes` decides how the server is asked for it."""

    __slots__ = ()

    @property
    def schema(self) -> dict[str, Any]:
        """JSON Schema of the answer."""
        schema: dict[str, Any] = self["json_schema"]["schema"]
        return schema


class DefaultModel(str):
    """The name of the model used when the caller chose none: equal to it, but recognisable."""

    __slots__ = ()


DEFAULT_MODEL = DefaultModel("gpt-4o-mini")
DEFAULT_TEMPERATURE = DefaultFloat(0.7)
NO_CALLS = DefaultText("none")  # of `tool_choice`


def chosen_fields(options: Mapping[str, Any]) -> frozenset[str]:
    """The fields that a caller has set, those of ``extra_body`` included."""
    own = {name for name, value in options.items() if value is not None and not isinstance(value, Default)}
    return frozenset(own | set(options.get("extra_body") or ()))


ThinkingLevel = Literal["off", "low", "medium", "high"]
OutputMode = Literal["native", "tool", "prompted"]
THINKING_LEVELS: tuple[str, ...] = get_args(ThinkingLevel)

# Request fields that switch thinking on; "{level}" becomes low, medium or high.
REASONING_EFFORT = {"reasoning_effort": "{level}"}  # OpenAI
THINKING_ENABLED = {"thinking": {"type": "enabled"}}  # DeepSeek, GLM, Kimi, Doubao and others
ENABLE_THINKING = {"enable_thinking": True}  # Qwen on DashScope
TEMPLATE_KWARGS = {"chat_template_kwargs": {"enable_thinking": True}}  # vLLM, SGLang, llama.cpp
REASONING = {"reasoning": {"effort": "{level}"}}  # OpenRouter


def _check_pattern(name: str, pattern: str) -> None:
    try:
        re.compile(pattern, re.I)
    except re.error as error:
        raise ConfigError(f"Profile.{name}={pattern!r} is no regular expression: {error}.") from error


@dataclass(frozen=True, slots=True)
class Profile:
    """The needs of one provider or model family. What differs from a plain server is set, the rest is not.

    Args:
        name: For people.
        url: Regular expression searched in the base URL; empty matches all.
        model: Regular expression searched in the model name; empty matches all.
        thinking: Request fields that switch thinking on.
        refuses: Request fields that are left out, such as ``temperature`` or ``stream_options``.
        output_limit_field: How the output limit is called, ``max_tokens`` or ``max_completion_tokens``; empty
            leaves it as the caller wrote it.
        reasoning_echo: The field in which the model wants its own thinking back, such as
            ``reasoning_content``; empty sends none.
        echo_scope: Where it wants it: in the ``round`` since the last question, or in the whole ``history``.
        system_role: The role of the leading system message: ``system``, ``developer``, or ``user``, which
            puts its text in front of the first question; empty leaves it as it is.
        alternates: The sides must take turns: neighbours of one role are joined.
        user_after_tool: A user message may follow a tool's result; else the assistant says a word between.
        parallel_calls: A message may hold several calls; else the history has one message for each.
        null_content: A message with calls may have no content; else it is an empty text.
        call_id_length: Call ids must be so many letters and digits; None allows any.
        schema_without: JSON Schema keywords that tools' schemas must not use.
        streaming: True if every request must be streamed, False if none may be, None for both.
        window: Tokens of the context window, input and output together; None if not known.
        likelihoods: Whether it says how likely its tokens are, also in constrained output; None to find out.
        able: Whether its model may write several calls at once, go on after a result and use values of its
            own where tools are put to it as JSON; None to try it on worked examples.
        max_output: Tokens of an answer unless the caller says otherwise; None for the server's own limit.
        tool_mode: What ``tool_mode="auto"`` begins with; empty for ``native``.
        takes: What may come out of tools beside text: of ``image``, ``file``, ``audio``. What else comes is
            said in words. None to find out.
        output_mode: How typed answers are asked for: ``native``, ``tool`` or ``prompted``; empty decides by
            whether there are tools.
    """

    name: str
    url: str = ""
    model: str = ""
    thinking: Mapping[str, Any] = field(default_factory=lambda: THINKING_ENABLED)
    refuses: Collection[str] = ()
    output_limit_field: str = ""
    reasoning_echo: str = ""
    echo_scope: Literal["round", "history"] = "round"
    system_role: Literal["", "system", "developer", "user"] = ""
    alternates: bool = False
    user_after_tool: bool = True
    parallel_calls: bool = True
    null_content: bool = True
    call_id_length: int | None = None
    schema_without: Collection[str] = ()
    streaming: bool | None = None
    window: int | None = None
    likelihoods: bool | None = None
    able: bool | None = None
    max_output: int | None = None
    tool_mode: Literal["", "native", "json", "text"] = ""
    takes: Collection[str] | None = None
    output_mode: Literal["", "native", "tool", "prompted"] = ""

    def __post_init__(self) -> None:
        for name in ("refuses", "schema_without", "takes"):
            value = getattr(self, name)
            if name == "takes" and value is None:
                continue
            if isinstance(value, str):
                raise ConfigError(f"Profile.{name}={value!r} must be a list of names: [{value!r}].")
            object.__setattr__(self, name, tuple(value))  # equal however it was given
        if wrong := [each for each in self.takes or () if each not in MEDIA_KINDS]:
            raise ConfigError(f"Profile.takes={wrong!r}: it may hold {', '.join(MEDIA_KINDS)}.")
        for name in ("url", "model"):
            _check_pattern(name, getattr(self, name))

    def to_code(self) -> str:
        """The profile as Python, to paste into a program: only what is not the default."""
        given = [
            f"{each.name}={getattr(self, each.name)!r}"
            for each in fields(self)[1:]
            if getattr(self, each.name) != getattr(PLAIN, each.name)
        ]
        return f"Profile({', '.join([repr(self.name), *given])})"

    def matches(self, base_url: str, model: str) -> bool:
        """True if this profile is for that model at that address."""
        return bool(re.search(self.url, base_url, re.I) and re.search(self.model, model, re.I))

    def thinking_fields(self, level: str) -> dict[str, Any]:
        """Request fields for a thinking level; none for ``off``.

        Raises:
            ConfigError: There is no such level.
        """
        check_thinking_level(level)
        return {} if level == "off" else _filled(self.thinking, level)


_OPENAI_REASONING = Profile(
    "OpenAI reasoning models",
    model=r"^(openai/)?(o[134](-|$)|gpt-([5-9]|\d\d)(?!.*chat))",
    thinking=REASONING_EFFORT,
    refuses=["temperature"],
    output_limit_field="max_completion_tokens",
    output_mode="native",
)
_DATE = r"(-\d{4}-\d\d-\d\d)?$"
# Windows as OpenAI's own list of models gives them; a family that is not certain is left out.
_OPENAI_WINDOWS = [
    replace(_OPENAI_REASONING, model=rf"^gpt-5(-mini|-nano)?{_DATE}", window=400_000),
    replace(_OPENAI_REASONING, model=rf"^(o1|o1-pro|o3|o3-mini|o3-pro|o4-mini){_DATE}", window=200_000),
    Profile(
        "OpenAI GPT-4.1", model=rf"^gpt-4\.1(-mini|-nano)?{_DATE}", window=1_047_576, output_mode="native"
    ),
    Profile("OpenAI GPT-4o", model=rf"^gpt-4(o|o-mini){_DATE}", window=128_000, output_mode="native"),
    Profile("OpenAI GPT-4 Turbo", model=rf"^gpt-4-turbo{_DATE}", window=128_000),
    Profile("OpenAI GPT-3.5", model=r"^gpt-3\.5-turbo(-0125|-1106)?$", window=16_385, takes=()),
]

PLAIN = Profile("any other server")

# Providers' own documents say these; what they do not say is learned from their refusals (`lessons`).
PROFILES: list[Profile] = [
    Profile("OpenRouter", url=r"openrouter\.ai", thinking=REASONING),
    Profile("DashScope", url=r"dashscope[\w-]*\.aliyuncs\.com", thinking=ENABLE_THINKING),
    Profile("DeepSeek", url=r"api\.deepseek\.com", reasoning_echo="reasoning_content", takes=()),
    Profile("Kimi", url=r"api\.moonshot\.(ai|cn)", reasoning_echo="reasoning_content"),
    Profile(
        "Mistral",
        url=r"api\.mistral\.ai",
        refuses=["stream_options"],
        output_limit_field="max_tokens",
        user_after_tool=False,
        call_id_length=9,
    ),
    Profile("Groq and xAI", url=r"api\.(groq\.com|x\.ai)", thinking=REASONING_EFFORT),
    *_OPENAI_WINDOWS,
    _OPENAI_REASONING,
    PLAIN,
]


def register(profile: Profile) -> None:
    """Put a profile before all others, for this process."""
    PROFILES.insert(0, profile)


def profile_for(base_url: str, model: str) -> Profile:
    """The first profile that matches."""
    return next(profile for profile in PROFILES if profile.matches(base_url, model))


def check_thinking_level(level: str) -> None:
    """Refuse a thinking level that does not exist.

    Raises:
        ConfigError: It names the levels there are.
    """
    if level not in THINKING_LEVELS:
        raise ConfigError(f"thinking_level={level!r} is not known. Use one of: {', '.join(THINKING_LEVELS)}.")


def _filled(template: Any, level: str) -> Any:
    if isinstance(template, Mapping):
        return {key: _filled(value, level) for key, value in template.items()}
    return level if template == "{level}" else template

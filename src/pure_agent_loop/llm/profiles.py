"""What providers and model families need, as data. First match wins; yours go first with `register`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from pure_agent_loop.errors import ConfigError

ThinkingLevel = Literal["off", "low", "medium", "high"]
THINKING_LEVELS: tuple[str, ...] = get_args(ThinkingLevel)

# Request fields that switch thinking on; "{level}" becomes low, medium or high.
REASONING_EFFORT = {"reasoning_effort": "{level}"}  # OpenAI
THINKING_ENABLED = {"thinking": {"type": "enabled"}}  # DeepSeek, GLM, Kimi, Doubao and others
ENABLE_THINKING = {"enable_thinking": True}  # Qwen on DashScope
TEMPLATE_KWARGS = {"chat_template_kwargs": {"enable_thinking": True}}  # vLLM, SGLang, llama.cpp
REASONING = {"reasoning": {"effort": "{level}"}}  # OpenRouter


@dataclass(frozen=True, slots=True)
class Profile:
    """The needs of one provider or model family.

    Args:
        name: For people.
        url: Regular expression searched in the base URL; empty matches all.
        model: Regular expression searched in the model name; empty matches all.
        thinking: Request fields that switch thinking on.
        rejects_temperature: The provider refuses `temperature`, so it is left out.
        stream_options: The provider understands ``stream_options`` and so reports usage in a stream.
    """

    name: str
    url: str = ""
    model: str = ""
    thinking: Mapping[str, Any] = field(default_factory=lambda: THINKING_ENABLED)
    rejects_temperature: bool = False
    stream_options: bool = True

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


PROFILES: list[Profile] = [
    Profile("OpenRouter", url=r"openrouter\.ai", thinking=REASONING),
    Profile("DashScope", url=r"dashscope[\w-]*\.aliyuncs\.com", thinking=ENABLE_THINKING),
    Profile(
        "OpenAI reasoning models",
        model=r"^(openai/)?(o[134](-|$)|gpt-([5-9]|\d\d)(?!.*chat))",
        thinking=REASONING_EFFORT,
        rejects_temperature=True,
    ),
    Profile("any other server"),
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

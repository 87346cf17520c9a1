"""The request fields that each family of Claude models accepts, as data; checked 2026-11-27.

Source: the ``anthropic`` package 2.14.0, and pydantic-ai 2.68.0 (``profiles/anthropic.py``), which probed
most of these rules; and, for tool changes, Anthropic's page "Mid-conversation system messages". The first
matching family is used; `register` adds a family before all others. Models from other vendors that use the
same protocol get `OTHER`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Literal

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.llm.values import JsonFields, JsonObject, mapping_of

OLD_VERSION, VERSION = "2023-06-01", "2026-10-21"  # API versions; the newer one rejects sampling fields
Thinking = Literal["none", "budget", "adaptive", "enabled"]
# Thinking budgets in tokens, for models that take one. Anthropic's lower limit is 1,024.
BUDGETS = {"low": 4_096, "medium": 12_288, "high": 24_576}
EFFORTS = ("low", "medium", "high", "xhigh", "max")
# Without `display`, newer models return thinking without its text.
_ADAPTIVE = {"type": "adaptive", "display": "summarized"}


@dataclass(frozen=True)
class ClaudeFamily:
    """Rules for a model family.

    Args:
        name: Name used in messages.
        models: Regular expression for the models' names.
        thinking: How thinking is requested: ``budget`` (``budget_tokens``), ``adaptive``, ``enabled`` (other
            vendors' switch without a budget), or ``none``.
        thinks_unasked: Whether the model thinks if ``thinking`` is omitted.
        off: The ``thinking.type`` that switches thinking off; None if it cannot be switched off.
        efforts: Levels of ``output_config.effort``; empty if the field is rejected.
        takes_sampling: Whether ``temperature``, ``top_p`` and ``top_k`` are accepted.
        takes_forced_choice: Whether ``tool_choice`` may force a call: ``yes``, ``no``, or
            ``without_thinking`` (only while the model does not think).
        takes_format: Whether ``output_config.format`` is accepted, for typed answers.
        binds_thinking: Whether thinking stays valid only while the system prompt, tools and messages before
            it are unchanged.
        takes_tool_changes: Whether messages of role ``system`` may change the tools mid-conversation, which
            is a beta feature of Anthropic's own servers.
        max_output: Largest ``max_tokens``, in tokens.
        version: Header ``anthropic-version``.
    """

    name: str
    models: str
    thinking: Thinking = "adaptive"
    thinks_unasked: bool = False
    off: str | None = "disabled"
    efforts: tuple[str, ...] = EFFORTS
    takes_sampling: bool = False
    takes_forced_choice: Literal["yes", "no", "without_thinking"] = "yes"
    takes_format: bool = True
    binds_thinking: bool = False
    takes_tool_changes: bool = False
    max_output: int = 128_000
    version: str = VERSION

    def thinking_fields(self, level: str | None) -> JsonObject:
        """Return the request fields for a level.

        Args:
            level: ``none``, ``low``, ``medium`` or ``high``; None or ``off`` for the model's default.

        Raises:
            ConfigError: The family has no such level.
        """
        if level in (None, "off"):
            return {"thinking": _ADAPTIVE} if self.thinks_unasked and self.thinking == "adaptive" else {}
        if level == "none":
            if self.off is None:
                raise ConfigError(
                    f"thinking_level='none': {self.name} always thinks. Use 'low', or leave it out."
                )
            return {"thinking": {"type": self.off}} if self.thinks_unasked else {}
        if self.thinking == "none":
            raise ConfigError(
                f"thinking_level={level!r}: {self.name} cannot think. Use 'off', or leave it out."
            )
        if self.thinking == "budget":
            return {"thinking": {"type": "enabled", "budget_tokens": BUDGETS[level]}}
        if self.thinking == "enabled":
            return {"thinking": {"type": "enabled"}}
        return {"thinking": _ADAPTIVE, **({"output_config": {"effort": level}} if self.efforts else {})}


def _model(names: str, *versions: str) -> str:
    """Return the pattern for Claude models whose version is followed by a date or by nothing."""
    numbers = "|".join(version.replace(".", "[-.]") for version in versions)
    return rf"claude-(?:{names})-(?:{numbers})(?![-.]?\d{{1,2}}(?!\d))"


_BUDGET = ClaudeFamily(
    "Claude Sonnet 4.5 and Haiku 4.5",
    _model("sonnet|haiku", "4.5"),
    "budget",
    efforts=(),
    takes_sampling=True,
    takes_forced_choice="without_thinking",
    max_output=64_000,
    version=OLD_VERSION,
)
_ADAPTS = ClaudeFamily("Claude Opus 4.7", _model("opus", "4.7"), version=OLD_VERSION)
_THINKS = ClaudeFamily(
    "Claude Opus 5", _model("opus", "5", "5.0"), thinks_unasked=True, takes_tool_changes=True
)
_BINDS = replace(_THINKS, name="Claude Haiku 5.5", models=_model("haiku", "5.5"), binds_thinking=True)

FAMILIES: list[ClaudeFamily] = [
    replace(
        _BUDGET,
        name="Claude 3",
        models=r"claude-(?:3-[05]|3-haiku|3-opus|3-sonnet|3\.[05]|2|instant)",
        thinking="none",
        max_output=4_096,
        takes_format=False,
    ),
    replace(
        _BUDGET,
        name="Claude 3.7 and Sonnet 4",
        models=rf"claude-3[-.]7|{_model('sonnet', '4', '4.0')}",
        takes_format=False,
    ),
    replace(
        _BUDGET, name="Claude Opus 4 and 4.1", models=_model("opus", "4", "4.0", "4.1"), max_output=32_000
    ),
    replace(_BUDGET, name="Claude Opus 4.5", models=_model("opus", "4.5"), efforts=("low", "medium", "high")),
    _BUDGET,
    replace(
        _ADAPTS,
        name="Claude 4.6",
        models=_model("opus|sonnet", "4.6"),
        efforts=("low", "medium", "high", "max"),
        takes_sampling=True,
    ),
    _ADAPTS,
    replace(_ADAPTS, name="Claude Opus 4.8", models=_model("opus", "4.8"), takes_tool_changes=True),
    replace(_THINKS, name="Claude Sonnet 5", models=_model("sonnet", "5", "5.0"), takes_tool_changes=False),
    _THINKS,
    replace(_THINKS, name="Claude Fable 5 and Mythos 5", models=_model("fable|mythos", "5", "5.0"), off=None),
    _BINDS,
    replace(
        _BINDS,
        name="Claude Sonnet 5.5",
        models=_model("sonnet", "5.5"),
        off="between_tools",
        takes_forced_choice="no",
    ),
    replace(
        _THINKS,
        name="Claude Mythos 5.1",
        models=_model("mythos", "5.1"),
        off=None,
        takes_forced_choice="no",
    ),
    # Newer models most likely follow the newest rules.
    replace(
        _BINDS,
        name="Claude 5.1 and later",
        models=r"claude-[a-z]+-(?:\d|latest)",
        off=None,
        takes_forced_choice="no",
    ),
]
OTHER = ClaudeFamily(
    "another vendor's model",
    "",
    "enabled",
    efforts=(),
    takes_sampling=True,
    max_output=8_192,
    version=OLD_VERSION,
    takes_format=False,
)


def family_for(model: str) -> ClaudeFamily:
    """Return the family of a model by its name.

    Args:
        model: Name, possibly with a cloud's prefix or suffix, such as ``anthropic.claude-opus-4-6-v1:0``.
    """
    name = model.lower()
    return next((family for family in FAMILIES if re.search(family.models, name)), OTHER)


def refined(family: ClaudeFamily, info: JsonFields) -> ClaudeFamily:
    """Return a family, updated with the server's description of the model.

    Args:
        family: The family found by the model's name.
        info: The ``ModelInfo`` from ``GET /v1/models/NAME``; rules that it does not mention stay unchanged.
    """
    capabilities, limit = mapping_of(info.get("capabilities")), info.get("max_tokens")
    known: JsonObject = {"max_output": limit} if type(limit) is int and limit > 0 else {}
    types = mapping_of(mapping_of(capabilities.get("thinking")).get("types"))
    effort = mapping_of(capabilities.get("effort"))
    if types:
        kinds: dict[Thinking, str] = {"adaptive": "adaptive", "budget": "enabled"}
        known["thinking"] = next((k for k, name in kinds.items() if _is_supported(types, name)), "none")
        known["off"] = next((n for n in ("disabled", "between_tools") if _is_supported(types, n)), None)
    if effort:
        known["efforts"] = tuple(level for level in EFFORTS if _is_supported(effort, level))
    if capabilities.get("structured_outputs"):
        known["takes_format"] = _is_supported(capabilities, "structured_outputs")
    return replace(family, **known)


def _is_supported(capabilities: JsonFields, name: str) -> bool:
    return mapping_of(capabilities.get(name)).get("supported") is True


def register(family: ClaudeFamily) -> None:
    """Register a family before all others.

    Raises:
        ConfigError: The family's pattern is not a regular expression.
    """
    try:
        re.compile(family.models)
    except re.error as error:
        raise ConfigError(
            f"ClaudeFamily.models={family.models!r} is not a regular expression: {error}"
        ) from error
    FAMILIES.insert(0, family)

"""Claude and Gemini models that the strict servers recognise by name, and what each model accepts.

A client also has such a table; a test kit that read the client's table would repeat the client's mistakes.
Checked 2026-11-27. Sources: the ``anthropic`` package 2.14.0, and pydantic-ai 2.68.0
(``profiles/anthropic.py``), which probed most of these rules; Anthropic's page "Mid-conversation system
messages".
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Literal

OLD_VERSION, VERSION = "2023-06-01", "2026-10-21"  # API versions; the newer one rejects sampling fields
EFFORTS = ("low", "medium", "high", "xhigh", "max")
SIGNATURE = "thoughtSignature"
STAND_IN = "skip_thought_signature_validator"  # signature for calls that another model made
_GEMINI = re.compile(r"gemini-(\d+)")


@dataclass(frozen=True)
class ClaudeRules:
    """Rules of a family of Claude models.

    Args:
        name: Name to show in messages.
        models: Regular expression for the names of the models.
        thinking: How thinking is requested: ``budget`` (``budget_tokens``), ``adaptive``, ``enabled`` (other
            vendors' switch without a budget), or ``none``.
        off: The ``thinking.type`` that switches thinking off; None if it cannot be switched off.
        efforts: Levels of ``output_config.effort``; empty if the field is rejected.
        takes_sampling: True if ``temperature``, ``top_p`` and ``top_k`` are accepted.
        takes_forced_choice: True if ``tool_choice`` may force a call.
        takes_format: True if ``output_config.format`` is accepted.
        binds_thinking: True if thinking is valid only after the same system prompt, tools and messages.
        takes_tool_changes: True if messages with the role ``system`` may change the tools in
            mid-conversation.
        max_output: Maximum value of ``max_tokens``.
        version: Header ``anthropic-version``.
    """

    name: str
    models: str
    thinking: Literal["none", "budget", "adaptive", "enabled"] = "adaptive"
    off: str | None = "disabled"
    efforts: tuple[str, ...] = EFFORTS
    takes_sampling: bool = False
    takes_forced_choice: Literal["yes", "no", "without_thinking"] = "yes"
    takes_format: bool = True
    binds_thinking: bool = False
    takes_tool_changes: bool = False
    max_output: int = 128_000
    version: str = VERSION


def _model(names: str, *versions: str) -> str:
    """Return the pattern of Claude models; a version may be followed only by a date."""
    numbers = "|".join(version.replace(".", "[-.]") for version in versions)
    return rf"claude-(?:{names})-(?:{numbers})(?![-.]?\d{{1,2}}(?!\d))"


_BUDGET = ClaudeRules(
    "Claude Sonnet 4.5 and Haiku 4.5",
    _model("sonnet|haiku", "4.5"),
    "budget",
    efforts=(),
    takes_sampling=True,
    takes_forced_choice="without_thinking",
    max_output=64_000,
    version=OLD_VERSION,
)
_ADAPTS = ClaudeRules("Claude Opus 4.7", _model("opus", "4.7"), version=OLD_VERSION)
_THINKS = ClaudeRules("Claude Opus 5", _model("opus", "5", "5.0"), takes_tool_changes=True)
_BINDS = replace(_THINKS, name="Claude Haiku 5.5", models=_model("haiku", "5.5"), binds_thinking=True)

CLAUDE: list[ClaudeRules] = [
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
    # Newer models probably follow the newest rules.
    replace(
        _BINDS,
        name="Claude 5.1 and later",
        models=r"claude-[a-z]+-(?:\d|latest)",
        off=None,
        takes_forced_choice="no",
    ),
]
OTHER = ClaudeRules(
    "another vendor's model",
    "",
    "enabled",
    efforts=(),
    takes_sampling=True,
    max_output=8_192,
    version=OLD_VERSION,
    takes_format=False,
)


def claude_rules(model: str) -> ClaudeRules:
    """Return the family of a model by its name.

    Args:
        model: Name of the model, perhaps with a prefix or suffix of a cloud, such as
            ``anthropic.claude-opus-4-6-v1:0``.
    """
    name = model.lower()
    return next((family for family in CLAUDE if re.search(family.models, name)), OTHER)


def is_gemini_3(model: str) -> bool:
    """Return True from Gemini 3 on: signed calls, thinking levels, files in results, schemas with tools."""
    match = _GEMINI.search(model)
    return int(match[1]) >= 3 if match else "gemini" in model

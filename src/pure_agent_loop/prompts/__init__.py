"""Texts of the framework for a model, in English and Chinese. Short, visible, replaceable.

Get a set with :func:`prompts_for`, change it with ``dataclasses.replace`` and pass it to
``Agent(prompts=...)``.
"""

from __future__ import annotations

from collections.abc import Sequence

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.prompts.chinese import CHINESE
from pure_agent_loop.prompts.english import ENGLISH
from pure_agent_loop.prompts.values import Prompts, ToolWords
from pure_agent_loop.support.language import current_messages, in_language

__all__ = ["CHINESE", "ENGLISH", "Prompts", "ToolWords", "current_prompts", "prompts_for", "react_prompt"]


def current_prompts() -> Prompts:
    """Return the texts of the current run, else of the default language."""
    messages = current_messages()
    return messages if isinstance(messages, Prompts) else prompts_for()


def prompts_for(language: str | None = None) -> Prompts:
    """Return the texts of a language.

    Args:
        language: ``"en"``, ``"zh"``, or None for the current run's language, or else the default of the
            environment.

    Raises:
        ConfigError: The language is not supported.
    """
    return in_language({"en": ENGLISH, "zh": CHINESE}, language)


def react_prompt(role: str = "", constraints: Sequence[str] = (), language: str | None = None) -> str:
    """Return a system prompt for the ReAct pattern: think, act, observe, and finally answer.

    The prompt does not describe the format of calls; the `tool_mode` does. Pass it as ``system_prompt=``.

    Args:
        role: The model's role and purpose; placed first.
        constraints: Rules to follow, one sentence each.
        language: ``"en"``, ``"zh"``, or None for the default of the environment.

    Raises:
        ConfigError: `role` is not a text, `constraints` is not a list of texts, or the language is not
            supported.
    """
    if not isinstance(role, str):
        raise ConfigError(f"role must be text; it is {role!r:.80}.")
    if isinstance(constraints, str) or not all(isinstance(constraint, str) for constraint in constraints):
        raise ConfigError(f"constraints must be a list of strings; it is {constraints!r:.80}.")
    words = prompts_for(language)
    rules = "\n".join(f"- {constraint.strip()}" for constraint in constraints)
    parts = [role.strip(), words.react_method, words.react_rules.format(rules=rules) if rules else ""]
    return "\n\n".join(part for part in parts if part)

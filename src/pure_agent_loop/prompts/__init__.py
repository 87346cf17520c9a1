"""Every word the framework says to a model, in English and Chinese. Short, visible, replaceable.

Take a set with :func:`prompts_for`, change it with ``dataclasses.replace`` and hand it to
``Agent(prompts=...)``.
"""

from __future__ import annotations

from collections.abc import Sequence

from pure_agent_loop.errors import ConfigError
from pure_agent_loop.prompts.chinese import CHINESE
from pure_agent_loop.prompts.english import ENGLISH
from pure_agent_loop.prompts.values import Prompts, ToolWords
from pure_agent_loop.support.language import current_voice, in_language

__all__ = ["CHINESE", "ENGLISH", "Prompts", "ToolWords", "current_prompts", "prompts_for", "react_prompt"]
_BY_LANGUAGE = {"en": ENGLISH, "zh": CHINESE}


def current_prompts() -> Prompts:
    """The words of the run this code is in; else those of the default language."""
    voice = current_voice()
    return voice if isinstance(voice, Prompts) else prompts_for()


def prompts_for(language: str | None = None) -> Prompts:
    """The texts of a language.

    Args:
        language: ``"en"``, ``"zh"``, or None for that of the run this is called in, else the default of the
            environment.

    Raises:
        ConfigError: There are no texts in that language.
    """
    return in_language(_BY_LANGUAGE, language)


def react_prompt(role: str = "", constraints: Sequence[str] = (), language: str | None = None) -> str:
    """A system prompt for the ReAct way of working: think, act, observe, and at last the final answer.

    How a call is written is no part of it; that is up to the `tool_mode`. Use it as ``system_prompt=``.

    Args:
        role: Who the model is and what it is for; leads the prompt.
        constraints: Rules to keep to, one sentence each.
        language: ``"en"``, ``"zh"``, or None for the default of the environment.

    Raises:
        ConfigError: `role` is no text, `constraints` is no list of texts, or the language is not known.
    """
    if not isinstance(role, str):
        raise ConfigError(f"role must be text; it is {role!r:.80}.")
    if isinstance(constraints, str) or not all(isinstance(each, str) for each in constraints):
        raise ConfigError(f"constraints must be a list of sentences; it is {constraints!r:.80}.")
    words = prompts_for(language)
    rules = "\n".join(f"- {each.strip()}" for each in constraints)
    parts = [role.strip(), words.react_method, words.react_rules.format(rules=rules) if rules else ""]
    return "\n\n".join(part for part in parts if part)

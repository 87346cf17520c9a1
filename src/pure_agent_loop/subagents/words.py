"""Texts of subagents for models, and error messages, in English and Chinese."""

from __future__ import annotations

from dataclasses import dataclass

from pure_agent_loop.support.language import in_language, table


@dataclass(frozen=True, slots=True)
class SubagentWords:
    """The texts of one language. Names in braces are placeholders."""

    task: str
    agent_line: str
    background_line: str
    task_output: str
    task_list: str
    task_kill: str
    started: str
    queued: str
    moved: str
    headline: str
    notice: str
    lost: str
    gone: str
    cut: str
    waiting: str
    failed: str
    stopped: str
    no_answer: str
    no_task: str
    no_agent: str
    no_tasks: str
    no_tool: str
    at_work: str
    is_over: str
    still_at_work: str
    another_agent: str
    too_deep: str
    nothing_left: str
    not_here: str
    empty_prompt: str
    asked_by: str
    copy_changed: str
    copy_unchanged: str
    tree_kept: str
    tree_removed: str
    in_copy: str
    in_tree: str
    explore: str
    explore_prompt: str
    verify: str
    verify_prompt: str


ENGLISH = SubagentWords(**table("subagents", "en"))
CHINESE = SubagentWords(**table("subagents", "zh"))
_BY_LANGUAGE = {"en": ENGLISH, "zh": CHINESE}


def words_for(language: str | None = None) -> SubagentWords:
    """Return the texts in a language.

    Args:
        language: ``"en"``, ``"zh"``, or None for the language of the run, else of the environment.

    Raises:
        ConfigError: The language is not supported.
    """
    return in_language(_BY_LANGUAGE, language)

"""The structure of a set of prompts, and how to replace parts of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pure_agent_loop.support.language import LANGUAGES, check_replacement, checked_choice


@dataclass(frozen=True, slots=True)
class ToolWords:
    """A tool's texts for a model.

    Args:
        description: The tool's description.
        parameters: Descriptions by argument name; a missing argument keeps its text.
        examples: Worked examples instead of the tool's own; see `Tool`. None keeps those.
    """

    description: str
    parameters: Mapping[str, str] = field(default_factory=dict)
    examples: Sequence[tuple[str, Mapping[str, Any]]] | None = None


@dataclass(frozen=True, slots=True)
class Prompts:
    """The texts of one language, with placeholders in braces.

    `sentences` replaces texts of tools and of the checks of arguments, permissions and answers, by the names
    in ``prompts.english.model``; `tools` replaces the description of a tool, by the tool's name;
    `worked_examples` replaces the examples of the JSON tool mode, by kind (``no_tool``, ``chosen``,
    ``filled``, ``answered``), in the shapes of ``llm.tool_modes.examples``.
    """

    system_prompt: str
    step_limit: str
    timeout: str
    final_answer: str
    final_note: str
    tool_error: str
    tool_hint: str
    tool_unknown: str
    tool_arguments: str
    tool_denied: str
    tool_denied_before: str
    tool_waiting: str
    tool_timed_out: str
    tool_cancelled: str
    tool_not_started: str
    tool_lost: str
    tool_interrupted: str
    scheduled: str
    warned_repetition: str
    refused_repetition: str
    continue_answer: str
    empty_answer: str
    cut_result: str
    cut_kept: str
    cut_lost: str
    cut_gone: str
    cut_piece: str
    read_result: str
    untrusted: str
    untrusted_end: str
    page_part: str
    page_end: str
    page_next: str
    page_cut: str
    pruned_result: str
    repeated_result: str
    trimmed: str
    summary_head: str
    summary_system: str
    summary_task: str
    summary_files: str
    summary_tools: str
    summary_calls: str
    memory_note: str
    react: str
    react_method: str
    react_rules: str
    json_action: str
    choose: str
    choose_tools: str
    choose_ready: str
    choose_heard: str
    fill: str
    fill_several: str
    fill_question: str
    fill_optional: str
    fill_again: str
    answer: str
    answer_question: str
    stopped: dict[str, str]
    repetitions: dict[str, str]
    language: str = "en"
    sentences: Mapping[str, str] = field(default_factory=dict)
    tools: Mapping[str, ToolWords] = field(default_factory=dict)
    worked_examples: Mapping[str, Sequence[Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        checked_choice("language", self.language, LANGUAGES)
        for name, text in self.sentences.items():
            check_replacement(name, text)
        tools: Mapping[str, Any] = self.tools  # values from a record are dicts
        plain = {n: w if isinstance(w, ToolWords) else ToolWords(**w) for n, w in tools.items()}
        object.__setattr__(self, "tools", plain)

    def why(self, reason: str, limit: int | None = None) -> str:
        """Return the sentence for a stop reason, with the number of its limit if given."""
        number = "" if limit is None else f" ({limit:,})"
        return self.stopped.get(reason, reason).replace("{limit}", number)

    def repetition(self, pattern: str, count: int, tool: str) -> str:
        """Describe a repetition in words.

        Args:
            pattern: A key of `repetitions`.
            count: Number of repetitions.
            tool: The repeated tool.
        """
        return self.repetitions[pattern].format(count=count, tool=tool)

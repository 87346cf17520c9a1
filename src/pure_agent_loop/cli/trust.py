"""Asking the person at the terminal whether a folder's own texts may guide the model."""

from __future__ import annotations

from pathlib import Path

from pure_agent_loop.assistant.trust import guidance_of, is_trusted, trust
from pure_agent_loop.cli.output import Output
from pure_agent_loop.cli.questions import Questions

QUESTION = "Shall the model follow them? [y]es, [n]o: "


def may_guide(workspace: Path, questions: Questions | None, output: Output, *, given: bool) -> bool:
    """Whether a folder's own texts may guide the model; a person is asked where one is there, and remembered.

    Args:
        workspace: The folder.
        questions: The person at the terminal.
        output: Told what is left out.
        given: The option ``--trust-folder``; it holds for this run.
    """
    guidance = guidance_of(workspace)
    if not guidance.names or given:
        return given
    if is_trusted(guidance):
        return True
    if questions is not None:
        output.say(
            f"this folder brings texts for the model, which somebody else may have written: {guidance.shown}"
        )
        if questions.confirm(QUESTION):
            trust(guidance)
            return True
    output.say(f"left out, as nobody has trusted it: {guidance.shown} (--trust-folder uses it)")
    return False

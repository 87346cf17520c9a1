"""Ask the command line's questions, such as whether to trust a folder, in an editor."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable

from pure_agent_loop.acp import (
    Editor,
)
from pure_agent_loop.cli.output import CommandOutput
from pure_agent_loop.cli.questions import TerminalQuestions
from pure_agent_loop.support.language import in_user_language


class MessageCollector(CommandOutput):
    """Collects messages for the next question or the start of the run.

    Messages are not written to standard error, because some editors show that as errors.
    """

    def __init__(self) -> None:
        super().__init__(sys.stderr, colour=False)
        self.messages: list[str] = []

    def info(self, message: str) -> None:
        """Collect a message."""
        self.messages.append(in_user_language(message))


class DeferredQuestions(TerminalQuestions):
    """Denies each question while the editor cannot show questions yet, and records that one was asked."""

    def __init__(self, output: CommandOutput) -> None:
        super().__init__(output, -1)
        self.has_asked = False

    def confirm(self, question: str, text: str = "", more: Callable[[], str] | None = None) -> bool:  # noqa: ARG002 - not shown yet
        """Record the question and return False."""
        self.has_asked = True
        return False


class EditorQuestions(TerminalQuestions):
    """Asks the user in the editor, from a worker thread."""

    def __init__(self, output: MessageCollector, editor: Editor, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(output, -1)
        self._collector, self._editor, self._loop = output, editor, loop

    def confirm(self, question: str, text: str = "", more: Callable[[], str] | None = None) -> bool:
        """Ask with the full text, because an editor can scroll. Any answer other than yes counts as no."""
        details = [part for part in (*self._collector.messages, text, more() if more else "") if part]
        asked = "\n".join([*details, question.partition(" [y")[0]])
        self._collector.messages.clear()
        return asyncio.run_coroutine_threadsafe(self._editor.confirm(asked), self._loop).result()

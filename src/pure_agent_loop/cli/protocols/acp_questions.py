"""Questions of the command line, such as whether a folder is trusted, put to a person at an editor."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable

from pure_agent_loop.acp import Editor
from pure_agent_loop.cli.output import Output
from pure_agent_loop.cli.questions import Questions


class Telling(Output):
    """What is to be said to the person: with the next question, or when the work begins.

    It does not go to standard error, which some editors show as errors.
    """

    def __init__(self) -> None:
        super().__init__(sys.stderr, colour=False)
        self.said: list[str] = []

    def say(self, message: str) -> None:
        """Keep a message of ours."""
        self.said.append(message)


class Later(Questions):
    """Nobody can be asked yet; that there was a question is remembered."""

    def __init__(self, output: Output) -> None:
        super().__init__(output, -1)
        self.has_asked = False

    def confirm(self, question: str, text: str = "", more: Callable[[], str] | None = None) -> bool:  # noqa: ARG002 - nobody reads it yet
        """No, for now."""
        self.has_asked = True
        return False


class Asking(Questions):
    """Asks the person at the editor, from a thread.

    Args:
        output: What was said there belongs to the question.
        editor: Where the person is.
        loop: Where the connection is served.
    """

    def __init__(self, output: Telling, editor: Editor, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(output, -1)
        self._telling, self._editor, self._loop = output, editor, loop

    def confirm(self, question: str, text: str = "", more: Callable[[], str] | None = None) -> bool:
        """Ask, with all that it is about: an editor can be scrolled. Only a yes is one."""
        about = [each for each in (*self._telling.said, text, more() if more else "") if each]
        asked = "\n".join([*about, question.partition(" [y]")[0]])
        self._telling.said.clear()
        return asyncio.run_coroutine_threadsafe(self._editor.confirm(asked), self._loop).result()

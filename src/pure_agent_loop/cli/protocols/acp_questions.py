"""Questions of the command line, such as whether a folder is trusted, put to a person at an editor."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable

from pure_agent_loop.acp import Asker
from pure_agent_loop.cli.output import Output
from pure_agent_loop.cli.questions import Questions


class Telling(Output):
    """Standard error, and what was said there since it was last asked about."""

    def __init__(self) -> None:
        super().__init__(sys.stderr, colour=False)
        self.said: list[str] = []

    def say(self, message: str) -> None:
        """Write a message of ours."""
        self.said.append(message)
        super().say(message)


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
        asker: The person.
        loop: Where the connection is served.
    """

    def __init__(self, output: Telling, asker: Asker, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(output, -1)
        self._telling, self._asker, self._loop = output, asker, loop

    def confirm(self, question: str, text: str = "", more: Callable[[], str] | None = None) -> bool:
        """Ask, with all that it is about: an editor can be scrolled. Only a yes is one."""
        about = [each for each in (*self._telling.said, text, more() if more else "") if each]
        asked = "\n".join([*about, question.partition(" [y]")[0]])
        self._telling.said.clear()
        return asyncio.run_coroutine_threadsafe(self._asker.confirm(asked), self._loop).result()

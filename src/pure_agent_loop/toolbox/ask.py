"""A tool with which the model asks the user, through whatever function reaches one."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable

from pure_agent_loop.errors import PureAgentLoopError
from pure_agent_loop.support.threads import Raised, run_in_thread
from pure_agent_loop.tool import Tool
from pure_agent_loop.toolbox.words import TOOLS, say

Ask = Callable[[str, list[str]], "str | Awaitable[str]"]


class NobodyToAskError(PureAgentLoopError):
    """There is no user. The message is for the model."""


def ask_user_tool(function: Ask | None = None) -> Tool:
    """``ask_user``, for ``Agent(tools=...)``.

    Args:
        function: Called with the question and the options (none: a free answer); returns what the user
            said. Sync, then it runs in a worker thread, or async. None if nobody can be asked: the model is
            told to decide itself.
    """

    async def ask_user(question: str, options: list[str] = []) -> str:  # noqa: B006 - never changed
        """Ask the user when only they can decide. Not for what you can find out yourself.

        Args:
            options: Answers to choose from; leave it out for a free answer.
        """
        if function is None:
            raise NobodyToAskError(say("nobody"))
        answer = await run_in_thread(lambda: function(question, list(options)))
        if isinstance(answer, Raised):
            raise answer.error
        if inspect.isawaitable(answer):
            answer = await answer
        return str(answer) if answer else say("no_reply")

    return Tool(ask_user, read_only=True, timeout=float("inf"), polls=True, words=TOOLS["ask_user"])

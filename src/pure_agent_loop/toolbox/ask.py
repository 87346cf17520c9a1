"""The ``ask_user`` tool: put the model's question to the user through a function of the caller."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from pure_agent_loop.errors import PureAgentLoopError
from pure_agent_loop.prompts.chinese.tools import TOOLS
from pure_agent_loop.schema.calling import call_user
from pure_agent_loop.support.abilities import checked_function
from pure_agent_loop.support.language import model_text
from pure_agent_loop.tool import Tool

Ask = Callable[[str, list[str]], "str | Awaitable[str]"]


class NobodyToAskError(PureAgentLoopError):
    """The run has no user to ask. The message is for the model."""


def ask_user_tool(function: Ask | None = None) -> Tool:
    """Return the ``ask_user`` tool, for ``Agent(tools=...)``.

    Args:
        function: Sync (runs in a worker thread) or async; takes the question and the options (an empty list
            for a free answer) and returns the user's answer. With None, the tool asks the model to decide.

    Raises:
        ConfigError: The function does not take these two arguments.
    """
    checked_function("ask_user_tool", function, "question", "options")

    async def ask_user(question: str, options: list[str] = []) -> str:  # noqa: B006 - never mutated
        """Ask the user when only they can decide. Not for what you can find out yourself.

        Args:
            options: Answers to choose from; leave it out for a free answer.
        """
        if function is None:
            raise NobodyToAskError(model_text("nobody"))
        answer = await call_user(function, question, list(options))
        return str(answer) if answer else model_text("no_reply")

    return Tool(
        ask_user, read_only=True, timeout=float("inf"), polls=True, trusted=True, words=TOOLS["ask_user"]
    )

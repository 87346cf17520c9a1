"""The older way to ask: tools are decided about once, run together, and the answer comes back as text."""

from __future__ import annotations

from pure_agent_loop.agent import Agent
from pure_agent_loop.errors import ConfigError
from pure_agent_loop.result import AgentResult
from pure_agent_loop.stop_reasons import SUSPENDED, WAITING_TOOL


class AIClient(Agent):
    """A model with tools that answers in a single round.

        client = AIClient(model="gpt-4o-mini", tools=[get_weather])
        print(client.chat("Will it rain in Oslo?"))

    It takes what `Agent` takes and can do what that can; only its ``mode`` is ``single``: the model decides
    about tools once, all calls run at the same time, and its next words are the answer.
    """

    default_mode = "single"

    def chat(self, query: str) -> str:
        """Ask, and wait for the answer. Works in sync code, also inside a running event loop.

        Args:
            query: What to ask. Nothing is remembered from one query to the next.

        Returns:
            The answer; with a visible note where a limit ended the run.

        Raises:
            ConfigError: `query` is no text, or a call needs the permission of a person and there is no
                ``on_ask``.
            LLMError: There is no answer: the model could not be reached, or refused.
        """
        return _answer(self.run(query))

    async def achat(self, query: str) -> str:
        """Ask, and await the answer; see `chat`."""
        return _answer(await self.arun(query))


def _answer(result: AgentResult) -> str:
    if result.stop_reason == SUSPENDED:
        tools = ", ".join(dict.fromkeys(repr(question.tool) for question in result.questions))
        raise ConfigError(
            f"A person has to allow {tools}, and nobody could be asked. Pass on_ask=..., or allow it: "
            "permission_rules=PermissionRules(allow=[...]). Or use run(), whose result has the questions."
        )
    if result.stop_reason == WAITING_TOOL:
        tools = ", ".join(dict.fromkeys(repr(call.name) for call in result.open_calls))
        raise ConfigError(f"The result of {tools} is made elsewhere. Use run(), whose result has open_calls.")
    return result.raise_for_error().content

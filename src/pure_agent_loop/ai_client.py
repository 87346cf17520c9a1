"""Single-round client: the model calls tools once, in parallel, and the answer is returned as text."""

from __future__ import annotations

from pure_agent_loop.agent import Agent
from pure_agent_loop.errors import ConfigError
from pure_agent_loop.result import AgentResult
from pure_agent_loop.stop_reasons import SUSPENDED, WAITING_TOOL


class AIClient(Agent):
    """Agent that answers after a single round of tool calls.

        client = AIClient(model="gpt-4o-mini", tools=[get_weather])
        print(client.chat("Will it rain in Oslo?"))

    It has the arguments and methods of `Agent`; only its ``mode`` is ``single``: the model calls tools once,
    all calls run in parallel, and its next response is the answer.
    """

    default_mode = "single"

    def chat(self, query: str) -> str:
        """Send a query and wait for the answer. Works in sync code, also inside a running event loop.

        Args:
            query: Text of the query. No history is kept between queries.

        Returns:
            The answer, with a visible note if a limit ended the run.

        Raises:
            ConfigError: `query` is not a string, or a call needs permission and ``on_ask`` is missing.
            LLMError: The model could not be reached, or rejected the request.
        """
        return answer_of(self.run(query))

    async def achat(self, query: str) -> str:
        """Send a query and await the answer; see `chat`."""
        return answer_of(await self.arun(query))


def answer_of(
    result: AgentResult, ask: str = "Pass on_ask=...", listed: str = "Or call run(): its result"
) -> str:
    """Return the answer of a run.

    Args:
        ask: How to set the permission function, for the error message.
        listed: Beginning of the sentence that says where to find the questions and the open calls.

    Raises:
        ConfigError: The run is waiting for a permission or for an external result.
        PureAgentLoopError: The run failed; usually an `LLMError`.
    """
    if result.stop_reason == SUSPENDED:
        tools = ", ".join(dict.fromkeys(repr(question.tool) for question in result.questions))
        raise ConfigError(
            f"{tools} needs approval, but on_ask is not set. {ask}, or allow it: "
            f"permission_rules=PermissionRules(allow=[...]). {listed} lists the questions."
        )
    if result.stop_reason == WAITING_TOOL:
        tools = ", ".join(dict.fromkeys(repr(call.name) for call in result.open_calls))
        raise ConfigError(
            f"{tools} runs outside this process and waits for its result. {listed} lists open_calls."
        )
    return result.raise_for_error().content

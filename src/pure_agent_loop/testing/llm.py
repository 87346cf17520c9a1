"""A model client that plays a script."""

from __future__ import annotations

import copy
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Any

from pure_agent_loop.llm.base import BaseLLMClient
from pure_agent_loop.llm.response import LLMResponse, assembled
from pure_agent_loop.llm.values import Delta, TokenUsage
from pure_agent_loop.support.text import safe_str
from pure_agent_loop.testing.gate import Gate, ScriptError
from pure_agent_loop.testing.plan import Plan, plan_item
from pure_agent_loop.testing.player import Player
from pure_agent_loop.testing.script import DEFAULT_USAGE

if TYPE_CHECKING:
    from typing_extensions import Self


@dataclass(frozen=True, slots=True)
class LLMRequest:
    """Request to a scripted model, copied when it arrives.

    Args:
        messages: The history.
        tools: The tool schemas, if any.
        options: Everything else, such as ``temperature``.
        streamed: True if the request was made through `chat_stream`.
    """

    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]] | None
    options: dict[str, Any] = field(default_factory=dict)
    streamed: bool = False


class ScriptedLLM(BaseLLMClient):
    """A model client that plays a script: deterministic, instant, without a network or a clock.

    Args:
        script: The items, one for each request (see `pure_agent_loop.testing.script`), or one
            callable ``(messages, tools, options) -> item`` that answers all of them.
        strict: True to fail if the script runs out or items are left; see `assert_done`. If False, the last
            item repeats for every further request.
        usage: Token usage of answers that have none; None for no usage.
        tools_may_fail: True to allow tools to raise. Otherwise a tool that raises anything but `Retry`,
            `ToolExecutionError` and other errors of this package fails the test: in `assert_done`, and at the
            end of ``with ScriptedLLM(...)`` and of ``with agent.override(llm=...)``.

    Raises:
        ConfigError: The script has an invalid item.

    Example:
        with ScriptedLLM([call("add", a=1, b=2), "It is 3."]) as llm:
            assert Agent(llm=llm, tools=[add]).run("1 + 2?").content == "It is 3."
    """

    model = "scripted"
    takes_server_tools = True

    def __init__(
        self,
        script: Iterable[object] | Callable[..., Any],
        *,
        strict: bool = True,
        usage: TokenUsage | None = DEFAULT_USAGE,
        tools_may_fail: bool = False,
    ) -> None:
        self._player = Player(script, strict=strict, faults=False)
        self._usage = usage
        self.requests: list[LLMRequest] = []
        self.closed = False
        self.tool_errors: list[tuple[str, BaseException]] = []
        self._tools_may_fail = tools_may_fail

    @property
    def remaining(self) -> int:
        """Number of items not yet used."""
        return self._player.remaining

    async def chat(
        self, messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None = None, **kwargs: Any
    ) -> LLMResponse:
        """Return the next answer as a whole.

        Args:
            messages: Recorded.
            tools: Recorded.
            kwargs: Recorded.

        Raises:
            ScriptError: The script ran out.
            Exception: The scripted exception.
        """
        plan = await self._plan(LLMRequest(*_copies(messages, tools, kwargs)))
        return plan.response if plan.response is not None else await assembled(_play(plan))

    async def chat_stream(
        self, messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None = None, **kwargs: Any
    ) -> AsyncIterator[Delta]:
        """Stream the next answer. The arguments and errors are those of `chat`."""
        plan = await self._plan(LLMRequest(*_copies(messages, tools, kwargs), streamed=True))
        async for delta in _play(plan):
            yield delta

    async def aclose(self) -> None:
        """Set `closed`."""
        self.closed = True

    async def _plan(self, request: LLMRequest) -> Plan:
        self.requests.append(request)
        item = await self._player.next(request.messages, request.tools, request.options)
        return plan_item(item, request.messages, self._usage)

    def assert_done(self) -> None:
        """Fail unless the script matched: no items left, no extra requests, no failed checks.

        Raises:
            ScriptError: The message lists all problems.
        """
        self._player.assert_done()
        self.assert_tools_worked()

    def tool_failed(self, name: str, error: BaseException) -> None:
        """Record an unexpected exception of a tool."""
        self.tool_errors.append((name, error))

    def assert_tools_worked(self) -> None:
        """Fail if a tool raised an unexpected exception, unless ``tools_may_fail``.

        Raises:
            ScriptError: A tool raised; the first such exception is the cause.
        """
        if self.tool_errors and not self._tools_may_fail:
            failures = [(name, type(error).__name__, safe_str(error)) for name, error in self.tool_errors]
            words = "; ".join(map(": ".join, failures)).removesuffix(".")
            raise ScriptError(
                f"Tools failed: {words}. If the test expects this: ScriptedLLM(..., tools_may_fail=True)."
            ) from self.tool_errors[0][1]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._player.leave(error)
        if error is None:
            self.assert_tools_worked()


def _copies(
    messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None, options: dict[str, Any]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]] | None, dict[str, Any]]:
    # Options may contain values that cannot be deep-copied, such as functions; messages never do.
    return copy.deepcopy(messages), copy.deepcopy(tools), dict(options)


async def _play(plan: Plan) -> AsyncIterator[Delta]:
    for step in plan.steps:
        if isinstance(step, Delta):
            yield step
        elif isinstance(step, Gate):
            await step.pass_through()
        elif isinstance(step, Exception):
            raise step
        else:
            raise ScriptError(f"{step!r:.80} needs a ScriptedServer.")

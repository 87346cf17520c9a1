"""One agent program on a server that misbehaves: what the matrix of faults runs, and how it is judged.

The program has two stages: the model calls a tool, then it answers with what the tool said. A fault comes
in one of them. The server does not play a list but looks at the history, as a model does: so it gives the
right answer of the right stage however often it is asked.
"""

from __future__ import annotations

import inspect
import json
import random
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any

from llm_client_conformance import (
    Delta,
    ScriptedServer,
    ServerRequest,
    ToolCallDelta,
    call,
    check_history,
    deltas,
)
from llm_client_conformance.faults import refusing_url
from llm_client_conformance.protocols import GeminiServer, MessagesServer, ResponsesServer
from pure_agent_loop import (
    Agent,
    AgentResult,
    AnthropicClient,
    EventType,
    GeminiClient,
    LLMError,
    OpenAIClient,
    ResponsesClient,
    RetryConfig,
    tool,
)
from pure_agent_loop.runs.run import Run
from pure_agent_loop.testing import FakeClock
from tests.helpers import check_result

FOUND = "The word with number 4 is 'plover'."
ANSWER = "I looked it up: word number 4 is plover, says the tool."
_LIMITS = {"token_limit", "max_steps", "max_tool_calls", "budget", "doom_loop", "output_limit"}
STOP_REASONS = {"completed", "cancelled", "error", "content_filter", *_LIMITS}
IMPATIENT = 0.1
PATIENT = 60.0
NEVER_ENDING = 20  # times that a fault comes: more often than anything is tried


@dataclass
class Case:
    """One cell of the matrix: how the request is sent, where the fault comes, how the answer is cut."""

    way: str
    stage: int
    seed: int
    dice: random.Random
    runs: list[str] = field(default_factory=list)  # what has to run besides the right call
    ran: list[str] = field(default_factory=list)

    def pieces(self) -> list[Delta]:
        """The right answer of this stage, in pieces."""
        if self.stage == 2:
            return [Delta(text=piece) for piece in self.cut(ANSWER)]
        call_id = f"id_{self.dice.randrange(10**9)}"
        said = [Delta(text=piece) for piece in self.cut("Let me look. ")] if self.dice.random() < 0.5 else []
        first = ToolCallDelta(0, call_id, "word", "")
        more = [ToolCallDelta(0, arguments=piece) for piece in self.cut(json.dumps({"number": 4}))]
        return [*said, *(Delta(tool_calls=(part,)) for part in (first, *more))]

    def cut(self, text: str) -> list[str]:
        """The text in two to six pieces."""
        places = sorted(self.dice.sample(range(1, len(text)), self.dice.randint(1, 5)))
        return [text[a:b] for a, b in zip([0, *places], [*places, len(text)], strict=True)]

    def broken_by(self, fault: Any, *, goes_on: bool = False) -> Any:
        """The right answer, in which the fault comes after one of its pieces."""
        pieces = self.pieces()
        place = self.dice.randint(1, len(pieces) - 1)
        return deltas(*pieces[:place], fault, *(pieces[place:] if goes_on else ()))

    def cut_call(self) -> list[Delta]:
        """The right call, of whose arguments some are missing."""
        parts = [piece for piece in self.pieces() if piece.tool_calls]
        return parts[: self.dice.randint(1, len(parts) - 1)]

    def beside(self, *calls: Any) -> list[Any]:
        """The calls, and often a good call before or behind them."""
        if self.dice.random() < 0.5:
            return list(calls)
        self.runs.append("side")
        good = [call("side")]
        return [*good, *calls] if self.dice.random() < 0.5 else [*calls, *good]

    def rechunk(self) -> Any:
        """How the bytes of streams are cut."""
        return self.dice.choice([None, 7, 64, (1, 30, 5)])


@dataclass(frozen=True)
class Kind:
    """A kind of fault, and what has to come of it.

    Args:
        faults: What the server does instead of the right answer, one item for each request.
        stop: The stop reason.
        error: The kind of the `LLMError`, if it ends with one.
        retries: Repeated requests; None for at least one, where a slow machine may need more of them.
        plain_retries: The same for whole answers, where it is different.
        stages: Where it can come.
        says: What the result of a call has to say to the model.
        act: What the tool ``odd`` does.
        tool_timeout: The time limit of ``odd``.
        waits: Judges the waits between the requests.
        refused: The server is not there, or is gone when the second request comes.
        impatient: With short time limits for silence.
        check: Anything else.
    """

    faults: Callable[[Case], list[Any]] = lambda _: []
    stop: str = "completed"
    error: str = ""
    retries: int | None = 0
    plain_retries: int | None = None
    stages: tuple[int, ...] = (1, 2)
    says: str = ""
    act: Callable[[], Any] = lambda: "fine"
    tool_timeout: float | None = None
    waits: Callable[[list[float]], bool] = lambda _: True
    refused: bool = False
    impatient: bool = False
    check: Callable[[AgentResult], bool] = lambda _: True


def case_of(name: str, kind: Kind, way: str, seed: int) -> Case:
    """A cell; the same for the same words."""
    stage = kind.stages[seed % len(kind.stages)]
    return Case(way, stage, seed, random.Random(f"{name} {way} {seed}"))


@dataclass(frozen=True)
class Protocol:
    """A protocol: its client with a model's name, and its server."""

    client: Callable[..., Any]
    model: str
    server: Callable[..., ScriptedServer]


CHAT = Protocol(OpenAIClient, "m", ScriptedServer)
PROTOCOLS = {
    "messages": Protocol(AnthropicClient, "claude-opus-4-6", MessagesServer),
    "responses": Protocol(ResponsesClient, "gpt-5", ResponsesServer),
    "gemini": Protocol(GeminiClient, "gemini-2.5-flash", GeminiServer),
}


def play(kind: Kind, case: Case, protocol: Protocol = CHAT) -> None:
    """Run the program in one cell, and judge it."""
    faults = kind.faults(case)

    def handle(request: ServerRequest) -> Any:
        stage = 2 if FOUND.encode() in request.raw else 1
        if stage == case.stage and faults:
            return faults.pop(0)
        return deltas(*replace(case, stage=stage).pieces())

    with ExitStack() as stack:
        server = stack.enter_context(protocol.server(handler=handle, rechunk=case.rechunk()))
        clock = FakeClock()
        url = stack.enter_context(refusing_url()) if kind.refused and case.stage == 1 else server.base_url
        client = protocol.client(protocol.model, "k", url)
        result = _program(client, kind, case, server, clock)
    server.assert_clean()
    assert len(faults) == 0 or kind.stop == "error", "a fault was not asked for"
    assert kind.waits(clock.waits), clock.waits
    assert kind.check(result)
    _judge_end(result, kind, case)
    _judge_tools(result, kind, case)


def _program(client: Any, kind: Kind, case: Case, server: ScriptedServer, clock: FakeClock) -> AgentResult:
    settings: dict[str, Any] = {"stream": False} if case.way == "plain" else {}
    patience = IMPATIENT if kind.impatient else PATIENT
    agent = Agent(
        llm=client,
        max_tokens=1000,  # without a limit of the caller, a response at the limit is not continued
        tools=_tools(kind, case, server),
        first_byte_timeout=patience,
        idle_timeout=patience,
        retry=RetryConfig(3 if kind.retries is not None else 9),
        **settings,
    )
    prepared = agent.prepare("Which word has number 4?")
    run = Run(prepared.state, replace(prepared._kit, clock=clock))
    if case.dice.random() < 0.5:
        return run.wait_sync()
    events = list(run.stream_sync())
    assert events == run.events
    return run.result()


def _tools(kind: Kind, case: Case, server: ScriptedServer) -> list[Any]:
    def word(number: int, loud: bool = False) -> str:
        """Look up a word.

        Args:
            number: Which one.
            loud: In capitals.
        """
        case.ran.append(f"word {number}")
        if kind.refused:
            server.close()
        return FOUND

    def side() -> str:
        """Do something else."""
        case.ran.append("side")
        return "done"

    def odd() -> object:
        """Do something odd."""
        case.ran.append("odd")
        return kind.act()

    async def odd_async() -> object:
        """Do something odd."""
        made = odd()
        return await made if inspect.isawaitable(made) else made

    return [word, side, tool(name="odd", timeout=kind.tool_timeout)(odd_async if case.seed % 2 else odd)]


def _judge_end(result: AgentResult, kind: Kind, case: Case) -> None:
    """It ended once, for a reason that is documented, and with nothing wrong that looks right."""
    check_result(result)
    assert check_history(result.messages) == []
    ends = [event for event in result.events if event.type is EventType.LOOP_END]
    assert ends == result.events[-1:]
    assert result.stop_reason in STOP_REASONS
    assert result.stop_reason != "completed" or result.content == ANSWER
    assert (result.stop_reason, result.error) == (kind.stop, result.error)
    errors = [event.data["kind"] for event in result.events if event.type is EventType.ERROR]
    assert errors == ([kind.error] if kind.error else [])
    failure = result.state.failure
    assert getattr(failure, "kind", "") == kind.error
    assert failure is None or (isinstance(failure, LLMError) and result.error and not result.content)
    retries = sum(event.type is EventType.RETRY for event in result.events)
    wanted = kind.retries if case.way == "stream" or kind.plain_retries is None else kind.plain_retries
    assert retries >= 1 if wanted is None else retries == wanted


def _judge_tools(result: AgentResult, kind: Kind, case: Case) -> None:
    """Every tool that had to run has run once, no other has; and the model was told."""
    reached = kind.stop == "completed" or case.stage == 2
    assert sorted(case.ran) == sorted([*case.runs, *(["word 4"] if reached else [])])
    told = [message["content"] for message in result.messages if message["role"] == "tool"]
    assert any(kind.says in text for text in told) or not kind.says, told
    observed = [event for event in result.events if event.type is EventType.OBSERVATION]
    assert [event.data["result"] for event in observed] == told

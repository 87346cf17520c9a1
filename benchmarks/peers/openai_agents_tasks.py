"""The ten tasks of `docs/coming-from/openai-agents.md` as they are done there."""

import json
from dataclasses import dataclass
from itertools import count

from agents import (
    Agent,
    GuardrailFunctionOutput,
    MaxTurnsExceeded,
    Model,
    ModelResponse,
    OutputGuardrailTripwireTriggered,
    RunConfig,
    RunContextWrapper,
    Runner,
    RunState,
    SQLiteSession,
    Usage,
    function_tool,
    handoff,
    output_guardrail,
)
from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)
from run_tasks import run_tasks

QUIET = RunConfig(tracing_disabled=True)
NUMBERS = count(1)


class Script(Model):
    """A `Model` class of one's own, which this library has no ready one for."""

    def __init__(self, *items):
        self.items, self.inputs = list(items), []

    async def get_response(self, system_instructions, input, *args, **kwargs):  # noqa: A002 - its name there
        self.inputs.append(input)
        return ModelResponse([self.items.pop(0)], Usage(), None)

    def stream_response(self, *args, **kwargs):
        raise NotImplementedError


def text(words):
    part = ResponseOutputText(text=words, type="output_text", annotations=[])
    return ResponseOutputMessage(
        id=f"m{next(NUMBERS)}", content=[part], role="assistant", status="completed", type="message"
    )


def call(name, **arguments):
    return ResponseFunctionToolCall(
        call_id=f"c{next(NUMBERS)}", name=name, arguments=json.dumps(arguments), type="function_call"
    )


@function_tool
def opening(shop: str) -> str:
    """Say when a shop opens."""
    return f"{shop} opens at 9"


@dataclass
class Meeting:
    title: str
    guests: list[str]


def task_1_tool():
    model = Script(call("opening", shop="bakery"), text("At 9."))
    agent = Agent(name="guide", instructions="Be brief.", tools=[opening], model=model)
    assert Runner.run_sync(agent, "When?", run_config=QUIET).final_output == "At 9."


def task_2_output():
    agent = Agent(
        name="a",
        output_type=Meeting,
        model=Script(text('{"response": {"title": "Lunch", "guests": ["Ann"]}}')),
    )
    assert Runner.run_sync(agent, "?", run_config=QUIET).final_output == Meeting("Lunch", ["Ann"])


def task_3_context():
    @function_tool
    def points(ctx: RunContextWrapper[dict]) -> int:
        """Count."""
        return ctx.context["points"]

    model = Script(call("points"), text("40"))
    agent = Agent(name="a", tools=[points], instructions=lambda ctx, agent: "Hi.", model=model)
    Runner.run_sync(agent, "?", context={"points": 40}, run_config=QUIET)
    assert "40" in str(model.inputs[1])


def task_4_stream():
    assert callable(Runner.run_streamed)
    from agents import RunResultStreaming

    assert callable(RunResultStreaming.stream_events)


def task_5_limits():
    agent = Agent(
        name="a", tools=[opening], model=Script(call("opening", shop="a"), call("opening", shop="b"))
    )
    try:
        Runner.run_sync(agent, "?", max_turns=1, run_config=QUIET)
    except MaxTurnsExceeded:
        return
    raise AssertionError("no limit")


def task_6_sessions():
    model = Script(text("Hello, Ada."), text("Ada."))
    agent, session = Agent(name="a", model=model), SQLiteSession("ada")
    first = Runner.run_sync(agent, "I am Ada.", session=session, run_config=QUIET)
    Runner.run_sync(agent, "Who am I?", session=session, run_config=QUIET)
    assert "I am Ada." in str(model.inputs[1])
    assert len(first.to_input_list()) == 2


def task_7_handoffs():
    billing = Agent(name="billing", model=Script(text("You paid twice.")))
    triage = Agent(
        name="triage",
        handoffs=[handoff(billing, input_filter=lambda data: data)],
        model=Script(call("transfer_to_billing")),
    )
    result = Runner.run_sync(triage, "?", run_config=QUIET)
    assert (result.last_agent.name, result.final_output) == ("billing", "You paid twice.")
    assert billing.as_tool(tool_name="ask_billing", tool_description="Money.").name == "ask_billing"


async def task_8_approvals():
    @function_tool(needs_approval=True)
    def cancel_order(number: int) -> str:
        """Cancel an order."""
        return f"{number} is cancelled"

    agent = Agent(
        name="a", tools=[cancel_order], model=Script(call("cancel_order", number=7), text("Cancelled."))
    )
    result = await Runner.run(agent, "Cancel 7.", run_config=QUIET)
    state = await RunState.from_json(agent, json.loads(json.dumps(result.to_state().to_json())))
    for each in state.get_interruptions():
        state.approve(each)
    assert (await Runner.run(agent, state, run_config=QUIET)).final_output == "Cancelled."


def task_9_tests():
    agent = Agent(name="a", model=Script(text("Hi.")))
    assert Runner.run_sync(agent, "Hello", run_config=QUIET).final_output == "Hi."


def task_10_guardrails():
    @function_tool(failure_error_function=lambda ctx, error: f"failed: {error}")
    def search(query: str) -> str:
        """Search."""
        raise ConnectionError("no network")

    @output_guardrail
    async def is_polite(ctx, agent, output):
        return GuardrailFunctionOutput(output_info=None, tripwire_triggered="idiot" in output)

    model = Script(call("search", query="tea"), text("idiots!"))
    agent = Agent(name="a", tools=[search], output_guardrails=[is_polite], model=model)
    try:
        Runner.run_sync(agent, "?", run_config=QUIET)
    except OutputGuardrailTripwireTriggered:
        assert "failed: no network" in str(model.inputs[1])
        return
    raise AssertionError("no tripwire")


if __name__ == "__main__":
    run_tasks(globals(), "openai-agents")

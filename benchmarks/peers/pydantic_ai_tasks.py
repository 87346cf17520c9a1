"""The ten tasks of `docs/coming-from/pydantic-ai.md` as they are done there."""

from pydantic import BaseModel
from pydantic_ai import (
    Agent,
    DeferredToolRequests,
    DeferredToolResults,
    FunctionToolset,
    ModelResponse,
    ModelRetry,
    RunContext,
    TextPart,
    ToolCallPart,
    UsageLimitExceeded,
    UsageLimits,
)
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.models.test import TestModel
from run_tasks import run_tasks


class Trip(BaseModel):
    city: str
    days: int


def script(*parts):
    left = list(parts)
    return FunctionModel(lambda messages, info: ModelResponse(parts=[left.pop(0)]))


def rainfall(city: str) -> str:
    """Say how much rain fell today."""
    return f"2 mm in {city}"


def task_1_tool():
    agent = Agent(script(ToolCallPart("rainfall", {"city": "Oslo"}), TextPart("2 mm")), tools=[rainfall])

    @agent.tool_plain
    def sun(city: str) -> str:
        return city

    assert agent.run_sync("Was it wet?").output == "2 mm"


def task_2_output():
    answers = [{"city": "Oslo", "days": 20}, {"city": "Oslo", "days": 2}]
    model = FunctionModel(
        lambda messages, info: ModelResponse(parts=[ToolCallPart(info.output_tools[0].name, answers.pop(0))])
    )
    agent = Agent(model, output_type=Trip)

    @agent.output_validator
    def is_short(trip: Trip) -> Trip:
        if trip.days > 14:
            raise ModelRetry("At most 14 days.")
        return trip

    assert agent.run_sync("Plan.").output == Trip(city="Oslo", days=2)


def task_3_deps():
    agent = Agent(TestModel(), deps_type=dict)

    @agent.tool
    def stock(ctx: RunContext[dict], item: str) -> int:
        return ctx.deps.get(item, 3)

    assert "3" in agent.run_sync("?", deps={}).output


async def task_4_stream():
    agent = Agent(TestModel(custom_output_text="hello you"))
    async with agent.run_stream("Hi") as result:
        assert [text async for text in result.stream_text()][-1] == "hello you"
    stream = agent.run_stream_events("Hi")
    if hasattr(stream, "__aenter__"):
        async with stream as events:
            assert [event async for event in events]
    else:
        assert [event async for event in stream]
    async with agent.iter("Hi") as run:
        assert [node async for node in run]


def task_5_limits():
    limits = UsageLimits(request_limit=1, total_tokens_limit=9000, tool_calls_limit=5)
    try:
        Agent(TestModel(), tools=[rainfall]).run_sync("?", usage_limits=limits)
    except UsageLimitExceeded:
        return
    raise AssertionError("no limit")


def task_6_history():
    agent = Agent(TestModel())
    first = agent.run_sync("I am Ada.")
    assert len(agent.run_sync("Who?", message_history=first.all_messages()).all_messages()) == 4


def task_7_agents():
    poet = Agent(TestModel(custom_output_text="sea"))
    agent = Agent(TestModel())

    @agent.tool
    async def verse(ctx: RunContext, about: str) -> str:
        return (await poet.run(about, usage=ctx.usage)).output

    assert "sea" in agent.run_sync("?").output


def task_8_approvals():
    agent = Agent(
        script(ToolCallPart("delete", {"path": "a"}, "c1"), TextPart("gone")),
        output_type=[str, DeferredToolRequests],
    )

    @agent.tool_plain(requires_approval=True)
    def delete(path: str) -> str:
        return f"{path} is gone"

    first = agent.run_sync("Delete it.")
    assert isinstance(first.output, DeferredToolRequests)
    results = DeferredToolResults(approvals={call.tool_call_id: True for call in first.output.approvals})
    then = agent.run_sync(message_history=first.all_messages(), deferred_tool_results=results)
    assert then.output == "gone"


def task_9_tests():
    agent = Agent()
    with agent.override(model=TestModel(custom_output_text="Hi.")):
        assert agent.run_sync("Hello").output == "Hi."


def task_10_retry_and_toolsets():
    def book(day: str) -> str:
        if not day[:1].isdigit():
            raise ModelRetry("Write the day like 2031-05-14.")
        return f"booked for {day}"

    tools = FunctionToolset([book])
    assert tools.filtered(lambda ctx, each: True).prefixed("x").approval_required()
    model = script(
        ToolCallPart("inn_book", {"day": "Friday"}),
        ToolCallPart("inn_book", {"day": "2031-05-16"}),
        TextPart("Done."),
    )
    assert Agent(model, toolsets=[tools.prefixed("inn")], retries=1).run_sync("?").output == "Done."


if __name__ == "__main__":
    run_tasks(globals(), "pydantic-ai-slim")

"""The ten tasks of `docs/coming-from/smolagents.md` as they are done there."""

from PIL import Image
from run_tasks import run_tasks
from smolagents import AgentError, ChatMessage, CodeAgent, MessageRole, Model, ToolCallingAgent, tool
from smolagents.models import ChatMessageToolCall, ChatMessageToolCallFunction


class Script(Model):
    """A `Model` of one's own with `generate`, which is how agents are tested there."""

    def __init__(self, *items):
        super().__init__(model_id="script")
        self.items, self.seen = list(items), []

    def generate(self, messages, **kwargs):
        self.seen.append(messages)
        return self.items.pop(0)


def call(name, **arguments):
    function = ChatMessageToolCallFunction(name=name, arguments=arguments)
    return ChatMessage(
        role=MessageRole.ASSISTANT,
        content="",
        tool_calls=[ChatMessageToolCall(id="c", type="function", function=function)],
    )


def agent_of(*items, **options):
    return ToolCallingAgent(**{"tools": [], "model": Script(*items), "verbosity_level": 0, **options})


@tool
def travel_time(start: str, end: str) -> str:
    """Say how long a journey takes.

    Args:
        start: Where it begins.
        end: Where it ends.
    """
    return f"{start} to {end}: 4 hours"


def task_1_tool():
    agent = agent_of(
        call("travel_time", start="Oslo", end="Bergen"), call("final_answer", answer="4"), tools=[travel_time]
    )
    assert agent.run("How long?") == "4"
    assert issubclass(CodeAgent, type(agent).__mro__[1])


def task_2_output():
    checks = [lambda answer, memory, agent=None: answer["Oslo"] > 0]
    agent = agent_of(
        call("final_answer", answer={"Oslo": -4}),
        call("final_answer", answer={"Oslo": 4}),
        final_answer_checks=checks,
    )
    assert agent.run("?") == {"Oslo": 4}


def task_3_arguments():
    agent = agent_of(call("final_answer", answer="ok"))
    agent.run("?", additional_args={"prices": [2, 4]})
    assert "prices" in str(agent.model.seen[0])


def task_4_stream():
    agent = agent_of(call("final_answer", answer="ok"), step_callbacks=[lambda step, agent=None: None])
    assert list(agent.run("?", stream=True))


def task_5_limits():
    words = ChatMessage(role=MessageRole.ASSISTANT, content="so far")
    agent = agent_of(call("travel_time", start="a", end="b"), words, tools=[travel_time], max_steps=1)
    assert "so far" in str(agent.run("?"))


def task_6_memory():
    agent = agent_of(call("final_answer", answer="hello"), call("final_answer", answer="Ada"))
    agent.run("I am Ada.")
    agent.run("Who am I?", reset=False)
    assert "I am Ada." in str(agent.model.seen[1])
    assert agent.memory.steps


def task_7_managed():
    reader = agent_of(call("final_answer", answer="a boat"), name="reader", description="Finds things.")
    manager = agent_of(
        call("reader", task="dinghy?"), call("final_answer", answer="a boat"), managed_agents=[reader]
    )
    assert manager.run("?") == "a boat"


def task_8_interrupt():
    def stop(step, agent=None):
        agent.interrupt()

    agent = agent_of(
        *[call("travel_time", start="a", end="b")] * 3, tools=[travel_time], step_callbacks=[stop]
    )
    try:
        agent.run("?")
        raise AssertionError("it went on")
    except AgentError:
        assert len(agent.model.seen) == 1


def task_9_tests():
    assert agent_of(call("final_answer", answer="Hi.")).run("Hello") == "Hi."


def task_10_images():
    picture = Image.new("RGB", (2, 1), "red")
    agent = agent_of(call("final_answer", answer="red"))
    assert agent.run("What is in it?", images=[picture]) == "red"
    seen = [part for message in agent.model.seen[0] for part in message.content if part["type"] == "image"]
    assert [part["image"] for part in seen] == [picture]
    assert [type(step).__name__ for step in agent.memory.steps] == ["TaskStep", "ActionStep"]


def task_11_planning():
    plan = ChatMessage(role=MessageRole.ASSISTANT, content="first look, then answer")
    agent = agent_of(plan, call("final_answer", answer="ok"), planning_interval=1)
    assert agent.run("?") == "ok"
    assert "PlanningStep" in [type(step).__name__ for step in agent.memory.steps]


if __name__ == "__main__":
    run_tasks(globals(), "smolagents")

"""The ten tasks of `docs/coming-from/langgraph.md` as they are done there, with langchain."""

from dataclasses import dataclass

from langchain.agents import create_agent
from langchain.agents.structured_output import ToolStrategy
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.config import get_stream_writer
from langgraph.errors import GraphRecursionError
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.runtime import Runtime
from langgraph.types import Command, RetryPolicy, interrupt
from pydantic import BaseModel
from run_tasks import run_tasks


class Script(GenericFakeChatModel):
    """A fake chat model of langchain-core; it does not take tools by itself."""

    def bind_tools(self, tools, **kwargs):
        return self


def model(*items):
    return Script(messages=iter([each if isinstance(each, AIMessage) else AIMessage(each) for each in items]))


def call(name, **arguments):
    return AIMessage("", tool_calls=[{"name": name, "args": arguments, "id": f"c-{name}"}])


@tool
def convert(amount: float, currency: str) -> str:
    """Convert an amount to euros."""
    return f"{amount} {currency} are {amount / 2} euros"


def ask(words):
    return {"messages": [{"role": "user", "content": words}]}


def task_1_tool():
    from langgraph.prebuilt import create_react_agent

    script = (call("convert", amount=20, currency="marks"), "10 euros")
    assert callable(create_react_agent)
    assert create_agent(model(*script), [convert]).invoke(ask("?"))["messages"][-1].content == "10 euros"


def task_2_output():
    class Rating(BaseModel):
        """A rating."""

        stars: int

    agent = create_agent(model(call("Rating", stars=4)), [convert], response_format=ToolStrategy(Rating))
    assert agent.invoke(ask("?"))["structured_response"] == Rating(stars=4)


def task_3_context():
    @dataclass
    class Who:
        name: str

    def greet(state: MessagesState, runtime: Runtime[Who]):
        return {"messages": [AIMessage(f"Hello, {runtime.context.name}")]}

    graph = StateGraph(MessagesState, context_schema=Who).add_node("greet", greet).add_edge(START, "greet")
    assert graph.compile().invoke(ask("?"), context=Who("Ann"))["messages"][-1].content == "Hello, Ann"


def task_4_stream():
    @tool
    def scan(folder: str) -> str:
        """Look through a folder."""
        get_stream_writer()(f"in {folder}")
        return "3 files"

    agent = create_agent(model(call("scan", folder="Oslo"), "3"), [scan])
    assert list(agent.stream(ask("?"), stream_mode="custom")) == ["in Oslo"]
    again = create_agent(model("hello you"), [])
    assert list(again.stream(ask("?"), stream_mode="messages"))


def task_5_limits():
    agent = create_agent(model(*[call("convert", amount=1, currency="x")] * 9), [convert])
    try:
        agent.invoke(ask("?"), {"recursion_limit": 4})
    except GraphRecursionError:
        return
    raise AssertionError("no limit")


def task_6_threads():
    agent = create_agent(model("hello", "Ada"), [], checkpointer=InMemorySaver())
    config = {"configurable": {"thread_id": "1"}}
    agent.invoke(ask("I am Ada."), config)
    assert len(agent.invoke(ask("Who am I?"), config)["messages"]) == 4
    assert len(list(agent.get_state_history(config))) > 2


def task_7_handoffs():
    def desk(state: MessagesState):
        return Command(goto="hotels")

    def hotels(state: MessagesState):
        return {"messages": [AIMessage("Room 12 is yours.")]}

    graph = StateGraph(MessagesState).add_node("desk", desk, destinations=("hotels",)).add_node(hotels)
    found = graph.add_edge(START, "desk").compile().invoke(ask("?"))
    assert found["messages"][-1].content == "Room 12 is yours."
    assert Command(goto="x", graph=Command.PARENT)


def task_8_interrupts():
    begun = []

    @tool
    def pay(amount: float) -> str:
        """Pay a bill."""
        begun.append(amount)
        return f"paid {amount}" if interrupt("Pay?") else "not paid"

    agent = create_agent(model(call("pay", amount=5), "Paid."), [pay], checkpointer=InMemorySaver())
    config = {"configurable": {"thread_id": "1"}}
    assert agent.invoke(ask("Pay."), config)["__interrupt__"]
    assert agent.invoke(Command(resume=True), config)["messages"][-1].content == "Paid."
    assert begun == [5, 5]  # it ran again from its beginning


def task_9_tests():
    assert create_agent(model("Hi."), []).invoke(ask("Hello"))["messages"][-1].content == "Hi."


def task_10_retries():
    tries = []

    def price(state: MessagesState):
        tries.append(1)
        if len(tries) == 1:
            raise ConnectionError("busy")
        return {"messages": [AIMessage("2 euros")]}

    policy = RetryPolicy(initial_interval=0.01)
    graph = StateGraph(MessagesState).add_node("price", price, retry_policy=policy).add_edge(START, "price")
    assert graph.compile().invoke(ask("?"))["messages"][-1].content == "2 euros"
    assert ToolNode([convert], handle_tool_errors=True)


if __name__ == "__main__":
    run_tasks(globals(), "langgraph", "langchain")

"""The ten tasks of `docs/coming-from/langgraph.md` as they are done there, with langchain."""

from contextlib import suppress
from dataclasses import dataclass

from langchain.agents import create_agent
from langchain.agents.structured_output import ToolStrategy
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.config import get_stream_writer
from langgraph.errors import GraphRecursionError
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, ToolRuntime, create_react_agent
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
    for make in (create_agent, create_react_agent):
        agent = make(model(call("convert", amount=20, currency="marks"), "10 euros"), [convert])
        assert agent.invoke(ask("?"))["messages"][-1].content == "10 euros"


def task_2_output():
    class Rating(BaseModel):
        """A rating."""

        stars: int

    for form in (Rating, ToolStrategy(Rating)):
        agent = create_agent(model(call("Rating", stars=4)), [convert], response_format=form)
        assert agent.invoke(ask("?"))["structured_response"] == Rating(stars=4)
    older = create_react_agent(
        model("Four stars.", call("Rating", stars=4)), [convert], response_format=Rating
    )
    assert older.invoke(ask("?"))["structured_response"] == Rating(stars=4)  # by a second request


def task_3_context():
    @dataclass
    class Who:
        name: str

    def greet(state: MessagesState, runtime: Runtime[Who]):
        return {"messages": [AIMessage(f"Hello, {runtime.context.name}")]}

    graph = StateGraph(MessagesState, context_schema=Who).add_node("greet", greet).add_edge(START, "greet")
    assert graph.compile().invoke(ask("?"), context=Who("Ann"))["messages"][-1].content == "Hello, Ann"

    def greet_too(state: MessagesState, config: RunnableConfig):
        return {"messages": [AIMessage(f"Hello, {config['configurable']['name']}")]}

    graph = StateGraph(MessagesState).add_node("greet", greet_too).add_edge(START, "greet").compile()
    assert graph.invoke(ask("?"), {"configurable": {"name": "Bo"}})["messages"][-1].content == "Hello, Bo"


def task_4_stream():
    @tool
    def scan(folder: str) -> str:
        """Look through a folder."""
        get_stream_writer()(f"in {folder}")
        return "3 files"

    agent = create_agent(model(call("scan", folder="Oslo"), "3"), [scan])
    assert list(agent.stream(ask("?"), stream_mode="custom")) == ["in Oslo"]
    for mode in ("messages", "updates"):
        assert list(create_agent(model("hello you"), []).stream(ask("?"), stream_mode=mode))


def task_5_limits():
    agent = create_agent(model(*(call("convert", amount=1, currency="x") for _ in range(9))), [convert])
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
    tries = []

    def fails_once(state: MessagesState):
        tries.append(1)
        if len(tries) == 1:
            raise ConnectionError("busy")
        return {"messages": [AIMessage("done")]}

    graph = StateGraph(MessagesState).add_node("first", lambda state: {"messages": [AIMessage("begun")]})
    graph.add_node("second", fails_once).add_edge(START, "first").add_edge("first", "second")
    saved = graph.compile(checkpointer=InMemorySaver())
    with suppress(ConnectionError):
        saved.invoke(ask("?"), config)
    assert [each.content for each in saved.invoke(None, config)["messages"]] == ["?", "begun", "done"]
    assert len(tries) == 2


def task_7_handoffs():
    @tool
    def transfer_to_hotels(runtime: ToolRuntime) -> Command:
        """Hand over."""
        done = ToolMessage("handed over", tool_call_id=runtime.tool_call_id)
        messages = [*runtime.state["messages"], done]
        return Command(goto="hotels", graph=Command.PARENT, update={"messages": messages})

    flights = create_agent(model(call("transfer_to_hotels")), [transfer_to_hotels])
    hotels = create_agent(model("Room 12 is yours."), [])
    graph = StateGraph(MessagesState).add_node("flights", flights, destinations=("hotels",))
    found = graph.add_node("hotels", hotels).add_edge(START, "flights").compile().invoke(ask("?"))
    assert found["messages"][-1].content == "Room 12 is yours."


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

    @tool
    def breaks() -> str:
        """Break."""
        raise ValueError("it is closed")

    def errors_of(tools):
        agent = create_agent(model(call("breaks"), "So be it."), tools)
        return [each.content for each in agent.invoke(ask("?"))["messages"] if each.type == "tool"]

    try:
        errors_of([breaks])
        raise AssertionError("an error of a tool was told to the model")
    except ValueError:
        pass
    node = StateGraph(MessagesState).add_node("tools", ToolNode([breaks], handle_tool_errors=True))
    told = node.add_edge(START, "tools").compile().invoke({"messages": [call("breaks")]})
    assert "it is closed" in told["messages"][-1].content


if __name__ == "__main__":
    run_tasks(globals(), "langgraph", "langchain")

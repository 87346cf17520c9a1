"""Memory, and another way out: a session on disk, copied up to a step, gone on from there."""

import tempfile

from examples.models import model
from pure_agent_loop import Agent, SessionManager, tool
from pure_agent_loop.sessions import JsonlStore
from pure_agent_loop.testing import call


@tool(read_only=True)
def search(query: str) -> str:
    """Search the web."""
    return f"Three pages about {query}."


llm = model(call("search", query="tea"), "There are three pages.", "You are Ada.", "I do not know your name.")
with tempfile.TemporaryDirectory() as folder:
    agent = Agent(llm=llm, tools=[search], sessions=JsonlStore(folder))
    agent.run("I am Ada. What is there about tea?", session_id="first")
    print(agent.run("Who am I?", session_id="first").content)

    sessions = SessionManager(JsonlStore(folder))
    second = sessions.fork("first", step=2)  # as it stood before the last question
    print(agent.run("Forget what I said. Who am I?", session_id=second).content)
    for info in sessions.list():
        print(sessions.load(info.id).messages[-2]["content"])

# Output:
# You are Ada.
# I do not know your name.
# Forget what I said. Who am I?
# Who am I?

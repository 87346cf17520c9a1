"""A task known from LangGraph: a person looks at a call before it is made, maybe in another process."""

import json

from pure_agent_loop import Agent, QueryState, tool


@tool(destructive=True)
def publish(title: str) -> str:
    """Publish an article."""
    return f"{title!r} is published"


agent = Agent(tools=[publish])
result = agent.run("Publish the article about Oslo.")
saved = json.dumps(result.state.to_dict())  # to a file or a database; nothing was published yet
print(f"({result.stop_reason})")

state = QueryState.from_dict(json.loads(saved))
for question in state.questions:
    print(f"{question.tool}({question.args}): allowed")
    state.answer_permission(question.call_id, "allow")
print(agent.run(None, state=state).content)

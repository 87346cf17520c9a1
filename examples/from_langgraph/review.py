"""A person looks at a call before it is made, maybe days later in another process, and may change it."""

import json

from examples.models import ask, model
from pure_agent_loop import Agent, Permission, QueryState, tool
from pure_agent_loop.testing import call


@tool(destructive=True)
def publish(title: str) -> str:
    """Publish an article."""
    return f"{title!r} is published"


agent = Agent(llm=model(call("publish", title="Olso"), "It is online."), tools=[publish])
result = agent.run("Publish the article about Oslo.")
saved = json.dumps(result.state.to_dict())  # to a file or a database; nothing was published yet
print(f"({result.stop_reason})")

state = QueryState.from_dict(json.loads(saved))
for question in state.questions:
    answer = ask(f"{question.tool}({question.args}): Enter for yes, 'no', or another title?", "Oslo")
    if answer == "no":
        verdict = Permission("deny", "A person said no.")
    else:
        verdict = Permission("allow", updated_args={"title": answer} if answer else None)
    state.answer_permission(question.call_id, verdict)
result = agent.run(None, state=state)
print(result.messages[-2]["content"])
print(result.content)

# Output:
# (waiting_permission)
# publish({'title': 'Olso'}): Enter for yes, 'no', or another title? Oslo
# 'Oslo' is published
#
# (The arguments of this call were changed before it ran. It ran with: {"title": "Oslo"})
# It is online.

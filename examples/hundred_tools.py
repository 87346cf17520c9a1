"""A hundred tools behind one that searches: the model reads only those that it looks for."""

from pure_agent_loop import Agent, EventType, Tool
from pure_agent_loop.toolsets import searchable

VERBS = ["create", "read", "update", "delete", "list", "send", "print", "archive", "copy", "sign"]
THINGS = ["invoice", "order", "letter", "bill", "parcel", "contract", "ticket", "report", "offer", "label"]


def done(number: int) -> str:
    return f"done with number {number}"


many = [
    Tool(done, name=f"{verb}_{thing}", description=f"{verb.capitalize()} one {thing}.")
    for verb in VERBS
    for thing in THINGS
]
agent = Agent(tools=[searchable(many, about="invoices, orders, letters, parcels and more", most=3)])

for event in agent.run_stream("Send letter 12."):
    if event.type is EventType.ACTION:
        print(f"calls {event.tool} with {event.args}")
    elif event.type is EventType.OBSERVATION and event.tool == "send_letter":
        print(event.result)
    elif event.type is EventType.LOOP_END:
        print(event.content)
first = agent.explain("Send letter 12.").request
print(f"{len(many)} tools, of which the first request holds {len(first['tools'])}")

# Output:
# calls search_tools with {'query': 'send a letter'}
# calls send_letter with {'number': 12}
# done with number 12
# Letter 12 is sent.
# 100 tools, of which the first request holds 1

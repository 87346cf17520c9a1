"""Showing events in your own way: a template for one tool, one for one kind of event, the rest as it is."""

from pure_agent_loop import Agent, Event, EventType, Renderer


def search(query: str, limit: int = 3) -> list[str]:
    """Search the notes.

    Args:
        query: What to look for.
        limit: Most results to return.
    """
    return [f"note {number} about {query}" for number in range(1, limit + 1)]


renderer = Renderer()


@renderer.on_tool("search")
def show_search(event: Event) -> str:
    if event.type is EventType.ACTION:
        return f"Looking for {event.data['args'].get('query')!r} ..."
    return f"Found: {event.content}"


@renderer.on_event(EventType.LOOP_END)
def show_end(event: Event) -> str:
    return f"Done ({event.data['stop_reason']})."


for event in Agent(tools=[search]).run_stream("What do my notes say about tea?"):
    if text := renderer.render(event):
        print(text)

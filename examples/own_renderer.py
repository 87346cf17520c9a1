"""A renderer of your own: templates for one tool and for one kind of event, the defaults for the rest."""

from pure_agent_loop import Agent, Event, EventType, Renderer


def search(query: str, limit: int = 3) -> list[str]:
    """Search the notes.

    Args:
        query: Text to look for.
        limit: Maximum number of results.
    """
    return [f"note {number} about {query}" for number in range(1, limit + 1)]


renderer = Renderer()


@renderer.on_tool("search")
def show_search(event: Event) -> str:
    return f"Looking for {event.data['args']['query']!r} ..."


@renderer.on_tool("search", result=True)
def show_found(event: Event) -> str:
    return f"Found: {event.content}"


@renderer.on_event(EventType.LOOP_END)
def show_end(event: Event) -> str:
    return f"Done ({event.data['stop_reason']})."


for event in Agent(model="gpt-5-mini", tools=[search]).run_stream("What do my notes say about tea?"):
    renderer.print(event)

# Output:
# == What do my notes say about tea?
# -- Model: gpt-5-mini at http://127.0.0.1:8000/v1, as configured.
# Looking for 'tea' ...
# Found: ["note 1 about tea", "note 2 about tea"]
# Two notes are about tea.
# Done (completed).

"""A task known from openai-agents: one agent that lets others translate, and uses them as tools."""

from pure_agent_loop import Agent, EventType

LANGUAGES = ("Spanish", "French", "Chinese")
translators = [
    Agent(
        name=f"to_{language.lower()}",
        description=f"Translates a text into {language}.",
        system_prompt=f"Translate what you are given into {language}. Write nothing else.",
    )
    for language in LANGUAGES
]
editor = Agent(
    tools=[each.as_tool() for each in translators],
    system_prompt="Let your tools translate. Never translate yourself.",
)
for event in editor.run_stream("Say 'Good morning' in Spanish."):
    if event.type is EventType.ACTION:
        print(f"asks {event.tool}")
    elif event.type is EventType.LOOP_END:
        print(event.content)

"""Agents as tools of another one: it lets each translate into one language, and an editor reads it all."""

from examples.models import model
from pure_agent_loop import Agent, EventType
from pure_agent_loop.testing import call

SAYS = {"Spanish": "Hola, mundo.", "French": "Bonjour, le monde.", "Italian": "Ciao, mondo."}
translators = [
    Agent(
        llm=model(text),
        name=f"to_{language.lower()}",
        description=f"Translates a text into {language}.",
        system_prompt=f"Translate what you are given into {language}. Write nothing else.",
    )
    for language, text in SAYS.items()
]
leader = Agent(
    llm=model(
        [call("to_french", input="Hello, world!"), call("to_spanish", input="Hello, world!")],
        "French: Bonjour, le monde. Spanish: Hola, mundo.",
    ),
    tools=translators,
    system_prompt="Let your tools translate. Never translate yourself.",
)
editor = Agent(
    llm=model("Bonjour, le monde ! / ¡Hola, mundo!"),
    system_prompt="Correct the translations, and write them in one line.",
)

result = leader.run("Translate 'Hello, world!' into French and Spanish.")
for event in result.events:
    if event.type is EventType.OBSERVATION:
        print(f"{event.tool}: {event.result}")
print(editor.run(result.content).content)

# Output:
# to_french: Bonjour, le monde.
# to_spanish: Hola, mundo.
# Bonjour, le monde ! / ¡Hola, mundo!

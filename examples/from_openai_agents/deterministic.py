"""A fixed order of agents: an outline, a gate that judges it, and the story if it passes."""

from dataclasses import dataclass

from examples.models import model
from pure_agent_loop import Agent


@dataclass
class Judgement:
    is_good: bool
    is_science_fiction: bool


outliner = Agent(llm=model("A robot learns to sail."), system_prompt="Write the outline of a story.")
judge = Agent(
    llm=model('{"is_good": true, "is_science_fiction": true}'),
    output_type=Judgement,
    system_prompt="Judge the outline of a story.",
)
writer = Agent(llm=model("Unit 7 raised the sail."), system_prompt="Write a short story from the outline.")

outline = outliner.run("A short science fiction story.").unwrap()
judgement = judge.run(outline).unwrap()
if not judgement.is_good:
    print("The outline is not good enough.")
elif not judgement.is_science_fiction:
    print("That is no science fiction.")
else:
    print(writer.run(outline).unwrap())

# Output:
# Unit 7 raised the sail.

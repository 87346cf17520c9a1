"""A writer and a teacher: each draft is criticised and written again."""

from examples.models import model
from pure_agent_loop import Agent

writer = Agent(
    llm=model("Books are nice.", "Books let us be others.", "A book lends you another life."),
    system_prompt="Write a very short essay. Revise it when you are given criticism.",
).conversation()
teacher = Agent(
    llm=model("Too plain. Say what they do.", "Better. Make it a picture."),
    system_prompt="Grade the essay, and say how to improve it.",
).conversation()

essay = writer.send_sync("An essay on why books matter.").unwrap()
for _ in range(2):
    criticism = teacher.send_sync(essay).unwrap()
    print(f"- {essay}\n  {criticism}")
    essay = writer.send_sync(criticism).unwrap()
print(f"- {essay}")

# Output:
# - Books are nice.
#   Too plain. Say what they do.
# - Books let us be others.
#   Better. Make it a picture.
# - A book lends you another life.

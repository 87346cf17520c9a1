"""One agent writes, another one judges, until it passes or the rounds are over."""

from dataclasses import dataclass
from typing import Literal

from examples.models import model
from pure_agent_loop import Agent


@dataclass
class Verdict:
    score: Literal["pass", "needs_improvement", "fail"]
    feedback: str


writer = Agent(
    llm=model("A detective counts stars.", "A detective counts stars, and one is missing."),
    system_prompt="Write the outline of a story, in one sentence. Use the feedback you get.",
).conversation()
judge = Agent(
    llm=model(
        '{"score": "needs_improvement", "feedback": "Nothing happens."}', '{"score": "pass", "feedback": ""}'
    ),
    output_type=Verdict,
    system_prompt="Judge the outline of a story, and say what to improve.",
)

outline = writer.send_sync("A detective story in space.").unwrap()
for _ in range(5):
    verdict = judge.run(outline).unwrap()
    print(f"{verdict.score}: {outline}")
    if verdict.score == "pass":
        break
    outline = writer.send_sync(f"Feedback: {verdict.feedback}").unwrap()

# Output:
# needs_improvement: A detective counts stars.
# pass: A detective counts stars, and one is missing.

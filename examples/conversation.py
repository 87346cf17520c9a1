"""Several messages, one history."""

from pure_agent_loop import Agent

conversation = Agent(system_prompt="You are a friendly librarian.").conversation()
for line in ("My name is Ada.", "What is my name?"):
    print("You:  ", line)
    print("Agent:", conversation.send_sync(line).content)
print(f"({len(conversation.messages)} messages in the history)")

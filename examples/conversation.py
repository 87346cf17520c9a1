"""A conversation: several messages, one history."""

from pure_agent_loop import Agent

conversation = Agent(system_prompt="You are a friendly librarian.").conversation()
for message in ("My name is Ada.", "What is my name?"):
    print("You:  ", message)
    print("Agent:", conversation.send_sync(message).content)
print(f"{len(conversation.messages)} messages in the history")

# Output:
# You:   My name is Ada.
# Agent: Welcome to the library, Ada!
# You:   What is my name?
# Agent: Your name is Ada.
# 4 messages in the history

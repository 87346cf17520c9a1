"""Examples that openai-agents has, written for this library."""

"""Examples that LangGraph has, written for this library."""

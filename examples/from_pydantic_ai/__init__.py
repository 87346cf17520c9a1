"""Examples that pydantic-ai has, written for this library."""

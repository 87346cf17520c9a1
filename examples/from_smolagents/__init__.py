"""Examples that smolagents has, written for this library."""

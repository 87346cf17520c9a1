"""A run, from outside: made, started, read."""

"""The interactive conversation at a terminal: rendering, input and commands."""

"""The commands: each module has a command's arguments and implementation."""
